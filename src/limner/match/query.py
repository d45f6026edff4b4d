"""What a person should know of the words they search for: what nothing reads, and negation, which inverts."""

from __future__ import annotations

import re
from collections.abc import Iterable

from limner.language import ENGLISH, has_words, in_known_letters
from limner.store.channels import Channel

_NEGATION = re.compile(
    r"\b(no one|nobody|without|no|not|never|none|(?:is|are|was|were|do|does|did|has|have)n['’]t)\b"
    r"(?:\s+(?:an?|the|any|of|one|in|have|show|contain)\b)*\s*",
    re.IGNORECASE,
)
# Where what is negated ends: "a beach with no people on it".
_END = re.compile(r"[,.;:!?()]|\b(?:and|but|or|on|in|at|with|of|near|by|under|over|behind)\b", re.IGNORECASE)
_PEOPLE = ("no one", "nobody")


def unreadable(text: str, channels: Iterable[Channel]) -> str | None:
    """One line where words hold nothing that an encoder knows: signs alone, or unknown letters; else None.

    Args:
        text: the words.
        channels: that take part; one that takes every language is given every letter too.
    """
    if not has_words(text):
        return (
            f"{text.strip()[:40]!r} has no letters or digits, so that nothing can be searched for; use words"
        )
    if not in_known_letters(text) and all(one.reads is not None for one in channels):
        return f"{text.strip()[:40]!r} is in letters that no installed encoder knows; use other words"
    return None


def negation_note(text: str, language: str, option: str = "--without") -> str | None:
    """One line where English words negate something, with what to ask instead; else None.

    Args:
        text: the words.
        language: their ISO 639 code.
        option: what takes the words for what is unwanted.
    """
    found = _NEGATION.search(text)
    if found is None or language != ENGLISH:
        return None
    word = " ".join(found[1].split())
    if word.lower() in _PEOPLE:
        named = "people"
    else:
        rest = text[found.end() :]
        end = _END.search(rest)
        named = " ".join((rest if end is None else rest[: end.start()]).split())
    example = f' "{named}"' if named and '"' not in named else ""
    return (
        f'a search does not understand "{word}": it finds pictures of what is named;'
        f" say what to leave out by {option}{example}"
    )
