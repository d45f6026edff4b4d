"""Tables of CMCM by relation: ranks where one holds (cmcm-7), and how well each is predicted (cmcm-8).

The control of predictions is the text without its picture. Nothing is predicted here.
"""

import numpy as np
from numpy.typing import NDArray

from limner.evaluation import labels
from limner.evaluation.coherence_scene import (
    CONTROL,
    METRICS,
    Scene,
    Stage,
    marks_note,
    parted,
    pools_of,
    reference,
    scaled,
    seeds,
)
from limner.evaluation.comparison import Figure, compare, precision_figure, rank_figure
from limner.evaluation.tables import Block, Cell, Row, Table

TEXT_ONLY = "text only"


def per_relation(scene: Scene) -> Table:
    """Queries for which a relation holds, and those for which it does not, against all pictures."""
    published = reference()[scene.name]["rows"] if scene.published else {}
    columns: tuple[tuple[str, str, Stage], ...] = (
        ("CMCA", CONTROL, "plain"),
        ("CMCM", "CMCM", "plain"),
        ("CMCM refined", "CMCM", "refined"),
    )
    figures: list[Figure] = []
    names: list[tuple[str, str]] = []
    for relation in _relations(scene):
        for holds in (True, False):
            count = 0
            for _, system, stage in columns:
                pools = []
                for rows, ranks in pools_of(scene.runs(system), stage, full=True):
                    keep = _majority(scene, relation)[rows] == holds
                    pools.append((rows[keep], ranks[keep]))
                    count = int(keep.sum())
                printed = published.get(relation, {}).get(system, {}) if holds and stage != "plain" else {}
                if holds and system == CONTROL:
                    printed = published.get(relation, {}).get(system, {})
                usable = [pool for pool in pools if len(pool[0])]
                figures += [
                    rank_figure(m, usable, scene.owner, scene.groups, scaled(printed, m)) for m in METRICS
                ]
            names.append((relation if holds else f"not {relation}", f"{count} queries"))
    width = len(columns) * len(METRICS)
    against = [
        None if place % width < len(METRICS) else place // width * width + place % len(METRICS)
        for place in range(len(figures))
    ]
    cells, compared = compare(figures, against, scene.owner, scene.groups, resamples=scene.resamples)
    return Table(
        name=scene.name,
        title=scene.title(", all pictures"),
        corner="relation",
        blocks=tuple(Block(title=title, columns=METRICS) for title, _, _ in columns),
        rows=tuple(
            Row(name=name, remark=remark, cells=tuple(part))
            for (name, remark), part in zip(names, parted(cells, width), strict=True)
        ),
        notes=(
            "Brackets: 95 % bootstrap interval by duplicate group. Parentheses: the paper's figure.",
            marks_note(f"{CONTROL} on the same queries", compared, scene.resamples),
        ),
    )


def precisions(scene: Scene) -> Table:
    """Average precision of every predicted relation beside prevalence, text-only controls and the ceiling."""
    relations = _relations(scene)
    published = reference()[scene.name]["rows"] if scene.published else {}
    aliases = {
        entry["alias"]: name for name, entry in reference()["cmcm-4"]["rows"].items() if "alias" in entry
    }
    controls = [name for name in scene.systems if name.startswith(TEXT_ONLY)] or [TEXT_ONLY]
    known = {"CMCM-NoAttn", "CMCM", *controls, *(f"CMCM_{r}" for r in relations), *aliases.values()}
    others = [n for n, runs in scene.systems.items() if n not in known and runs[0].probabilities]
    every = next(iter(scene.systems.values()), [None])[0]
    rows: list[Row] = []
    if every is not None:
        base = [
            labels.prevalence(every.labels[r], every.groups, resamples=scene.resamples) for r in relations
        ]
        cells = [Cell(value=b.value, low=b.low, high=b.high, kind="precision") for b in base]
        rows.append(Row(name="prevalence (chance)", cells=tuple(cells)))
    figures: list[Figure] = []
    names = [*controls, "CMCM-NoAttn", "CMCM", "CMCM_c", *others]
    for name in names:
        for relation in relations:
            system = f"CMCM_{relation}" if name == "CMCM_c" else name
            runs = [r for r in scene.runs(system, aliases.get(system, "")) if relation in r.probabilities]
            printed = published.get(name, {}).get("printed", {}).get(relation)
            scores = np.array([run.probabilities[relation] for run in runs])
            truth = runs[0].labels[relation] if runs else ()
            figures.append(precision_figure(scores, truth, scene.owner, printed))
    width = len(relations)
    against = [None if place < width * len(controls) else place % width for place in range(len(figures))]
    cells, compared = compare(figures, against, scene.owner, scene.groups, resamples=scene.resamples)
    rows += [
        Row(
            name=f"{name} (own relation)" if name == "CMCM_c" else name,
            remark=seeds(scene.runs(name)),
            cells=tuple(part),
        )
        for name, part in zip(names, parted(cells, width) if width else [[]] * len(names), strict=True)
    ]
    if every is not None and len(set(every.pairs)) < len(every.pairs):
        top = [
            labels.disagreement_ceiling(every.pairs, every.labels[r]) if any(every.labels[r]) else None
            for r in relations
        ]
        cells = [Cell(value=value, kind="precision") for value in top]
        rows.append(Row(name="ceiling (annotators disagree on repeated pairs)", cells=tuple(cells)))
    return Table(
        name=scene.name,
        title=scene.title(),
        corner="model",
        blocks=(Block(title="average precision", columns=relations),),
        rows=tuple(rows),
        notes=(
            "Brackets: 95 % bootstrap interval by duplicate group. Parentheses: the paper's figure (released"
            " split).",
            marks_note(f"the row '{controls[0]}'", compared, scene.resamples),
        ),
    )


def _relations(scene: Scene) -> tuple[str, ...]:
    """Relations of the results, in their order; the published ones where there is no result."""
    for runs in scene.systems.values():
        return tuple(runs[0].labels)
    return tuple(reference()["cmcm-8"]["rows"]["CMCM"]["printed"])


def _majority(scene: Scene, relation: str) -> NDArray[np.bool_]:
    """(N,) whether most annotations of a row's pair state the relation; a tie counts as stated."""
    result = next(iter(scene.systems.values()))[0]
    pairs, stated = np.array(result.pairs), np.array(result.labels[relation])
    positives, sizes = np.bincount(pairs, stated), np.bincount(pairs)
    majority: NDArray[np.bool_] = (2 * positives >= sizes)[pairs]
    return majority
