"""Choose a picture for every step at once: one door to all decoders.

off: the best assignment by the unary scores alone. greedy, beam: left to right. chain: neighbours agree,
exact. anchor: all agree with one latent picture, exact; pins, when there are any, are the only
anchors. It sees scores only, never pictures.
"""

from typing import Literal, get_args

import numpy as np

from limner.errors import ConfigError, unknown
from limner.storyboard.anchor import anchor_marginals, decode_anchor
from limner.storyboard.chain import chain_marginals, decode_beam, decode_chain
from limner.storyboard.lattice import BLANK, Decoding, Float64Array, Lattice, assign

Decoder = Literal["off", "greedy", "beam", "chain", "anchor"]
DECODERS: tuple[str, ...] = get_args(Decoder)


def decode(problem: Lattice, decoder: str, *, beam_width: int = 8) -> Decoding:
    """Choose a column or a blank for every step.

    Args:
        problem: from `lattice.lattice`.
        decoder: off, greedy, beam, chain or anchor.
        beam_width: beginnings kept by the beam, at least 1.
    Returns:
        The choice, its value and a proven bound.
    Raises:
        ConfigError: no such decoder.
        DataError: the steps cannot all be served.
    """
    match decoder:
        case "off":
            columns, value = assign(problem.unary, problem.group, problem.blank)
            return Decoding(columns, value, value)
        case "greedy":
            return decode_beam(problem, width=1)
        case "beam":
            return decode_beam(problem, width=beam_width)
        case "chain":
            return decode_chain(problem)
        case "anchor":
            return decode_anchor(problem)
    raise ConfigError("decoding: " + unknown("decoder", decoder, DECODERS))


def max_marginals(problem: Lattice, decoder: str) -> Float64Array:
    """Value of the best whole choice in which a step shows a candidate, repeats allowed.

    This is how a decoder ranks every picture for a step, not only the one it would choose.

    Args:
        problem: from `lattice.lattice`; its groups are ignored.
        decoder: chain or anchor.
    Returns:
        (S, K) nats, −inf where the step may not show the candidate.
    Raises:
        ConfigError: no such decoder, or one without marginals.
    """
    marginals = {"chain": chain_marginals, "anchor": anchor_marginals}
    if decoder not in marginals:
        raise ConfigError("decoding: " + unknown("decoder with marginals", decoder, marginals))
    return marginals[decoder](problem)


def pairwise_terms(problem: Lattice, decoder: str, choice: Decoding) -> Float64Array:
    """What the rest of the storyboard adds to each candidate of each step, all else fixed.

    Args:
        problem: from `lattice.lattice`.
        decoder: the decoder that made the choice.
        choice: its answer.
    Returns:
        (S, K) nats; zeros for decoder off.
    """
    if decoder == "off":
        return np.zeros(problem.unary.shape)
    if choice.anchor is not None:
        return problem.pairwise(choice.anchor)
    result = problem.world()
    for s in range(len(result)):
        beside = [t for t in (s - 1, s + 1) if 0 <= t < len(result) and choice.columns[t] != BLANK]
        if beside:
            shown = problem.items[beside, choice.columns[beside]]
            result[s] += problem.pair.block(shown, problem.items[s]).sum(axis=0)
    return result
