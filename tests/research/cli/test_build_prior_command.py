"""``limner data build-prior``: relations in, a prior and figures out."""

import json

import pytest

from limner.errors import ConfigError, DataError, MissingError
from limner.research.cli.data import data
from limner.research.scenes.prior import load_prior


def run(*words):
    data([str(word) for word in words], exit_on_error=False, print_error=False, result_action="return_value")


def box(name, x):
    return {"name": name, "x": x, "y": 0, "w": 10, "h": 10}


@pytest.fixture
def relations(tmp_path):
    path = tmp_path / "relationships.json"
    entry = {"predicate": "on", "subject": box("man", 0), "object": box("horse", 5)}
    path.write_text(json.dumps([{"image_id": n, "relationships": [entry]} for n in range(3)]))
    return path


def test_a_prior_is_counted_and_told(relations, tmp_path, capsys):
    run("build-prior", relations, "--to", tmp_path / "p.safetensors")
    assert "3 relations of 3 pictures" in capsys.readouterr().out
    prior = load_prior(tmp_path / "p.safetensors")
    assert prior.related("man", "horse") == ("on", 3 / 7, 3 / 7)
    names = {"idx_to_label": {"1": "man"}, "idx_to_predicate": {"1": "on"}}
    (tmp_path / "names.json").write_text(json.dumps(names))
    with pytest.raises(DataError, match="no relation of the vocabulary"):
        run("build-prior", relations, "--to", tmp_path / "q.safetensors", "--names", tmp_path / "names.json")
    assert not (tmp_path / "q.safetensors").exists()


def test_only_a_training_split_is_counted(relations, tmp_path, capsys):
    (tmp_path / "train.txt").write_text("0\n2\n\n")
    run(
        "build-prior",
        relations,
        "--to",
        tmp_path / "p.safetensors",
        "--only",
        tmp_path / "train.txt",
        "--json",
    )
    assert json.loads(capsys.readouterr().out)["pictures"] == 2


def test_misuse_is_said(relations, tmp_path):
    with pytest.raises(ConfigError, match="no file"):
        run("build-prior", "--to", tmp_path / "p.safetensors")
    with pytest.raises(ConfigError, match=r"expected a \.safetensors file"):
        run("build-prior", relations, "--to", tmp_path / "p.pkl")
    with pytest.raises(MissingError, match="does not exist"):
        run("build-prior", relations, "--to", tmp_path / "no" / "p.safetensors")
    with pytest.raises(MissingError, match="give a file of picture ids"):
        run("build-prior", relations, "--to", tmp_path / "p.safetensors", "--only", tmp_path / "no.txt")
