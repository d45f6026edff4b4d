"""The page of what runs find: its order is the scores', what belongs to a query is marked, words are free."""

import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from limner.errors import ConfigError, DataError
from limner.research.cli.figure import figure
from limner.research.cli.train import train
from limner.research.datasets.pairs import Pair, one_row_per_pair
from limner.research.paper.run_pages import _Ranked, _texts
from limner.research.runs.run import Run, vectors
from limner.research.training.corpus import open_corpus, rows_of

pytestmark = pytest.mark.slow

TOML = """
system = "cmcm"
row = "Tiny & small"
backbone = "drawings"
[data]
set = "picturebook"
vectors = "random"
picture_px = 32
[model]
relations = "none"
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("found")
    (folder / "config.toml").write_text(TOML)
    train(folder / "config.toml", to=folder / "run", smoke=True)
    yield folder / "run"
    torch.set_num_threads(before)


def shown(page: Path):
    """Title of every group → its facts and whether each is marked."""
    found = []
    for title, body in re.findall(r"<h[23]>(.*?)</h[23]>(.*?)</section>", page.read_text(), re.DOTALL):
        items = re.findall(r"<li(.*?)</li>", body, re.DOTALL)
        scores = [float(re.search(r"score (−?[\d.]+)", item)[1].replace("−", "-")) for item in items]
        found.append((title, scores, ["own" in item.split(">")[0] for item in items], body))
    return found


def test_texts_words_and_pictures_are_queries(tmp_path, run):
    opened = Run.open(run)
    model, config = opened.model, opened.config
    data, rows = open_corpus(config.data)
    pairs = one_row_per_pair(data.split("test"))
    texts, images, columns = vectors(model, rows, rows_of(pairs, rows, ()), opened.can)
    scores = model.score(texts, images[columns])
    own = int(np.argmax(np.diag(scores) - scores.max(axis=1)))  # its picture is among the best
    name = pairs[own].id
    figure("complementary-3", to=tmp_path / "found.html", run=(run,), text=("justice", name), picture=(name,))
    groups = shown(tmp_path / "found.html")
    own_row = "Tiny &amp; small"
    unknown = f"{own_row}: no word of this query is in its vocabulary"
    assert [group[0] for group in groups] == ["Text", unknown, "Text", own_row, "Picture", own_row]
    assert "justice" in groups[0][3]
    assert not any(groups[1][2])  # a word has no picture of its own
    for number in (1, 3, 5):
        assert groups[number][1] == sorted(groups[number][1], reverse=True)
        assert len(groups[number][1]) == 5
    different = dict.fromkeys(pair.image_id for pair in pairs)
    best = sorted((scores[own][[p.image_id for p in pairs].index(one)] for one in different), reverse=True)
    assert groups[3][1] == pytest.approx(best[:5], abs=0.006)
    assert sum(groups[3][2]) == 1
    assert groups[5][1][0] == pytest.approx(scores[:, own].max(), abs=0.006)


def test_the_first_ones_are_shown_when_none_is_named(tmp_path, run):
    figure("complementary-3", to=tmp_path / "found.html", run=(run, run), count=1)
    titles = [group[0] for group in shown(tmp_path / "found.html")]
    unknown = "Tiny &amp; small: no word of this query is in its vocabulary"
    assert titles == ["Text", unknown, unknown] * 2 + [
        *("Text", "Tiny &amp; small", "Tiny &amp; small"),
        *("Picture", "Tiny &amp; small", "Tiny &amp; small"),
    ]


def test_what_cannot_be_shown_is_said(tmp_path, run):
    with pytest.raises(ConfigError, match="pass --run FOLDER"):
        figure("complementary-3", to=tmp_path / "found.html")
    with pytest.raises(ConfigError, match="no pair 'nobody'"):
        figure("complementary-3", to=tmp_path / "found.html", run=(run,), picture=("nobody",))
    with pytest.raises(ConfigError, match=r"name an \.html file"):
        figure("complementary-3", to=tmp_path / "found.png", run=(run,))
    (tmp_path / "other.toml").write_text(TOML + "[loop]\nseed = 1\n")
    train(tmp_path / "other.toml", to=tmp_path / "other", smoke=True, set_=("data.world_seed=9",))
    with pytest.raises(DataError, match="different test parts"):
        figure("complementary-3", to=tmp_path / "found.html", run=(run, tmp_path / "other"))


def test_all_texts_of_a_picture_and_all_that_say_the_same_belong_to_it():
    named = [("a", "p"), ("b", "p"), ("a", "q"), ("c", "q")]
    pairs = [Pair(id=str(n), text=text, image=image) for n, (text, image) in enumerate(named)]
    scores = np.array([[0.1], [0.3], [0.9], [0.5]])  # the text of pair 2 is that of pair 0
    model = SimpleNamespace(score=lambda texts, images: scores)
    found = _texts(_Ranked("run", model, np.zeros((4, 1)), np.zeros((4, 1))), 0, pairs)
    assert [(one.text, one.right) for one in found.examples] == [("a", True), ("c", False), ("b", True)]
