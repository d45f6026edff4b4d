"""Ordinary jobs, illustrated whole, against each step alone by plain search: docs/results/ordinary.md.

Makes: docs/results/ordinary.md, docs/results/index.md (whole texts)

Whole texts go through limner as a person's do, with default options unless --set says otherwise. Use
--part choose while something is being changed; --part report is for the final table.

    python benchmarks/ordinary_results.py --cache vectors
    python benchmarks/ordinary_results.py --cache vectors --part choose --kinds books --set decoder=off
"""

import argparse
import multiprocessing
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
from embeddings import encoders, parser
from ordinary.boards import Desk, Outcome
from ordinary.jobs import KINDS, PARTS, SIZES, WORDS, Job, jobs
from ordinary.measures import Figures, Share, figures
from ordinary.pictures import Words
from pydantic import TypeAdapter

from limner.config import Record
from limner.errors import DataError, LimnerError
from limner.files import write_text
from limner.research.evaluation.results import commit
from limner.research.evaluation.uncertainty import Difference, difference

COLUMNS = (
    "kind", "words", "library", "texts", "steps", "alone: own", "own", "gain in own",
    "alone: fits", "fits", "gain in fits", "blank, something fits", "shown, foreign", "shown, withheld",
    "calibration error",
)  # fmt: skip


# What is asked of the default, as shares.
LEAST_GAIN, LEAST_LOW = -0.005, -0.01
MOST_ERROR, MOST_BLANK, MOST_WRONG = 0.05, 0.1, 0.5
BLANK_SIZE = 300


class Cell(NamedTuple):
    """What the table says of one kind, words and size; "all" words of no size are all cells of a kind."""

    kind: str
    words: str
    size: int | None
    figures: Figures


class Step(Record):
    """What a step of a cell was given: the id of its picture, None for a blank, and whether it fits."""

    cell: tuple[str, str, int]
    text: str
    chosen: str | None
    fits: bool


Task = tuple[str, Words, int]
"""Kind, words and size of a cell to fill."""
Steps = TypeAdapter(list[Step])


class Bench:
    """The encoders and the desk of one process."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.encoders = encoders(options, options.encoders)
        self.desk = Desk(self.encoders, options.cache, options.set, pinned=options.pinned)

    def made(self, task: Task, limit: int | None) -> list[Job]:
        """The jobs of a cell."""
        options = self.options
        return jobs(*task, options.part, encoders=self.encoders, cache=options.cache, limit=limit)

    def fill(self, task: Task) -> list[Outcome] | str:
        """The outcomes of all jobs of a cell, or why there are none."""
        try:
            made = self.made(task, self.options.limit)
        except DataError as error:
            return str(error)
        return [one for outcomes in self.desk.outcomes(made) for one in outcomes]

    def prepare(self) -> None:
        """Draw, read and encode what the cells share, so that processes do not do it twice."""
        for kind, size in product(self.options.kinds, sorted(self.options.sizes)):
            first = size == min(self.options.sizes)
            try:
                made = self.made((kind, WORDS[kind][0], size), self.options.limit if first else 1)
            except DataError:
                continue
            if first:
                self.desk.learn(made)


_bench: Bench | None = None


def start(options: argparse.Namespace) -> None:
    """Make the bench of a process among others, which takes one core."""
    global _bench  # noqa: PLW0603  (one per process)
    import torch

    _bench = Bench(options)
    torch.set_num_threads(1)


def fill(task: Task) -> list[Outcome] | str:
    assert _bench is not None
    return _bench.fill(task)


def measure(bench: Bench) -> dict[Task, list[Outcome] | str]:
    """Every cell asked for, in the order of the table: its outcomes, or why there are none."""
    options = bench.options
    asked: list[Task] = [
        (kind, words, size)
        for kind in options.kinds
        for words in WORDS[kind]
        for size in options.sizes
        if words in options.words
    ]
    print("reading, drawing and encoding what is new", file=sys.stderr)
    bench.prepare()
    with ExitStack() as stack:
        filled = map(bench.fill, asked)
        if options.workers > 1:
            spawn = multiprocessing.get_context("spawn")
            pool = stack.enter_context(ProcessPoolExecutor(options.workers, spawn, start, (options,)))
            filled = pool.map(fill, asked)
        found = {}
        for task, outcomes in zip(asked, filled, strict=True):
            found[task] = outcomes
            print(f"\r{len(found)} of {len(asked)} cells", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return found


def percent(share: Share | None) -> str:
    return "–" if share is None or share.share is None else f"{100 * share.share:.1f}"


def points(gain: Difference | None) -> str:
    return (
        "–" if gain is None else f"{100 * gain.value:+.1f} ({100 * gain.low:+.1f} … {100 * gain.high:+.1f})"
    )


def row(cell: Cell) -> str:
    """One line of the table."""
    one = cell.figures
    error = one.calibrated.error
    values = (
        cell.kind,
        cell.words,
        "all" if cell.size is None else f"{cell.size:,}",
        f"{one.texts:,}",
        f"{one.steps:,}",
        percent(one.alone_own),
        percent(one.own),
        points(one.own_gain),
        percent(one.alone_fits),
        percent(one.fits),
        points(one.fits_gain),
        percent(one.blank_fits),
        percent(one.wrong.get("foreign")),
        percent(one.wrong.get("withheld")),
        "–" if error is None else f"{error:.3f}",
    )
    return f"| {' | '.join(values)} |"


def required(kinds: Sequence[Cell], cells: Sequence[Cell]) -> list[str]:
    """What is asked of every kind, and whether it holds; Markdown."""
    lines = [
        f"| kind | gain in own ≥ {100 * LEAST_GAIN:g}, its low end ≥ {100 * LEAST_LOW:g}"
        f" | calibration error ≤ {MOST_ERROR} (of true chances)"
        f" | blank, something fits ≤ {100 * MOST_BLANK:g}"
        f" | shown, nothing fits, of {BLANK_SIZE} ≤ {100 * MOST_WRONG:g} |\n|---|---|---|---|---|"
    ]
    for cell in kinds:
        one = cell.figures
        gain, error = one.own_gain, one.calibrated.error
        lacking = [
            share
            for other in cells
            if other.kind == cell.kind and other.size == BLANK_SIZE
            for share in other.figures.wrong.values()
        ]
        wrong = Share(found=sum(share.found for share in lacking), of=sum(share.of for share in lacking))
        held = (
            (points(gain), gain is None or (gain.value >= LEAST_GAIN and gain.low >= LEAST_LOW)),
            (
                "–" if error is None else f"{error:.3f} ({one.calibrated.noise:.3f})",
                error is None or error <= MOST_ERROR,
            ),
            (percent(one.blank_fits), (one.blank_fits.share or 0) <= MOST_BLANK),
            (percent(wrong), (wrong.share or 0) <= MOST_WRONG),
        )
        marks = " | ".join(text if met else f"**{text}, not met**" for text, met in held)
        lines.append(f"| {cell.kind} | {marks} |")
    return lines


def table(bench: Bench, kinds: Sequence[Cell], cells: Sequence[Cell]) -> str:
    """Markdown: what is asked of each kind, all kinds, then every cell."""
    head = f"| {' | '.join(COLUMNS)} |\n|{'---|' * 3}{'---:|' * (len(COLUMNS) - 3)}"
    named = ", ".join(f"{one.name} {one.fingerprint[:12]}" for one in bench.encoders[1]) or "none"
    options = " ".join(bench.options.set) or "defaults"
    lines = [
        f"Part {bench.options.part}; encoders of pictures: {named}; options: {options};"
        f" commit {commit()}. Shares in percent of the steps they are about; gains in points over each"
        " step alone, with 95 % intervals by bootstrap over texts.",
        "",
        *required(kinds, cells),
        "",
        head,
        *map(row, kinds),
        "",
        head,
        *map(row, cells),
    ]
    return "\n".join(lines)


def compared(steps: Sequence[Step], others: Sequence[Step]) -> str:
    """Markdown: how the choices of a run differ from those of another run of the same cells, by kind."""
    told = {(*one.cell, one.text): [] for one in others}
    for one in others:
        told[*one.cell, one.text].append(one)
    paired: dict[str, list[tuple[Step, Step]]] = {}
    for one in steps:
        if other := told.get((*one.cell, one.text)):
            paired.setdefault(one.cell[0], []).append((one, other.pop(0)))
    paired["all"] = [pair for pairs in paired.values() for pair in pairs]
    lines = [
        "| kind | steps | another picture | fits: earlier run | this run | difference |",
        f"|---|{'---:|' * 5}",
    ]
    for kind, pairs in paired.items():
        here, there = (np.array([one[side].fits for one in pairs], dtype=np.float64) for side in (0, 1))
        gain = difference(here, there, [one.text for one, _ in pairs])
        others_shown = sum(one.chosen != other.chosen for one, other in pairs)
        lines.append(
            f"| {kind} | {len(pairs):,} | {others_shown:,} ({100 * others_shown / len(pairs):.1f} %)"
            f" | {100 * there.mean():.1f} | {100 * here.mean():.1f} | {points(gain)} |"
        )
    return "\n".join(lines)


def parsed(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    options = parser(__doc__)
    options.add_argument("--part", choices=PARTS, default="report")
    options.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    options.add_argument(
        "--words", nargs="+", choices=("shown", "hidden", "third"), default=["shown", "hidden", "third"]
    )
    options.add_argument("--sizes", nargs="+", type=int, default=list(SIZES))
    options.add_argument("--encoders", nargs="*", default=["base"], help="of pictures; none for words alone")
    options.add_argument(
        "--set", nargs="+", action="extend", default=[], metavar="KEY=VALUE", help="options of the storyboard"
    )
    options.add_argument(
        "--pinned", action="store_true", help="fix a text's first picture, and judge the other steps"
    )
    options.add_argument("--limit", type=int, help="texts per cell at most")
    options.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    options.add_argument("--chosen", type=Path, help="write the picture of every step there")
    options.add_argument("--against", type=Path, help="such a file of another run, to compare with")
    options.add_argument("--plot", type=Path, help="picture of stated chances against the truth, by kind")
    return options.parse_args(arguments)


def plot(kinds: Sequence[Cell], path: Path) -> None:
    """Stated chances against what is true, a panel for each kind; areas show how many steps lie there."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.6), layout="constrained")
    for place, cell in enumerate(kinds):
        axes = figure.add_subplot(2, -(-len(kinds) // 2), place + 1)
        bins = cell.figures.calibrated.bins
        axes.plot([0, 1], [0, 1], color="0.75", linewidth=1)
        axes.scatter(
            [one.stated for one in bins],
            [one.true for one in bins],
            s=[160 * one.steps / max(other.steps for other in bins) for one in bins],
            color="#2b6a99",
        )
        error = cell.figures.calibrated.error
        axes.set_title(f"{cell.kind}: {'–' if error is None else f'{error:.3f}'}", fontsize=9)
        axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
        axes.tick_params(labelsize=7)
    figure.supxlabel("stated chance that the picture fits", fontsize=9)
    figure.supylabel("share that fits", fontsize=9)
    figure.savefig(path)


def main() -> None:
    options = parsed()
    try:
        bench = Bench(options)
        found = measure(bench)
    except LimnerError as error:
        raise SystemExit(str(error)) from error
    there = {task: outcomes for task, outcomes in found.items() if not isinstance(outcomes, str)}
    cells = [Cell(*task, figures(outcomes)) for task, outcomes in there.items()]
    pooled = {
        kind: [one for task in there if task[0] == kind for one in there[task]] for kind in options.kinds
    }
    kinds = [Cell(kind, "all", None, figures(every)) for kind, every in pooled.items() if every]
    steps = [
        Step(cell=task, text=one.text, chosen=one.chosen, fits=one.chosen in one.fits)
        for task, outcomes in there.items()
        for one in outcomes
    ]
    if options.chosen:
        write_text(options.chosen, Steps.dump_json(steps).decode())
    if options.plot:
        plot(kinds, options.plot)
    print(table(bench, kinds, cells))
    for (kind, words, size), why in found.items():
        if isinstance(why, str):
            print(f"- not there: {kind}, {words}, {size}: {why}")
    if options.against:
        print("\n" + compared(steps, Steps.validate_json(options.against.read_bytes())))


if __name__ == "__main__":
    main()
