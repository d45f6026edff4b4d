"""How many pictures a text gets, and at which steps."""

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limner.match.illustrate import step_texts
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
