"""Trained runs are opened by whoever offers that under a name, and looked for only when one is asked for."""

import subprocess
import sys
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from pathlib import Path

import pytest

from limner.encoders import trained
from limner.errors import ConfigError, MissingError
from limner.research.runs import run


def test_what_is_installed_opens_runs():
    (offered,) = entry_points(group=trained.GROUP, name=trained.OPEN)
    assert offered.load() is run.library_runs


def test_no_run_asks_nobody(monkeypatch):
    monkeypatch.setattr("importlib.metadata.entry_points", None)
    assert trained.trained_runs(None, None, "cpu") == (None, None)


def test_what_opens_runs_is_given_what_was_asked_for(monkeypatch):
    offered = EntryPoint(trained.OPEN, "test_trained_runs:opened", trained.GROUP)
    monkeypatch.setitem(sys.modules, "test_trained_runs", sys.modules[__name__])
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: EntryPoints([offered]))
    assert trained.trained_runs(Path("a"), None, "cuda:1") == (("a", "cuda:1"), None)


def opened(model, metric, device):
    return (str(model), device), metric


def test_without_research_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: EntryPoints())
    with pytest.raises(MissingError, match=r"pip install 'limner\[research\]'"):
        trained.trained_runs(Path("run"), None, "cpu")


def test_what_is_no_run_is_named():
    with pytest.raises(ConfigError, match="model: 5 is of type int; expected a run"):
        trained.trained_runs(5, None, "cpu")


@pytest.mark.slow
def test_who_illustrates_imports_nothing_of_research():
    code = (
        "import sys; import limner.library, limner.match.illustrator, limner.studio.app;"
        "print(*{name.split('.')[1] for name in sys.modules if name.startswith('limner.')})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "research" not in done.stdout.split()
