"""Sweeps: chosen by means over seeds, in the metric's own direction, with the spread beside."""

import statistics

import pytest

from limner.errors import DataError
from limner.research.paper.sweeps import Point, best, sweep_table
from limner.research.paper.table import render

FIGURES = {"32": (0.2, 0.4, 9.0, 8.0), "64": (0.5, 0.3, 3.0, 4.0), "96": (0.9, -0.2, 5.0, 5.0)}


def points():
    return [
        Point(
            settings={"loss.lam": lam},
            seed=seed,
            epoch=2,
            validation={"R@1": recalls[seed], "MedR": recalls[2 + seed]},
        )
        for lam, recalls in FIGURES.items()
        for seed in (0, 1)
    ]


def test_the_best_mean_wins_not_the_best_seed():
    assert best(points(), "R@1", maximise=True) == {"loss.lam": "64"}
    assert best(points(), "MedR", maximise=False) == {"loss.lam": "64"}
    assert best(points(), "MedR", maximise=True) == {"loss.lam": "32"}


def test_the_table_shows_means_spreads_and_other_figures():
    table = sweep_table(points(), "R@1", maximise=True, title="Sweep")
    assert table.columns == ("R@1", "sd of R@1", "MedR")
    assert [row.name for row in table.rows] == ["lam=32", "lam=64", "lam=96"]
    assert [row.remark for row in table.rows] == ["2 seeds", "2 seeds, best", "2 seeds"]
    for row, values in zip(table.rows, FIGURES.values(), strict=True):
        assert row.cells[0].value == pytest.approx(statistics.mean(values[:2]))
        assert row.cells[1].value == pytest.approx(statistics.stdev(values[:2]))
        assert row.cells[2].value == pytest.approx(statistics.mean(values[2:]))
    spread = statistics.stdev([0.3, 0.4, 0.35])
    assert f"over the settings: {100 * spread:.2f}." in render([table])


def test_a_tie_is_said_and_the_first_is_taken():
    some = [point.model_copy(update={"validation": {"R@1": 0.5}}) for point in points() if point.seed == 0]
    table = sweep_table(some, "R@1", maximise=True, title="")
    assert [row.remark for row in table.rows] == ["best", "", ""]
    assert "3 settings are equally good" in table.notes[0]
    assert "equally" not in sweep_table(points(), "R@1", maximise=True, title="").notes[0]


def test_one_seed_has_no_spread_and_no_gap():
    table = sweep_table([point for point in points() if point.seed == 0], "MedR", maximise=False, title="")
    assert table.empty == 0
    assert [row.remark for row in table.rows] == ["", "best", ""]
    assert not any(row.cells[1].applies for row in table.rows)


def test_what_cannot_choose_is_refused():
    with pytest.raises(DataError, match="no finished run"):
        best([], "R@1", maximise=True)
    with pytest.raises(DataError, match=r"no validation metric 'mAP'; it has R@1, MedR"):
        best(points(), "mAP", maximise=True)
