"""Reading and gathering files of results: one clear line for each thing that can be wrong."""

import pytest

from limner.errors import DataError, MissingError
from limner.evaluation.results import gather, read_as, write_whole
from limner.records import Record


class Figure(Record):
    system: str
    value: float


def read(path):
    return read_as(path, Figure, "a figure", "measure one")


def test_what_is_written_is_read_and_nothing_is_left_beside_it(tmp_path):
    target = tmp_path / "run" / "figure.json"
    assert write_whole(Figure(system="a", value=0.5), target) == target
    assert read(target) == Figure(system="a", value=0.5)
    assert [file.name for file in target.parent.iterdir()] == ["figure.json"]


def test_what_is_wrong_is_said_with_the_place(tmp_path):
    with pytest.raises(MissingError, match=r"none\.json: not there; measure one first"):
        read(tmp_path / "none.json")
    with pytest.raises(DataError, match=r"cannot be read .*expected a figure"):
        read(tmp_path)
    damaged = tmp_path / "damaged.json"
    damaged.write_text('{"system": "a", "value": "much"}')
    with pytest.raises(DataError, match=r"damaged\.json: value: .*; expected a figure of this version"):
        read(damaged)
    damaged.write_text("{")
    with pytest.raises(DataError, match="the file: "):
        read(damaged)


def test_twins_are_refused_by_name_unless_they_are_wanted(tmp_path):
    for name in ("first", "second"):
        write_whole(Figure(system="a", value=1), tmp_path / name / "figure.json")
    assert len(gather(tmp_path, "**/*.json", read, None)) == 2
    with pytest.raises(DataError, match=r"second.*same system and value as .*first.*keep one"):
        gather(tmp_path, "**/*.json", read, lambda one: {"system": one.system, "value": one.value})
    with pytest.raises(MissingError, match="not a folder"):
        gather(tmp_path / "none", "**/*.json", read, None)
