"""Which pictures of a data set are really there, and what is wrong with the others.

Every picture is opened once before any work starts; a pair whose picture is missing or broken is left out,
counted and listed, never given another picture.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from limner.datasets.pairs import MissingPicture, Pair
from limner.errors import DataError
from limner.files import write_lines
from limner.pictures.decode import PictureError, decode

MissingPolicy = Literal["abort", "drop"]
MAX_MISSING = 0.02
_PROBE_PX = 32


def picture_fault(data: bytes) -> str:
    """What is wrong with the bytes of a picture; "" when they decode to the end."""
    if not data:
        return "empty file"
    try:
        decode(data, _PROBE_PX)
    except PictureError as error:
        return " ".join(str(error).split())
    return ""


def keep_present(
    name: str,
    pairs: Sequence[Pair],
    files: Mapping[str, str],
    folder: Path | str,
    *,
    missing: MissingPolicy = "abort",
    max_missing: float = MAX_MISSING,
) -> tuple[tuple[Pair, ...], tuple[MissingPicture, ...]]:
    """Pairs whose picture is there and opens, with path and hash filled in, and the list of the others.

    Args:
        name: of the data set, for messages.
        pairs: with `image` as the data set names it.
        files: `image` → file name below the folder.
        folder: of the pictures.
        missing: "abort" above the share, or "drop" whatever their number.
        max_missing: share of pairs in [0, 1] that may be left out.
    Raises:
        DataError: the folder is not there, a name leads out of it, too many are missing, or all are.
    """
    if missing not in ("abort", "drop"):
        raise DataError(f"{name}: missing={missing!r}, expected 'abort' or 'drop'")
    root = Path(folder).resolve()
    if not root.is_dir():
        raise DataError(f"{name}: {root} is not a folder; give that of the pictures, or None for texts alone")
    looked: dict[str, tuple[str, str, str]] = {}
    kept: list[Pair] = []
    absent: list[MissingPicture] = []
    for pair in pairs:
        if pair.image not in looked:
            looked[pair.image] = _look(name, root, files.get(pair.image, ""))
        path, digest, reason = looked[pair.image]
        if reason:
            absent.append(MissingPicture(id=pair.id, image=files.get(pair.image, pair.image), reason=reason))
        else:
            kept.append(pair.model_copy(update={"image": path, "image_hash": digest}))
    share = len(absent) / len(pairs) if pairs else 0.0
    if (missing == "abort" and share > max_missing) or (pairs and not kept):
        first = absent[0]
        raise DataError(
            f"{name}: {len(absent)} of {len(pairs)} pairs lack their picture "
            f"({share:.1%}, allowed {max_missing:.1%}), first {first.image!r}: "
            f"{first.reason}; fetch them, pass missing='drop', or read the texts alone"
        )
    return tuple(kept), tuple(absent)


def _look(name: str, root: Path, file: str) -> tuple[str, str, str]:
    """Path, hash and fault of one picture."""
    if not file:
        return "", "", "no file name is known for it"
    named = Path(file)
    if "\0" in file or named.is_absolute() or ".." in named.parts:
        raise DataError(
            f"{name}: picture {file!r} lies outside the folder; expected a name below {root.name}"
        )
    path = root / named
    try:
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return "", "", "no such file"
    except OSError as error:
        return "", "", f"cannot be read: {error.strerror}"
    return str(path), hashlib.sha256(data).hexdigest(), picture_fault(data)


LEFT_OUT = "left_out.jsonl"


def write_left_out(missing: Sequence[MissingPicture], run: Path) -> str:
    """Write the list, whole or not at all, or remove that of an earlier start when nothing is left out now.

    Args:
        missing: pairs left out, each with picture and reason.
        run: folder of the run; made if absent.
    Returns:
        A line for the person; "" when nothing was left out.
    """
    target = run / LEFT_OUT
    if not missing:
        target.unlink(missing_ok=True)
        return ""
    run.mkdir(parents=True, exist_ok=True)
    write_lines(target, (json.dumps(one.model_dump()) for one in missing))
    pictures = len({one.image for one in missing})
    return f"{target}: {len(missing):,} pairs of {pictures:,} pictures left out, each with its reason"
