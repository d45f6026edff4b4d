"""Storyboards as sequences: one door to the decoders that `limner evaluate` and the papers' rows measure.

off: the best assignment by the unary scores alone. greedy, beam: left to right. chain: neighbours agree,
exact. anchor: all agree with one latent picture, exact; pins, when there are any, are the only
anchors. It sees scores only, never pictures.
"""

from limner.errors import ConfigError, unknown
from limner.research.evaluation.anchor import anchor_marginals, decode_anchor
from limner.research.evaluation.chain import chain_marginals, decode_beam, decode_chain
from limner.research.evaluation.lattice import Decoding, Float64Array, Lattice, assign

DECODERS = ("off", "greedy", "beam", "chain", "anchor")


def decode(problem: Lattice, decoder: str, *, beam_width: int = 8) -> Decoding:
    """Choose a column or a blank for every step.

    Args:
        problem: from `lattice.lattice`.
        decoder: off, greedy, beam, chain or anchor.
        beam_width: beginnings kept by the beam, at least 1.
    Returns:
        The choice, its value and a proven bound.
    Raises:
        ConfigError: the decoder is unknown.
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
