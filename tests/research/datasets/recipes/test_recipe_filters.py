"""Each rule removes what it names, at its threshold, and leaves plain instructions alone."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limner.research.datasets.recipes.filters import boilerplate, fault_of, is_english, noun_ratio, tokens_of

STEP = "Whisk the eggs and the sugar together until they are pale, then fold in the flour."


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (STEP, None),
        ("Bake it now.", None),
        ("Serve warm.", "fewer than 3 tokens"),
        ("", "fewer than 3 tokens"),
        ("stir it stir it stir it", "unique-token ratio below 0.5"),
        ("stir it and stir", "most repeated token above 0.3"),
        ("eggs sugar flour butter milk salt", "noun ratio above 0.8"),
        ("one of the very very very very good pans we have", "token run longer than 3"),
        ("one of the very very very good pans we have", None),
    ],
)
def test_each_rule_has_its_case(text, rule):
    assert fault_of(text, english=True) == rule


def test_the_noun_rule_judges_english_alone():
    assert fault_of("eggs sugar flour butter milk salt", english=False) is None
    assert noun_ratio(["eggs", "sugar"]) == 1.0
    assert noun_ratio([]) == 0.0
    assert is_english([STEP])
    assert not is_english(["Die Eier mit dem Zucker schaumig schlagen und das Mehl unterheben."])
    assert is_english(["Eier"], "en-GB")
    assert not is_english([STEP], "sw")


def test_letters_of_scripts_without_spaces_count_one_by_one():
    assert tokens_of("打鸡蛋 now") == ["打", "鸡", "蛋", "now"]


@pytest.mark.parametrize(
    ("text", "left", "count"),
    [
        (STEP, STEP, 0),
        ("Step 3: Advertisement Stir well.", "Stir well.", 2),
        ("Stir well. Pin it for later!", "Stir well.", 1),
        ("Stir well.\nPhoto: Ada Cook", "Stir well.", 1),
        ("Save the whites. Step back.", "Save the whites. Step back.", 0),
        ("Advertisement", "", 1),
    ],
)
def test_boiler_plate_goes_from_both_ends(text, left, count):
    assert boilerplate().strip(text) == (left, count)
    assert boilerplate().version == 1


@settings(deadline=None)
@given(st.text(max_size=300))
def test_any_text_is_judged(text):
    left, _ = boilerplate().strip(text)
    fault_of(left, english=True)
    assert boilerplate().strip(left)[0] == left


@pytest.mark.slow
def test_a_line_of_ten_megabytes_is_judged():
    assert fault_of("stir " * 2_000_000, english=True) == "unique-token ratio below 0.5"
    assert len(boilerplate().strip(" " * 5_000_000 + "a" * 5_000_000)[0]) == 5_000_000
