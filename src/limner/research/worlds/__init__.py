"""Synthetic picture books: generated stories with known ground truth.

`tales` defines scenes and texts, `canvas` and `render` draw the scenes, `book` generates stories from a seed
and registers the data set, `book_files` writes files, and `demo` makes the demonstration. Shapes and wordings
are in TOML files.
"""

from limner.research.worlds.book import RELATIONS, BookPage, Distractor, PictureBook, SyntheticStory
from limner.research.worlds.book_files import write
from limner.research.worlds.render import draw, scene_graph
from limner.research.worlds.tales import CITE, CLUE, Character, DrawnFigure, DrawnScene, Prop, Style, caption

__all__ = [
    "CITE",
    "CLUE",
    "RELATIONS",
    "BookPage",
    "Character",
    "Distractor",
    "DrawnFigure",
    "DrawnScene",
    "PictureBook",
    "Prop",
    "Style",
    "SyntheticStory",
    "caption",
    "draw",
    "scene_graph",
    "write",
]
