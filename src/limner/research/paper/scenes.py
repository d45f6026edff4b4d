"""An HTML page of scene graphs drawn on their pictures: boxes, labels, and lines for relations.

The page also lists each graph as text.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from limner.errors import counted
from limner.files import display
from limner.pictures.thumbnails import Copy
from limner.research.paper.page import copy_of, shown_picture, write_page
from limner.research.scenes.graphs import SceneGraph, each_graph

if TYPE_CHECKING:
    from PIL.Image import Image


UNITS = 1000.0
"""Width of all drawings in SVG units, so that text has the same size on each picture."""
COLOURS = 8
MOST_LINES = 6
_TEXT = 36.0
# approximate widths of characters, relative to the text size; the page scales the text to fit
_NARROW, _WIDE, _USUAL = 0.36, 0.92, 0.64
_PAD = 9.0


@dataclass(frozen=True)
class ShownScene:
    """A picture and its graph.

    Attributes:
        picture: upright RGB picture.
        graph: its scene graph.
        note: line below it, such as the file name.
    """

    picture: "Image"
    graph: SceneGraph
    note: str = ""


@dataclass(frozen=True)
class Tag:
    """A text label.

    Attributes:
        x, y, width, height: position and size, in units of the drawing.
        text: its text.
    """

    x: float
    y: float
    width: float
    height: float
    text: str

    @property
    def baseline(self) -> float:
        """The y coordinate of the text's baseline."""
        return self.y + self.height - 0.32 * _TEXT

    def hits(self, other: "Tag") -> bool:
        """Whether two labels overlap."""
        return (
            self.x < other.x + other.width
            and other.x < self.x + self.width
            and self.y < other.y + other.height
            and other.y < self.y + self.height
        )


@dataclass(frozen=True)
class Thing:
    """A box to draw.

    Attributes:
        number: number in the list below the picture, from 1.
        label, score: label and score of the object.
        x, y, width, height: in units of the drawing.
        tag: its text label.
        colour: number of its colour.
        related: numbers of its relations, from 0.
    """

    number: int
    label: str
    score: float
    x: float
    y: float
    width: float
    height: float
    tag: Tag
    colour: int
    related: tuple[int, ...]


@dataclass(frozen=True)
class Line:
    """A relation to draw.

    Attributes:
        number: number of the relation, from 0.
        path: SVG path from subject to object.
        tag: text label of the predicate.
        colour: colour of its subject.
    """

    number: int
    path: str
    tag: Tag
    colour: int


@dataclass(frozen=True)
class Drawing:
    """Everything about one picture that the page shows."""

    copy: Copy
    height: float
    things: tuple[Thing, ...]
    lines: tuple[Line, ...]
    graph: SceneGraph
    note: str
    alt: str


def write_scenes(out: Path, title: str, note: str, scenes: Iterable[ShownScene]) -> None:
    """Write the page, one picture at a time to limit memory.

    Args:
        out: the .html file; an existing one is replaced.
        title: title of the page.
        note: text below the title.
        scenes: pictures with graphs, in order.
    Raises:
        ConfigError, DataError, MissingError: see `check_page`.
    """
    found = (drawn(scene) for scene in scenes)
    write_page(out, "scenes", title, note, scenes=found, units=UNITS, most=MOST_LINES)


def drawn(scene: ShownScene) -> Drawing:
    """Compute the positions of all elements of a picture.

    Args:
        scene: picture and graph.
    """
    copy = copy_of(scene.picture, side_px=720)
    height = UNITS * copy.height_px / copy.width_px
    graph, taken = scene.graph, list[Tag]()
    boxes = [
        (x0 * UNITS, y0 * height, (x1 - x0) * UNITS, (y1 - y0) * height)
        for x0, y0, x1, y1 in (thing.box for thing in graph.objects)
    ]
    things = []
    for place, (thing, (x, y, wide, high)) in enumerate(zip(graph.objects, boxes, strict=True)):
        text = f"{place + 1} {thing.label}"
        across, line = _plate(text)
        ends = (x, x + wide - across)
        corners = [(left, top) for top in (y - line, y, y + high - line, y + high) for left in ends]
        tag = _free(text, corners, height, taken) or _inside(text, corners[0], height)
        taken.append(tag)
        related = tuple(number for number, one in enumerate(graph.relations) if place in (one.s, one.o))
        things.append(
            Thing(place + 1, thing.label, thing.score, x, y, wide, high, tag, place % COLOURS, related)
        )
    return Drawing(
        copy, height, tuple(things), _lines(graph, boxes, height, taken), graph, scene.note, alt(graph)
    )


def alt(graph: SceneGraph) -> str:
    """Alt text: the graph as a sentence."""
    if graph.empty:
        return "picture without detected objects"
    words = ", ".join(thing.label for thing in graph.objects)
    return f"picture with {words}"


def _lines(
    graph: SceneGraph, boxes: Sequence[tuple[float, float, float, float]], height: float, taken: list[Tag]
) -> tuple[Line, ...]:
    """The first relations as curves between centres of boxes, one per pair of objects.

    A line without room for its label is left out; all relations are listed below the picture.
    """
    found: list[Line] = []
    joined: set[frozenset[int]] = set()
    for number, relation in enumerate(graph.relations):
        pair = frozenset((relation.s, relation.o))
        if len(found) == MOST_LINES or pair in joined:
            continue
        joined.add(pair)
        (ax, ay), (bx, by) = (
            (x + wide / 2, y + high / 2) for x, y, wide, high in (boxes[relation.s], boxes[relation.o])
        )
        # curved to the right, so that overlapping lines can be distinguished
        mx, my = (ax + bx) / 2 - (by - ay) * 0.18, (ay + by) / 2 + (bx - ax) * 0.18
        across, line = _plate(relation.p)
        cx, cy = (ax + 2 * mx + bx) / 4 - across / 2, (ay + 2 * my + by) / 4 - line / 2
        near = [(cx, cy + step * line * 1.1) for step in (0, -1, 1, -2, 2, -3, 3)]
        tag = _free(relation.p, near, height, taken)
        if tag is None:
            continue
        taken.append(tag)
        path = f"M{ax:.0f} {ay:.0f}Q{mx:.0f} {my:.0f} {bx:.0f} {by:.0f}"
        found.append(Line(number, path, tag, relation.s % COLOURS))
    return tuple(found)


def _plate(text: str) -> tuple[float, float]:
    """Width and height of a text label."""
    widths = (_NARROW if one in " fijlrt.,'|" else _WIDE if one in "mwMW" else _USUAL for one in text)
    return sum(widths) * _TEXT + 2 * _PAD, _TEXT * 1.28


def _free(
    text: str, places: Sequence[tuple[float, float]], height: float, taken: Sequence[Tag]
) -> Tag | None:
    """A label at the first of `places` that does not overlap others, or None."""
    tags = (_inside(text, place, height) for place in places)
    return next((one for one in tags if not any(one.hits(other) for other in taken)), None)


def _inside(text: str, place: tuple[float, float], height: float) -> Tag:
    """A label at a place, moved inside the picture."""
    across, line = _plate(text)
    x, y = (
        min(max(0.0, at), max(0.0, end - size))
        for at, end, size in zip(place, (UNITS, height), (across, line), strict=True)
    )
    return Tag(x, y, across, line, text)


_SIDE_PX = 400


def write_scene_page(graphs: Path, files: Mapping[str, bytes], out: Path, most: int, found_by: str) -> None:
    """Write a page from a file of graphs.

    Args:
        graphs: JSON Lines file of graphs.
        files: id of each graph's picture → its file.
        out: the .html file; an existing one is replaced.
        most: most pictures on the page, ≥ 1.
        found_by: sentence about the origin of the graphs.
    Raises:
        DataError: a picture cannot be read.
    """
    count = sum(1 for _ in each_graph(graphs))
    shown = {place * count // most for place in range(most)} if count > most else set(range(count))
    # paths relative to the common folder, because full paths would fill the page
    above = os.path.commonpath([os.path.dirname(path) for path in files.values()]) if files else b""  # noqa: PTH120

    def chosen() -> Iterator[ShownScene]:
        for place, graph in enumerate(each_graph(graphs)):
            if place not in shown:
                continue
            path = files[graph.image]
            yield ShownScene(shown_picture(path, _SIDE_PX), graph, display(os.path.relpath(path, above)))

    sample = (
        f"{len(shown):,} of {counted(count, 'picture')}, at regular intervals." if len(shown) < count else ""
    )
    write_scenes(out, "Scene graphs", " ".join(part for part in (sample, found_by) if part), chosen())
