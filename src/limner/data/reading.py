"""What readers of published sets share: JSON files of a stated form, refusal of pickles, and pictures.

Each set has its own file format, and its reader stays as short as the format; this is the rest.
It makes no split and knows no set.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from limner.data.coherence import PairSet
from limner.data.faults import first_fault
from limner.data.presence import MAX_MISSING, MissingPolicy, keep_present
from limner.errors import DataError, MissingError

Form = TypeVar("Form")
PICKLE_SUFFIXES = (".pkl", ".pickle", ".p", ".joblib")
_PICKLE_PROTOCOLS = tuple(b"\x80" + bytes([number]) for number in range(2, 6))


def read_json(path: Path, form: TypeAdapter[Form], expected: str) -> Form:
    """Read a JSON file and check its form; keys the form does not name are left aside.

    Args:
        path: the file; a pickle is refused, whatever its name.
        form: of the whole file.
        expected: one phrase for messages, such as ``"an object of images and annotations"``.
    Raises:
        MissingError: no such file.
        DataError: a pickle, not JSON, or of another form.
    """
    refuse_pickle(path)
    try:
        return form.validate_json(path.read_bytes())
    except ValidationError as error:
        raise DataError(f"{path}: {first_fault(error)}; expected {expected}") from error


def refuse_pickle(path: Path) -> None:
    """Refuse a pickle by its name and by its first bytes; nothing of it is ever loaded.

    Raises:
        MissingError: no such file.
        DataError: a pickle, a folder, or not to be opened.
    """
    try:
        with path.open("rb") as file:
            head = file.read(2)
    except FileNotFoundError:
        raise MissingError(f"{path}: not there; give the file of the annotations") from None
    except IsADirectoryError:
        raise DataError(f"{path}: a folder; expected the file of the annotations") from None
    except (OSError, ValueError) as error:  # such as links in a circle
        reason = getattr(error, "strerror", None) or str(error)
        raise DataError(f"{path}: {reason}; expected a file that can be read") from None
    if path.suffix.lower() in PICKLE_SUFFIXES or head in _PICKLE_PROTOCOLS:
        raise DataError(
            f"{path}: a pickle, which runs code when loaded, and is never loaded here;"
            " convert it to JSON as docs/data.md says"
        )


def with_pictures(
    data: PairSet,
    pictures: Path | str | None,
    files: Mapping[str, str] | None = None,
    *,
    missing: MissingPolicy = "abort",
    max_missing: float = MAX_MISSING,
) -> PairSet:
    """The pairs whose pictures are there and open; the others are listed in `missing`.

    Args:
        data: `image` as the set names it.
        pictures: folder of the pictures; None leaves the set as it is, for its texts alone.
        files: `image` → file name below the folder; None where they are the same.
        missing: what to do about pictures that are not there or do not open.
        max_missing: share of pairs in [0, 1] that "abort" lets pass.
    Raises:
        DataError: see `keep_present`.
    """
    if pictures is None:
        return data
    names = files if files is not None else {pair.image: pair.image for pair in data.pairs}
    kept, absent = keep_present(
        data.name, data.pairs, names, pictures, missing=missing, max_missing=max_missing
    )
    counted = Counter(one.reason for one in absent)
    notes = tuple(f"{data.name}: {number} pairs left out: {reason}" for reason, number in counted.items())
    return replace(data, pairs=kept, missing=data.missing + absent, notes=data.notes + notes)
