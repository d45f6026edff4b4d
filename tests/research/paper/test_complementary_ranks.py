"""Ranks of the systems that answered c-way questions: figures equal loops, other runs stay out."""

import statistics

import pytest
from made_up_choices import choice_result
from made_up_results import result

from limner.errors import DataError
from limner.research.paper.published import tables_of
from limner.research.paper.table import render

METRICS = ("MedR", "R@1", "R@3", "R@5", "R@10")


def rank_tables(ranked, answered, **settings):
    """Of Table 2, the tables of ranks alone."""
    made = tables_of("complementary-2", [*answered, *ranked], **settings)
    return [table for table in made if table.title.startswith("Text to picture")]


def ranked(system, quality, **settings):
    return result(system, quality, relations=(), **{"data": "flickr8k", **settings})


@pytest.fixture(scope="module")
def runs():
    found = [ranked(name, q, seed=seed) for seed in (0, 1) for name, q in (("DIVERSITY", 3.0), ("PVSE", 1.0))]
    return [*found, ranked("VSE0", 0.0), ranked("CMCM", 2.0), ranked("PVSE", 9.0, part="val")]


@pytest.fixture(scope="module")
def answered():
    names = (("PVSE", 0), ("PVSE", 1), ("DIVERSITY", 0), ("DIVERSITY", 1), ("VSE0", 0))
    return [choice_result(name, 1.0, seed=seed) for name, seed in names]


def test_figures_equal_a_loop_over_seeds(runs, answered):
    (table,) = rank_tables(runs, answered, resamples=500)
    assert table.title == "Text to picture, all 108 pictures (flickr8k, grouped split)"
    assert [row.name for row in table.rows] == ["PVSE", "DIVERSITY", "VSE0"]
    assert [row.remark for row in table.rows] == ["2 seeds", "2 seeds", ""]
    for row in table.rows:
        mine = [r.full.plain for r in runs if (r.about.system, r.about.part) == (row.name, "test")]
        for metric, cell in zip(METRICS, row.cells, strict=True):
            if metric == "MedR":
                due = statistics.mean(statistics.median(ranks) for ranks in mine)
            else:
                cut = int(metric[2:])
                due = statistics.mean(statistics.mean(rank <= cut for rank in ranks) for ranks in mine)
            assert cell.value == pytest.approx(due)
            assert cell.low <= cell.value <= cell.high
    assert [[cell.mark for cell in row.cells] for row in table.rows] == [[""] * 5, ["*"] * 5, ["†"] * 5]
    assert "for 10 comparisons" in render([table])


def test_without_the_control_nothing_is_marked(runs, answered):
    others = [run for run in runs if run.about.system != "PVSE"]
    (table,) = rank_tables(others, answered, resamples=100)
    assert not any(cell.mark for row in table.rows for cell in row.cells)
    assert "No marks" in render([table])
    assert rank_tables(runs, []) == []


def test_runs_on_other_pairs_are_refused(answered):
    with pytest.raises(DataError, match="different pairs"):
        rank_tables([ranked("PVSE", 1.0), ranked("VSE0", 1.0, count=90)], answered)


def test_presets_are_rows_of_their_own():
    both = [ranked("PVSE", 1.0), ranked("PVSE", 2.0)]
    both[1] = both[1].model_copy(update={"about": both[1].about.model_copy(update={"preset": "sound"})})
    answers = [choice_result("PVSE", 1.0, preset=preset) for preset in ("", "sound")]
    (table,) = rank_tables(both, answers, resamples=100)
    assert [row.name for row in table.rows] == ["PVSE", "PVSE [sound]"]
