"""Retrieval tables of CMCM (cmcm-4 and cmcm-5): every system's ranks, plain and refined, on the same pools.

Rows are compared with one control under one correction. Nothing is ranked here.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from limner.evaluation.coherence_scene import (
    CONTROL,
    METRICS,
    Scene,
    Stage,
    chosen,
    marks_note,
    parted,
    pools_of,
    reference,
    scaled,
    seeds,
)
from limner.evaluation.comparison import Figure, compare, rank_figure
from limner.evaluation.results import Result
from limner.evaluation.tables import Block, Row, Table

MODELS = ("Base", "CMCA", "CMCM-NoAttn", "CMCM")


def retrieval(scene: Scene, *, full: bool) -> Table:
    """Plain and refined ranks on the same pools, every row against the control's plain figures."""
    published = reference()[scene.name]["rows"]
    if not scene.published:  # the figures of another data set are no reference, its rows no gap
        published = {n: {} for n in published if n in MODELS and (scene.runs(n) or n == CONTROL)}
    extra = [name for name, runs in scene.systems.items() if runs[0].pools and not _known(name, published)]
    figures: list[Figure] = []
    rows: list[tuple[str, Sequence[Result]]] = []
    for name in (*published, *extra):
        entry = published.get(name, {})
        runs = scene.runs(name, entry.get("alias", ""))
        rows.append((name, runs))
        for stage in ("plain", "refined"):
            pools = pools_of(runs, stage, full=full)
            printed = _printed(entry, stage, refines=name not in ("Base", CONTROL))
            applies = stage == "plain" or (name not in ("Base", CONTROL) and (bool(pools) or not runs))
            for metric in METRICS:
                figures.append(
                    rank_figure(
                        metric, pools, scene.owner, scene.groups, printed.get(metric), applies=applies
                    )
                )
    control = [name for name, _ in rows].index(CONTROL) * 2 * len(METRICS)
    against = [
        None if start == control else control + offset % len(METRICS)
        for start in range(0, len(figures), 2 * len(METRICS))
        for offset in range(2 * len(METRICS))
    ]
    width = len(METRICS)
    refines = any(r.pools and r.pools[0].refined for _, runs in rows for r in runs)
    # plain and refined of one system come from the same queries of the same pools, so they are paired
    gains = [
        (start + width + place, start + place)
        for start in range(0, len(figures) if refines else 0, 2 * width)
        for place in range(width)
    ]
    cells, compared = compare(
        figures, against, scene.owner, scene.groups, gains=gains, resamples=scene.resamples
    )
    lines = list(parted(cells[: len(figures)], 2 * width))
    if refines:
        gained = parted(cells[len(figures) :], width)
        lines = [(*own, *gain) for own, gain in zip(lines, gained, strict=True)]
    elif not scene.published:
        lines = [own[:width] for own in lines]
    size = next((p.pictures for _, runs in rows for r in runs for p in chosen(r, full=full)), 0)
    count = next((len(chosen(r, full=full)) for _, runs in rows for r in runs), 0)
    tail = (
        f", {f'all {size} pictures' if full else f'{count} pools of {size}'}"
        if size
        else (", all pictures" if full else ", pools")
    )
    intervals = "Brackets: 95 % bootstrap interval by duplicate group, over all seeds and pools."
    if scene.published:
        intervals += (
            " Parentheses: the paper's figure, after refinement where the model has a coherence module, on"
            " its own pools."
        )
    notes = [intervals, marks_note(f"{CONTROL} (plain) on the same pools", compared, scene.resamples)]
    stages = ["plain"]
    if refines or scene.published:
        stages.append("refined")
    if refines:
        stages.append("refined minus plain")
        notes.append("Refined minus plain: paired, its marks against no difference, in the same correction.")
    return Table(
        name=scene.name,
        title=scene.title(tail),
        corner="model",
        blocks=tuple(Block(title=title, columns=METRICS) for title in stages),
        rows=tuple(
            Row(name=name, remark=seeds(runs), cells=tuple(part))
            for (name, runs), part in zip(rows, lines, strict=True)
        ),
        notes=tuple(notes),
    )


def _printed(entry: Mapping[str, Any], stage: Stage, *, refines: bool) -> dict[str, float]:
    """Published figures of one row at one stage, as fractions and ranks."""
    table = entry.get("printed", {}) if refines == (stage == "refined") else {}
    found = {metric: scaled(table, metric) for metric in METRICS if metric in table}
    if stage in entry:  # the medians behind Figure 5 have one more digit
        found["MedR"] = entry[stage][0]
    return {metric: value for metric, value in found.items() if value is not None}


def _known(name: str, published: Mapping[str, Any]) -> bool:
    return name in published or any(entry.get("alias") == name for entry in published.values())
