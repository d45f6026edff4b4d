"""Settings beside every row: what tables print of them, what they mark, and what an older file shows."""

import json

import pytest
from made_up_choices import choice_result
from made_up_results import result

from limner.research.evaluation.results import Result
from limner.research.paper.conditions import borrowed_factors, settings_of, uneven
from limner.research.paper.published import PaperTables, tables_of
from limner.research.paper.table import render
from limner.research.systems.complementary.model import ComplementaryConfig

QUICK = {"resamples": 2000}
PLAIN = {
    "preset": "laptop",
    "backbone": "resnet50 frozen",
    "deviations": ("loop.epochs=3", "loop.seed=1"),
    "config": {"data": {"limit": None}, "loop": {"epochs": 3, "seed": 1}, "model": {"dim": 8}},
}


def about(run, **changes):
    return run.model_copy(update={"about": run.about.model_copy(update={**PLAIN, **changes})})


def changed(table, **values):
    return {**PLAIN["config"], table: {**PLAIN["config"][table], **values}}


@pytest.fixture
def runs():
    return [
        about(result("CMCA", 1.0)),
        about(result("CMCA", 1.0, seed=1)),
        about(
            result("CMCM", 3.0, refined=1.0), preset="release", backbone="resnet50 trained",
            config=changed("data", limit=100),
        ),
        about(result("Base", 0.2)),
    ]  # fmt: skip


@pytest.mark.parametrize("form", ["md", "latex", "html"])
def test_every_measured_row_says_its_settings_in_every_format(runs, form):
    text = render(tables_of("cmcm-5", runs, **QUICK)[:1], form)
    where = "clue, grouped split"
    assert text.count(f"resnet50 frozen; seeds 0, 1; {where}") == 1
    assert text.count(f"resnet50 frozen; seed 0; {where}") == 1
    assert text.count("preset laptop with 1 deviation (a); ") == 2
    assert text.count(f"preset release with 1 deviation (a); resnet50 trained; seed 0; {where}") == 1
    assert text.count("(a) Deviations from the preset: loop.epochs=3.") == 1  # the seed stands beside the row


def test_json_holds_the_whole_list(runs):
    tables = PaperTables(name="cmcm-5", tables=tuple(tables_of("cmcm-5", runs, **QUICK)))
    rows = {row["name"]: row for row in json.loads(tables.model_dump_json())["tables"][0]["rows"]}
    assert rows["CMCA"]["settings"] == {
        "preset": "laptop", "deviations": ["loop.epochs=3"], "some": [], "backbone": "resnet50 frozen",
        "seeds": [0, 1], "data": ["clue"], "split": "grouped", "factors": [], "departures": [],
        "reduced": False,
    }  # fmt: skip
    assert rows["CMCM-NoAttn"]["settings"] is None  # nothing was measured
    assert rows["CMCM"]["uneven"] == (
        "preset release (control: laptop); backbone resnet50 trained (control: resnet50 frozen);"
        " data.limit 100 (control: none)"
    )


def test_a_comparison_across_settings_carries_a_sign_and_names_them(runs):
    table = tables_of("cmcm-5", runs, **QUICK)[0]
    rows = {row.name: row for row in table.rows}
    marked = [cell for cell in rows["CMCM"].cells if cell.mark]
    assert marked
    assert any(cell.uneven for cell in marked)
    assert rows["Base"].uneven == rows["CMCA"].uneven == ""
    assert not any(cell.uneven for cell in rows["Base"].cells)
    # refined minus plain is of one run
    assert not any(cell.uneven for cell in rows["CMCM"].cells[-4:])
    text = render([table])
    assert "| CMCM ‡ |" in text
    assert r"\*‡" in text
    note = "‡ CMCM: compared across settings; preset release (control: laptop);"
    assert note in text
    assert r"\*$\ddagger$".replace("\\*", "*") in render([table], "latex")


def test_equal_settings_carry_no_sign(runs):
    table = tables_of("cmcm-5", [run for run in runs if run.about.system != "CMCM"], **QUICK)[0]
    assert "‡" not in render([table])


def test_a_row_that_averages_runs_of_different_settings_carries_the_sign():
    mixed = [about(result("Base", 1.0)), about(result("Base", 1.0, seed=1), config=changed("loop", epochs=9))]
    control = [about(result("CMCA", 1.0))]
    assert uneven(mixed, control) == "loop.epochs 3 and 9 (control: 3)"
    assert uneven(control, control) == uneven([], control) == uneven(control, []) == ""


@pytest.mark.parametrize("name", ["cmcm-7", "cmcm-8"])
def test_tables_by_relation_say_the_settings_of_their_systems(runs, name):
    control = about(result("text only: words", 1.0))
    text = render(tables_of(name, [control, *runs], **QUICK)[:1])
    assert "preset release with 1 deviation (a); resnet50 trained; seed 0; clue, grouped split" in text
    assert "CMCM: compared across settings" in text or "Visible, not Visible, Subjective" in text


def test_runs_on_another_split_or_data_set_meet_no_test(runs):
    other = [about(result("CMCM", 9.0, split="released")), about(result("CMCM", 9.0, data="mine"))]
    before = tables_of("cmcm-5", runs[:2], **QUICK)[0]
    after = tables_of("cmcm-5", [*runs[:2], *other], **QUICK)[0]
    assert after == before


def test_an_older_file_is_read_and_shows_what_it_lacks(tmp_path):
    path = result("CMCA", 1.0).write(tmp_path)
    values = json.loads(path.read_text())
    del values["about"]["deviations"], values["about"]["backbone"], values["checksum"]
    path.write_text(json.dumps(values))
    old = Result.read(path)
    words = settings_of([old]).words()
    assert words == (
        "preset not recorded, deviations not recorded; backbone not recorded; seed 0; clue, grouped split"
    )
    assert uneven([old], [about(result("Base", 1.0))]) == (
        "preset not recorded (control: laptop); backbone not recorded (control: resnet50 frozen);"
        " settings not recorded (control: recorded)"
    )


def test_every_table_of_complementary_samples_says_settings_and_marks_differences():
    own = [
        about(choice_result("PVSE", 0.5)),
        about(choice_result("DIVERSITY", 5.0), config=changed("loop", epochs=9)),
        about(choice_result("HAL", 0.5)),
    ]
    tables = tables_of("complementary-2", own, **QUICK)
    for table in tables:
        names = {row.name for row in table.rows if row.settings}
        assert names >= {"PVSE", "DIVERSITY", "HAL"} or names == {"DIVERSITY − HAL"}
    accuracies, _, differences = tables
    assert next(row for row in accuracies.rows if row.name == "DIVERSITY").uneven
    (contrast,) = (row for row in differences.rows if row.name == "DIVERSITY − HAL")
    assert contrast.uneven == "loop.epochs 9 (control: 3)"
    assert any(cell.mark and cell.uneven for cell in contrast.cells)


def test_a_row_lists_its_departures_and_says_that_it_is_reduced():
    own = {"departures": ("anchor=both", "model.dim=8 (paper: 500)"), "reduced": True}
    runs = [
        about(result("CMCM", 1.0), **own),
        about(result("CMCM", 1.0, seed=1), departures=("anchor=both",)),
    ]
    text = render(tables_of("cmcm-5", runs, **QUICK)[:1])
    assert "| CMCM, reduced (2 seeds) | preset laptop with 1 deviation (a); " in text
    assert "Departures from the paper: anchor=both, model.dim=8 (paper: 500)." in text.replace("\\_", "_")
    plain = render(tables_of("cmcm-5", [about(result("CMCM", 1.0))], **QUICK)[:1])
    assert "reduced" not in plain
    assert "Departures" not in plain


def test_borrowed_factors_stand_beside_the_figures():
    def words(data="flickr8k", **settings):
        config = ComplementaryConfig.model_validate({"data": {"set": "captions"}, **settings})
        run = choice_result("x", 1.0, data=data)
        return borrowed_factors(run.about.model_copy(update={"config": config.model_dump(mode="json")}))

    assert words(method="hal") == []
    own = {"method": "combined-val"}
    assert words(**own, weights={"beta": 1, "gamma_hat": 4}) == ["(β, γ) = (1, 4), the paper's for COCO"]
    assert words(**own, weights={"beta": 3, "gamma_hat": 1}) == [
        "(β, γ) = (3, 1), the paper's for Politics and ConcCap"
    ]
    assert words(**own, weights={"beta": 2, "gamma_hat": 1}) == ["(β, γ) = (2, 1)"]
    assert words("politics", **own, weights={"beta": 1, "gamma_hat": 4}) == []


def test_laptop_runs_are_the_plain_row_unless_published_ones_are_there():
    from limner.research.paper.comparison import by_system

    small = [about(result(name, 1.0), preset=preset) for name, preset in
             (("CMCM", "laptop"), ("Base", "release+laptop"), ("CMCA", "sound+laptop"))]  # fmt: skip
    assert list(by_system(small, ("release",))) == ["CMCM", "Base", "CMCA [sound]"]
    both = [small[0], about(result("CMCM", 1.0), preset="release")]
    assert list(by_system(both, ("release",))) == ["CMCM [laptop]", "CMCM"]
    sizes = [small[2], about(result("CMCA", 1.0), preset="sound")]
    assert list(by_system(sizes, ("release",))) == ["CMCA [sound+laptop]", "CMCA [sound]"]
