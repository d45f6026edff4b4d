"""``limner table``, ``figure`` and ``measure``: what they print, write and refuse; and the whole way once."""

import json
import re

import pytest
from cyclopts import App
from made_up_results import result
from PIL import Image

from limner.errors import ConfigError, DataError, MissingError
from limner.research.cli.figure import figure
from limner.research.cli.measure import measure
from limner.research.cli.table import table
from limner.research.paper.smoke import smoke_measured


def run(command, *words):
    app = App(name="limner")
    app.command(command, name="it")
    app(["it", *map(str, words)], exit_on_error=False, print_error=False, result_action="return_value")


@pytest.fixture
def runs(tmp_path):
    folder = tmp_path / "runs"
    result("CMCA", 1.0).write(folder / "cmca")
    result("CMCM", 2.0, refined=1.0).write(folder / "cmcm")
    return folder


def test_a_table_without_runs_shows_the_published_figures_and_counts_the_gaps(capsys):
    run(table, "cmcm-5")
    shown = capsys.readouterr()
    assert (
        "| CMCM | – (release 19.05 ± 2.35) | – | – | – |"
        " – (18.7 ± 1.6, release 18.65 ± 1.55) | – (13.8) | – (31.6) | – (40.6) |" in shown.out
    )
    assert shown.out.count("72 of 72 cells have no result") == 4
    assert shown.err == "cmcm-5: 288 cells have no result\n"


@pytest.mark.parametrize(
    ("form", "sign"), [("md", "| CMCM |"), ("latex", r"\toprule"), ("html", '<th scope="row">CMCM</th>')]
)
def test_every_format_reaches_stdout_and_files(runs, tmp_path, capsys, form, sign):
    words = ("cmcm-5", "--runs", runs, "--format", form, "--resamples", 100)
    run(table, *words)
    shown = capsys.readouterr().out
    assert sign in shown
    run(table, *words, "--to", tmp_path / "table")
    assert (tmp_path / "table").read_text() == shown
    assert capsys.readouterr().out == ""


def test_results_of_the_legacy_protocol_have_tables_of_their_own(runs, capsys):
    words = ("--runs", runs, "--resamples", 50)
    run(table, "cmcm-5", *words)
    before = capsys.readouterr().out
    for name in ("CMCA", "CMCM"):
        result(name, 1.0, protocol="legacy", refined=1.0 if name == "CMCM" else None).write(
            runs / name.lower()
        )
    run(table, "cmcm-5", *words)
    note = "Not shown: 2 results on clue (--protocol legacy shows them).  \n"
    assert capsys.readouterr().out.replace(note, "", 1) == before
    run(table, "cmcm-5", *words, "--protocol", "legacy")
    shown = capsys.readouterr().out
    assert "grouped split, legacy protocol, the first 40 pairs" in shown
    assert "all pictures" not in shown.partition("released split")[0]
    assert "Legacy protocol: pools repeat pictures" in shown
    run(table, "cmcm-7", *words, "--protocol", "legacy")
    assert "legacy protocol, draws with replacement" in capsys.readouterr().out
    with pytest.raises(ConfigError, match="complementary-2 has no legacy protocol"):
        run(table, "complementary-2", "--protocol", "legacy")


def test_a_table_says_what_it_passes_over_and_how_to_show_it(tmp_path, capsys):
    """Runs with --smoke or a limit are of a data set of their own."""
    runs = tmp_path / "runs"
    for name in ("CMCA", "CMCM"):
        result(name, 1.0, data="cite++-first48", split="released").write(runs / name)
    words = ("cmcm-4", "--runs", runs, "--resamples", 50)
    run(table, *words)
    shown = capsys.readouterr().out
    assert shown.count("Not shown: ") == 1
    assert "Not shown: 2 results on cite++-first48 (--data cite++-first48 shows them)." in shown
    run(table, *words, "--data", "cite++-first48")
    shown = capsys.readouterr().out
    assert "Not shown" not in shown
    assert "no result" not in shown
    run(table, "cmcm-4")
    assert "Not shown" not in capsys.readouterr().out


def test_the_table_per_relation_shows_both_sets_of_the_paper(runs, capsys):
    run(table, "cmcm-7", "--runs", runs, "--resamples", 50)
    assert "(cite++" not in capsys.readouterr().out  # not measured
    result("CMCA", 1.0, data="cite++", split="released").write(runs / "cite")
    run(table, "cmcm-7", "--runs", runs, "--resamples", 50)
    shown = capsys.readouterr().out
    assert "(clue, grouped split" in shown
    assert "(cite++, released split" in shown
    run(table, "cmcm-7")
    assert "| Irrelevant " in (shown := capsys.readouterr().out)
    assert "| Elaboration\\_i-tool " in shown


@pytest.mark.slow
def test_a_figure_is_of_the_split_that_was_measured(tmp_path):
    """Published runs are on the released split."""
    runs, to = tmp_path / "runs", tmp_path / "5.svg"
    words = ("cmcm-5", "--runs", runs, "--to", to, "--resamples", 50)
    result("CMCM", 2.0, data="cite++", split="released", refined=1.0).write(runs / "released")
    run(figure, *words)
    assert "cite++, released split" in to.read_text()
    result("CMCM", 2.0, data="cite++", refined=1.0).write(runs / "grouped")
    run(figure, *words)
    assert "cite++, released split" in to.read_text()
    run(figure, *words, "--split", "grouped")
    assert "cite++, grouped split" in to.read_text()
    with pytest.raises(DataError, match=r"no result on clue .* found cite\+\+ \(grouped split\), cite"):
        run(figure, *words, "--data", "clue")


def test_wrong_words_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="unknown table 'cmcm-9'"):
        run(table, "cmcm-9")
    with pytest.raises(MissingError, match="not a folder"):
        run(table, "cmcm-5", "--runs", tmp_path / "none")
    with pytest.raises(ConfigError, match="leave --runs and --data out"):
        run(table, "cmcm-5", "--smoke", "--runs", tmp_path)
    with pytest.raises(ConfigError, match="unknown figure 'cmcm-2'"):
        run(figure, "cmcm-2", "--to", tmp_path / "a.png")
    with pytest.raises(ConfigError, match="needs measured runs"):
        run(figure, "cmcm-5", "--to", tmp_path / "a.png")
    with pytest.raises(ConfigError, match="pass --run FOLDER once per run"):
        run(figure, "cmcm-7", "--to", tmp_path / "a.png")
    with pytest.raises(ConfigError, match="shows one run, found 0"):
        run(figure, "cmcm-3b", "--to", tmp_path / "a.png")
    with pytest.raises(ConfigError, match="no run given"):
        run(measure)


@pytest.mark.slow
def test_figures_from_results(runs, tmp_path):
    run(figure, "cmcm-3a", "--to", tmp_path / "3a.svg")
    assert "λ = 0.01" in (tmp_path / "3a.svg").read_text()
    run(figure, "cmcm-5", "--runs", runs, "--to", tmp_path / "5.svg", "--resamples", 100)
    assert "CMCM-NoAttn" in (tmp_path / "5.svg").read_text()
    with pytest.raises(DataError, match="no system with a single relation"):
        run(figure, "cmcm-entropy", "--runs", runs, "--to", tmp_path / "e.svg", "--resamples", 100)
    for name in ("Story", "Meta"):
        result(f"CMCM_{name}", 1.0, relations=(name,)).write(runs / name)
    run(figure, "cmcm-entropy", "--runs", runs, "--to", tmp_path / "e.svg", "--resamples", 100)
    assert "Story" in (tmp_path / "e.svg").read_text()
    with pytest.raises(DataError, match=r"no result on clue \(released split\)"):
        run(figure, "cmcm-5", "--runs", runs, "--split", "released", "--to", tmp_path / "5.svg")


def test_the_scatter_shows_validation_rows_only(runs, tmp_path):
    with pytest.raises(DataError, match="--part val' first"):
        run(figure, "cmcm-3b", "--run", runs / "cmcm", "--to", tmp_path / "3b.svg")
    result("CMCM", 2.0, part="val").write(runs / "cmcm")
    run(figure, "cmcm-3b", "--run", runs / "cmcm", "--to", tmp_path / "3b.svg")
    assert "rank of the right picture" in (tmp_path / "3b.svg").read_text()


@pytest.mark.slow
def test_the_whole_way_from_training_to_tables_and_figures(tmp_path, capsys):
    """Made-up pictures, tiny models: every command runs and every figure that can be drawn is."""
    from limner.research.cli.train import train

    config = tmp_path / "cmcm.toml"
    config.write_text(
        'system = "cmcm"\nrow = "CMCM"\nbackbone = "drawings"\n'
        '[data]\nset = "picturebook"\nsplit = "grouped"\n[loop]\nmetric = "MRR"\n'
    )
    folder = tmp_path / "runs" / "cmcm"
    train(config, to=folder, smoke=True)
    run(measure, folder, "--part", "val")
    capsys.readouterr()
    run(measure, folder, "--json")
    (row,) = json.loads(capsys.readouterr().out)
    assert row["system"] == "CMCM"
    assert row["plain MedR"] >= 1
    assert 0 <= row["refined R@10"] <= 1
    figures = folder / "results" / "picturebook-grouped-test.json"
    measured = figures.read_bytes()
    run(measure, folder, "--protocol", "legacy")
    assert "plain MedR" in capsys.readouterr().out
    assert (folder / "results" / "picturebook-grouped-test-legacy.json").is_file()
    assert figures.read_bytes() == measured
    with pytest.raises(ConfigError, match="measure c-way questions without it"):
        run(measure, folder, "--protocol", "legacy", "--choices", 3)
    run(
        table,
        "cmcm-4",
        "--runs",
        folder.parent,
        "--data",
        "picturebook",
        "--protocol",
        "legacy",
        "--resamples",
        50,
    )
    assert "legacy protocol, the first " in capsys.readouterr().out
    for name, words in (
        ("cmcm-3b", ("--run", folder)),
        ("cmcm-5", ("--runs", folder.parent, "--data", "picturebook", "--resamples", 50)),
        ("cmcm-6", ("--run", folder, "--count", 2)),
        ("cmcm-7", ("--run", folder, "--count", 2)),
        ("cmcm-8", ("--runs", folder.parent, "--data", "picturebook", "--resamples", 50)),
    ):
        run(figure, name, "--to", tmp_path / f"{name}.png", *words)
        with Image.open(tmp_path / f"{name}.png") as drawn:
            assert min(drawn.size) > 100


@pytest.mark.slow
def test_every_table_is_made_of_tiny_runs_of_every_row(monkeypatch, capsys):
    made = smoke_measured()
    monkeypatch.setattr("limner.research.cli.table.smoke_measured", lambda *_: made)
    ranks = [("plain", "MedR R@1 R@5 R@10"), ("refined", "MedR R@1 R@5 R@10")]
    for name in ("cmcm-4", "cmcm-5"):
        header, rows = grid(shown(name, capsys))
        due = [f"{block}: {figure}" for block, figures in ranks for figure in figures.split()]
        due += [f"refined minus plain: {figure}" for figure in ranks[0][1].split()]
        assert header == ["model", *due]
        rows = {name.removesuffix(", reduced"): cells for name, cells in rows.items()}
        assert list(rows) == ["Base", "CMCA", "CMCM-NoAttn", "CMCM"]
        for row, cells in rows.items():
            # without relations there is nothing to refine
            number = 4 if row in ("Base", "CMCA") else 12
            assert all(INTERVAL.fullmatch(cell) for cell in cells[:number]), (name, row, cells)
            assert cells[number:] == [""] * (12 - number), (name, row, cells)

    header, rows = grid(shown("cmcm-7", capsys))
    systems = ("CMCA", "CMCM", "CMCM refined")
    assert header == ["relation", *[f"{one}: {figure}" for one in systems for figure in ranks[0][1].split()]]
    assert len(rows) == 2 * 13
    for row, cells in rows.items():
        if "(0 queries)" in row:
            assert cells == ["–"] * 12
        else:
            assert all(INTERVAL.fullmatch(cell) for cell in cells), (row, cells)
    assert sum("(0 queries)" not in row for row in rows) > 13

    header, rows = grid(shown("cmcm-8", capsys))
    names = header[1:]
    assert len(names) == 13
    rows = {name.removesuffix(", reduced"): cells for name, cells in rows.items()}
    assert list(rows) == [
        "prevalence (chance)",
        "text only",
        "CMCM-NoAttn",
        "CMCM",
        r"CMCM\_c (own relation)",
    ]
    assert all(INTERVAL.fullmatch(cell) for cell in rows["prevalence (chance)"])
    for row in ("CMCM-NoAttn", "CMCM"):
        for cell, share in zip(rows[row], rows["prevalence (chance)"], strict=True):
            # average precision has no meaning where no test pair is positive
            assert cell == "–" if share.startswith("0.00") else INTERVAL.fullmatch(cell), (row, cell)
    assert {*rows["text only"], *rows[r"CMCM\_c (own relation)"]} == {"–"}


NUMBER = r"[-−]?\d+\.\d+"
INTERVAL = re.compile(rf"{NUMBER}[\\*†]* \[{NUMBER}, {NUMBER}\]")


def shown(name, capsys):
    run(table, name, "--smoke", "--resamples", 50)
    return capsys.readouterr().out


def grid(markdown):
    """Header, and row → figures, of the one table of a page; every row says its settings, all are as wide."""
    lines = [line for line in markdown.splitlines() if line.startswith("|")]
    cut = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    header, ruler, rows = cut[0], cut[1], cut[2:]
    assert set("".join(ruler)) == set("-:")
    assert {len(row) for row in rows} == {len(header)}
    assert len({row[0] for row in rows}) == len(rows)
    if "settings" in header:
        own = (
            r"preset \w+ with \d+ deviations \([a-z]+\); .* (trained|frozen); seed 0;"
            r" picturebook, grouped split"
        )
        assert all(row[1] == "–" or re.match(own, row[1]) for row in rows)
        assert any(row[1] != "–" for row in rows)
        header, rows = [header[0], *header[2:]], [[row[0].replace(" ‡", ""), *row[2:]] for row in rows]
    return header, {row[0]: row[1:] for row in rows}


def test_a_curve_takes_runs_that_differ_in_one_setting(tmp_path):
    for weight in (0.1, 0.4):
        one = result("CMCM", 2.0, refined=weight, data="cite++")
        about = one.about.model_copy(update={"config": {"loss": {"relation_weight": weight}}})
        one.model_copy(update={"about": about}).write(tmp_path / "runs" / str(weight))
    words = ("--runs", tmp_path / "runs", "--data", "cite++", "--resamples", 50)
    run(figure, "cmcm-8", *words, "--to", tmp_path / "8.svg")
    drawn = (tmp_path / "8.svg").read_text()
    assert "limner, 95 % interval" in drawn
    assert "recomputed from the release" in drawn
    with pytest.raises(DataError, match="same system"):
        run(table, "cmcm-4", *words)


@pytest.mark.slow
def test_a_curve_is_of_one_row_and_of_runs_alike(tmp_path):
    """Base, below the same folder, is no point of CMCM's curve, nor is a CMCM with another margin."""
    runs = tmp_path / "runs"

    def write(name, system, **loss):
        one = result(system, 2.0, refined=0.5, data="cite++")
        about = one.about.model_copy(update={"config": {"loss": loss}})
        one.model_copy(update={"about": about}).write(runs / name)

    def curve(*more):
        words = ("--runs", runs, "--data", "cite++", "--resamples", 50)
        run(figure, "cmcm-8", *words, *more, "--to", tmp_path / "8.svg")
        return (tmp_path / "8.svg").read_bytes()

    write("a", "CMCM", relation_weight=0.1)
    alone = curve()
    write("b", "CMCM_Story", relation_weight=0.1)
    write("c", "CMCM_Story", relation_weight=0.4)
    assert curve() == alone != curve("--row", "CMCM_Story")
    with pytest.raises(DataError, match="no run of CMCA"):
        curve("--row", "CMCA")
    write("d", "CMCM", relation_weight=0.4, margin=0.3)
    with pytest.raises(DataError, match=r"differ in loss\.margin \(None and 0\.3\)"):
        curve()
