"""Fits what the shipped encoder's cosines mean, how much context and agreement count, and the chance that
a picture fits, on ordinary jobs.

Fitted on the jobs of part "fit"; what may be blank is chosen on part "choose"; part "report" is not opened.
Run it after `calibrate.py`, and again after the shipped weights change; then the chances once more with more
texts, since few leave the thresholds to luck. Without --write it only prints.

    python benchmarks/calibrate_boards.py --cache vectors --write
    python benchmarks/calibrate_boards.py --cache vectors --chances --limit 80 --write
"""

import argparse
import json
import multiprocessing
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
from calibrate import TARGET, fit_pairs, rounded, typical
from embeddings import encoders, parser
from evidence import gain, pooled, steadied
from ordinary.boards import Desk, JobIllustrator
from ordinary.jobs import WORDS, Job, jobs
from ordinary.pictures import Part

from limner.arrays import scores
from limner.errors import DataError
from limner.evaluation.fitting import FORMS, Pairs, fit_evidence, ratios, text_pairs, weighted
from limner.library.channels import EncodedChannel, Evidence
from limner.library.search import Index
from limner.storyboard import calibration
from limner.storyboard.calibration import UNAVOIDABLE, Found, Holding, Line, Suitability, parse
from limner.storyboard.candidates import Pool, pool_of
from limner.storyboard.coherence import Coherence, Curve, Reading, read
from limner.storyboard.decoding import decode
from limner.storyboard.illustrate import step_texts
from limner.storyboard.lattice import BLANK, lattice

CONTEXTS = (0.0, 0.4, 1.0)
PAIRS = (0.0, 0.15, 0.4, 1.0)
GALLERIES = (30, 300, 1000)
SPACES = ("captions", "looks")
PIXELS = ("unrelated", "storybook", "howto", "recipes")
STORIES = ("books", "storybook", "howto")
CANDIDATES = 100
ROUNDS = 4_000
COSTLY = 4.0  # a point lost to plain search weighs as much as so many gained
SLACK = 0.2  # points below plain search that do not count as lost
BLANKED = 0.08  # fitting steps left blank, at most, in the mean over kinds
LOST = 0.01  # steps of a kind, at most, whose own picture a blank takes
LARGEST = {"captions": 1.0, "looks": 0.6}


@dataclass(frozen=True)
class Told:
    """A job, searched: everything that weights are tried on."""

    job: Job
    pool: Pool
    reading: Reading
    evidence: np.ndarray
    alone: np.ndarray
    index: Index
    space: str
    channels: str

    @property
    def cell(self) -> tuple[str, str, int]:
        """Kind, words and size of its job."""
        return self.job.kind, self.job.words, self.job.size

    def right(self, rows: Sequence[int | None]) -> np.ndarray:
        """(S, 2) whether each row is the step's own, and whether it fits."""
        ids = [None if row is None else self.index.gallery.ids[row] for row in rows]
        return np.array(
            [
                (one in own, one in fits)
                for one, own, fits in zip(ids, self.job.own, self.job.fits, strict=True)
            ]
        )

    def decoded(self, context: float, weight: float) -> tuple[Pool, np.ndarray]:
        """The candidates with these weights, and the columns that are chosen where nothing stays blank."""
        pool = self.pool.weighing(context, weight)
        blank = np.full(len(self.evidence), UNAVOIDABLE)
        problem = lattice(pool.unary, pool.groups, pool.pair, items=pool.items, blank=blank)
        return pool, decode(problem, "anchor" if weight else "off").columns

    def table(self) -> np.ndarray:
        """(contexts, pairs, 2) steps with their own, and with a fitting picture, for every two weights."""
        found = np.zeros((len(CONTEXTS), len(PAIRS), 2))
        for g, context in enumerate(CONTEXTS):
            for h, weight in enumerate(PAIRS):
                pool, columns = self.decoded(context, weight)
                found[g, h] = self.right(rows_of(pool, columns)).sum(axis=0)
        return found


def rows_of(pool: Pool, columns: np.ndarray) -> list[int | None]:
    """Gallery rows of chosen columns."""
    return [None if c == BLANK else int(pool.rows[pool.items[s, c]]) for s, c in enumerate(columns)]


def told(desk: Desk, kinds: Sequence[str], part: Part, options: argparse.Namespace) -> Iterator[Told]:
    """All jobs of a part, searched."""
    for kind in kinds:
        for words in WORDS[kind]:
            for size in GALLERIES:
                try:
                    made = jobs(
                        kind, words, size, part,
                        encoders=desk.encoders, cache=options.cache, limit=options.limit,
                    )  # fmt: skip
                except DataError as error:
                    print(f"  left out: {error}")
                    continue
                desk.learn(made)
                for _, together in groupby(made, key=lambda job: id(job.gallery)):
                    group = list(together)
                    by = JobIllustrator(group[0], desk)
                    yield from (searched(job, by) for job in group)
                print(f"  {part}: {kind}, {words}, {size}: {len(made)} texts", flush=True)


def searched(job: Job, by: JobIllustrator) -> Told:
    """Search one job as `illustrate` does."""
    chosen = by.options().model_copy(update={"candidates": CANDIDATES})
    texts = step_texts(job.story)
    encoded = [EncodedChannel.encode(one, texts, ["en"] * len(texts)) for one in by.channels]
    encoded = [one for one in encoded if one.texts.any()]
    readings = [one.both_readings() for one in encoded]
    hits = by.index.search(readings, chosen.considered)
    barred = np.zeros(len(by.index.gallery), dtype=bool)
    pool = pool_of(
        by.index,
        readings,
        hits,
        fixed={},
        guided=False,
        pair_space=chosen.pair_space,
        pair_evidence=chosen.pair_evidence,
        count=chosen.considered,
        barred=barred,
    )
    reading = read(pool.unary, pool.items, pool.groups, pool.pair, len(barred))
    first = by.index.search(encoded, 1).rows[:, 0]
    names = "+".join(sorted(one.name for one in encoded))
    return Told(job, pool, reading, hits.evidence[: len(texts)], first, by.index, chosen.pair_space, names)


# What cosines mean: of a step with a picture, and of two pictures.


def tables(desk: Desk, part: Part, options: argparse.Namespace) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Kind → cosines (N, M) of steps with the pictures of one library by `base`, and which are right."""
    found = {}
    for kind in PIXELS:
        made = jobs(kind, "hidden", 300, part, encoders=desk.encoders, cache=options.cache, limit=None)
        first = [one for one in made if one.gallery is made[0].gallery]
        by = JobIllustrator(first[0], desk)
        channel = next(one for one in by.channels if one.name == "base")
        space, place = (
            by.index.gallery.space("base"),
            {one: row for row, one in enumerate(by.index.gallery.ids)},
        )
        texts = [text for one in first for text in step_texts(one.story)]
        own = [ids for one in first for ids in one.own]
        match = np.zeros((len(texts), len(place)), dtype=bool)
        for row, ids in enumerate(own):
            match[row, [place[one] for one in ids]] = True
        told_right = match.any(axis=1)
        cosines = scores(channel.encoder.encode_text(texts), np.asarray(space.matrix, np.float32)).astype(
            float
        )
        found[kind] = cosines[told_right], match[told_right]
    return found


def fit_channel(
    fit: dict[str, tuple[np.ndarray, np.ndarray]], choose: dict[str, tuple[np.ndarray, np.ndarray]]
) -> tuple[Evidence, str]:
    """The form that tells most on the choose part, in the mean over kinds."""
    pairs = pooled([text_pairs(table, match) for table, match in fit.values()])
    best, notes = None, []
    for form in FORMS:
        evidence = typical(rounded(fit_evidence(pairs, form)), [table for table, _ in fit.values()])
        told_by = {
            kind: gain(ratios(evidence, table, steadied(table, evidence)), match)
            for kind, (table, match) in choose.items()
        }
        notes.append(f"{form}: " + ", ".join(f"{kind} {value:.3f}" for kind, value in told_by.items()))
        print(f"  base {notes[-1]} {evidence.model_dump()}")
        value = float(np.mean(list(told_by.values())))
        if best is None or value > best[0]:
            best = value, evidence, form
    assert best is not None
    return best[
        1
    ], f"fitted on ordinary jobs; form '{best[2]}' by gain in nats on the choose part: {'; '.join(notes)}"


def looks(desk: Desk, part: Part, options: argparse.Namespace) -> Pairs:
    """Every two pictures of libraries of stories: of one story, or of different ones."""
    parts = []
    for kind in STORIES:
        made = jobs(kind, "hidden", 300, part, encoders=desk.encoders, cache=options.cache, limit=None)
        first = [one for one in made if one.gallery is made[0].gallery]
        gallery = first[0].gallery
        member = np.zeros((len(gallery), len(first)))
        place = {one: row for row, one in enumerate(gallery.ids)}
        for number, one in enumerate(first):
            member[[place[picture] for own in one.own for picture in own], number] = 1
        rows = np.flatnonzero(member.any(axis=1))
        vectors = np.asarray(gallery.space("looks").matrix, np.float32)
        cosine = scores(vectors[rows], vectors).astype(float)
        z = (cosine - cosine.mean(axis=1, keepdims=True)) / cosine.std(axis=1, keepdims=True)
        cosine, z = cosine[:, rows], z[:, rows]
        same = member[rows] @ member[rows].T > 0
        upper = np.triu_indices(len(rows), 1)
        parts.append(weighted(cosine[upper], ((z + z.T) / 2)[upper], same[upper]))
    return pooled(parts)


# How much context and agreement count.


@dataclass(frozen=True)
class Cell:
    """Jobs of one kind, words and size: what each weighting gives, against plain search."""

    tables: np.ndarray  # (T, contexts, pairs, 2)
    alone: np.ndarray  # (T, 2)
    steps: int
    readings: tuple[Reading, ...]

    def gains(self, curves: Coherence) -> tuple[float, float]:
        """Points of own and of fitting pictures won over plain search."""
        weights = np.array([curves.weights(one) for one in self.readings])
        found = between(self.tables, weights).sum(axis=0) - self.alone.sum(axis=0)
        return float(100 * found[0] / self.steps), float(100 * found[1] / self.steps)


def between(tables: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(T, 2) bilinear interpolation of each text's table at its own two weights."""
    places, parts = [], []
    for axis, grid in enumerate((np.array(CONTEXTS), np.array(PAIRS))):
        place = np.clip(np.searchsorted(grid, weights[:, axis], side="right") - 1, 0, len(grid) - 2)
        places.append(place)
        parts.append(((weights[:, axis] - grid[place]) / (grid[place + 1] - grid[place]))[:, None])
    (g, h), (a, b), row = places, parts, np.arange(len(tables))
    low = (1 - a) * tables[row, g, h] + a * tables[row, g + 1, h]
    high = (1 - a) * tables[row, g, h + 1] + a * tables[row, g + 1, h + 1]
    return np.asarray((1 - b) * low + b * high)


def cells_of(all_told: Sequence[Told], space: str) -> dict[tuple[str, str, int], Cell]:
    """The jobs whose pictures are compared in a space, by cell; those where blanks are right are left out."""
    groups: dict[tuple[str, str, int], list[Told]] = {}
    for one in all_told:
        if one.space == space and one.job.kind != "magazine" and len(one.evidence) > 1:
            groups.setdefault(one.cell, []).append(one)
    found = tables_of([one for group in groups.values() for one in group])
    return {
        cell: Cell(
            np.stack([found[id(one)] for one in group]),
            np.stack([one.right(one.alone.tolist()).sum(axis=0) for one in group]),
            sum(len(one.evidence) for one in group),
            tuple(one.reading for one in group),
        )
        for cell, group in groups.items()
    }


_shared: list[Told] = []


def _table(place: int) -> np.ndarray:
    return _shared[place].table()


def tables_of(jobs_told: list[Told]) -> dict[int, np.ndarray]:
    """The table of every job, by its id; by all cores, which see the jobs without copies."""
    _shared[:] = jobs_told
    with multiprocessing.get_context("fork").Pool(os.cpu_count()) as pool:
        found = pool.map(_table, range(len(jobs_told)), chunksize=8)
    return {id(one): table for one, table in zip(jobs_told, found, strict=True)}


def worth(cells: dict[tuple[str, str, int], Cell], curves: Coherence) -> float:
    """Mean gain over the cells; what a cell loses to plain search weighs several times."""
    total = 0.0
    for cell in cells.values():
        own, fits = cell.gains(curves)
        total += own + 0.3 * fits - COSTLY * max(0.0, -own - SLACK)
    return total / len(cells)


def fit_coherence(cells: dict[tuple[str, str, int], Cell], largest: float) -> Coherence:
    """Random search, from a start at which nothing but plain search counts."""
    rng = np.random.default_rng(0)

    def curves(p: np.ndarray) -> Coherence:
        one, two = (
            Curve(
                largest=float(np.clip(part[0], 0, 1) * largest),
                offset=float(part[1]),
                ambiguity=float(np.clip(part[2], 0, 40)),
                agreement=float(part[3]),
            )
            for part in (p[:4], p[4:])
        )
        return Coherence(context=one, pair=two)

    at = np.array([0.6, -15.0, 25.0, 0.0, 0.9, -15.0, 25.0, 0.0])
    value = worth(cells, curves(at))
    scale = np.array([0.1, 2, 4, 0.7, 0.1, 2, 4, 0.7])
    for _ in range(ROUNDS):
        tried = at + rng.normal(size=8) * scale * rng.choice([0.3, 1.0, 2.0])
        if (new := worth(cells, curves(tried))) > value:
            at, value = tried, new
    found = curves(at)
    digits = {"largest": 3, "offset": 2, "ambiguity": 2, "agreement": 2}
    return Coherence.model_validate(
        {
            name: {key: round(number, digits[key]) for key, number in curve.items()}
            for name, curve in found.model_dump().items()
        }
    )


# The chance that a picture fits.


@dataclass(frozen=True)
class Steps:
    """Chosen pictures of the steps of many jobs; F features in the order of `FEATURES`."""

    features: np.ndarray  # (N, F)
    fits: np.ndarray  # (N,) whether the chosen picture fits
    own: np.ndarray  # (N,) whether it is the step's own
    held: np.ndarray  # (N,) whether the library holds a picture that fits
    cell: np.ndarray  # (N,) number of the cell
    names: tuple[tuple[str, str, int], ...]


FEATURES = ("slope", "peak", "size", "text", "coherence", "deficit")


def steps_of(all_told: Sequence[Told], channels: str, coherence: dict[str, Coherence]) -> Steps | None:
    """What is chosen with calibrated weights, and what is known of it."""
    parts, names = [], []
    for one in all_told:
        if one.channels != channels:
            continue
        curves = coherence.get(one.space, coherence["*"])
        context, weight = curves.weights(one.reading)
        pool, columns = one.decoded(context, weight)
        found = Found(one.evidence, pool.unary, len(one.index.gallery))
        shown = columns != BLANK
        nats = pool.unary[np.arange(len(columns)), np.where(shown, columns, 0)]
        features = np.column_stack(
            [
                found.evidence,
                found.peak,
                np.full(len(columns), np.log(found.available)),
                np.full(len(columns), found.evidence.mean()),
                np.full(len(columns), weight),
                nats - found.best,
            ]
        )
        right = one.right(rows_of(pool, columns))
        held = np.array([bool(fits) for fits in one.job.fits])
        if one.cell not in names:
            names.append(one.cell)
        number = np.full(len(columns), names.index(one.cell))
        parts.append([part[shown] for part in (features, right[:, 1], right[:, 0], held, number)])
    if not parts:
        return None
    return Steps(*(np.concatenate(column) for column in zip(*parts, strict=True)), names=tuple(names))


def fit_suitability(steps: Steps) -> Suitability:
    """Logistic regression, every cell counting the same; a candidate behind the best is never likelier."""
    from sklearn.linear_model import LogisticRegression

    counts = np.bincount(steps.cell, minlength=len(steps.names))
    weight = 1.0 / counts[steps.cell]
    kept = [f for f in range(len(FEATURES)) if np.ptp(steps.features[:, f]) > 0]
    while True:
        model = LogisticRegression(C=100.0, max_iter=10_000)
        model.fit(steps.features[:, kept], steps.fits, sample_weight=weight * len(weight) / weight.sum())
        values = dict(zip((FEATURES[f] for f in kept), model.coef_[0].tolist(), strict=True))
        if values.get("deficit", 0.2) >= 0:
            break
        kept.remove(FEATURES.index("deficit"))
    values = {"deficit": 0.2} | {name: round(value, 4) for name, value in values.items()}
    return Suitability(**values, offset=round(float(model.intercept_[0]), 4), threshold=0)


def chances(curve: Line, steps: Steps) -> np.ndarray:
    """(N,) chance that the chosen picture fits, or that the library holds one that does."""
    values = {"deficit": 0.0} | curve.model_dump()
    weights = np.array([values[name] for name in FEATURES])
    return np.asarray(1 / (1 + np.exp(-(steps.features @ weights + curve.offset))))


def fit_holding(steps: Steps) -> Holding:
    """Logistic regression of whether the library holds a fitting picture, where some steps lack one."""
    from sklearn.linear_model import LogisticRegression

    mixed = np.isin(steps.cell, [n for n, name in enumerate(steps.names) if name[0] == "magazine"])
    features, held = steps.features[mixed][:, : len(FEATURES) - 1], steps.held[mixed]
    kept = [f for f in range(features.shape[1]) if np.ptp(features[:, f]) > 0]
    weight = np.where(held, 1 / held.sum(), 1 / (~held).sum()) * len(held) / 2
    model = LogisticRegression(C=100.0, max_iter=10_000).fit(features[:, kept], held, sample_weight=weight)
    values = dict(zip((FEATURES[f] for f in kept), np.round(model.coef_[0], 4).tolist(), strict=True))
    return Holding(**values, offset=round(float(model.intercept_[0]), 4), threshold=0.5)


def choose_thresholds(curve: Suitability, steps: Steps) -> Suitability:
    """Both thresholds: those that leave most steps blank that nothing fits, in libraries of 300.

    In no kind more than `LOST` of the steps may lose their own picture, and of the fitting steps of all
    kinds no more than `BLANKED` may be blank.
    """
    assert curve.holding is not None
    stated, holds = chances(curve, steps), chances(curve.holding, steps)
    kinds = sorted({name[:2] for name in steps.names})
    members = [
        np.isin(steps.cell, [n for n, name in enumerate(steps.names) if name[:2] == kind]) for kind in kinds
    ]
    asked = np.isin(steps.cell, [n for n, name in enumerate(steps.names) if name[::2] == ("magazine", 300)])
    best = (-1.0, 0.0, 0.5)
    for low in np.round(np.arange(0.05, 0.6, 0.025), 3):
        for high in np.round(np.arange(0.02, 0.9, 0.02), 3):
            blank = (stated < low) & (holds < high)
            lost = max((blank & steps.own & own).sum() / max((own & steps.held).sum(), 1) for own in members)
            missed = np.mean([blank[own & steps.held].mean() for own in members if (own & steps.held).any()])
            right = blank[asked & ~steps.held].mean()
            if lost <= LOST and missed <= BLANKED and right > best[0]:
                best = float(right), float(low), float(high)
    holding = curve.holding.model_copy(update={"threshold": best[2]})
    return curve.model_copy(update={"threshold": best[1], "holding": holding})


def described(curve: Suitability, steps: Steps) -> list[str]:
    """Per kind and words: calibration error, and what is blank with and without a fitting picture."""
    stated, lines = chances(curve, steps), []
    for kind in sorted({name[:2] for name in steps.names}):
        members = [number for number, name in enumerate(steps.names) if name[:2] == kind]
        here = np.isin(steps.cell, members)
        p, y, held = stated[here], steps.fits[here], steps.held[here]
        bins = np.minimum((p * 10).astype(int), 9)
        error = sum(abs(p[bins == b].mean() - y[bins == b].mean()) * np.mean(bins == b) for b in set(bins))
        blank = p < curve.threshold
        if curve.holding is not None:
            blank &= chances(curve.holding, steps)[here] < curve.holding.threshold
        lost = float((blank & steps.own[here]).sum() / max(held.sum(), 1))
        lacking = f"{blank[~held].mean():.3f}" if (~held).any() else "–"
        lines.append(
            f"{', '.join(kind)}: stated {p.mean():.3f}, true {y.mean():.3f}, calibration error {error:.3f};"
            f" blank with a fitting picture {blank[held].mean():.3f} (own pictures lost {lost:.3f}),"
            f" without {lacking}"
        )
    return lines


def write(values: dict[str, Any]) -> None:
    """Replace the calibration of the package."""
    text = json.dumps(values, indent=2, ensure_ascii=False) + "\n"
    parse(text)
    TARGET.write_text(text, encoding="utf-8")


def main() -> None:
    arguments = parser(__doc__.splitlines()[0])
    arguments.add_argument("--limit", type=int, default=30, help="texts per cell at most")
    arguments.add_argument("--kinds", nargs="+", default=[k for k in WORDS if k != "translated"])
    arguments.add_argument(
        "--chances", action="store_true", help="keep the evidence and the coherence as they are"
    )
    arguments.add_argument("--write", action="store_true", help="replace the calibration of the package")
    options = arguments.parse_args()
    desk = Desk(encoders(options, ("base",)), options.cache)
    values = json.loads(TARGET.read_text(encoding="utf-8"))
    notes: dict[str, str] = {}
    if not options.chances:
        evidence, notes["base"] = fit_channel(*(tables(desk, part, options) for part in ("fit", "choose")))
        likeness, notes["pairs of looks"] = fit_pairs(
            looks(desk, "fit", options), looks(desk, "choose", options), "looks", 0.3
        )
        values["channels"]["base"] = evidence.model_dump()
        values["pairs"]["looks"]["evidence"] = likeness.model_dump()
        if options.write:  # all that follows sees the new evidence
            write(values)
            calibration.load.cache_clear()
    data: dict[str, list[Told]] = {}
    for part in ("fit", "choose"):
        data[part] = list(told(desk, options.kinds, part, options))
    coherence = {"*": Coherence(context=Curve(largest=0), pair=Curve(largest=0))}
    if options.chances:
        coherence = calibration.load().coherence
    for space in () if options.chances else SPACES:
        cells = cells_of(data["fit"], space)
        if not cells:
            continue
        held = cells_of(data["choose"], space)
        ways = {"none": coherence["*"], "fitted now": fit_coherence(cells, LARGEST[space])}
        ways["fitted before"] = calibration.load().coherent(space)
        kept = max(ways, key=lambda way: worth(held, ways[way]))
        coherence[space] = ways[kept]
        print(f"coherence {space}: {kept}: {ways}")
        lines = [
            "{}, {}, {}: own {:+.1f}, fits {:+.1f}".format(*cell, *one.gains(ways[kept]))
            for cell, one in held.items()
        ]
        print(*lines, sep="\n  ")
        notes[f"coherence {space}"] = (
            f"{kept}, the best of none, fitted before and fitted now on the choose part of ordinary jobs;"
            " points over each step alone there: " + "; ".join(lines)
        )
    suitability = {}
    for channels in sorted({one.channels for one in data["fit"]}):
        fitted, chosen = (steps_of(data[part], channels, coherence) for part in ("fit", "choose"))
        assert fitted is not None
        assert chosen is not None
        curve = fit_suitability(fitted)
        curve = choose_thresholds(curve.model_copy(update={"holding": fit_holding(fitted)}), chosen)
        suitability[channels] = curve
        lines = described(curve, chosen)
        print(f"suitability {channels}: {curve.model_dump()}", *lines, sep="\n  ")
        notes[f"suitability {channels}"] = "fitted on ordinary jobs; on the choose part: " + "; ".join(lines)
    if options.write:
        values["coherence"] = {name: one.model_dump() for name, one in coherence.items()}
        values["suitability"] |= {name: one.model_dump() for name, one in suitability.items()}
        values["provenance"] |= notes
        write(values)


if __name__ == "__main__":
    main()
