"""Losses of a story's scene graphs: consecutive pictures should look alike, by the graphs of what they show.

Works on graph vectors, whoever makes them. It encodes no graph and chooses no picture.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from limner.arrays import expect
from limner.errors import ShapeError
from limner.research.losses.ranking import product


class Chosen(NamedTuple):
    """Result of every query's attention over M candidates.

    Attributes:
        values: (S, W), exactly those of the best candidate; their gradient is that of the soft mean.
        best: (S,) int64, which candidate that is; ties go to the first.
    """

    values: Tensor
    best: Tensor


def straight_through(scores: Tensor, values: Tensor, temperature: float) -> Chosen:
    """The best candidate's values forward, the softmax mean's gradient backward.

    Args:
        scores: (S, M), unitless.
        values: (M, W) of the candidates; constants here, so that only scores learn from the choice.
        temperature: τ > 0, score units.
    Raises:
        ShapeError: the sizes contradict each other.
    Source: docs/methods/gsda.md §4.2, §4.4, mode `soft`. Departs: GSDA 2021 takes the arg max, which has no
    gradient.
    """
    expect("straight_through", scores=(scores, "S M"), values=(values, "M W"))
    fixed = values.detach()
    best = scores.argmax(dim=1)
    soft = product((scores / temperature).softmax(dim=1), fixed)
    return Chosen(fixed[best] + (soft - soft.detach()), best)


def neighbour_distance(graphs: Tensor, steps: Tensor, known: Tensor | None = None) -> Tensor:
    """1 − cosine of every step's graph vector and that of the step before.

    Args:
        graphs: (S, G), the steps of all stories one after the other.
        steps: (B,) int64, at least 1, with sum S.
        known: (S,) bool, False where the graph is empty; such steps and those after them cost nothing.
    Returns:
        (S,) in [0, 2]; 0 for the first step of a story.
    Raises:
        ShapeError: the sizes contradict each other.
    Source: GSDA 2021, the last term of the step-wise loss after Eq. 6; docs/methods/gsda.md §4.2.
    """
    later = _later(graphs, steps, known)
    found = graphs.new_zeros(len(graphs))
    found[later] = 1 - cosine_similarity(graphs[later - 1], graphs[later], dim=1)
    return found


def contrastive_neighbours(
    graphs: Tensor, steps: Tensor, others: Tensor, margin: float, known: Tensor | None = None
) -> Tensor:
    """Hinge that wants neighbours in a story closer than a graph of another story.

    What alone trains the graph encoder in mode `soft`: a constant vector costs the margin, so that it cannot
    collapse.

    Args:
        graphs: (S, G) of the true pictures, the steps of all stories one after the other.
        steps: (B,) int64, at least 1, with sum S.
        others: (S,) int64 rows of graphs of other stories, one for every step.
        margin: δ > 0, cosine units.
        known: (S,) bool, False where the graph is empty: a term with one of those costs nothing.
    Returns:
        (S,) at least 0; 0 for the first step of a story.
    Raises:
        ShapeError: sizes do not fit, or a row of `others` is of the same story.
    Source: docs/methods/gsda.md §4.2, ours.
    """
    later = _later(graphs, steps, known)
    expect("contrastive_neighbours", graphs=(graphs, "S G"), others=(others, "S"))
    stories = torch.repeat_interleave(steps).to(graphs.device)
    if known is not None:
        later = later[known[others[later]]]
    if bool((stories[others[later]] == stories[later]).any()):
        raise ShapeError(
            "contrastive_neighbours: a graph to keep apart is of the same story, expected another"
        )
    near = cosine_similarity(graphs[later - 1], graphs[later], dim=1)
    far = cosine_similarity(graphs[later - 1], graphs[others[later]], dim=1)
    found = graphs.new_zeros(len(graphs))
    found[later] = (margin - near + far).clamp(min=0)
    return found


def _later(graphs: Tensor, steps: Tensor, known: Tensor | None) -> Tensor:
    """Rows that have a step before them, both with a graph."""
    if graphs.ndim != 2 or int(steps.sum()) != len(graphs) or int(steps.min()) < 1:
        raise ShapeError(
            f"graphs: vectors {tuple(graphs.shape)} for stories of {steps.tolist()} steps, expected (S, G)"
        )
    first = torch.cumsum(steps, dim=0) - steps
    later = torch.ones(len(graphs), dtype=torch.bool, device=graphs.device)
    later[first.to(graphs.device)] = False
    if known is not None:
        expect("graphs", graphs=(graphs, "S G"), known=(known, "S"))
        later = later & known & known.roll(1)
    return later.nonzero().squeeze(1)
