"""The registry, and every settings file that is shipped."""

import pytest

from limner.errors import ConfigError
from limner.research.runs.train import read_config
from limner.research.systems.base import names, system


def test_a_system_is_found_by_name():
    assert "cmcm" in names()
    for name in names():
        assert system(name).settings.model_fields["system"].default == name
    with pytest.raises(ConfigError, match="did you mean 'cmcm'"):
        system("cmm")


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
