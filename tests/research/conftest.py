"""Fixtures of all tests of research."""

import copy
from collections.abc import Iterator
from functools import cache

import pytest


@pytest.fixture(scope="session", autouse=True)
def _the_published_backbone_is_read_once() -> Iterator[None]:
    """Half a second each time, and whatever tests `base` or `limner` builds several networks of it."""
    from limner.encoders import base_blocks
    from limner.encoders.base_network import published_backbone
    from limner.research.systems.limner import model

    read = cache(published_backbone)
    with pytest.MonkeyPatch.context() as patch:
        for module in (base_blocks, model):
            patch.setattr(module, "published_backbone", lambda: copy.deepcopy(read()))
        yield
