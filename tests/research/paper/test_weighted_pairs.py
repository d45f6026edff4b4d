"""The page of the heaviest and the lightest pairs: weights by hand, order, and one of each pair."""

import re
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from limner.errors import ConfigError, DataError, MissingError
from limner.research.cli.figure import figure
from limner.research.cli.train import train
from limner.research.datasets.neighbours import PairScores, read_pair_scores, write_pair_scores
from limner.research.losses.weighting import batch_weights
from limner.research.paper.run_pages import shares

pytestmark = pytest.mark.slow

TOML = """
system = "complementary"
row = "COMBINED-VAL"
method = "combined-val"
backbone = "drawings"
[data]
set = "picturebook"
vectors = "random"
picture_px = 32
[loop]
metric = "MRR"
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("weighted")
    (folder / "config.toml").write_text(TOML)
    train(folder / "config.toml", to=folder / "run", smoke=True)
    yield folder / "run"
    torch.set_num_threads(before)


def config(**weights):
    own = {"lam": 8.0, "gamma": -1, "mode": "absdiff", "reading": "lambda_both", "tau": 1.0} | weights
    return SimpleNamespace(weights=SimpleNamespace(**own), data=SimpleNamespace(batch=2))


def test_shares_of_one_batch_are_its_weights():
    import torch

    sides = {
        "image": np.array([0.1, 0.9], np.float32),
        "text": np.array([0.3, 0.2], np.float32),
    }
    x, y = (torch.from_numpy(sides[name]) for name in ("image", "text"))
    due = batch_weights(x, y, lam=8.0)
    np.testing.assert_allclose(shares(sides, config()), (due / due.mean()).numpy(), rtol=1e-6)


@pytest.mark.parametrize("gamma", [-1, 1])
def test_one_modality_orders_pairs_as_gamma_says(gamma):
    values = np.array([0.4, 0.1, 0.8, 0.2], np.float32)
    found = shares({"image": values, "text": values[::-1].copy()}, config(mode="x", gamma=gamma))
    assert np.argsort(gamma * found).tolist() == np.argsort(values).tolist()
    assert found.mean() == pytest.approx(1)


def test_sound_weights_do_not_depend_on_the_scale_of_scores():
    rng = np.random.default_rng(0)
    sides = {name: rng.random(50).astype(np.float32) for name in ("image", "text")}
    wide = {name: 7 * values + 3 for name, values in sides.items()}
    one, other = (shares(part, config(reading="sound", mode="sum")) for part in (sides, wide))
    np.testing.assert_allclose(one, other, rtol=1e-4)


def test_the_page_shows_both_ends_of_every_measure(tmp_path, run):
    figure("complementary-4", to=tmp_path / "pairs.html", run=(run,), count=3)
    page = (tmp_path / "pairs.html").read_text()
    ends = re.findall(r"<h2>(.*?)</h2>(.*?)</section>", page, re.DOTALL)
    assert [title for title, _ in ends] == [
        f"{measure}: {end} weights"
        for measure in ("DISCREPANCY", "DIVERSITY")
        for end in ("highest", "lowest")
    ]
    found = [[float(x) for x in re.findall(r"weight × ([\d.e+-]+)", body)] for _, body in ends]
    for high, low in (found[:2], found[2:]):
        assert len(high) == len(low) == 3
        assert high == sorted(high, reverse=True)
        assert low == sorted(low)
        assert high[0] > 1 > low[0]
    scores = read_pair_scores(run)
    due = shares(scores.measures()["DIVERSITY"], _config(run))
    assert found[2][0] == pytest.approx(due.max(), rel=0.01)
    assert found[3][0] == pytest.approx(due.min(), rel=0.01)
    assert page.count("data:image/webp") == 12
    assert page.count("scores: images") == 12


def _config(run):
    from limner.research.runs.run import Run

    return Run.open(run).config


def test_what_cannot_be_shown_is_said(tmp_path, run):
    with pytest.raises(ConfigError, match=r"name an \.html file"):
        figure("complementary-4", to=tmp_path / "pairs.png", run=(run,))
    with pytest.raises(MissingError, match="weights pairs"):
        figure("complementary-4", to=tmp_path / "pairs.html", run=(tmp_path,))
    values = {f"DIVERSITY/{side}": np.ones(2, np.float32) for side in ("image", "text")}
    kept = (run / "pair_scores.safetensors").read_bytes()
    write_pair_scores(PairScores(("gone-1", "gone-2"), values, 0), run)
    with pytest.raises(DataError, match="no longer has pair 'gone-1'"):
        figure("complementary-4", to=tmp_path / "pairs.html", run=(run,))
    (run / "pair_scores.safetensors").write_bytes(kept)
