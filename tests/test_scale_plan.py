"""The plan of a large library: its formula and the simulation of its queues agree where nothing waits."""

import importlib
from dataclasses import replace
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def plan(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module("scale_plan")


def test_without_queues_the_simulation_takes_what_the_formula_says(plan):
    have, prices = plan.Constants(searches_s=0.2), plan.Prices(core_hour=2.0, thousand_requests=1.0)
    said, found = (
        plan.formula(plan.Work(2e6, 16, 1), have, prices),
        plan.simulated(plan.Work(2e6, 16, 1), have, prices),
    )
    assert found.hours == pytest.approx(said.hours, rel=0.05)
    assert found.writer_busy == pytest.approx(said.writer_busy, rel=0.3)
    assert said.fragments <= found.fragments <= said.fragments + have.join_commits
    assert said.core_hours == pytest.approx(2e6 * (have.picture_core_s + have.index_core_s) / 3600)
    assert said.money == pytest.approx(2.0 * said.core_hours + said.requests / 1000)
    assert said.nothing_new_hours == pytest.approx(2e6 * have.known_core_s / 3600)
    assert said.search_s == pytest.approx((0.8 + 0.24e-6 * 2e6) / 4)
    assert said.readers == 1
    median, last = found.answered_s
    assert have.search_s(0) < median < said.search_s < last, "while the library grows"


def test_writers_that_are_too_slow_decide_in_both(plan):
    have = replace(plan.Constants(), write_s=20.0, searches_s=0.2)
    said, found = (way(plan.Work(2e6, 640, 2), have, plan.Prices()) for way in (plan.formula, plan.simulated))
    assert said.writer_busy == pytest.approx(1.0)
    assert found.writer_busy > 0.95
    assert found.hours == pytest.approx(said.hours, rel=0.05)
    assert plan.formula(plan.Work(2e6, 640, 4), have, plan.Prices()).hours == pytest.approx(
        said.hours / 2, rel=0.05
    )


@pytest.mark.slow
def test_readers_with_more_to_do_than_they_can_keep_their_askers_waiting(plan):
    busy = replace(plan.Constants(), searches_s=8.0, readers=1, reader_cores=2)
    calm = replace(busy, searches_s=0.2)
    late, soon = (
        plan.simulated(plan.Work(2e6, 16, 1), one, plan.Prices()).answered_s[1] for one in (busy, calm)
    )
    assert late > 10 * soon


def test_readers_are_so_many_that_a_third_of_their_time_is_left(plan):
    have = plan.Constants(searches_s=2.0)
    assert have.search_s(1e8) == pytest.approx(6.2)
    assert have.readers_for(1e8) == 19
    assert replace(have, readers=3).readers_for(1e8) == 3
