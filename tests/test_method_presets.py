"""The tables of presets in docs/methods state what the settings resolve to."""

import re
from pathlib import Path

import pytest

from limner.config import flat
from limner.research.runs.train import read_config

ROOT = Path(__file__).parents[1]
# page → row and data set of each of its tables of presets, in their order
TABLES = {
    "cmcm": [("cmcm/cmcm", "cite++")],
    "complementary": [("complementary/diversity", "politics")],
    "gsda": [("gsda/gsda", "vist"), ("complementary/vse0", "vist"), ("cnsi/cnsi", "vist")],
    "vrss": [("vrss/vrss", "recipeqa")],
}
HEAD = re.compile(r"`([a-z+]+)`(?: on `(\w+)`)?")


def tables(page):
    """Lines of every table of settings, its head first, as cells."""
    text = (ROOT / "docs" / "methods" / f"{page}.md").read_text("utf-8")
    found = re.findall(r"^\| setting \|.*\n(?:\|.*\n)+", text, re.MULTILINE)
    return [[[cell.strip() for cell in line.split("|")[1:-1]] for line in one.splitlines()] for one in found]


def written(value):
    """A setting as the pages write it."""
    if isinstance(value, tuple):
        return ", ".join(map(written, value)) or "–"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, bool):
        return "on" if value else "off"
    return {None: "–", "": '""'}.get(value, str(value))


@pytest.mark.parametrize("page", TABLES)
def test_a_table_of_presets_states_the_settings(page):
    found = tables(page)
    assert len(found) == len(TABLES[page])
    for table, (row, data) in zip(found, TABLES[page], strict=True):
        head, _, *lines = table
        assert head[:2] == ["setting", "published"]
        assert len({cells[0] for cells in lines}) == len(lines) > 5
        for column, title in enumerate(head[2:], 2):
            presets = HEAD.findall(title)
            assert presets, title
            for preset, other in presets:
                settings = read_config(ROOT / "configs" / f"{row}.toml", [f"preset={preset}"], other or data)
                values = flat(settings.model_dump())
                due = {cells[0]: written(values[cells[0].strip("`")]) for cells in lines}
                assert {cells[0]: cells[column] for cells in lines} == due, f"{page}, {row}: {title}"
