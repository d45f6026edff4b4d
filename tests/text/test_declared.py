"""Steps that a page declares (schema.org): which of its visible blocks they are, and what is read of them."""

import json

import pytest
from block_notation import notation

from limner.records import PictureRef
from limner.text.markup import read_html

STEPS = ["Cut the leeks into thin rings.", "Fry them in butter, slowly.", "Add cream and serve."]
SHOWN = """<h1>Leeks in cream</h1><p>My aunt made them.</p>
<h2>What you need</h2><ul><li>3 leeks</li><li>cream</li></ul>
<h2>Method</h2><ol><li><h6>Step 1</h6><p>Cut the leeks into thin rings.</p><img src="rings.jpg"></li>
<li>Fry them in butter,<br>slowly.</li></ol><p>Take your time.</p>
<h3>The end</h3><p><b>1</b> Add <i>cream</i> and serve. Enjoy!</p><p><img src="end.jpg"></p>
<h2>Notes</h2><p>It keeps for two days.</p>"""


def read(thing, shown=SHOWN):
    script = thing if isinstance(thing, str) else json.dumps(thing)
    page = f"<script type='application/ld+json'>{script}</script><main>{shown}</main>"
    return read_html(page, "page.html", lambda target, alt: PictureRef(target=target, alt=alt))


def recipe(steps, **more):
    return {"@type": "Recipe", "name": "Leeks", "recipeInstructions": steps, **more}


def runs(document):
    return [notation(document.blocks[slice(*step.run)]) for step in document.declared]


def test_declared_steps_are_runs_of_the_blocks_that_the_page_shows():
    section = {"@type": "HowToSection", "name": "The end", "itemListElement": [{"text": STEPS[2]}]}
    document = read(recipe([*STEPS[:2], section], author={"name": "Ann"}))
    assert runs(document) == [
        ["1. Step 1", "| Cut the leeks into thin rings.", "| [rings.jpg]"],
        ["2. Fry them in butter, ⏎ slowly."],
        ["### The end", "1 Add cream and serve. Enjoy!", "[end.jpg]"],
    ]
    assert [step.title for step in document.declared] == ["Method", "Method", "The end"]
    around = {place for step in document.declared for place in range(*step.run)}
    beside = [block.text for place, block in enumerate(document.blocks) if place not in around]
    assert beside[:1] == ["My aunt made them."]
    assert beside[-3:] == ["Take your time.", "Notes", "It keeps for two days."]
    assert (document.title, document.author) == ("Leeks in cream", "Ann")


def test_a_picture_that_only_the_declaration_has_is_added():
    steps = [{"text": STEPS[0], "image": "other.jpg"}, {"text": STEPS[1], "image": "fry.jpg"}]
    first, second = runs(read(recipe(steps)))
    assert first[2:] == ["| [rings.jpg]"]  # the page's own picture counts
    assert second == ["2. Fry them in butter, ⏎ slowly.", "| [fry.jpg]"]


def test_a_name_before_the_words_of_a_step_is_its_title():
    steps = [{"name": "Cut", "text": "Thin rings."}, {"name": "Fry", "text": "Slowly."}]
    document = read(recipe(steps), "<p><b>Cut.</b> Thin rings.</p><h3>Fry</h3><p>Slowly.</p>")
    assert runs(document) == [["Cut. Thin rings."], ["### Fry", "Slowly."]]


def test_each_block_of_steps_that_are_declared_as_one_string_is_a_step():
    document = read(recipe(" ".join(STEPS)), "".join(f"<p>{step}</p>" for step in STEPS))
    assert [step.text for step in document.declared] == STEPS


def test_a_picture_of_a_box_belongs_to_its_step():
    boxes = "".join(f"<div><img src={n}.jpg><p>{step}</p></div>" for n, step in enumerate(STEPS))
    assert [run[0] for run in runs(read(recipe(STEPS), boxes))] == ["g1 [0.jpg]", "g2 [1.jpg]", "g3 [2.jpg]"]


@pytest.mark.parametrize(
    ("steps", "count", "note"),
    [
        (STEPS[::-1], 0, "its visible text is read"),
        (["Cut the leeks into thin rings.", "Something else."], 0, "its visible text is read"),
        (["One thing.", "Another.", "A third."], 3, "only what it declares is read"),
    ],
    ids=["another order", "half", "other words"],
)
def test_where_the_page_says_it_otherwise_that_is_noted(steps, count, note):
    document = read(recipe(steps))
    assert len(document.declared) == count
    assert document.notes[-1].endswith(note)
    if count:
        assert document.title == "Leeks"
        (around,) = document.left_out
        assert "My aunt made them." in around.text
        assert around.pictures == ("rings.jpg", "end.jpg")


@pytest.mark.parametrize(
    ("instructions", "steps"),
    [
        ("1. Fry for 2. minutes\n2. Stir.", ["Fry for 2. minutes", "Stir."]),
        ("1. Fry. 2. Stir. Step 3: Serve.", ["Fry.", "Stir.", "Serve."]),
        ("<ol class='a'><li>Fry &amp; wait.<li>Stir.</ol>", ["Fry & wait.", "Stir."]),
        ("Fry &lt;b&gt;it&lt;/b&gt;.<BR class='a'/>Stir.", ["Fry it.", "Stir."]),
        ({"@type": "HowToSection", "item": [{"text": "Fry."}, {"text": "Stir."}]}, ["Fry.", "Stir."]),
        ([{"name": "Fry", "itemListElement": [{"text": "Cut."}, {"text": "Heat."}]}], ["Cut.", "Heat."]),
    ],
)
def test_instructions_of_every_form_are_steps(instructions, steps):
    assert [step.text for step in read(recipe(instructions)).declared] == steps


def test_pictures_of_declared_steps():
    image = ["a.jpg", {"url": "b.jpg", "caption": "peas"}, {"contentUrl": "c.jpg"}, {"@id": "#picture"}]
    (step,) = read(recipe([{"text": "Fry.", "image": image}])).declared
    assert [picture.target for picture in step.pictures] == ["a.jpg", "b.jpg", "c.jpg"]


SOUP = json.dumps(recipe(["Fry // it.", "Add /* peas."]))


@pytest.mark.parametrize(
    "script",
    [
        f"<!--\n{SOUP}\n-->",
        f"//<![CDATA[\n{SOUP}\n//]]>",
        f"\ufeff{SOUP};",
        f'{{"@graph": [{{"@type": "WebPage"}}, {SOUP}]}}',
        f'{{"@type": "ItemList", "itemListElement": [{{"item": {SOUP}}}]}}',
        SOUP.replace('"Recipe"', '["schema:Recipe", "Thing"]'),
    ],
)
def test_what_programs_write_around_json_is_passed_over(script):
    assert [step.text for step in read(script).declared] == ["Fry // it.", "Add /* peas."]


@pytest.mark.parametrize(
    ("script", "is_noted"),
    [
        (SOUP.replace("]}", ",]}"), True),
        ('{"@type": "WebSite"', False),
        ("[" * 100_000, False),
        (json.dumps({"@type": "Recipe", "name": "a"}), False),
    ],
)
def test_a_declaration_that_is_not_json_is_noted_and_the_page_is_read(script, is_noted):
    document = read(script)
    assert not document.declared
    assert [note for note in document.notes if "no valid JSON" in note] == document.notes
    assert bool(document.notes) == is_noted
    assert len(document.blocks) > 10


ITEM = "<div itemprop=recipeInstructions itemscope><b>1</b> <span itemprop=text>{}</span></div>"


@pytest.mark.parametrize(
    "marked",
    [
        "<p itemprop=recipeInstructions>Fry.</p><p itemprop=recipeInstructions>Stir.</p>",
        "<ol itemprop=recipeInstructions><li>Fry.</li><li>Stir.</li></ol>",
        ITEM.format("Fry.") + ITEM.format("Stir."),
    ],
    ids=["paragraphs", "list", "steps"],
)
def test_steps_that_a_page_marks_where_it_shows_them_are_declared(marked):
    page = (
        f"<h1>Soup</h1><div itemscope itemtype='https://schema.org/Recipe'>{marked}</div><p>Comments: 14</p>"
    )
    assert [step.text for step in read("", page).declared] == ["Fry.", "Stir."]
