"""In which language a text is, and which of its steps no installed encoder reads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from limner.language import ENGLISH, MORE_LANGUAGES, Languages, language_name, languages_of
from limner.match.illustrate import step_texts
from limner.records import Story
from limner.store.channels import Channel
from limner.store.store import Settings


def languages_of_story(story: Story) -> Languages:
    """The language of each step: the one that the source states, unless a step clearly differs."""
    stated = story.language.partition("-")[0].lower()
    return languages_of(step_texts(story), {stated: 1.0} if stated else None)


def language_of_query(text: str, settings: Settings) -> str:
    """ISO 639 code of words to search for; where they may be of several languages, of the library's.

    Args:
        text: the words.
        settings: of the library.
    """
    shares = settings.languages
    expected = shares if next(iter(shares), ENGLISH) != ENGLISH else None
    return languages_of([text], expected).each[0].code


def foreign(texts: Sequence[str]) -> list[bool]:
    """Which texts are in another language than English."""
    return [one.code != ENGLISH for one in languages_of(texts).each]


def unread(codes: Sequence[str], channels: Iterable[Channel]) -> list[int]:
    """Numbers, from 0, of the texts that no channel reads.

    Args:
        codes: ISO 639 code of each text.
        channels: that take part.
    """
    reads = [channel.reads for channel in channels]
    return [n for n, code in enumerate(codes) if all(own is not None and code not in own for own in reads)]


def unread_note(codes: Sequence[str], channels: Iterable[Channel]) -> str | None:
    """One line about the steps that nothing reads, with what to install; None where there are none."""
    steps = unread(codes, channels)
    if not steps:
        return None
    names = ", ".join(dict.fromkeys(language_name(codes[n]) for n in steps))
    some = f"{len(steps)} of {len(codes)} steps {'is' if len(steps) == 1 else 'are'}"
    part = "the text is" if len(steps) == len(codes) else some
    return f"{part} in a language that no installed encoder reads: {names}; {MORE_LANGUAGES}"
