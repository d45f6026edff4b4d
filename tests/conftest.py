"""Fixtures of the whole suite."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The data sets beside the project; a test that needs them is skipped where they are absent."""
    place = Path(os.environ.get("LIMNER_DATA", Path(__file__).parents[2] / "shared")) / "data"
    if not place.is_dir():
        pytest.skip(f"no data sets at {place}; set LIMNER_DATA to the folder that holds data/")
    return place


@pytest.fixture(scope="session")
def executable_payload() -> Callable[[Path], bytes]:
    """Bytes of a pickle that opens a file for writing when it is loaded, as ``{"weight": open(proof, "w")}``.

    Written by hand, opcode by opcode, so that nothing here imports what must never run.
    """
    return lambda proof: f"(dVweight\ncbuiltins\nopen\n(V{proof}\nVw\ntRs.".encode()
