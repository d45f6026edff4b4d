"""A step changes, and the rest of the text and of its source stays as it was written."""

import re
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import limner
from limner.errors import DataError, LimnerError
from limner.records import Block, Mark, Passage, Step, Story
from limner.templates import carried
from limner.text import edit
from limner.text.commonmark import block_markdown, inline, marked

RECIPE = """---
tags: [a, b]   # kept
---
# Cake

A *nice* cake. <!-- for editors -->

## Ingredients

- 2 eggs

## Method

1. Whisk __eggs__ and [[sugar|the sugar]] well. Then rest.
2. Add [milk](http://x.example)[^1].

   Stir it.
3. Bake.

Notes here.

[^1]: Or cream.
"""
STEPS = (
    "# Garden\n\n## Step 1: Dig\n\nDig a hole.\n\n## Step 2: Plant\n\nPut it in.\n\n"
    "## Step 3: Water\n\nPour.\n"
)


def read(text, by=None):
    return limner.read(text, format="markdown", by=by) if by else limner.read(text, format="markdown")


@pytest.fixture(scope="module")
def recipe():
    return read(RECIPE)


def texts(edited):
    return [step.text for step in edited.story.steps]


def titles(edited):
    return [step.title for step in edited.story.steps]


def lines(story):
    return story.markdown.split("\n")


def is_read_again(story):
    """Whether the source is read as the steps and lines that the story has."""
    again = read(story.markdown)
    steps, steps_again = ([(step.title, step.text) for step in each.steps] for each in (story, again))
    return steps == steps_again and [b.lines for b in story.blocks] == [b.lines for b in again.blocks]


def test_without_a_change_it_is_the_story(recipe):
    for story in (recipe, read(STEPS), read("One.\r\n\r\nTwo.")):
        for place, step in enumerate(story.steps):
            assert edit.reword(story, place, step.text).story == story
            assert edit.move(story, place, place).story == story


def test_only_the_changed_block_is_written_and_formats_outside_the_change_stay(recipe):
    edited = edit.reword(recipe, 0, recipe.steps[0].text.replace("well", "very well"))
    assert lines(edited.story)[13] == "1. Whisk **eggs** and the sugar very well. Then rest."
    assert lines(recipe)[:13] + lines(recipe)[14:] == lines(edited.story)[:13] + lines(edited.story)[14:]
    assert (edited.changed, edit.reword(recipe, 2, "BAKE!").changed) == ({0}, set())
    edited = edit.reword(recipe, 1, "Slowly add milk[1].\n\nStir it.")
    assert lines(edited.story)[14:17] == ["2. Slowly add [milk](http://x.example)[^1].", "", "   Stir it."]
    assert is_read_again(edited.story)
    edited = edit.reword(read("One **two** three *four* five."), 0, "One six *four* five.")
    assert edited.story.markdown == r"One six \*four\* five."


def test_paragraphs_and_items_are_added_and_dropped_in_place(recipe):
    text = "Add milk[1].\n- slowly\n- cold\n\nStir it.\n\nTaste it."
    edited = edit.reword(recipe, 1, text)
    assert edited.story.steps[1].text == text
    assert "\n".join(lines(edited.story)[14:21]) == (
        "2. Add [milk](http://x.example)[^1].\n   - slowly\n   - cold\n\n   Stir it.\n\n   Taste it."
    )
    assert is_read_again(edited.story)
    edited = edit.reword(edited.story, 1, "Add milk[1].\n\nTaste it.")
    assert "[^1].\n\n   Taste it.\n3. Bake." in edited.story.markdown
    quoted = edit.reword(read("> One fox\n> ran.\n\nTwo."), 0, "One fox ran.\n\nIt hid.")
    assert quoted.story.markdown == "> One fox\n> ran.\n>\n> It hid.\n\nTwo."


def test_code_and_tables_of_a_step_stay_as_they_are():
    code = "```python\na\n\n- b\n```"
    story = read(f"## One\n\nRun it:\n\n{code}\n\n| x | y |\n|---|---|\n| *1* | 2 |\n\n## Two\n\nEnd.\n")
    for before, after in (("Run it", "Now run it"), ("- b", "- c")):
        edited = edit.reword(story, 0, story.steps[0].text.replace(before, after))
        assert edited.story.markdown == story.markdown.replace(before, after)
    edited = edit.reword(story, 0, story.steps[0].text.replace("1 | 2", "1 | 3"))
    assert "| *1* | 3 |" in edited.story.markdown


def test_a_step_is_split_within_a_paragraph_or_between_two(recipe):
    edited = edit.split(recipe, 0, recipe.steps[0].text.index(" Then"))
    assert (edited.sources, edited.changed) == (((0,), (), (1,), (2,)), {0, 1})
    assert lines(edited.story)[13:16] == [
        "1. Whisk **eggs** and the sugar well.",
        "2. Then rest.",
        "3. Add [milk](http://x.example)[^1].",
    ]
    assert is_read_again(edited.story)
    assert edit.merge(edited.story, 0).story.steps == recipe.steps
    between = edit.split(recipe, 1, len("Add milk[1]."))
    assert lines(between.story)[15:17] == ["3. Stir it.", "4. Bake."]
    half = edit.split(read("One **two three** four."), 0, len("One two"))
    assert half.story.markdown == "One **two**\n\n**three** four."


def test_merged_steps_keep_all_their_blocks_and_what_stands_between_follows(recipe):
    edited = edit.merge(recipe, 1)
    assert texts(edited)[1] == "Add milk[1].\n\nStir it.\n\nBake."
    assert lines(edited.story)[14:19] == [*lines(recipe)[14:17], "", "   Bake."]
    assert is_read_again(edited.story)
    headed = edit.merge(read(STEPS), 0)
    assert headed.story.markdown.startswith(
        "# Garden\n\n## Step 1: Dig\n\nDig a hole.\n\nPlant\n\nPut it in.\n\n## Step 2: Water"
    )
    assert texts(edit.merge(read("打蛋。\n\n加奶。\n"), 0)) == ["打蛋。加奶。"]


def test_a_new_step_is_an_item_of_its_list_and_numbers_count_on(recipe):
    edited = edit.insert(recipe, 1, "Add salt:\n- sea salt")
    assert texts(edited)[2] == "Add salt:\n- sea salt"
    assert edited.sources == ((0,), (1,), (), (2,))
    assert lines(edited.story)[16:20] == ["   Stir it.", "3. Add salt:", "   - sea salt", "4. Bake."]
    first = edit.insert(edited.story, 0, "Wash hands.", after=False)
    numbers = [line[:2] for line in lines(first.story) if re.match(r"\d\.", line)]
    assert numbers == ["1.", "2.", "3.", "4.", "5."]
    assert is_read_again(first.story)
    assert set(titles(first)) == {"Method"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("* a\n* b\n", "* a\n* New.\n* b\n"),
        ("- a\n\n- b\n", "- a\n\n- New.\n\n- b\n"),
        ("1) a\n2) b\n", "1) a\n2) New.\n3) b\n"),
        ("**1)** Cut.\n\n**2)** Sew.\n", "**1)** Cut.\n\n**2)** New.\n\n**3)** Sew.\n"),
        ("1️⃣ Cut.\n\n2️⃣ Sew.\n", "1️⃣ Cut.\n\n2️⃣ New.\n\n3️⃣ Sew.\n"),
        ("> 1. a\n> 2. b\n", "> 1. a\n> 2. New.\n> 3. b\n"),
        ("**Method**\nCut.\nSew.\n", "**Method**\nCut.\nNew.\nSew.\n"),
        ("Cut.\r\n\r\nSew.", "Cut.\r\n\r\nNew.\r\n\r\nSew."),
    ],
)
def test_a_new_step_is_written_like_its_neighbours(text, expected):
    edited = edit.insert(read(text), 0, "New.")
    assert edited.story.markdown == expected
    assert is_read_again(edited.story)


def test_a_longer_number_indents_what_belongs_to_the_item():
    story = read("".join(f"{n}. Do {n}.\n" for n in range(1, 9)) + "9. Do 9.\n   Twice.\n\n   ![x](x.jpg)\n")
    edited = edit.insert(story, 0, "New.")
    assert edited.story.markdown.endswith("9. Do 8.\n10. Do 9.\n    Twice.\n\n    ![x](x.jpg)\n")
    assert edit.remove(edited.story, 1).story.markdown == story.markdown


def test_numbers_in_titles_count_on():
    edited = edit.move(read(STEPS), 2, 0)
    assert titles(edited) == ["Step 1: Water", "Step 2: Dig", "Step 3: Plant"]
    assert is_read_again(edited.story)
    edited = edit.remove(edited.story, 1)
    assert titles(edited) == ["Step 1: Water", "Step 2: Plant"]
    edited = edit.insert(edited.story, 0, "Rest.")
    assert titles(edited) == ["Step 1: Water", "Step 2", "Step 3: Plant"]
    assert is_read_again(edited.story)


def test_pages_keep_breaks_and_lines_stay_lines():
    pages = read("# Otto\n\nOtto had a sock.\n\n---\n\nHe lost it.\n\n---\n\nThere it was.\n")
    edited = edit.insert(pages, 1, "He cried.", after=False)
    assert edited.story.markdown == pages.markdown.replace("He lost", "He cried.\n\n---\n\nHe lost")
    assert edit.remove(edited.story, 1).story.markdown == pages.markdown
    edited = edit.move(read("Method\nCut the cloth.\nSew it.\nIron it.\n"), 0, 2)
    assert edited.story.markdown == "Method\nSew it.\nIron it.\nCut the cloth.\n"


def test_a_heading_is_changed_for_all_steps_below_it(recipe):
    edited = edit.reword(recipe, 1, recipe.steps[1].text, "How to do it")
    assert set(titles(edited)) == {"How to do it"}
    assert edited.story.markdown == RECIPE.replace("## Method", "## How to do it")
    bold = edit.reword(read("**Squats**\n\nSit.\n\n**Plank**\n\nLie.\n"), 0, "Sit.", "Deep squats")
    assert bold.story.markdown.startswith("**Deep squats**\n\nSit.")
    edited = edit.reword(read("One fox.\n\nTwo foxes.\n"), 1, "Two foxes.", "Later")
    assert edited.story.markdown == "One fox.\n\n## Later\n\nTwo foxes.\n"
    assert "## Plant\n\nPut" in edit.reword(read(STEPS), 1, "Put it in.", "Plant").story.markdown


def test_what_is_no_block_stays_where_it_stands():
    text = "One.\n\n<!-- a -->\n\nTwo.\n\n[ref]: /x\n\nThree [a][ref].\n\n<!-- end -->"
    story = read(text)
    removed = edit.remove(story, 1).story.markdown
    assert removed == text.replace("Two.\n\n", "")
    moved = edit.move(story, 2, 0).story.markdown
    assert moved == "Three [a][ref].\n\nOne.\n\n<!-- a -->\n\nTwo.\n\n[ref]: /x\n\n<!-- end -->"


def test_the_title_is_changed_where_the_source_states_it():
    text = "---\ntitle: Cake\n---\n\n# Cake {#top}\n\nCake is good.\n\nCake\n"
    made = edit.retitled(read(text), "A *pie*", "Cake").markdown
    assert made == text.replace("title: Cake", 'title: "A *pie*"').replace("# Cake", r"# A \*pie\*")
    bold = edit.retitled(read("**Cake**\n\nOne.\n\nTwo.\n"), "Pie", "Cake").markdown
    assert bold == "**Pie**\n\nOne.\n\nTwo.\n"


def test_what_cannot_be_is_refused_in_a_line(recipe):
    table = read("## A\n\n| x | y |\n|---|---|\n| 1 | 2 |\n\n## B\n\nEnd.\n")
    for act, words in (
        (lambda: edit.reword(recipe, 0, " … "), "without words"),
        (lambda: edit.insert(recipe, 0, "\n"), "without words"),
        (lambda: edit.split(recipe, 2, 5), "both sides"),
        (lambda: edit.split(table, 0, 3), "inside code or a table"),
        (lambda: edit.merge(recipe, 2), "is the last"),
        (lambda: edit.move(recipe, 0, 3), "no place 3"),
        (lambda: edit.remove(read("One.\n"), 0), "only step"),
    ):
        with pytest.raises(DataError, match=words):
            act()


def test_a_text_of_another_format_becomes_markdown():
    story = limner.read("Tea\n\nIngredients:\n- 1 leaf\n- 1 cup\n\nMethod:\n1. Boil *water*.\n2. Pour it.\n")
    edited = edit.reword(story, 1, "Pour it slowly.")
    method = "## Method:\n\n1. Boil \\*water\\*.\n2. Pour it slowly.\n"
    assert edited.story.markdown == f"# Tea\n\n## Ingredients:\n\n- 1 leaf\n- 1 cup\n\n{method}"
    assert is_read_again(edited.story)
    steps = [Step(text="A fox.", title="Day"), Step(text="A *hare*.\n\nIt ran.", title="Night")]
    story = edit.written(Story(id="x", title="Otto", steps=steps, author="Ana", direction="rtl"))
    front = '---\ndirection: "rtl"\nauthor: "Ana"\n---\n\n# Otto\n\n'
    assert story.markdown == front + "## Day\n\nA fox.\n\n## Night\n\nA \\*hare\\*.\n\nIt ran.\n"
    assert is_read_again(story)
    story = read("---\ndirections: [Mix., Bake.]\n---\nA cake.\n")
    assert edit.reword(story, 0, "Mix well.").story.markdown.endswith("1. Mix well.\n2. Bake.\n")


TABLE = "| a\\|b |\n| --- |\n| c<br>d |"


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        (Block(kind="code", text="a\n```\nb"), "````\na\n```\nb\n````"),
        (Block(kind="heading", text="1. A\nb", level=1), "## 1\\. A b"),
        (Block(kind="item", text="☑ eggs"), "[x] eggs"),
        (Block(kind="table", rows=((Passage(text="a|b"),), (Passage(text="c\nd"),)), head=1), TABLE),
        (Block(text="[1] a note", role="aside"), "[^1]: a note"),
    ],
)
def test_blocks_as_markdown(block, expected):
    assert block_markdown(block) == expected


def test_formats_are_signs_where_these_are_understood_and_else_tags():
    kinds = {(0, 5): "strong", (3, 5): "emphasis", (7, 10): "code", (11, 14): "strong", (17, 20): "above"}
    marks = tuple(Mark(start=start, end=end, kind=kind) for (start, end), kind in kinds.items())
    words = Passage(text="ab cd, e`f (g)h i[1]", marks=marks)
    assert marked(words) == "**ab *cd***, ``e`f`` <strong>(g)</strong>h i[^1]"


@settings(max_examples=80, deadline=None)
@given(
    st.text(min_size=1, max_size=40) | st.text("#*_-+=>.)1`~<&;[]()!|\\ \n\ta%{^$", min_size=1, max_size=20)
)
def test_any_words_are_read_as_they_are_written(text):
    (block,) = read(f"x {inline(text)} y").blocks
    assert "".join(block.text.split()) == "".join(carried(f"x{text}y").split())


HEADED = (
    "# T\n\nHello.\n\n## Step 1: Mix\n\nMix it well.\n\nThen *rest* it.\n\n## Step 2: Bake\n\nBake it.\n\n"
    "> Mind it.\n\n## Step 3: Eat\n\nEat it.\n"
)
ORDINARY = (RECIPE, STEPS, HEADED, "One fox *ran*.\n\nTwo foxes\nran.\n\n> Three\n> ran.\n\nFour ran.\n")
ACTS = st.sampled_from(["reword", "split", "merge", "insert", "remove", "move"])


def acted(kind, story, place):
    """The story after an edit; None if it cannot be made there."""
    words = story.steps[place].text
    acts = {
        "reword": lambda: edit.reword(story, place, words.replace(" ", " slowly ", 2)),
        "split": lambda: edit.split(story, place, words.find(". ") + 1),
        "merge": lambda: edit.merge(story, place),
        "insert": lambda: edit.insert(story, place, "New words."),
        "remove": lambda: edit.remove(story, place),
        "move": lambda: edit.move(story, place, len(story.steps) - 1 - place),
    }
    with suppress(LimnerError):
        return acts[kind]()


@settings(deadline=None)
@given(st.sampled_from(ORDINARY), st.integers(0, 5), ACTS)
def test_an_edited_source_is_read_as_the_steps_that_the_edit_made(text, place, kind):
    story = read(text)
    if edited := acted(kind, story, place % len(story.steps)):
        assert is_read_again(edited.story), edited.story.markdown


BLOCKS = [
    "Words of one paragraph,\nwhich goes on  \nhere.",
    "A [link](https://example.org 'its title') and `code` and a note[^1].",
    "# Title\nwords right below\n## Next\n- item right below",
    "```python title='x'\n![no](x_pictures/01-a-00000000.jpg)\n```",
    "    indented code",
    "- one\n- two\n  - inner\n\n    more of inner\n- three",
    "1. Mix\n2. Bake\n   ```\n   x\n   ```\n3. Eat\nlazily",
    "> quoted\n>\n> twice\n\n> > deeper\nlazily",
    ":::tip[A title]\n\nTake care.\n\n:::\nright below",
    '!!! note "A title"\n    Take care.\n\n    - of this\nright below',
    "| a | b |\n|:--|--:|\n| 1 | 2 |",
    "[^1]: The note\n    goes on.",
    "<!-- over\n\nlines -->\nwords right below",
    "<details>\n<summary>More</summary>\n\nHidden words.\n\n</details>",
    "**Method**\nChar it.\nChop it.\n\n![own](own.jpg)\n*Mine*",
]
DOCUMENTS = st.builds(
    lambda front, blocks, gap, newline, end: (front + gap.join(blocks) + end).replace("\n", newline),
    st.sampled_from(["", "---\ntitle: A day\n---\n", '+++\ntitle = "A day"\n+++\n']),
    st.lists(st.sampled_from(BLOCKS), min_size=1, max_size=6),
    st.sampled_from(["\n\n", "\n\n\n", "\n \n", "\n"]),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.sampled_from(["", "\n", "\n\n"]),
)
PICTURE = "![A dog\\]](out_pictures/{:02d}-dog-0123abcd.jpg)"


def lines_of(text):
    return re.split(r"\r\n|\r|\n", text)


@pytest.mark.slow
@settings(deadline=None)
@given(DOCUMENTS, st.sampled_from([None, "paragraph", "heading"]), st.booleans())
def test_pictures_are_added_to_any_document_and_found_again(document, by, captioned):
    try:
        story = read(document, by)
    except LimnerError:  # no words, or no heading
        return
    shown = {n: [PICTURE.format(n + 1), *["*Ana \\* Lima*"] * captioned] for n in range(len(story.steps))}
    made = edit.with_pictures(story, shown)
    rest = iter(lines_of(made))
    assert all(line in rest for line in lines_of(document) if line)
    assert edit.without_inserted(made) == (document, len(story.steps))
    assert [step.text for step in read(made, by).steps] == [step.text for step in story.steps]


@pytest.mark.slow
@settings(deadline=None)
@given(DOCUMENTS, st.integers(0, 9), st.sampled_from(["reword", "split", "merge", "insert", "remove"]))
def test_an_edit_of_any_document_leaves_the_other_lines(document, place, kind):
    try:
        story = read(document)
    except LimnerError:
        return
    place %= len(story.steps)
    if (edited := acted(kind, story, place)) is None:
        return
    runs = [step.run for step in story.steps[place : place + 1 + (kind == "merge")]]
    touched = {n for run in runs for block in story.blocks[slice(*run)] for n in range(*block.lines)}
    kept = [re.sub(r"\d+", "", line) for n, line in enumerate(lines_of(document)) if n not in touched]
    rest = iter([re.sub(r"\d+", "", line) for line in lines_of(edited.story.markdown)])
    assert all(line in rest for line in kept if line.strip(" \t>*-"))
