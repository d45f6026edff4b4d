"""Which lines are headings, what the title is, and what each section is for."""

import pytest

from limner.records import Block, Mark, Passage
from limner.text.blocks import Document
from limner.text.lines import read_plain
from limner.text.structure import structure


def bold(text, kind="strong", **more):
    return Block(text=text, marks=(Mark(start=0, end=len(text), kind=kind),), **more)


def item(text, number=None, **more):
    return Block(kind="item", text=text, number=number, depth=1, **more)


def said(text):
    return Block(text=text)


def heading(text, level=1):
    return Block(kind="heading", text=text, level=level)


def structured(*blocks, title=""):
    document = Document(blocks=list(blocks), title=title)
    structure(document)
    return document


def outline(document):
    return [(block.text, block.level, block.role) for block in document.blocks if block.kind == "heading"]


def test_bold_lines_are_headings_below_the_heading_above_and_give_roles():
    document = structured(
        heading("Cookies"),
        bold("Ingredients:"),
        item("150 g oats"),
        bold("Method"),
        item("Mix.", 1),
        bold("Make ahead"),
        said("Keeps for days."),
    )
    assert document.title == "Cookies"
    assert outline(document) == [
        ("Ingredients:", 2, "supplies"),
        ("Method", 2, "method"),
        ("Make ahead", 2, "aside"),
    ]
    assert [block.role for block in document.blocks if block.kind == "item"] == ["supplies", "method"]


@pytest.mark.parametrize(
    "line",
    [
        bold("Mix the dough."),  # a sentence
        bold("b" * 81),
        Block(text="Silence was first.", marks=(Mark(start=0, end=7, kind="strong"),)),
        said("“BOOM!”"),
        said("BOOM! BOOM!"),
    ],
)
def test_what_only_looks_like_a_heading_stays_text(line):
    document = structured(heading("Title"), line, said("More words follow here."))
    assert outline(document) == []


@pytest.mark.parametrize(
    ("text", "title", "headings"),
    [
        ("Soup\n\nINGREDIENTS\n\n1 leek\n\nMETHOD\n\nSlice it.", "Soup", ["INGREDIENTS", "METHOD"]),
        (
            "Village News\n\nApple day\n---\nCome.\n\nLost cat\n---\nGrey.",
            "Village News",
            ["Apple day", "Lost cat"],
        ),
        (
            "THE ISLAND\n\nCHAPTER I.\n\nIt rained.\n\nCHAPTER II.\n\nSun.",
            "THE ISLAND",
            ["CHAPTER I.", "CHAPTER II."],
        ),
        ("Dyeing\n\nIt is easy.\n\nPrepare\n\nWash it.\n\nDye\n\nDip it.", "Dyeing", ["Prepare", "Dye"]),
        ("Otto had two socks\n\nHe looked under the bed\n\nThere it was", "", []),
        ("He said nothing.\n\nShe left.", "", []),
    ],
)
def test_headings_and_title_of_plain_text(text, title, headings):
    document = read_plain(text, "x")
    structure(document)
    assert (document.title, [head for head, _, _ in outline(document)]) == (title, headings)


def test_a_paragraph_is_divided_at_its_role_lines():
    document = structured(heading("Dip"), Block(text="Ingredients\n3 aubergines\nMethod\nChar them.\nChop."))
    assert [(block.kind, block.text) for block in document.blocks] == [
        ("heading", "Ingredients"),
        ("paragraph", "3 aubergines"),
        ("heading", "Method"),
        ("paragraph", "Char them.\nChop."),
    ]


def test_parts_of_a_method_stand_below_it():
    document = structured(
        bold("Method"),
        bold("For the base", "emphasis"),
        item("Crush.", 1),
        bold("For the filling", "emphasis"),
        item("Beat.", 2),
        title="Cake",
    )
    assert outline(document) == [
        ("Method", 2, "method"),
        ("For the base", 3, "method"),
        ("For the filling", 3, "method"),
    ]
    same_look = structured(
        heading("Method", 2), heading("Base", 2), item("Crush.", 1), heading("Top", 2), item("Beat.", 1)
    )
    assert [role for _, _, role in outline(same_look)] == ["method"] * 3


def test_what_stands_between_two_numbers_belongs_to_the_first():
    document = structured(
        item("Connect.", 1),
        said("Mind the legs."),
        item("Run.", 2),
        said("It blinks."),
        heading("Notes", 2),
        said("Red."),
    )
    assert [block.depth for block in document.blocks] == [1, 1, 1, 1, 0, 0]
    plain = structured(item("Fold.", 1), item("Cut.", 2), said("That was all there is."))
    assert [block.depth for block in plain.blocks] == [1, 1, 0]


def test_typed_markers_become_items_and_a_worded_one_owns_what_follows():
    document = structured(said("Step 1: Wet it."), said("Step 2: Twist it."), said("Use rubber bands."))
    assert [(block.kind, block.number, block.depth, block.text) for block in document.blocks] == [
        ("item", 1, 1, "Wet it."),
        ("item", 2, 1, "Twist it."),
        ("paragraph", None, 1, "Use rubber bands."),
    ]


def test_tables_that_hold_the_text():
    def row(*cells):
        return tuple(Passage(text=cell) for cell in cells)

    steps = Block(kind="table", rows=(row("No", "Do"), row("1", "Fold."), row("2", "Cut.")), head=1)
    assert [(block.number, block.text) for block in structured(steps).blocks] == [(1, "Fold."), (2, "Cut.")]
    recipe = Block(kind="table", rows=(row("Ingredients", "Method"), row("flour", "Knead it.")), head=1)
    assert [(block.kind, block.text, block.role) for block in structured(recipe).blocks] == [
        ("heading", "Ingredients", "supplies"),
        ("paragraph", "flour", "supplies"),
        ("heading", "Method", "method"),
        ("paragraph", "Knead it.", "method"),
    ]
    figures = Block(kind="table", rows=(row("Fat", "12 g"), row("Salt", "1 g")))
    assert structured(said("It is lean."), figures).blocks[1].kind == "table"


def test_mail_headers_byline_and_labels_of_pages():
    document = read_plain("From: Ann\nSubject: Re: Plum cake\n\nHi Tom,\n\nPrint\n\nMix it well.", "mail.txt")
    structure(document)
    assert (document.title, [block.text for block in document.blocks]) == (
        "Plum cake",
        ["Hi Tom,", "Mix it well."],
    )
    story = read_plain("The Cloud\n\nWritten by Tola Eke\n\nA small cloud lived.\n\nIt rained.", "x")
    structure(story)
    assert (story.title, story.author, len(story.blocks)) == ("The Cloud", "Tola Eke", 2)


@pytest.mark.parametrize(
    ("blocks", "title"),
    [
        ([heading("Harbour"), said("Tar."), heading("Sea"), said("Whales.")], ""),
        (
            [heading("Cake"), heading("Ingredients"), item("flour"), heading("Method"), item("Mix.", 1)],
            "Cake",
        ),
        ([heading("Fudge", 3), said("It sets."), bold("Directions:"), said("Boil.")], "Fudge"),
        ([bold("Echo"), bold("Chapter One"), said("Jory came."), bold("Chapter Two"), said("Fog.")], "Echo"),
    ],
)
def test_titles(blocks, title):
    assert structured(*blocks).title == title


def test_lines_that_number_pages_are_breaks():
    document = read_plain("Mola\n\nPage 1\nA mole sat.\n\nPage 2: It dug.\nIt was dark.", "x")
    structure(document)
    assert [(block.kind, block.text) for block in document.blocks] == [
        ("break", ""),
        ("paragraph", "A mole sat."),
        ("break", ""),
        ("paragraph", "It dug. It was dark."),
    ]
    assert [item.text for item in document.left_out] == ["Page 1", "Page 2:"]
