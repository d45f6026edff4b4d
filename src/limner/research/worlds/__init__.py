"""Picture-book worlds: drawn stories whose truth is known.

One module per idea: tales (what is true, what happens and what is said), canvas and render (how it
looks), book (stories of one seed, and the data set of them), book_files (how it is stored). Drawings and
wordings lie in tables.
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
