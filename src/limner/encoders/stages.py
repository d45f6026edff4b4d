"""What every stage of a backbone sees: mean and spread of its maps, from edges and colours to objects.

Late maps say what a picture shows, early ones by which hand it is drawn. It loads no weights.
"""

import torch
from torch import Tensor, nn

from limner.errors import ConfigError


class Stages(nn.Module):
    """Stages one after the other, each summed up over its places."""

    def __init__(self, stages: list[nn.Module]) -> None:
        """Take what makes the maps.

        Args:
            stages: each (B, C, H, W) → (B, C', H', W'), fed with what the one before made.
        """
        super().__init__()
        self.stages = nn.ModuleList(stages)

    def forward(self, values: Tensor) -> Tensor:
        """(B, 3, H, W) normalised → (B, F): per stage the mean of each channel, then its deviation."""
        found = []
        for stage in self.stages:
            values = stage(values)
            places = values.float().flatten(2)  # (B, C, H·W)
            found += [places.mean(dim=2), places.std(dim=2, correction=0)]
        return torch.cat(found, dim=1)


def stages_trunk(model: nn.Module, name: str) -> Stages:
    """The stages of a torchvision classifier; weights are shared with it.

    Args:
        model: of the ResNet, ConvNeXt or EfficientNet family.
        name: of the architecture, for the message.
    Raises:
        ConfigError: it has no maps of features, as transformers.
    """
    children = dict(model.named_children())
    if "layer4" in children:
        names = list(children)
        stem = [children[key] for key in names[: names.index("layer1")]]
        return Stages([nn.Sequential(*stem), *(children[f"layer{number}"] for number in range(1, 5))])
    if "features" in children and "permute" not in children:
        return Stages(list(children["features"].children()))
    raise ConfigError(f"trunk: {name} has no maps of features to sum up; choose a ResNet or ConvNeXt")
