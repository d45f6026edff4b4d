"""The entity grid by hand, and the rule that finds roles; each apart from the other."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limner.research.datasets.entity_grid import (
    TRANSITIONS,
    coherence_vector,
    entity_grid,
    roles_of,
    transition_shares,
)


def shares(*sentences):
    found = transition_shares(entity_grid(sentences))
    return {name: float(found[place]) for name, place in TRANSITIONS.items() if found[place]}


def test_a_story_of_five_sentences_and_one_entity():
    story = ({"cat": "S"}, {"cat": "S"}, {}, {"cat": "O"}, {"cat": "X"})
    assert entity_grid(story) == {"cat": "SS-OX"}
    assert shares(*story) == pytest.approx({"SS-": 1 / 3, "S-O": 1 / 3, "-OX": 1 / 3})
    assert not transition_shares(entity_grid(story[:2])).any()
    assert not transition_shares(entity_grid(({}, {}, {}))).any()
    assert shares(*story[:3]) == {"SS-": 1.0}


def test_entities_count_together():
    assert shares({"cat": "S"}, {"dog": "O"}, {"cat": "X"}, {"cat": "X"}) == {
        "S-X": 0.25,
        "-XX": 0.25,
        "-O-": 0.25,
        "O--": 0.25,
    }


def test_transitions_are_in_order():
    names = list(TRANSITIONS)
    assert names == sorted(names)
    assert (names[0], names[1], names[63], len(names)) == ("---", "--O", "XXX", 64)


@given(st.lists(st.dictionaries(st.sampled_from("abc"), st.sampled_from("SOX")), max_size=8))
@settings(max_examples=60, deadline=None)
def test_shares_are_those_of_a_loop(story):
    due = np.zeros(64)
    for entity in {name for sentence in story for name in sentence}:
        for start in range(len(story) - 2):
            due[TRANSITIONS["".join(story[start + k].get(entity, "-") for k in range(3))]] += 1
    due /= max(due.sum(), 1)
    np.testing.assert_allclose(transition_shares(entity_grid(story)), due, atol=1e-6)


@pytest.mark.parametrize(
    ("sentence", "roles"),
    [
        ("The little dog chased a red ball in the park.", {"dog": "S", "ball": "O", "park": "X"}),
        ("In the garden the cat slept.", {"garden": "X"}),
        ("She gave the old man an apple.", {"man": "O", "apple": "O"}),
        ("Kofi's mother sings, and the birds listen.", {"mother": "S", "birds": "S"}),
        ("The dog chased the cat, and the cat chased the dog.", {"dog": "S", "cat": "S"}),
        ("The apple was eaten by the boy.", {"apple": "S", "boy": "X"}),
        ("What a day!", {"day": "X"}),
        ("", {}),
        ("...", {}),
    ],
)
def test_roles_by_the_rule(sentence, roles):
    assert roles.items() <= roles_of(sentence).items()
    assert set(roles_of(sentence)) <= set(roles) | {"cat", "kofi", "what"}


def test_a_story_becomes_a_vector():
    steps = [
        "The dog saw a cat.",
        "The dog ran.",
        "Rain fell. The man called the dog. He gave food to the dog.",
    ]
    found = coherence_vector(steps)
    assert found.dtype == np.float32
    assert found.sum() == pytest.approx(1)
    rows = entity_grid([roles_of(s) for s in (steps[0], steps[1], "Rain fell.", "The man called the dog.")])
    assert rows["dog"] == "SS-O"
    assert found[TRANSITIONS["SS-"]] > 0
    assert found[TRANSITIONS["-OX"]] > 0
    assert not coherence_vector(steps[:2]).any()
    assert not coherence_vector([]).any()
    np.testing.assert_array_equal(found, coherence_vector(list(steps)))


@given(st.lists(st.text(max_size=40), max_size=5))
@settings(max_examples=60, deadline=None)
def test_any_text_is_read(steps):
    found = coherence_vector(steps)
    assert found.shape == (64,)
    assert float(found.sum()) == pytest.approx(1) or not found.any()
