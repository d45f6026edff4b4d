"""A run as an encoder of pictures: the very vectors of training, and no other backbone."""

import hashlib
import json
import shutil
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image
from safetensors import safe_open
from safetensors.torch import save_file

from limner.devices import usual_precision
from limner.encoders.trained import DOCUMENT, MODEL
from limner.errors import CheckpointError, ConfigError, MissingError
from limner.pictures.decode import decode
from limner.research.datasets.features import FeatureKey, open_features
from limner.research.datasets.pairs import Pair
from limner.research.runs.run import Run, RunEncoder
from limner.research.systems.base import system
from limner.research.systems.complementary.model import ComplementaryConfig
from limner.research.training.checkpoint import BEST
from limner.research.training.framing import TrainingFraming


def changed(run, to, change):
    """A copy of a run whose saved values went through `change`, without a checksum as of old."""
    shutil.copytree(run, to)
    with safe_open(run / BEST, framework="pt") as file:
        state = json.loads(file.metadata()["state"])
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        change(state["config"])
        kept = {key: value for key, value in file.metadata().items() if key != "checksum"}
        save_file(tensors, to / BEST, kept | {"state": json.dumps(state)})
    return to


def test_drawings_go_in_as_in_training(drawings_run):
    run = Run.for_library(drawings_run)
    assert (run.system, run.can.backbone, run.backbone) == ("cmcm", "drawings", None)
    encoder = run.encoder({})
    assert encoder.spaces == {MODEL: run.model.dim}
    assert encoder.side_px == 32
    pixels = np.random.default_rng(0).integers(0, 255, (3, 32, 32, 3), dtype=np.uint8)
    prepared = np.stack([encoder.prepare(Image.fromarray(one)) for one in pixels])
    np.testing.assert_array_equal(prepared, pixels)
    found = encoder.encode_pixels(prepared).spaces[MODEL]
    np.testing.assert_allclose(found, run.model.encode_image(pixels), atol=1e-6)
    assert encoder.prepare(Image.new("RGB", (90, 40))).shape == (32, 32, 3)


@pytest.mark.slow
def test_stored_features_are_made_again_as_they_were(stored_run, photographs, backbone_weights):
    run = Run.for_library(stored_run)
    assert run.backbone is not None
    assert run.backbone.backbone == "resnet18"
    assert run.backbone.transform == f"squash 224 {usual_precision('cpu')}"
    encoder = run.encoder({"": backbone_weights})
    key = FeatureKey(data="pairs-first48", **run.backbone.model_dump())
    stored = open_features(stored_run.parent / "features", key)
    files = sorted(photographs.iterdir())
    images = [decode(path.read_bytes(), encoder.side_px, ".png").rgb for path in files]
    found = encoder.encode_pixels(np.stack([encoder.prepare(image) for image in images])).spaces[MODEL]
    due = run.model.encode_image(np.asarray(stored.stored, np.float32))
    np.testing.assert_allclose(found, due, atol=2e-2)
    # far closer to its own row than to those of other pictures
    assert (found @ due.T).argmax(axis=1).tolist() == list(range(len(files)))


def test_another_backbone_is_refused_in_one_line(stored_run, backbone_weights, tmp_path):
    run = Run.for_library(stored_run)
    other = tmp_path / "resnet18.safetensors"
    with safe_open(backbone_weights / other.name, framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    tensors["conv1.weight"] = tensors["conv1.weight"] + 1
    save_file(tensors, other)
    with pytest.raises(CheckpointError, match="give that file with --weights") as told:
        run.encoder({"resnet18": other})
    assert "\n" not in str(told.value)
    with pytest.raises(MissingError, match="does not exist"):
        run.encoder({"": tmp_path / "none"})


def test_a_damaged_or_unknown_backbone_entry_is_refused(stored_run, backbone_weights, tmp_path):
    broken = changed(stored_run, tmp_path / "broken", lambda saved: saved.update(backbone={"backbone": 3}))
    with pytest.raises(CheckpointError, match="damaged entry 'backbone'"):
        Run.for_library(broken)
    one = changed(stored_run, tmp_path / "one", lambda saved: saved["backbone"].update(backbone=3))
    with pytest.raises(CheckpointError, match="damaged entry 'backbone'"):
        Run.for_library(one)
    strange = changed(
        stored_run,
        tmp_path / "strange",
        lambda saved: saved["backbone"].update(transform="squash 224 bfloat"),
    )
    with pytest.raises(CheckpointError, match="did you mean 'squash 224 bfloat16'"):
        Run.for_library(strange).encoder({"": backbone_weights})


@pytest.mark.parametrize(("how", "decoded"), [("none", 96), ("random", 96), ("resized", 110)])
def test_a_tuned_backbone_sees_pictures_as_it_was_measured_on_them(drawings_run, how, decoded):
    run = Run.for_library(drawings_run)
    seen = {"crop": how, "picture_size": 96, "flip": True}
    config = run.config.model_copy(update={"data": run.config.data.model_copy(update=seen)})
    tuned = replace(run, can=replace(run.can, backbone="finetune"), config=config)
    encoder = RunEncoder(tuned, None)
    image = Image.effect_noise((300, 240), 80).convert("RGB")
    np.testing.assert_array_equal(encoder.prepare(image), TrainingFraming(96, how).plain(image))
    assert encoder.side_px == decoded
    assert tuned.fingerprint != run.fingerprint


def test_fingerprints_tell_runs_apart_and_stay(drawings_run, product_run):
    first, second = Run.for_library(drawings_run), Run.for_library(product_run)
    assert first.fingerprint == Run.for_library(drawings_run).fingerprint != second.fingerprint
    assert first.encoder({}).name == f"cmcm {first.fingerprint[:8]}"


def test_no_run_is_one_line(tmp_path):
    with pytest.raises(MissingError, match="train first"):
        Run.for_library(tmp_path)


def test_a_run_of_several_vectors_per_picture_is_refused(tmp_path, monkeypatch):
    can = system("complementary").capabilities(ComplementaryConfig.model_validate({"data": {"set": "pairs"}}))
    opened = Run(tmp_path, None, SimpleNamespace(system="complementary"), can)
    monkeypatch.setattr(Run, "open", lambda folder, device: opened)
    with pytest.raises(ConfigError, match="set of vectors \\(K = 3\\), but a library stores one"):
        Run.for_library(tmp_path)


@pytest.mark.slow
def test_a_metric_sees_all_stages_of_its_backbone_again(photographs, backbone_weights, tmp_path, train_tiny):
    """Two stories to learn from and one to choose by; a library is indexed with what training stored."""
    lines = []
    for number, path in enumerate(sorted(photographs.iterdir())):
        pair = Pair(
            id=str(number),
            text=f"page {number}",
            image=str(path),
            image_hash=hashlib.sha256(path.read_bytes()).hexdigest(),
            group=str(number // 3),
            seq=str(number // 3),
            pos=number % 3,
            split="train" if number < 6 else "val",
        )
        lines.append(pair.model_dump_json())
    (tmp_path / "pairs.jsonl").write_text("\n".join(lines) + "\n")
    (tmp_path / "run.toml").write_text(
        'system = "document"\n[data]\nset = "pairs"\nbackbone = "resnet18"\n[loop]\nmetric = "mAP"\n'
    )
    folder = train_tiny(
        tmp_path / "run",
        f"data.annotations={tmp_path / 'pairs.jsonl'}",
        f"data.features={tmp_path / 'features'}",
        config=tmp_path / "run.toml",
        data="",
        weights=backbone_weights,
    )
    run = Run.for_library(folder)
    assert run.backbone is not None
    assert (run.backbone.architecture, run.backbone.layer) == ("resnet18", "stages")
    encoder = run.encoder({"": backbone_weights})
    (stored,) = (tmp_path / "features").glob("*-resnet18-stages-*")
    key = FeatureKey.model_validate(json.loads((stored / "key.json").read_text())["key"])
    rows = open_features(tmp_path / "features", key)
    assert rows.stored.shape[1:] == (2 * (64 + 64 + 128 + 256 + 512),)
    images = [
        decode(path.read_bytes(), encoder.side_px, ".png").rgb for path in sorted(photographs.iterdir())
    ]
    found = encoder.encode_pixels(np.stack([encoder.prepare(image) for image in images])).spaces[DOCUMENT]
    due = run.model.encode_image(np.asarray(rows.stored, np.float32))
    np.testing.assert_allclose(found, due, atol=2e-2)
