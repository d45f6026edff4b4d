"""Boards of photographs with an order: those of a folder named beside the text, and those of a library."""

import re

import numpy as np
import pytest
from boards import Shelf, chosen_board, picture_id, shown, story_of
from hypothesis import given
from hypothesis import strategies as st

import limner
from limner.errors import DataError
from limner.match.illustrate import BoardOptions
from limner.match.rows import named_row
from limner.progress import Progress
from limner.research.worlds import PictureBook
from limner.research.worlds.book_files import write
from limner.store.search import Index


def board_of(shelf, steps, options=None, *, title="", shared=False, searched=True, **more):
    """The board of so many steps, or of these; named are the folders of the options."""
    options, catalogue = options or BoardOptions(), shelf.folders()
    story = story_of(Shelf.WORDS[:steps] if isinstance(steps, int) else steps, title)
    if options.named:
        more["row"] = named_row(catalogue, options.named, story, options.order, shared=shared)
    more["folders"] = catalogue if searched and options.order != "any" else None
    return chosen_board(story, Index(shelf.gallery), [Shelf.channel], shelf, options, **more)


CAKE = BoardOptions(named=("/p/cake",))
ANY = CAKE.model_copy(update={"order": "any"})
OTHERS = {f"other{number}": [5, 6, 7, 8, 9, 9] for number in range(4)}


def letters(board):
    """The letter of each photograph, - for a blank."""
    return "".join("-" if name is None else name[-1] for name in shown(board))


@pytest.mark.parametrize(
    ("shows", "lead", "steps", "due"),
    [
        ([0, 1, 2, 3], 1.5, 4, "abcd"),
        ([0, 1, 2, 3], 0.2, 4, "abcd"),  # the words say little, and the order is enough
        ([3, 3, 3, 3], 0.5, 4, "abcd"),  # nor does it matter that they say the same of all
        ([3, 2, 1, 0], 4.0, 4, "dcba"),
        ([1, 0, 2, 3], 5.0, 4, "bacd"),  # words that are clear go before the order
        ([0, 0, 1, 2, 2, 3], 2.0, 4, "[ab]c[de]f"),
        ([3, 0, 1, 2, 2, 3], 2.0, 4, "bc[de][af]"),  # the finished thing first
        ([0, 1, None, 2, 3], 1.5, 4, "abde"),
        ([0, 2], 3.0, 4, "a-b-"),
        ([0], 1.5, 1, "a"),
        ([0, 0, 0], 1.5, 1, "[abc]"),
    ],
)
def test_photographs_of_a_named_folder_lie_along_the_steps(shows, lead, steps, due):
    board = board_of(Shelf({**OTHERS, "cake": shows}, lead=lead), steps, CAKE)
    assert re.fullmatch(due, letters(board))


@pytest.mark.parametrize(
    ("options", "given", "due"),
    [
        ({"bans": ("c",)}, {}, "ab-de"),
        ({"pins": {1: None}}, {}, "a-cde"),
        ({"pins": {0: "e"}}, {}, "eabcd"),
        ({"pins": {4: "a", 0: "e"}}, {}, "ebcda"),
        ({}, {0: "e"}, "eabcd"),  # the text's own picture
        ({"pins": {0: None}}, {0: "e"}, "-[ab]cde"),
        ({"pins": {2: "a"}}, {}, "bcade"),
        ({"pins": {2: "x"}}, {}, "abxde"),  # of another folder
        ({"count": 2}, {}, "(?=-*[a-e]-*[a-e]-*$)-*a?-*b?-*c?-*d?-*e?-*"),
    ],
)
def test_pins_bans_and_blanks_hold_among_named_photographs(options, given, due):
    shelf = Shelf({"other": [None] * 24, "cake": [0, 1, 2, 3, 4]}, lead=0.5)
    ids = {name: picture_id(f"cake-{name}") for name in "abcde"} | {"x": picture_id("other-x"), None: None}
    pins = {step: ids[one] for step, one in options.get("pins", {}).items()}
    wanted = {**options, "pins": pins, "bans": tuple(ids[one] for one in options.get("bans", ()))}
    board = board_of(shelf, 5, CAKE.model_copy(update=wanted), given={s: ids[n] for s, n in given.items()})
    assert re.fullmatch(due, letters(board))


def test_a_step_without_words_is_illustrated_only_by_the_order():
    shelf, texts = Shelf({**OTHERS, "cake": [0, 1, 2, 3]}), (Shelf.WORDS[0], "🎉", *Shelf.WORDS[2:4])
    assert letters(board_of(shelf, texts, CAKE)) == "abcd"
    assert letters(board_of(shelf, texts, ANY)) == "a-cd"


@pytest.mark.parametrize("shared", [False, True])
def test_pictures_in_any_order_or_of_several_texts_are_chosen_by_the_words(shared):
    shelf = Shelf({**OTHERS, "cake": [3, 2, 1, 0, None]}, lead=4.0)
    board = board_of(shelf, 4, CAKE if shared else ANY, shared=shared)
    assert letters(board) == "dcba"
    assert board.row.order == "any"
    assert [(one.place, one.step) for one in board.row.photographs] == [(None, n) for n in (3, 2, 1, 0, None)]
    assert board.row.summary([]) == "4 of 5 photographs of cake at 4 steps"


@pytest.mark.parametrize("title", ["Lemon cake", "lemon CAKE!", ""])
def test_a_folder_that_is_called_like_the_text_is_its_row(title):
    shelf = Shelf({"all/lemon_cake": [0, 1, 2, 3], "all/soup": [0, 1, 2, 3]}, lead=0.5)
    board = board_of(shelf, 4, BoardOptions(named=("/p/all/",)), title=title, shared=True)
    assert board.row.name == ("lemon_cake" if title else "all")
    assert not title or shown(board) == [f"lemon_cake-{letter}" for letter in "abcd"]


def test_what_is_named_must_be_in_the_library():
    shelf = Shelf({"cake": [0, 1]})
    with pytest.raises(DataError, match=r"/p/pie, /p/soup: no picture .* index it first"):
        board_of(shelf, 2, BoardOptions(named=("/p/pie", "/p/soup")))
    board = board_of(shelf, 2, BoardOptions(named=("/p/pie", "/p/cake/cake-b.jpg", "/p/cake/cake-a.jpg")))
    assert (letters(board), board.row.name) == ("ab", "pie and 2 more")


def test_moments_that_look_alike_are_both_shown_and_shots_of_one_moment_are_not():
    alike = {"alike": ("cake-b", "cake-c")}
    minutes = Shelf({**OTHERS, "cake": [0, 1, 2, 3]}, **alike)
    burst = Shelf({**OTHERS, "cake": [0, 1, 1, 3]}, seconds=1, **alike)
    assert letters(board_of(minutes, 4, CAKE)) == "abcd"
    assert "-" in letters(board_of(minutes, 4, ANY))
    board = board_of(burst, 4, CAKE)
    assert letters(board) == "ab-d"
    assert [one.place for one in board.row.photographs] == [0, 1, 1, 2]
    for other in ({"bans": (picture_id("cake-b"),)}, {"pins": {1: picture_id("cake-c")}}):
        assert letters(board_of(burst, 4, CAKE.model_copy(update=other))) == "ac-d"


def test_reasons_and_the_summary_tell_the_places_of_the_row():
    shelf = Shelf({**OTHERS, "cake": [0, 1, None, 2, 3]})
    board = board_of(shelf, 4, CAKE)
    assert board.steps[2].reason == "The fourth of 5 photographs in cake, which follow your steps."
    assert (board.row.named, board.row.name, board.row.order) == (("/p/cake",), "cake", "taken")
    assert [(one.place, one.step) for one in board.row.photographs] == list(enumerate((0, 1, None, 2, 3)))
    assert board.row.summary(list(shelf.pictures.values())) == (
        "4 photographs of cake lie along 4 steps in the order taken (--order any if they have none);"
        " 1 belongs to no step: cake-c.jpg"
    )


def test_a_folder_of_the_library_that_follows_the_steps_is_found():
    """Other photographs fit each step as well or better, none of their folders all steps in their order."""
    rng = np.random.default_rng(1)
    orders = [[step if rng.random() < 0.5 else 6 for step in rng.permutation(6).tolist()] for _ in range(8)]
    shelf = Shelf({**{f"other{n}": own for n, own in enumerate(orders)}, "cake": list(range(6))}, lead=1.0)
    board, alone = (board_of(shelf, 6, searched=searched) for searched in (True, False))
    assert shown(board) == [f"cake-{letter}" for letter in "abcdef"] != shown(alone)
    assert board.steps[1].reason.startswith("The second of 6 photographs in cake, which follow your steps")
    assert board.row is None
    # one that is called like the text is likelier
    twice = Shelf({"soup": [0, 1, 2, 3], "cake": [0, 1, 2, 3], **OTHERS}, lead=0.5)
    assert [shown(board_of(twice, 4, title=title))[0] for title in ("", "A cake")] == ["soup-a", "cake-a"]


@given(
    st.lists(st.none() | st.integers(0, 3), min_size=1, max_size=7),
    st.integers(1, 5),
    st.booleans(),
    st.data(),
)
def test_what_every_board_of_a_row_holds(shows, steps, named, data):
    shelf = Shelf({"other": [None, 1, 2], "cake": shows}, lead=data.draw(st.sampled_from([0.0, 1.0, 5.0])))
    ids = list(shelf.gallery.ids)
    bans = tuple(data.draw(st.lists(st.sampled_from(ids), unique=True, max_size=3)))
    free = st.sampled_from(sorted({*ids} - {*bans}))
    pins = data.draw(st.dictionaries(st.integers(0, steps - 1), st.none() | free, max_size=2))
    options = BoardOptions(pins=pins, bans=bans, named=("/p/cake",) if named else ())
    board = board_of(shelf, steps, options)
    for step in board.steps:
        assert step.probability is None or 0 <= step.probability <= 1
        if step.position in pins:
            assert board.shown[step.position] == pins[step.position]
        elif step.chosen is not None:
            assert step.probability >= board.threshold
            assert step.picture.id not in bans
            assert not named or "/cake/" in step.picture.path
    free_shown = [one for step, one in board.shown.items() if one is not None and step not in pins]
    assert len(set(free_shown)) == len(free_shown)
    assert not set(free_shown) & set(pins.values())


def test_steps_to_which_none_of_the_named_belongs_are_filled_from_the_library(tmp_path):
    for number in range(2):
        write(tmp_path / str(number), PictureBook(5 + number).stories(1, pages=(6, 6)), size_px=64)
    library = limner.Library(tmp_path / "library")
    library.add(tmp_path, encoders="colour", progress=Progress())
    named = sorted(path for path in (tmp_path / "0").rglob("*") if path.suffix in (".png", ".jpg"))[:2]
    text = ["A fox.", "A boat.", "Snow.", "A kite."]
    asked = {"pictures": named, "show": "always"}
    few, filled = (library.illustrate(text, fill=fill, **asked) for fill in (False, True))
    assert [step.picture is not None for step in few.steps].count(True) == 2
    assert few.row.photographs == filled.row.photographs
    for one, other in zip(few.steps, filled.steps, strict=True):
        assert other.picture is not None
        assert (other == one) if one.picture else other.picture.path not in map(str, named)
