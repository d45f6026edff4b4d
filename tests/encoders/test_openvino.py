"""The OpenVINO path against torch: the same vectors under the same fingerprint, or torch's own."""

import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn

from limner.cli.index import index
from limner.encoders import openvino
from limner.encoders.base_encoder import BaseImageEncoder
from limner.encoders.base_file import shipped_file
from limner.encoders.pixels import Backbone, ConSE, PixelEncoder
from limner.errors import LimnerWarning, MissingError, NumericsError
from limner.library import Library
from limner.match import encoder_setup

CLASSES = ("goat", "boat", "kettle", "tree", "river", "spoon", "drum")
PICTURES = np.random.default_rng(0).integers(0, 256, (4, 224, 224, 3), dtype=np.uint8)


class Words:
    """A text encoder with one fixed vector per class."""

    name, fingerprint, dim = "words", "w", 8

    def encode_text(self, texts):
        return np.eye(len(texts), 8, dtype=np.float32)


@pytest.fixture
def backbone():
    """A small network that converts quickly; the class only sees a backbone and a head."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        backbone = nn.Sequential(
            nn.Conv2d(3, 16, 7, stride=4),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.Conv2d(16, 24, 3),
            nn.Tanh(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
        ).eval()
        head = (torch.randn(7, 24), torch.randn(7))
    return Backbone(backbone, head, 24)


@pytest.fixture
def compiled(monkeypatch):
    """What OpenVINO was asked to compile; a test says what it makes."""
    asked = []

    def fake(network, side_px, precision):
        asked.append((side_px, precision))
        return lambda batch: fake.change(network(torch.from_numpy(batch)).detach().numpy())

    fake.change = lambda rows: rows
    monkeypatch.setattr(openvino, "compiled", fake)
    monkeypatch.setattr(openvino, "find_spec", lambda name: name)
    return asked, fake


def make(backbone, engine, precision="float32"):
    return PixelEncoder(
        "small", backbone, "0" * 64, conse=ConSE(CLASSES, Words()), precision=precision, engine=engine
    )


@pytest.mark.parametrize(("precision", "least"), [("float32", 0.99999), ("bfloat16", 0.99)])
def test_equals_torch(backbone, precision, least):
    fast, plain = make(backbone, "openvino", precision), make(backbone, "torch")
    found, due = fast.encode_pixels(PICTURES), plain.encode_pixels(PICTURES)
    assert fast.spaces == plain.spaces
    for space, rows in due.spaces.items():
        assert (found.spaces[space] * rows).sum(axis=1).min() > least
    if precision == "float32":
        assert [[name for name, _ in row] for row in found.labels] == [
            [name for name, _ in row] for row in due.labels
        ]
    alone = fast.encode_pixels(PICTURES[1:2]).spaces["visual"][0]
    np.testing.assert_allclose(alone, found.spaces["visual"][1], atol=1e-2)
    assert fast.fingerprint == make(backbone, "torch", precision).fingerprint


@pytest.mark.slow
def test_base_equals_torch():
    squares = np.random.default_rng(1).integers(0, 256, (3, 260, 260, 3), dtype=np.uint8)
    fast, plain = (
        BaseImageEncoder("base", shipped_file("base"), precision="float32", engine=engine)
        for engine in ("openvino", "torch")
    )
    found, due = fast.encode_pixels(squares), plain.encode_pixels(squares)
    for space, rows in due.spaces.items():
        assert (found.spaces[space] * rows).sum(axis=1).min() > 0.9999
    assert fast.fingerprint == plain.fingerprint


def test_it_is_taken_once_many_pictures_have_come(backbone, compiled, monkeypatch):
    asked, fake = compiled
    fake.change = lambda rows: rows + 1e-4
    monkeypatch.setattr(openvino, "PATIENCE", 6)
    some, plain = make(backbone, "auto"), make(backbone, "torch").features(PICTURES)
    for _ in range(2):
        np.testing.assert_array_equal(some.features(PICTURES), plain)
    assert not asked
    for _ in range(2):
        np.testing.assert_array_equal(some.features(PICTURES), plain + 1e-4)
    assert asked == [(224, "float32")]


@pytest.mark.parametrize("wrong", [lambda rows: rows * 1.1, lambda rows: rows * np.nan])
def test_other_vectors_than_torch_s_are_never_taken(backbone, compiled, monkeypatch, wrong):
    asked, fake = compiled
    fake.change = wrong
    with pytest.raises(
        NumericsError, match=r"small: OpenVINO's rows are .* from torch's, expected at most 0\.010"
    ):
        make(backbone, "openvino").features(PICTURES)
    monkeypatch.setattr(openvino, "PATIENCE", 1)
    some, plain = make(backbone, "auto"), make(backbone, "torch").features(PICTURES)
    some.features(PICTURES)
    with pytest.warns(LimnerWarning, match="continuing with torch"):
        np.testing.assert_array_equal(some.features(PICTURES), plain)
    np.testing.assert_array_equal(some.features(PICTURES), plain)
    assert len(asked) == 2


def test_pictures_are_added_by_what_is_quickest_unless_asked_otherwise(tmp_path, monkeypatch):
    asked = []

    def noted(*_, engine, **__):
        asked.append(engine)
        raise MissingError("enough")

    monkeypatch.setattr(encoder_setup, "picture_encoders", noted)
    (tmp_path / "pictures").mkdir()
    for more in ({}, {"engine": "torch"}):
        with pytest.raises(MissingError, match="enough"):
            Library(tmp_path / "one").add(tmp_path / "pictures", **more)
        with pytest.raises(MissingError, match="enough"):
            index(tmp_path / "pictures", library=tmp_path / "other", **more)
    assert asked == ["auto", "auto", "torch", "torch"]


def test_where_it_is_not_installed_torch_goes_on_without_a_word(backbone, monkeypatch):
    monkeypatch.setitem(sys.modules, "openvino", None)
    monkeypatch.setattr(openvino, "PATIENCE", 1)
    some, plain = make(backbone, "auto"), make(backbone, "torch").features(PICTURES)
    for _ in range(2):
        np.testing.assert_array_equal(some.features(PICTURES), plain)


def test_without_the_package_one_line_says_what_to_install(backbone, monkeypatch):
    monkeypatch.setitem(sys.modules, "openvino", None)
    with pytest.raises(MissingError, match="OpenVINO is not installed; run: pip install openvino"):
        make(backbone, "openvino").features(PICTURES)


@pytest.mark.slow
def test_nothing_is_reported_to_anyone():
    program = """
import sys
met = []
sys.addaudithook(lambda event, _: met.append(event) if event in ("os.fork", "socket.connect") else None)
import numpy, torch
from limner.encoders.pixels import Backbone, PixelEncoder
network = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 7, 16), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())
one = PixelEncoder("small", Backbone(network.eval(), None, 4), "0", engine="openvino")
one.features(numpy.zeros((2, 224, 224, 3), numpy.uint8))
assert "openvino" in sys.modules
sys.exit(str(met) if met else 0)
"""
    # Where it runs by itself, as in CI, OpenVINO reports nothing anyway.
    environment = {name: value for name, value in os.environ.items() if name not in ("CI", "TF_BUILD")}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
