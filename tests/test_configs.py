"""The rows that are shipped, and what is laid over them for a data set."""

import tomllib
from pathlib import Path

import pytest

from limner.datasets.base import data_sets
from limner.datasets.sets import cite, clue
from limner.errors import ConfigError
from limner.systems import names, read_config
from limner.worlds.book import RELATIONS

CONFIGS = Path(__file__).parents[1] / "configs"
OVERLAYS = {path.stem: path for path in (CONFIGS / "data").glob("*.toml")}
# folder of rows → overlays they are run with
USED = {
    "cmcm": ("captions", "cite", "clue", "picturebook", "stories"),
    "complementary": ("captions", "headers", "stories"),
    "vse": ("captions", "headers", "picturebook", "stories"),
    **dict.fromkeys(("cnsi", "document", "dual", "gsda", "lda", "vrss"), ("picturebook", "stories")),
}
ROWS = sorted(path for path in CONFIGS.glob("*/*.toml") if path.parent.name != "data")
KNOWN = {"clue": clue.RELATIONS, "cite": cite.RELATIONS, "picturebook": RELATIONS}
RUNS = [(path, data) for path in ROWS for data in USED[tomllib.loads(path.read_text("utf-8"))["system"]]]


def rows(folder: str, data: str) -> dict[str, str]:
    """Name of a row → stem of its file."""
    return {read_config(path, data=data).row: path.stem for path in (CONFIGS / folder).glob("*.toml")}


@pytest.mark.parametrize(("path", "data"), RUNS, ids=lambda one: one if isinstance(one, str) else one.stem)
def test_every_row_runs_on_its_data_sets(path, data):
    settings = read_config(path, data=data)
    assert settings.data.set == tomllib.loads(OVERLAYS[data].read_text("utf-8"))["data"]["set"]
    assert settings.system in names()
    settings.smoke()


@pytest.mark.parametrize("path", [path for path in ROWS if path.parent.name == "cmcm"], ids=lambda p: p.stem)
def test_every_row_of_cmcm_says_what_it_is(path):
    settings = read_config(path, data="clue")
    assert settings.preset == "release"
    assert settings.row.lower().replace("_", "-").startswith(path.stem)
    assert any(set(settings.data.relations) <= set(known) for known in KNOWN.values())
    assert (settings.model.pooling == "none") is (settings.row in ("Base", "CMCM-NoAttn"))
    assert (settings.model.relations == "none") is (settings.row in ("Base", "CMCA"))


def test_a_preset_of_the_command_line_rules_what_a_file_only_repeats():
    """The files of all relations pin what their preset gives; those of a baseline say what it is."""
    plain = read_config(CONFIGS / "cmcm" / "cmcm.toml", data="cite")
    sound = read_config(CONFIGS / "cmcm" / "cmcm.toml", ["preset=sound"], "cite")
    assert (plain.model.relations, sound.model.relations) == ("linear", "product")
    assert sound.deviations() == []
    own = read_config(CONFIGS / "cmcm" / "cmcm.toml", ["preset=sound", "model.relations=mlp"], "cite")
    assert own.model.relations == "mlp"
    assert read_config(CONFIGS / "cmcm" / "cmca.toml", ["preset=sound"], "cite").model.relations == "none"


def test_there_is_a_file_for_every_published_row():
    four = {"Base", "CMCA", "CMCM-NoAttn", "CMCM"}
    clues, cites = ({f"CMCM_{name}" for name in clue.RELATIONS}, {f"CMCM_Q{n}" for n in range(2, 9)})
    assert rows("cmcm", "clue").keys() == four | clues | cites | {"CMCM-shuffled"}


def test_there_is_a_file_for_every_row_of_complementary_samples():
    from limner.paper.table import reference

    found = rows("complementary", "captions")
    named = {run for row in reference()["complementary-3"]["rows"].values() for run in row["runs"]}
    assert found.keys() == {
        *reference()["complementary-2"]["rows"],
        *named,
        "DISCREPANCY direct",
        "VSE0",
        "VSE++",
        "VSE0 + MiniLM",
        "VSE++ + MiniLM",
    }
    assert len(found) == len(list((CONFIGS / "complementary").glob("*.toml")))
    for row, stem in found.items():
        assert stem.partition("-")[0].rstrip("+01") in row.lower().replace("γ=0", "gamma")


def test_no_two_rows_say_the_same():
    told = {}
    for path in ROWS:
        values = tomllib.loads(path.read_text("utf-8")) | {"row": ""}
        same = told.setdefault(repr(sorted(values.items())), path)
        assert same == path


def test_what_an_overlay_says_of_rows_is_of_rows_that_exist():
    stems = {path.stem for path in ROWS}
    for path in OVERLAYS.values():
        values = tomllib.loads(path.read_text("utf-8"))
        tables = [row for name in names() for row in values.get(name, {}).get("rows", ())]
        assert all(set(table["names"]) <= stems for table in tables)


@pytest.fixture
def row(tmp_path):
    """A row with an overlay beside its folder."""
    (tmp_path / "data").mkdir()
    (tmp_path / "mine").mkdir()
    (tmp_path / "data" / "own.toml").write_text(
        '[data]\nset = "clue"\nbatch = 4\nmax_length = 10\n'
        "[cmcm.data]\nbatch = 5\n[vse.data]\nbatch = 9\n"
        '[[cmcm.rows]]\nnames = ["plain", "other"]\ndata.max_length = 12\n'
    )
    path = tmp_path / "mine" / "plain.toml"
    path.write_text('system = "cmcm"\n[data]\nbatch = 3\nmin_count = 2\n[loop]\nlr = 1e-3\n')
    return path


def test_the_nearer_layer_wins(row):
    settings = read_config(row, ("data.max_length=20",), "own")
    assert (settings.data.batch, settings.data.min_count, settings.data.max_length) == (5, 2, 20)
    assert read_config(row, data="own").data.max_length == 12
    row = row.rename(row.with_name("else.toml"))
    assert read_config(row, data="own").data.max_length == 10
    assert read_config(row, data=str(row.parents[1] / "data" / "own.toml")).data.set == "clue"


def test_a_registered_set_needs_no_overlay(row):
    settings = read_config(row, data="vist")
    assert (settings.data.set, settings.data.batch, settings.loop.lr) == ("vist", 3, 1e-3)
    assert read_config(row, ("data.set=vist",)) == settings


def test_a_row_without_data_says_what_to_add(row):
    with pytest.raises(ConfigError, match=r"names no data set; add --data NAME \(choices: .*clue, .*own,"):
        read_config(row)
    with pytest.raises(ConfigError, match=r"unknown data 'owm'; did you mean 'own'"):
        read_config(row, data="owm")
    (row.parents[1] / "data" / "own.toml").write_text('[data]\nset = "clue"\n[cmmc.data]\nbatch = 3\n')
    with pytest.raises(ConfigError, match=r"plain.toml with own: unknown setting 'cmmc'"):
        read_config(row, data="own")
    assert "own" not in data_sets()
