"""Picture-book worlds: drawn stories whose truth is known.

One module per idea: world (what is true), tales (what happens), wording (what is said), canvas, shapes,
places, figures (how it looks), files (how it is stored). Drawings and wordings lie in tables.
"""

from limner.research.worlds.book import RELATIONS, BookPage, Distractor, PictureBook, SyntheticStory
from limner.research.worlds.book_files import write
from limner.research.worlds.demo import DemoCollection, demo_collection
from limner.research.worlds.phrases import CITE, CLUE, caption
from limner.research.worlds.render import draw, scene_graph
from limner.research.worlds.world import Character, DrawnFigure, DrawnScene, Prop, Style

__all__ = [
    "CITE",
    "CLUE",
    "RELATIONS",
    "BookPage",
    "Character",
    "DemoCollection",
    "Distractor",
    "DrawnFigure",
    "DrawnScene",
    "PictureBook",
    "Prop",
    "Style",
    "SyntheticStory",
    "caption",
    "demo_collection",
    "draw",
    "scene_graph",
    "write",
]
