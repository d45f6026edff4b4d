"""limner illustrates a text with pictures from your own collection.

Importing it loads nothing: every public name, the version included, is resolved when first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from limner.data.records import Picture, Step, Story
    from limner.data.storyboards import Storyboard
    from limner.errors import LimnerError

    __version__: str

_HOME = {
    "LimnerError": "limner.errors",
    "Picture": "limner.data.records",
    "Step": "limner.data.records",
    "Story": "limner.data.records",
    "Storyboard": "limner.data.storyboards",
}
__all__ = ["LimnerError", "Picture", "Step", "Story", "Storyboard", "__version__"]


def __getattr__(name: str) -> object:
    """Resolve a public name on first use."""
    if name == "__version__":
        from importlib.metadata import version

        globals()[name] = version("limner")  # read once: every storyboard notes it
        return globals()[name]
    if name not in _HOME:
        raise AttributeError(f"module 'limner' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
