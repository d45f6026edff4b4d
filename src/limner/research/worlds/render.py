"""Scene in, picture and scene graph out.

The same code draws pixels and records boxes, so the graph says what the picture shows. It decides nothing
about the scene.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from limner.errors import DataError, unknown
from limner.research.worlds.canvas import Box, Canvas
from limner.research.worlds.characters import draw_figure
from limner.research.worlds.light import finished
from limner.research.worlds.places import draw_place, draw_weather
from limner.research.worlds.shapes import Pen, draw_shapes, drawings
from limner.research.worlds.world import DrawnFigure, DrawnScene, Prop, Style

if TYPE_CHECKING:
    from PIL import Image


def _draw_prop(canvas: Canvas, prop: Prop) -> None:
    (x, y), z, props = prop.at, prop.size, drawings("props")
    if prop.label not in props:
        raise DataError(f"picture book: {unknown('prop', prop.label, props)}")
    pen = Pen(
        canvas,
        lambda u, v: (x + u * z, y - v * z),
        z,
        to=prop.to,
        owner=f"{prop.label}/",
        facts=frozenset({prop.state, "large"} if z > 1 else {prop.state}),
    )
    with canvas.part(prop.label):
        draw_shapes(pen, props[prop.label])


def _compose(scene: DrawnScene, canvas: Canvas) -> None:
    draw_place(canvas, scene)
    for thing in scene.things:
        if isinstance(thing, DrawnFigure):
            draw_figure(canvas, thing, thing.who.name)
        else:
            _draw_prop(canvas, thing)
    draw_weather(canvas, scene)


def draw(scene: DrawnScene, style: Style, size_px: int = 384) -> Image.Image:
    """Draw a scene in one illustrator's hand.

    Args:
        scene: what to show.
        style: the hand.
        size_px: side of the square picture, pixels, at least 16.
    Returns:
        RGB, (size_px, size_px); equal arguments give equal pixels.
    Raises:
        DataError: a size below 16, or a prop nobody can draw.
    """
    if size_px < 16:
        raise DataError(f"picture book: size {size_px} px, expected at least 16")
    canvas = Canvas(size_px, style, flip=scene.flip, zoom=scene.zoom)
    _compose(scene, canvas)
    return finished(canvas, scene, size_px)


def boxes(scene: DrawnScene, style: Style) -> dict[str, Box]:
    """Box of every labelled part, (x0, y0, x1, y1) in 0 to 1, without drawing pixels.

    Keys: a prop's label, a character's name, `owner/part` for what is worn or inside, and scenery.
    """
    canvas = Canvas(0, style, flip=scene.flip, zoom=scene.zoom)
    _compose(scene, canvas)
    found = {key: canvas.unit_box(key) for key in canvas.boxes}
    return {key: box for key, box in found.items() if box[2] - box[0] > 1e-3 and box[3] - box[1] > 1e-3}


def scene_graph(scene: DrawnScene, style: Style, image: str) -> dict[str, Any]:
    """The scene graph of a picture: every score is 1, because it is the truth.

    Args:
        scene: what is shown.
        style: the hand; it moves the boxes by a hair.
        image: id of the picture.
    Returns:
        ``{"image", "objects": [{"label", "box", "score"}], "relations": [{"s", "p", "o", "score"}]}``.
    """
    found = boxes(scene, style)
    species = {figure.who.name: figure.who.species for figure in scene.figures}
    keys = list(found)
    objects = [
        {
            "label": species.get(key) or re.sub(r"\d+$", "", key.rsplit("/", 1)[-1]),
            "box": [round(float(v), 5) for v in found[key]],
            "score": 1.0,
        }
        for key in keys
    ]
    place = {key: i for i, key in enumerate(keys)}
    for label in scene.inside:
        place.setdefault(label, next(i for i, key in enumerate(keys) if key.endswith(f"/{label}")))
    triples = [(place[s], p, place[o]) for s, p, o in scene.relations if s in place and o in place]
    for name in species:
        triples += [
            (place[name], "wearing", place[key])
            for key in keys
            if key.startswith(f"{name}/") and name in place
        ]
    relations = [{"s": s, "p": p, "o": o, "score": 1.0} for s, p, o in triples]
    return {"image": image, "objects": objects, "relations": relations}
