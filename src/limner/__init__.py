"""limner: illustrate a text with pictures from your own collection.

Importing it loads nothing: every public name, the version included, is resolved when first used.
"""

from importlib import import_module

TYPE_CHECKING = False  # as in `typing`, whose import takes longer than all the rest
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from os import PathLike

    from limner.errors import LimnerError
    from limner.library import Library, Storyboard
    from limner.records import Picture, Segmentation, Step, Story
    from limner.research.api import train
    from limner.research.datasets import load_dataset
    from limner.research.paper import published as tables
    from limner.research.runs.run import Run
    from limner.text.read import Format

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
    "read",
    "tables",
    "train",
]


def read(
    text: "str | PathLike[str] | Story | Sequence[str | Step | Mapping[str, object]]",
    *,
    by: "Segmentation | None" = None,
    format: "Format | None" = None,  # noqa: A002
) -> "Story":
    r"""Read a text and divide it into steps, without any picture.

    Args:
        text: a file (Markdown, HTML, plain text, JSON, Word or PDF), a text, or a list of steps. A string
            names a file if that file exists or if it looks like a file name; otherwise it is the text itself.
        by: unit of the text that is one step. Default: explicit steps; if there are none, paragraphs.
        format: markdown, html, plain or json. Default: that of the file's extension, or plain text.
    Raises:
        ConfigError: `text` is not a text, or an option is unknown.
        MissingError: the file does not exist.
        DataError: the text has no words, or cannot be read.

    Example:
        >>> story = limner.read("Tea\n\n1. Boil the water.\n2. Pour it over the leaves.")
        >>> story.title, [step.text for step in story.steps]
        ('Tea', ['Boil the water.', 'Pour it over the leaves.'])
    """
    from limner.text.read import read as read_source

    return read_source(text, by=by, format=format).story


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
