"""What the scene graph says is what the pixels show."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limner.errors import DataError
from limner.research.worlds import (
    Character,
    DrawnFigure,
    DrawnScene,
    PictureBook,
    Prop,
    Style,
    draw,
    scene_graph,
)
from limner.research.worlds.render import boxes, drawings
from limner.research.worlds.tales import (
    COLOURS,
    EMOTIONS,
    EXTRAS,
    PALETTES,
    PATTERNS,
    PHASES,
    PLACES,
    POSES,
    SPECIES,
    TEXTURES,
    TIMES,
    TOPS,
    WEATHERS,
    Setting,
    compose,
    tales,
    without,
)

STYLE = Style(7, "bright", 0.004, (58, 44, 54), "paper", 0.0015, False)
PIP = Character("Pip", "fox", False, 0, "coat", "blue", "plain", "scarf", "red")
ADA = Character("Ada", "pig", True, 0, "dress", "green", "plain", "bow", "yellow")
SKETCHES = [(tale.name, phase) for tale in tales().values() for phase in tale.sketches]


def scene_of(name: str, phase: str, **options) -> DrawnScene:
    tale = tales()[name]
    setting = Setting(tale.places[0], tale.weathers[0], tale.times[0])
    return compose(tale, phase, setting, PIP, ADA if tale.friend else None, **options)


def pixels(scene: DrawnScene, size_px: int = 96) -> np.ndarray:
    return np.asarray(draw(scene, STYLE, size_px), dtype=np.int16)


@pytest.mark.slow
def test_every_thing_is_drawn_inside_its_box():
    for name, phase in SKETCHES:
        scene = scene_of(name, phase)
        whole, found = pixels(scene), boxes(scene, STYLE)
        for thing in scene.things:
            key = thing.who.name if isinstance(thing, DrawnFigure) else thing.label
            x0, y0, x1, y1 = (v * 96 for v in found[key])
            change = np.abs(whole - pixels(without(scene, key))).max(axis=2) > 24
            rows, columns = np.nonzero(change)
            assert len(rows), (name, phase, key)
            inside = (columns >= x0 - 2) & (columns <= x1 + 1) & (rows >= y0 - 2) & (rows <= y1 + 1)
            # Shadows fall outside, and light falls far.
            due = 0.5 if key in {"fire", "lamp", "match"} else 0.8
            assert inside.mean() > due, (name, phase, key)
            # The box is no wider than need be: what was drawn reaches at least half of it where nothing
            # hides it.
            if isinstance(thing, DrawnFigure) and len(scene.things) < 3:
                assert np.ptp(columns[inside]) > 0.5 * (x1 - x0), (name, phase, key)


@pytest.mark.slow
def test_phases_and_their_graphs_are_valid():
    for name, phase in SKETCHES:
        scene = scene_of(name, phase, flip=True, zoom=1.12)
        graph = scene_graph(scene, STYLE, "p1")
        assert set(graph) == {"image", "objects", "relations"}
        assert graph["image"] == "p1"
        for thing in graph["objects"]:
            assert set(thing) == {"label", "box", "score"}
            x0, y0, x1, y1 = thing["box"]
            assert 0 <= x0 < x1 <= 1, (name, phase, thing)
            assert 0 <= y0 < y1 <= 1, (name, phase, thing)
            assert thing["score"] == 1.0
        labels = [thing["label"] for thing in graph["objects"]]
        assert {"fox", "scarf", "coat"} <= set(labels), (name, phase)
        told = {(labels[r["s"]], r["p"], labels[r["o"]]) for r in graph["relations"]}
        assert ("fox", "wearing", "scarf") in told, (name, phase)
        # Every link of the tale arrives in the graph.
        assert len(graph["relations"]) == len(scene.relations) + 2 * len(scene.figures), (name, phase)


def test_the_graph_of_a_known_scene():
    graph = scene_graph(scene_of("kite", "after"), STYLE, "x")
    labels = [thing["label"] for thing in graph["objects"]]
    told = {(labels[r["s"]], r["p"], labels[r["o"]]) for r in graph["relations"]}
    assert ("kite", "in", "tree") in told
    (kite,) = [thing["box"] for thing in graph["objects"] if thing["label"] == "kite"]
    tree = boxes(scene_of("kite", "after"), STYLE)["tree"]
    assert tree[0] < (kite[0] + kite[2]) / 2 < tree[2]
    assert tree[1] < (kite[1] + kite[3]) / 2 < tree[3]


def test_a_mirrored_picture_has_mirrored_boxes():
    scene = scene_of("letter", "during")
    plain, flipped = boxes(scene, STYLE), boxes(replace(scene, flip=True), STYLE)
    for key, (x0, y0, x1, y1) in plain.items():
        assert flipped[key] == pytest.approx((1 - x1, y0, 1 - x0, y1), abs=1e-9)


@pytest.mark.slow
def test_before_during_and_after_look_different():
    for tale in tales().values():
        if tale.role == "activity":
            drawn = [pixels(scene_of(tale.name, phase)) for phase in PHASES]
            for a, b in ((0, 1), (1, 2), (0, 2)):
                differs = np.abs(drawn[a] - drawn[b]).max(axis=2) > 40
                assert differs.mean() > 0.03, (tale.name, a, b)


@pytest.mark.slow
def test_every_place_hour_and_weather_draws_and_differs():
    base = scene_of("hello", "during")
    for place in PLACES:
        seen = set()
        for weather in WEATHERS:
            for time in TIMES:
                picture = draw(replace(base, place=place, weather=weather, time=time), STYLE, 48)
                seen.add(picture.tobytes())
        assert len(seen) == len(WEATHERS) * len(TIMES), place


@pytest.mark.slow
def test_every_look_pose_and_mood_draws_and_differs():
    base = scene_of("hello", "during")
    hero = base.figures[0]

    def with_figure(**changes) -> bytes:
        who = replace(PIP, **{k: v for k, v in changes.items() if hasattr(PIP, k)})
        other = replace(hero, who=who, **{k: v for k, v in changes.items() if not hasattr(PIP, k)})
        things = tuple(other if thing == hero else thing for thing in base.things)
        return draw(replace(base, things=things), STYLE, 64).tobytes()

    for species in SPECIES:
        assert len({with_figure(species=species, shade=shade) for shade in range(4)}) == 4, species
    sweeps = {
        "top": TOPS,
        "extra": EXTRAS,
        "top_colour": COLOURS,
        "pattern": PATTERNS,
        "pose": POSES,
    }
    for attribute, values in sweeps.items():
        assert len({with_figure(**{attribute: value}) for value in values}) == len(values), attribute
    # Busy and happy are told apart by the mouth alone, proud and asleep by the eyes.
    assert len({with_figure(emotion=mood) for mood in EMOTIONS}) >= len(EMOTIONS) - 1


@pytest.mark.slow
def test_every_hand_draws_and_differs():
    scene = scene_of("kite", "during")
    hands = [
        replace(STYLE, palette=palette, texture=texture, line=line)
        for palette in PALETTES
        for texture in TEXTURES
        for line in (0.0, 0.005)
    ]
    assert len({draw(scene, hand, 48).tobytes() for hand in hands}) == len(hands)


def test_every_prop_of_the_tables_can_be_drawn_and_every_drawing_is_used():
    used = {prop.label for name, phase in SKETCHES for prop in scene_of(name, phase).props}
    assert used == set(drawings("props"))


@pytest.mark.slow
@given(st.integers(0, 10**6))
@settings(max_examples=8, deadline=None)
def test_graphs_of_random_stories_are_valid(seed):
    (book,) = PictureBook(seed).stories(1)
    for i, page in enumerate(book.pages):
        graph = book.graph(i)
        count = len(graph["objects"])
        assert all(
            0 <= r["s"] < count and 0 <= r["o"] < count and r["s"] != r["o"] for r in graph["relations"]
        )
        assert {figure.who.species for figure in page.scene.figures} <= {o["label"] for o in graph["objects"]}
    assert book.picture(0, 48).size == (48, 48)


def test_characters_keep_their_colours_over_the_pages():
    book = PictureBook(4).stories(1)[0]
    looks = {figure.who for page in book.pages for figure in page.scene.figures}
    assert looks <= set(book.cast)


def test_wrong_sizes_and_unknown_props_are_refused():
    scene = scene_of("hello", "during")
    with pytest.raises(DataError, match="size 4 px, expected at least 16"):
        draw(scene, STYLE, 4)
    odd = replace(scene, things=(Prop("kyte", "", (0.5, 0.5)),))
    with pytest.raises(DataError, match="unknown prop 'kyte'; did you mean 'kite'"):
        draw(odd, STYLE, 48)
