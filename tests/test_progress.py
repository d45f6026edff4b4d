"""Progress where nothing can be redrawn: a line now and then on stderr, and none where all is done soon."""

import io
import time

import pytest
from rich.console import Console

from limner import progress
from limner.progress import BytesProgress, IndexProgress
from limner.research.cli.data import FetchBar


def lines_of(capsys, at_least):
    """What stands on stderr once so many lines do."""
    said = ""
    until = time.monotonic() + 20
    while said.count("\n") < at_least and time.monotonic() < until:
        time.sleep(0.01)
        said += capsys.readouterr().err
    return said.splitlines()


@pytest.fixture
def soon(monkeypatch):
    monkeypatch.setattr(progress, "LINE_S", 0.05)


def test_ten_seconds_pass_between_lines():
    assert progress.LINE_S == 10.0


@pytest.mark.slow
def test_indexing_says_how_far_the_present_part_is(soon, capsys):
    with IndexProgress() as bar:
        bar.stage("pictures", None)
        bar.advance(1200)
        assert lines_of(capsys, 1)[0] == "pictures: 1,200"
        bar.total(5000)
        assert lines_of(capsys, 2)[-1].startswith("pictures: 1,200 of 5,000")
        bar.stage("captions", 10)
        assert lines_of(capsys, 2)[-1].startswith("captions: 0 of 10")


def test_a_rate_and_the_time_left_follow_once_they_are_known(soon, capsys):
    with IndexProgress() as bar:
        bar.stage("pictures", 1_000)
        for _ in range(4):
            bar.advance(10)
            time.sleep(0.05)
        assert any("/s, " in line and line.endswith(" left") for line in lines_of(capsys, 4))


def test_a_download_is_told_in_megabytes(soon, capsys):
    with BytesProgress("resnet50") as bar:
        bar(40_000_000, 102_500_000)
        assert lines_of(capsys, 1)[0].startswith("resnet50: 40.0 of 102.5 MB")


def test_what_ends_soon_or_is_done_says_nothing(capsys, monkeypatch):
    with IndexProgress() as bar:
        bar.stage("pictures", 3)
        bar.advance(1)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(progress, "LINE_S", 0.02)
    with FetchBar() as fetching:
        fetching.bar.update(fetching.bar.tasks[0].id, total=5, completed=5, more="")
        time.sleep(0.2)
    assert capsys.readouterr().err == ""


def test_a_terminal_gets_no_lines(soon, monkeypatch):
    out = io.StringIO()
    monkeypatch.setattr(progress, "Console", lambda **_: Console(file=out, force_terminal=True, width=60))
    with IndexProgress() as bar:
        bar.stage("pictures", 10)
        time.sleep(0.2)
    assert "pictures: 0" not in out.getvalue()
