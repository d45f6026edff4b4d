"""JSON: all of it comes back, and nothing else is taken for it."""

import json
from pathlib import Path

import pytest
from exports import board_of

from limner.errors import DataError, MissingError, NumericsError
from limner.export import export
from limner.export.storyboard_json import load, schema
from limner.records import Block, Board, PictureRef

SCHEMA = Path(__file__).parents[2] / "docs" / "storyboard.schema.json"


def test_boards_come_back(recipe, travels, arabic_board, board, tmp_path: Path) -> None:
    for name, made in enumerate((recipe, travels, arabic_board, board)):
        assert load(export(made, tmp_path / f"{name}.json").path) == made
    assert "السلحفاة" in (tmp_path / "2.json").read_text(encoding="utf-8")


def test_bytes_of_a_picture_inside_a_document_are_not_part_of_it(tmp_path: Path) -> None:
    inside = PictureRef(target="picture-1.png", data=b"\x89PNG\xff", sha256="0" * 64)
    board = board_of([Block(text="Words."), Block(kind="picture", pictures=(inside,))])
    stored = load(export(board, tmp_path / "out.json").path)
    assert stored.story.blocks[1].pictures == (inside.model_copy(update={"data": None}),)


def test_other_files_are_refused(tmp_path: Path) -> None:
    for content, message in (
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("[]", "has schema_version None, expected 2"),
        ('{"schema_version": 1}', "has schema_version 1, expected 2: .* illustrate .* again"),
        ('{"schema_version": true}', "has schema_version True"),
        ('{"schema_version": 2, "sotry": 1}', "and 2 more errors"),
    ):
        (tmp_path / "out.json").write_text(content)
        with pytest.raises(DataError, match=message):
            load(tmp_path / "out.json")
    with pytest.raises(MissingError, match="does not exist"):
        load(tmp_path / "no.json")


def test_numbers_json_cannot_say(board: Board, tmp_path: Path) -> None:
    with pytest.raises(NumericsError, match="finite"):
        export(board.model_copy(update={"threshold": float("nan")}), tmp_path / "out.json")
    assert list(tmp_path.iterdir()) == []


def test_the_schema_is_fresh_and_names_every_field_written(board: Board) -> None:
    assert SCHEMA.read_text(encoding="utf-8") == schema(), f"write storyboard_json.schema() to {SCHEMA}"
    described, written = json.loads(schema()), json.loads(board.model_dump_json())
    assert set(described["properties"]) == set(written)
    assert set(described["$defs"]["BoardStep"]["properties"]) == set(written["steps"][0])
    assert set(described["$defs"]["Block"]["properties"]) == set(written["story"]["blocks"][0])
    assert described["additionalProperties"] is False
