"""Sentences from a captioner: the likeliest next word each time, or a beam of the likeliest beginnings.

A story's sentences follow one another: the state after one sentence begins the next, as in training. Nothing
is drawn at random, so equal weights and pictures tell equal stories. It trains nothing.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from limner.errors import ConfigError
from limner.models.captioner import BOUNDARY, UNKNOWN, Captioner
from limner.models.encoding import Evaluating, to_tensor

TELL_STORIES = 32


class Sentence(NamedTuple):
    """One sentence a captioner said.

    Attributes:
        words: their numbers, at least one, never that of unknown words.
        log_probability: nats, of the words and of the end after them.
    """

    words: tuple[int, ...]
    log_probability: float


def tell(
    captioner: Captioner,
    pictures: Sequence[np.ndarray],
    *,
    beams: int = 1,
    length_penalty: float = 0.0,
    max_length: int | None = None,
) -> list[list[str]]:
    """Tell stories from their pictures.

    Args:
        captioner: trained.
        pictures: per story (T, F) features in their order.
        beams: see `tell_sentences`, as for the others.
        length_penalty: of log-probabilities.
        max_length: words of a sentence at most.
    Returns:
        Per story one text per picture; none for a story without pictures.
    Raises:
        ShapeError: features of another width.
        ConfigError: a setting out of its range.
    """
    told: list[list[str]] = [[] for _ in pictures]
    some = [number for number, story in enumerate(pictures) if len(story)]
    for start in range(0, len(some), TELL_STORIES):
        chosen = some[start : start + TELL_STORIES]
        features = to_tensor(np.concatenate([pictures[number] for number in chosen]), captioner.device)
        steps = torch.tensor([len(pictures[number]) for number in chosen])
        stories = tell_sentences(
            captioner,
            features,
            steps,
            beams=beams,
            length_penalty=length_penalty,
            max_length=max_length,
        )
        for number, story in zip(chosen, stories, strict=True):
            told[number] = [captioner.text(sentence.words) for sentence in story]
    return told


def tell_sentences(
    captioner: Captioner,
    features: Tensor,
    steps: Tensor,
    *,
    beams: int = 1,
    length_penalty: float = 0.0,
    max_length: int | None = None,
) -> list[list[Sentence]]:
    """Tell B stories, all their first sentences at once, then their second, each from the state before it.

    A sentence has at least one word, no unknown one, and ends after `max_length` words whatever is likelier;
    probabilities are the captioner's own, not scaled up for what may not be said.

    Args:
        captioner: any mode; it is put back.
        features: (S, F) the pictures of all stories one after the other.
        steps: (B,) int64 on the CPU, with sum S.
        beams: beginnings kept per story; 1 takes the likeliest word each time. The best of the last beam goes
            on to the next sentence. More are likelier to find a likelier sentence, but not certain to.
        length_penalty: α ≥ 0; sentences of n tokens compete by log-probability / n^α; 0 is off.
        max_length: words of a sentence at most; the captioner's own where None.
    Returns:
        Per story its sentences.
    Raises:
        ShapeError: sizes do not fit.
        ConfigError: a setting out of its range.
    """
    longest = captioner.max_length if max_length is None else max_length
    if beams < 1 or longest < 1 or not 0 <= length_penalty < math.inf:
        raise ConfigError(
            f"tell: beams {beams}, max_length {longest}, length_penalty {length_penalty};"
            " expected at least 1, 1 and 0"
        )
    steps = steps.cpu()
    told: list[list[Sentence]] = [[] for _ in steps.tolist()]
    with Evaluating(captioner):
        heard = captioner.heard(features, steps)
        first = steps.cumsum(0) - steps
        state = captioner.silence(len(steps))
        for place in range(int(steps.max())):
            now = (steps > place).nonzero()[:, 0]
            rows = heard[(first[now] + place).to(heard.device)]
            before = state[:, :, now.to(state.device)]
            if beams == 1:
                sentences, after = greedy(captioner, rows, before, max_length=longest)
            else:
                sentences, after = beam(
                    captioner, rows, before, max_length=longest, width=beams, penalty=length_penalty
                )
            state[:, :, now.to(state.device)] = after
            for story, sentence in zip(now.tolist(), sentences, strict=True):
                told[story].append(sentence)
    return told


def greedy(
    captioner: Captioner, heard: Tensor, state: Tensor, *, max_length: int
) -> tuple[list[Sentence], Tensor]:
    """One sentence each for B pictures, the likeliest word at every place.

    Args:
        captioner: in evaluation mode.
        heard: (B, told).
        state: (2, layers, B, state) before the sentence.
        max_length: words at most.
    Returns:
        The sentences, and the state after the last word of each.
    """
    rows = len(heard)
    words = torch.full((rows,), BOUNDARY, device=heard.device)
    ended = torch.zeros(rows, dtype=torch.bool, device=heard.device)
    total = torch.zeros(rows, device=heard.device)
    said: list[Tensor] = []
    for place in range(max_length + 1):
        logs, moved = captioner.advance(heard, words, state)
        state = torch.where(ended[:, None], state, moved)
        best, chosen = _sayable(logs, place, max_length).max(dim=1)
        total = torch.where(ended, total, total + best)
        words = torch.where(ended, BOUNDARY, chosen)
        said.append(words)
        ended = words == BOUNDARY
        if bool(ended.all()):
            break
    return _sentences(torch.stack(said, dim=1), total), state


def beam(
    captioner: Captioner,
    heard: Tensor,
    state: Tensor,
    *,
    max_length: int,
    width: int,
    penalty: float = 0.0,
) -> tuple[list[Sentence], Tensor]:
    """One sentence each for B pictures, by keeping the best beginnings; ended ones keep their place.

    Args:
        captioner: in evaluation mode.
        heard: (B, told).
        state: (2, layers, B, state) before the sentence.
        max_length: words at most.
        width: beginnings kept.
        penalty: α of the length.
    Returns:
        The sentences, and the state after the last word of each.
    """
    count, device = len(heard), heard.device
    own = torch.arange(count, device=device)[:, None]
    heard = heard.repeat_interleave(width, dim=0)  # (B·K, told)
    state = state.repeat_interleave(width, dim=2)
    total = heard.new_full((count, width), -math.inf, dtype=torch.float32)
    total[:, 0] = 0  # one empty beginning; the other places are taken by what follows from it
    sizes = torch.zeros(count, width, dtype=torch.int64, device=device)
    words = torch.full((count, width), BOUNDARY, device=device)
    ended = torch.zeros(count, width, dtype=torch.bool, device=device)
    said = torch.zeros(count, width, max_length + 1, dtype=torch.int64, device=device)
    scores = total
    for place in range(max_length + 1):
        logs, moved = captioner.advance(heard, words.flatten(), state)
        state = torch.where(ended.flatten()[:, None], state, moved)
        logs = _sayable(logs, place, max_length).view(count, width, -1)
        logs = torch.where(ended[:, :, None], _only_the_end(logs), logs)
        sums = total[:, :, None] + logs  # (B, K, V)
        grown = sizes + ~ended
        scores, chosen = (sums / (grown**penalty)[:, :, None]).flatten(1).topk(width, dim=1)
        parents, words = chosen // logs.shape[2], chosen % logs.shape[2]  # (B, K)
        total = sums.flatten(1).gather(1, chosen)
        sizes = grown.gather(1, parents)
        state = state[:, :, (own * width + parents).flatten()]
        said = said[own, parents]
        said[:, :, place] = words
        ended = words == BOUNDARY
        # log-probabilities only fall, so no open beginning scores better than this at full length
        hope = (total / (max_length + 1) ** penalty).masked_fill(ended, -math.inf).amax(dim=1)
        if bool((scores.masked_fill(~ended, -math.inf).amax(dim=1) >= hope).all()):
            break
    best = scores.masked_fill(~ended, -math.inf).argmax(dim=1, keepdim=True)  # (B, 1)
    state = state[:, :, (own * width + best).flatten()]
    return _sentences(said[own, best][:, 0], total.gather(1, best)[:, 0]), state


def _sayable(logs: Tensor, place: int, max_length: int) -> Tensor:
    """(B, V) with what may not be said at a place of a sentence at −∞."""
    if place == max_length:
        return _only_the_end(logs, kept=True)
    allowed = logs.clone()
    allowed[:, UNKNOWN] = -math.inf
    if place == 0:
        allowed[:, BOUNDARY] = -math.inf
    return allowed


def _only_the_end(logs: Tensor, *, kept: bool = False) -> Tensor:
    """(…, V) with all but the end at −∞; the end at 0 (it was paid for already), or `kept` as it is."""
    only = torch.full_like(logs, -math.inf)
    only[..., BOUNDARY] = logs[..., BOUNDARY] if kept else 0
    return only


def _sentences(said: Tensor, totals: Tensor) -> list[Sentence]:
    """(B, places) numbers, 0 from the end on, and (B,) totals → B sentences."""
    return [
        Sentence(tuple(word for word in row if word != BOUNDARY), total)
        for row, total in zip(said.tolist(), totals.tolist(), strict=True)
    ]
