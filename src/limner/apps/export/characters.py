"""Characters that a format cannot carry.

XML and HTML forbid control characters, and a text taken from a file may hold them; dropping them
unseen would be a silent change. It replaces and counts; it judges no fonts.
"""

import re

from limner.data.records import Story

_FORBIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]"
)


def carried(text: str) -> str:
    """The text with each character that XML forbids or discourages as U+FFFD."""
    return _FORBIDDEN.sub("\ufffd", text)


def forbidden(story: Story) -> tuple[str, ...]:
    """One warning if the titles or texts of a story hold such characters, else none.

    Args:
        story: the story.
    """
    texts = [story.title, *(text for step in story.steps for text in (step.title, step.text))]
    count = sum(len(_FORBIDDEN.findall(text)) for text in texts)
    if not count:
        return ()
    return (f"{count} control character{'s' if count > 1 else ''} in the text shown as \ufffd",)
