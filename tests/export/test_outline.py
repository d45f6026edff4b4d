"""The outline that all formats walk: where pictures stand, what describes them, what is a number."""

import hashlib
from pathlib import Path

import pytest
from block_notation import notation
from exports import board_of, item

from limner.export import Plan, suited_to
from limner.export.outline import Outline
from limner.records import Area, Block, Board, BoardStep, Candidate, Framing, PictureRef

PARAGRAPH = Block(text="Words.")


def outline_of(board: Board, **options: object) -> Outline:
    return Outline(board, Plan(**options), ".html")


def test_a_step_has_the_number_that_its_text_gives_it() -> None:
    for step, number, body in (
        ([item("Saw.", 7)], 7, ["Saw."]),
        ([item("Saw.")], None, ["Saw."]),
        ([item("Saw.", 2, depth=2), Block(text="Slowly.", depth=2)], 2, ["Saw.", "Slowly."]),
        ([item("Saw.", 1), item("Glue.", 2)], None, ["1. Saw.", "2. Glue."]),
        ([Block(kind="heading", text="Saw", level=2), item("Along.", 1)], None, ["1. Along."]),
        ([Block(text="Saw.")], None, ["Saw."]),
    ):
        (panel,) = outline_of(board_of(step), layout="recipe").panels
        assert (panel.number, notation(panel.body)) == (number, body)


def test_a_heading_alone_is_a_step_and_keeps_its_picture(reference) -> None:
    heading = Block(kind="heading", text="Morning", level=3, pictures=(reference("odd"),))
    (panel,) = outline_of(board_of([heading])).panels
    assert (panel.title, panel.level, panel.body, len(panel.plate)) == ("Morning", 3, (), 1)


@pytest.mark.parametrize(
    ("places", "is_plate"),
    [("pW", 1), ("Wp", 1), ("ppW", 1), ("WpW", 0), ("pWp", 0), ("WWi", 1), ("WiW", 0)],
)
def test_a_plate_is_what_stands_together_at_one_end(reference, places: str, is_plate: int) -> None:
    blocks = {
        "W": PARAGRAPH,
        "p": Block(kind="picture", pictures=(reference("odd"),)),
        "i": Block(text="Words with one.", pictures=(reference("odd"),)),
    }
    (panel,) = outline_of(board_of([blocks[place] for place in places])).panels
    assert bool(panel.plate) == is_plate
    assert len(panel.figures) == len(places.lower().replace("w", ""))


def test_the_author_describes_a_picture_else_its_own_caption_else_nobody(pictures, reference) -> None:
    theirs = reference("cmyk", alt="Theirs", caption="Below")
    board = board_of(
        [PARAGRAPH, pictures["odd"]],
        [PARAGRAPH, pictures["wide"]],
        [PARAGRAPH, Block(kind="picture", pictures=(theirs,))],
        [PARAGRAPH, Block(kind="picture", pictures=(reference("cmyk", caption="Below"),))],
        [PARAGRAPH, pictures["odd"]],
    )
    framing = Framing(crop=Area(x=0, y=0, width=1, height=0.5), alt="Mine <2026>", caption="")
    framed = board.steps[4].model_copy(update={"framing": framing})
    board = board.model_copy(update={"steps": (*board.steps[:4], framed)})
    figures = [panel.figures[0] for panel in outline_of(board).panels]
    assert [(figure.alt, figure.caption) for figure in figures] == [
        ("An odd name", ""),
        ("", ""),
        ("Theirs", "Below"),
        ("", "Below"),
        ("Mine <2026>", ""),
    ]
    assert figures[4].aspect == pytest.approx(200 / 75)


def test_a_given_picture_that_the_library_has_brings_its_credits_and_framing(pictures, reference) -> None:
    board = board_of([PARAGRAPH, Block(kind="picture", pictures=(reference("turned", caption="Ours"),))])
    chosen = Candidate(picture=pictures["turned"], score=1)
    framing = Framing(crop=Area(x=0, y=0, width=1, height=0.5))
    given = BoardStep(position=0, chosen=chosen, framing=framing, origin="given")
    (figure,) = outline_of(board.model_copy(update={"steps": (given,)})).panels[0].figures
    assert (figure.alt, figure.caption) == ("A red roof", "Ours · Ana Lima · CC BY 4.0")
    assert figure.aspect == pytest.approx(200 / 150)


def test_a_picture_inside_a_document_is_drawn_like_a_file(pictures) -> None:
    data = Path(pictures["turned"].path).read_bytes()
    inside = PictureRef(target="picture-1.jpeg", data=data, sha256=hashlib.sha256(data).hexdigest())
    (panel,) = outline_of(board_of([PARAGRAPH, Block(kind="picture", pictures=(inside,))])).panels
    assert panel.plate[0].printed(100, 100).height_px == 300


def test_what_cannot_be_shown_is_named_once_and_nothing_takes_its_place(reference) -> None:
    for change, why in (
        ({"path": None, "problem": "is not there"}, "it is not there"),
        ({"path": None}, "is not on this machine"),
        ({"sha256": "0" * 64}, "may have changed"),
        ({"sha256": None}, "may have changed"),
        ({"data": b"no picture"}, "not a picture"),
    ):
        lost = reference("odd", caption="A lost caption").model_copy(update=change)
        block = Block(kind="picture", pictures=(lost,))
        outline = outline_of(board_of(block, [PARAGRAPH, block]))
        assert [(panel.figures, notation(panel.body)) for panel in outline.pieces] == [((), ["Words."])]
        (warning,) = outline.warnings
        assert "odd.jpg" in warning
        assert why in warning


def test_the_layout_suits_the_text() -> None:
    for parts, layout in (
        ([[Block(text="Once there was a fox.")]], "book"),
        ([[Block(text="word " * 80)]], "article"),
        ([Block(kind="heading", text="One", level=2), [PARAGRAPH]], "article"),
        ([[item("Saw.", 1)]], "recipe"),
        ([item("a saw", role="supplies"), [PARAGRAPH]], "recipe"),
    ):
        assert suited_to(board_of(*parts).story) == layout
