"""Plain text line by line: paragraphs, wrapped lines, typed items, underlined lines, breaks."""

import pytest

from limner.errors import DataError
from limner.text.lines import blocks_of_lines, read_plain


def shape(text):
    return [(block.kind, block.number, block.depth, block.text) for block in blocks_of_lines(text)]


def test_wrapped_lines_are_joined_and_others_kept():
    prose = (
        "The mail boat came once a week, if the sea allowed it, and\nthe whole island stood on the pier.\n"
    )
    poem = "The kettle sings\nat half past four"
    assert [block.text for block in blocks_of_lines(f"{prose}\n{poem}")] == [
        "The mail boat came once a week, if the sea allowed it, and the whole island stood on the pier.",
        poem,
    ]


def test_a_role_word_ends_a_list_and_begins_a_block():
    assert shape("Ingredients:\n- mint\n- lime\nMethod\n- Slice.\n- Stir.") == [
        ("paragraph", None, 0, "Ingredients:"),
        ("item", None, 1, "mint"),
        ("item", None, 1, "lime"),
        ("paragraph", None, 0, "Method"),
        ("item", None, 1, "Slice."),
        ("item", None, 1, "Stir."),
    ]


def test_numbered_lines_take_the_lines_that_continue_them_and_inner_lists():
    assert shape("1. Salt the legs and leave them\novernight.\n  a. Use coarse salt.\n2. Roast.") == [
        ("item", 1, 1, "Salt the legs and leave them overnight."),
        ("item", None, 2, "a. Use coarse salt."),
        ("item", 2, 1, "Roast."),
    ]


def test_a_single_dash_begins_a_spoken_sentence():
    assert shape("- Who is there?\n\nNobody spoke.") == [
        ("paragraph", None, 0, "- Who is there?"),
        ("paragraph", None, 0, "Nobody spoke."),
    ]


def test_underlined_lines_have_that_look_and_rules_are_breaks():
    blocks = blocks_of_lines(
        "News\n====\nApple day\n---------\nBring apples.\n\n* * *\n\nThe end is near.\f Page"
    )
    assert [(block.kind, block.text, block.level, block.look) for block in blocks] == [
        ("paragraph", "News", 1, ("underlined",)),
        ("paragraph", "Apple day", 0, ("underlined",)),
        ("paragraph", "Bring apples.", 0, ()),
        ("break", "", 0, ()),
        ("paragraph", "The end is near.\x0c Page", 0, ()),
    ]
    assert [block.kind for block in read_plain("One.\fTwo.", "x").blocks] == [
        "paragraph",
        "break",
        "paragraph",
    ]


def test_running_heads_of_a_pasted_pdf_are_furniture():
    document = read_plain(
        "Club      Page 1 of 2\n\n1. Salt it.\n\nClub      Page 2 of 2\n\n2. Roast it.", "x"
    )
    assert [block.text for block in document.blocks] == ["Salt it.", "Roast it."]
    assert [item.text for item in document.left_out] == ["Club Page 1 of 2", "Club Page 2 of 2"]


def test_too_many_lines():
    with pytest.raises(DataError, match="more than 200,000 lines"):
        read_plain("a\n" * 200_001, "big.txt")
