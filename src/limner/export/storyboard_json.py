"""Storyboards as JSON, with the version of the schema: written and read.

The exchange format between limner, its studio and other programs. The JSON is read again and compared with
the storyboard before the file is written. Pictures are stored as paths, not embedded.
"""

import json
from pathlib import Path

from pydantic import ValidationError

from limner.errors import DataError, NumericsError, counted
from limner.export import Exported, Plan
from limner.files import first_fault, readable, write_bytes
from limner.records import SCHEMA_VERSION, Board


def write(board: Board, out: Path, _: Plan) -> Exported:
    """Write the storyboard as JSON, with all fields whatever the plan.

    Args:
        board: the storyboard.
        out: the .json file; the caller has made sure that it may be written.

    Raises:
        NumericsError: the storyboard would read back differently, for instance because a score is NaN.
    """
    text = board.model_dump_json(indent=2)
    try:
        same = Board.model_validate_json(text).model_dump() == board.model_dump()
    except ValidationError:
        same = False
    if not same:
        raise NumericsError(
            f"export: {out.name}: the storyboard cannot be saved as JSON, probably because a score is NaN or"
            " infinite; expected finite numbers; check the channels (encoders) that it was made with"
        )
    write_bytes(out, f"{text}\n".encode())
    return Exported(out)


def load(path: Path) -> Board:
    """Read a storyboard written by `write`.

    Args:
        path: the .json file.

    Returns:
        The storyboard, equal to the one that was written.

    Raises:
        MissingError: the file does not exist.
        DataError: the file cannot be read, is not JSON, has another schema version, or is not a storyboard.
    """
    with readable(path, "expected a storyboard's .json file"):
        data = path.read_bytes()
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: is not JSON ({error}); expected a storyboard's .json file") from error
    version = content.get("schema_version") if isinstance(content, dict) else None
    if type(version) is not int or version != SCHEMA_VERSION:
        raise DataError(
            f"{path}: has schema_version {version!r}, expected {SCHEMA_VERSION}: it is no storyboard, or was"
            " made by an earlier version of limner; illustrate the text again"
        )
    try:
        return Board.model_validate(content, strict=False)
    except ValidationError as error:
        others = error.error_count() - 1
        more = f" (and {counted(others, 'more error')})" if others else ""
        raise DataError(
            f"{path}: {first_fault(error)}{more};"
            " expected a storyboard as docs/storyboard.schema.json describes it"
        ) from error


def schema() -> str:
    """JSON Schema of the storyboard, as text that ends in a newline."""
    described = Board.model_json_schema(mode="serialization")
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "limner storyboard"}
    return json.dumps(head | described | head, indent=2) + "\n"
