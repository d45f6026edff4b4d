"""Languages of texts and queries; notes on words that no encoder can read, and on negations."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from limner.language import (
    COMMON,
    ENGLISH,
    MORE_LANGUAGES,
    Languages,
    has_words,
    in_known_letters,
    language_name,
    languages_of,
)
from limner.records import Story
from limner.store import Settings
from limner.store.search import Channel

_NEGATION = re.compile(
    r"\b(no one|nobody|without|no|not|never|none|(?:is|are|was|were|do|does|did|has|have)n['’]t)\b"
    r"(?:\s+(?:an?|the|any|of|one|in|have|show|contain)\b)*\s*",
    re.IGNORECASE,
)
# end of the negated words: "a beach with no people on it"
_END = re.compile(r"[,.;:!?()]|\b(?:and|but|or|on|in|at|with|of|near|by|under|over|behind)\b", re.IGNORECASE)
_PEOPLE = ("no one", "nobody")


def languages_of_story(story: Story) -> Languages:
    """Language of each step: the stated one, unless a step clearly differs."""
    from limner.match.illustrate import step_texts

    stated = story.language.partition("-")[0].lower()
    return languages_of(step_texts(story), {stated: 1.0} if stated else None)


def language_of_query(text: str, settings: Settings) -> str:
    """ISO 639 code of a query; if it could be in several languages, the library's.

    Args:
        text: the query.
        settings: settings of the library.
    """
    shares = settings.languages
    expected = shares if next(iter(shares), ENGLISH) != ENGLISH else None
    return languages_of([text], expected).each[0].code


def foreign(texts: Sequence[str]) -> list[bool]:
    """Mask of the texts that are not in English."""
    return [one.code != ENGLISH for one in languages_of(texts).each]


def unread(codes: Sequence[str], channels: Iterable[Channel]) -> list[int]:
    """Indices, from 0, of the texts that no channel can read.

    Args:
        codes: ISO 639 code of each text.
        channels: channels that are used.
    """
    reads = [channel.reads for channel in channels]
    return [n for n, code in enumerate(codes) if all(own is not None and code not in own for own in reads)]


def unread_note(codes: Sequence[str], channels: Iterable[Channel]) -> str | None:
    """Note on steps that no encoder can read, with advice; None without such steps."""
    channels = tuple(channels)
    steps = unread(codes, channels)
    if not steps:
        return None
    names = ", ".join(dict.fromkeys(language_name(codes[n]) for n in steps))
    some = f"{len(steps)} of {len(codes)} steps {'is' if len(steps) == 1 else 'are'}"
    part = "the text is" if len(steps) == len(codes) else some
    spaces = {channel.space for channel in channels}
    if (
        "clip" in spaces
        and not spaces & {"base", "multilingual"}
        and {codes[n] for n in steps} <= set(COMMON)
    ):
        return (
            f"{part} in a language that CLIP does not read: {names}; 'limner index' on the folders with"
            " --encoder base adds what such texts are compared with"
        )
    return f"{part} in a language that no installed encoder reads: {names}; {MORE_LANGUAGES}"


def unreadable(text: str, channels: Iterable[Channel]) -> str | None:
    """Note on a query of only symbols, or in a script that no encoder knows; otherwise None.

    Args:
        text: the query.
        channels: channels that are used; one that reads all languages reads all scripts.
    """
    if not has_words(text):
        return f"{text.strip()[:40]!r} has no letters or digits to search for; use words"
    if not in_known_letters(text) and all(one.reads is not None for one in channels):
        return f"{text.strip()[:40]!r} is in a script that no installed encoder knows; use other words"
    return None


def negation_note(text: str, language: str, option: str = "--without") -> str | None:
    """Note if an English query has a negation, with advice; otherwise None.

    Args:
        text: the query.
        language: ISO 639 code of the query.
        option: name of the option for unwanted things.
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
