"""Steps ranked together: by hand, against loops, and ω from validation stories alone."""

import json

import numpy as np
import pytest
from cyclopts import App

from limner.errors import ConfigError
from limner.research.cli.measure import measure
from limner.research.runs.coupled import OMEGAS, WAYS, Coupled, coupled, figures

STORIES, STEPS = 8, 4


def made(seed, strength=0.6):
    """Pictures of one story are alike; scores know a little of the right one."""
    rng = np.random.default_rng(seed)
    size = STORIES * STEPS
    owner = np.repeat(np.arange(STORIES), STEPS)
    pull = (owner[:, None] == owner[None]) - np.eye(size)
    scores = rng.normal(size=(size, size)) + strength * np.eye(size) * 2
    return Coupled(scores, pull.astype(float), np.arange(size), tuple(f"s{one}" for one in owner))


def test_without_a_pull_every_way_ranks_by_the_scores():
    part = made(0)
    for way in WAYS[:5]:
        rows, table = part.ranked(way, 0.0)
        assert rows.tolist() == list(range(len(part.stories)))
        assert (table == part.scores).all()


def test_greedy_adds_what_the_step_before_pulls():
    part = made(1)
    _, table = part.ranked("greedy", 0.5)
    for story in range(STORIES):
        before = None
        for row in range(story * STEPS, (story + 1) * STEPS):
            due = part.scores[row] + (0.5 * part.pull[before] if before is not None else 0)
            np.testing.assert_allclose(table[row], due)
            before = int(due.argmax())


def test_a_chain_ranks_by_the_best_whole_story_with_each_picture():
    part = made(2)
    few = Coupled(part.scores[:3, :6], part.pull[:6, :6], part.columns[:3], part.stories[:3])
    _, table = few.ranked("chain", 0.7)
    values = np.full((3, 6), -np.inf)
    for path in np.ndindex(6, 6, 6):
        total = sum(few.scores[step, column] for step, column in enumerate(path))
        total += 0.7 * (few.pull[path[0], path[1]] + few.pull[path[1], path[2]])
        for step, column in enumerate(path):
            values[step, column] = max(values[step, column], total)
    np.testing.assert_allclose(table, values)


def test_a_pin_is_given_and_ranks_the_other_steps():
    part = made(3)
    rows, table = part.ranked("pin", 0.4)
    assert rows.tolist() == [row for row in range(len(part.stories)) if row % STEPS]
    for row, values in zip(rows, table, strict=True):
        pin = row - row % STEPS
        due = part.scores[row] + 0.4 * part.pull[pin]
        assert values.argmin() == pin
        np.testing.assert_allclose(np.delete(values, pin), np.delete(due, pin))


@pytest.mark.slow
def test_omega_is_chosen_on_validation_and_helps_where_pictures_of_a_story_are_alike(monkeypatch):
    monkeypatch.setattr("limner.research.runs.coupled.RESAMPLES", 100)
    val, test = made(4), made(5)
    found = {way: (omega, shown) for way, omega, shown in coupled(val, test)}
    assert list(found) == list(WAYS)
    assert found["each"][0] == 0
    for way in WAYS[1:]:
        omega, shown = found[way]
        tried = {one: figures(val, way, one)["MRR"].value for one in OMEGAS}
        assert tried[omega] == max(tried.values())
        assert shown == figures(test, way, omega)
    assert found["anchor"][1]["StR@1"].value > found["each"][1]["StR@1"].value
    assert found["pin"][0] > 0
    # with nothing alike, nothing is pulled
    plain = Coupled(val.scores, np.zeros_like(val.pull), val.columns, val.stories)
    assert {omega for _, omega, _ in coupled(plain, plain)} == {0.0}


@pytest.mark.slow
def test_a_trained_run_ranks_by_its_graphs(tmp_path, train_tiny, drawings_run, capsys):
    from pathlib import Path

    config = Path(__file__).parents[3] / "configs" / "gsda" / "gsda.toml"
    run = train_tiny(tmp_path / "gsda", "graphs=drawn", "keys=sentences", "label_vectors=", config=config)
    app = App(default_command=measure, result_action="return_value")
    app([str(run), "--pairwise", "graphs", "--json"], exit_on_error=False, print_error=False)
    rows = json.loads(capsys.readouterr().out)
    assert [row["way"] for row in rows] == list(WAYS)
    assert {row["system"] for row in rows} == {"GSDA"}
    assert all(row["R@1"][1] <= row["R@1"][0] <= row["R@1"][2] for row in rows)
    assert not (run / "results").exists()
    with pytest.raises(ConfigError, match="uses no scene graphs"):
        app([str(drawings_run), "--pairwise", "graphs"], exit_on_error=False, print_error=False)
