"""The network that judges found pictures learns from pixels, and in five folds never from what it judges."""

import numpy as np
import pytest
import torch
from torch import nn

from limner.errors import MissingError
from limner.research.runs import judge
from limner.research.runs.judge import vgg_scores


def tiny(labels):
    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, labels))


@pytest.fixture
def drawings():
    """Forty pictures, red or green, with a label each; and which are red."""
    red = np.arange(40) % 2 == 0
    pictures = np.zeros((40, 8, 8, 3), np.uint8)
    pictures[red, ..., 0] = pictures[~red, ..., 1] = 255
    return pictures, np.stack([red, ~red], axis=1)


def test_labels_are_learned_from_pixels(drawings, monkeypatch):
    monkeypatch.setattr(judge, "RATE", 0.1)
    pictures, truth = drawings
    scores = vgg_scores(pictures, truth, network=tiny)
    assert ((scores > 0) == truth).all()
    assert (scores == vgg_scores(pictures, truth, network=tiny)).all()


def test_what_is_judged_was_not_learned_from_but_in_sample(drawings, monkeypatch):
    seen = []

    def note(model, pictures, truth, rows, device):
        seen.append(set(rows.tolist()))

    monkeypatch.setattr(judge, "_learn", note)
    vgg_scores(*drawings, network=tiny)
    assert [len(rows) for rows in seen] == [32] * 5
    assert set.intersection(*seen) == set()
    seen.clear()
    vgg_scores(*drawings, in_sample=True, network=tiny)
    assert seen == [set(range(40))]


@pytest.mark.slow
def test_weights_that_are_not_there_are_named(drawings, monkeypatch, tmp_path):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    monkeypatch.delenv("LIMNER_WEIGHTS", raising=False)
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))
    with pytest.raises(MissingError, match="vgg19"):
        vgg_scores(*drawings)
