"""limner: illustrate a text with pictures from your own collection.

Importing it loads nothing: every public name, the version included, is resolved when first used.
"""

from importlib import import_module

TYPE_CHECKING = False  # as in `typing`, whose import takes longer than all the rest
if TYPE_CHECKING:
    from limner.errors import LimnerError
    from limner.library import Library, Storyboard
    from limner.records import Picture, Step, Story
    from limner.research.api import train
    from limner.research.datasets import load_dataset
    from limner.research.paper import published as tables
    from limner.research.runs.run import Run

    __version__: str

_HOME = {
    "Library": "limner.library",
    "LimnerError": "limner.errors",
    "Picture": "limner.records",
    "Run": "limner.research.runs.run",
    "Step": "limner.records",
    "Story": "limner.records",
    "Storyboard": "limner.library",
    "load_dataset": "limner.research.datasets",
    "tables": "limner.research.paper.published",
    "train": "limner.research.api",
}
__all__ = [
    "Library",
    "LimnerError",
    "Picture",
    "Run",
    "Step",
    "Story",
    "Storyboard",
    "__version__",
    "load_dataset",
    "tables",
    "train",
]


def __getattr__(name: str) -> object:
    """Resolve a public name on first use."""
    if name == "__version__":
        from limner.records import limner_version

        return limner_version()
    if name not in _HOME:
        raise AttributeError(f"module 'limner' has no attribute {name!r}")
    home = import_module(_HOME[name])
    return home if name == "tables" else getattr(home, name)


def __dir__() -> list[str]:
    """List the public names, for completion."""
    return __all__
