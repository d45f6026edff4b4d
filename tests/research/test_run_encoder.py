"""A run as an encoder of pictures: the very vectors of training, and no other backbone."""

import json
import shutil
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image
from safetensors import safe_open
from safetensors.torch import save_file

from limner.encoders.trained import MODEL
from limner.errors import CheckpointError, ConfigError, MissingError
from limner.pictures.decode import decode
from limner.research.datasets.features import FeatureKey, open_features
from limner.research.runs.run import Run, RunEncoder
from limner.research.systems.base import system
from limner.research.systems.complementary.model import ComplementaryConfig
from limner.research.training.checkpoint import BEST
from limner.research.training.framing import TrainingFraming


def tensors_of(path):
    with safe_open(path, framework="pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}, file.metadata()  # noqa: SIM118


def test_drawings_go_in_as_in_training(drawings_run, product_run):
    run, other = Run.for_library(drawings_run), Run.for_library(product_run)
    assert run.fingerprint == Run.for_library(drawings_run).fingerprint != other.fingerprint
    encoder = run.encoder({})
    assert (encoder.spaces, encoder.side_px) == ({MODEL: run.model.dim}, 32)
    pixels = np.random.default_rng(0).integers(0, 255, (3, 32, 32, 3), dtype=np.uint8)
    prepared = np.stack([encoder.prepare(Image.fromarray(one)) for one in pixels])
    np.testing.assert_array_equal(prepared, pixels)
    found = encoder.encode_pixels(prepared).spaces[MODEL]
    np.testing.assert_allclose(found, run.model.encode_image(pixels), atol=1e-6)
    assert encoder.prepare(Image.new("RGB", (90, 40))).shape == (32, 32, 3)


@pytest.mark.slow
def test_stored_features_are_made_again_as_they_were(stored_run, photographs, backbone_weights):
    run = Run.for_library(stored_run)
    encoder = run.encoder({"": backbone_weights})
    key = FeatureKey(data="pairs-first48", **run.backbone.model_dump())
    stored = open_features(stored_run.parent / "features", key)
    images = [decode(one.read_bytes(), encoder.side_px, ".png").rgb for one in sorted(photographs.iterdir())]
    found = encoder.encode_pixels(np.stack([encoder.prepare(image) for image in images])).spaces[MODEL]
    due = run.model.encode_image(np.asarray(stored.stored, np.float32))
    np.testing.assert_allclose(found, due, atol=2e-2)
    # far closer to its own row than to those of other pictures
    assert (found @ due.T).argmax(axis=1).tolist() == list(range(len(images)))


def test_another_backbone_is_refused_in_one_line(stored_run, backbone_weights, tmp_path):
    run, other = Run.for_library(stored_run), tmp_path / "resnet18.safetensors"
    tensors, _ = tensors_of(backbone_weights / other.name)
    save_file(tensors | {"conv1.weight": tensors["conv1.weight"] + 1}, other)
    with pytest.raises(CheckpointError, match=r"^[^\n]*give that file with --weights[^\n]*$"):
        run.encoder({"resnet18": other})
    with pytest.raises(MissingError, match="does not exist"):
        run.encoder({"": tmp_path / "none"})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda saved: saved.update(backbone={"backbone": 3}), "damaged entry 'backbone'"),
        (lambda saved: saved["backbone"].update(backbone=3), "damaged entry 'backbone'"),
        (
            lambda saved: saved["backbone"].update(transform="squash 224 bfloat"),
            "did you mean 'squash 224 bfloat16'",
        ),
    ],
)
def test_a_damaged_or_unknown_backbone_entry_is_refused(
    stored_run, backbone_weights, tmp_path, change, message
):
    """Of a run without a checksum, as of old."""
    shutil.copytree(stored_run, tmp_path / "run")
    tensors, kept = tensors_of(stored_run / BEST)
    state = json.loads(kept["state"])
    change(state["config"])
    del kept["checksum"]
    save_file(tensors, tmp_path / "run" / BEST, kept | {"state": json.dumps(state)})
    with pytest.raises(CheckpointError, match=message):
        Run.for_library(tmp_path / "run").encoder({"": backbone_weights})


@pytest.mark.parametrize(("how", "decoded"), [("none", 96), ("random", 96), ("resized", 110)])
def test_a_tuned_backbone_sees_pictures_as_it_was_measured_on_them(drawings_run, how, decoded):
    run = Run.for_library(drawings_run)
    seen = run.config.data.model_copy(update={"crop": how, "picture_size": 96, "flip": True})
    can, config = replace(run.can, backbone="finetune"), run.config.model_copy(update={"data": seen})
    tuned = replace(run, can=can, config=config)
    encoder = RunEncoder(tuned, None)
    image = Image.effect_noise((300, 240), 80).convert("RGB")
    np.testing.assert_array_equal(encoder.prepare(image), TrainingFraming(96, how).plain(image))
    assert encoder.side_px == decoded
    assert tuned.fingerprint != run.fingerprint


def test_no_run_and_one_of_several_vectors_per_picture_are_refused(tmp_path, monkeypatch):
    with pytest.raises(MissingError, match="train first"):
        Run.for_library(tmp_path)
    can = system("complementary").capabilities(ComplementaryConfig.model_validate({"data": {"set": "pairs"}}))
    opened = Run(tmp_path, None, SimpleNamespace(system="complementary"), can)
    monkeypatch.setattr(Run, "open", lambda folder, device: opened)
    with pytest.raises(ConfigError, match="set of vectors \\(K = 3\\), but a library stores one"):
        Run.for_library(tmp_path)
