"""How many pictures a text gets, and at which steps."""

from itertools import combinations, pairwise

import numpy as np
import pytest
from boards import chosen_board, random_board
from hypothesis import given, settings
from hypothesis import strategies as st

from limner.match.illustrate import BoardOptions, step_texts
from limner.match.spread import picture_count, spread
from limner.text.read import read_text


@settings(max_examples=200)
@given(data=st.data(), steps=st.integers(1, 8), cost=st.sampled_from([0.0, 0.1, 0.6]))
def test_no_other_steps_are_worth_more(data, steps, cost):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    chances = np.where(rng.random(steps) < 0.8, rng.random(steps), -np.inf)
    fixed = set(data.draw(st.lists(st.integers(0, steps - 1), max_size=3)))
    may = fixed | set(np.flatnonzero(chances > -np.inf).tolist())
    count = data.draw(st.integers(1, steps + 1))

    def value(chosen):
        pairs = sum(after == before + 1 for before, after in pairwise(sorted(chosen)))
        return sum(chances[step] for step in chosen - fixed) - cost * pairs

    found = spread(chances, count, fixed, cost=cost)
    due = min(max(count, len(fixed)), len(may))
    assert fixed <= found <= may
    assert len(found) == due
    others = (set(chosen) for chosen in combinations(sorted(may), due) if fixed <= set(chosen))
    assert value(found) == pytest.approx(max(map(value, others)))


SENTENCE = "The old lighthouse keeper climbed the winding stairs every evening before the sun went down. "
PROSE = "\n\n".join([SENTENCE * 4] * 10)  # 10 paragraphs of 60 words


@pytest.mark.parametrize(
    ("text", "by", "pictures"),
    [
        (PROSE, None, 3),
        (f"# The keeper\n\n{PROSE}", None, 3),
        ((SENTENCE * 4 + "\n\n") * 2, None, 1),
        ("\n\n".join([SENTENCE] * 10), None, 10),  # as short as pages of picture books
        (f"{SENTENCE * 4}\n\n---\n\n{SENTENCE * 4}", None, 2),
        (f"1. {SENTENCE * 4}\n2. {SENTENCE * 4}", None, 2),
        (f"# One\n\n{SENTENCE * 4}\n\n# Two\n\n{SENTENCE * 4}", None, 2),
        (("Carefully mix the flour. " + SENTENCE * 4 + "\n\n") * 4, None, 4),
        ("\n\n".join(["  \n".join(["A verse of a poem is short"] * 8)] * 5), None, 5),
        (PROSE, "sentence", 40),
    ],
)
def test_prose_gets_a_picture_for_each_200_words_and_all_else_one_for_each_step(text, by, pictures):
    story = read_text(text, format="markdown", by=by).story
    assert picture_count(story, step_texts(story), None) == pictures
    assert picture_count(story, step_texts(story), "all") == len(story.steps)
    assert picture_count(story, step_texts(story), 7) == 7


def test_a_board_has_as_many_pictures_as_asked_and_the_other_steps_list_theirs():
    story, gallery, channels, records = random_board(np.random.default_rng(1), steps=9, pictures=60)

    def chosen(count, **options):
        asked = BoardOptions(show="always", count=count, **options)
        return chosen_board(story, gallery, channels, records, asked)

    every = chosen("all")
    assert not every.blanks()
    assert chosen(None).shown == chosen(20).shown == every.shown
    for count in (1, 4, 8):
        board = chosen(count)
        blank = [step for step in board.steps if step.chosen is None]
        assert board.blanks() == {"enough": 9 - count}
        assert all(step.runners_up and step.probability > 0 and "as many" in step.reason for step in blank)
    pinned = chosen(2, pins={0: gallery.ids[3], 1: gallery.ids[4], 2: gallery.ids[5], 5: None})
    assert [step.position for step in pinned.steps if step.chosen is not None] == [0, 1, 2]
    assert pinned.blanks() == {"asked for": 1, "enough": 5}


def test_pictures_of_spared_steps_are_free_for_the_others():
    """Both steps want the same picture, which the less probable one had."""
    for seed in range(20):
        story, gallery, channels, records = random_board(
            np.random.default_rng(seed), steps=4, pictures=5, groups=4
        )
        boards = [
            chosen_board(story, gallery, channels, records, BoardOptions(show="always", count=count))
            for count in ("all", 1)
        ]
        (step,) = (step for step in boards[1].steps if step.chosen is not None)
        assert all(step.chosen.strength >= one.strength for one in step.runners_up)
        assert step.chosen.probability >= boards[0].steps[step.position].chosen.probability - 1e-9


def test_the_summary_says_how_many_paragraphs_of_prose_have_a_picture():
    story, gallery, channels, records = random_board(np.random.default_rng(2), steps=4)
    board = chosen_board(story, gallery, channels, records, BoardOptions(show="always", count=1))
    assert "paragraph" not in str(board)
    assert str(board).endswith(
        "4 steps: 1 chosen, 3 left blank: other steps have the pictures that were wanted"
        + "; 1 weak match" * bool(board.weak)
    )
    default = board.model_copy(update={"settings": {**board.settings, "count": None}})
    assert "\n1 picture for 4 paragraphs (--pictures all for each)\n4 steps: " in str(default)
