"""Runs as they are saved: their settings are taken as they are, and what cannot be opened is one line.

The checkpoints are written by hand.
"""

import numpy as np
import pytest
import torch
from corpora import made
from torch.nn.functional import normalize

from limner.config import build
from limner.errors import CheckpointError, ConfigError
from limner.research.datasets.pairs import PairSet
from limner.research.runs.fit import prepare
from limner.research.runs.measure import about_of
from limner.research.runs.run import Run
from limner.research.systems import gsda
from limner.research.systems.base import system
from limner.research.training import checkpoint
from limner.research.training.checkpoint import BEST
from limner.research.training.corpus import corpus_of
from limner.research.training.settings import AS_SAVED

WORDS = ("ash", "bay", "cod")
ROWS = len(WORDS) + 2  # padding and the unknown word come first
IMAGE, DIM, WIDTH = 3, 4, 2
TEXTS = ["ash bay cod", "cod", "bay elm"]
NUMBERS = [[2, 3, 4], [4], [3, 1]]
DATA = {"set": "pairs", "split": "released", "backbone": "resnet50", "max_length": 8}
# a preset of today would fill in more
VSE = {
    "system": "vse",
    "row": "VSE0",
    "preset": "release",
    "data": DATA,
    "model": {"dim": DIM, "word_width": WIDTH, "no_imgnorm": False},
    "loop": {"epochs": 3, "lr": 1e-3, "metric": "MRR"},
    "hinge": "sum",
    "backbone": "frozen",
}


GSDA = {
    "system": "gsda",
    "row": "GSDA w/o graph, w/o dual",
    "data": DATA,
    "model": {"word_width": WIDTH, "hidden": 5, "attention": 6, "dim": DIM, "context": "others"},
    "keys": "vse0",
    "graph": "off",
    "caption": "off",
}


def weights(shapes, seed=0):
    rng = np.random.default_rng(seed)
    return {name: torch.from_numpy(rng.standard_normal(s).astype(np.float32)) for name, s in shapes.items()}


def recurrent(name, into, width, *, gates=3, both=False):
    """Shapes of one layer of a GRU (3 gates) or an LSTM (4), as torch names them."""
    found = {}
    for side in ("", "_reverse") if both else ("",):
        found |= {f"{name}.weight_ih_l0{side}": (gates * width, into)}
        found |= {f"{name}.weight_hh_l0{side}": (gates * width, width)}
        found |= {f"{name}.bias_{one}_l0{side}": (gates * width,) for one in ("ih", "hh")}
    return found


def reader(part="words"):
    """A GRU over words and a layer over pictures."""
    return {
        "reader.embedding.weight": (ROWS, WIDTH),
        **recurrent(f"reader.{part}", WIDTH, DIM),
        "project.weight": (DIM, IMAGE),
        "project.bias": (DIM,),
    }


def written(folder, config, tensors, **more):
    """The folder of a run: nothing beside weights but settings, words and the width of features."""
    folder.mkdir()
    about = {
        "config": config,
        "vocabulary": {"tokeniser": "default", "words": list(WORDS)},
        "image_width": IMAGE,
    }
    checkpoint.save(folder / BEST, tensors, {"config": about | more})
    return folder


def by_hand(tensors):
    """(N, D) last states of the GRU over the words of `TEXTS`, of unit length."""
    own = torch.nn.GRU(WIDTH, DIM, batch_first=True)
    named = {name.removeprefix("reader.words."): tensor for name, tensor in tensors.items()}
    own.load_state_dict({name: named[name] for name in own.state_dict()})
    with torch.no_grad():
        words = [tensors["reader.embedding.weight"][numbers][None] for numbers in NUMBERS]
        return normalize(torch.cat([own(one)[0][:, -1] for one in words]), dim=1)


def test_a_run_of_vse_comes_back_as_its_weights_say(tmp_path):
    tensors = weights(reader())
    run = Run.open(written(tmp_path / "vse", VSE, tensors))
    assert (run.name, run.config.model.text, run.config.backbone) == ("VSE0", "words", "frozen")
    np.testing.assert_allclose(run.model.encode_text(TEXTS), by_hand(tensors), atol=1e-6)
    features = torch.eye(IMAGE)
    due = normalize(tensors["project.weight"].T + tensors["project.bias"], dim=1)
    np.testing.assert_allclose(run.model.encode_image(features.numpy()), due, atol=1e-6)


def test_keys_are_taken_from_a_run_of_the_same_split(tmp_path):
    data, pictures = made(n=8)
    rows = corpus_of(PairSet("pairs", (), data.pairs), pictures)
    tensors = weights(reader())
    older = written(tmp_path / "vse", VSE, tensors)
    values = GSDA | {"keys_run": str(older), "data": DATA | {"vectors": "random"}}
    task = prepare(gsda.SYSTEM, build(gsda.GsdaConfig, values, "test"), rows).task
    found = task.model.keys.encode_text(TEXTS)
    np.testing.assert_allclose(found, by_hand(tensors), atol=1e-6)
    for other in ("test_share=0.3", "val_share=0.2", "split_seed=1"):
        with pytest.raises(ConfigError, match=r"may have seen test rows"):
            prepare(gsda.SYSTEM, build(gsda.GsdaConfig, values, "test", [f"data.{other}"]), rows)


PUBLISHED = ("cmcm", "complementary", "vse", "gsda", "vrss", "cnsi")


@pytest.mark.parametrize("name", PUBLISHED)
def test_presets_of_today_fill_in_nothing_of_a_finished_run(name):
    older = {"system": name, "preset": "release", "data": DATA, "loop": {"epochs": 30}}
    saved = build(system(name).settings, older, "older", context=AS_SAVED)
    today = build(system(name).settings, older, "today")
    assert (saved.backbone, saved.data.crop, saved.data.flip) == ("frozen", "none", False)
    assert (saved.data.test_share, saved.data.val_share, saved.data.vectors) == (None, None, "cbow")
    assert saved.loop.lr == type(saved.loop)().lr
    assert saved != today
    shares = older | {"data": DATA | {"split": "grouped", "test_share": 0.3, "val_share": 0.05}}
    kept = build(system(name).settings, shares, "older", context=AS_SAVED).data
    assert (kept.test_share, kept.val_share) == (0.3, 0.05)


def test_results_of_a_saved_run_say_what_it_was(tmp_path):
    """A frozen backbone was no deviation when the run was saved; today's preset trains it."""
    config = {"system": "cmcm", "row": "Base", "preset": "release", "backbone": "frozen", "data": DATA}
    run = build(system("cmcm").settings, config, "older", context=AS_SAVED)
    about = about_of(run, system("cmcm").capabilities(run), "cite++")
    assert (about.preset, about.backbone) == ("release", "resnet50 frozen")
    assert {"backbone=frozen", "data.crop=none", "data.tokeniser=default"} <= set(about.deviations)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (VSE | {"trunk": "stored"}, r"unknown setting 'trunk'.*cannot read these.*train the run again"),
        (VSE | {"backbone": "stored"}, r"setting 'backbone'.*found 'stored'.*train the run again"),
        (VSE | {"preset": "plain"}, r"unknown preset 'plain'.*train the run again"),
        ({}, "no system stated; train it again"),
        (None, "no system stated; train it again"),
    ],
    ids=["renamed", "value", "preset", "empty", "none"],
)
def test_a_run_that_cannot_be_opened_is_one_line(tmp_path, config, message):
    folder = written(tmp_path / "run", config, weights(reader()))
    with pytest.raises(CheckpointError, match=message) as told:
        Run.open(folder)
    text = str(told.value)
    assert text.startswith(str(folder / BEST))
    assert text.count(str(folder)) == 1
    assert "\n" not in text


def test_weights_that_are_not_those_of_the_settings_are_one_line(tmp_path):
    folder = written(tmp_path / "run", VSE, weights(reader("lstm")))
    with pytest.raises(CheckpointError, match=r"weights missing: reader\.words\.bias_hh_l0.* and 1 more"):
        Run.open(folder)
