"""Tables of complementary samples: figures equal loops, the paper's stand beside them, gaps stay gaps."""

import statistics

import numpy as np
import pytest
from made_up_choices import choice_result

from limner.errors import DataError
from limner.research.evaluation.choice import default_choices
from limner.research.paper.published import tables_of as build
from limner.research.paper.table import reference, render

NAMES = ("complementary-2", "complementary-3")
QUICK = {"resamples": 1000}
SETS = ("coco", "goodnews", "politics", "conceptual")


def row(table, name):
    return next(one for one in table.rows if one.name == name)


def cells(table, name):
    return row(table, name).cells


@pytest.fixture(scope="module")
def runs():
    found = []
    for seed in range(3):
        found += [
            choice_result("PVSE", 0.5, seed=seed),
            choice_result("HAL", 0.5, seed=seed),
            choice_result("DIVERSITY", 3.0, seed=seed),
            choice_result("DISCREPANCY", 0.0, seed=seed),
            choice_result("DIVERSITY", 1.0, seed=seed, data="politics", count=140),
            choice_result("PVSE", 1.0, seed=seed, data="politics", count=140),
        ]
    return [
        *found,
        choice_result("VSE0", 1.0),
        choice_result("DIVERSITY", 2.5, preset="sound"),
        choice_result("DIVERSITY sum", 1.0),
        choice_result("DISCREPANCY max", 2.0),
        choice_result("Γ=0", 1.0),
        choice_result("DIVERSITY", 9.0, part="val"),
        choice_result("DIVERSITY", 0.0, split="random", seed=5),
    ]


@pytest.fixture(scope="module")
def tables(runs):
    return {name: build(name, runs, **QUICK) for name in NAMES}


def test_the_published_figures_are_those_of_the_paper_and_average_as_printed():
    """The paper's averages are those of its rows, so a typing error would show."""
    rows = reference()["complementary-2"]["rows"]
    assert len(rows) == 11
    for name, one in rows.items():
        if name not in ("distance-weighted", "PVSE, hard negatives"):
            eight = [value for data in SETS for value in one[data]]
            assert one["average"] == pytest.approx(statistics.mean(eight), abs=6e-5), name
    # The points over HAL in the caption of Table 2, docs/methods/complementary.md §10.
    gains = {"DIVERSITY": 1.61, "DISCREPANCY": 1.16, "COMBINED-VAL": 2.20, "COMBINED-STATS": 2.16}
    for name, gain in gains.items():
        assert 100 * (rows[name]["average"] - rows["HAL"]["average"]) == pytest.approx(gain, abs=0.006)
    baselines = [
        rows[name]["average"] for name in ("PVSE", "THOMAS", "HAL", "MITHUN", "AMRANI (reconstructed)")
    ]
    assert statistics.stdev(baselines) == pytest.approx(0.0072, abs=5e-5)
    third = reference()["complementary-3"]["rows"]
    for measure, name in (("diversity", "DIVERSITY"), ("discrepancy", "DISCREPANCY")):
        assert third["Γ = −1"][measure] == rows[name]["politics"] == third["|α_X − α_Y|"][measure]


def test_default_numbers_of_options():
    assert [default_choices(data) for data in (*SETS, "storybook")] == [100, 5, 5, 20, 5]


@pytest.mark.parametrize("name", NAMES)
def test_without_results_every_published_figure_has_its_cell_and_every_cell_is_a_gap(name):
    (table,) = build(name, [])
    due = [cell for one in table.rows for cell in one.cells if cell.applies]
    assert table.empty == len(due) == (90 if name == "complementary-2" else 32)
    for one in table.rows:
        entry = reference()[name]["rows"][one.name]
        if name == "complementary-2":
            printed = [value for data in SETS for value in entry.get(data, (None, None))]
            assert [cell.paper for cell in one.cells] == [*printed, entry.get("average")]
        else:
            assert [cell.paper for cell in one.cells] == [*entry["diversity"], *entry["discrepancy"]]
    assert f"{len(due)} of {len(due)} cells have no result" in render([table])


def test_accuracies_equal_a_loop_and_name_the_papers(tables, runs):
    first, other = (tables["complementary-2"][place] for place in (0, 3))
    assert [block.title for block in first.blocks] == [
        "Politics 5-way, 126 pairs",
        "flickr8k 5-way, 108 pairs",
        "all",
        "the paper's, means recomputed",
    ]
    for name in ("PVSE", "DIVERSITY"):
        found = cells(first, name)
        both = []
        for number, data in enumerate(("politics", "flickr8k")):
            mine = [
                run
                for run in runs
                if (run.about.system, run.about.data, run.about.part, run.about.preset, run.about.split)
                == (name, data, "test", "", "grouped")
            ]
            assert len(mine) == 3
            for direction in range(2):
                due = statistics.mean(run.accuracy[direction] for run in mine)
                both.append(due)
                cell = found[2 * number + direction]
                assert cell.value == pytest.approx(due)
                assert cell.low < cell.value < cell.high
        assert found[4].value == pytest.approx(statistics.mean(both))
        printed = reference()["complementary-2"]["rows"][name]
        assert [cell.paper for cell in found[:5]] == [*printed["politics"], None, None, None]
        papers = [statistics.mean(printed[data]) for data in ("coco", "goodnews", "conceptual")]
        assert [cell.value for cell in found[5:]] == pytest.approx([*papers, printed["average"]])
    assert row(first, "PVSE").remark == "3 seeds"
    assert "random split" in other.title


def test_rows_that_were_not_measured_are_gaps_and_extra_systems_follow(tables):
    table = tables["complementary-2"][0]
    names = [one.name for one in table.rows]
    assert names == [*reference()["complementary-2"]["rows"], "VSE0", "DIVERSITY [sound]"]
    assert [cell.value for cell in cells(table, "THOMAS")[:5]] == [None] * 5
    assert all(cell.applies for cell in cells(table, "THOMAS")[:5])
    extra = cells(table, "VSE0")
    assert [cell.applies for cell in extra] == [False] * 2 + [True] * 2 + [False] * 5
    assert not cells(table, "distance-weighted")[5].applies


@pytest.mark.slow
def test_marks_follow_the_known_order(tables):
    table = tables["complementary-2"][0]
    marks = {one.name: [cell.mark for cell in one.cells[2:4]] for one in table.rows}
    assert marks["DIVERSITY"] == ["*", "*"]
    assert marks["DISCREPANCY"] == ["†", "†"]
    assert marks["HAL"] == marks["PVSE"] == ["", ""]
    assert [cell.mark for cell in cells(table, "DIVERSITY")[:2]] == ["", ""]
    assert any("Holm's correction for 13 comparisons" in note for note in table.notes)


def test_the_best_two_of_a_column_are_marked_as_in_the_paper(tables):
    table = tables["complementary-2"][0]
    for place in (2, 3):
        column = {one.name: one.cells[place] for one in table.rows}
        known = sorted((cell.value for cell in column.values() if cell.value is not None), reverse=True)
        best = {cell.best: cell.value for cell in column.values() if cell.best}
        assert best == {"bold": known[0], "underlined": known[1]}
    # of two systems alone nothing is said
    assert not any(one.cells[0].best for one in table.rows)
    assert any(note.startswith("Bold: the best of a column; underlined") for note in table.notes)
    first, second = (f"{100 * best[style]:.3f}" for style in ("bold", "underlined"))
    assert f"**{first}" in render([table])
    assert f"<u>{second}" in render([table])
    assert rf"\textbf{{{first}" in render([table], "latex")
    assert rf"\underline{{{second}" in render([table], "latex")
    assert f"<strong>{first}" in render([table], "html")
    few = build("complementary-2", [choice_result("PVSE", 1.0)], **QUICK)[0]
    assert not any("Bold" in note for note in few.notes)


def test_seeds_stand_apart_with_their_deviation(tables, runs):
    table = tables["complementary-2"][1]
    assert table.blocks[1].columns == ("seed 0", "seed 1", "seed 2", "sd")
    values = [
        statistics.mean(run.accuracy)
        for run in runs
        if run.about.system == "HAL"
    ]  # fmt: skip
    found = [cell.value for cell in cells(table, "HAL")[4:]]
    assert found == pytest.approx([*values, statistics.stdev(values)])
    single = cells(table, "VSE0")
    assert [cell.applies for cell in single[4:]] == [True, False, False, False]
    assert not any(one.name == "THOMAS" for one in table.rows)


def test_contrasts_are_paired_differences(tables, runs):
    table = tables["complementary-2"][2]
    assert [one.name for one in table.rows] == [
        "Γ=0 − PVSE", "DISCREPANCY − Γ=0", "DIVERSITY − Γ=0",
        "DIVERSITY − DISCREPANCY", "DIVERSITY − HAL", "DISCREPANCY − HAL",
    ]  # fmt: skip

    def mean(name):
        return np.mean(
            [r.accuracy for r in runs if (r.about.system, r.about.data) == (name, "flickr8k")
             and (r.about.part, r.about.preset, r.about.split) == ("test", "", "grouped")]
        )  # fmt: skip

    found = cells(table, "DIVERSITY − HAL")
    assert found[1].value == pytest.approx(mean("DIVERSITY") - mean("HAL"))
    assert found[1].low > 0
    assert [cell.mark for cell in found] == ["", "*"]
    assert found[0].value is None
    assert found[0].paper == pytest.approx(0.6317 - 0.5911)
    control = cells(table, "DIVERSITY − Γ=0")
    assert control[1].value == pytest.approx(mean("DIVERSITY") - mean("Γ=0"))
    assert [cell.paper for cell in control] == [None, None]


def test_the_ablation_has_its_rows_and_every_variant_beside(tables):
    (table,) = tables["complementary-3"]
    assert "flickr8k" in table.title
    names = [one.name for one in table.rows]
    assert names == [*reference()["complementary-3"]["rows"], "[sound]", "max"]
    assert cells(table, "Γ = −1") == cells(table, "|α_X − α_Y|")
    assert cells(table, "Γ = 0")[0].value == cells(table, "Γ = 0")[2].value is not None
    assert [cell.value is None for cell in cells(table, "α_X + α_Y")] == [False, False, True, True]
    assert [cell.applies for cell in cells(table, "max")] == [False, False, True, True]
    assert all(cell.paper is None for one in table.rows for cell in one.cells)
    assert cells(table, "Γ = −1")[0].mark == "*"
    assert cells(table, "Γ = −1")[2].mark == "†"
    assert cells(table, "Γ = 0")[0].mark == ""
    politics = build("complementary-3", [choice_result("Γ=0", 1.0, data="politics")], **QUICK)
    assert cells(politics[0], "Γ = 0")[0].paper == 0.6046


def test_more_options_and_chosen_data():
    both = [choice_result("PVSE", 1.0, c=c) for c in (20, 5)] + [choice_result("PVSE", 1.0, data="politics")]
    table = build("complementary-2", both, data="flickr8k", **QUICK)[0]
    assert [block.title for block in table.blocks[:2]] == [
        "flickr8k 5-way, 108 pairs", "flickr8k 20-way, 108 pairs",
    ]  # fmt: skip
    assert cells(table, "PVSE")[0].value > cells(table, "PVSE")[2].value
    five = build("complementary-2", [choice_result("PVSE", 1.0, data="coco")], **QUICK)[0]
    assert cells(five, "PVSE")[0].paper is None, "the paper's COCO figures are of 100 options"
    empty = build("complementary-2", [], data="flickr8k")[0]
    assert empty.blocks[0].title == "flickr8k 5-way"


@pytest.mark.parametrize(("count", "groups"), [(18, 9), (20, 10)])
def test_ten_groups_give_marks_and_nine_do_not(count, groups):
    few = [choice_result(name, quality, count=count, c=3) for name, quality in (("PVSE", 0.0), ("HAL", 9.0))]
    assert {len(set(one.groups)) for one in few} == {groups}
    table = build("complementary-2", few, **QUICK)[0]
    assert any(cell.mark for one in table.rows for cell in one.cells) == (groups == 10)
    assert any("fewer than ten" in note for note in table.notes) == (groups == 9)


def test_presets_are_never_averaged():
    mixed = [choice_result("PVSE", 1.0, preset=preset) for preset in ("paper", "release")]
    names = [one.name for one in build("complementary-2", mixed, **QUICK)[0].rows]
    assert "PVSE [release]" in names
    lone = build("complementary-2", mixed[1:], **QUICK)[0]
    assert "PVSE [release]" not in [one.name for one in lone.rows]


def test_runs_on_different_questions_are_refused():
    other = choice_result("HAL", 1.0).model_copy(update={"choices": "others"})
    with pytest.raises(DataError, match="different questions"):
        build("complementary-2", [choice_result("PVSE", 1.0), other])
    with pytest.raises(DataError, match="different questions"):
        build("complementary-2", [choice_result("PVSE", 1.0), choice_result("HAL", 1.0, count=90)])


@pytest.mark.parametrize("form", ["md", "latex", "html"])
def test_every_format_takes_the_names(tables, form):
    text = render([table for found in tables.values() for table in found], form)
    assert "DIVERSITY" in text
    assert "95" in text
