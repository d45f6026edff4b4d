"""Retrieval on real stories and photographs, with linear evidence; the test splits are opened here.

Makes: docs/results/illustration.md (all tables)

Every number comes with a 95 % bootstrap interval by story (by picture for the photographs).

    python benchmarks/storybook_results.py --cache /tmp/vectors --weights resnet50.safetensors storybook
"""

from collections.abc import Sequence

import numpy as np
from embeddings import CachedText, Pictures, encoders, parser

from limner.arrays import FloatArray, unit_rows
from limner.records import Story
from limner.research.datasets.audit import split_leak
from limner.research.datasets.pairs import Pair
from limner.research.datasets.sets.stories import StorySet
from limner.research.datasets.splits import split_stories
from limner.research.evaluation.decoding import max_marginals
from limner.research.evaluation.lattice import lattice
from limner.research.evaluation.linear import load
from limner.research.evaluation.pairwise import CosinePairwise
from limner.research.evaluation.ranking import Metric, rank
from limner.research.evaluation.stories import (
    Outcome,
    StoryTask,
    channel_scorer,
    evaluate_stories,
    random_scorer,
)
from limner.research.evaluation.uncertainty import Difference, Interval, difference, interval
from limner.store.search import Channel, EncodedChannel, Index
from limner.store.vectors import Gallery, Space

SHOWN = ("R@1", "R@5", "R@10", "MedR", "StR@1")


def space(vectors: FloatArray) -> Space:
    return Space(vectors.astype(np.float16), np.ones(len(vectors), dtype=bool))


def line(system: str, metrics: dict[str, Interval]) -> str:
    """One row of the table: recalls in percent, ranks as they are."""
    cells = []
    for name in SHOWN:
        if name not in metrics:
            cells.append("-")
            continue
        one, scale, digits = metrics[name], *((1, 0) if name == "MedR" else (100, 1))
        low, value, high = (f"{scale * number:.{digits}f}" for number in (one.low, one.value, one.high))
        cells.append(f"{value} ({low}–{high})")
    return f"| {system} | {' | '.join(cells)} |"


def header(title: str) -> None:
    print(f"\n{title}\n\n| system | {' | '.join(SHOWN)} |\n|---|{'---|' * len(SHOWN)}", flush=True)


def compare(first: Outcome, second: Outcome, name: str) -> Difference:
    """Paired bootstrap by story of one metric, first − second, on the same queries."""
    metric = Metric.parse(name)
    one, other = (
        metric.values(own.worlds if metric.kind == "StR" else own.pictures) for own in (first, second)
    )
    return difference(one, other, first.groups, metric.statistic)


def stories_table(stories: Sequence[Story], pictures: Pictures, text: CachedText, title: str) -> None:
    """Random, captions (absent for all), labels; each alone, as a chain and with an anchor."""
    task = StoryTask.of(stories)
    calibration = load()
    absent = Space(np.zeros((len(task.ids), text.dim), np.float16), np.zeros(len(task.ids), bool))
    spaces = {name: space(pictures.vectors(name, task.ids)) for name in ("visual", "labels")}
    index = Index(Gallery(task.ids, task.ids, {**spaces, "captions": absent}))
    calibrated = calibration.pairwise("visual")
    strength = ("labels",)  # the only channel that any picture of these sets has
    rows = np.arange(len(task.ids))

    def decoder(name: str):
        pair = CosinePairwise(index, "visual", rows, calibrated.evidence, calibrated.weight(name, strength))
        return lambda unary: max_marginals(lattice(unary.astype(float), rows, pair, allow_repeats=True), name)

    def channel(name: str) -> Channel:
        return calibration.channel(name, text)

    size = len(task.ids)
    systems = {
        "random": lambda: random_scorer(size),
        "constant": lambda: lambda story: np.zeros((len(story.steps), size), np.float32),
        "captions (none present)": lambda: channel_scorer(index, [channel("captions")]),
        "labels": lambda: channel_scorer(index, [channel("labels")]),
        "captions + labels": lambda: channel_scorer(index, [channel("captions"), channel("labels")]),
    }
    header(
        f"{title}: {task.queries} pages of {len(task.stories)} stories, {size} pictures,"
        f" {len(task.missing)} missing"
    )
    outcomes: dict[str, Outcome] = {}
    for system, scorer in systems.items():
        for name in (
            ("off", "chain", "anchor") if system not in ("constant", "captions + labels") else ("off",)
        ):
            label = f"{system}, {name}"
            chosen = None if name == "off" else decoder(name)
            outcomes[label] = evaluate_stories(label, task, scorer(), chosen)
            print(line(label, outcomes[label].result.metrics), flush=True)
    print()
    for first, second in (
        ("labels, off", "random, off"),
        ("labels, chain", "labels, off"),
        ("labels, anchor", "labels, off"),
    ):
        for name in ("R@1", "R@10", "MedR", "MRR", "StR@1"):
            gap = compare(outcomes[first], outcomes[second], name)
            print(
                f"{first} − {second}: {name} {gap.value:+.4f} ({gap.low:+.4f} … {gap.high:+.4f}),"
                f" p = {gap.p_value:.4f}"
            )
    own = [len({column for right in story for column in right}) for story in task.relevant]
    pages = [sum(bool(right) for right in story) for story in task.relevant]
    chance = float(np.average(own, weights=pages)) / size
    print(f"chance: R@1 {1 / size:.4f}, R@10 {10 / size:.4f}, MedR {(size + 1) / 2:g}, StR@1 {chance:.4f}")
    print(
        f"ties: {outcomes['labels, off'].result.tie_share:.4f} of the queries of labels, off; commit", end=" "
    )
    print(outcomes["labels, off"].result.commit)


def photographs_table(pictures: Pictures, text: CachedText) -> None:
    """Caption 0 asks for its photograph: captions hidden, shown (the other four), and both channels."""
    chosen = [one for one in pictures.data if one.split == "test"]
    calibration = load()
    vectors = text.encode_text([caption for one in chosen for caption in one.captions])
    vectors = vectors.reshape(len(chosen), -1, vectors.shape[1])
    ids = [one.name for one in chosen]
    shown = unit_rows("captions", vectors[:, 1:].mean(axis=1))
    gallery = Gallery(ids, ids, {"captions": space(shown), "labels": space(pictures.vectors("labels", ids))})
    index = Index(gallery)
    header(f"flickr8k test: {len(ids)} captions (the first of each), {len(ids)} photographs")
    for system, names in {
        "captions hidden: labels": ("labels",),
        "captions shown: captions": ("captions",),
        "captions shown: captions + labels": ("captions", "labels"),
    }.items():
        channels = [calibration.channel(name, text) for name in names]
        encoded = [
            EncodedChannel(one.name, one.space, one.evidence, vectors[:, 0], one.beside) for one in channels
        ]
        ranking = rank(index.score(encoded, np.arange(len(ids))).scores, [[row] for row in range(len(ids))])
        metrics = {}
        for name in ("R@1", "R@5", "R@10", "MedR"):
            metric = Metric.parse(name)
            metrics[name] = interval(metric.values(ranking), ids, metric.statistic)
        print(line(system, metrics), flush=True)


def main() -> None:
    arguments = parser(__doc__.splitlines()[0])
    arguments.add_argument("sets", nargs="+", choices=("storybook", "flickr8k", "howto", "recipes"))
    options = arguments.parse_args()
    text, pixels = encoders(options)
    for name in options.sets:
        pictures = Pictures(name, pixels[:1], options.cache)
        if not isinstance(pictures.data, StorySet):
            photographs_table(pictures, text)
            continue
        stories = pictures.data.stories
        if name == "storybook":
            test = pictures.data.split("test")
        else:
            test = [story for story in split_stories(stories) if story.split == "test"]
        ids = {story.id for story in test}
        leaks = split_leak(
            [
                Pair(
                    id=f"{story.id}-{number}",
                    text=step.text,
                    image=step.pictures[0].sha256 or step.pictures[0].target,
                    split="test" if story.id in ids else "train",
                    seq=story.id,
                )
                for story in stories
                for number, step in enumerate(story.steps)
                if step.pictures
            ]
        ).leak
        stories_table(test, pictures, text, f"{name} test")
        print(f"leak audit, test rows that other splits hold too: {leaks.model_dump()}")


if __name__ == "__main__":
    main()
