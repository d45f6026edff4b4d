"""Simple random samples for human studies: a function of names and a seed, and of nothing else.

Whoever chooses items by what systems found for them makes the better one look better still; so nothing but
ids comes in here. It reads no result and shows nothing.
"""

import hashlib
from collections.abc import Iterable, Mapping

from limner.errors import ConfigError, DataError
from limner.study.records import Drawn, Population

MAX_SIZE = 100_000


def draw(strata: Mapping[str, Iterable[str]], size: int | None, seed: int) -> Population:
    """A simple random sample without replacement from every stratum.

    Ids are ordered by the SHA-256 of seed, stratum and id, and the first are taken: the order in which they
    come does not matter, another library version draws the same, and a larger sample contains the smaller.

    Args:
        strata: name → ids of all that could be drawn; repeated ids count once.
        size: drawn per stratum, all where it has fewer; None draws all.
        seed: at least 0.
    Returns:
        Per stratum its whole population, sorted, and the drawn ids in the order of the draw.
    Raises:
        ConfigError: size or seed out of range.
        DataError: no stratum, or one without ids.
    Source: docs/methods/evaluation.md §9.1. Departs: the release of CMCM 2022 kept items that the tested
        system ranks better; nothing is filtered by outcome here.
    """
    if seed < 0 or (size is not None and not 1 <= size <= MAX_SIZE):
        raise ConfigError(f"study: size {size}, seed {seed}; expected a size in 1…{MAX_SIZE} and a seed ≥ 0")
    if not strata:
        raise DataError("study: nothing to draw from; name runs, storyboards or an items file")
    drawn = {}
    for name, ids in strata.items():
        population = tuple(sorted(set(ids)))
        if not population:
            raise DataError(f"study: stratum {name!r} has no item to draw; leave it out")
        drawn[name] = Drawn(
            population=population, drawn=shuffled(population, seed, "draw", name)[: size or len(population)]
        )
    return Population(seed=seed, strata=drawn)


def shuffled(ids: Iterable[str], *salt: object) -> tuple[str, ...]:
    """Ids in an order that depends on them and the salt alone.

    Args:
        ids: all different.
        salt: what the order is for, such as seed and purpose.
    """
    return tuple(sorted(ids, key=lambda name: (_digest(*salt, name), name)))


def redrawn(population: Population) -> bool:
    """Whether drawing again from the stored population with the stored seed gives the stored sample."""
    return all(
        one.drawn == shuffled(one.population, population.seed, "draw", name)[: len(one.drawn)]
        for name, one in population.strata.items()
    )


def _digest(*parts: object) -> bytes:
    # Lengths keep ("a", "bc") apart from ("ab", "c").
    words = [str(part).encode("utf-8", "surrogatepass") for part in parts]
    return hashlib.sha256(b"".join(b"%d:%b" % (len(word), word) for word in words)).digest()
