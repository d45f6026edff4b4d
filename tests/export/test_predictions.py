"""Predictions in words: relations as sentences, attention in five strengths."""

import pytest

from limner.export.wording import SENTENCES, SPELLINGS, explain, holding, most_attended, sentence, strength
from limner.research.datasets.sets.cite import RELATIONS as CITE
from limner.research.datasets.sets.clue import RELATIONS as CLUE
from limner.research.worlds.book import RELATIONS as BOOK


def test_every_relation_of_the_data_sets_has_its_sentence():
    due = set(SENTENCES.values())
    for names in (CITE, CLUE, BOOK, [f"q{number}" for number in range(2, 9)]):
        found = [sentence(name) for name in names]
        assert set(found) <= due, names
        assert len(set(found)) == len(names)
    assert sentence("Temporal i>t") == sentence("q7") == "The picture shows the result of this step."
    # The three data sets agree, question by question.
    assert [sentence(name) for name in CITE] == [sentence(f"q{number}") for number in range(2, 9)]
    assert [sentence(name) for name in CITE + CLUE] == [sentence(name) for name in BOOK]
    assert set(SPELLINGS.values()) <= set(SENTENCES)


def test_an_unknown_relation_is_named():
    assert "relation Mood" in sentence("Mood")


def test_relations_that_hold_come_by_probability(board):
    step = board.steps[0].model_copy(
        update={"relations": {"visible": 0.5, "q7": 0.9, "action": 0.4999, "Mood": 0.66}}
    )
    found = holding(step)
    assert [(one.percent, one.sure) for one in found] == [(90, True), (66, False), (50, False)]
    assert found[0].sentence == "The picture shows the result of this step."
    line = next(line for line in explain(step).lines() if line.startswith("Predicted by the model"))
    assert line == (
        "Predicted by the model: The picture shows the result of this step (90 %)."
        " Holds: relation Mood (66 %). The text says what can be seen in the picture (50 %)."
    )
    assert not any("model" in line for line in explain(board.steps[0]).lines())


@pytest.mark.parametrize(
    ("share", "words", "due"),
    [(0.0, 4, 1), (0.124, 4, 1), (0.125, 4, 2), (0.25, 4, 3), (0.32, 4, 4), (0.5, 4, 5), (1.0, 1, 3)],
)
def test_strength_is_beside_an_even_share(share, words, due):
    assert strength(share, words) == due


def test_the_words_looked_at_most(board):
    shares = [("Once", 0.1), (".", 0.4), ("red", 0.3), ("roof", 0.15), ("red", 0.05)]
    step = board.steps[0].model_copy(update={"attention": tuple(shares)})
    assert most_attended(step) == ("red",)
    assert "Words with the most attention: red." in explain(step).lines()
    even = tuple((word, 0.2) for word, _ in shares)
    assert most_attended(step.model_copy(update={"attention": even})) == ()
