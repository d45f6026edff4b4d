"""Tokenisers and vocabulary: the tokeniser of the CMCM release, a simpler default, and word numbers.

The release's quirks affect its vocabulary size and are reproduced exactly; the default drops them.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Literal

import numpy as np
from pydantic import ValidationError

from limner.config import Record
from limner.errors import DataError
from limner.files import first_fault

TokeniserName = Literal["default", "release"]
PADDING = 0
UNKNOWN = 1
FIRST_WORD = 2

_MARKS = re.compile(r'([,.;()?!&%:*"])')


def release_tokens(text: str) -> list[str]:
    r"""Split a text like the CMCM release.

    ``\xa0``, ``\t`` and ``\n`` are written out with a backslash, as in the release; real tabs, no-break
    spaces and line breaks stay inside tokens, and a leading or trailing space gives an empty token.

    Source: the release of CMCM 2022; docs/methods/data.md §5.1.
    """
    spaced = _MARKS.sub(r" \1 ", text.replace("\\xa0", ""))
    return re.split(r" |\\n", re.sub(r"(?: |\\t)+", " ", spaced))


def default_tokens(text: str) -> list[str]:
    """Split a text like the release, but at any white space and without empty tokens.

    Source: docs/methods/data.md §5.1.
    """
    return [token for piece in release_tokens(text) for token in piece.split()]


TOKENISERS: Mapping[TokeniserName, Callable[[str], list[str]]] = MappingProxyType(
    {"default": default_tokens, "release": release_tokens}
)


class _Saved(Record):
    tokeniser: TokeniserName
    words: list[str]


@dataclass(frozen=True)
class Vocabulary:
    """Words and their ids: 0 is padding, 1 any unknown word; words start at 2.

    Attributes:
        words: (V − 2,) distinct words, in the order of their numbers.
        tokeniser: name of the tokeniser.
    """

    words: tuple[str, ...]
    tokeniser: TokeniserName = "default"

    def __post_init__(self) -> None:
        """Reject duplicate words."""
        if len(self._numbers) != len(self.words):
            raise DataError(
                f"vocabulary: {len(self.words) - len(self._numbers)} words come twice; each needs its own"
            )

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self.words, FIRST_WORD)}

    @classmethod
    def build(
        cls, train_texts: Iterable[str], tokeniser: TokeniserName = "default", min_count: int = 1
    ) -> "Vocabulary":
        """Build the vocabulary of the training texts, most frequent words first, then alphabetically.

        Args:
            train_texts: texts of the training split only.
            tokeniser: name of the tokeniser.
            min_count: rarer words are unknown; at least 1.
        """
        counts = Counter(token for text in train_texts for token in TOKENISERS[tokeniser](text))
        kept = [word for word, number in counts.items() if number >= min_count]
        return cls(tuple(sorted(kept, key=lambda word: (-counts[word], word))), tokeniser)

    def __len__(self) -> int:
        """V: words, padding and unknown."""
        return len(self.words) + FIRST_WORD

    def __contains__(self, word: object) -> bool:
        """Whether a word is in the vocabulary."""
        return word in self._numbers

    def tokens(self, text: str) -> list[str]:
        """The tokens of a text."""
        return TOKENISERS[self.tokeniser](text)

    def numbers(self, text: str) -> list[int]:
        """The numbers of a text's tokens; one unknown word for a text without tokens."""
        return [self._numbers.get(token, UNKNOWN) for token in self.tokens(text)] or [UNKNOWN]

    def known(self, text: str) -> list[int]:
        """Numbers of a text's different known words, ascending, ignoring case."""
        return sorted({number for number in self.numbers(text.lower()) if number >= FIRST_WORD})

    def batch(
        self, texts: Sequence[str], max_length: int
    ) -> tuple[np.ndarray[tuple[int, int], np.dtype[np.int64]], np.ndarray[tuple[int], np.dtype[np.int64]]]:
        """Numbers of several texts, truncated and padded at the end.

        Args:
            texts: B texts.
            max_length: maximum T; at least 1.
        Returns:
            (B, T) int64 numbers, where T is the length of the longest truncated row, and (B,) int64 lengths
            in 1…T.
        """
        rows = [self.numbers(text)[:max_length] for text in texts]
        lengths = np.array([len(row) for row in rows], np.int64)
        ids = np.full((len(rows), int(lengths.max(initial=1))), PADDING, np.int64)
        for place, row in enumerate(rows):
            ids[place, : len(row)] = row
        return ids, lengths

    def to_json(self) -> str:
        """One JSON object: the tokeniser and the words."""
        return json.dumps({"tokeniser": self.tokeniser, "words": list(self.words)}, ensure_ascii=True)

    @classmethod
    def from_json(cls, text: str | bytes, where: str = "vocabulary") -> "Vocabulary":
        """Read a vocabulary from JSON.

        Raises:
            DataError: not a vocabulary, or a word comes twice.
        """
        try:
            saved = _Saved.model_validate_json(text)
        except ValidationError as error:
            raise DataError(f"{where}: {first_fault(error)}; expected tokeniser and words") from error
        return cls(tuple(saved.words), saved.tokeniser)
