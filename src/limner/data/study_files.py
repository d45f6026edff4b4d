"""The folder of a study: written once, and checked against its registration whenever it is read.

What was registered before the first vote is what raters see and what is reported: any altered file is one
clear error. Votes are only read from exported lines here; it holds no database and copies no picture.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from limner.data.records import Record
from limner.data.studies import Item, Key, Population, Study, StudyFiles, Vote
from limner.errors import DataError, MissingError
from limner.files import first_fault, json_rows

STUDY, ITEMS, KEY, POPULATION = "study.json", "items.jsonl", "key.json", "population.json"
PICTURES = "pictures"
Form = TypeVar("Form", bound=Record)


def registered(values: Mapping[str, object], files: Mapping[str, bytes]) -> Study:
    """The registration with the hashes of its files and of itself filled in.

    Args:
        values: fields of `Study` without the hashes.
        files: contents of `ITEMS`, `KEY` and `POPULATION`, as written.
    """
    hashes = {
        "items_sha256": _sha256(files[ITEMS]),
        "key_sha256": _sha256(files[KEY]),
        "population_sha256": _sha256(files[POPULATION]),
    }
    draft = Study.model_validate({**values, **hashes, "sha256": "0" * 64})
    return draft.model_copy(update={"sha256": fingerprint(draft)})


def fingerprint(study: Study) -> str:
    """SHA-256 of the registration without its own hash, as JSON with sorted keys and no spaces."""
    plain = study.model_dump(mode="json", exclude={"sha256"})
    return _sha256(
        json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode("utf-8")
    )


def item_lines(items: Iterable[Item]) -> bytes:
    """Items as they lie in `ITEMS`."""
    return "".join(item.model_dump_json() + "\n" for item in items).encode("utf-8")


def read_study(folder: Path | str, *, pictures: bool = True) -> StudyFiles:
    """Read a study and check it against its registration.

    Args:
        folder: of the study.
        pictures: also check that every picture is there and unaltered.
    Raises:
        MissingError: a file is not there.
        DataError: a file is not of its form, or was altered after registration.
    """
    home = Path(folder)
    study = _read(home / STUDY, Study)
    if fingerprint(study) != study.sha256:
        raise DataError(_altered(home, STUDY))
    for name, due in (
        (ITEMS, study.items_sha256),
        (KEY, study.key_sha256),
        (POPULATION, study.population_sha256),
    ):
        if _sha256(_bytes(home / name)) != due:
            raise DataError(_altered(home, name))
    found = StudyFiles(
        study=study,
        items=tuple(
            row
            for _, row in json_rows(home / ITEMS, Item, holds="a study", one="item", see="docs/studies.md")
        ),
        key=_read(home / KEY, Key),
        population=_read(home / POPULATION, Population),
    )
    ids = [item.id for item in found.items]
    if len(set(ids)) != len(ids) or set(ids) != set(found.key.items):
        raise DataError(f"{home}: items and key name different items; create the study again")
    if pictures:
        for name in sorted({one.picture for item in found.items for one in item.candidates}):
            if _sha256(_bytes(home / PICTURES / name)) != name.partition(".")[0]:
                raise DataError(_altered(home, f"{PICTURES}/{name}"))
    return found


def read_votes(path: Path | str) -> list[Vote]:
    """Votes of an exported file of JSON lines.

    Raises:
        MissingError: no such file.
        DataError: a line is no vote.
    """
    rows = json_rows(
        Path(path),
        Vote,
        holds="'limner study export' writes such files",
        one="vote",
        see="docs/studies.md",
    )
    return [row for _, row in rows]


def vote_lines(votes: Iterable[Vote]) -> str:
    """Votes as JSON lines, as `read_votes` reads them."""
    return "".join(vote.model_dump_json() + "\n" for vote in votes)


def _read(path: Path, form: type[Form]) -> Form:
    try:
        return form.model_validate_json(_bytes(path))
    except ValidationError as error:
        raise DataError(f"{path}: {first_fault(error)}; create the study again") from error


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise MissingError(f"{path}: not there; name a folder that 'limner study create' made") from None
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error}; expected a file that can be read") from error


def _altered(folder: Path, name: str) -> str:
    return (
        f"{folder}/{name}: altered after the study was registered (its hash differs);"
        " put the registered file back, or create a new study"
    )


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
