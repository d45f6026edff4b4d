"""Fixtures of the data set tests."""

import pytest
from hostile_server import hostile_server


@pytest.fixture
def server():
    """A local web server that misbehaves on demand."""
    with hostile_server() as running:
        yield running
