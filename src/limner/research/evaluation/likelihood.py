"""Likelihood of whole storyboards, with jointly fitted weights of text and of pictures.

A storyboard x of a story has the weight exp(Σ_t a·s(t, x_t) + Σ of the pictures' evidence for each other).
Its share among all storyboards is exact: neighbours form a chain, or all are drawn to one latent picture, or
to a picture that is given.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import log_softmax

from limner.arrays import expect
from limner.errors import NumericsError

Form = Literal["chain", "anchor", "pin", "pinned chain"]
ROUNDS = 60
"""Steps of the fit at most."""
NEVER = -1e4
"""Nats of a picture that may not be shown; finite, so that gradients are."""


@dataclass(frozen=True)
class Telling:
    """A story, its scores and its pictures.

    Attributes:
        scores: (S, M) of its steps with all pictures, unitless.
        columns: (S,) the picture of each step.
    """

    scores: Tensor
    columns: Tensor


@dataclass(frozen=True)
class ChannelWeights:
    """Fitted parameters.

    Attributes:
        text: a, nats per unit of score; above 0.
        pictures: (K,) times the K kinds of evidence of two pictures for each other; (2 K,) of a pinned chain,
            those of neighbours and then those of the given picture.
    """

    text: float
    pictures: tuple[float, ...]


def chain(nats: Tensor, pair: Tensor) -> tuple[Tensor, Tensor]:
    """Sum over storyboards and marginals of steps if neighbours agree with each other.

    Args:
        nats: (S, M) of each step alone.
        pair: (M, M) of two neighbours, symmetric.
    Returns:
        Logarithm of the sum over all storyboards, and (S, M) logarithms of the shares of those in which a
        step shows a picture.
    Source: the forward-backward algorithm of hidden Markov models; docs/methods/evaluation.md §12.
    """
    expect("chain", nats=(nats, "S M"), pair=(pair, "M M"))
    passed, steps = _raised(pair), len(nats)
    ahead, behind = [nats[0]], [torch.zeros_like(nats[0])]
    for step in range(1, steps):
        ahead.append(nats[step] + passed(ahead[-1]))
        behind.append(passed(nats[steps - step] + behind[-1]))
    total = ahead[-1].logsumexp(dim=0)
    return total, torch.stack(ahead) + torch.stack(behind[::-1]) - total


def anchor(nats: Tensor, pair: Tensor) -> tuple[Tensor, Tensor]:
    """Sum and marginals if all steps agree with one latent picture; arguments and result as in `chain`."""
    expect("anchor", nats=(nats, "S M"), pair=(pair, "M M"))
    passed = _raised(pair)
    drawn = passed(nats)  # (S, M) of each step under each latent picture
    each = drawn.sum(dim=0)
    total = each.logsumexp(dim=0)
    return total, nats + passed(each - drawn) - total


def pin(nats: Tensor, pull: Tensor) -> Tensor:
    """Marginals of steps if all agree with a given picture.

    Args:
        nats: (S, M) of each step alone.
        pull: (M,) of the given picture for each; −inf for what may not be shown.
    Returns:
        (S, M) logarithms of shares.
    """
    expect("pin", nats=(nats, "S M"), pull=(pull, "M"))
    return log_softmax(nats + pull, dim=1)


def log_likelihood(form: Form, told: Telling, text: Tensor, pair: Tensor) -> Tensor:
    """Log-likelihood of a story's own storyboard, in nats; with a pin, of all but its first step.

    Steps that show the given picture again do not count.

    Args:
        form: chain, anchor, pin, or a chain whose steps are drawn to the first one's picture, a pinned chain.
        told: the story.
        text: (), see `ChannelWeights`.
        pair: (M, M) nats; (2, M, M) of a pinned chain, see `mixed`.
    """
    columns = told.columns
    kept = columns[1:] != columns[0]
    if form == "pin":
        shares = posteriors("pin", told, text, pair)
        return shares[torch.arange(1, len(columns)), columns[1:]][kept].sum()
    if form == "pinned chain":
        nats, pair = _drawn(told, text, pair)
        nats, columns, form = nats[kept], columns[1:][kept], "chain"
    else:
        nats = text * told.scores
    own = nats[torch.arange(len(columns)), columns].sum()
    if not len(columns):
        return own
    if form == "chain":
        return own + pair[columns[:-1], columns[1:]].sum() - chain(nats, pair)[0]
    return own + pair[columns].sum(dim=0).logsumexp(dim=0) - anchor(nats, pair)[0]


def posteriors(form: Form, told: Telling, text: Tensor, pair: Tensor) -> Tensor:
    """(S, M) logarithms of the share of storyboards in which a step shows a picture; see `log_likelihood`."""
    first = told.columns[0]
    if form == "pinned chain":
        nats, pair = _drawn(told, text, pair)
        given = nats.new_full((1, nats.shape[1]), NEVER).index_fill(1, first[None], 0.0)
        return torch.cat([given, chain(nats, pair)[1]]) if len(nats) else given
    nats = text * told.scores
    if form == "pin":
        pull = pair[first].masked_fill(torch.arange(len(pair)) == first, -torch.inf)
        return pin(nats, pull)
    return (chain if form == "chain" else anchor)(nats, pair)[1]


def fit(
    form: Form, parts: Sequence[tuple[Sequence[Telling], Tensor]], start: ChannelWeights
) -> ChannelWeights:
    """The weights under which the stories' own storyboards are most likely.

    Args:
        form: see `log_likelihood`.
        parts: stories over one set of pictures, and (K, M, M) the kinds of evidence of these.
        start: where to begin.
    Raises:
        NumericsError: the likelihood is not finite.
    """
    free = torch.tensor([np.log(start.text), *start.pictures], dtype=torch.float64, requires_grad=True)
    count = sum(len(told.columns) for stories, _ in parts for told in stories)
    optimiser = torch.optim.LBFGS([free], max_iter=ROUNDS, line_search_fn="strong_wolfe")

    def cost() -> Tensor:
        optimiser.zero_grad()
        total = torch.zeros((), dtype=torch.float64)
        for stories, evidence in parts:
            pair = mixed(free[1:], evidence)
            for told in stories:
                total = total - log_likelihood(form, told, free[0].exp(), pair)
        if not bool(torch.isfinite(total)):
            raise NumericsError(f"likelihood: {form}: not finite; look at the scores of the stories")
        mean = total / count
        mean.backward()  # type: ignore[no-untyped-call]
        return mean

    optimiser.step(cost)  # type: ignore[no-untyped-call]
    text, *pictures = free.detach().tolist()
    return ChannelWeights(float(np.exp(text)), tuple(pictures))


def mixed(pictures: Tensor, evidence: Tensor) -> Tensor:
    """(K,) weights of (K, M, M) evidence → (M, M) nats; (2 K,) weights, of a pinned chain → (2, M, M)."""
    if len(pictures) == len(evidence):
        return torch.einsum("k,kij->ij", pictures, evidence)
    return torch.einsum("rk,kij->rij", pictures.view(2, len(evidence)), evidence)


def _drawn(told: Telling, text: Tensor, pair: Tensor) -> tuple[Tensor, Tensor]:
    """Nats of the steps behind the first, whose picture is given and draws them, and of two neighbours."""
    first = told.columns[0]
    nats = text * told.scores[1:] + pair[1, first]
    return nats.index_fill(1, first[None], NEVER), pair[0]


def _raised(pair: Tensor) -> Callable[[Tensor], Tensor]:
    """(…, M) nats → (…, M) log Σ_i exp(nats_i + pair_ij), by one product."""
    most = pair.max()
    table = (pair - most).exp()

    def passed(nats: Tensor) -> Tensor:
        top = nats.max(dim=-1, keepdim=True).values
        return ((nats - top).exp() @ table).clamp(min=1e-300).log() + top + most

    return passed
