"""Encoders by name: a file in, a ready encoder out, and clear lines for everything else."""

import hashlib
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from torchvision import models

from limner.encoders import catalogue, downloads, weight_files
from limner.encoders.weight_files import SHIPPED_SENTENCES, of_clip
from limner.errors import CheckpointError, ConfigError, MissingError


class Words:
    """A text encoder with cheap vectors."""

    name, fingerprint, dim = "words", "w", 8

    def encode_text(self, texts):
        return np.eye(8, dtype=np.float32)[np.arange(len(texts)) % 8]


@pytest.fixture(autouse=True)
def empty_machine(tmp_path, monkeypatch):
    monkeypatch.delenv("LIMNER_WEIGHTS", raising=False)
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))


def saved(tmp_path, classes):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = models.get_model("resnet18", weights=None, num_classes=classes)
    torch.save(model.state_dict(), tmp_path / "resnet18-0000.pth")
    return tmp_path


@pytest.mark.slow
def test_a_classifier_of_imagenet_answers_words(tmp_path):
    encoder = catalogue.image_encoder("resnet18", weights=saved(tmp_path, 1000), sentences=Words())
    assert encoder.spaces == {"visual": 512, "labels": 8}
    found = encoder.encode_pixels(np.zeros((2, 224, 224, 3), np.uint8))
    assert [len(row) for row in found.labels] == [5, 5]
    assert {name for row in found.labels for name, _ in row} <= set(catalogue.class_names("resnet18"))


def test_another_number_of_classes_gives_features_only(tmp_path):
    encoder = catalogue.image_encoder("resnet18", weights=saved(tmp_path, 11))
    assert encoder.spaces == {"visual": 512}


def test_the_file_of_the_food_resnet_is_the_users(tmp_path, monkeypatch):
    with pytest.raises(
        MissingError, match=r"no weights of food_resnet50 .*; pass --weights food_resnet50=FILE"
    ):
        catalogue.weight_file("food_resnet50")
    with pytest.raises(ConfigError, match="unknown downloadable model 'food_resnet50'"):
        downloads.fetch_weights("food_resnet50")
    for name in ("food_resnet50.pth.tar", "resnet50-0676ba61.pth"):
        (tmp_path / name).write_bytes(b"")
    monkeypatch.setenv("LIMNER_WEIGHTS", str(tmp_path))
    assert catalogue.weight_file("food_resnet50").path.name == "food_resnet50.pth.tar"
    assert catalogue.weight_file("resnet50").path.name == "resnet50-0676ba61.pth"
    with pytest.raises(ConfigError, match="unknown backbone 'vgg1'; did you mean 'vgg1"):
        catalogue.weight_file("vgg1")


@pytest.mark.slow
def test_a_checkpoint_of_a_training_script_gives_an_encoder(tmp_path):
    saved(tmp_path, 11)
    path = tmp_path / "resnet18-0000.pth"
    plain = catalogue.image_encoder("resnet18", weights=path)
    state = {f"module.{name}": tensor for name, tensor in torch.load(path, weights_only=True).items()}
    torch.save({"epoch": 4, "state_dict": state}, path)
    found = catalogue.image_encoder("resnet18", weights=path)
    pixels = np.random.default_rng(0).integers(256, size=(1, 224, 224, 3), dtype=np.uint8)
    np.testing.assert_array_equal(found.features(pixels), plain.features(pixels))
    with pytest.raises(CheckpointError, match=r"resnet18-0000\.pth: .*of another architecture"):
        catalogue.image_encoder("resnet34", weights=path)


def test_colour_needs_nothing():
    assert catalogue.image_encoder("colour").spaces == {"colour": 437}


def test_missing_weights_never_give_an_encoder():
    for name in catalogue.TORCHVISION:
        with pytest.raises(MissingError, match=f"limner models get {name}"):
            catalogue.image_encoder(name)


def test_unknown_names():
    with pytest.raises(ConfigError, match="did you mean 'resnet50'"):
        catalogue.image_encoder("resnet5O")
    with pytest.raises(ConfigError, match="unknown text encoder 'minilmm'; did you mean 'minilm'"):
        catalogue.text_encoder("minilmm")
    with pytest.raises(ConfigError, match="unknown engine 'openvin'"):
        catalogue.image_encoder("resnet18", engine="openvin")
    with pytest.raises(ConfigError, match="unknown precision 'bf16'"):
        catalogue.image_encoder("base", precision="bf16")
    with pytest.raises(ConfigError, match="unknown downloadable model 'colour'"):
        downloads.fetch_weights("colour")


@pytest.mark.slow
def test_what_is_available_is_listed(tmp_path, monkeypatch):
    monkeypatch.setenv("LIMNER_WEIGHTS", str(saved(tmp_path, 3)))
    rows = {row.name: row for row in downloads.available()}
    clips = {one.name for one in downloads.PUBLISHED}
    assert set(rows) == {*catalogue.SHIPPED, "colour", *catalogue.TORCHVISION, *clips}
    assert all(rows[name].file.path.is_file() and not rows[name].missing for name in catalogue.SHIPPED)
    assert rows["colour"].missing == ""
    file = rows["resnet18"].file
    assert file is not None
    assert file.sha256 == hashlib.sha256((tmp_path / "resnet18-0000.pth").read_bytes()).hexdigest()
    assert "limner models get resnet50" in rows["resnet50"].missing


def test_published_addresses_carry_their_hash_and_a_thousand_names():
    for name in catalogue.TORCHVISION:
        assert re.fullmatch(
            r"https://download\.pytorch\.org/models/\w+-[0-9a-f]{8}\.pth", catalogue.official_url(name)
        )
        assert len(catalogue.class_names(name)) == 1000


def test_fetch_goes_to_the_hub_cache_where_find_looks(monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(downloads, "fetch_file", lambda url, folder, report: asked.append((url, folder)))
    downloads.fetch_weights("resnet50")
    assert asked == [
        (
            "https://download.pytorch.org/models/resnet50-0676ba61.pth",
            tmp_path / "torch" / "hub" / "checkpoints",
        )
    ]


def test_base_needs_nothing_whatever_runs_it():
    made = [catalogue.image_encoder("base", engine=engine) for engine in ("torch", "auto", "openvino")]
    assert made[0].spaces.keys() == {"base", "looks"}
    assert len({one.fingerprint for one in made}) == 1
    with pytest.raises(ConfigError, match="openvino computes on the CPU, not on cuda"):
        catalogue.image_encoder("base", engine="openvino", device="cuda")


@pytest.mark.slow
def test_the_text_encoder_of_base_loads_its_sentence_encoder_itself():
    vectors = catalogue.text_encoder("base").encode_text(["a red boat"])
    given = catalogue.text_encoder("base", sentences=catalogue.text_encoder()).encode_text(["a red boat"])
    assert np.array_equal(vectors, given)
    assert np.linalg.norm(vectors) == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize(
    ("name", "architecture", "mine"),
    [
        ("CLIP-ViT-B-32-laion2B-s34B-b79K", "ViT-B-32", True),
        ("ViT-B-16-SigLIP2", "ViT-B-16-SigLIP2", True),
        ("ViT-B-16-SigLIP2", "ViT-B-16", False),
        ("ViT-B-16-SigLIP2-256", "ViT-B-16-SigLIP2", False),
        ("vit_b_16-c867db91", "ViT-B-16", False),
    ],
)
def test_a_model_belongs_to_the_longest_architecture_in_its_name(name, architecture, mine):
    known = ("ViT-B-16", "ViT-B-16-SigLIP2", "ViT-B-16-SigLIP2-256", "ViT-B-32")
    assert of_clip(name, architecture, known) is mine


def test_an_encoder_of_sentences_is_loaded_once_while_its_files_stay(tmp_path, monkeypatch):
    first = catalogue.sentence_encoder()
    monkeypatch.setattr(catalogue, "shipped_sentences", None)  # to read again is an error from here on
    assert catalogue.sentence_encoder() is first
    assert catalogue.text_encoder() is first
    monkeypatch.undo()
    copies = tuple(Path(shutil.copy(path, tmp_path)) for path in SHIPPED_SENTENCES)
    for module in (catalogue, weight_files):
        monkeypatch.setattr(module, "SHIPPED_SENTENCES", copies)
    assert catalogue.sentence_encoder() is not first
    copies[1].unlink()
    with pytest.raises(MissingError, match=r"tokenizer\.json: cannot be read"):
        catalogue.sentence_encoder()


def test_detectors_of_scene_graphs_can_be_had_as_the_pages_name_them(monkeypatch, tmp_path):
    from limner.research.scenes.faster_rcnn import ARCHITECTURES

    assert set(catalogue.DETECTORS) == set(ARCHITECTURES)
    offer = downloads.offered("fasterrcnn_resnet50_fpn_v2", tmp_path)
    assert "trained on COCO" in str(offer)
    asked = []
    monkeypatch.setattr(
        downloads, "fetch_file", lambda url, folder, report=None: asked.append(url) or tmp_path
    )
    for name in catalogue.DETECTORS:
        downloads.fetch_weights(name, tmp_path)
    names = [url.rpartition("/")[2].rpartition("-")[0].removesuffix("_coco") for url in asked]
    assert names == list(catalogue.DETECTORS)
