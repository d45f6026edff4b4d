"""A step changes, and the rest of the text stays as it was written."""

import pytest

from limner.errors import DataError
from limner.text.read import parse_story_report
from limner.text.revise import StoryRevision

RECIPE = """# Cake

A *nice* cake.

## Ingredients

- 2 eggs

## Method

1. Whisk **eggs** well. Then rest.
2. Add [milk](http://x.example).
3. Bake.

Notes here.
"""


def read(text, by=None):
    return parse_story_report(text, format="markdown", by=by).story


@pytest.fixture
def recipe():
    return read(RECIPE)


def texts(revision):
    return [one.step.text for one in revision.steps]


def numbers(revision):
    return [one.step.parts[0].number for one in revision.steps]


def between(story):
    return [(part.before, part.text) for part in story.between]


def test_untouched_it_is_the_story(recipe):
    assert StoryRevision(recipe).story == recipe
    headed = read("# T\n\nHello.\n\n### One\n\nFirst words.\n\n### Two\n\nOther words.\n")
    assert StoryRevision(headed).story == headed


def test_a_new_step_is_of_its_group_and_the_numbers_count_on(recipe):
    revision = StoryRevision(recipe)
    revision.insert(1, "Add salt.", after=True)
    revision.insert(0, "Wash hands.")
    assert texts(revision) == [
        "Wash hands.",
        "Whisk eggs well. Then rest.",
        "Add milk.",
        "Add salt.",
        "Bake.",
    ]
    assert numbers(revision) == [1, 2, 3, 4, 5]
    assert {one.step.title for one in revision.steps} == {"Method"}
    assert [one.sources for one in revision.steps] == [(), (0,), (1,), (), (2,)]
    assert [one.changed for one in revision.steps] == [True, False, False, True, False]
    due = [(0, "A nice cake."), (0, "Ingredients"), (0, "2 eggs"), (0, "Method"), (5, "Notes here.")]
    assert between(revision.story) == due


def test_markup_outside_the_change_stays(recipe):
    revision = StoryRevision(recipe)
    revision.reword(0, "Whisk eggs very well. Then rest.")
    (part,) = revision.steps[0].step.parts
    assert [(part.text[m.start : m.end], m.kind) for m in part.marks] == [("eggs", "strong")]
    revision.reword(1, "Slowly add milk.")
    (part,) = revision.steps[1].step.parts
    assert [(part.text[m.start : m.end], m.target) for m in part.marks] == [("milk", "http://x.example")]
    revision.reword(0, "Something else\n\nin two paragraphs.")
    assert [part.text for part in revision.steps[0].step.parts] == ["Something else", "in two paragraphs."]
    assert numbers(revision) == [1, 2, 3]


def test_other_signs_are_no_other_words(recipe):
    revision = StoryRevision(recipe)
    revision.reword(2, "BAKE!", "Method")
    assert not revision.steps[2].changed
    revision.reword(2, "Bake it.")
    assert revision.steps[2].changed


def test_split_and_merge_undo_each_other(recipe):
    revision = StoryRevision(recipe)
    revision.split(0, 17)
    assert texts(revision)[:2] == ["Whisk eggs well.", "Then rest."]
    assert numbers(revision) == [1, 2, 3, 4]
    assert revision.steps[0].step.parts[0].marks == recipe.steps[0].parts[0].marks
    revision.merge(0)
    assert revision.story == recipe
    assert revision.steps[0].sources == (0,)


def test_merged_steps_keep_all_their_words_and_markup(recipe):
    revision = StoryRevision(recipe)
    revision.merge(0)
    step = revision.steps[0].step
    assert step.text == "Whisk eggs well. Then rest. Add milk."
    found = {step.parts[0].text[m.start : m.end] for m in step.parts[0].marks}
    assert found == {"eggs", "milk"}
    headed = read("### One\n\nFirst words.\n\n### Two\n\nOther words.\n", "heading")
    revision = StoryRevision(headed)
    revision.merge(0)
    assert texts(revision) == ["First words.\n\nTwo\n\nOther words."]
    assert [part.text for part in revision.story.between] == ["One"]
    chinese = read("打蛋。\n\n加奶。\n", "paragraph")
    revision = StoryRevision(chinese)
    revision.merge(0)
    assert texts(revision) == ["打蛋。加奶。"]


def test_a_step_moves_with_its_own_heading_and_not_with_that_of_its_group():
    headed = read(
        "# T\n\nHello.\n\n### One\n\nFirst words.\n\n### Two\n\nOther words.\n\n### End\n\nLast.\n", "heading"
    )
    revision = StoryRevision(headed)
    place = texts(revision).index("First words.")
    revision.move(place, place + 1)
    story = revision.story
    headings = {part.text: part.before for part in story.between if part.kind == "heading"}
    assert headings["Two"] == place
    assert headings["One"] == place + 1
    for before, words in between(story):
        if words in ("One", "Two", "End"):
            assert story.steps[before].title == words


def test_numbers_in_titles_count_on():
    story = read(
        "## Step 1: Dig\n\nDig a hole.\n\n## Step 2: Plant\n\nPut it in.\n\n## Step 3: Water\n\nPour.\n"
    )
    revision = StoryRevision(story)
    revision.move(2, 0)
    assert [one.step.title for one in revision.steps] == ["Step 1: Water", "Step 2: Dig", "Step 3: Plant"]
    revision.remove(1)
    assert [one.step.title for one in revision.steps] == ["Step 1: Water", "Step 2: Plant"]
    found = [part.text for part in revision.story.between if part.kind == "heading"]
    assert found in ([], ["Step 1: Water", "Step 2: Plant"])


def test_what_cannot_be_is_refused_in_a_line(recipe):
    for act, words in (
        (lambda one: one.reword(0, " … "), "without words"),
        (lambda one: one.insert(0, "\n"), "without words"),
        (lambda one: one.split(2, 5), "both sides"),
        (lambda one: one.merge(2), "is the last"),
        (lambda one: one.move(0, 3), "no place 3"),
    ):
        with pytest.raises(DataError, match=words):
            act(StoryRevision(recipe))
    only = StoryRevision(read("One.\n"))
    with pytest.raises(DataError, match="only step"):
        only.remove(0)
