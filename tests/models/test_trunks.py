"""Trunks take bytes; an empty backbone has the parameters that a pretrained one has."""

import pytest
import torch

from limner.encoders.pixels import build, normalised
from limner.encoders.trunks import FromBytes
from limner.errors import ConfigError, ShapeError
from limner.models.trunks import drawing_trunk, empty_backbone


def pixels(n=3, side=32, seed=0):
    return torch.randint(
        256, (n, side, side, 3), generator=torch.Generator().manual_seed(seed), dtype=torch.uint8
    )


def test_a_drawing_becomes_features_of_the_stated_width():
    torch.manual_seed(0)
    trunk, width = drawing_trunk()
    trunk.eval()
    found = trunk(pixels())
    assert found.shape == (3, width)
    assert torch.allclose(trunk(pixels()[1:2])[0], found[1], atol=1e-5)
    found.sum().backward()
    assert all(p.grad is not None for p in trunk.parameters())


def test_bytes_are_normalised_as_everywhere():
    seen = []
    cover = FromBytes(torch.nn.Module())
    cover.trunk.forward = lambda values: seen.append(values) or values.flatten(1)
    cover(pixels())
    assert torch.allclose(seen[0], normalised(pixels().numpy()), atol=1e-5)
    for wrong in (pixels().float(), pixels()[0], pixels().permute(0, 3, 1, 2)):
        with pytest.raises(ShapeError, match="expected uint8"):
            cover(wrong)


def test_an_empty_backbone_takes_the_weights_of_a_pretrained_one():
    from torchvision import models

    torch.manual_seed(1)
    state = models.get_model("shufflenet_v2_x0_5", weights=None).state_dict()
    pretrained = FromBytes(build("shufflenet_v2_x0_5", state, "test").trunk)
    empty, width = empty_backbone("shufflenet_v2_x0_5")
    assert width == 1024
    empty.load_state_dict(pretrained.state_dict(), strict=True)
    with torch.no_grad():
        assert torch.equal(empty.eval()(pixels(2, 64)), pretrained.eval()(pixels(2, 64)))
    with pytest.raises(ConfigError, match="did you mean 'resnet50'"):
        empty_backbone("resnet5")
