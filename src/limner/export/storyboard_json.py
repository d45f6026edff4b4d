"""The storyboard as JSON: everything it holds, with the version of its schema.

The exchange format between limner, its studio and other programs; what is written is read back and
compared before it takes its place. It holds paths of pictures, never pixels.
"""

import json
from pathlib import Path

from pydantic import ValidationError

from limner.errors import DataError, MissingError, NumericsError, counted
from limner.export.plan import Plan
from limner.export.targets import Exported, put
from limner.files import first_fault
from limner.records import SCHEMA_VERSION, Board


def write(board: Board, out: Path, _: Plan) -> Exported:
    """Write the JSON form, which is always whole.

    Args:
        board: the storyboard.
        out: the .json file; checked by the caller.

    Raises:
        NumericsError: a number is NaN or infinite, which JSON cannot say.
    """
    text = board.model_dump_json(indent=2)
    try:
        same = Board.model_validate_json(text) == board
    except ValidationError:
        same = False
    if not same:
        raise NumericsError(
            f"export: {out.name}: the storyboard does not survive JSON, most likely a score that is NaN or"
            " infinite; expected finite numbers; check the channels it was made with"
        )
    put(out, f"{text}\n".encode())
    return Exported(out)


def load(path: Path) -> Board:
    """Read a storyboard written by `write`.

    Args:
        path: the .json file.
    Raises:
        MissingError: it is not there.
        DataError: not JSON, another schema version, or not a storyboard.
    """
    due = "expected a storyboard's .json file"
    try:
        found = json.loads(path.read_bytes())
    except FileNotFoundError as error:
        raise MissingError(f"load: {path} is not there; {due}") from error
    except OSError as error:
        raise DataError(f"load: {path} cannot be read: {error.strerror}; {due}") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"load: {path} is not JSON ({error}); {due}") from error
    version = found.get("schema_version") if isinstance(found, dict) else None
    if version is None:
        raise DataError(f"load: {path} has no schema_version; expected a storyboard written by limner")
    if type(version) is not int or version != SCHEMA_VERSION:
        raise DataError(
            f"load: {path} has schema_version {version!r}, expected {SCHEMA_VERSION};"
            " read it with the limner that wrote it, or illustrate the text again"
        )
    try:
        return Board.model_validate(found, strict=False)
    except ValidationError as error:
        others = error.error_count() - 1
        more = f" (and {counted(others, 'more fault')})" if others else ""
        raise DataError(
            f"load: {path}: {first_fault(error)}{more};"
            " expected a storyboard as docs/storyboard.schema.json describes it"
        ) from error


def schema() -> str:
    """The JSON Schema of the storyboard, as text ending in a line feed."""
    described = Board.model_json_schema(mode="serialization")
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "limner storyboard"}
    return json.dumps(head | described | head, indent=2) + "\n"
