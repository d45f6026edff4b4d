"""Backbones take bytes; an empty backbone has the parameters that a pretrained one has."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from limner import config
from limner.encoders.base_file import BACKBONE
from limner.encoders.pixels import FromBytes, build, grid_of, last_linear, normalised, stages
from limner.errors import CheckpointError, ConfigError, ShapeError
from limner.research.nn.backbones import empty_backbone
from limner.research.runs.fit import prepare
from limner.research.runs.run import Run
from limner.research.runs.train import validation
from limner.research.systems import vse
from limner.research.systems.base import Capabilities, drawing_backbone
from limner.research.training.corpus import corpus_of, open_corpus
from limner.research.training.loop import Loop


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


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "pooled", "grid"),
    [
        ("resnet50", 2048, 2048),
        ("resnet152", 2048, 2048),
        ("food_resnet50", 2048, 2048),
        ("vgg16", 4096, 512),
        ("vgg19", 4096, 512),
        ("efficientnet_b0", 1280, 1280),
    ],
)
def test_widths_of_vectors_and_grids(name, pooled, grid):
    """GSDA's 2,048 of ResNet-152 and 4,096 of VGG-19; 7 × 7 places of a 224 pixels wide picture."""
    with torch.device("meta"):  # shapes alone: no weights are drawn, and nothing is computed
        picture = torch.empty(2, 224, 224, 3, dtype=torch.uint8)
        whole, width = empty_backbone(name, "pooled")
        assert whole.eval()(picture).shape == (2, width) == (2, pooled)
        places, width = empty_backbone(name, "grid")
        assert places.eval()(picture).shape == (2, 49, width) == (2, 49, grid)


def test_a_vgg_has_five_stages_and_its_penultimate_layer_is_the_vector():
    """VGG-16 has 13 convolutions before five poolings; the vector is what its last layer is applied to."""
    from torchvision import models

    with torch.device("meta"):
        vgg = models.vgg16(weights=None)
        found = stages(vgg, "vgg16")
        kinds = [[type(layer).__name__ for layer in part] for part in found.stages]
        assert [names.count("Conv2d") for names in kinds] == [2, 2, 3, 3, 3]
        assert all(names[-1] == "MaxPool2d" for names in kinds)
        assert found(torch.empty(2, 3, 64, 64)).shape == (2, 2 * (64 + 128 + 256 + 512 + 512))
    last, owner, leaf, width = last_linear(vgg, "vgg16")
    assert (last, leaf, width) == ("classifier.6", "6", 4096)
    assert owner is vgg.classifier


@torch.no_grad()
def test_a_grid_of_a_vgg_is_its_last_map_in_reading_order():
    from torchvision import models

    torch.manual_seed(2)
    features = models.vgg.make_layers([4, "M", 6, "M"])  # type: ignore[list-item]
    with torch.device("meta"):
        small = models.VGG(torch.nn.Identity(), init_weights=False)
    small.features = features
    values = torch.randn(2, 3, 16, 12)
    found = grid_of(small, "vgg16")
    assert found.width == 6
    torch.testing.assert_close(found(values).reshape(2, 4, 3, 6), features(values).permute(0, 2, 3, 1))
    parts = stages(small, "vgg16")(values)
    last = features(values).flatten(2)
    torch.testing.assert_close(parts[:, 8:14], last.mean(dim=2))
    torch.testing.assert_close(parts[:, 14:], last.std(dim=2, correction=0))


@pytest.mark.parametrize("layout", ["plain", "recipes", "recipes in parallel"])
def test_the_food_resnet_is_a_resnet50_by_itself_or_within_a_model_of_recipes(layout):
    from torchvision import models

    with torch.device("meta"):
        net = models.resnet50(weights=None, num_classes=101)
        state = dict(net.state_dict())
        if layout != "plain":
            body = torch.nn.Sequential(*list(net.children())[:-1])
            whole = {"visionMLP": body, "recipe": torch.nn.Linear(2, 2)}
            if layout == "recipes in parallel":
                whole["visionMLP"] = torch.nn.ModuleDict({"module": body})
            state = dict(torch.nn.ModuleDict(whole).state_dict())
            assert any(name.startswith("visionMLP.") for name in state)
        made = build("food_resnet50", state, "food.pth.tar")
    assert made.width == 2048
    assert (made.head is None) is (layout != "plain")
    with pytest.raises(CheckpointError, match=r"food\.pth\.tar: .*of another architecture"):
        build("food_resnet50", dict(list(state.items())[:-9]), "food.pth.tar")


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_library_is_shown_what_a_run_over_efficientnet_was_trained_on(tmp_path, stored_run):
    data = {"set": "pairs", "annotations": str(stored_run.parent / "pairs.jsonl"), "vectors": "random"}
    data |= {"backbone": BACKBONE, "features": str(tmp_path / "features"), "min_count": 1}
    values = {"system": "vse", "data": data, "loop": {"epochs": 1}, "model": {"dim": 8, "word_width": 4}}
    settings = config.build(vse.VseConfig, values, "test")
    pairs, stored = open_corpus(settings.data)
    rows = corpus_of(pairs, stored)
    prepared = prepare(vse.SYSTEM, settings, rows)
    Loop(
        prepared.task,
        settings.loop,
        tmp_path / "run",
        validate=validation(rows, vse.SYSTEM.capabilities(settings)),
        maximise=True,
        saved_with=prepared.saved_with,
    ).fit()
    run = Run.for_library(tmp_path / "run")
    seen = run.encoder({})
    files = [Path(pair.image) for pair in pairs.pairs]
    batch = np.stack([seen.prepare(Image.open(file).convert("RGB")) for file in files])
    places = stored.places([pair.image_id for pair in pairs.pairs])
    due = run.model.encode_image(stored.take(places))
    np.testing.assert_allclose(seen.encode_pixels(batch).spaces["model"], due, atol=2e-3)
