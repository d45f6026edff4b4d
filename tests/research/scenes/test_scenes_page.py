"""The page of scene graphs: everything is said, nothing runs, and plates do not cover each other."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from limner.errors import DataError
from limner.research.paper.scenes import MOST_LINES, UNITS, ShownScene, Tag, drawn, write_scenes
from limner.research.scenes.graphs import SceneGraph, SceneObject, SceneRelation


def scene(things, triples=(), size=(60, 40)):
    objects = tuple(SceneObject(label=label, box=box, score=0.5) for label, box in things)
    relations = tuple(SceneRelation(s=s, p=p, o=o, score=0.25) for s, p, o in triples)
    return ShownScene(
        Image.new("RGB", size), SceneGraph(image="a.png", objects=objects, relations=relations), "a.png"
    )


TWO = [("girl", (0.1, 0.2, 0.5, 0.9)), ("<b>dog</b>", (0.4, 0.5, 0.8, 1.0))]


def test_boxes_lie_where_they_lie_on_the_picture():
    shown = drawn(scene(TWO))
    assert shown.height == pytest.approx(UNITS * 40 / 60)
    girl, dog = shown.things
    assert (girl.x, girl.y) == pytest.approx((100, 0.2 * shown.height))
    assert (dog.x + dog.width, dog.y + dog.height) == pytest.approx((800, shown.height))
    assert (girl.number, girl.tag.text) == (1, "1 girl")
    assert shown.alt == "picture with girl, <b>dog</b>"


def test_words_of_the_graph_are_words_of_the_page(tmp_path):
    out = tmp_path / "page.html"
    write_scenes(out, "Scenes", "Made up.", [scene(TWO, [(0, "holding & more", 1)]), scene([]), scene(TWO)])
    page = out.read_text()
    assert page.count("<article>") == 3
    assert "Nothing was found." in page
    assert "No relations." in page
    assert "holding &amp; more" in page
    assert "<b>dog" not in page
    assert "&lt;b&gt;dog&lt;/b&gt;" in page
    assert "<script" not in page
    assert not re.search(r'(src|href)="(?!data:)', page)
    assert len(re.findall(r'id="a\d+-\d+"', page)) == 1


boxes = st.tuples(st.integers(0, 8), st.integers(0, 8), st.integers(1, 8), st.integers(1, 8)).map(
    lambda b: (b[0] / 16, b[1] / 16, (b[0] + b[2]) / 16, (b[1] + b[3]) / 16)
)


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.tuples(st.sampled_from(["dog", "traffic light"]), boxes), min_size=2, max_size=9), st.data()
)
def test_plates_stay_in_the_picture_and_lines_only_where_there_is_room(things, data):
    place = st.integers(0, len(things) - 1)
    pairs = st.tuples(place, st.sampled_from(["on", "in front of"]), place).filter(lambda t: t[0] != t[2])
    shown = drawn(scene(things, data.draw(st.lists(pairs, max_size=12)), size=(90, 60)))
    names, said = [thing.tag for thing in shown.things], [line.tag for line in shown.lines]
    for tag in names + said:
        assert tag.x >= 0
        assert tag.y >= 0
        assert tag.x + tag.width <= UNITS + 1e-6
        assert tag.y + tag.height <= shown.height + 1e-6
    for number, tag in enumerate(said):
        assert not any(tag.hits(other) for other in names + said[:number])
    assert len(shown.lines) <= MOST_LINES
    joined = [
        frozenset((shown.graph.relations[one.number].s, shown.graph.relations[one.number].o))
        for one in shown.lines
    ]
    assert len(joined) == len(set(joined))


@pytest.mark.parametrize("place", [(11, 0), (-11, 0), (0, 5), (0, -5), (11, 5), (-11, -5)])
def test_labels_beside_each_other_do_not_overlap(place):
    label, other = Tag(0, 0, 10, 4, "dog"), Tag(*place, 10, 4, "cat")
    assert not label.hits(other)
    nearer = Tag(place[0] * 0.8, place[1] * 0.7, 10, 4, "cat")
    assert label.hits(nearer)
    assert nearer.hits(label)


def test_a_page_is_written_whole_or_not_at_all(tmp_path):
    def broken():
        yield scene(TWO)
        raise DataError("gone")

    with pytest.raises(DataError, match="gone"):
        write_scenes(tmp_path / "page.html", "t", "n", broken())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_browser_shows_it_without_a_word(browser, tmp_path):
    out = tmp_path / "page.html"
    write_scenes(
        out, "t", "n", [scene(TWO, [(0, "holding", 1)], size) for size in ((60, 40), (20, 200), (300, 20))]
    )
    page = browser.new_page()
    said = []
    page.on("console", lambda message: said.append(message.text))
    page.goto(out.as_uri())
    for width in (360, 1200):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        # the drawing covers its picture and nothing else, so boxes lie where they should
        rects = page.evaluate(
            "names => [...document.querySelectorAll('figure')].map(figure => names.map(name => {"
            " const r = figure.querySelector(name).getBoundingClientRect();"
            " return [r.left, r.top, r.width, r.height]; }))",
            ["img", "svg", "g:nth-of-type(2) rect.box"],
        )
        for image, drawing, _ in rects:
            assert drawing == pytest.approx(image, abs=1)
        image, _, box = rects[0]
        girl = [(box[0] - image[0]) / image[2], (box[1] - image[1]) / image[3], box[2] / image[2]]
        assert girl == pytest.approx([0.1, 0.2, 0.4], abs=0.02)
    assert said == []
    page.close()
