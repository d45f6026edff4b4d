"""A step's text in pieces that are shown alike: the words met, and the words a trained model looked at.

For the page, whose text stays one text to read and to search. It shows nothing itself.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from limner.apps.export.explanations import highlighted
from limner.apps.export.predictions import is_word, strength


@dataclass(frozen=True)
class Piece:
    """A part of a text that is shown alike.

    Attributes:
        text: the part.
        met: whether it is of the words met in the picture's words.
        strength: of attention, 1 to 5; 0 where there is none.
    """

    text: str
    met: bool
    strength: int


def pieces(
    texts: Sequence[str], matched: tuple[str, ...], attention: Sequence[tuple[str, float]]
) -> tuple[tuple[Piece, ...], ...]:
    """Texts cut where the words met or the attention change; joined, the pieces are the texts.

    Args:
        texts: parts of one text in their order, such as its title and its paragraphs.
        matched: words met.
        attention: words of the text in their order, with their shares; one that is not found is left out.
    """
    owners = [[0] * len(text) for text in texts]  # 1 + the number of the word that a letter belongs to
    place, start = 0, 0
    for number, (word, _) in enumerate(attention, 1):
        if not is_word(word):
            continue
        pattern = re.compile(rf"(?<!\w){re.escape(word)}(?!\w)")
        for part in range(place, len(texts)):
            found = pattern.search(texts[part], start if part == place else 0)
            if found:
                place, start = part, found.end()
                owners[part][found.start() : start] = [number] * (start - found.start())
                break
    return tuple(_cut(text, matched, own, attention) for text, own in zip(texts, owners, strict=True))


def _cut(
    text: str, matched: tuple[str, ...], owners: list[int], attention: Sequence[tuple[str, float]]
) -> tuple[Piece, ...]:
    """One text in pieces."""
    met = [is_met for piece, is_met in highlighted(text, matched) for _ in piece]
    found = []
    for (is_met, owner), places in groupby(range(len(text)), key=lambda at: (met[at], owners[at])):
        shown = "".join(text[at] for at in places)
        share = strength(attention[owner - 1][1], len(attention)) if owner else 0
        found.append(Piece(shown, is_met, share))
    return tuple(found)
