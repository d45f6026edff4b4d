"""Backbones take bytes; an empty backbone has the parameters that a pretrained one has."""

import pytest
import torch

from limner.encoders.pixels import FromBytes, build, grid_of, normalised
from limner.errors import ConfigError, ShapeError
from limner.systems.base import Capabilities, drawing_backbone, empty_backbone


def pixels(n=3, side=32, seed=0):
    return torch.randint(
        256, (n, side, side, 3), generator=torch.Generator().manual_seed(seed), dtype=torch.uint8
    )


def test_a_drawing_becomes_features_of_the_stated_width():
    torch.manual_seed(0)
    backbone, width = drawing_backbone(Capabilities(trains_backbone=True))
    backbone.eval()
    found = backbone(pixels())
    assert found.shape == (3, width)
    assert torch.allclose(backbone(pixels()[1:2])[0], found[1], atol=1e-5)
    found.sum().backward()
    assert all(p.grad is not None for p in backbone.parameters())


def test_bytes_are_normalised_as_everywhere():
    seen = []
    cover = FromBytes(torch.nn.Module())
    cover.network.forward = lambda values: seen.append(values) or values.flatten(1)
    cover(pixels())
    assert torch.allclose(seen[0], normalised(pixels()), atol=1e-5)
    for wrong in (pixels().float(), pixels()[0], pixels().permute(0, 3, 1, 2)):
        with pytest.raises(ShapeError, match="expected uint8"):
            cover(wrong)


def test_an_empty_backbone_takes_the_weights_of_a_pretrained_one():
    from torchvision import models

    torch.manual_seed(1)
    state = models.get_model("shufflenet_v2_x0_5", weights=None).state_dict()
    pretrained = FromBytes(build("shufflenet_v2_x0_5", state, "test").network)
    empty, width = empty_backbone("shufflenet_v2_x0_5", "pooled")
    assert width == 1024
    empty.load_state_dict(pretrained.state_dict(), strict=True)
    with torch.no_grad():
        assert torch.equal(empty.eval()(pixels(2, 64)), pretrained.eval()(pixels(2, 64)))
    with pytest.raises(ConfigError, match="did you mean 'resnet50'"):
        empty_backbone("resnet5", "pooled")


def test_a_drawing_becomes_places_in_reading_order():
    torch.manual_seed(0)
    backbone, width = drawing_backbone(Capabilities(trains_backbone=True, layer="grid"))
    backbone.eval()
    left = torch.zeros(1, 64, 96, 3, dtype=torch.uint8)
    changed = left.clone()
    changed[:, :16, 80:] = 255  # the right end of the first row of 4 × 6 places
    with torch.no_grad():
        found, other = backbone(left), backbone(changed)
    assert found.shape == (1, 24, width)
    moved = (found - other).abs().sum(dim=2)[0].reshape(4, 6)
    assert moved[0].argmax() == 5
    assert not moved[3, :2].any()


@pytest.mark.parametrize("name", ["resnet18", "convnext_tiny"])
def test_the_mean_of_a_grid_is_what_the_classifier_pools(name):
    from torchvision import models

    torch.manual_seed(1)
    whole, width = empty_backbone(name, "pooled")
    grid, same = empty_backbone(name, "grid")
    assert width == same
    again = FromBytes(grid_of(whole.network, name))
    grid.load_state_dict(again.state_dict(), strict=True)
    with torch.no_grad():
        places = grid.eval()(pixels(2, 64))
        whole.eval()
        pooled = whole(pixels(2, 64))
    assert places.shape == (2, 4, width)
    mean = places.mean(dim=1)
    if name == "convnext_tiny":
        mean = whole.network.classifier[0](mean[:, :, None, None]).flatten(1)
    torch.testing.assert_close(mean, pooled, atol=1e-4, rtol=1e-4)
    with pytest.raises(ConfigError, match="no maps of features"):
        grid_of(models.get_model("vit_b_16", weights=None, image_size=32), "vit_b_16")
