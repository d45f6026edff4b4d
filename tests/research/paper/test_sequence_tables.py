"""The table of stepwise illustration: values by hand, published figures, marks, seeds, and refusals."""

import tomllib
from pathlib import Path

import numpy as np
import pytest
from made_up_sequences import sequence_result

from limner.errors import DataError
from limner.research.evaluation.results import Captions, TextScores
from limner.research.paper.published import tables_of as build
from limner.research.paper.table import reference, render

NAMES = ["LDA", "VSE++", "VSE++ + MiniLM", "CNSI", "CNSI + MiniLM", "VRSS-VAE", "VRSS-GlobalCon", "VRSS"]


def columns(table):
    return [f"{block.title} {column}" for block in table.blocks for column in block.columns]


def cells(table, name):
    row = next(row for row in table.rows if row.name == name)
    return dict(zip(columns(table), row.cells, strict=True))


@pytest.fixture(scope="module")
def results():
    return [
        *(sequence_result("VRSS", 3.0, seed=seed) for seed in (0, 1)),
        sequence_result("VSE++", 0.0),
        sequence_result("ours", 9.0),
    ]


def test_without_results_the_published_table_stands_alone():
    (table,) = build("vrss-1", [])
    assert [row.name for row in table.rows] == NAMES
    assert table.empty == len(NAMES) * 11
    found = cells(table, "VRSS")
    assert found["retrieval R@1"].paper == pytest.approx(0.082)
    assert found["nouns VSR@10"].paper == pytest.approx(0.451)
    assert found["stories VSR@10"].paper is None
    assert found["features VFS"].paper == 0.51
    assert "(29.8)" in render([table])
    for name, row in reference()["vrss-1"]["rows"].items():
        printed = [row[f"R@{k}"] for k in (1, 5, 10) if row]  # a control of ours has no printed figure
        assert printed == sorted(printed), name
        assert bool(printed) is ("MiniLM" not in name)


def test_cells_are_means_over_steps_and_seeds(results):
    tables = build("vrss-1", results, resamples=200)
    assert [table.name for table in tables] == ["vrss-1", "vrss-1-seeds"] * 2
    for table, decoding in zip(tables[::2], ("steps", "distinct"), strict=True):
        assert [row.name for row in table.rows] == [*NAMES, "ours"]
        found, runs = cells(table, "VRSS"), [one.found[decoding] for one in results[:2]]
        due = {
            "retrieval R@5": np.mean([np.array(run.own) <= 5 for run in runs]),
            "retrieval StR@1": np.mean([np.array(run.story) <= 1 for run in runs]),
            "nouns VSR@10": np.mean([np.array(run.saliency["noun"]) <= 10 for run in runs]),
            "stories VSR@1": np.mean([np.array(run.saliency["sequence"]) <= 1 for run in runs]),
            "features VFS": np.mean([run.similarity for run in runs]),
        }
        for name, value in due.items():
            assert found[name].value == pytest.approx(value), name
            assert found[name].low <= found[name].value <= found[name].high
        assert cells(table, "LDA")["retrieval R@1"].value is None
    assert next(row for row in tables[0].rows if row.name == "VRSS").remark == "2 seeds"
    assert cells(tables[0], "VSE++") != cells(tables[2], "VSE++")


def test_marks_are_against_vrss_with_one_correction(results):
    table = build("vrss-1", results, resamples=3000)[0]
    assert cells(table, "VSE++")["retrieval R@1"].mark == "†"
    assert cells(table, "ours")["retrieval R@1"].mark == "*"
    assert all(cell.mark == "" for cell in cells(table, "VRSS").values())
    assert "Holm's correction for 22 comparisons" in table.notes[-1]
    few = build("vrss-1", [sequence_result(name, q, stories=4) for name, q in (("VRSS", 9), ("x", 0))])
    assert not any(cell.mark for row in few[0].rows for cell in row.cells)
    assert "fewer than ten stories" in few[0].notes[-1]


@pytest.mark.slow
def test_equal_systems_get_no_mark():
    same = [sequence_result(name, 1.0) for name in ("VRSS", "VSE++")]
    table = build("vrss-1", same, resamples=200)[0]
    assert not any(cell.mark for row in table.rows for cell in row.cells)


@pytest.mark.slow
def test_single_seeds_and_their_deviation(results):
    table = build("vrss-1", results, resamples=50)[1]
    assert [row.name for row in table.rows] == [
        "VRSS, seed 0",
        "VRSS, seed 1",
        "VRSS, deviation",
        "VSE++, seed 0",
        "ours, seed 0",
    ]
    values = [cells(table, f"VRSS, seed {seed}")["retrieval R@10"].value for seed in (0, 1)]
    assert cells(table, "VRSS, deviation")["retrieval R@10"].value == pytest.approx(np.std(values, ddof=1))


def test_chance_stands_below(results):
    notes = "\n".join(build("vrss-1", results, resamples=50)[0].notes)
    level = results[0].levels["noun"]
    shown = ", ".join(f"{100 * share:.1f}" for share in level.random)
    assert f"VSR@1/5/10 (nouns): {shown} with random pictures" in notes
    assert f"VFS: {results[0].random_similarity:.2f} with random pictures" in notes
    assert "36 steps of 12 stories, 36 distinct pictures." in notes


def test_looks_that_were_not_measured_leave_blanks():
    table = build("vrss-1", [sequence_result("VRSS", 1.0, features=False)], resamples=50)[0]
    assert {name for name, cell in cells(table, "VRSS").items() if not cell.applies} == {
        *(f"{kind} VSR@{k}" for kind in ("nouns", "stories") for k in (1, 5, 10)),
        "features VFS",
    }


@pytest.mark.slow
def test_data_sets_splits_and_presets_are_kept_apart():
    made = [
        sequence_result("VRSS", 1.0),
        sequence_result("VRSS", 1.0, preset="sound"),
        sequence_result("VRSS", 1.0, data="howto"),
        sequence_result("VRSS", 1.0, split="released"),
        sequence_result("VRSS", 1.0, part="val", seed=4),
    ]
    titles = [table.title for table in build("vrss-1", made, resamples=20)]
    assert [title.partition("(")[2].rpartition(",")[0] for title in titles[::2]] == [
        "howto, grouped split",
        "storybook, grouped split",
        "storybook, released split",
    ]
    own = build("vrss-1", made, data="storybook", resamples=20)
    assert len(own) == 4
    assert [row.name for row in own[0].rows][len(NAMES) - 1 :] == ["VRSS", "VRSS [sound]"]
    assert build("vrss-1", made, data="none")[0].empty == len(NAMES) * 11
    # a rival that was run with one preset alone fills its own row, whatever the others were run with
    rival = [
        *made,
        sequence_result("CNSI", 1.0, preset="release"),
        sequence_result("LDA", 1.0, preset="sound"),
    ]
    names = [row.name for row in build("vrss-1", rival, data="storybook", resamples=20)[0].rows]
    assert names[:2] == ["LDA", "LDA [sound]"]
    assert names[-2:] == ["VRSS", "VRSS [sound]"]
    assert len(names) == 10


@pytest.mark.slow
def test_another_preset_alone_is_what_others_are_compared_with():
    sound = [sequence_result("VRSS", 1.0, preset="sound"), sequence_result("CNSI", 30.0, preset="sound")]
    notes = " ".join(build("vrss-1", sound, resamples=50)[0].notes)
    assert "VRSS [sound]" in notes
    both = [*sound, sequence_result("VRSS", 1.0)]
    assert "VRSS [sound]" not in " ".join(build("vrss-1", both, resamples=50)[0].notes)


@pytest.mark.slow
def test_what_cannot_be_compared_is_refused():
    with pytest.raises(DataError, match="different steps"):
        build("vrss-1", [sequence_result("VRSS", 1.0), sequence_result("x", 1.0, stories=4)])
    with pytest.raises(DataError, match="one backbone"):
        build("vrss-1", [sequence_result("VRSS", 1.0), sequence_result("x", 1.0, described="others")])


BASELINES = ["VSE0", "VSE0 + MiniLM", "VSE++", "VSE++ + MiniLM", "CNSI", "CNSI + MiniLM"]
CONTROLS = ["GSDA (own sentence only)", "GSDA (own sentence's key)"]
ABLATIONS = ["GSDA w/o graph", "GSDA w/o dual", "GSDA w/o graph, w/o dual"]


def test_gsda_has_its_own_columns_rows_and_paper():
    (table,) = build("gsda-1", [])
    assert [row.name for row in table.rows] == [*BASELINES, "GSDA w/o CSE", "GSDA", *CONTROLS, *ABLATIONS]
    found = cells(table, "GSDA")
    assert {name: cell.paper for name, cell in found.items()} == {
        "retrieval R@1": pytest.approx(0.1335),
        "retrieval R@5": pytest.approx(0.1407),
        "retrieval R@10": pytest.approx(0.144),
        "retrieval MedR": None,
        "retrieval Med r": pytest.approx(0.1398),
        "retrieval StR@1": None,
        "features coherence": None,
    }
    for name in (*BASELINES[1::2], *CONTROLS, *ABLATIONS):
        assert all(cell.paper is None for cell in cells(table, name).values())


@pytest.mark.slow
def test_gsda_cells_are_pooled_over_seeds_and_marked_against_it():
    made = [*(sequence_result("GSDA", 3.0, seed=seed) for seed in (0, 1)), sequence_result("VSE0", 0.0)]
    tables = build("gsda-1", made, resamples=2000)
    assert [table.name for table in tables] == ["gsda-1", "gsda-1-seeds"] * 2
    for table, decoding in zip(tables[::2], ("steps", "distinct"), strict=True):
        found, runs = cells(table, "GSDA"), [one.found[decoding] for one in made[:2]]
        assert found["retrieval MedR"].value == pytest.approx(np.mean([np.median(run.own) for run in runs]))
        alike = [c for run in runs for c in run.coherence if c is not None]
        assert found["features coherence"].value == pytest.approx(np.mean(alike))
        for name, cell in found.items():
            assert not cell.applies if name == "retrieval Med r" else cell.low <= cell.value <= cell.high
    rival = cells(tables[0], "VSE0")
    assert rival["retrieval MedR"].value > cells(tables[0], "GSDA")["retrieval MedR"].value
    assert rival["retrieval MedR"].mark == rival["retrieval R@1"].mark == "†"
    assert rival["features coherence"].value != cells(tables[0], "GSDA")["features coherence"].value
    assert rival["features coherence"].mark == ""  # more is not better, and less is not worse
    notes = "\n".join(tables[0].notes)
    assert f"Coherence of the right pictures: {made[0].gold_coherence:.2f}." in notes
    assert "worse than GSDA" in notes
    assert "VSR" not in notes
    single = cells(tables[1], "GSDA, seed 0")
    assert single["retrieval MedR"].value == np.median(made[0].found["steps"].own)
    bare = build("gsda-1", [sequence_result("GSDA", 1.0, features=False)], resamples=20)[0]
    assert not cells(bare, "GSDA")["features coherence"].applies


def told(result, nats, *, unknown=1, scores=True):
    rows = len(result.ids)
    found = TextScores(bleu=nats / 100, chrf=nats / 50, texts=rows, settings=("a", "b"))
    values = {"true": (nats,) * rows, "found": (2 * nats,) * rows}
    own = Captions(
        tokens=(4,) * rows, unknown=(unknown,) * rows, nats=values, scores=found if scores else None
    )
    return result.model_copy(update={"captions": own})


@pytest.mark.slow
def test_captions_stand_in_a_table_of_their_own():
    one, other = (sequence_result("GSDA", 1.0, seed=seed) for seed in (0, 1))
    worse = sequence_result("GSDA w/o CSE", 1.0)
    silent = sequence_result("GSDA w/o dual", 1.0)
    made = [told(one, 4.0), told(other, 8.0), told(worse, 10.0), silent]
    table = build("gsda-1", made, resamples=200)[-1]
    assert table.name == "gsda-1-captions"
    assert [row.name for row in table.rows] == ["GSDA", "GSDA w/o CSE"]
    found = cells(table, "GSDA")
    assert found["perplexity true pictures"].value == pytest.approx((np.e + np.e**2) / 2)
    assert found["perplexity found pictures"].value == pytest.approx((np.e**2 + np.e**4) / 2)
    assert found["generated from true pictures BLEU-4"].value == pytest.approx(0.06)
    assert found["generated from true pictures chrF"].value == pytest.approx(0.12)
    assert table.rows[0].remark == "2 seeds"
    assert [cell.mark for cell in table.rows[1].cells] == ["†", "†", "", ""]
    assert "25.0 % of them outside the vocabulary" in table.notes[0]
    # a seed that did not tell leaves its system out
    assert build("gsda-1", [made[0], other], resamples=20)[-1].name != "gsda-1-captions"
    assert build("vrss-1", made[:1], resamples=20)[-1].name == "vrss-1"


@pytest.mark.slow
def test_perplexities_over_other_words_are_not_compared():
    made = [told(sequence_result("GSDA", 1.0), 4.0), told(sequence_result("x", 1.0), 8.0, unknown=0)]
    table = build("gsda-1", made, resamples=200)[-1]
    assert not any(cell.mark for row in table.rows for cell in row.cells)
    assert "perplexities cannot be compared" in table.notes[-2]
    bare = [told(sequence_result("GSDA", 1.0), 4.0, scores=False)]
    assert not build("gsda-1", bare, resamples=20)[-1].rows[0].cells[2].applies


def test_perplexity_weighs_tokens_alike():
    result = sequence_result("GSDA", 1.0, stories=2)
    own = Captions(
        tokens=(2, 3, 4, 5, 6, 7),
        unknown=(0,) * 6,
        nats={"true": (1, 2, 3, 4, 5, 6), "found": (2, 2, 2, 2, 2, 2)},
    )
    table = build("gsda-1", [result.model_copy(update={"captions": own})], resamples=20)[-1]
    assert table.rows[0].cells[0].value == pytest.approx(np.exp(21 / 27))
    assert table.rows[0].cells[1].value == pytest.approx(np.exp(12 / 27))


def test_every_settings_file_of_gsda_has_its_row():
    files = sorted((Path(__file__).parents[3] / "configs" / "gsda").glob("*.toml"))
    names = {tomllib.loads(file.read_text("utf-8"))["row"] for file in files}
    assert names == {name for name in reference()["gsda-1"]["rows"] if name.startswith("GSDA")}
