"""Published classifiers as backbones, from the pixels of pictures to features."""

from torch import nn

from limner.encoders.pixels import FromBytes, classifier, grid_of, last_linear


def empty_backbone(name: str, layer: str) -> tuple[nn.Module, int]:
    """Build a backbone from pixels to vectors or a grid, before its weights are loaded.

    Args:
        name: see `limner.encoders.pixels.classifier`.
        layer: "grid" for its last feature map, else the pooled features.
    Returns:
        The module, and F, the dimension of a feature.
    Raises:
        ConfigError: the architecture does not exist, or has no feature maps.
    """
    model = classifier(name)
    _, owner, leaf, width = last_linear(model, name)
    setattr(owner, leaf, nn.Identity())
    return backbone_of(model, name, layer, width)


def backbone_of(model: nn.Module, name: str, layer: str, width: int) -> tuple[nn.Module, int]:
    """A classifier without its last layer, from pixels to features, and F, the dimension of a feature.

    Args:
        model: model whose weights are shared.
        name: name of the architecture, for the message.
        layer: "grid" for its last feature map, else the pooled features.
        width: width of the pooled features.
    Raises:
        ConfigError: it has no feature maps.
    """
    if layer != "grid":
        return FromBytes(model), width
    grid = grid_of(model, name)
    return FromBytes(grid), grid.width
