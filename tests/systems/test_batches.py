"""Batches of pairs without labels: what they hold, in which order, and what is wrong beside what."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from corpora import corpus

from limner.config import build
from limner.datasets.vocabulary import Vocabulary
from limner.training.batches import Batches
from limner.training.settings import RunConfig


def batches(rows, **data):
    settings = build(RunConfig, {"system": "made", "data": {"set": "pairs", "batch": 6, **data}}, "test")
    vocabulary = Vocabulary.build(rows.train.texts, "default", 1)
    return Batches(rows, vocabulary, settings, torch.device("cpu")), vocabulary


def test_a_batch_holds_what_its_pairs_say():
    rows = corpus(n=20)
    drawn, vocabulary = batches(rows)
    assert drawn.steps_per_epoch == 3
    seen = []
    for chosen, rng in drawn.order(2):
        batch = drawn.batch(chosen, rng)
        seen += chosen.tolist()
        assert batch.rows.tolist() == chosen.tolist()
        for place, row in enumerate(chosen):
            pair = rows.train.pairs[row]
            assert batch.ids[place] == pair.id
            assert batch.words[place, : batch.lengths[place]].tolist() == vocabulary.numbers(pair.text)
            own = rows.pictures.take(rows.train.places[[row]])[0]
            np.testing.assert_array_equal(batch.pictures[place], own)
    assert len(set(seen)) == 18
    again = [chosen.tolist() for chosen, _ in batches(rows)[0].order(2)]
    assert again == [chosen.tolist() for chosen, _ in drawn.order(2)]
    assert again != [chosen.tolist() for chosen, _ in drawn.order(3)]


@pytest.mark.parametrize("mask", [True, False])
def test_copies_are_no_wrong_candidates(mask):
    rows = corpus(n=4, copies=3)
    drawn, _ = batches(rows, batch=12, mask_duplicates=mask)
    (chosen, rng), *_ = drawn.order(0)
    batch = drawn.batch(chosen, rng)
    number = [name.split("-")[1] for name in batch.ids]
    for i in range(12):
        for j in range(12):
            assert bool(batch.neg[i, j]) is (number[i] != number[j] if mask else i != j)
    usable = drawn.usable(batch.rows)
    for i, row in enumerate(chosen):
        for other, pair in enumerate(rows.train.pairs):
            assert bool(usable[i, other]) is (rows.train.pairs[row].text != pair.text)


def test_what_is_near_is_not_wrong_either():
    rows = corpus(n=12)
    drawn, _ = batches(rows, batch=8)
    (chosen, rng), *_ = drawn.order(0)
    near = drawn.batch(np.roll(chosen, 1), rng)
    batch = replace(drawn.batch(chosen, rng), near=near)
    wrong = drawn.wrong_beside(batch)
    for i in range(8):
        for j in range(8):
            assert bool(wrong[i, j]) is (j not in (i, (i - 1) % 8))
    alone = drawn.batch(chosen, rng)
    assert torch.equal(drawn.wrong_beside(alone), alone.neg)
