"""Means and deviations of every stage, against maps caught on their way through the whole classifier."""

import pytest
import torch
from torchvision import models

from limner.encoders.pixels import stages
from limner.errors import ConfigError

STAGES = {
    "resnet18": ["maxpool", "layer1", "layer2", "layer3", "layer4"],
    "convnext_tiny": [f"features.{number}" for number in range(8)],
    "efficientnet_b0": [f"features.{number}" for number in range(9)],
}


@pytest.mark.parametrize("name", STAGES)
def test_rows_hold_the_mean_and_deviation_of_each_map(name):
    torch.manual_seed(3)
    model = models.get_model(name, weights=None).eval()
    caught = []
    for stage in STAGES[name]:
        model.get_submodule(stage).register_forward_hook(lambda _m, _i, made: caught.append(made.clone()))
    values = torch.randn(2, 3, 64, 64)
    with torch.no_grad():
        model(values)
        whole, caught[:] = list(caught), []
        found = stages(model, name)(values)
    due = []
    for picture in range(2):
        row = []
        for made in whole:
            channels = [channel.flatten().tolist() for channel in made[picture]]
            means = [sum(places) / len(places) for places in channels]
            row += means
            row += [
                (sum((place - mean) ** 2 for place in places) / len(places)) ** 0.5
                for places, mean in zip(channels, means, strict=True)
            ]
        due.append(row)
    torch.testing.assert_close(found, torch.tensor(due), atol=1e-4, rtol=1e-3)


def test_one_place_deviates_by_nothing():
    model = models.get_model("resnet18", weights=None).eval()
    with torch.no_grad():
        found = stages(model, "resnet18")(torch.randn(1, 3, 32, 32))
    assert torch.isfinite(found).all()
    assert (found[:, -512:] == 0).all()  # the last map is 1 × 1


@pytest.mark.slow
def test_a_transformer_has_no_stages():
    with pytest.raises(ConfigError, match="vit_b_16 has no maps of features"):
        stages(models.get_model("vit_b_16", weights=None, image_size=32), "vit_b_16")
