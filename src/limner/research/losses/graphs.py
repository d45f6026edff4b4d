"""Losses on the graph vectors of a story: consecutive pictures should have similar scene graphs."""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from limner.arrays import expect
from limner.errors import ShapeError
from limner.research.losses.ranking import product


class Chosen(NamedTuple):
    """The candidate chosen for each of S queries.

    Attributes:
        values: (S, W) values of the best candidate, with the gradient of the softmax mean.
        best: (S,) int64 index of the best candidate; ties go to the first.
    """

    values: Tensor
    best: Tensor


def straight_through(scores: Tensor, values: Tensor, temperature: float) -> Chosen:
    """Straight-through estimator: forward the best candidate's values, backward the softmax mean's gradient.

    Args:
        scores: (S, M), unitless.
        values: (M, W) values of the candidates; no gradient flows to them.
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
    """1 − cosine between the graph vectors of each step and the previous one.

    Args:
        graphs: (S, G) graph vectors, the stories concatenated.
        steps: (B,) int64, steps per story, at least 1, with sum S.
        known: (S,) bool, False for empty graphs, which are ignored.
    Returns:
        (S,) in [0, 2]; 0 for the first step of a story, and if either graph is empty.
    Raises:
        ShapeError: the sizes contradict each other.
    Source: GSDA 2021, the last term of the step-wise loss after Eq. 6; docs/methods/gsda.md §4.2.
    """
    later = _later(graphs, steps, known)
    distances = graphs.new_zeros(len(graphs))
    distances[later] = 1 - cosine_similarity(graphs[later - 1], graphs[later], dim=1)
    return distances


def contrastive_neighbours(
    graphs: Tensor, steps: Tensor, others: Tensor, margin: float, known: Tensor | None = None
) -> Tensor:
    """Hinge: consecutive graphs of a story should be closer than a graph of another story.

    In mode `soft` this alone trains the graph encoder. A constant vector costs the margin, which prevents
    collapse.

    Args:
        graphs: (S, G) graph vectors of the true pictures, the stories concatenated.
        steps: (B,) int64, steps per story, at least 1, with sum S.
        others: (S,) int64, for each step a row of another story.
        margin: δ > 0, cosine units.
        known: (S,) bool, False for empty graphs; terms with an empty graph are 0.
    Returns:
        (S,) at least 0; 0 for the first step of a story.
    Raises:
        ShapeError: sizes differ, or a row of `others` is of the same story.
    Source: docs/methods/gsda.md §4.2; not in the paper.
    """
    later = _later(graphs, steps, known)
    expect("contrastive_neighbours", graphs=(graphs, "S G"), others=(others, "S"))
    stories = torch.repeat_interleave(steps).to(graphs.device)
    if known is not None:
        later = later[known[others[later]]]
    if bool((stories[others[later]] == stories[later]).any()):
        raise ShapeError(
            "contrastive_neighbours: a row of `others` is of the same story; expected another story"
        )
    near = cosine_similarity(graphs[later - 1], graphs[later], dim=1)
    far = cosine_similarity(graphs[later - 1], graphs[others[later]], dim=1)
    costs = graphs.new_zeros(len(graphs))
    costs[later] = (margin - near + far).clamp(min=0)
    return costs


def _later(graphs: Tensor, steps: Tensor, known: Tensor | None) -> Tensor:
    """Rows with a previous step in the story, both with a non-empty graph."""
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
