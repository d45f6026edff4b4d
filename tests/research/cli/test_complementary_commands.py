"""c-way questions on the command line: measured from a run, tabulated beside the paper's, and drawn."""

import json
import re

import numpy as np
import pytest
import torch
from cyclopts import App
from made_up_choices import choice_result
from made_up_results import result

from limner.errors import ConfigError, DataError, MissingError
from limner.research.cli.figure import figure
from limner.research.cli.measure import measure
from limner.research.cli.table import table
from limner.research.cli.train import train
from limner.research.datasets.neighbours import PairScores, write_pair_scores
from limner.research.evaluation.results import ChoiceResult
from limner.research.runs.train import choices_of, maximise
from limner.research.training.settings import replaced

pytestmark = pytest.mark.slow

TOML = """
system = "cmcm"
row = "PVSE"
backbone = "drawings"
[data]
set = "picturebook"
vectors = "random"
picture_px = 32
[model]
pooling = "none"
relations = "none"
[loop]
metric = "C@4"
"""


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def run(command, *words):
    app = App(name="limner")
    app.command(command, name="it")
    app(["it", *map(str, words)], exit_on_error=False, print_error=False, result_action="return_value")


def test_a_run_chosen_by_choice_is_measured_on_stored_questions(tmp_path, capsys):
    (tmp_path / "config.toml").write_text(TOML)
    runs = tmp_path / "runs"
    train(tmp_path / "config.toml", to=runs / "a", smoke=True, json=True)
    validation = json.loads(capsys.readouterr().out)["validation"]
    assert 0 <= validation["C@2"] <= 1  # in place of C@4
    train(tmp_path / "config.toml", to=runs / "b", set_=("loop.seed=1",), smoke=True)
    capsys.readouterr()
    words = ("--distractors", tmp_path / "questions", "--choices", 0, "--choices", 3, "--json")
    run(measure, runs / "a", runs / "b", *words)
    rows = json.loads(capsys.readouterr().out)
    assert all({"5-way I→T", "5-way T→I", "3-way I→T", "3-way T→I"} <= set(row) for row in rows)
    assert len(list((tmp_path / "questions").iterdir())) == 2
    found = ChoiceResult.read_all(runs)
    assert [(one.about.seed, one.c) for one in found] == [(0, 3), (0, 5), (1, 3), (1, 5)]
    assert found[0].choices == found[2].choices
    assert found[1].accuracy == (rows[0]["5-way I→T"], rows[0]["5-way T→I"])
    before = [path.read_bytes() for path in sorted(runs.rglob("*way.json"))]
    run(measure, runs / "a", runs / "b", *words)
    assert [path.read_bytes() for path in sorted(runs.rglob("*way.json"))] == before
    capsys.readouterr()
    run(table, "complementary-2", "--runs", runs, "--resamples", 50)
    shown = capsys.readouterr().out
    assert "PVSE, reduced (2 seeds)" in shown
    assert "picturebook 3-way" in shown
    assert "Text to picture, all" in shown


def test_wrong_numbers_of_options_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="--choices 1, expected at least 2"):
        run(measure, tmp_path, "--choices", 1)
    assert choices_of("MRR") == ()
    assert choices_of("C@20") == (20,)
    assert choices_of("C@2") == (2,)
    assert maximise("C@5")
    for name in ("C@", "C@1", "C@05", "C@x", "C@-5"):
        with pytest.raises(ConfigError, match="after C@"):
            maximise(name)


def test_tables_show_answers_ranks_and_the_ablation(tmp_path, capsys):
    for name, quality in (("PVSE", 1.0), ("DIVERSITY", 2.0), ("Γ=0", 1.0)):
        choice_result(name, quality).write(tmp_path / "runs" / name)
        result(name, quality, data="flickr8k", relations=()).write(tmp_path / "runs" / name)
    result("CMCM", 3.0).write(tmp_path / "runs" / "cmcm")
    words = ("--runs", tmp_path / "runs", "--resamples", 200)
    run(table, "complementary-2", *words)
    shown = capsys.readouterr().out
    assert shown.count("**") == 2 * 4  # accuracies, seeds, differences, ranks
    assert "Γ" not in shown.partition("Differences in")[0]
    assert "| Γ=0 − PVSE |" in shown
    assert "| DIVERSITY − Γ=0 |" in shown
    assert "CMCM" not in shown
    run(table, "complementary-3", *words, "--format", "latex")
    shown = capsys.readouterr().out
    assert r"$\Gamma$ = $-$1" in shown
    assert r"$|$$\alpha$\_X $-$ $\alpha$\_Y$|$" in shown
    run(table, "complementary-2", *words, "--data", "storybook")
    assert "storybook 5-way" in capsys.readouterr().out


def test_without_runs_the_published_figures_stand_alone(capsys):
    run(table, "complementary-2")
    shown = capsys.readouterr()
    assert "| DIVERSITY | – (67.29) | – (67.18) | – (87.74) | – (88.03) |" in shown.out
    assert shown.err == "complementary-2: 90 cells have no result\n"


@pytest.mark.slow
def test_dispersion_comes_from_a_data_set_by_command(tmp_path, capsys):
    (tmp_path / "config.toml").write_text(
        'system = "complementary"\nrow = "COMBINED-STATS"\nmethod = "combined-stats"\nbackbone = "drawings"\n'
        '[data]\nset = "picturebook"\nvectors = "random"\npicture_px = 32\n[loop]\nmetric = "MRR"\n'
    )
    folder = tmp_path / "runs" / "stats"
    train(tmp_path / "config.toml", to=folder, smoke=True)
    run(measure, folder)
    capsys.readouterr()
    run(table, "complementary-1", "--runs", folder.parent, "--json")
    (found,) = json.loads(capsys.readouterr().out)["tables"]
    (row,) = (row for row in found["rows"] if row["settings"])
    assert row["name"] == "picturebook, COMBINED-STATS"
    assert row["settings"]["backbone"] == "net for drawings trained"
    spread = [cell["value"] for cell in row["cells"][4:10]]
    for product, mean, deviation in (spread[:3], spread[3:]):
        assert -1 <= mean <= 1
        assert deviation > 0
        assert product == pytest.approx(mean * deviation)
    with pytest.raises(ConfigError, match="--smoke cannot make"):
        run(table, "complementary-1", "--smoke")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "width"), [("complementary-2", 3), pytest.param("complementary-3", 4, marks=pytest.mark.soak)]
)
def test_the_tables_are_made_of_tiny_runs_of_every_row(capsys, tmp_path, monkeypatch, name, width):
    from limner.research.paper.table import reference
    from limner.research.runs import train as training

    shrunk = training.shrunk

    def half(config, weights):
        return replaced(shrunk(config, weights), {"data": {"limit": 24}})

    monkeypatch.setattr(training, "shrunk", half)
    monkeypatch.chdir(tmp_path)
    run(table, name, "--smoke", "--resamples", 50)
    shown = capsys.readouterr().out
    lines = [line for line in shown.partition("by training seed")[0].splitlines() if line.startswith("| ")]
    rows = reference()[name]["rows"]
    assert len(lines) - 1 >= len(rows)
    figure = re.compile(r"\d+\.\d{3} [\\*†]*\[\d+\.\d{3}, \d+\.\d{3}\]")
    for line in lines[1:]:
        assert len(figure.findall(line)) == width, line
    if name == "complementary-2":
        assert {*rows, "VSE0", "VSE++"} == {
            line.split("|")[1].strip().removesuffix(" ‡").removesuffix(", reduced") for line in lines[1:]
        }
    assert not list(tmp_path.iterdir())


@pytest.fixture
def weighed(tmp_path):
    """A run folder with scores and a history of weights."""
    folder = tmp_path / "weighed"
    folder.mkdir()
    rng = np.random.default_rng(0)
    names = [f"{measure}/{side}" for measure in ("DIVERSITY", "DISCREPANCY") for side in ("text", "image")]
    made = {name: rng.random(50, dtype=np.float32) for name in names}
    write_pair_scores(PairScores(tuple(f"p{n}" for n in range(50)), made, 4), folder)
    lines = [
        {"epoch": e, "loss": {"total": 1.0, "weights/spread": 1.0 + e}, "val": {"MRR": 0.1}} for e in (0, 1)
    ]
    (folder / "history.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def test_figures_of_weights_come_from_what_training_left(weighed, tmp_path):
    for name, shown in (
        ("complementary-scores", "DISCREPANCY"),
        ("complementary-agreement", "the paper's 0.0520"),
        ("complementary-weights", "spread"),
    ):
        run(figure, name, "--run", weighed, "--to", tmp_path / "it.svg")
        assert shown in (tmp_path / "it.svg").read_text()


def test_gains_are_those_of_runs_that_left_scores(tmp_path):
    from limner.research.paper import published_figures

    runs = tmp_path / "runs"
    deviations = {}
    for seed, name, quality in ((0, "PVSE", 1.0), (0, "DIVERSITY", 2.0), (1, "DIVERSITY", 3.0)):
        answers = choice_result(name, quality, seed=seed)
        answers.write(runs / f"{name}{seed}")
        if name != "PVSE":
            sides = {f"{name}/{side}": np.linspace(0, 1 + seed, 9, dtype=np.float32) for side in "ab"}
            write_pair_scores(PairScores(tuple("abcdefghi"), sides, 0), runs / f"{name}{seed}")
            deviations[seed] = np.linspace(0, 1 + seed, 9).std()
    answers = {(r.about.system, r.about.seed): np.mean(r.accuracy) for r in ChoiceResult.read_all(runs)}
    (gain,) = published_figures._gains(runs, "grouped")
    assert (gain.data, gain.measure) == ("flickr8k 5-way", "DIVERSITY")
    assert gain.deviation == pytest.approx(np.mean(list(deviations.values())))
    due = (answers["DIVERSITY", 0] + answers["DIVERSITY", 1]) / 2 - answers["PVSE", 0]
    assert gain.gain == pytest.approx(due)
    words = ("complementary-variance", "--to", tmp_path / "it.svg")
    run(figure, *words, "--runs", runs)
    drawn = (tmp_path / "it.svg").read_text()
    assert "DISCREPANCY, the paper" in drawn
    assert "flickr8k 5-way" in drawn
    with pytest.raises(DataError, match="no run of a measure"):
        run(figure, *words, "--runs", runs, "--split", "random")
    with pytest.raises(ConfigError, match="needs measured runs"):
        run(figure, *words)


def test_a_run_that_left_no_weights_is_told(weighed, tmp_path):
    to = ("--to", tmp_path / "it.svg")
    with pytest.raises(ConfigError, match="shows one run, found 0"):
        run(figure, "complementary-scores", *to)
    write_pair_scores(PairScores(("a",), {"DIVERSITY/text": np.ones(1, np.float32)}, 0), weighed)
    with pytest.raises(DataError, match="expected both measures"):
        run(figure, "complementary-agreement", "--run", weighed, *to)
    (weighed / "history.jsonl").write_text('{"loss": {"total": 1}}\n')
    with pytest.raises(DataError, match="logged no statistics"):
        run(figure, "complementary-weights", "--run", weighed, *to)
    (weighed / "history.jsonl").write_text("no")
    with pytest.raises(DataError, match="not the history"):
        run(figure, "complementary-weights", "--run", weighed, *to)
    for name in ("complementary-scores", "complementary-weights"):
        with pytest.raises(MissingError):
            run(figure, name, "--run", tmp_path / "none", *to)
