"""Figures of pair weights: what they show is what was given, and they are written as every figure is."""

import numpy as np
import pytest
from scipy.stats import spearmanr

from limner.errors import DataError, NumericsError
from limner.research.paper.plots import (
    Gain,
    agreement,
    gain_against_deviation,
    score_histograms,
    spearman,
    sweep_picture,
    training_of_weights,
    write,
)
from limner.research.paper.sweeps import Point

RNG = np.random.default_rng(0)
SCORES = {
    "DIVERSITY": {"text": RNG.normal(0.6, 0.01, 300), "image": RNG.normal(0.5, 0.02, 300)},
    "DISCREPANCY": {"text": RNG.normal(0.6, 0.1, 300), "image": RNG.normal(0.4, 0.1, 300)},
}


def test_histograms_count_every_score_and_state_its_moments(tmp_path):
    figure = score_histograms(SCORES)
    assert [axes.get_title() for axes in figure.axes] == ["DIVERSITY", "DISCREPANCY"]
    for axes, (_, part) in zip(figure.axes, SCORES.items(), strict=True):
        labels = [text.get_text() for text in axes.get_legend().get_texts()]
        assert labels == [f"{n}: μ {v.mean():.4f}, σ {v.std():.4f}" for n, v in part.items()]
        # outlines close at the base: heights of every bin, each drawn twice
        heights = [patch.get_xy()[1:-1:2, 1].sum() for patch in axes.patches]
        assert sorted(heights) == [300, 300]
    write(tmp_path / "scores.svg", score_histograms, SCORES)
    assert "DISCREPANCY" in (tmp_path / "scores.svg").read_text()


def test_histograms_refuse_what_is_no_score():
    with pytest.raises(DataError, match="no scores"):
        score_histograms({})
    with pytest.raises(DataError, match="no scores"):
        score_histograms({"DIVERSITY": {"text": np.zeros(0)}})
    with pytest.raises(NumericsError, match="not finite"):
        score_histograms({"DIVERSITY": {"text": np.array([0.0, np.nan])}})


def test_constant_scores_are_drawn():
    assert score_histograms({"DIVERSITY": {"text": np.full(9, 0.25)}}).axes


def test_spearman_equals_scipy_also_under_ties():
    first = RNG.integers(0, 9, 200).astype(np.float32)
    second = first + RNG.integers(0, 9, 200)
    assert spearman(first, second) == pytest.approx(spearmanr(first, second).statistic)
    assert spearman(first, -first) == pytest.approx(-1)
    assert np.isnan(spearman(first, np.ones_like(first)))


def test_agreement_states_its_correlation_and_the_papers():
    div, dis = (SCORES[name]["text"] for name in SCORES)
    figure = agreement(div, dis, ("DIV", "DIS"), 0.052)
    due = f"Spearman {spearmanr(div, dis).statistic:.4f} (the paper's 0.0520), n = 300"
    assert figure.axes[0].get_title() == due
    assert len(figure.axes[0].collections[0].get_offsets()) == 300
    many = np.arange(20_000.0)
    assert len(agreement(many, many, ("a", "b"), 0.052).axes[0].collections[0].get_offsets()) == 5000


def test_curves_of_a_run_skip_epochs_without_a_value():
    figure = training_of_weights(
        [{"spread": 1.0}, {"spread": 2.0, "drift": 0.5}, {"spread": 3.0, "drift": 0.9}]
    )
    spread, drift = figure.axes
    assert spread.lines[0].get_xydata().tolist() == [[0, 1], [1, 2], [2, 3]]
    assert drift.lines[0].get_xydata().tolist() == [[1, 0.5], [2, 0.9]]
    with pytest.raises(DataError, match="logged no statistics of weights"):
        training_of_weights([{}])


def test_gains_are_dots_with_the_papers_as_rings():
    gains = [Gain(f"s{n}", "DIVERSITY", 0.1 * n, -0.01 * n) for n in range(4)]
    gains += [Gain("COCO", "DIVERSITY", 0.1156, 0.017, published=True)]
    figure = gain_against_deviation(gains)
    axes = figure.axes[0]
    ours, papers = axes.collections
    np.testing.assert_allclose(ours.get_offsets(), [[0, 0], [0.1, -1], [0.2, -2], [0.3, -3]])
    np.testing.assert_allclose(papers.get_offsets(), [[0.1156, 1.7]])
    assert len(papers.get_facecolors()) == 0
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["DIVERSITY (Spearman -1.00 over 4 sets)", "DIVERSITY, the paper"]
    with pytest.raises(DataError, match="no gains"):
        gain_against_deviation([])


def points(*values, key="loss.lam"):
    return [
        Point(settings={key: value}, seed=seed, epoch=1, validation={"R@1": 0.01 * place + 0.1 * seed})
        for place, value in enumerate(values)
        for seed in (0, 1)
    ]


def test_a_sweep_over_numbers_is_a_curve_in_their_order(tmp_path):
    axes = sweep_picture(points("128", "32", "64"), "R@1").axes[0]
    np.testing.assert_allclose(axes.lines[0].get_xydata(), [[32, 6], [64, 7], [128, 5]])
    assert len(axes.collections[0].get_offsets()) == 6
    assert axes.get_xlabel() == "loss.lam"
    assert axes.get_ylabel() == "R@1 on validation (%)"
    write(tmp_path / "sweep.png", sweep_picture, points("1", "2"), "R@1")


def test_a_sweep_over_words_has_no_line_between_them():
    axes = sweep_picture(points("sum", "absdiff", key="weights.mode"), "R@1").axes[0]
    assert axes.lines[0].get_linestyle() == "None"
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["mode=sum", "mode=absdiff"]
