"""Figures of stories: attention of real steps, and a page that sorts every step into one of three groups."""

import re
import shutil
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest
from PIL import Image

from limner.errors import ConfigError, DataError, LimnerWarning
from limner.research.cli.figure import figure
from limner.research.cli.measure import measure
from limner.research.evaluation.results import SequenceResult
from limner.research.paper.page import spread
from limner.research.paper.run_pages import parted

pytestmark = pytest.mark.slow

CONFIG = Path(__file__).parents[3] / "configs" / "vrss" / "vrss.toml"


@pytest.fixture(scope="module")
def runs(tmp_path_factory, drawings_run, train_tiny):
    """VRSS, and another system, measured."""
    folder = tmp_path_factory.mktemp("stories")
    train_tiny(folder / "vrss", config=CONFIG)
    shutil.copytree(drawings_run, folder / "rival")
    with redirect_stdout(StringIO()), pytest.warns(LimnerWarning, match="VSR of"):
        measure(folder / "vrss", folder / "rival", saliency=False)
    return folder


def test_attention_of_test_stories_is_drawn(runs, tmp_path):
    figure("vrss-attention", to=tmp_path / "a.png", run=(runs / "vrss",), count=2)
    with Image.open(tmp_path / "a.png") as drawn:
        assert min(drawn.size) > 500
    figure("vrss-attention", to=tmp_path / "a.svg", run=(runs / "vrss",), count=1)
    text = (tmp_path / "a.svg").read_text()
    (result, *_) = [one for one in SequenceResult.read_all(runs) if one.about.system == "VRSS"]
    assert result.stories[0] in text
    name = result.stories[-1]
    figure("vrss-attention", to=tmp_path / "a.svg", run=(runs / "vrss",), text=(name,))
    text = (tmp_path / "a.svg").read_text()
    assert name in text
    steps = result.stories.count(name)
    assert len(re.findall(r">\d+  \w", text)) == steps


def test_attention_that_is_not_there_is_refused(runs, tmp_path):
    with pytest.raises(ConfigError, match="unknown test story 'none'"):
        figure("vrss-attention", to=tmp_path / "a.svg", run=(runs / "vrss",), text=("none",))
    with pytest.raises(ConfigError, match="has no attention over the steps"):
        figure("vrss-attention", to=tmp_path / "a.svg", run=(runs / "rival",))
    assert not (tmp_path / "a.svg").exists()


def test_every_step_is_in_one_group_and_the_page_shows_who_was_better(runs, tmp_path):
    one, other = sorted(SequenceResult.read_all(runs), key=lambda r: r.about.system != "VRSS")
    groups = parted(one, other, ("VRSS", "CMCM"))
    assert sorted(step for members in groups.values() for step in members) == list(range(len(one.ids)))
    ranks = [result.found["steps"].own for result in (one, other)]
    for title, first, second in (("VRSS is better", *ranks), ("CMCM is better", *reversed(ranks))):
        assert all(first[step] < second[step] and first[step] <= 10 for step in groups[title])
    assert all(
        ranks[0][step] == ranks[1][step] or min(ranks[0][step], ranks[1][step]) > 10
        for step in groups["Neither is better"]
    )

    figure("vrss-galleries", to=tmp_path / "g.html", run=(runs / "vrss", runs / "rival"), count=2)
    page = (tmp_path / "g.html").read_text()
    titles = re.findall(r"<h2>(.*?): (\d+) of (\d+) steps</h2>", page)
    assert [title for title, _, _ in titles] == ["VRSS is better", "CMCM is better", "Neither is better"]
    assert [int(number) for _, number, _ in titles] == [len(members) for members in groups.values()]
    rows = re.findall(r"<h3>(VRSS|CMCM): own picture at rank ([\d.]+)</h3>(.*?)</section>", page, re.DOTALL)
    assert len(rows) == 2 * sum(min(2, len(members)) for members in groups.values())
    for _, place, body in rows:
        assert body.count("<li") == 5
        assert ('class="own"' in body) == (float(place) <= 5)


def test_members_are_spread_evenly():
    assert spread(range(100), 4) == [12, 37, 62, 87]
    assert spread([5, 7], 4) == [5, 7]
    assert spread([], 4) == []
    assert spread(range(3), 1) == [1]


def test_runs_that_cannot_be_compared_are_refused(runs, tmp_path, drawings_run):
    out = tmp_path / "g.html"
    with pytest.raises(ConfigError, match="compares two runs, found 1"):
        figure("vrss-galleries", to=out, run=(runs / "vrss",))
    shutil.copytree(runs / "rival", tmp_path / "bare", ignore=shutil.ignore_patterns("results"))
    with pytest.raises(DataError, match="run 'limner measure"):
        figure("vrss-galleries", to=out, run=(runs / "vrss", tmp_path / "bare"))
    (result, *_) = SequenceResult.read_all(runs / "rival")
    moved = result.model_copy(update={"ids": tuple(f"x{name}" for name in result.ids)})
    moved.write(tmp_path / "bare")
    with pytest.raises(DataError, match="different steps"):
        figure("vrss-galleries", to=out, run=(runs / "vrss", tmp_path / "bare"))
    assert not out.exists()


def test_two_runs_of_one_name_are_told_apart(runs, tmp_path):
    shutil.copytree(runs / "vrss", tmp_path / "again")
    figure("vrss-galleries", to=tmp_path / "g.html", run=(runs / "vrss", tmp_path / "again"), count=1)
    page = (tmp_path / "g.html").read_text()
    assert "VRSS (vrss) is better: 0 of" in page
    assert "VRSS (again) is better: 0 of" in page
