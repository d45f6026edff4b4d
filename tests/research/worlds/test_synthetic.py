"""Seeded stories: their relations follow from what was written and what was drawn."""

import hashlib
import re
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limner.errors import DataError
from limner.research.worlds import CITE, CLUE, RELATIONS, PictureBook
from limner.research.worlds.render import drawings
from limner.research.worlds.tales import (
    INDOORS,
    SPECIES,
    TIMES,
    Character,
    DrawnFigure,
    PageText,
    Setting,
    caption,
    compose,
    fill,
    plain,
    relations_of,
    tales,
    without,
    wordings,
)

PIP = Character("Pip", "fox", False, 0, "coat", "blue", "plain", "scarf", "red")
ADA = Character("Ada", "pig", True, 0, "dress", "green", "plain", "bow", "yellow")
NOUNS = {*drawings("props"), *SPECIES}


def kite(phase: str):
    return compose(tales()["kite"], phase, Setting("hill", "windy", "noon"), PIP)


def nouns_in(text: str) -> set[str]:
    """Independent of the marks: words of the vocabulary, singular or plural, found in plain text."""
    return {noun for noun in NOUNS if re.search(rf"\b{noun}s?\b", text.lower())}


def books():
    return PictureBook(3).stories(30)


def test_the_same_seed_tells_the_same_story_whatever_the_count():
    one, many = PictureBook(5).stories(1), PictureBook(5).stories(4)
    assert one[0] == many[0]
    assert PictureBook(6).stories(1)[0].story != one[0].story


@pytest.mark.slow
def test_another_process_draws_the_same_bytes():
    code = (
        "import hashlib, io; from limner.research.worlds import PictureBook\n"
        "s = PictureBook(9).stories(1)[0]; b = io.BytesIO(); s.picture(2, 128).save(b, 'PNG')\n"
        "print(hashlib.sha256(b.getvalue() + s.story.model_dump_json().encode()).hexdigest())"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": h},
        ).stdout
        for h in ("1", "2")
    ]
    assert runs[0] == runs[1]
    assert len(runs[0].strip()) == len(hashlib.sha256().hexdigest())


@given(st.integers(0, 10**6))
@settings(max_examples=25, deadline=None)
def test_every_seed_gives_a_sound_story(seed):
    (book,) = PictureBook(seed).stories(1)
    assert 6 <= len(book.pages) == len(book.story.steps) <= 10
    assert book.cast[0].species != book.cast[1].species
    assert book.cast[0].name in book.story.steps[0].text or book.pages[0].text.kinds[0] not in (
        "says",
        "action",
    )
    hours = [TIMES.index(page.scene.time) for page in book.pages]
    assert hours == sorted(hours)
    for page, step in zip(book.pages, book.story.steps, strict=True):
        assert page.text.text == step.text
        assert step.text[0].isupper() or step.text[0] == "\u201c"
        assert not set("[]{}|") & set(step.text + page.caption)
        assert set(page.relations) == set(RELATIONS)
        assert book.cast[0].species in page.caption
        assert any(figure.who == book.cast[0] for figure in page.scene.figures)
    deeds = [(page.scene.activity, page.scene.phase) for page in book.pages]
    assert len(set(deeds)) == len(deeds)
    first = next(i for i, deed in enumerate(deeds) if deed[1] == "before")
    assert [phase for _, phase in deeds[first : first + 3]] == ["before", "during", "after"]


def test_visible_texts_name_nothing_that_is_not_drawn():
    judged = 0
    for book in books():
        for page in book.pages:
            if page.relations["visible"]:
                judged += 1
                unseen = nouns_in(page.text.text) - page.scene.names
                # A plural may be a thing of its own: an apple is not the apples in the basket.
                assert not {noun for noun in unseen if f"{noun}s" not in page.scene.names}, page.text.text
    assert judged > 50


def test_a_description_that_names_an_absent_thing_is_not_visible():
    scene = kite("before")
    assert relations_of(scene, ("says",), frozenset({"kite", "string"}))["visible"]
    assert not relations_of(scene, ("says",), frozenset({"kite", "tree"}))["visible"]
    assert not relations_of(scene, ("story",), frozenset())["visible"]


@pytest.mark.parametrize("name", [tale.name for tale in tales().values()])
def test_every_description_is_true_of_its_own_drawing_only(name):
    tale = tales()[name]
    for phase, sketch in tale.sketches.items():
        setting = Setting(tale.places[0], tale.weathers[0], tale.times[0])
        scene = compose(tale, phase, setting, PIP, ADA if tale.friend else None)
        for line in sketch.says:
            text, named = plain(fill(line, PIP, ADA, how="kind"))
            assert named, line
            assert named <= scene.names, line
            seen = nouns_in(text) - scene.names
            assert not {noun for noun in seen if f"{noun}s" not in scene.names}, line


@pytest.mark.parametrize(
    ("phase", "true"),
    [("before", "temporal_before"), ("during", "temporal_during"), ("after", "temporal_after")],
)
def test_the_phase_of_the_picture_decides_the_temporal_relation_of_a_deed(phase, true):
    found = relations_of(kite(phase), ("action",), frozenset({"Pip"}))
    assert [key for key in CITE if key.startswith("temporal") and found[key]] == [true]
    assert found["action"]
    assert found["visible"] == (phase == "during")


def test_temporal_relations_exclude_each_other():
    for book in books():
        for page in book.pages:
            assert sum(page.relations[key] for key in CITE if key.startswith("temporal")) <= 1


def test_a_tool_left_unnamed_is_told_by_the_picture_alone():
    scene = kite("during")
    assert scene.tool == "string"
    assert relations_of(scene, ("action",), frozenset({"kite"}))["elaboration_i_tool"]
    assert not relations_of(scene, ("says",), frozenset({"kite", "string"}))["elaboration_i_tool"]
    assert not relations_of(scene, ("irrelevant",), frozenset())["elaboration_i_tool"]


def test_a_tool_is_always_drawn():
    for tale in tales().values():
        for phase, sketch in tale.sketches.items():
            setting = Setting(tale.places[0], "sunny", "noon")
            scene = compose(tale, phase, setting, PIP, ADA if tale.friend else None)
            drawn = {prop.label for prop in scene.props}
            assert sketch.tool == "" or sketch.tool in drawn, (tale.name, phase)
    tools = [tales()["cake"].sketches[phase].tool for phase in ("before", "during", "after")]
    assert tools == ["whisk", "", ""]
    assert tales()["soup"].sketches["before"].tool == "knife"


def test_every_relation_occurs_and_none_always():
    pages = [page for book in books() for page in book.pages]
    for key in RELATIONS:
        share = sum(page.relations[key] for page in pages) / len(pages)
        assert 0 < share < 1, key


def test_irrelevant_texts_stand_alone_and_name_nothing():
    known = wordings()
    for line in (*known["lines"]["irrelevant"], *known["lines"]["meta"], *known["medium"].values()):
        assert not nouns_in(line), line
    for book in books():
        for page in book.pages:
            if page.relations["irrelevant"]:
                assert [key for key in RELATIONS if page.relations[key]] == ["irrelevant"]


def test_relations_are_seven_and_six():
    assert (len(CITE), len(CLUE)) == (7, 6)
    assert len(set(RELATIONS)) == 13


def test_splits_go_by_story_and_share_no_hand():
    found = PictureBook(0).stories(20)
    counts = [sum(book.story.split == name for book in found) for name in ("train", "val", "test")]
    assert counts == [14, 2, 4]
    assert len({book.style.seed for book in found}) == 20


def test_pages_may_be_bounded_and_wrong_bounds_are_refused():
    assert {len(book.pages) for book in PictureBook(1).stories(5, pages=(7, 7))} == {7}
    with pytest.raises(DataError, match="pages 3 to 10, expected a range within 6 to 10"):
        PictureBook(1).stories(1, pages=(3, 10))
    with pytest.raises(DataError, match="seed -1"):
        PictureBook(-1)


def test_distractors_differ_from_the_page_in_one_respect():
    book = PictureBook(2).stories(1)[0]
    shown = {page.caption for page in book.pages}
    for other in book.distractors(6):
        page = book.pages[other.page]
        assert other.caption not in shown
        assert other.scene.place == page.scene.place
        heroes = {figure.who for figure in other.scene.figures}
        if other.kind == "character":
            assert book.cast[0] not in heroes
            assert (other.scene.activity, other.scene.phase) == (page.scene.activity, page.scene.phase)
        else:
            assert heroes == {book.cast[0]}
            assert (other.scene.activity, other.scene.phase) != (page.scene.activity, page.scene.phase)


def test_caption_says_who_what_where_and_when():
    assert caption(kite("during")) == (
        "a fox in a red scarf and a blue coat flies a kite high in the sky on the hill at noon on a windy day"
    )
    watched = compose(tales()["kite"], "during", Setting("hill", "sunny", "sunset"), PIP, ADA)
    assert caption(watched).endswith(
        "on the hill at sunset, while a pig in a yellow bow and a green dress watches"
    )


def test_pronouns_and_names_follow_the_character():
    assert fill("{H} took {his} hat, and {name} saw {him}.", ADA, None, how="pronoun") == (
        "She took her hat, and [Ada] saw her."
    )
    assert plain("The [apples|apple] in the [bowl].") == (
        "The apples in the bowl.",
        frozenset({"apple", "bowl"}),
    )


def test_taking_a_thing_away_takes_its_relations():
    scene = without(kite("during"), "kite")
    assert "kite" not in {prop.label for prop in scene.props}
    assert all("kite" not in (s, o) for s, _, o in scene.relations)
    assert any(isinstance(thing, DrawnFigure) for thing in scene.things)


def test_tales_keep_to_their_places():
    for book in books():
        for page in book.pages:
            assert page.scene.place in tales()[page.scene.activity].places
            assert page.scene.outdoors == (page.scene.place not in INDOORS)
    assert isinstance(books()[0].pages[0].text, PageText)


def test_a_story_repeats_itself_only_when_it_has_run_out_of_words():
    lines = [step.text for book in books() for step in book.story.steps]
    for book in books():
        texts = [step.text for step in book.story.steps]
        assert len(set(texts)) == len(texts)
    assert len(set(lines)) > 0.75 * len(lines)
