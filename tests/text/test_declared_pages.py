"""Pages that declare their steps (schema.org): the words around the steps stay in their places."""

import json

import pytest

from limner.text.read import parse_story_report

STEPS = ["Cut the leeks into thin rings.", "Fry them in butter, slowly.", "Add cream and serve."]
PAGE = """<html><head><title>Leeks</title><script type="application/ld+json">{declared}</script></head><body>
<nav><a href="/">Home</a></nav><main><h1>Leeks in cream</h1>
<p>My aunt made them <a href="https://example.org/aunt">every winter</a>.</p>
<h2>What you need</h2><ul><li>3 leeks</li><li>cream</li></ul>
<h2>Method</h2><ol><li>Cut the leeks into thin rings. <img src="rings.jpg" alt="rings"></li>
<li>Fry them in butter,<br>slowly.</li></ol>
<p>Take your time here.</p><h3>The end</h3><p>Add cream and serve.</p>
<h2>Notes</h2><p>It keeps for two days.</p></main><footer>Contact</footer></body></html>"""


def declared(steps=STEPS, **more):
    last = {
        "@type": "HowToSection",
        "name": "The end",
        "itemListElement": [{"@type": "HowToStep", "text": steps[-1]}],
    }
    things = [*({"@type": "HowToStep", "text": text} for text in steps[:-1]), last]
    return {"@type": "Recipe", "name": "Leeks in cream", "recipeInstructions": things, **more}


def read(thing, page=PAGE):
    return parse_story_report(page.replace("{declared}", json.dumps(thing)), format="html")


def around(story):
    return [(part.before, part.text) for part in story.between]


def test_what_stands_around_declared_steps_stays_in_its_place():
    story = read(declared()).story
    assert [step.text for step in story.steps] == STEPS
    assert around(story) == [
        (0, "My aunt made them every winter."),
        (0, "What you need"),
        (0, "3 leeks"),
        (0, "cream"),
        (0, "Method"),
        (2, "Take your time here."),
        (3, "Notes"),
        (3, "It keeps for two days."),
    ]
    assert story.between[0].marks[0].target == "https://example.org/aunt"
    assert story.steps[2].title == "The end"  # the page's heading is it, and stands once


def test_a_step_that_declares_no_picture_has_the_pages():
    story = read(declared()).story
    assert [[picture.target for picture in step.pictures] for step in story.steps] == [["rings.jpg"], [], []]


def test_what_is_declared_and_not_shown_is_kept_and_stands_once():
    story = read(declared(recipeIngredient=["3 leeks", "nutmeg"], recipeYield="for two")).story
    said = [text for _, text in around(story)]
    assert said.count("3 leeks") == 1
    assert said[:3] == ["for two", "What you need", "nutmeg"]


@pytest.mark.parametrize(
    "steps", [[*STEPS[:2], "Add milk."], STEPS[::-1]], ids=["other words", "another order"]
)
def test_where_the_page_says_it_otherwise_that_is_told(steps):
    reading = read(declared(steps))
    assert [step.text for step in reading.story.steps] == steps
    assert any("in other words" in note for note in reading.notes)
    assert "page around the declared steps" in [one.reason for one in reading.left_out]


def test_steps_outside_the_main_content_widen_it():
    page = PAGE.replace("<ol>", "</main><div class='card'><ol>").replace("</main><footer>", "</div><footer>")
    assert (3, "It keeps for two days.") in around(read(declared(), page).story)
    assert "Home" not in [text for _, text in around(read(declared(), page).story)]
