"""Complementary samples: weights that make loosely aligned pairs count, over a polysemous embedding.

All rows of the tables are settings of it; the neighbour graph is of training texts alone.
"""

from limner.research.systems.base import NO_COSINE, Capabilities, System
from limner.research.systems.complementary.model import Pvse
from limner.research.systems.complementary.settings import ComplementaryConfig
from limner.research.systems.complementary.task import ComplementaryTask


class ComplementarySystem(System[ComplementaryConfig, Pvse]):
    """What it declares."""

    name = "complementary"
    settings = ComplementaryConfig
    model = Pvse
    training = ComplementaryTask

    def capabilities(self, config: ComplementaryConfig) -> Capabilities:
        """Several vectors per text and picture, from grids."""
        heads = config.model.heads
        by_meaning = config.needs_graph and config.graph.vectors == "sentences"
        several = (
            f"gives a picture {heads} vectors, a library holds one of each; use a run of cmcm or vse, or"
            " limner measure for this one"
        )
        return Capabilities(
            trains_with=frozenset({"sentences"} if by_meaning else ()),
            no_library=several if heads > 1 else NO_COSINE,
            backbone=config.backbone,
            layer="grid",
            trains_backbone=True,
            margin=config.margin,
        )


SYSTEM = ComplementarySystem()
