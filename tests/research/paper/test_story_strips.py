"""Strips of validation stories: rows in order, marks that agree with ranks, the truth last."""

import re
import shutil
from contextlib import redirect_stdout
from io import StringIO
from typing import get_args

import pytest

from limner.errors import ConfigError, DataError, LimnerWarning
from limner.research.cli.figure import figure
from limner.research.cli.measure import measure
from limner.research.evaluation.results import SequenceResult
from limner.research.paper.run_pages import MOST_STEPS, Mark, open_pictures

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def runs(tmp_path_factory, drawings_run, product_run):
    """Two runs measured on validation."""
    folder = tmp_path_factory.mktemp("strips")
    kept = [shutil.copytree(run, folder / run.name) for run in (drawings_run, product_run)]
    with redirect_stdout(StringIO()), pytest.warns(LimnerWarning, match="VSR of"):
        measure(*kept, part="val", saliency=False)
    return kept


def cells(page):
    """Per story its texts, and per row its name and the classes and words of its cells."""
    stories = []
    for body in re.findall(r'<section class="level2">(.*?)</section>', page, re.DOTALL):
        texts = re.findall(r'<th scope="col"><div class="text" dir="auto">(.*?)</div></th>', body)
        rows = [
            (name, re.findall(r'<td class="(\w+)"><img[^>]*>(.*?)</td>', row, re.DOTALL))
            for name, row in re.findall(r'<th scope="row">(.*?)</th>(.*?)</tr>', body, re.DOTALL)
        ]
        stories.append((texts, rows))
    return stories


def test_every_mark_agrees_with_the_measured_rank(runs, tmp_path):
    figure("gsda-strips", to=tmp_path / "s.html", run=tuple(runs), count=2)
    found = cells((tmp_path / "s.html").read_text())
    results = [SequenceResult.read_all(run)[0] for run in runs]
    _, picture = open_pictures(runs[0])
    one = results[0]
    assert one.about.part == "val"
    names = list(dict.fromkeys(one.stories))
    assert len(found) == min(2, len(names))
    for story, (shown, rows) in zip(names, found, strict=True):
        own = [row for row, name in enumerate(one.stories) if name == story]
        steps = own[:MOST_STEPS]
        assert len(shown) == len(steps)
        assert [name for name, _ in rows] == ["CMCM (linear)", "CMCM (product)", "truth"]
        assert [mark for mark, _ in rows[-1][1]] == ["true"] * len(steps)
        for result, (_, marked) in zip(results, rows, strict=False):
            for row, (mark, words) in zip(steps, marked, strict=True):
                top = result.found["steps"].top[row][0]
                rank = result.found["steps"].own[row]
                of_story = any(picture.same(top, one.ids[other]) for other in own)
                due = "right" if picture.same(top, one.ids[row]) else "story" if of_story else "wrong"
                assert mark == due
                assert (f"at rank {rank:g}" in words) == (mark != "right")
                assert ("✓" in words, "✗" in words) == (mark == "right", mark != "right")
    assert {mark for _, rows in found for _, row in rows for mark, _ in row} <= set(get_args(Mark))


def test_stories_can_be_named(runs, tmp_path):
    (result,) = SequenceResult.read_all(runs[0])
    name = result.stories[-1]
    figure("gsda-strips", to=tmp_path / "s.html", run=(runs[0],), text=(name,))
    page = (tmp_path / "s.html").read_text()
    assert f"<h2>{name}</h2>" in page
    assert "<script" not in page
    ((_, rows),) = cells(page)
    assert [name for name, _ in rows] == ["CMCM", "truth"]


def test_what_cannot_be_shown_is_refused(runs, tmp_path, drawings_run):
    out = tmp_path / "s.html"
    with pytest.raises(ConfigError, match="gsda-strips: no run given"):
        figure("gsda-strips", to=out)
    with pytest.raises(ConfigError, match="unknown validation story 'none'"):
        figure("gsda-strips", to=out, run=(runs[0],), text=("none",))
    with pytest.raises(ConfigError, match=r"name an \.html file"):
        figure("gsda-strips", to=tmp_path / "s.png", run=(runs[0],))
    bare = shutil.copytree(drawings_run, tmp_path / "bare", ignore=shutil.ignore_patterns("results"))
    with pytest.raises(DataError, match="--part val' first"):
        figure("gsda-strips", to=out, run=(runs[0], bare))
    (result,) = SequenceResult.read_all(runs[0])
    moved = result.model_copy(update={"ids": tuple(f"x{name}" for name in result.ids)})
    moved.write(bare)
    with pytest.raises(DataError, match="different steps"):
        figure("gsda-strips", to=out, run=(runs[0], bare))
    with pytest.raises(DataError, match="no longer has pair"):
        figure("gsda-strips", to=out, run=(bare,))
    assert not out.exists()
