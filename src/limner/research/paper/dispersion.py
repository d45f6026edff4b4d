"""Table 1 of complementary samples: the settings of each data set, and how far its two measures are spread.

Read from what training left of its pair scores; no figure of it needs a test row.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from limner.errors import DataError, MissingError
from limner.research.datasets.neighbours import SCORES_FILE, PairScores, read_pair_scores
from limner.research.evaluation.results import About, ChoiceResult, Result
from limner.research.paper.comparison import framed
from limner.research.paper.conditions import seeds, settings_from
from limner.research.paper.table import Cell, Kind, Row, Table, reference
from limner.research.training.settings import flat

SETTINGS: Mapping[str, str] = {
    "K": "model.heads",
    "λ": "weights.lam",
    "β": "weights.beta",
    "γ": "weights.gamma_hat",
}
MEASURES = {"DIV": "DIVERSITY", "DIS": "DISCREPANCY"}
SPREAD = ("μσ", "μ", "σ")
OUTER = {"5, 1": "5:1", "1, 5": "1:5"}
"""Column → β:γ of the two outer settings, whose accuracy the paper prints for a training subset."""


def build(runs: Path | None, *, data: str | None = None) -> list[Table]:
    """The table, a row per data set, split and system that weighed its pairs.

    Mean and deviation are of the raw scores, before Γ, of both modalities of all training pairs, like those
    that make the factors of COMBINED-STATS; of several seeds the mean.

    Args:
        runs: folder that holds measured runs; None shows the paper's figures alone.
        data: the only data set shown; None shows all.
    Raises:
        MissingError: no such folder.
        DataError: a run left pair scores and was not measured, so that nothing says what it is of.
    Source: T&K 2022, Table 1; docs/methods/complementary.md §6.3.
    """
    if runs is not None and not runs.is_dir():
        raise MissingError(f"{runs}: not a folder; give the one that holds the runs")
    rows: dict[tuple[str, str, str, str], list[tuple[About, PairScores]]] = {}
    for file in [] if runs is None else sorted(runs.glob(f"**/{SCORES_FILE}")):
        about = _about(file.parent)
        if data in (None, about.data):
            key = (about.data, about.split, about.system, about.preset)
            rows.setdefault(key, []).append((about, read_pair_scores(file.parent)))
    sets = reference()["sets"]
    shown = [name for name in sets if data in (None, name)]
    shown += sorted({name for name, *_ in rows} - set(shown))
    made = []
    for name in shown:
        title, published = sets.get(name, {}).get("title", name), _published(name)
        own = {key: found for key, found in rows.items() if key[0] == name}
        if not own:
            made.append(Row(name=title, cells=tuple(_cells([], published))))
        for (_, _, system, preset), found in own.items():
            presets = {key[3] for key in own if key[2] == system}
            made.append(
                Row(
                    name=f"{title}, {system}" + (f" [{preset}]" if len(presets) > 1 else ""),
                    remark=seeds(found),
                    cells=tuple(_cells(found, published)),
                    settings=settings_from([about for about, _ in found]),
                )
            )
    blocks = {"settings": tuple(SETTINGS)} | dict.fromkeys(MEASURES.values(), SPREAD)
    blocks["accuracy on a subset at β, γ"] = tuple(OUTER)
    return [framed("complementary-1", reference()["complementary-1"]["title"], made, blocks=blocks)]


def _about(run: Path) -> About:
    """What a run is of, as its first result says."""
    for kind in (Result, ChoiceResult):
        for path in sorted((run / kind.FOLDER).glob("*.json")):
            return kind.read(path).about
    raise DataError(f"{run}: left pair scores and was not measured; run 'limner measure {run}' first")


def _published(data: str) -> dict[str, float]:
    """The paper's figures of a data set by column, none of a set that it has not."""
    entry = reference()["sets"].get(data)
    if entry is None:
        return {}
    beta, gamma = entry["beta_gamma"]
    found = {"K": entry["heads"], "λ": entry["lambda"], "β": beta, "γ": gamma}
    for short, measure in MEASURES.items():
        mean, spread = entry[measure.lower()]["mean"], entry[measure.lower()]["deviation"]
        found |= {f"μσ {short}": mean * spread, f"μ {short}": mean, f"σ {short}": spread}
    subset = reference()["sweep-beta-gamma"][data]
    return found | {name: subset[key] for name, key in OUTER.items()}


def _cells(found: Sequence[tuple[About, PairScores]], published: Mapping[str, float]) -> list[Cell]:
    values: dict[str, list[float]] = {}
    for about, scores in found:
        settings = flat(about.config)
        for name, key in SETTINGS.items():
            if name in ("K", "λ") or settings.get("method") == "combined-val":
                values.setdefault(name, []).append(float(settings[key]))
        measures = scores.measures()
        for short, measure in MEASURES.items():
            if measure in measures:
                every = np.concatenate(list(measures[measure].values())).astype(np.float64)
                mean, spread = float(every.mean()), float(every.std())
                for name, value in zip(SPREAD, (mean * spread, mean, spread), strict=True):
                    values.setdefault(f"{name} {short}", []).append(value)

    def cell(name: str, kind: Kind) -> Cell:
        own = values.get(name)
        value = None if own is None else float(np.mean(own))
        # a run that has no such measure or factor is no gap
        return Cell(value=value, paper=published.get(name), kind=kind, applies=bool(own) or not found)

    shown = [cell(name, "setting") for name in SETTINGS]
    shown += [cell(f"{name} {short}", "score") for short in MEASURES for name in SPREAD]
    # trained on a part of the training set, which no run of ours is
    return shown + [Cell(paper=published.get(name), kind="percent", applies=False) for name in OUTER]
