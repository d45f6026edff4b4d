"""The assignment of steps to groups of near-duplicates, and the steps that get a picture."""

from itertools import combinations, pairwise, product

import numpy as np
import pytest
from boards import chosen_board, random_board
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from limner.errors import NumericsError
from limner.match.board import BLANK, assign
from limner.match.illustrate import BoardOptions, step_texts
from limner.match.spread import picture_count, spread
from limner.text.read import read_text

SEEDS = st.integers(0, 2**32 - 1)


@pytest.mark.slow
@settings(max_examples=150)
@given(SEEDS, st.integers(1, 4), st.integers(1, 4), st.integers(1, 6), st.booleans(), st.data())
def test_no_board_is_better(seed, steps, columns, kinds, repeats, data):  # noqa: PLR0917
    """Compared with all boards: as many pictures as can be, and of those the largest worth."""
    rng = np.random.default_rng(seed)
    groups = rng.integers(kinds, size=(steps, columns))
    worth = np.where(rng.random((steps, columns)) < 0.8, rng.random((steps, columns)).round(1), -np.inf)
    choices = st.one_of(st.none(), st.integers(BLANK, columns - 1))
    fixed = data.draw(st.dictionaries(st.integers(0, steps - 1), choices, max_size=2))
    due = {step: BLANK if column is None else column for step, column in fixed.items()}
    taken = [groups[cell] for cell in due.items() if cell[1] != BLANK]

    def value(choice):
        cells = [cell for cell in enumerate(choice) if cell[0] not in due and cell[1] != BLANK]
        own = [*taken, *(groups[cell] for cell in cells)]
        valid = repeats or len({*own}) - len({*taken}) == len(cells)
        return (len(cells), sum(worth[cell] for cell in cells)) if valid else (-1, 0.0)

    found = assign(worth, groups, fixed, allow_repeats=repeats).tolist()
    assert {step: found[step] for step in due} == due
    frees = ([due[step]] if step in due else range(-1, columns) for step in range(steps))
    boards = [value(choice) for choice in product(*frees)]
    best = max(one for one in boards if one[1] > -np.inf)
    assert value(found) == (best[0], pytest.approx(best[1]))


@settings(max_examples=20)
@given(SEEDS, st.integers(1, 300), st.integers(0, 20))
def test_the_sum_is_that_of_scipy(seed, steps, more):
    """Steps each with their own half of the pictures, of which all want the same."""
    rng = np.random.default_rng(seed)
    pictures = steps + more
    groups = np.argsort(rng.random((steps, pictures)), axis=1)[:, : max(1, pictures // 2)]
    worth = rng.random(groups.shape) + rng.random(pictures)[groups]
    full = np.zeros((steps, pictures))
    np.put_along_axis(full, groups, 1000 + worth, axis=1)  # a picture more is worth more than any other
    found = assign(worth, groups)
    shown = np.flatnonzero(found != BLANK)
    value = (1000 + worth[shown, found[shown]]).sum()
    assert value == pytest.approx(full[linear_sum_assignment(full, maximize=True)].sum())


def test_what_cannot_be_assigned():
    for wrong in (np.nan, -0.5, np.inf):
        with pytest.raises(NumericsError, match="board"):
            assign(np.array([[0.1, wrong]]), np.array([[0, 1]]))
    for worth in (np.zeros((2, 0)), np.zeros((0, 3)), np.full((2, 2), -np.inf)):
        assert assign(worth, np.zeros(worth.shape, np.int64)).tolist() == [BLANK] * len(worth)


@settings(max_examples=200)
@given(SEEDS, st.integers(1, 8), st.sampled_from([0.0, 0.1, 0.6]), st.data())
def test_no_other_steps_are_worth_a_picture_more(seed, steps, cost, data):
    rng = np.random.default_rng(seed)
    chances = np.where(rng.random(steps) < 0.8, rng.random(steps), -np.inf)
    fixed = set(data.draw(st.lists(st.integers(0, steps - 1), max_size=3)))
    may = fixed | set(np.flatnonzero(chances > -np.inf).tolist())
    count = data.draw(st.integers(1, steps + 1))

    def value(chosen):
        pairs = sum(after == before + 1 for before, after in pairwise(sorted(chosen)))
        return sum(chances[step] for step in chosen - fixed) - cost * pairs

    found = spread(chances, count, fixed, cost=cost)
    due = min(max(count, len(fixed)), len(may))
    assert (fixed <= found <= may, len(found)) == (True, due)
    others = (set(chosen) for chosen in combinations(sorted(may), due) if fixed <= set(chosen))
    assert value(found) == pytest.approx(max(map(value, others)))


SENTENCE = "The old lighthouse keeper climbed the winding stairs every evening before the sun went down. "
LONG = SENTENCE * 4
PROSE = "\n\n".join([LONG] * 10)  # 10 paragraphs of 60 words


COUNTS = {
    f"# The keeper\n\n{PROSE}": 3,
    (LONG + "\n\n") * 2: 1,
    "\n\n".join([SENTENCE] * 10): 10,  # as short as pages of picture books
    f"{LONG}\n\n---\n\n{LONG}": 2,
    f"1. {LONG}\n2. {LONG}": 2,
    f"# One\n\n{LONG}\n\n# Two\n\n{LONG}": 2,
    ("Carefully mix the flour. " + LONG + "\n\n") * 4: 4,
    "\n\n".join(["  \n".join(["A verse of a poem is short"] * 8)] * 5): 5,
}


@pytest.mark.parametrize("text", [*COUNTS, PROSE])
def test_prose_gets_a_picture_for_each_200_words_and_all_else_one_for_each_step(text):
    story = read_text(text, format="markdown", by=None if text in COUNTS else "sentence").story
    counts = [picture_count(story, step_texts(story), count) for count in (None, "all", 7)]
    assert counts == [COUNTS.get(text, 40), len(story.steps), 7]


def test_a_board_has_as_many_pictures_as_asked_and_the_other_steps_list_theirs():
    board = random_board(np.random.default_rng(1), steps=9, pictures=60)
    every = chosen_board(*board, BoardOptions(show="always"))
    for count in (1, 4, 8, 20, "all"):
        few = chosen_board(*board, BoardOptions(show="always", count=count))
        assert few.blanks() == ({"enough": 9 - count} if count in (1, 4, 8) else {})
        assert all(step.runners_up and step.probability > 0 for step in few.steps if step.chosen is None)
        assert few.blanks() or few.shown == every.shown
    pins = dict(enumerate(board[1].ids[:3])) | {5: None}
    pinned = chosen_board(*board, BoardOptions(show="always", count=2, pins=pins))
    assert [step.position for step in pinned.steps if step.chosen is not None] == [0, 1, 2]
    assert pinned.blanks() == {"asked for": 1, "enough": 5}


def test_pictures_of_spared_steps_are_free_for_the_others():
    """Both steps want the same picture, which the less probable one had."""
    for seed in range(20):
        board = random_board(np.random.default_rng(seed), steps=4, pictures=5, groups=4)
        one = chosen_board(*board, BoardOptions(show="always", count=1))
        (step,) = (step for step in one.steps if step.chosen is not None)
        assert all(step.chosen.strength >= other.strength for other in step.runners_up)
