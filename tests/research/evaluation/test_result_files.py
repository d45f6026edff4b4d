"""Reading and gathering files of results: one clear line for each thing that can be wrong."""

from typing import ClassVar, Literal

import pytest

from limner.errors import DataError, MissingError
from limner.research.evaluation.results import About, ResultFile


class Figure(ResultFile):
    FOLDER: ClassVar[str] = "figures"
    WHAT: ClassVar[str] = "a figure"
    MAKER: ClassVar[str] = "measure one"

    format: Literal["figure-1"] = "figure-1"
    value: float


FIGURE = Figure(about=About(system="a", data="made-up", split="grouped"), value=0.5)


def test_what_is_written_is_read_and_nothing_is_left_beside_it(tmp_path):
    target = tmp_path / "run" / "figures" / "made-up-grouped-test.json"
    assert FIGURE.write(tmp_path / "run") == target
    assert Figure.read(target) == FIGURE
    assert [file.name for file in target.parent.iterdir()] == [target.name]
    assert Figure.read_part(tmp_path / "run", "test") == FIGURE
    with pytest.raises(DataError, match=r"0 found, expected one; run .* --part val' first"):
        Figure.read_part(tmp_path / "run", "val")


def test_what_is_wrong_is_said_with_the_place(tmp_path):
    with pytest.raises(MissingError, match=r"none\.json: does not exist; measure one first"):
        Figure.read(tmp_path / "none.json")
    with pytest.raises(DataError, match=r"cannot be read .*expected a figure"):
        Figure.read(tmp_path)
    damaged = FIGURE.write(tmp_path)
    damaged.write_text(damaged.read_text().replace("0.5", "0.7"))
    with pytest.raises(DataError, match=r"damaged \(its checksum differs.*; measure one again"):
        Figure.read(damaged)
    damaged.write_text(FIGURE.model_dump_json().replace("0.5", '"much"'))  # without a checksum
    with pytest.raises(DataError, match=r"test\.json: value: .*; expected a figure of this version"):
        Figure.read(damaged)
    damaged.write_text("{")
    with pytest.raises(DataError, match="the file: "):
        Figure.read(damaged)


def test_twins_are_refused_by_name_unless_they_are_wanted(tmp_path):
    for name in ("first", "second"):
        FIGURE.write(tmp_path / name)
    assert len(Figure.read_all(tmp_path, variants=True)) == 2
    with pytest.raises(DataError, match=r"second.*same system, .* and seed as .*first.*keep one"):
        Figure.read_all(tmp_path)
    with pytest.raises(MissingError, match="not a folder"):
        Figure.read_all(tmp_path / "none")
