"""The table of captions: how well the runs of each system tell test stories back.

Perplexities are resampled by story like every other figure; BLEU and chrF are of a whole corpus and have no
interval. Nothing is told or measured here.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from limner.evaluation.captions import TextScores
from limner.evaluation.comparison import Figure, compare, marks
from limner.evaluation.sequence_results import Pictures, SequenceResult, Told
from limner.evaluation.tables import Block, Cell, Row, Table
from limner.evaluation.uncertainty import Values, Weights, group_numbers

_PICTURES: Mapping[Pictures, str] = {"true": "true pictures", "found": "found pictures"}
_SCORES: Mapping[str, Callable[[TextScores], float]] = {"BLEU-4": lambda s: s.bleu, "chrF": lambda s: s.chrf}


def caption_table(
    systems: Mapping[str, Sequence[SequenceResult]], where: str, control: str, resamples: int
) -> Table:
    """A row per system, the mean over its seeds.

    Args:
        systems: name → runs, all of which tell stories, on the same steps.
        where: data set and split.
        control: system the others' perplexities are compared with.
        resamples: of every interval and comparison.
    """
    first = next(iter(systems.values()))[0]
    owner, groups = group_numbers(first.stories)
    names = list(systems)
    told = {name: [run.told for run in runs if run.told is not None] for name, runs in systems.items()}
    # what is guessed must be the same for perplexities to compare
    every = [one for some in told.values() for one in some]
    alike = all((one.tokens, one.unknown) == (every[0].tokens, every[0].unknown) for one in every)
    figures, against = [], []
    for name in names:
        for place, pictures in enumerate(_PICTURES):
            statistic = _perplexity(told[name], pictures, owner, groups)
            figures.append(Figure("rank", statistic, None, higher_is_better=False))
            compared = alike and control in names and name != control
            against.append(names.index(control) * len(_PICTURES) + place if compared else None)
    cells, count = compare(figures, against, owner, groups, resamples=resamples)
    width = len(_PICTURES)
    rows = tuple(
        Row(
            name=name,
            remark=f"{len(told[name])} seeds" if len(told[name]) > 1 else "",
            cells=(*cells[width * row : width * (row + 1)], *_scores(told[name])),
        )
        for row, name in enumerate(names)
    )
    return Table(
        name="gsda-1-captions",
        title=f"Stories told back ({where})",
        corner="system",
        blocks=(
            Block(title="perplexity", columns=tuple(_PICTURES.values())),
            Block(title="told from true pictures", columns=tuple(_SCORES)),
        ),
        rows=rows,
        notes=(*_notes(every, alike), marks(control, count, resamples)),
    )


def _perplexity(
    told: Sequence[Told], pictures: Pictures, owner: NDArray[np.int64], groups: int
) -> Callable[[Weights], Values]:
    """Mean over seeds; within one all tokens weigh alike."""
    nats = np.stack([np.bincount(owner, one.nats[pictures], groups) for one in told], axis=1)
    tokens = np.stack([np.bincount(owner, one.tokens, groups) for one in told], axis=1)

    def perplexity(weights: Weights) -> Values:
        drawn = weights.astype(np.float64)
        found: Values = np.exp((drawn @ nats) / (drawn @ tokens)).mean(axis=1)
        return found

    return perplexity


def _scores(told: Sequence[Told]) -> list[Cell]:
    found = [one.scores for one in told if one.scores is not None]
    if not found or len(found) < len(told):
        return [Cell(applies=False)] * len(_SCORES)
    return [Cell(value=float(np.mean([score(one) for one in found]))) for score in _SCORES.values()]


def _notes(every: Sequence[Told], alike: bool) -> list[str]:
    first = every[0]
    notes = [
        "Perplexity of the true sentences, given the true pictures or those found first; ends of sentences"
        f" count, starts do not. {sum(first.tokens)} tokens,"
        f" {100 * sum(first.unknown) / sum(first.tokens):.1f} % of them unknown words, which are one class.",
        "BLEU-4 and chrF2 (per cent): the likeliest words at every step against the one true text.",
    ]
    if not alike:
        notes.append("The runs know different words or cut sentences elsewhere: perplexities do not compare.")
    return notes
