"""Benchmarks as modules: a plugin of the suite, which imports nothing heavy before a fixture is asked for."""

import importlib.util
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def benchmark(request, monkeypatch):
    """The benchmark named by the test, as a module; torch's generator begins at 0 and is left as it was."""
    import torch

    monkeypatch.syspath_prepend(FOLDER)
    spec = importlib.util.spec_from_file_location(request.param, FOLDER / f"{request.param}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield module
