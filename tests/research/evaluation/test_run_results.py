"""From a finished run to a result file, and every way a data set is opened."""

import json

import numpy as np
import pytest
import torch
from PIL import Image

from limner.encoders.catalogue import weight_file
from limner.encoders.pixels import build
from limner.encoders.weight_files import read_state
from limner.errors import CheckpointError, ConfigError, MissingError
from limner.files import write_lines
from limner.research.cli.train import train
from limner.research.datasets.pairs import Pair
from limner.research.evaluation.refinement import Refinement, read_refinement, write_refinement
from limner.research.evaluation.results import Result
from limner.research.runs.run import Run
from limner.research.runs.train import read_config
from limner.research.systems.cmcm import SYSTEM
from limner.research.training.corpus import corpus_of, open_corpus
from limner.research.training.settings import DataConfig

TOML = """
system = "cmcm"
row = "CMCM"
{backbone}
[data]
set = "pairs"
split = "grouped"
annotations = "{pairs}"
vectors = "random"
backbone = "resnet18"
features = "{features}"
batch = 8
[model]
dim = 16
word_width = 8
hidden = 8
[loop]
epochs = 2
"""


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def pairs(tmp_path):
    """Forty pairs with small pictures, in a file."""
    rng, made = np.random.default_rng(0), []
    for i in range(40):
        path = tmp_path / f"{i}.png"
        Image.fromarray(rng.integers(0, 255, (32, 40, 3), dtype=np.uint8)).save(path)
        labels = {"a": i % 2, "b": int(i % 3 == 0)}
        made.append(
            Pair(
                id=f"p{i}",
                text=f"word{i} and word{i % 5}",
                image=str(path),
                image_hash=f"{i:064x}",
                labels=labels,
            )
        )
    write_lines(tmp_path / "made.jsonl", (pair.model_dump_json(exclude_defaults=True) for pair in made))
    return tmp_path / "made.jsonl"


@pytest.fixture
def weights(tmp_path):
    from safetensors.torch import save_file
    from torchvision import models

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        state = models.resnet18(weights=None, num_classes=3).state_dict()
    save_file({key: value.contiguous() for key, value in state.items()}, tmp_path / "resnet18.safetensors")
    return tmp_path / "resnet18.safetensors"


def settings_file(tmp_path, pairs, backbone='backbone = "frozen"'):
    path = tmp_path / "run.toml"
    path.write_text(TOML.format(pairs=pairs, features=tmp_path / "features", backbone=backbone))
    return path


@pytest.mark.slow
def test_stored_features_are_made_once_and_a_result_is_measured_on_the_test_rows(
    tmp_path, pairs, weights, capsys
):
    run = tmp_path / "run"
    train(settings_file(tmp_path, pairs), to=run, weights=weights)
    assert "best epoch" in capsys.readouterr().out
    result = Run.open(run).evaluate(weights=weights, commit="abc").result
    again = Result.read(result.write(run))
    assert again == result
    assert (result.about.system, result.about.data, result.about.commit) == ("CMCM", "made", "abc")
    assert set(result.labels) == set(result.probabilities) == {"a", "b"}
    config = read_config(tmp_path / "run.toml").data
    data, pictures = open_corpus(config, weights=weights)
    assert result.ids == tuple(pair.id for pair in data.split("test"))
    full = result.full
    assert full.pictures == len(result.ids) == len(full.plain) == len(full.refined)
    # ranks by hand: one text at a time
    model, _ = SYSTEM.load(run)
    test = data.split("test")
    images = model.encode_image(pictures.take(pictures.places([pair.image_id for pair in test])))
    for place, pair in enumerate(test):
        row = model.score(model.encode_text([pair.text]), images)[0]
        assert full.plain[place] == 1 + (row > row[place]).sum()
    assert Run.open(run).evaluate(part="val", weights=weights).result.about.part == "val"


@pytest.mark.slow
def test_a_backbone_is_trained_along(tmp_path, pairs, weights):
    run = tmp_path / "tuned"
    words = ("data.limit=8", "data.batch=4", "loop.epochs=1")
    train(settings_file(tmp_path, pairs), to=run, weights=weights, finetune=True, set_=words)
    model, config = SYSTEM.load(run)
    assert config.backbone == "finetune"
    file = weight_file("resnet18", weights)
    before = build("resnet18", read_state(file), "w").network.state_dict()["layer4.1.conv2.weight"]
    after = model.image_head.backbone.state_dict()["network.layer4.1.conv2.weight"]
    moved = (after - before).abs().max().item()
    # It began at these weights and left them: Adam moves a weight by about lr a step.
    assert 0 < moved < 50 * config.loop.lr
    assert (torch.rand_like(before) * before.std() - before).abs().max().item() > 50 * config.loop.lr
    assert Run.open(run).evaluate().result.full.pictures > 0
    assert not list((tmp_path / "features").glob("*/rows.f16"))


def test_a_set_is_split_and_cut_and_its_pictures_follow(pairs, tmp_path):
    config = DataConfig(set="pairs", annotations=str(pairs), limit=4, features=str(tmp_path))
    data, pictures = open_corpus(config, files=True)
    counts = {name: len(data.split(name)) for name in ("train", "val", "test")}
    assert counts["train"] == 4
    assert max(counts.values()) == 4
    assert data.name == "made-first4"
    rows = corpus_of(data, pictures)
    assert rows.pictures.take(rows.train.places[:2]).shape == (2, 224, 224, 3)


def test_shuffled_relations_are_the_same_labels_elsewhere(pairs, tmp_path):
    plain, _ = open_corpus(
        DataConfig(set="pairs", annotations=str(pairs), features=str(tmp_path)), files=True
    )
    control, _ = open_corpus(
        DataConfig(set="pairs", annotations=str(pairs), shuffle_relations=True, features=str(tmp_path)),
        files=True,
    )
    assert [p.id for p in plain.pairs] == [p.id for p in control.pairs]
    assert [p.labels for p in plain.pairs] != [p.labels for p in control.pairs]


def test_sets_that_need_a_place_say_so(tmp_path):
    for name in ("pairs", "stories", "captions"):
        with pytest.raises(ConfigError, match=r"set data\.annotations"):
            open_corpus(DataConfig(set=name))
        with pytest.raises(MissingError):
            open_corpus(DataConfig(set=name, annotations=str(tmp_path / "none")))


def test_a_refinement_is_stored_with_its_infinite_threshold(tmp_path):
    for one in (Refinement(0.13, 0.1), Refinement(0.2, float("inf"), "add")):
        write_refinement(tmp_path, one)
        assert read_refinement(tmp_path) == one
        json.loads((tmp_path / "refinement.json").read_text(), parse_constant=lambda _: 1 / 0)
    (tmp_path / "refinement.json").write_text("{}")
    with pytest.raises(CheckpointError, match="run limner train to its end"):
        read_refinement(tmp_path)
    with pytest.raises(MissingError):
        Run.open(tmp_path / "none").evaluate()
