"""The validation loss, which a run may select by."""

import numpy as np
import pytest
import torch
from made_up_scores import tabled

from limner.research.evaluation.ranking import rank
from limner.research.runs.train import HINGE, maximise, mean_hinge, shared_ranking, validation
from limner.research.systems.base import Capabilities


def loop_oracle(scores, columns, margin):
    """Every wrong pair on its own."""
    costs = []
    for row, own in enumerate(columns):
        for column in range(scores.shape[1]):
            if column == own:
                continue
            of_picture = max(scores[r, column] for r in range(len(scores)) if columns[r] == column)
            costs.append(max(0.0, margin + scores[row, column] - scores[row, own]))
            costs.append(max(0.0, margin + scores[row, column] - of_picture))
    return np.mean(costs)


@pytest.mark.parametrize(("texts", "pictures"), [(6, 6), (9, 4), (1300, 3)])
def test_the_hinge_is_the_mean_over_all_wrong_pairs(texts, pictures):
    rng = np.random.default_rng(texts)
    scores = rng.standard_normal((texts, pictures)).astype(np.float32)
    columns = np.concatenate([np.arange(pictures), rng.integers(pictures, size=texts - pictures)])
    if texts < 100:
        assert mean_hinge(tabled(scores), pictures, columns, 0.3) == pytest.approx(
            loop_oracle(scores, columns, 0.3), rel=1e-5
        )
    else:  # several blocks equal one
        costs = np.maximum(0, 0.3 + scores - scores[np.arange(texts), columns][:, None])
        wrong = columns[:, None] != np.arange(pictures)
        best = np.array([scores[columns == c, c].max() for c in range(pictures)])
        both = costs[wrong].mean() + np.maximum(0, 0.3 + scores - best)[wrong].mean()
        assert mean_hinge(tabled(scores), pictures, columns, 0.3) == pytest.approx(both / 2, rel=1e-5)


def test_by_hand():
    scores = np.array([[0.5, 0.45], [0.0, 1.0]], np.float32)
    # text 0: 0.1 + 0.45 − 0.5 = 0.05; text 1: 0; picture 0: 0; picture 1: 0
    assert mean_hinge(tabled(scores), 2, np.array([0, 1]), 0.1) == pytest.approx(0.05 / 4, rel=1e-5)
    assert mean_hinge(tabled(np.ones((3, 1), np.float32)), 1, np.zeros(3, np.int64), 0.1) == 0


def test_a_lower_loss_is_better():
    assert maximise(HINGE) is False


def test_it_is_measured_where_it_is_asked_for():
    from limner.research.datasets.pairs import Pair, PairSet
    from limner.research.training.corpus import ArrayRows, corpus_of

    class Made:
        device = torch.device("cpu")

        def encode_text(self, texts):
            return np.eye(4, dtype=np.float32)[: len(texts)]

        def encode_image(self, pictures):
            return np.asarray(pictures)

        def scorer(self, texts, images):
            return tabled(texts @ images.T)

    pairs = tuple(
        Pair(id=f"{split}{i}", text=f"{split} {i}", image=f"{split}{i}", split=split, group=f"{split}{i}")
        for split in ("train", "val")
        for i in range(4)
    )
    pictures = ArrayRows([pair.image_id for pair in pairs], np.tile(np.eye(4, dtype=np.float32), (2, 1)))
    corpus = corpus_of(PairSet("made", (), pairs), pictures)
    assert validation(corpus, Capabilities(margin=1.5), HINGE)(Made())[HINGE] == pytest.approx(0.5)
    assert HINGE not in validation(corpus, Capabilities())(Made())


def test_a_ranking_in_blocks_is_that_of_all_scores(monkeypatch):
    monkeypatch.setattr("limner.research.runs.train._BLOCK", 5)
    monkeypatch.setattr("limner.research.evaluation.ranking.BLOCK_CELLS", 14)  # two rows of them
    scores = np.random.default_rng(0).integers(4, size=(13, 7)).astype(np.float32)
    right = [[row % 7] for row in range(13)]
    found = shared_ranking(tabled(scores), scores.shape, right, torch.device("cpu"))
    np.testing.assert_array_equal(found.ranks(), rank(scores, right).ranks())
