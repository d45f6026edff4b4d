"""Days and places of a text find the pictures that were taken then and there."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from limner.cli.main import run
from limner.match.illustrate import BoardOptions
from limner.match.illustrator import Illustrator
from limner.match.when_where import PLACE, TIME, WhenWhere
from limner.pictures.places import places
from limner.records import Step, Story
from limner.research.worlds import PictureBook
from limner.research.worlds.book_files import write
from limner.store import Taken
from limner.store.database import Database
from limner.text.dates import said_in

SIENA, FLORENCE, BERLIN = (43.3188, 11.3308), (43.7696, 11.2558), (52.52, 13.405)


def compared(steps, days, where=(), among=None, title=""):
    """What steps say about pictures a, b, … of some days and coordinates."""
    story = Story(id="x", title=title, steps=[Step(text=one) for one in steps])
    near = places().near([one for one in where if one]) if any(where) else []
    rows = [row for row, one in enumerate(where) if one]
    taken = Taken(
        {name: row for row, name in enumerate("abcdefgh"[: len(days)])},
        np.array(days),
        np.repeat(np.array(rows, dtype=np.int64), [len(one) for one in near]),
        np.array([number for one in near for number in one], dtype=np.int64),
    )
    return WhenWhere(said_in(story, ["en"] * len(steps)), taken, among)


def test_a_day_counts_by_its_share_of_the_dated_pictures():
    found = compared(["On 14 May we left."], [20240514, 20240515, 20230515, 20230517, 0]).ratios("abcde")
    assert found[0] == pytest.approx([TIME * 4 + 1 - TIME, 0.1, 0.1, 0.1, 1.0])


def test_a_place_counts_by_its_share_of_the_located_pictures_and_the_finest_alone():
    where = [SIENA, FLORENCE, BERLIN, None]
    for text, due in (
        ("We went to Siena in Italy.", [1, 0, 0]),
        ("We went to Firenze and Siena.", [1, 1, 0]),
        ("We went to Tuscany.", [1, 1, 0]),
        ("We stayed in Germany.", [0, 0, 1]),
    ):
        found = compared([text], [0] * 4, where).ratios("abcd")[0]
        assert found == pytest.approx([*(PLACE * 3 / sum(due) * np.array(due) + 1 - PLACE), 1.0])


@given(st.lists(st.sampled_from([20240513, 20240514, 20230514]), min_size=1, max_size=8))
def test_over_the_pictures_searched_a_statement_has_a_mean_of_one(days):
    found = compared(["On 14 May we left."], days).ratios("abcdefgh"[: len(days)])
    assert found.mean() == pytest.approx(1.0)


@pytest.mark.parametrize(
    "text", ["On 14 May 1898 she died.", "We met Paris Hilton.", "In Rome we ate.", "May I?"]
)
def test_what_is_true_of_no_picture_says_nothing(text):
    assert not compared([text], [20240514, 20240515], [SIENA, BERLIN])


def test_a_day_of_the_text_is_one_of_as_many_days():
    steps, days = ["Day 1: left.", "Day 2: there."], [20240514, 20240514, 20240516]
    assert compared(steps, days).ratios("abc")[1] == pytest.approx([0.1, 0.1, 2.8])
    assert not compared(steps, [*days, 20240517])
    assert compared(steps, [*days, 20240517], among="abc")


def test_a_weekday_is_of_the_month_that_the_heading_names():
    days = [20240514, 20240604, 20240515]  # a Tuesday of May, one of June, a Wednesday
    alone = compared(["On Tuesday we left."], days).ratios("abc")[0]
    with_title = compared(["On Tuesday we left."], days, title="May 2024").ratios("abc")[0]
    assert ((alone > 1).tolist(), (with_title > 1).tolist()) == ([True, True, False], [True, False, False])


def test_between_rows_all_that_is_said_of_the_time_counts_once():
    steps, days = ["On 14 May we left.", "On 15 May we came."], [20240514, 20240515, 20240701, 20240702]
    found = compared(steps, days)
    assert found.ratios("abcd", once=True) == pytest.approx(np.sqrt(found.ratios("abcd")))


def test_within_a_row_only_its_own_pictures_count():
    found = compared(["On 14 May we left."], [20240514, 20240515, 20240701, 20240702])
    assert found.within("ab")[0] == pytest.approx([1.9, 0.1])
    assert found.within("cd")[0] == pytest.approx([1.0, 1.0])


def test_a_row_of_the_days_and_places_named_is_more_probably_the_texts():
    assert compared(["On 14 May we left."], [20240514]).odds == pytest.approx(9)
    both = compared(
        ["On 14 May we went to Siena.", "On 15 May we came."], [20240514, 20240515], [SIENA, None]
    )
    assert both.odds == pytest.approx(9 * 4)


def test_reasons_name_the_day_and_place_of_the_picture():
    where = [SIENA, FLORENCE]
    found = compared(["On 14 May we went to Siena or Firenze."], [20240514, 20240514], where)
    assert found.reason(0, "b") == "taken on 14 May in Florence, as the step says"
    found = compared(["We came."], [20240514, 20240601], title="May 2024")
    assert found.reason(0, "a") == "taken on 14 May 2024, as the text says"
    assert found.reason(0, "b") == ""


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    """Drawings, each on a day of its own in May 2024, by turns in Siena and Berlin."""
    folder = tmp_path_factory.mktemp("dated")
    write(folder / "drawn", PictureBook(5).stories(1, pages=(8, 8)), size_px=64, captions="sidecar")
    drawn = sorted(path for path in (folder / "drawn").rglob("*.*") if path.suffix in (".png", ".jpg"))
    for number, path in enumerate(drawn):
        latitude, longitude = (SIENA, BERLIN)[number % 2]
        stated = {
            "photoTakenTime": {"timestamp": str(1715083200 + 86400 * number)},  # 7 May, noon
            "geoData": {"latitude": latitude, "longitude": longitude},
            "description": f"drawing number {number}",
        }
        path.with_name(f"{path.name}.json").write_text(json.dumps(stated))
    library = folder / "lib"
    assert run(["index", str(folder / "drawn"), "--library", str(library), "--encoder", "colour"]) == 0
    illustrator = Illustrator(Database(library, make=False))
    by_day = {
        one.taken.day: one.id for one in illustrator.library.pictures(illustrator.library.taken().numbers)
    }
    assert len(by_day) == len(drawn)
    return illustrator, by_day


def told(*steps):
    return Story(id="x", steps=[Step(text=one) for one in steps], language="en")


def test_a_board_shows_pictures_of_the_days_and_places_named(opened):
    illustrator, by_day = opened
    board = illustrator.board(told("On 9 May we rested.", "On 8 May we walked.", "On 12 May, all was over."))
    assert [step.picture and step.picture.id for step in board.steps] == [by_day[day] for day in (9, 8, 12)]
    assert all(
        f"aken on {day} May, as the step says" in step.reason
        for day, step in zip((9, 8, 12), board.steps, strict=True)
    )
    (step,) = illustrator.board(told("In Siena we rested.")).steps
    assert step.picture.id in [by_day[day] for day in by_day if day % 2]


def test_a_text_that_says_nothing_of_when_and_where_has_the_same_board(opened, monkeypatch):
    illustrator, _ = opened
    story = told("A fox looks out.", "May I have a cake?", "On 14 May 1898 snow fell in Paris.")
    board = illustrator.board(story)
    monkeypatch.setattr(Illustrator, "_stated", lambda *_: None)
    other = Illustrator(illustrator.library)
    assert other.board(story) == board


def test_one_step_is_explained_as_on_the_board(opened):
    illustrator, by_day = opened
    story = told("We rested.", "On 8 May we walked.")
    options = BoardOptions(runners_up=3)
    step = illustrator.explained(story, options, {0: None, 1: by_day[8]}, 1, pinned=False)
    assert "aken on 8 May, as the step says" in step.reason


def test_a_search_weighs_a_day_and_a_place(opened):
    illustrator, by_day = opened
    siena = {by_day[day] for day in by_day if day % 2}
    assert illustrator.search("we walk on 8 May 2024", 3)[0].picture.id == by_day[8]
    for query in ("siena", "Siena", "a day in Siena"):
        found = [one.picture.id for one in illustrator.search(query, len(by_day))]
        assert set(found[: len(siena)]) == siena
        assert len(found) == len(by_day)  # nothing is left out
