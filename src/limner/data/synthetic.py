"""Picture books with known answers: the way in to `limner.data.picturebook`.

Fixture of tests and demo, and the controlled ground on which each system's mechanism is checked: which
picture belongs to which page, what the text is to it, and what it shows are known. No own code; it gathers
the public names.
"""

from limner.data.picturebook.demo import DemoCollection, demo_collection
from limner.data.picturebook.drawing import draw, scene_graph
from limner.data.picturebook.files import write
from limner.data.picturebook.shelf import RELATIONS, Distractor, Page, PictureBook, SyntheticStory
from limner.data.picturebook.wording import CITE, CLUE, caption
from limner.data.picturebook.world import Character, Figure, Prop, Scene, Style

__all__ = [
    "CITE",
    "CLUE",
    "RELATIONS",
    "Character",
    "DemoCollection",
    "Distractor",
    "Figure",
    "Page",
    "PictureBook",
    "Prop",
    "Scene",
    "Style",
    "SyntheticStory",
    "caption",
    "demo_collection",
    "draw",
    "scene_graph",
    "write",
]
