"""The OpenVINO path against torch: same spaces, same labels, nearly the same numbers."""

import sys

import numpy as np
import pytest
import torch
from torch import nn

from limner.encoders.openvino import OpenVinoEncoder
from limner.encoders.pixels import Backbone, ConSE, PixelEncoder
from limner.errors import MissingError

CLASSES = ("goat", "boat", "kettle", "tree", "river", "spoon", "drum")


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


def make(kind, backbone, precision):
    return kind("small", backbone, "0" * 64, conse=ConSE(CLASSES, Words()), precision=precision)


@pytest.mark.parametrize(("precision", "least"), [("float32", 0.99999), ("bfloat16", 0.99)])
def test_equals_torch(backbone, precision, least):
    pytest.importorskip("openvino", reason="the extra 'fast' is not installed")
    pictures = np.random.default_rng(0).integers(0, 256, (3, 224, 224, 3), dtype=np.uint8)
    fast = make(OpenVinoEncoder, backbone, precision)
    plain = make(PixelEncoder, backbone, "float32")
    found, due = fast.encode_pixels(pictures), plain.encode_pixels(pictures)
    assert fast.spaces == plain.spaces
    for space, rows in due.spaces.items():
        assert (found.spaces[space] * rows).sum(axis=1).min() > least
    if precision == "float32":
        assert [[name for name, _ in row] for row in found.labels] == [
            [name for name, _ in row] for row in due.labels
        ]
    alone = fast.encode_pixels(pictures[1:2]).spaces["visual"][0]
    np.testing.assert_allclose(alone, found.spaces["visual"][1], atol=1e-2)
    assert fast.fingerprint not in {plain.fingerprint, make(PixelEncoder, backbone, precision).fingerprint}


def test_without_the_extra_one_line_says_what_to_install(backbone, monkeypatch):
    monkeypatch.setitem(sys.modules, "openvino", None)
    with pytest.raises(MissingError, match=r"pip install 'limner\[fast\]'"):
        make(OpenVinoEncoder, backbone, "float32")
