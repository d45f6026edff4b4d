"""limner illustrates a text with pictures from your own collection.

Importing it loads nothing heavy: names are resolved when first used.
"""

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("limner")
except PackageNotFoundError:  # a source tree on the path, not installed
    __version__ = "0.0.0"

_HOME = {
    "Story": "limner.data.records",
    "Step": "limner.data.records",
    "Picture": "limner.data.records",
    "Storyboard": "limner.data.storyboards",
    "LimnerError": "limner.errors",
}
__all__ = ["LimnerError", "Picture", "Step", "Story", "Storyboard", "__version__"]


def __getattr__(name: str) -> object:
    """Resolve a public name on first use."""
    if name not in _HOME:
        raise AttributeError(f"module 'limner' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
