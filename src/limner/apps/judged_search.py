"""Judged topics asked of a library, channel by channel: what ``limner evaluate --qrels`` does.

It puts library, channels and `limner.evaluation.judged` together and prints.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from limner.apps.equipment import CHANNELS, channels_of
from limner.apps.terminal import emit, emit_json, emit_table, say
from limner.data.judgements import read_qrels, read_topics
from limner.data.language import languages_of
from limner.evaluation.judged import METRICS, PREFERRED, JudgedResult, JudgedTask, evaluate_judged
from limner.evaluation.uncertainty import Interval
from limner.retrieval.channels import EncodedChannel
from limner.retrieval.index import Index
from limner.retrieval.library import Library
from limner.retrieval.own_calibration import calibrated


def judged_search(
    qrels: Path, topics: Path, library: Path, channel: Sequence[str] = (), *, json: bool = False
) -> None:
    """Rank all pictures of a library for every judged topic, and print where the right ones stand.

    Args:
        qrels: judgements in TREC format, of picture ids.
        topics: their words.
        library: folder of the library.
        channel: names; none for all that the library has.
        json: print JSON.
    Raises:
        LimnerError: as `read_qrels`, `read_topics`, `JudgedTask.of` and `channels_of`.
    """
    judged, words = read_qrels(qrels), read_topics(topics)
    opened = Library.open(library)
    channels = channels_of(opened, channel, calibrated(opened, CHANNELS)[0])
    index = Index(opened.gallery(sorted({one.space for one in channels})))
    task = JudgedTask.of(judged, words, index.gallery.ids)
    if task.absent or task.silent:
        say(
            f"{task.absent} judged pictures are not in this library;"
            f" {len(task.silent)} topics have no right picture in it and are no queries"
        )
    rng, rows = np.random.default_rng(0), np.arange(task.size)

    def chance(texts: Sequence[str]) -> NDArray[np.floating]:
        return rng.standard_normal((len(texts), task.size), dtype=np.float32)

    def scores(texts: Sequence[str]) -> NDArray[np.floating]:
        codes = [one.code for one in languages_of(texts).each]
        return index.score([EncodedChannel.encode(one, list(texts), codes) for one in channels], rows).scores

    name = "+".join(one.name for one in channels)
    results = [evaluate_judged("random", task, chance)[0], evaluate_judged(name, task, scores)[0]]
    if json:
        emit_json([result.model_dump(mode="json") for result in results])
        return
    _print(results)


def _print(results: Sequence[JudgedResult]) -> None:
    from rich.table import Table

    shown = [name for name in (*METRICS, PREFERRED) if name in results[0].metrics]
    rows = [[result.system, *(_cell(name, result.metrics[name]) for name in shown)] for result in results]
    emit_table(Table("system", *shown, title="recalls and preferences in percent, 95 % intervals"), rows)
    first = results[0]
    emit(
        f"gallery {first.gallery}, topics {first.queries}, pairs {first.pairs};"
        " pictures that nobody judged count as wrong"
    )


def _cell(name: str, found: Interval) -> str:
    scale = 1 if name == "MedR" else 100
    low, value, high = (f"{scale * number:.1f}" for number in (found.low, found.value, found.high))
    return f"{value} ({low}–{high})"
