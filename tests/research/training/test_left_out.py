"""Pairs without their picture are listed whole in the folder of the run, and counted on stderr."""

import json
from pathlib import Path

import pytest
from set_files import lines, pictures

from limner.checksums import noted
from limner.research.cli.train import train
from limner.research.datasets.pairs import MissingPicture
from limner.research.runs.train import LEFT_OUT, write_left_out

TOML = """
system = "cmcm"
backbone = "finetune"
[data]
set = "pairs"
split = "grouped"
annotations = "{place}"
missing = "drop"
vectors = "random"
backbone = "resnet18"
[model]
relations = "none"
"""


def test_a_list_is_written_whole_and_goes_when_nothing_is_left_out(tmp_path):
    missing = [
        MissingPicture(id=str(n), image=f"{n // 2}\u2028é.jpg", reason="no such file") for n in range(5)
    ]
    run = tmp_path / "runs" / "one"
    line = write_left_out(missing, run)
    assert line == f"{run / LEFT_OUT}: 5 pairs of 3 pictures left out, each with its reason"
    read = [MissingPicture.model_validate_json(one) for one in (run / LEFT_OUT).read_text().splitlines()]
    assert read == missing
    assert write_left_out([], run) == ""
    assert not (run / LEFT_OUT).exists()
    assert noted(run) == {}
    assert write_left_out([], tmp_path / "none") == ""


def test_training_lists_what_it_left_out(tmp_path, capsys, monkeypatch):
    rows = [{"id": str(n), "text": f"text {n}", "image": f"images/{n}.jpg"} for n in range(12)]
    pictures(tmp_path, [row["image"] for row in rows])
    (tmp_path / "images" / "3.jpg").unlink()
    (tmp_path / "images" / "5.jpg").write_bytes(b"\xff\xd8 no picture")
    place = lines(tmp_path / "mine.jsonl", rows)
    config = tmp_path / "run.toml"
    config.write_text(TOML.format(place=place))

    class EnoughError(Exception):
        """Raised where training would begin."""

    def stop(*_, **__):
        raise EnoughError

    monkeypatch.setattr("limner.research.runs.train._backbone", stop)
    with pytest.raises(EnoughError):
        train(config, to=tmp_path / "run")
    found = [json.loads(line) for line in (tmp_path / "run" / LEFT_OUT).read_text().splitlines()]
    assert [(one["id"], Path(one["image"]).name) for one in found] == [("3", "3.jpg"), ("5", "5.jpg")]
    assert found[0]["reason"] == "no such file"
    assert "2 pairs of 2 pictures left out, each with its reason" in capsys.readouterr().err
