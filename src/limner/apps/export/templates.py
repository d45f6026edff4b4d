"""Our own page templates: rendered safely, with a policy that forbids scripts and requests.

All pages share it. It knows no content.
"""

import base64
import hashlib
from typing import TYPE_CHECKING

from limner.apps.export.characters import carried

if TYPE_CHECKING:
    from jinja2 import Environment


def environment() -> "Environment":
    """Templates of `limner.apps.static`: escaped, strict about names, without forbidden characters."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("limner.apps", "static"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: carried(value) if type(value) is str else value,
    )


def policy(style: str) -> str:
    """Content security policy of a page whose only style sheet is this one, inside it."""
    fingerprint = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode("ascii")
    return (
        f"default-src 'none'; img-src data:; style-src 'sha256-{fingerprint}';"
        " base-uri 'none'; form-action 'none'"
    )
