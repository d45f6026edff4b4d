"""RecipeQA and VIST as published: each recipe once, stories whole, and any other form in one line."""

import json
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_recipe_builder import WORDS, picture

from limner.errors import DataError, LimnerError, MissingError
from limner.research.datasets import read_source
from limner.research.datasets.pairs import Source
from limner.research.datasets.sets.recipeqa import read_recipeqa, read_recipes
from limner.research.datasets.sets.vist import read_vist
from limner.research.training.corpus import open_corpus
from limner.research.training.settings import DataConfig


def recipe(name, **more):
    steps = [
        {"title": f"Step {n}: {name}", "body": text.format(name), "images": [f"{name}{n}.png", "x.png"]}
        for n, text in enumerate(WORDS)
    ]
    return {"recipe_id": name, "task": "visual_cloze", "context": steps, **more}


def write(path, value):
    path.write_text(json.dumps(value))
    return path


def sentence(story, place, **more):
    stated = {"story_id": story, "worker_arranged_photo_order": place, "photo_flickr_id": f"{story}{place}"}
    return [{**stated, "album_id": 7, "original_text": f"This is sentence {place} of {story}.", **more}]


def album(*stories, places=range(5)):
    return [sentence(story, place) for story in stories for place in places]


def test_a_recipe_under_several_questions_is_read_once(tmp_path):
    file = write(
        tmp_path / "r.json", {"version": "1", "data": [recipe("leeks"), recipe("leeks"), recipe("plums")]}
    )
    data = read_recipeqa(Source(file))
    assert [pair.id for pair in data.pairs] == [
        f"recipeqa-{name}-{n}" for name in ("leeks", "plums") for n in range(3)
    ]
    assert data.pairs[0].text == f"leeks {WORDS[0].format('leeks')}"
    assert data.pairs[0].image == "leeks0.png"
    assert "recipeqa: further questions about a recipe: 1" in data.notes


def withholding(name, *keys, task="textual_cloze", **more):
    """A question of a recipe without what it asks for."""
    whole = recipe(name, **more)
    empty = {"title": "", "body": "", "images": []}
    steps = [{**step, **{key: empty[key] for key in keys}} for step in whole["context"]]
    return {**whole, "task": task, "context": steps}


@pytest.mark.parametrize("stated", [True, False])
def test_what_one_question_withholds_comes_from_the_others(tmp_path, stated):
    """The pictures of a visual question are what it asks for, and so are the titles of a textual one."""
    asked = [withholding("leeks", "images", task="visual_cloze"), withholding("leeks", "title")]
    asked += [withholding("plums", "title"), withholding("plums", "images", task="visual_ordering")]
    if not stated:
        asked = [{key: value for key, value in one.items() if key != "recipe_id"} for one in asked]
    found = read_recipeqa(Source(write(tmp_path / "r.json", {"data": asked}))).pairs
    whole = [recipe("leeks"), recipe("plums")]
    if not stated:
        whole = [{key: value for key, value in one.items() if key != "recipe_id"} for one in whole]
    due = read_recipeqa(Source(write(tmp_path / "whole.json", {"data": whole}))).pairs
    assert len(found) == 6
    assert found == due


def test_steps_are_put_together_by_what_both_questions_show(tmp_path):
    whole = recipe("leeks")["context"]
    for number, step in enumerate(whole):
        step["id"] = number
    # no body to know them by: by their ids, though a step is missing and the others are out of order
    pictures = [{"id": step["id"], "images": step["images"]} for step in (whole[2], whole[0])]
    words = [{key: step[key] for key in ("id", "title", "body")} for step in whole]
    odd = [{"body": "Words that no other question about these leeks has.", "images": ["odd.png"]}]
    questions = [{"recipe_id": "leeks", "context": steps} for steps in (pictures, words, odd)]
    # nothing in common, but as many: by their places
    bare = [{key: step[key] for key in ("title", "body")} for step in whole]
    apart = bare, [{"images": [f"plums{n}.png"]} for n in range(3)]
    questions += [{"recipe_id": "plums", "context": steps} for steps in apart]
    counted = Counter()
    file = write(tmp_path / "r.json", {"data": questions})
    (key, _, pieces), (_, _, placed) = read_recipes(Source(file), counted)
    assert key == "leeks"
    assert [[one.target for one in piece.pictures] for piece in placed] == [
        [f"plums{n}.png"] for n in range(3)
    ]
    assert [piece.text for piece in pieces] == [f"{step['title']} {step['body']}" for step in whole]
    pictures = [[one.target for one in piece.pictures] for piece in pieces]
    assert pictures == [["leeks0.png"], [], ["leeks2.png"]]
    assert counted["steps completed from several questions"] == 5
    assert counted["steps that no other question of their recipe has"] == 1


def test_a_placeholder_is_nothing_and_recipes_without_words_are_not_mixed(tmp_path):
    asked = recipe("leeks")
    asked["context"][0]["title"] = "@placeholder"
    bare = [{"context": [{"images": [f"{name}{n}.png"]} for n in range(2)]} for name in "ab"]
    found = list(read_recipes(Source(write(tmp_path / "r.json", {"data": [asked, *bare]})), Counter()))
    assert [len(pieces) for _, _, pieces in found] == [3, 2, 2]
    assert found[0][2][0].text == WORDS[0].format("leeks")


def test_recipes_without_id_are_known_by_their_words_and_short_ones_left_out(tmp_path):
    nameless = recipe("leeks")
    del nameless["recipe_id"]
    short = {"recipe_id": "s", "context": [{"title": "", "body": "Serve.", "images": ["a.png"]}]}
    odd = [{}, {"context": None}, {"context": [1, {"body": 5, "images": "x"}], "recipe_id": True}]
    data = read_recipeqa(
        Source(write(tmp_path / "r.json", {"data": [nameless, dict(nameless), short, *odd]}))
    )
    assert len(data.pairs) == 3
    assert set(data.notes) >= {
        "recipeqa: further questions about a recipe: 1",
        "recipeqa: steps: fewer than 3 tokens: 1",
        "recipeqa: recipes with fewer than 2 segments: 2",
        "recipeqa: questions without a context: 2",
    }


def test_both_sets_open_by_name_with_their_split(tmp_path):
    (tmp_path / "images").mkdir()
    for number, split in enumerate(("train", "val", "test")):
        write(tmp_path / f"{split}.json", {"data": [recipe(split)]})
        write(tmp_path / f"{split}.story-in-sequence.json", {"annotations": album(f"s{split}")[::-1]})
        for n in range(5):
            picture(tmp_path / "images" / f"{split}{n}.png", 10 * number + n, side=20)
            picture(tmp_path / "images" / f"s{split}{n}.png", 90 + 10 * number + n, side=20)
    for name, count in (("recipeqa", 9), ("vist", 15)):
        features = str(tmp_path / "features")  # of pictures older than two seconds a manifest is kept there
        config = DataConfig(set=name, annotations=str(tmp_path), split="released", features=features)
        data, _ = open_corpus(config, files=True)
        assert len(data.pairs) == count
        assert [pair.split for pair in data.pairs[:: count // 3]] == ["train", "val", "test"]
        assert [pair.pos for pair in data.pairs[: count // 3]] == list(range(count // 3))
    # a story with a hole is no story
    (tmp_path / "images" / "strain2.png").unlink()
    rest = read_source(DataConfig(set="vist", annotations=str(tmp_path), missing="drop"))
    assert {pair.seq for pair in rest.pairs} == {"sval", "stest"}
    assert len(rest.missing) == 1
    assert "vist: further stories left out because a picture is missing: 1" in rest.notes


def test_stories_need_five_distinct_positions(tmp_path):
    rows = [
        *album("good"),
        *album("four", places=range(4)),
        *album("twice", places=(0, 1, 2, 3, 3)),
        *album("six", places=(0, 1, 2, 3, 4, 4)),
        *album("silent", places=range(4)),
        sentence("silent", 4, original_text=" ", text=None),
        [],
        None,
        [{"story_id": None}],
    ]
    data = read_vist(Source(write(tmp_path / "val.story-in-sequence.json", {"annotations": rows})))
    assert {(pair.seq, pair.split) for pair in data.pairs} == {("good", "val")}
    assert data.notes == (
        "vist: annotations without a story: 3",
        "vist: stories left out without five distinct positions: 3",
        "vist: stories left out because a sentence or photo is not stated: 1",
    )


@pytest.mark.parametrize("read", [read_recipeqa, read_vist])
def test_other_files_are_refused_in_one_line(read, tmp_path):
    with pytest.raises(MissingError, match="does not exist"):
        read(Source(tmp_path / "none.json"))
    with pytest.raises(MissingError, match="no train"):
        read(Source(tmp_path))
    for text in (
        "",
        "[]",
        "{",
        '{"data": {}}',
        '{"annotations": 1}',
        "[" * 100_000,
        '{"data": [], "annotations": []}',
    ):
        (tmp_path / "x.json").write_text(text)
        with pytest.raises(DataError) as caught:
            read(Source(tmp_path / "x.json"))
        assert "\n" not in str(caught.value)


keys = st.sampled_from(
    ["recipe_id", "context", "body", "title", "images", "story_id", "text", "worker_arranged_photo_order"]
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=5),
    max_leaves=20,
)


@pytest.mark.slow
@settings(deadline=None, max_examples=80)
@given(st.lists(st.dictionaries(keys, values, max_size=5), max_size=4), st.lists(values, max_size=4))
def test_json_of_any_types_is_read_or_refused(tmp_path_factory, questions, annotations):
    file = tmp_path_factory.mktemp("any") / "x.json"
    write(file, {"data": [recipe("leeks"), *questions], "annotations": [*album("good"), *annotations]})
    for read in (read_recipeqa, read_vist):
        said = []
        try:
            assert read(Source(file)).pairs
        except LimnerError as error:
            said.append(str(error))
        assert not any("\n" in one for one in said)
