"""Choose a picture for every step at once: one door to all decoders.

off: the best assignment without any pull. greedy, beam: left to right. chain: neighbours agree,
exact. anchor: all agree with one latent picture, exact; pins, when there are any, are the only
anchors. It sees scores only, never pictures.
"""

from typing import Literal, get_args

import numpy as np

from limner.errors import ConfigError, unknown
from limner.storyboard.anchor import anchor_marginals, decode_anchor, pull_of
from limner.storyboard.chain import chain_marginals, decode_beam, decode_chain
from limner.storyboard.lattice import BLANK, Decoding, Float64Array, Lattice, assign

Decoder = Literal["off", "greedy", "beam", "chain", "anchor"]
DECODERS: tuple[str, ...] = get_args(Decoder)


def decode(problem: Lattice, decoder: str, *, beam_width: int = 8, limit: int | None = None) -> Decoding:
    """Choose a column or a blank for every step.

    Args:
        problem: from `lattice.lattice`.
        decoder: off, greedy, beam, chain or anchor.
        beam_width: beginnings kept by the beam.
        limit: work allowed to the exact decoders; None for their defaults.
    Returns:
        The choice, its value and a proven bound.
    Raises:
        ConfigError: no such decoder.
        DataError: the steps cannot all be served.
    """
    if decoder == "off":
        columns, value = assign(problem.unary, problem.group, problem.blank)
        return Decoding(columns, value, value)
    if decoder == "greedy":
        return decode_beam(problem, width=1)
    if decoder == "beam":
        return decode_beam(problem, width=beam_width)
    if decoder == "chain":
        return decode_chain(problem, limit=limit)
    if decoder == "anchor":
        return decode_anchor(problem) if limit is None else decode_anchor(problem, limit=limit)
    raise ConfigError("decoding: " + unknown("decoder", decoder, DECODERS))


def max_marginals(problem: Lattice, decoder: str) -> Float64Array:
    """Value of the best whole choice in which a step shows a candidate, repeats allowed.

    This is how a decoder ranks every picture for a step, not only the one it would choose.

    Args:
        problem: from `lattice.lattice`; its groups are ignored.
        decoder: off, chain or anchor; off ranks by the unary scores alone.
    Returns:
        (S, K) nats, −inf where the step may not show the candidate.
    Raises:
        ConfigError: no such decoder, or one without marginals.
    """
    if decoder == "off":
        return problem.unary
    if decoder == "chain":
        return chain_marginals(problem)
    if decoder == "anchor":
        return anchor_marginals(problem)
    raise ConfigError("decoding: " + unknown("decoder with marginals", decoder, ("off", "chain", "anchor")))


def pulls(problem: Lattice, decoder: str, choice: Decoding) -> Float64Array:
    """What the rest of the storyboard adds to each candidate of each step, all else fixed.

    Args:
        problem: from `lattice.lattice`.
        decoder: the decoder that made the choice.
        choice: its answer.
    Returns:
        (S, K) nats; zeros for decoder off.
    """
    steps, width = problem.unary.shape
    if decoder == "off" or not width:
        return np.zeros((steps, width))
    if decoder == "anchor":
        return np.zeros((steps, width)) if choice.anchor is None else pull_of(problem, choice.anchor)
    result = problem.world().copy()
    for s in range(steps):
        beside = [t for t in (s - 1, s + 1) if 0 <= t < steps and choice.columns[t] != BLANK]
        shown = np.array([problem.items[t, choice.columns[t]] for t in beside], dtype=np.int64)
        if len(shown):
            result[s] += problem.pair.block(shown, problem.items[s]).sum(axis=0)
    return result
