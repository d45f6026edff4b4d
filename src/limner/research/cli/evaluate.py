"""``limner evaluate``: retrieval from a library whose relevant pictures are known or were judged.

This module combines task, channels and decoders and prints intervals; `limner.research.evaluation` measures.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from rich.table import Table

from limner.arrays import FloatArray
from limner.cli.main import PLAIN, Flag, Many, emit, emit_json, emit_table, say
from limner.errors import ConfigError, DataError, counted
from limner.language import ENGLISH
from limner.library import library_to_search, open_store
from limner.pictures.decode import read_file
from limner.records import Story
from limner.research.datasets.sets.stories import read_stories
from limner.research.datasets.splits import split_stories
from limner.research.evaluation.decoding import max_marginals
from limner.research.evaluation.judged import JudgedResult, judged_search
from limner.research.evaluation.linear import cosine_pairwise, linear_channels, load, pair_space
from limner.research.evaluation.stories import (
    Decoder,
    StoryResult,
    StoryTask,
    channel_scorer,
    evaluate_stories,
    random_scorer,
)
from limner.research.evaluation.uncertainty import Interval
from limner.store import Store
from limner.store.search import Index
from limner.store.vectors import Gallery

SHOWN = ("R@1", "R@5", "R@10", "MedR", "StR@1")
Coupling = Literal["off", "chain", "anchor"]


def evaluate(
    data: Path | None = None,
    *,
    library: Path | None = None,
    qrels: Path | None = None,
    topics: Path | None = None,
    split: Literal["train", "val", "test"] = "test",
    channel: Many = (),
    weights: Many = (),
    decoder: Annotated[tuple[Coupling, ...], PLAIN] = ("off", "chain", "anchor"),
    json: Flag = False,
) -> None:
    """Measure how well a library's encoders retrieve pictures, on stories or your own relevance judgements.

    Every page is a query for its own picture among all pictures of the split; with --qrels, every topic is a
    query for the pictures judged relevant, among all pictures of the library. Intervals are 95 % bootstrap
    intervals over stories or topics. The first row is chance: random scores.

    Example: limner evaluate storybook --library lib --channel labels

    Parameters
    ----------
    data
        Folder with stories.jsonl and its pictures.
    library
        Path or URL of the library in which those pictures are indexed. Default: $LIMNER_LIBRARY,
        else the one used last (see 'limner library').
    qrels
        Instead of a data set: relevance judgements in TREC format, with picture ids as documents, as written
        by 'limner study preferences' from your changes in the studio. Needs --topics.
    topics
        Texts of the topics, one per line: id, tab, text.
    split
        Stories to use; a set without splits is split by source, always in the same way.
    channel
        captions, base, labels or clip (repeatable). Default: all the library has.
    weights
        Folder of CLIP's weights, or a folder of such folders; NAME=FOLDER names the model (repeatable).
    decoder
        Decoder: off, chain or anchor (repeatable).
    json
        Print all figures as JSON.
    """
    if qrels is not None or topics is not None:
        if data is not None or qrels is None or topics is None:
            raise ConfigError("evaluate: --qrels and --topics go together, without a data set")
        judged = judged_search(qrels, topics, open_store(library_to_search(library, say)), channel, weights)
        first = judged[0]
        if first.absent or first.silent:
            say(
                f"not in this library: {counted(first.absent, 'judged picture')};"
                f" left out, because no relevant picture is in it: {counted(len(first.silent), 'topic')}"
            )
        foot = (
            f"gallery {first.gallery}, topics {first.queries}, pairs {first.pairs};"
            " unjudged pictures count as not relevant"
        )
        _print(judged, tuple(first.metrics), "recalls and preferences", foot, rank_digits=1, as_json=json)
        return
    if data is None:
        raise ConfigError("evaluate: name a folder of stories, or --qrels and --topics")
    task = StoryTask.of(_stories(data, split))
    opened = open_store(library_to_search(library, say))
    # the data sets are English, for which a channel for other languages adds nothing to captions
    channels = linear_channels(opened, channel, weights=weights)
    channels = [one for one in channels if one.reads is None or ENGLISH in one.reads]
    compared = pair_space(opened.counts().model_copy(update={"vectors": opened.vectors()}))
    spaces = {one.space for one in channels} | ({compared} if compared else set())
    index = Index(_gallery(task, opened, sorted(spaces)))
    say(
        f"{counted(task.queries, 'page')} of {counted(len(task.stories), 'story')},"
        f" {counted(len(task.ids), 'picture')},"
        f" {counted(len(task.missing), 'page')} without a usable picture"
    )
    name = "+".join(one.name for one in channels)
    chance = random_scorer(len(task.ids))
    results = [evaluate_stories("random", task, chance, config={"split": split}).result]
    for coupling in decoder:
        scorer = channel_scorer(index, channels)
        coupled = None if coupling == "off" else _decoder(index, compared, coupling, name)
        config: dict[str, str | int | float | bool | None] = {"split": split, "decoder": coupling}
        results.append(evaluate_stories(f"{name}, {coupling}", task, scorer, coupled, config=config).result)
    made = results[0]
    foot = f"gallery {made.gallery}, queries {made.queries}, stories {made.stories}, commit {made.commit}"
    _print(results, SHOWN, "recalls", foot, rank_digits=0, as_json=json)


def _stories(data: Path, split: Literal["train", "val", "test"]) -> tuple[Story, ...]:
    """The stories of a split; a set without splits is split by source."""
    found = read_stories(data)
    if any(story.split for story in found.stories):
        return found.split(split)
    say(f"{data}: states no split; split by source")
    return tuple(story for story in split_stories(found.stories) if story.split == split)


def _gallery(task: StoryTask, library: Store, spaces: list[str]) -> Gallery:
    """The task's pictures with the library's vectors, matched by content.

    Raises:
        DataError: a picture of the task is not in the library.
    """
    contents = [read_file(os.fsencode(path)).sha256 for path in task.paths]
    try:
        found = library.index(spaces).gallery.of(contents)
    except DataError as error:
        raise DataError(f"{library.place}: lacks pictures of this data set ({error}); index them") from error
    return Gallery(task.ids, task.ids, found.spaces)


def _decoder(index: Index, space: str | None, name: Coupling, channels: str) -> Decoder:
    """Max-marginals of a decoder with the pairwise term of `linear.json`."""
    if space is None:
        raise ConfigError(
            f"--decoder {name}: the library has no vectors to compare pictures by; index it again"
        )
    pairs = load().pairwise(space)
    term = cosine_pairwise(index, space, pairs.evidence, pairs.weight(name, channels.split("+")))

    def decode(scores: FloatArray) -> FloatArray:
        return max_marginals(scores.astype(np.float64), term, name).astype(np.float32)

    return decode


def _print(
    results: Sequence[JudgedResult] | Sequence[StoryResult],
    shown: Sequence[str],
    what: str,
    foot: str,
    *,
    rank_digits: int,
    as_json: bool,
) -> None:
    """Print a table of figures with intervals, in percent except median ranks, and a line below it."""
    if as_json:
        emit_json(results)
        return

    def cell(name: str, found: Interval) -> str:
        scale, digits = (1, rank_digits) if name == "MedR" else (100, 1)
        low, value, high = (f"{scale * number:.{digits}f}" for number in (found.low, found.value, found.high))
        return f"{value} ({low}–{high})"

    table = Table("system", *shown, title=f"{what} in percent, 95 % intervals")
    emit_table(table, [[one.system, *(cell(name, one.metrics[name]) for name in shown)] for one in results])
    emit(foot)
