"""Complementary samples: weights that make loosely aligned pairs count, over a polysemous embedding.

All rows of the tables are settings of it; the neighbour graph is of training texts alone.
"""

from limner.research.systems.base import Capabilities, System
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
        return Capabilities(
            vectors=config.model.heads,
            cosine=False,
            sentences=config.needs_graph and config.graph.vectors == "sentences",
            backbone=config.backbone,
            layer="grid",
            trains_backbone=True,
            margin=config.margin,
        )


SYSTEM = ComplementarySystem()
