"""Fitting of LDA: planted topics come back, so do runs, and what cannot work is said."""

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from limner.config import build
from limner.errors import CheckpointError, ConfigError, DataError, MissingError, ShapeError
from limner.research.cli.train import train
from limner.research.datasets.pairs import Pair, PairSet
from limner.research.runs import fit
from limner.research.runs.run import Run, vectors
from limner.research.runs.train import validation
from limner.research.systems.lda import SYSTEM, LdaConfig, training_words
from limner.research.training import checkpoint
from limner.research.training.checkpoint import BEST, HISTORY
from limner.research.training.corpus import ArrayRows, corpus_of

prepare, load = partial(fit.prepare, SYSTEM), SYSTEM.load

CONFIGS = Path(__file__).parents[3] / "configs" / "lda"
THEMES = (("river", "boat", "fish"), ("oven", "bread", "flour"), ("stage", "song", "drum"))
VALUES = {
    "system": "lda",
    "data": {"set": "pairs"},
    "model": {"components": 4, "visual_words": 9, "alpha": 0.6},
    "topics": [1, 3],
    "passes": 30,
    "sample": 400,
}


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def config(*overrides):
    return build(LdaConfig, VALUES, "test", overrides)


CAN = SYSTEM.capabilities(config())


def corpus(n=60, flat=False):
    """Pairs of three themes: each has three words and three directions of local vectors of its own."""
    rng = np.random.default_rng(0)
    directions = 5 * rng.standard_normal((3, 3, 6))
    pairs, grids = [], []
    for split in ("train", "val"):
        for place in range(n if split == "train" else 30):
            theme = place % 3
            words = " ".join(rng.choice(THEMES[theme], 5))
            name = f"{split}-{place}"
            pairs.append(
                Pair(id=name, text=f"The {words} and it is {place}x", image=name, split=split, group=name)
            )
            grids.append(directions[theme, rng.integers(3, size=8)] + 0.05 * rng.standard_normal((8, 6)))
    values = np.stack(grids).astype(np.float32)
    values = values.mean(axis=1) if flat else values
    return corpus_of(PairSet("made", (), tuple(pairs)), ArrayRows([pair.image for pair in pairs], values))


def fitted(folder, *overrides, rows=None):
    rows = rows or corpus()
    judge = validation(rows, CAN)
    return fit.fit(SYSTEM, config(*overrides), rows, folder, validate=judge, maximise=True)[0]


def test_planted_topics_come_back(tmp_path):
    rows = corpus()
    position = fitted(tmp_path, rows=rows)
    assert [entry["topics"] for entry in position.history] == [1, 3]
    assert position.best_epoch == 1  # one topic cannot tell themes apart
    model, settings = load(tmp_path)
    assert settings == config()
    assert set(model.words) == {word for theme in THEMES for word in theme}  # others are rare, or stop words
    shares = model.encode_text([" ".join(theme) for theme in THEMES])
    assert sorted(shares.argmax(axis=1).tolist()) == [0, 1, 2]
    assert (shares.max(axis=1) > 0.8).all()
    texts, images, columns = vectors(model, rows.pictures, rows.val, CAN)
    scores = model.score(texts, images)
    for place, row in enumerate(scores):
        own = np.arange(30) % 3 == place % 3
        assert row[own].min() > row[~own].max()
    assert validation(rows, CAN)(model) == position.history[1]["val"]
    lines = [json.loads(line) for line in (tmp_path / HISTORY).read_text().splitlines()]
    assert [line["val_pairs"] for line in lines] == [len(rows.val)] * 2
    assert len(set(columns.tolist())) == 30


@pytest.mark.slow
def test_it_is_the_same_every_time(tmp_path):
    one, other = fitted(tmp_path / "one"), fitted(tmp_path / "other")
    assert one.history == other.history
    mine, theirs = (checkpoint.load(tmp_path / name / BEST)[0] for name in ("one", "other"))
    assert all(torch.equal(mine[key], theirs[key]) for key in mine)
    again = fitted(tmp_path / "one")
    assert again.history == one.history
    third = fitted(tmp_path / "third", "loop.seed=1", "topics=[3]")
    assert third.history[0]["topics"] == 3
    assert not torch.equal(checkpoint.load(tmp_path / "third" / BEST)[0]["topics"], mine["topics"])


def test_lower_can_be_better(tmp_path):
    rows = corpus()
    position, _ = fit.fit(
        SYSTEM, config(), rows, tmp_path, validate=lambda model: {"MRR": model.dim}, maximise=False
    )
    assert (position.best, position.best_epoch) == (1, 0)
    assert load(tmp_path)[0].dim == 1


def test_bad_input_is_said(tmp_path):
    with pytest.raises(ConfigError, match="topics"):
        config("topics=[]")
    with pytest.raises(ConfigError, match="topics"):
        config("topics=[0]")
    with pytest.raises(ConfigError, match=r"lower model\.alpha"):
        config("model.alpha=2")
    with pytest.raises(ConfigError, match="limner train"):
        prepare(config(), corpus())
    with pytest.raises(DataError, match=r"lower data\.min_count"):
        training_words(["the and", "once"], 2)
    with pytest.raises(DataError, match=r"lower model\.visual_words"):
        fitted(tmp_path, "model.visual_words=5000")
    with pytest.raises(ShapeError, match="expected grid features"):
        fitted(tmp_path, rows=corpus(flat=True))
    with pytest.raises(MissingError):
        load(tmp_path)


def test_a_damaged_or_foreign_run_is_refused(tmp_path):
    fitted(tmp_path)
    with pytest.raises(CheckpointError, match=r"other settings \(passes was \d+, now 3\)"):
        fitted(tmp_path, "passes=3")
    tensors, state = checkpoint.load(tmp_path / BEST)
    for broken in (
        {name: tensor for name, tensor in tensors.items() if name != "axes"},
        tensors | {"topics": tensors["topics"][:, :4]},
        tensors | {"more": tensors["mean"]},
    ):
        checkpoint.save(tmp_path / BEST, broken, state)
        with pytest.raises(CheckpointError):
            load(tmp_path)
    checkpoint.save(tmp_path / BEST, tensors, state | {"config": {}})
    with pytest.raises(CheckpointError, match="not a checkpoint of lda"):
        load(tmp_path)


def test_the_shipped_file_is_fitted_and_measured(tmp_path, capsys):
    file = CONFIGS / "lda.toml"
    train(file, to=tmp_path, data="picturebook", set_=("data.picture_px=32",), smoke=True)
    printed = capsys.readouterr()
    assert "of 2: MedR" in printed.out
    assert "3 topics: MedR" in printed.err
    assert load(tmp_path)[1].row == "LDA"
    assert len(Run.open(tmp_path).evaluate(part="val").result.ids) > 0
    with pytest.raises(ConfigError, match="cosine"):
        Run.for_library(tmp_path)
    with pytest.raises(ConfigError, match="--tensorboard"):
        train(
            file, to=tmp_path, data="picturebook", set_=("data.picture_px=32",), smoke=True, tensorboard=True
        )
