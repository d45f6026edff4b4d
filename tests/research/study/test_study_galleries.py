"""The page of a study's votes: every item is in the group of its raters, and says whose pictures it shows."""

import re

import pytest
from made_up_studies import vote

from limner.errors import ConfigError, DataError
from limner.research.study.records import read_study
from limner.research.study.report import write_preferred


def page_of(folder, votes, tmp_path, count=9):
    write_preferred(folder, read_study(folder), votes, tmp_path / "page.html", count)
    return (tmp_path / "page.html").read_text()


def groups(page):
    """Title → number of items, and titles of all items that are shown, group after group."""
    return dict(re.findall(r"<h2>(.*?): (\d+) of \d+ items</h2>", page)), re.findall(r"<h3>(.*?)</h3>", page)


def test_steps_are_grouped_by_what_more_than_half_of_the_raters_ticked(tick_all_study, tmp_path):
    folder = tick_all_study(tmp_path / "study", 2)
    ticks = {
        "s0-0": [("q",), ("p", "q")],  # context alone
        "s0-1": [("p", "r"), ("r",)],  # plain alone
        "s0-2": [("p",), ("p",)],  # neither
        "s1-0": [("q", "r"), ("q", "r")],  # both
        "s1-1": [("q",), ("r",)],  # raters differ: not more than half tick either
        "s1-2": [("q",), ("q",)],
    }
    votes = [vote(item, f"r{n}", answer) for item, some in ticks.items() for n, answer in enumerate(some)]
    page = page_of(folder, votes, tmp_path)
    numbers, shown = groups(page)
    assert list(numbers.items()) == [
        ("Base-secret-system is preferred", "2"),
        ("gold-secret-system is preferred", "1"),
        ("Neither is preferred", "2"),
    ]
    steps = ["Step 0 of 0", "Step 2 of 1", "Step 1 of 0", "Step 2 of 0", "Step 1 of 1"]
    assert [title.partition(":")[0] for title in shown] == steps
    assert "because both pictures fit or raters disagree: 1 item." in page
    first = page.partition("<h3>Step 0 of 0")[2].partition("<h3>")[0]
    ticked = re.findall(r"ticked by (\d) of 2 raters", first)
    assert ticked == ["1", "2", "0"]
    assert page.count("<img") == 3 * 5
    _, few = groups(page_of(folder, votes, tmp_path, count=1))
    assert len(few) == 3


def test_pairs_are_grouped_by_the_answer_of_the_majority(pairwise_study, tmp_path):
    folder = pairwise_study(tmp_path / "study", 3)
    answers = {"i000": ["first"] * 3, "i001": ["second", "second", "neither"], "i002": ["neither"] * 3}
    votes = [vote(item, f"r{n}", answer) for item, some in answers.items() for n, answer in enumerate(some)]
    numbers, _ = groups(page_of(folder, votes, tmp_path))
    assert list(numbers.values()) == ["1", "1", "1"]
    assert list(numbers)[:2] == ["CMCM-secret-system is preferred", "Base-secret-system is preferred"]


def test_a_study_without_votes_and_other_files_are_refused(tick_all_study, tmp_path):
    folder = tick_all_study(tmp_path / "study", 1)
    with pytest.raises(DataError, match="no item has enough votes"):
        page_of(folder, [], tmp_path)
    with pytest.raises(ConfigError, match=r"name an \.html file"):
        write_preferred(folder, read_study(folder), [], tmp_path / "page.png", 1)
