"""The canonical pair: one text with one picture, its relations, its place and its split.

Readers of annotated data sets yield it, training and evaluation take it, and JSON lines keep it.
It names pictures and reads none.
"""

import os
import secrets
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from limner.data.records import Record
from limner.data.splits import Row, text_id
from limner.errors import DataError, MissingError

PairSplit = Literal["", "train", "val", "test"]
Label = Annotated[int, Field(ge=0, le=1)]
MetaValue = str | int | float | bool | None


class Pair(Record):
    """One text with one picture.

    Attributes:
        id: unique inside its data set.
        text: the words, unmodified.
        image: file path, or URL where no picture is at hand; only ever compared or opened.
        image_hash: SHA-256 of the picture's bytes, 64 hex digits; "" while unknown.
        group: duplicate group; "" before a split was made.
        split: train, val or test; "" where none was made.
        labels: relation → 0 or 1, in the order of the data set.
        seq: recipe, story, article or album it belongs to; "" for none.
        pos: place in it, from 0; None for none.
        meta: what else the source states: row number, URL, author, origin of the text.
    Source: SPEC 1.2.
    """

    id: str = Field(min_length=1)
    text: str
    image: str
    image_hash: str = Field(default="", pattern=r"^([0-9a-f]{64})?$")
    group: str = ""
    split: PairSplit = ""
    labels: Mapping[str, Label] = Field(default_factory=dict)
    seq: str = ""
    pos: int | None = Field(default=None, ge=0)
    meta: Mapping[str, MetaValue] = Field(default_factory=dict)

    @property
    def image_id(self) -> str:
        """Identity of the picture: hash of its bytes, else its URL, else its file name."""
        url = self.meta.get("url")
        return self.image_hash or (url if isinstance(url, str) else "") or self.image


def row_of(pair: Pair) -> Row:
    """The pair as a split sees it."""
    return Row(text=pair.text, image=pair.image_id, sequence=pair.seq)


def one_row_per_pair(pairs: Sequence[Pair]) -> tuple[Pair, ...]:
    """Keep one row of every repeated pair, with the majority of its labels; for retrieval.

    Rows repeat where text (letter case and white space aside) and picture agree inside one split.
    The first row stays and takes, per relation, the majority of those rows that state it; a tie is 1.
    `meta` gains ``copies``. Training of relations uses all rows instead.

    Source: SPEC 1.4.4.
    """
    copies: dict[tuple[str, str, str], list[Pair]] = {}
    for pair in pairs:
        copies.setdefault((pair.split, text_id(pair.text), pair.image_id), []).append(pair)
    kept = []
    for same in copies.values():
        names = list(dict.fromkeys(name for pair in same for name in pair.labels))
        labels = {
            name: _majority([pair.labels[name] for pair in same if name in pair.labels]) for name in names
        }
        meta = {**same[0].meta, "copies": len(same)}
        kept.append(same[0].model_copy(update={"labels": labels, "meta": meta}))
    return tuple(kept)


def write_pairs(pairs: Iterable[Pair], path: Path | str) -> None:
    """Write pairs as JSON lines; the file appears whole or not at all.

    Raises:
        DataError: two pairs have one id, or a text is not Unicode.
    """
    target = Path(path)
    seen: set[str] = set()
    part = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        with part.open("x", encoding="utf-8", newline="\n") as file:
            for pair in pairs:
                if pair.id in seen:
                    raise DataError(f"{target.name}: id {pair.id!r} comes twice; give every pair its own")
                seen.add(pair.id)
                try:
                    file.write(pair.model_dump_json(exclude_defaults=True) + "\n")
                except (UnicodeEncodeError, ValueError) as error:
                    raise DataError(
                        f"{target.name}: pair {pair.id!r} cannot be written as UTF-8: {error}"
                    ) from error
            file.flush()
            os.fsync(file.fileno())
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def read_pairs(path: Path | str) -> tuple[Pair, ...]:
    """Read pairs from JSON lines.

    Raises:
        MissingError: no such file.
        DataError: the file cannot be read, a line is not a pair, or an id comes twice.
    """
    source = Path(path)
    try:
        text = source.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise MissingError(f"{source}: not there; write pairs with write_pairs") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{source}: byte {error.start} is not UTF-8; save the file as UTF-8") from error
    except OSError as error:  # a folder, links in a circle
        raise DataError(f"{source}: cannot be read ({error.strerror}); give a file of pairs") from error
    pairs: list[Pair] = []
    seen: set[str] = set()
    # only line feeds end a line: a text may hold other separators, which JSON need not escape
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        where = f"{source.name}:{number}"
        try:
            pair = Pair.model_validate_json(line)
        except ValidationError as error:
            first = error.errors()[0]
            key = ".".join(str(part) for part in first["loc"]) or "the line"
            raise DataError(f"{where}: {key}: {first['msg']}; see limner.data.pairs for the form") from error
        if pair.id in seen:
            raise DataError(f"{where}: id {pair.id!r} comes twice; give every pair its own")
        seen.add(pair.id)
        pairs.append(pair)
    return tuple(pairs)


def _majority(values: Sequence[int]) -> int:
    return int(2 * sum(values) >= len(values))
