"""Tables of CMCM: figures equal plain loops, gaps stay gaps, marks follow a known order."""

import statistics

import numpy as np
import pytest
from made_up_results import RELATIONS, result

from limner.errors import DataError
from limner.research.evaluation.ranking import average_precision, disagreement_ceiling
from limner.research.paper.comparison import METRICS
from limner.research.paper.published import tables_of as build
from limner.research.paper.table import reference, render

QUICK = {"resamples": 5000}


def cells(table, name):
    return next(row for row in table.rows if row.name == name).cells


@pytest.fixture(scope="module")
def runs():
    found = []
    for seed in range(2):
        found += [
            result("Base", 1.0, seed=seed, relations=()),
            result("CMCA", 2.0, seed=seed, relations=()),
            result("CMCM", 2.0, seed=seed, refined=3.0),
            result("CMCM_Story", 0.2, seed=seed, refined=0.0, relations=("Story",)),
        ]
    return [*found, result("text only: words", 0.5), result("CMCM", 9.0, split="released", seed=5)]


@pytest.fixture(scope="module")
def tables(runs):
    return {name: build(name, runs, data="clue", **QUICK) for name in ("cmcm-5", "cmcm-7", "cmcm-8")}


def slow(runs, where, metric, keep=lambda pool: pool.seed is not None, rows=None):
    """Mean over seeds and pools of the metric, one pool at a time."""
    values = []
    system, stage = where
    for run in runs:
        if run.about.system != system or run.about.split != "grouped":
            continue
        for pool in run.pools:
            if keep(pool):
                ranks = [
                    rank
                    for query, rank in zip(pool.queries, getattr(pool, stage), strict=True)
                    if rows is None or query in rows
                ]
                if metric == "MedR":
                    values.append(statistics.median(ranks))
                else:
                    values.append(sum(rank <= int(metric[2:]) for rank in ranks) / len(ranks))
    return statistics.mean(values)


def test_every_published_figure_has_its_cell():
    """All numbers of CMCM's Tables 4, 5, 7 and 8 stand beside ours, ours being absent."""
    for name, data in (("cmcm-4", None), ("cmcm-5", None)):
        table = build(name, [], data=data)[0]
        for row in table.rows:
            entry = reference()[name]["rows"][row.name]
            block = 4 if "refined" in entry else 0
            found = [cell.paper for cell in row.cells[block : block + 4]]
            assert found[1:] == pytest.approx([entry["printed"][m] / 100 for m in METRICS[1:]])
            assert found[0] == entry["printed"]["MedR"]
            stages = [entry["plain"][0], *(entry["refined"][:1] if block else [])]
            assert [row.cells[k].release for k in (0, 4)[: len(stages)]] == stages
            assert [cell.applies for cell in row.cells[4:]] == ["refined" in entry] * 4
            assert row.cells[block].paper_deviation == entry["deviation"]
            spreads = [entry[stage][1] for stage in ("plain", "refined") if stage in entry]
            assert [row.cells[k].release_deviation for k in (0, 4)[: len(spreads)]] == spreads
            for stage in ("plain", "refined")[: len(spreads)]:
                assert "release {:.2f} ± {:.2f}".format(*entry[stage]) in render([table])
            if block:
                assert f"{row.name} {entry['confidence']:.1f}" in render([table]).replace("\\", "")
    table = build("cmcm-8", [])[1]
    assert [cell.paper for cell in cells(table, "CMCM")] == [0.82, 0.28, 0.47, 0.50, 0.71, 0.36]
    table = build("cmcm-7", [])[0]
    positive = cells(table, "Irrelevant")
    assert [cell.paper for cell in positive[:4]] == [15, 0.17, 0.43, 0.48]
    assert [cell.paper for cell in positive[8:]] == [4, 0.21, 0.54, 0.62]
    assert [cell.paper for cell in positive[4:8]] == [None] * 4


@pytest.mark.parametrize("name", ["cmcm-4", "cmcm-5", "cmcm-7", "cmcm-8"])
def test_without_results_every_cell_is_a_gap_and_counted(name):
    for table in build(name, []):
        due = [cell for row in table.rows for cell in row.cells if cell.applies]
        assert table.empty == len(due) > 0
        assert f"{len(due)} of {len(due)} cells have no result" in render([table])


def test_there_is_a_table_per_split_and_kind_of_pool(tables):
    titles = [table.title for table in tables["cmcm-5"]]
    assert [title.partition("(")[2] for title in titles] == [
        "clue, grouped split, 3 pools of 40)",
        "clue, grouped split, all 108 pictures)",
        "clue, released split, 3 pools of 40)",
        "clue, released split, all 108 pictures)",
    ]


@pytest.mark.parametrize("place", [0, 1])
def test_retrieval_figures_equal_a_loop(tables, runs, place):
    keep = (lambda pool: pool.seed is None) if place else (lambda pool: pool.seed is not None)
    table = tables["cmcm-5"][place]
    for system in ("Base", "CMCA", "CMCM", "CMCM_Story"):
        found = cells(table, system)
        for column, metric in enumerate(METRICS):
            assert found[column].value == pytest.approx(slow(runs, (system, "plain"), metric, keep))
            assert found[column].low <= found[column].value <= found[column].high
            if system.startswith("CMCM"):
                due = slow(runs, (system, "refined"), metric, keep)
                assert found[4 + column].value == pytest.approx(due)
    assert next(row for row in table.rows if row.name == "CMCM").remark == "2 seeds"


def test_the_deviation_is_over_the_pools_of_one_training(tables, runs):
    """As the paper's ±: the population deviation of a training's pools; of two trainings the mean."""
    pools, full = tables["cmcm-5"][:2]
    own = [run for run in runs if run.about.system == "CMCM" and run.about.split == "grouped"]
    for place, stage in ((0, "plain"), (4, "refined")):
        cell = cells(pools, "CMCM")[place]
        due = [statistics.pstdev(statistics.median(getattr(p, stage)) for p in run.drawn) for run in own]
        assert cell.deviation == pytest.approx(statistics.mean(due))
        assert f"{cell.value:.2f}{cell.mark} ± {cell.deviation:.2f} [" in render([pools]).replace("\\", "")
    assert "±: standard deviation over the pools of one run" in pools.notes[0]
    assert {cell.deviation for row in full.rows for cell in row.cells} == {None}
    assert {cells(pools, "CMCM")[place].deviation for place in (1, 2, 3, 8)} == {None}
    legacy = build("cmcm-5", [result("CMCM", 2.0, protocol="legacy")], **QUICK)[0]
    assert cells(legacy, "CMCM")[0].deviation is None


def test_marks_follow_the_known_order(tables):
    table = tables["cmcm-5"][0]
    assert [cell.mark for cell in cells(table, "CMCA")[:4]] == [""] * 4
    assert [cell.mark for cell in cells(table, "CMCM_Story")[1:4]] == ["†"] * 3
    assert [cell.mark for cell in cells(table, "CMCM")[4:8]] == ["*"] * 4
    assert [cell.mark for cell in cells(table, "CMCM")[:4]] == [""] * 4
    assert any("28 comparisons" in note for note in table.notes)


@pytest.mark.slow
def test_what_refinement_gains_is_a_paired_difference_of_the_same_system(tables, runs):
    table = tables["cmcm-5"][0]
    assert [block.title for block in table.blocks] == ["plain", "refined", "refined minus plain"]
    gain = cells(table, "CMCM")[8:]
    for cell, metric in zip(gain, METRICS, strict=True):
        due = slow(runs, ("CMCM", "refined"), metric) - slow(runs, ("CMCM", "plain"), metric)
        assert cell.value == pytest.approx(due)
        assert cell.low <= cell.value <= cell.high
    assert [cell.mark for cell in gain] == ["*"] * 4
    nothing = cells(table, "CMCM_Story")[8:]
    assert [(cell.value, cell.low, cell.high, cell.mark) for cell in nothing] == [(0, 0, 0, "")] * 4
    assert not any(cell.applies for cell in cells(table, "CMCA")[8:])
    assert len(build("cmcm-5", [])[0].blocks) == 2


@pytest.mark.slow
def test_equal_systems_get_no_mark(runs):
    same = [run for run in runs if run.about.system == "CMCA"]
    copies = [
        run.model_copy(update={"about": run.about.model_copy(update={"system": name})})
        for run in same
        for name in ("Base", "CMCM-NoAttn")
    ]
    table = build("cmcm-5", [*same, *copies], **QUICK)[0]
    assert {cell.mark for row in table.rows for cell in row.cells} == {""}
    assert cells(table, "Base")[1] == cells(table, "CMCM-NoAttn")[1].model_copy(
        update={"paper": cells(table, "Base")[1].paper}
    )


@pytest.mark.slow
def test_systems_the_paper_does_not_have_get_a_row(runs):
    own = result("CMCM-sound", 1.5)
    table = build("cmcm-5", [*runs, own], **QUICK)[0]
    assert table.rows[-1].name == "CMCM-sound"
    assert cells(table, "CMCM-sound")[0].value is not None
    assert not any(cell.applies for cell in cells(table, "CMCM-sound")[4:])
    assert all(row.name != "text only: words" for row in table.rows)


def test_per_relation_figures_equal_a_loop(tables, runs):
    table = tables["cmcm-7"][0]
    one = runs[0]
    full = lambda pool: pool.seed is None  # noqa: E731
    for relation in ("Visible", "Meta"):
        stated = one.labels[relation]
        majority = {}
        for number in set(one.pairs):
            votes = [stated[row] for row, pair in enumerate(one.pairs) if pair == number]
            majority[number] = 2 * sum(votes) >= len(votes)
        holds = {row for row, pair in enumerate(one.pairs) if majority[pair]}
        for name, rows in ((relation, holds), (f"not {relation}", set(range(120)) - holds)):
            row = next(row for row in table.rows if row.name == name)
            assert row.remark == f"{len(rows & set(one.full.queries))} queries"
            due = [slow(runs, ("CMCA", "plain"), m, full, rows) for m in METRICS]
            due += [slow(runs, ("CMCM", "plain"), m, full, rows) for m in METRICS]
            due += [slow(runs, ("CMCM", "refined"), m, full, rows) for m in METRICS]
            assert [cell.value for cell in row.cells] == pytest.approx(due)
    assert table.rows[0].cells[0].mark == ""
    assert cells(table, "Meta")[9].mark == "*"


def test_precisions_equal_the_metric_and_stand_beside_prevalence_control_and_ceiling(tables, runs):
    table = tables["cmcm-8"][0]
    assert [row.name for row in table.rows] == [
        "prevalence (chance)",
        "text only: words",
        "CMCM-NoAttn",
        "CMCM",
        "CMCM_c (own relation)",
        "ceiling (annotators disagree on repeated pairs)",
    ]
    own = [run for run in runs if run.about.system == "CMCM" and run.about.split == "grouped"]
    for column, relation in enumerate(RELATIONS):
        truth = own[0].labels[relation]
        due = np.mean([average_precision(np.array(run.probabilities[relation]), truth) for run in own])
        assert cells(table, "CMCM")[column].value == pytest.approx(due)
        assert cells(table, "prevalence (chance)")[column].value == pytest.approx(np.mean(truth))
        assert table.rows[-1].cells[column].value == pytest.approx(disagreement_ceiling(own[0].pairs, truth))
    singles = cells(table, "CMCM_c (own relation)")
    assert [cell.value is not None for cell in singles] == [name == "Story" for name in RELATIONS]
    assert {cell.mark for cell in cells(table, "CMCM")} == {"*"}
    assert {cell.mark for cell in cells(table, "text only: words")} == {""}


def test_validation_results_never_reach_a_table(runs):
    val = [result("CMCM", 9.0, part="val")]
    assert build("cmcm-5", val, **QUICK)[0].empty == build("cmcm-5", [])[0].empty


def test_other_pairs_and_are_refused(runs):
    with pytest.raises(DataError, match="were evaluated on different pairs"):
        build("cmcm-5", [*runs, result("Base", 1, count=80)], **QUICK)


def test_cite_takes_its_own_names():
    table = build("cmcm-4", [result("CMCM_Temporal i>t", 1.0, data="cite++", refined=1.0)], **QUICK)[0]
    assert cells(table, "CMCM_Q7")[0].value is not None
    assert table.rows[-1].name == "CMCM_Q8"


@pytest.mark.slow
def test_other_data_show_no_published_figures_and_no_empty_tables():
    own = [result(name, 1.0, data="mine", pool_size=500) for name in ("CMCA", "CMCM_own")]
    (table,) = build("cmcm-5", own, data="mine", **QUICK)
    assert [row.name for row in table.rows] == ["CMCA", "CMCM_own"]
    assert {cell.paper for row in table.rows for cell in row.cells} == {None}
    assert table.title == "Retrieval (mine, grouped split, all 108 pictures)"
    (table,) = build("cmcm-8", own, data="mine", **QUICK)
    assert {cell.paper for row in table.rows for cell in row.cells} == {None}


def test_few_groups_get_no_marks():
    few = [result("CMCA", 0.0, count=12), result("CMCM", 9.0, count=12)]
    (table,) = build("cmcm-5", [few[0], few[1]], **QUICK)[:1]
    assert {cell.mark for row in table.rows for cell in row.cells} == {""}
    assert any("fewer than ten duplicate groups" in note for note in table.notes)


@pytest.mark.slow
def test_presets_are_rows_of_their_own(runs):
    own = result("CMCM", 5.0)
    other = own.model_copy(update={"about": own.about.model_copy(update={"preset": "paper"})})
    table = build("cmcm-5", [*runs, other], **QUICK)[0]
    assert cells(table, "CMCM [paper]")[0].value < cells(table, "CMCM")[0].value
    assert next(row for row in table.rows if row.name == "CMCM").remark == "2 seeds"
