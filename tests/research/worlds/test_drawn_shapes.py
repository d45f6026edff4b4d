"""Drawings are read from tables: what a line of them means."""

import re

import pytest

from limner.research.worlds import Style
from limner.research.worlds.canvas import NAMED, Canvas, darker, lighter, mix
from limner.research.worlds.render import Pen, draw_shapes, drawings
from limner.research.worlds.tales import EXTRAS, PATTERNS, PLACES, SPECIES, TIMES, TOPS, WEATHERS

TABLES = ("props", "places", "figures", "shapes")
VERBS = {"area", "blob", "slab", "oval", "stroke", "curl", "arc", "glow", "shadow"}
OWN = {"own", "fur", "hair", "top", "trim", "mark", "high", "low", "pale", "wall", "floor"}
STYLE = Style(7, "bright", 0.004, (58, 44, 54), "paper", 0.0, False)


def pen(**options) -> Pen:
    return Pen(Canvas(0, STYLE), lambda u, v: (0.5 + u, 0.5 - v), 1.0, **options)


@pytest.mark.parametrize("table", TABLES)
def test_every_line_names_known_verbs_colours_and_facts(table):
    facts = {*PLACES, *WEATHERS, *TIMES, *SPECIES, *TOPS, *PATTERNS, *EXTRAS}
    facts |= {f"{species}{shade}" for species in SPECIES for shade in range(4)}
    for shapes in drawings(table).values():
        for shape in shapes:
            assert shape.verb in VERBS | drawings("shapes").keys()
            for name in re.findall(r"(?<![#\w])[a-z]\w*", shape.fill):
                assert name in NAMED or name in OWN, shape
            if table != "props":
                assert {fact for one in shape.when for fact in one.lstrip("!").split("|")} <= facts


def test_facts_choose_lines():
    (apples,) = (shape for shape in drawings("props")["tree"] if shape.verb == "fruit")
    assert apples.holds(frozenset({"apples"}))
    assert not apples.holds(frozenset({""}))
    stars = next(shape for shape in drawings("places")["sky"] if "night" in shape.when)
    assert stars.holds(frozenset({"windy", "night"}))
    assert not stars.holds(frozenset({"rainy", "night"}))
    gloom = next(shape for shape in drawings("places")["sky"] if shape.when == ("!sunny|windy",))
    assert gloom.holds(frozenset({"rainy"}))
    assert not gloom.holds(frozenset({"sunny"}))


def test_colours_have_names_numbers_shades_and_mixtures():
    one = pen(colours={"fur": (100, 50, 0)})
    assert one.colour("red") == NAMED["red"]
    assert one.colour("#0a141e") == (10, 20, 30)
    assert one.colour("fur-0.25+0.1") == lighter(darker((100, 50, 0), 0.25), 0.1)
    assert one.colour("fur~#ffffff~0.5") == mix((100, 50, 0), (255, 255, 255), 0.5)


def test_a_point_may_lie_on_the_way_to_the_far_end():
    assert pen(to=(0.7, 0.1)).point((0.0, 0.1, 0.5)) == pytest.approx((0.6, 0.2))
    assert pen().point((0.1, 0.1, 0.0)) == pytest.approx((0.6, 0.4))


def test_a_smaller_drawing_stands_where_its_verb_says():
    one = pen(facts=frozenset({"apples"}), owner="tree/")
    draw_shapes(one, [shape for shape in drawings("props")["tree"] if shape.part])
    x0, y0, x1, y1 = one.canvas.unit_box("tree/apples")
    assert 0.5 - 0.13 - 0.03 < x0 < 0.5 - 0.13 < 0.5 + 0.13 < x1 < 0.5 + 0.13 + 0.03
    # The topmost apple hangs beyond the upper edge.
    assert y0 == 0.0
    assert 0.5 - 0.30 < y1 < 0.5 - 0.30 + 0.03
