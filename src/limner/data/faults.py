"""What a strict reader found wrong first, in one line, whatever the file's own keys are.

Keys come from the file and may hold line ends or a book; messages must not. It reads nothing.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import ValidationError

_MOST = 40


def first_fault(error: "ValidationError", whole: str = "the file") -> str:
    """Place and message of the first fault, such as ``pages.0.text: Field required``.

    Args:
        error: of a pydantic form.
        whole: the place of a fault of everything.
    """
    first = error.errors(include_url=False, include_input=False)[0]
    return f"{'.'.join(shown(part) for part in first['loc']) or whole}: {first['msg']}"


def shown(part: object) -> str:
    """A key in one line, cut where it is long."""
    text = "".join(letter if letter.isprintable() else "·" for letter in str(part))
    return text if len(text) <= _MOST else f"{text[:_MOST]}…"
