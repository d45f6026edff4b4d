"""Features of a data set: one row per different picture, the backbone run once, nothing without pictures."""

import hashlib

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file
from torchvision import models

from limner.encoders.pixels import PixelEncoder, build
from limner.errors import ConfigError, DataError
from limner.pictures.decode import decode
from limner.research.datasets.features import picture_features
from limner.research.datasets.pairs import Pair, PairSet


@pytest.fixture
def weights(tmp_path):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        model = models.resnet18(weights=None, num_classes=3)
    path = tmp_path / "resnet18.safetensors"
    save_file({key: value.contiguous() for key, value in model.state_dict().items()}, path)
    return path


@pytest.fixture
def data(tmp_path):
    """Four pairs of three pictures."""
    pairs = []
    for number in (0, 1, 2, 0):
        path = tmp_path / f"{number}.png"
        Image.new("RGB", (230, 240), (number * 90, 40, 200)).save(path)
        sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
        pairs.append(Pair(id=str(len(pairs)), text="a", image=str(path), image_hash=sha256))
    return PairSet("made-up", (), tuple(pairs))


@pytest.mark.slow
def test_one_row_per_different_picture_equal_to_the_backbone(tmp_path, data, weights, monkeypatch):
    options = {"backbone": "resnet18", "weights": weights, "precision": "bfloat16"}
    found = picture_features(data, tmp_path / "features", **options)
    assert found.stored.shape == (3, 512)
    state = {key: torch.clone(value) for key, value in _state(weights).items()}
    encoder = PixelEncoder("resnet18", build("resnet18", state, "w"), "0" * 64)
    with open(data.pairs[1].image, "rb") as file:  # noqa: PTH123
        prepared = encoder.prepare(decode(file.read()).rgb)
    due = encoder.features(prepared[None])[0]
    (place,) = found.places([data.pairs[1].image_id])
    np.testing.assert_allclose(found.stored[place], due, rtol=2e-3, atol=2e-3)

    def refuse(*_):
        raise AssertionError("loaded again")

    monkeypatch.setattr("limner.encoders.pixels.build", refuse)
    again = picture_features(data, tmp_path / "features", **options)
    assert np.array_equal(again.stored, found.stored)


@pytest.mark.slow
def test_grids_have_a_store_of_their_own_in_half_precision(tmp_path, data, weights):
    options = {"backbone": "resnet18", "weights": weights}
    pooled = picture_features(data, tmp_path / "features", **options)
    found = picture_features(data, tmp_path / "features", layer="grid", **options)
    assert (found.stored.shape, found.stored.dtype) == ((3, 49, 512), np.float16)
    assert len(picture_features(data, tmp_path / "features", **options).stored.shape) == 2
    for pair in data.pairs:
        (one,), (other,) = pooled.places([pair.image_id]), found.places([pair.image_id])
        mean = found.stored[other].astype(np.float32).mean(axis=0)
        np.testing.assert_allclose(mean, pooled.stored[one], rtol=5e-3, atol=5e-3)


@pytest.mark.slow
def test_a_store_is_made_in_what_the_machine_is_quick_in_and_one_that_is_there_is_read(
    tmp_path, data, weights, monkeypatch
):
    options = {"backbone": "resnet18", "weights": weights}

    def made(root, usual, **more):
        monkeypatch.setattr("limner.research.datasets.features.usual_precision", lambda device: usual)
        found = picture_features(data, tmp_path / root, **options | more)
        return found.key.transform.rpartition(" ")[2]

    assert made("one", "bfloat16") == "bfloat16"
    assert made("one", "float32") == "bfloat16"
    assert made("other", "float32") == "float32"
    assert made("other", "bfloat16") == "float32"
    assert made("other", "float32", precision="bfloat16") == "bfloat16"
    assert made("other", "bfloat16") == "bfloat16"
    assert [len(list((tmp_path / root).iterdir())) for root in ("one", "other")] == [1, 2]


def _state(path):
    from safetensors.torch import load_file

    return load_file(path)


def test_what_cannot_be_extracted_is_refused(tmp_path, data, weights):
    with pytest.raises(ConfigError, match="unknown backbone 'resnet19'; did you mean 'resnet18'"):
        picture_features(data, tmp_path, backbone="resnet19")
    texts = PairSet("made-up", (), (Pair(id="0", text="a", image="http://a/b.jpg"),))
    with pytest.raises(DataError, match="pair '0' has no picture"):
        picture_features(texts, tmp_path, backbone="resnet18", weights=weights)
