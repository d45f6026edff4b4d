"""Data sets of pairs annotated with coherence relations, and their splits.

CITE, CITE++ and Clue become one form here, so that training, tables and the leak audit know no file
format. The files themselves are read in `cite` and `clue`.
"""

import csv
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, cast, get_args

import numpy as np

from limner.data.pairs import Pair, row_of
from limner.data.presence import MissingPicture
from limner.data.splits import (
    MIN_TOKENS,
    SplitName,
    balanced_split,
    duplicate_groups,
    row_keys,
    split_sizes,
    text_id,
)
from limner.errors import ConfigError, DataError, MissingError, unknown

SplitKind = Literal["grouped", "released", "random"]


@dataclass(frozen=True)
class PairSet:
    """A data set of annotated pairs.

    Attributes:
        name: such as ``"clue"``.
        relations: names in the order of the label vector.
        pairs: in file order; `split` as the files state it, "" where they state none.
        missing: pairs left out because of their picture.
        notes: one line for everything put right while reading.
    """

    name: str
    relations: tuple[str, ...]
    pairs: tuple[Pair, ...]
    missing: tuple[MissingPicture, ...] = ()
    notes: tuple[str, ...] = ()

    def split(self, name: SplitName) -> tuple[Pair, ...]:
        """The pairs of one split, in file order.

        Raises:
            DataError: the set has none.
        """
        chosen = tuple(pair for pair in self.pairs if pair.split == name)
        if not chosen:
            raise DataError(f"{self.name}: no pair of split {name!r}; make one with split_pairs")
        return chosen

    def label_rows(self) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
        """(N, C) float32 labels, 0 or 1, rows as `pairs`, columns as `relations`."""
        rows = [[pair.labels[name] for name in self.relations] for pair in self.pairs]
        return np.array(rows, np.float32).reshape(len(self.pairs), len(self.relations))


def pair_groups(
    pairs: Sequence[Pair], *, min_tokens: int = MIN_TOKENS, strict: bool = False, sequences: bool = True
) -> list[int]:
    """Duplicate group per pair: same picture, same text of enough tokens, same sequence.

    Args:
        pairs: (N,).
        min_tokens: shorter texts do not join pairs, because generic captions would chain unrelated pictures.
        strict: join over every text, however short.
        sequences: join pairs of one recipe, story, article or album.
    Returns:
        (N,) group numbers, counted by first appearance.
    Source: SPEC 1.4.2.
    """
    least = 0 if strict else min_tokens
    return duplicate_groups([row_keys(row_of(pair), min_tokens=least, sequences=sequences) for pair in pairs])


def identities(
    pairs: Sequence[Pair],
) -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]], np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """Numbers by which equal texts and equal pictures are known, so that a loss can leave duplicates out.

    Args:
        pairs: (N,).
    Returns:
        (N,) int64 of the texts and (N,) int64 of the pictures: equal where `text_id` and `image_id` are.
    Source: SPEC 1.1, the mask of true negatives.
    """
    texts = duplicate_groups([[text_id(pair.text)] for pair in pairs])
    images = duplicate_groups([[pair.image_id] for pair in pairs])
    return np.array(texts, np.int64), np.array(images, np.int64)


def split_pairs(
    data: PairSet,
    kind: SplitKind = "grouped",
    seed: int = 0,
    *,
    strict: bool = False,
    sequences: bool = True,
    test_share: float | None = None,
    val_share: float = 0.1,
) -> PairSet:
    """The set with `group` and `split` filled in.

    Args:
        data: a set as read.
        kind: "grouped" parts no group; "released" keeps the test rows of the files and cuts whole groups off
            train for validation; "random" parts rows and leaks, to reproduce what was published.
        seed: of the order in which groups or rows are dealt.
        strict: group over every text, however short.
        sequences: group over recipe, story, article or album.
        test_share: share of all pairs, in (0, 1); None takes that of the files, or 0.2 where they state none.
        val_share: share of what is not test, in (0, 1).
    Raises:
        ConfigError: unknown kind, or a share out of range.
        DataError: released, but the files state no split; or too few groups.
    Source: SPEC 1.4.3. Departs: where a split is released, validation is cut off by group, not by row.
    """
    if kind not in get_args(SplitKind):
        raise ConfigError(unknown("split", str(kind), get_args(SplitKind)))
    total = len(data.pairs)
    stated = sum(pair.split == "test" for pair in data.pairs)
    share = test_share if test_share is not None else (stated / total if stated else 0.2)
    for label, value in (("test", share), ("val", val_share)):
        if not 0 < value < 1:
            raise ConfigError(f"{data.name}: {label} share {value}, expected more than 0 and less than 1")
    groups = pair_groups(data.pairs, strict=strict, sequences=sequences)
    names: list[SplitName]
    if kind == "released":
        if not stated or any(not pair.split for pair in data.pairs):
            raise DataError(f"{data.name}: its files state no split; use grouped or random")
        names = [cast(SplitName, pair.split) for pair in data.pairs]
        if "val" not in names:
            train = [row for row, name in enumerate(names) if name == "train"]
            parts = balanced_split(
                [groups[row] for row in train], split_sizes(len(train), {"val": val_share}), seed
            )
            for row, name in zip(train, parts, strict=True):
                names[row] = name
    else:
        sizes = split_sizes(total, {"test": share, "val": (1 - share) * val_share})
        names = balanced_split(groups if kind == "grouped" else range(total), sizes, seed)
    pairs = tuple(
        pair.model_copy(update={"group": f"{data.name}-{group}", "split": name})
        for pair, group, name in zip(data.pairs, groups, names, strict=True)
    )
    return replace(data, pairs=pairs)


def read_table(
    path: Path, delimiter: str, columns: Sequence[str], *, quoted: bool = True
) -> list[dict[str, str]]:
    """Rows of a delimited UTF-8 file with a header.

    Args:
        path: the file.
        delimiter: one character.
        columns: names the header must hold; others are kept.
        quoted: whether double quotes enclose fields.
    Raises:
        MissingError: no such file.
        DataError: it cannot be read, is not UTF-8, a column is absent or named twice, or a row has another
            number of fields.
    """
    try:
        with path.open(encoding="utf-8", newline="") as file:
            lines = (
                csv.reader(file, delimiter=delimiter, strict=True)
                if quoted
                else csv.reader(file, delimiter=delimiter, quoting=csv.QUOTE_NONE)
            )
            header = next(lines, [])
            absent = [column for column in columns if column not in header]
            if absent or len(set(header)) != len(header):
                found = f"lacks {', '.join(absent)}" if absent else "names a column twice"
                raise DataError(f"{path}: the header {found}; expected {', '.join(columns)}")
            rows = []
            for row in lines:
                if len(row) != len(header):
                    raise DataError(
                        f"{path}:{lines.line_num}: {len(row)} fields, expected {len(header)}; "
                        "is the delimiter right and the file whole?"
                    )
                rows.append(dict(zip(header, row, strict=True)))
    except FileNotFoundError:
        raise MissingError(f"{path}: not there; give the file or folder of the annotations") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: byte {error.start} is not UTF-8; save the file as UTF-8") from error
    except OSError as error:  # a folder, links in a circle
        raise DataError(f"{path}: cannot be read ({error.strerror}); give a delimited file") from error
    except csv.Error as error:
        raise DataError(
            f"{path}:{lines.line_num}: {error}; is the delimiter right and the file whole?"
        ) from error
    if not rows:
        raise DataError(f"{path}: no rows; is the file whole?")
    return rows


def flag(where: str, column: str, value: str, words: tuple[str, str]) -> int:
    """0 or 1 from the two words a file uses for no and yes.

    Raises:
        DataError: any other word.
    """
    if value not in words:
        raise DataError(f"{where}: {column} is {value!r}, expected {words[0]} or {words[1]}")
    return words.index(value)
