"""Page templates, rendered with escaping and a policy that forbids scripts and requests."""

import base64
import hashlib
import re
from typing import TYPE_CHECKING

from limner.errors import counted
from limner.records import Story

if TYPE_CHECKING:
    from jinja2 import Environment


_FORBIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]"
)


def carried(text: str) -> str:
    """Replace each character that XML forbids or discourages by U+FFFD."""
    return _FORBIDDEN.sub("\ufffd", text)


def forbidden(story: Story) -> tuple[str, ...]:
    """Warning if the title or text of a story contains such characters; otherwise empty."""
    texts = [story.title, *(block.text for block in story.blocks)]
    count = sum(len(_FORBIDDEN.findall(text)) for text in texts)
    return (f"{counted(count, 'control character')} in the text shown as \ufffd",) if count else ()


def environment(package: str = "limner") -> "Environment":
    """Jinja environment for a package's folder `static`: escaping, strict names, no forbidden characters."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader(package, "static"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: carried(value) if type(value) is str else value,
    )


def policy(style: str) -> str:
    """Content security policy of a page with this single inline style sheet."""
    fingerprint = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode("ascii")
    return (
        f"default-src 'none'; img-src data:; style-src 'sha256-{fingerprint}';"
        " base-uri 'none'; form-action 'none'"
    )
