"""A data set declares itself in one file, and everything that takes a name finds it there."""

import json
import sys

import pytest

from limner.config import build
from limner.errors import ConfigError, MissingError
from limner.research.cli.data import data
from limner.research.datasets import load_dataset, sets
from limner.research.datasets.pairs import _REGISTERED, data_set, data_sets
from limner.research.training.corpus import open_corpus
from limner.research.training.settings import DataConfig

NEW = """
from limner.research.datasets.pairs import DataSet, Source, register
from limner.research.datasets.pairs import Pair, PairSet

def read_proverbs(source: Source) -> PairSet:
    lines = source.file("proverbs.txt").read_text().splitlines()
    pairs = (Pair(id=str(n), text=t, image=f"{n}.png") for n, t in enumerate(lines))
    return PairSet("proverbs", (), tuple(pairs))

register(DataSet("proverbs", "sayings with drawings", read_proverbs, folder="proverbs"))
"""


@pytest.fixture
def proverbs(tmp_path, monkeypatch):
    """A set whose one file lies in the folder of sets, and whose texts lie below $LIMNER_DATA."""
    module = tmp_path / "sets" / "proverbs.py"
    module.parent.mkdir()
    module.write_text(NEW)
    monkeypatch.setattr(sets, "__path__", [*sets.__path__, str(module.parent)])
    folder = tmp_path / "data" / "proverbs"
    folder.mkdir(parents=True)
    (folder / "proverbs.txt").write_text("\n".join(f"a proverb that is number {n}" for n in range(20)))
    monkeypatch.setenv("LIMNER_DATA", str(tmp_path))
    yield folder
    _REGISTERED.pop("proverbs", None)
    sys.modules.pop(f"{sets.__name__}.proverbs", None)


def run(*words):
    data([*words], exit_on_error=False, print_error=False, result_action="return_value")


def test_a_new_set_is_one_file(proverbs, capsys):
    assert data_set("proverbs").about == "sayings with drawings"
    assert len(load_dataset("proverbs").pairs) == 20
    assert {pair.split for pair in load_dataset("proverbs", split="grouped").pairs} == {
        "train",
        "val",
        "test",
    }
    run("audit", "proverbs", "--draws", "0", "--json")
    assert json.loads(capsys.readouterr().out)["rows"] == 20
    run("sets")
    assert "proverbs     sayings with drawings" in capsys.readouterr().out
    with pytest.raises(MissingError, match="proverbs: no pictures at"):
        open_corpus(DataConfig(set="proverbs"), files=True)


def test_an_unknown_name_lists_the_choices_and_the_nearest():
    with pytest.raises(
        ConfigError, match=r"unknown data set 'vits'; did you mean 'vist'\? choices: captions, cite,"
    ):
        load_dataset("vits")
    with pytest.raises(ConfigError, match=r"x: setting 'set': .*unknown data set 'clu'; did you mean 'clue'"):
        build(DataConfig, {"set": "clu"}, "x")


def test_what_sets_offer_is_said(capsys):
    run("sets", "--json")
    found = {one["name"]: one for one in json.loads(capsys.readouterr().out)}
    assert found.keys() == data_sets().keys()
    assert len(found["cite"]["relations"]) == 7
    assert found["vist"]["sequence"] == "story"


@pytest.mark.slow
def test_drawn_books_are_loaded_without_a_place():
    book = load_dataset("picturebook", seed=1)
    assert len(book.relations) == 13
    assert book.split("train")
