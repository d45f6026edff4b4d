"""JSON: all of it comes back, and nothing else is taken for it."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limner.errors import DataError, MissingError, NumericsError
from limner.export import export
from limner.export.storyboard_json import load, schema
from limner.records import Board

SCHEMA = Path(__file__).parents[2] / "docs" / "storyboard.schema.json"


def test_round_trip(board: Board, arabic_board: Board, tmp_path: Path) -> None:
    for name, each in (("a.json", board), ("b.json", arabic_board)):
        export(each, tmp_path / name)
        assert load(tmp_path / name) == each
    assert "السلحفاة" in (tmp_path / "b.json").read_text(encoding="utf-8")


def test_predictions_come_back_and_older_boards_still_load(
    board: Board, model_board: Board, tmp_path: Path
) -> None:
    export(model_board, tmp_path / "new.json")
    assert load(tmp_path / "new.json") == model_board
    older = json.loads(board.model_dump_json())
    for step in older["steps"]:
        del step["relations"], step["attention"]
    (tmp_path / "old.json").write_text(json.dumps(older))
    assert load(tmp_path / "old.json") == board
    for key, value in (("relations", {"story": 1.2}), ("attention", [["word", -0.1]])):
        wrong = json.loads(board.model_dump_json())
        wrong["steps"][0][key] = value
        (tmp_path / "wrong.json").write_text(json.dumps(wrong))
        with pytest.raises(DataError, match=f"steps.0.{key}"):
            load(tmp_path / "wrong.json")


@settings(max_examples=25, deadline=None)
@given(text=st.text(min_size=1, max_size=60), title=st.text(max_size=30))
def test_round_trip_of_odd_texts(make_board, tmp_path_factory, text: str, title: str) -> None:
    out = tmp_path_factory.mktemp("odd") / "odd.json"
    each = make_board([text], title=title)
    export(each, out)
    assert load(out) == each


@pytest.mark.parametrize("version", [0, 2, "1", True, 1.5])
def test_another_version_is_refused(board: Board, tmp_path: Path, version: object) -> None:
    out = tmp_path / "out.json"
    out.write_text(json.dumps(json.loads(board.model_dump_json()) | {"schema_version": version}))
    with pytest.raises(DataError, match=r"schema_version .* expected 1"):
        load(out)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "is not JSON"),
        ("[]", "no schema_version"),
        ('{"schema_version": 1}', "story: Field required"),
        ('{"schema_version": 1, "sotry": 1}', "and 2 more errors"),
        ("[" * 100_000, "is not JSON"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, content: str, said: str) -> None:
    out = tmp_path / "out.json"
    out.write_text(content)
    with pytest.raises(DataError, match=said):
        load(out)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="does not exist"):
        load(tmp_path / "no.json")


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_json_cannot_say(board: Board, tmp_path: Path, value: float) -> None:
    with pytest.raises(NumericsError, match="finite"):
        export(board.model_copy(update={"threshold": value}), tmp_path / "out.json")
    assert list(tmp_path.iterdir()) == []


def test_schema_file_is_fresh() -> None:
    assert SCHEMA.read_text(encoding="utf-8") == schema(), (
        f"write limner.export.storyboard_json.schema() to {SCHEMA}"
    )


def test_schema_names_every_field_written(board: Board) -> None:
    described = json.loads(schema())
    written = json.loads(board.model_dump_json())
    assert set(described["properties"]) == set(written)
    assert described["properties"]["schema_version"]["const"] == written["schema_version"]
    assert set(described["$defs"]["BoardStep"]["properties"]) == set(written["steps"][0])
    assert set(described["$defs"]["Candidate"]["properties"]) == set(written["steps"][0]["chosen"])
    assert described["additionalProperties"] is False
