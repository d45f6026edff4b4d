"""Which division a text gets, and to which step its pictures belong."""

import pytest

from limner.errors import DataError
from limner.records import Block, PictureRef, Step
from limner.text.blocks import Document
from limner.text.segment import segment
from limner.text.structure import structure


def picture(name, **more):
    return Block(kind="picture", pictures=(PictureRef(target=name),), **more)


def item(text, number=None, **more):
    return Block(kind="item", text=text, number=number, depth=1, **more)


def said(text, **more):
    return Block(text=text, **more)


def heading(text, level=2):
    return Block(kind="heading", text=text, level=level)


BREAK = Block(kind="break")


def divided(*blocks, by=None):
    document = Document(blocks=list(blocks), title="Title")
    structure(document)
    return segment(document, by, "text")


def steps(*blocks, by=None):
    return [(step.title, step.text) for step in divided(*blocks, by=by).steps]


def test_the_method_alone_gives_steps():
    introduction, supplies = said("We love it."), [heading("Ingredients"), item("flour"), item("eggs")]
    notes = [heading("Notes"), item("Keep it cool."), item("Freeze it."), item("Share it.")]
    numbered = [heading("Method"), said("Read all first."), item("Mix.", 1), item("Bake.", 2)]
    assert steps(introduction, *supplies, *numbered, *notes) == [("Method", "Mix."), ("Method", "Bake.")]
    paragraphs = [heading("Method"), said("Mix."), said("Bake."), said("Enjoy!")]
    assert steps(introduction, *supplies, *paragraphs, *notes) == [("Method", "Mix."), ("Method", "Bake.")]
    lines = [heading("Method"), said("Mix.\nBake.\nEat.")]
    assert [text for _, text in steps(introduction, *lines)] == ["Mix.", "Bake.", "Eat."]
    bullets = [heading("Method"), item("Mix."), item("Bake.")]
    assert [text for _, text in steps(introduction, *supplies, *bullets)] == ["Mix.", "Bake."]
    parts = [
        heading("Method"),
        heading("Step 1: Mix", 3),
        said("By hand."),
        heading("Step 2: Bake", 3),
        said("Hot."),
    ]
    assert steps(*supplies, *parts, *notes) == [("Step 1: Mix", "By hand."), ("Step 2: Bake", "Hot.")]


def test_numbered_headings_own_all_below_them_and_nothing_else_is_a_step():
    blocks = [
        heading("Parts"),
        item("a pump"),
        heading("Step 1: Wire"),
        said("Red first."),
        heading("Mind", 3),
        said("No sparks."),
        heading("Step 2: Test"),
        said("Press it."),
        heading("Who made it"),
        said("A club."),
    ]
    assert steps(*blocks) == [
        ("Step 1: Wire", "Red first.\n\nMind\n\nNo sparks."),
        ("Step 2: Test", "Press it."),
    ]


def test_pages_lists_sections_and_paragraphs():
    assert steps(said("Two socks."), BREAK, said("Under the bed."), said("A ball.")) == [
        ("", "Two socks."),
        ("", "Under the bed.\n\nA ball."),
    ]
    assert steps(
        said("My bagels."), item("4 bagels"), item("salmon"), item("Toast.", 1), item("Fold.", 2)
    ) == [
        ("", "Toast."),
        ("", "Fold."),
    ]
    assert steps(said("In this order:"), item("Bag."), item("Tent."), item("Stove.")) == [
        ("", "Bag."),
        ("", "Tent."),
        ("", "Stove."),
    ]
    sections = [heading("March"), said("Sow."), item("Dig."), item("Rake."), heading("May"), said("Plant.")]
    assert steps(*sections) == [("March", "Sow.\n- Dig.\n- Rake."), ("May", "Plant.")]
    article = divided(
        said("It froze."), said("Children skated."), item("cold"), item("ice"), said("It thawed.")
    )
    assert (article.by, len(article.steps)) == ("paragraph", 4)


def test_a_list_among_many_paragraphs_is_not_the_steps():
    words = [said(f"Paragraph {n} tells more.") for n in range(5)]
    assert len(steps(*words[:2], item("One.", 1), item("Two.", 2), *words[2:])) == 7


def test_other_units():
    blocks = [heading("March"), said("Sow it. Rake it."), heading("May"), said("Plant.")]
    assert steps(*blocks, by="sentence") == [("March", "Sow it."), ("March", "Rake it."), ("May", "Plant.")]
    assert steps(*blocks, by="paragraph") == [("March", "Sow it. Rake it."), ("May", "Plant.")]
    assert steps(*blocks, by="heading") == [("March", "Sow it. Rake it."), ("May", "Plant.")]


def test_declared_steps_come_first():
    document = Document(
        blocks=[said("Hello."), said("Mix."), said("Bake.")],
        declared=(Step(text="x", title="A", run=(1, 3)),),
    )
    structure(document)
    assert [(step.title, step.text) for step in segment(document, None, "x").steps] == [
        ("A", "Mix.\n\nBake.")
    ]
    assert len(segment(document, "paragraph", "x").steps) == 3


@pytest.mark.parametrize(
    ("blocks", "expected"),
    [
        ([said("a."), picture("1"), said("b."), picture("2")], ["1", "2"]),
        ([picture("1"), said("a."), picture("2"), said("b.")], ["1", "2"]),
        ([said("a."), picture("1"), picture("2"), said("b.")], ["12", ""]),
        (
            [
                said("x."),
                picture("1", group=7),
                said("a.", group=7),
                picture("2", group=8),
                said("b.", group=8),
            ],
            ["", "1", "2"],
        ),
        ([item("a.", 1), picture("1"), item("b.", 2), picture("2")], ["1", "2"]),
        ([picture("0"), item("a.", 1), item("b.", 2)], ["", ""]),
        ([heading("A"), said("a."), picture("1"), heading("B"), picture("2"), said("b.")], ["1", "2"]),
    ],
)
def test_pictures_belong_to_the_words_beside_them(blocks, expected):
    found = divided(*blocks).steps
    assert ["".join(picture.target for picture in step.pictures) for step in found] == expected


def test_runs_are_in_order_and_hold_every_picture_and_word_of_their_step():
    made = divided(heading("Step 1"), said("Wet it."), picture("1"), heading("Step 2"), said("Dry it."))
    assert [step.run for step in made.steps] == [(0, 3), (3, 5)]
    assert [block.look for block in made.blocks] == [()] * 5


def test_a_text_of_supplies_alone_is_still_divided():
    assert steps(heading("Ingredients"), said("Flour is old."), said("Salt is older.")) != []


def test_too_many_steps():
    with pytest.raises(DataError, match="more than 60,000"):
        divided(*(said("a. ") for _ in range(60_001)), by="sentence")
