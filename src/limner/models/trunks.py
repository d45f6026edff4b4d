"""Trunks by name, with weights yet to come: what a checkpoint's tensors are loaded into.

A run that trained its own trunk is rebuilt through here. It reads no weights; a pretrained start comes from
`limner.encoders`.
"""

from torch import nn

from limner.encoders.pixels import DrawingGrid, DrawingTrunk, FromBytes, grid_trunk
from limner.errors import ConfigError, unknown


def drawing_trunk() -> tuple[nn.Module, int]:
    """A small net for drawings that takes bytes, and the width of its features."""
    trunk = DrawingTrunk()
    return FromBytes(trunk), trunk.width


def empty_backbone(name: str) -> tuple[nn.Module, int]:
    """A torchvision classifier without its last layer that takes bytes, and the width of its features.

    Args:
        name: torchvision's name of the architecture.
    Raises:
        ConfigError: torchvision has no such architecture.
    """
    model, width = _empty(name)
    return FromBytes(model), width


def drawing_grid() -> tuple[nn.Module, int]:
    """A small net for drawings that takes bytes and gives a grid, and the width of a place."""
    trunk = DrawingGrid()
    return FromBytes(trunk), trunk.width


def empty_grid(name: str) -> tuple[nn.Module, int]:
    """A torchvision classifier up to its last map, taking bytes, and the width of a place.

    Args:
        name: torchvision's name of the architecture.
    Raises:
        ConfigError: torchvision has no such architecture, or it has no map of features.
    """
    model, width = _empty(name)
    return FromBytes(grid_trunk(model, name)), width


def _empty(name: str) -> tuple[nn.Module, int]:
    """A classifier without its last layer, and the width of its features."""
    from torchvision import models

    if name not in models.list_models(module=models):
        raise ConfigError("trunk: " + unknown("architecture", name, models.list_models(module=models)))
    model = models.get_model(name, weights=None)
    last = [key for key, module in model.named_modules() if isinstance(module, nn.Linear)][-1]
    owner, leaf = model.get_submodule(last.rpartition(".")[0]), last.rpartition(".")[2]
    width = int(getattr(owner, leaf).in_features)
    setattr(owner, leaf, nn.Identity())
    return model, width
