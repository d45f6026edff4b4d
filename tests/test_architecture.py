"""docs/architecture.md names every room and no module that is gone; no two classes share a name."""

import ast
import re
from pathlib import Path

import pytest

import limner

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
SOURCE = Path(limner.__file__).parent
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def test_every_module_and_folder_that_it_names_is_there():
    named = re.findall(r"`limner\.([a-z_.]+)", PAGE)
    assert len(named) > 20
    for name in named:
        parts = [part for part in name.split(".") if part]
        if parts[0] in limner.__all__:
            continue
        found = [SOURCE.joinpath(*parts[:end]) for end in range(len(parts), 0, -1)]
        assert any(place.is_dir() or place.with_suffix(".py").is_file() for place in found), name
        assert found[-1].is_dir() or found[-1].with_suffix(".py").is_file(), name
    for name in re.findall(r"`(limner/[a-z/_]+)`", PAGE):
        assert (SOURCE.parent / name).is_dir(), name


def test_every_room_is_in_its_table():
    folders = (*SOURCE.iterdir(), *(SOURCE / "research").iterdir())
    rooms = {place.name for place in folders if (place / "__init__.py").is_file()}
    table = PAGE.split("## Rooms")[1].split("## Who")[0]
    cells = set(re.findall(r"`([a-z]+)`", table))
    assert rooms <= cells


def test_no_name_of_a_class_means_two_things():
    places = {}
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(path.relative_to(SOURCE).as_posix())
    assert len(places) > 500
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
