"""The registry, and every settings file that is shipped."""

from pathlib import Path

import pytest

from limner.datasets.sets import cite, clue
from limner.errors import ConfigError
from limner.systems import names, read_config, system
from limner.worlds.shelf import RELATIONS

CONFIGS = Path(__file__).parents[2] / "configs"
FILES = sorted(CONFIGS.glob("*/**/*.toml"))
KNOWN = {
    "clue": clue.RELATIONS,
    "cite++": cite.RELATIONS,
    "picturebook": RELATIONS,
    "stories": (),
    "captions": (),
}


def test_a_system_is_found_by_name():
    assert "cmcm" in names()
    for name in names():
        assert system(name).settings.model_fields["system"].default == name
    with pytest.raises(ConfigError, match="did you mean 'cmcm'"):
        system("cmm")


@pytest.mark.parametrize(
    "path", [f for f in FILES if f.parts[-3] == "cmcm"], ids=lambda p: f"{p.parent.name}/{p.stem}"
)
def test_every_shipped_file_is_valid_and_says_what_it_is(path):
    settings = read_config(path)
    assert settings.preset == "release"
    assert settings.row.lower().replace("_", "-").startswith(path.stem)
    assert set(settings.data.relations) <= set(KNOWN[settings.data.set])
    assert (settings.model.pooling == "none") is (settings.row in ("Base", "CMCM-NoAttn"))
    assert (settings.model.relations == "none") is (settings.row in ("Base", "CMCA"))
    settings.smoke()


@pytest.mark.parametrize("folder", ["captions", "stories", "headers"])
def test_there_is_a_file_for_every_row_of_complementary_samples(folder):
    from limner.paper.table import reference

    found = {path.stem: read_config(path) for path in (CONFIGS / "complementary" / folder).glob("*.toml")}
    rows = {settings.row for settings in found.values()}
    named = {run for row in reference()["complementary-3"]["rows"].values() for run in row["runs"]}
    assert rows == {*reference()["complementary-2"]["rows"], *named, "VSE0", "VSE++"}
    assert len(rows) == len(found)
    for stem, settings in found.items():
        assert settings.data.set == ("captions" if folder == "captions" else "stories")
        assert stem.partition("-")[0].rstrip("+01") in settings.row.lower().replace("γ=0", "gamma")
        settings.smoke()


def test_there_is_a_file_for_every_published_row():
    rows = {
        folder: {read_config(f).row for f in (CONFIGS / "cmcm" / folder).glob("*.toml")}
        for folder in ("clue", "cite")
    }
    four = {"Base", "CMCA", "CMCM-NoAttn", "CMCM"}
    assert rows["clue"] == four | {f"CMCM_{name}" for name in clue.RELATIONS}
    assert rows["cite"] == four | {f"CMCM_Q{number}" for number in range(2, 9)}


def test_a_file_must_name_its_system(tmp_path):
    path = tmp_path / "a.toml"
    path.write_text("[data]\nset = 'clue'\n")
    with pytest.raises(ConfigError, match="names no system"):
        read_config(path)
    path.write_text("system = 'cmcm'\n[data]\nset = 'clue'\nbacth = 3\n")
    with pytest.raises(ConfigError, match=r"did you mean 'data\.batch'"):
        read_config(path)
    path.write_text("system = 'cmcm'\n[data]\nset = 'clue'\n")
    assert read_config(path, ["loop.lr=2e-4"]).loop.lr == 2e-4
