"""A published classifier as what takes bytes of pictures and gives features."""

from torch import nn

from limner.encoders.pixels import FromBytes, classifier, grid_of, last_linear


def empty_backbone(name: str, layer: str) -> tuple[nn.Module, int]:
    """A classifier that takes bytes and gives vectors or a grid, its weights yet to come.

    Args:
        name: see `limner.encoders.pixels.classifier`.
        layer: "grid" for its last map, else the pooled features.
    Returns:
        The module, and the width of a feature.
    Raises:
        ConfigError: there is no such architecture, or it has no map of features.
    """
    model = classifier(name)
    _, owner, leaf, width = last_linear(model, name)
    setattr(owner, leaf, nn.Identity())
    return backbone_of(model, name, layer, width)


def backbone_of(model: nn.Module, name: str, layer: str, width: int) -> tuple[nn.Module, int]:
    """A classifier without its last layer as what takes bytes, and F of what it gives.

    Args:
        model: whose weights are shared.
        name: name of the architecture, for the message.
        layer: "grid" for its last map, else the pooled features.
        width: width of the pooled features.
    Raises:
        ConfigError: it has no map of features.
    """
    if layer != "grid":
        return FromBytes(model), width
    grid = grid_of(model, name)
    return FromBytes(grid), grid.width
