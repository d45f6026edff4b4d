"""Texts whose photographs lie in folders, in the order of the steps.

Makes: docs/results/ordinary.md, README.md (photographs of a text)

Every layout is compared with two controls: each photograph by its place alone, and the same model without the
text. The first wrong step is then put right, as a person would, and the others are judged again.

    python benchmarks/row_results.py --cache vectors
    python benchmarks/row_results.py --cache vectors --part choose fit --draws 2
"""

import argparse
import multiprocessing
import sys
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from unittest.mock import patch

import numpy as np
from embeddings import encoders, parser
from ordinary.boards import Desk, JobIllustrator
from ordinary.pictures import Part, supply
from ordinary.rows import COVERS, DRAWS, FIXED, LAYOUTS, SETS, SOURCES, RowJob, Rows, marked

from limner.match import illustrate
from limner.match.calibration import Weights, load
from limner.match.illustrate import BoardOptions
from limner.records import Story

AMONG = (
    "as many", "one to three shots", "camera", "roughly", "roll", "shots of a roll", "no order", "flat",
    "scattered", "not there",
)  # fmt: skip
MARKED = "marked"
"""Set of the books of which every page has a caption, as texts that mark places for pictures."""
TITLE = {"howto": "guides", "storybook": "books", MARKED: "marked"}
WAYS = (
    "marks", "no words", "page", "place", "marks, any order", "no words, any order", "page, any order",
)  # fmt: skip
"""How a text with marks is read: with their words, without, or as if there were none; and controls."""
DRAWN = 10_000
"""Bootstrap samples of an interval."""
Found = dict[str, list[tuple[str, np.ndarray]]]
"""Measure → of every text and draw, the id of the text and a value of each step concerned."""


def by_place(steps: int, photographs: int) -> list[int]:
    """Index of each step's photograph at the same share of the folder; −1 for none."""
    if photographs >= steps:
        return [min(int((step + 0.5) / steps * photographs), photographs - 1) for step in range(steps)]
    chosen = [-1] * steps
    for at in range(photographs):
        chosen[min(int((at + 0.5) / photographs * steps), steps - 1)] = at
    return chosen


def right(chosen: Sequence[str | None], job: RowJob) -> np.ndarray:
    """Whether each step shows its own picture; nothing chosen counts as none."""
    return np.array([one in own for one, own in zip_longest(chosen, job.own)])


class Bench:
    """The encoders and pictures of one process."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        encoded = encoders(options, [options.encoder])
        self.stock = supply(encoded[0], tuple(encoded[1]), options.cache)
        self.desk = Desk(encoded, options.cache)
        self.order: list[str] = []
        self.cover: str | None = None
        self._rows: dict[tuple[str, Part, bool], Rows] = {}

    def rows(self, name: str, part: Part, *, large: bool) -> Rows:
        """The texts of a set and part."""
        key = name, part, large
        if key not in self._rows:
            self._rows[key] = Rows(self.stock, name, part, large=large)
            made = self._rows[key]
            self.desk.learn([made.named(text, "as many", 0, "hidden") for text in made.texts])
        return self._rows[key]

    def fill(self, task: tuple[str, str, str, int]) -> Found:
        """All texts of a cell: set, layout, words, and size of the library, or 0 for a named folder."""
        name, layout, words, size = task
        found: Found = defaultdict(list)
        for part in self.options.part:
            rows = self.rows("storybook" if name == MARKED else name, part, large=size > 500)
            says = {one: said for one, said in zip(rows.pool.ids, rows.pool.words, strict=True) if said}
            for text in rows.texts:
                if (words == "shown" or name == MARKED) and not says.keys() >= set(text.pictures):
                    continue
                for draw in range(1 if layout in FIXED else self.options.draws):
                    if size:
                        job = rows.among(text, layout, size, draw, words)  # type: ignore[arg-type]
                    else:
                        job = rows.named(text, layout, draw, words)  # type: ignore[arg-type]
                    if name == MARKED:
                        stories = {
                            "marks": marked(text, says),
                            "no words": marked(text, {}),
                            "page": job.story,
                        }
                        self._marked(job, stories, found)
                    else:
                        (self._among if size else self._named)(job, found)
        return found

    def _marked(self, job: RowJob, stories: dict[str, Story], found: Found) -> None:
        """By the words of the marks, by marks without words, and by the text of the pages without marks."""
        for name, story in stories.items():
            one = replace(job, story=story)
            illustrator = JobIllustrator(one, self.desk)
            found[name].append((story.id, right(self._board(one, illustrator)[0], job)))
            order = self.order
            chosen, _ = self._board(one, illustrator, order="any")
            found[f"{name}, any order"].append((story.id, right(chosen, job)))
        placed = [None if at < 0 else order[at] for at in by_place(len(job.own), len(order))] if order else []
        found["place"].append((job.story.id, right(placed, job)))

    def _board(
        self, job: RowJob, illustrator: JobIllustrator, **options: object
    ) -> tuple[list[str | None], np.ndarray]:
        """The picture of each step, and the chance that is stated."""
        given = {"runners_up": 0, "named": (job.named,) if job.named else (), "show": "always", **options}
        board = illustrator.board(job.story, BoardOptions(**given))  # type: ignore[arg-type]
        chosen = [None if step.picture is None else step.picture.id for step in board.steps]
        self.order = [] if board.row is None else [one.picture for one in board.row.photographs]
        self.cover = None if board.cover is None else board.cover.id
        return chosen, np.array([step.probability or 0.0 for step in board.steps])

    def _named(self, job: RowJob, found: Found) -> None:
        illustrator, steps = JobIllustrator(job, self.desk), len(job.own)

        def add(name: str, values: np.ndarray) -> None:
            found[name].append((job.story.id, values))

        chosen, _ = self._board(job, illustrator)
        model = right(chosen, job)
        add("model", model)
        order = self.order  # as limner reads it from times and names
        add("place", right([None if at < 0 else order[at] for at in by_place(steps, len(order))], job))
        silent = load()
        silent = silent.model_copy(
            update={"evidence": Weights(weights=dict.fromkeys(silent.evidence.weights, 0.0))}
        )
        with patch.object(illustrate, "load", lambda: silent):
            add("no text", right(self._board(job, JobIllustrator(job, self.desk))[0], job))
        has = np.array([bool(own) for own in job.own])
        wrong = np.flatnonzero(has & ~model)
        others = np.arange(steps) != (wrong[0] if len(wrong) else 0)
        after = model
        if len(wrong):
            given = {int(wrong[0]): min(job.own[wrong[0]])}
            after = right(self._board(job, illustrator, pins=given)[0], job)
        add("corrected", after[others])
        add("made wrong", (model & ~after)[others])
        self._shown(job, illustrator, add)

    def _shown(self, job: RowJob, illustrator: JobIllustrator, add: "object") -> None:
        """What is shown by default, and whether it fits, or in a named row belongs to the step."""
        assert callable(add)
        chosen, chance = self._board(job, illustrator, show="usual")
        add("cover", np.array([self.cover is not None]))
        add("right cover", np.array([self.cover == (job.cover or None)]))
        shown = np.array([one is not None for one in chosen])
        has = np.array([bool(own) for own in job.own])
        truth = job.own if job.named else job.fits
        fits = np.array([one in own for one, own in zip(chosen, truth, strict=True)])
        add("shown, has one", shown[has])
        add("shown, has none", shown[~has])
        add("stated", np.stack([chance[shown], fits[shown]], axis=1))
        add("own of shown", np.array([one in own for one, own in zip(chosen, job.own, strict=True)])[shown])
        add("shown", shown)

    def _among(self, job: RowJob, found: Found) -> None:
        illustrator = JobIllustrator(job, self.desk)

        def add(name: str, values: np.ndarray) -> None:
            found[name].append((job.story.id, values))

        add("model", right(self._board(job, illustrator)[0], job))
        with patch.object(illustrate, "likely_rows", lambda *_: []):
            add("without rows", right(self._board(job, JobIllustrator(job, self.desk))[0], job))
        self._shown(job, illustrator, add)


def percent(values: list[tuple[str, np.ndarray]]) -> str:
    every = np.concatenate([one for _, one in values]) if values else np.zeros(0)
    return f"{100 * every.mean():.1f}" if len(every) else "–"


def interval(first: list[tuple[str, np.ndarray]], second: list[tuple[str, np.ndarray]]) -> str:
    """Difference of two shares in points, with a 95 % interval by paired bootstrap over texts."""
    sums: dict[str, np.ndarray] = defaultdict(lambda: np.zeros(2))
    for (text, one), (_, other) in zip(first, second, strict=True):
        sums[text] += one.sum() - other.sum(), len(one)
    table = np.array(list(sums.values()))
    drawn = np.random.default_rng(0).integers(0, len(table), (DRAWN, len(table)))
    made = table[drawn].sum(axis=1)
    low, high = np.quantile(100 * made[:, 0] / made[:, 1], [0.025, 0.975])
    return f"{100 * table[:, 0].sum() / table[:, 1].sum():+.1f} ({low:.1f} … {high:.1f})"


def error(values: list[tuple[str, np.ndarray]]) -> str:
    """Stated and true share of what is shown, and the calibration error in ten bins."""
    every = np.concatenate([one for _, one in values]) if values else np.zeros((0, 2))
    if not len(every):
        return "–"
    bins = np.minimum((10 * every[:, 0]).astype(int), 9)
    total = sum(abs(float((every[bins == at, 0] - every[bins == at, 1]).sum())) for at in range(10))
    return f"{every[:, 0].mean():.2f} / {every[:, 1].mean():.2f} ({total / len(every):.2f})"


_bench: Bench | None = None


def start(options: argparse.Namespace) -> None:
    global _bench  # noqa: PLW0603  (one per process)
    import torch

    torch.set_num_threads(1)
    _bench = Bench(options)


def fill(task: tuple[str, str, str, int]) -> Found:
    assert _bench is not None
    return _bench.fill(task)


def main() -> None:
    made = parser(__doc__)
    made.add_argument("--encoder", default="base", help="of pictures")
    made.add_argument("--part", nargs="+", default=["report"])
    made.add_argument("--draws", type=int, default=DRAWS)
    made.add_argument(
        "--layouts", nargs="*", default=[*LAYOUTS, *COVERS, *SOURCES], help="of the named folder"
    )
    made.add_argument("--among", nargs="*", default=list(AMONG))
    made.add_argument("--sets", nargs="+", choices=[*TITLE], default=list(SETS))
    made.add_argument("--sizes", nargs="*", type=int, default=[300])
    made.add_argument("--workers", type=int, default=2)
    made.add_argument("--out", type=Path)
    options = made.parse_args()
    sizes, sets = options.sizes, options.sets
    told = [("hidden", name) for name in sets] + [("shown", name) for name in sets if name != "howto"]
    tasks = [
        (name, layout, "hidden", 0)
        for layout in options.layouts
        for name in sets
        if name != "howto" or layout not in COVERS
    ]
    tasks += [
        (name, layout, words, size) for size in sizes for words, name in told for layout in options.among
    ]
    spawn = multiprocessing.get_context("spawn")
    lines: list[str] = []
    pooled: dict[str, list[tuple[str, np.ndarray]]] = defaultdict(list)
    with ProcessPoolExecutor(options.workers, spawn, start, (options,)) as pool:
        for (name, layout, words, size), found in zip(tasks, pool.map(fill, tasks), strict=True):
            where = f"{TITLE[name]}, {words}, {size or 'named'}"
            if name != MARKED and (layout not in ("no order", "roughly", "two exchanged") or size):
                pooled[where] += found["stated"]
            kind = f"{TITLE[name]}{', words' if words == 'shown' else ''}"
            cells = [layout, kind, str(size or "named"), percent(found["model"])]
            if name == MARKED:
                cells[3:] = [percent(found[one]) for one in WAYS]
                cells += [interval(found["marks"], found[one]) for one in ("no words", "page", "place")]
                lines.append("| " + " | ".join(cells) + " |")
                print(lines[-1], flush=True)
                continue
            if size:
                cells += [
                    percent(found["without rows"]),
                    "",
                    interval(found["model"], found["without rows"]),
                    "",
                    "",
                ]
            else:
                better = max(
                    ("place", "no text"), key=lambda one: float(percent(found[one]).replace("–", "0"))
                )
                cells += [percent(found["place"]), percent(found["no text"])]
                cells += [interval(found["model"], found[better])]
                cells += [percent(found["corrected"]), percent(found["made wrong"])]
            cells += [
                percent(found["shown, has one"]),
                percent(found["shown, has none"]),
                percent(found["shown"]),
            ]
            cells += [percent(found["own of shown"]), error(found["stated"])]
            cells += [percent(found["cover"]), percent(found["right cover"])] if not size else []
            lines.append("| " + " | ".join(cells) + " |")
            print(lines[-1], flush=True)
    for kind, stated in pooled.items():
        print(f"| all layouts | {kind} | {error(stated)} |", flush=True)
    if options.out:
        options.out.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{len(lines)} cells", file=sys.stderr)


if __name__ == "__main__":
    main()
