"""Tables about data sets: frequency of relations, dispersion of scores."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from limner.config import flat
from limner.errors import ConfigError, DataError, MissingError, counted
from limner.research.datasets import load_dataset
from limner.research.datasets.neighbours import SCORES_FILE, PairScores, read_pair_scores
from limner.research.datasets.pairs import Pair, SplitKind
from limner.research.datasets.splits import split_pairs
from limner.research.evaluation.ranking import prevalence
from limner.research.evaluation.results import About, ChoiceResult, Result
from limner.research.evaluation.uncertainty import RESAMPLES
from limner.research.paper.comparison import framed
from limner.research.paper.conditions import seeds, settings_from
from limner.research.paper.sweeps import POINT, Done, read_point
from limner.research.paper.table import Cell, Kind, Row, Table, reference

CHOICE = "C@"
"""Prefix of the validation figure C@c."""
SPREAD = ("μσ", "μ", "σ")


def rates(name: str, data: str | None = None, resamples: int = RESAMPLES) -> Table:
    """Share of training pairs (including validation) that have each relation, by kind of split.

    Args:
        name: cmcm-1 (CITE++) or cmcm-2 (Clue).
        data: data set below $LIMNER_DATA/data; None uses the table's, or only the paper's figures if it does
            not exist.
        resamples: number of resamples per interval.
    Raises:
        ConfigError, MissingError, DataError: the requested data set cannot be read, or has no relations.
    Source: CMCM 2022, Tables 1 and 2; docs/methods/data.md §2.
    """
    entry = reference()[name]
    chosen = data or entry["data"]
    parts: dict[str, Sequence[Pair]] = {}
    notes: list[str] = []
    published: Mapping[str, Any] = entry["rows"] if chosen == entry["data"] else {}
    relations: Sequence[str] = tuple(published)
    try:
        read = load_dataset(chosen)
    except (ConfigError, MissingError) as error:
        if data is not None:
            raise
        notes.append(f"Data set not read: {error}.")
    else:
        if not read.relations:
            raise DataError(f"table: {chosen} has no relations; name a set with them, see 'limner data sets'")
        relations = read.relations
        stated = any(pair.split == "test" for pair in read.pairs)
        kinds: Sequence[SplitKind] = ("released", "grouped") if stated else ("grouped",)
        for kind in kinds:
            every = split_pairs(read, kind).pairs
            parts[f"{kind} split"] = [pair for pair in every if pair.split != "test"]
        notes += [
            f"{kind}: {counted(len(pairs), 'training pair')}, including validation."
            for kind, pairs in parts.items()
        ]
    rows = []
    for relation in relations:
        shown = published.get(relation, {})
        cells = []
        for pairs in parts.values():
            one = prevalence(
                [pair.labels[relation] for pair in pairs], [pair.group for pair in pairs], resamples=resamples
            )
            cells.append(Cell(value=one.value, low=one.low, high=one.high, paper=shown.get("rate")))
        rows.append(
            Row(name=shown.get("title", relation), cells=tuple(cells or [Cell(paper=shown.get("rate"))]))
        )
    title = entry["title"] if published else entry["title"].partition(": ")[2].capitalize()
    blocks = {"share of training pairs": tuple(parts) or ("training part",)}
    return framed(name, f"{title} ({chosen})", rows, blocks=blocks, above=notes)


def dispersion(runs: Path | None, data: str | None = None) -> Table:
    """Settings of complementary samples per data set, and the dispersion of its two measures.

    One row per data set, split and system with weights. Mean and deviation are of the raw scores (before Γ)
    of both modalities over all training pairs, as used for the factors of COMBINED-STATS; averaged over
    seeds. The outer factors come from sweeps on validation; no test rows are used.

    Args:
        runs: folder of measured runs and of sweeps of the factors; if None, only the paper's figures are
            shown.
        data: the only data set to show; None for all.
    Raises:
        MissingError: the folder does not exist.
        DataError: a run has pair scores but was not measured.
    Source: T&K 2022, Table 1; docs/methods/complementary.md §6.3.
    """
    if runs is not None and not runs.is_dir():
        raise MissingError(f"{runs}: not a folder; name the folder of the runs")
    rows: dict[tuple[str, str, str, str], list[tuple[About, PairScores]]] = {}
    for file in [] if runs is None else sorted(runs.glob(f"**/{SCORES_FILE}")):
        if (file.parent / POINT).is_file():  # part of a sweep, which uses only validation
            continue
        about = _about(file.parent)
        if data in (None, about.data):
            key = (about.data, about.split, about.system, about.preset)
            rows.setdefault(key, []).append((about, read_pair_scores(file.parent)))
    swept: dict[str, list[Done]] = {}
    for file in [] if runs is None else sorted(runs.glob(f"**/{POINT}")):
        done = read_point(file)
        if _factors(done):
            swept.setdefault(str(done.config["data"]["set"]), []).append(done)
    sets = reference()["sets"]
    shown = [name for name in sets if data in (None, name)]
    shown += sorted({name for name, *_ in rows} - set(shown))
    made = []
    for name in shown:
        title, published = sets.get(name, {}).get("title", name), _published(name)
        own = {key: found for key, found in rows.items() if key[0] == name}
        for (_, _, system, preset), found in own.items():
            presets = {key[3] for key in own if key[2] == system}
            row = f"{title}, {system}" + (f" [{preset}]" if len(presets) > 1 else "")
            trained = settings_from([about for about, _ in found])
            cells = _cells(_values(found), published, measured=True)
            made.append(Row(name=row, remark=seeds(found), cells=cells, settings=trained))
        if name in swept:
            points = {done.point.seed: done.point for done in swept[name]}
            known = next((one.about for one in points.values() if one.about), None)
            made.append(
                Row(
                    name=f"{title}, outer factors",
                    remark=seeds(list(points)),
                    cells=_cells(_swept(swept[name]), published, measured=True),
                    settings=known and known.model_copy(update={"seeds": tuple(sorted(points))}),
                )
            )
        if not own and name not in swept:
            made.append(Row(name=title, cells=_cells({}, published, measured=False)))
    entry = reference()["complementary-1"]
    blocks = {"settings": tuple(entry["settings"])} | dict.fromkeys(reference()["measures"].values(), SPREAD)
    blocks["β, γ on a subset"] = tuple(entry["factors"])
    return framed("complementary-1", entry["title"], made, blocks=blocks)


def _about(run: Path) -> About:
    """Description of a run, from its first result."""
    for kind in (Result, ChoiceResult):
        for path in sorted((run / kind.FOLDER).glob("*.json")):
            return kind.read(path).about
    raise DataError(f"{run}: has pair scores but no result; run 'limner measure {run}' first")


def _published(data: str) -> dict[str, float]:
    """The paper's figures of a data set by column; empty for other sets."""
    entry = reference()["sets"].get(data)
    if entry is None:
        return {}
    beta, gamma = entry["beta_gamma"]
    found = {"K": entry["heads"], "λ": entry["lambda"], "β": beta, "γ": gamma}
    for short, measure in reference()["measures"].items():
        mean, spread = entry[measure.lower()]["mean"], entry[measure.lower()]["deviation"]
        product = entry[measure.lower()]["product"]
        found |= {f"μσ {short}": product, f"μ {short}": mean, f"σ {short}": spread}
    outer: Mapping[str, float] = reference()["sweep-beta-gamma"][data]
    return found | dict(outer)


def _values(found: Sequence[tuple[About, PairScores]]) -> dict[str, list[float]]:
    """Column → the figures of all runs."""
    values: dict[str, list[float]] = {}
    for about, scores in found:
        settings = flat(about.config)
        for name, key in reference()["complementary-1"]["settings"].items():
            if name in ("K", "λ") or settings.get("method") == "combined-val":
                values.setdefault(name, []).append(float(settings[key]))
        measures = scores.measures()
        for short, measure in reference()["measures"].items():
            if measure in measures:
                every = np.concatenate(list(measures[measure].values())).astype(np.float64)
                mean, spread = float(every.mean()), float(every.std())
                for name, value in zip(SPREAD, (mean * spread, mean, spread), strict=True):
                    values.setdefault(f"{name} {short}", []).append(value)
    return values


def _factors(done: Done) -> str:
    """The outer factors of a run of a sweep; "" if it varies others or did not measure C@c."""
    weights = done.config.get("weights", {})
    words = f"{weights.get('beta', 0):g}, {weights.get('gamma_hat', 0):g}"
    asked = any(name.startswith(CHOICE) for name in done.point.validation)
    return words if asked and words in reference()["complementary-1"]["factors"] else ""


def _swept(trained: Sequence[Done]) -> dict[str, list[float]]:
    """Outer factors → c-way accuracy on validation for each seed, mean of both directions."""
    values: dict[str, list[float]] = {}
    for done in trained:
        found = [value for name, value in done.point.validation.items() if name.startswith(CHOICE)]
        values.setdefault(_factors(done), []).append(found[0])
    return values


def _cells(
    values: Mapping[str, Sequence[float]], published: Mapping[str, float], *, measured: bool
) -> tuple[Cell, ...]:
    """Mean of each column; a measure that the runs do not use is not a gap."""
    entry = reference()["complementary-1"]
    kinds: dict[str, Kind] = dict.fromkeys(entry["settings"], "setting")
    for short in reference()["measures"]:
        kinds |= {f"{name} {short}": "product" if name == "μσ" else "score" for name in SPREAD}
    kinds |= dict.fromkeys(entry["factors"], "exact percent")
    return tuple(
        Cell(
            value=float(np.mean(values[name])) if name in values else None,
            paper=published.get(name),
            kind=kind,
            applies=name in values or not measured,
        )
        for name, kind in kinds.items()
    )
