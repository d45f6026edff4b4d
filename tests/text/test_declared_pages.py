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
    story = read(declared(recipeYield="for two", supply=["a pan"])).story
    assert [text for _, text in around(story)][:3] == ["for two", "Supplies", "a pan"]


def test_the_rest_of_a_list_follows_what_the_page_shows_of_it():
    story = read(declared(recipeIngredient=["3 leeks", "nutmeg", "cream"])).story
    said = [text for _, text in around(story)]
    place = said.index("What you need")
    assert said[place : place + 4] == ["What you need", "3 leeks", "cream", "nutmeg"]
    assert said.count("What you need") == said.count("3 leeks") == 1


@pytest.mark.parametrize(
    "steps", [[*STEPS[:2], "Add milk."], STEPS[::-1]], ids=["other words", "another order"]
)
def test_where_the_page_says_it_otherwise_that_is_told(steps):
    reading = read(declared(steps))
    assert [step.text for step in reading.story.steps] == steps
    assert any("in other words" in note for note in reading.notes)
    (around,) = (one for one in reading.left_out if one.reason == "page around the declared steps")
    assert "My aunt made them every winter." in around.text
    assert around.pictures == ("rings.jpg",)


def test_words_around_the_main_content_are_counted():
    reading = read({})
    (around,) = (one for one in reading.left_out if one.reason == "page around the main content")
    assert around.text.split() == ["Home", "Contact"]


def test_words_and_pictures_beside_the_text_are_counted():
    menu = "<table class='navigation'><td>Home</td><td>All recipes</td><td><img src='up.png'></td></table>"
    page = f"<body><h1>Soup</h1>{menu}<p>Fry the onion in butter.</p><p>Add the peas and water.</p></body>"
    (beside,) = parse_story_report(page, format="html").left_out
    assert (beside.text.split(), beside.pictures) == (["Home", "All", "recipes"], ("up.png",))


def test_steps_outside_the_main_content_widen_it():
    page = PAGE.replace("<ol>", "</main><div class='card'><ol>").replace("</main><footer>", "</div><footer>")
    assert (3, "It keeps for two days.") in around(read(declared(), page).story)
    assert "Home" not in [text for _, text in around(read(declared(), page).story)]


SOUP = '{"@type": "Recipe", "recipeInstructions": [{"text": "Fry // it."}, "Add /* peas."]}'
BARE = "<script type='application/ld+json'>{declared}</script><main><p>My aunt.</p><p>Comments: 14</p></main>"


def read_raw(block):
    return parse_story_report(BARE.replace("{declared}", block), format="html")


@pytest.mark.parametrize(
    "block",
    [
        f"<!--\n{SOUP}\n-->",
        f"//<![CDATA[\n{SOUP}\n//]]>",
        f"/* <![CDATA[ */ {SOUP} /* ]]> */",
        f"\ufeff{SOUP};",
        SOUP.replace("]}", ",]}"),
        SOUP.replace("[{", "[ /* the steps */ {").replace(', "Add', ', // and\n "Add'),
        '{"@type": "WebSite", "name": "a"}' + SOUP,
        '{"@type": "WebSite"};\n' + SOUP + ";",
        SOUP.replace("Fry ", "Fry\t"),
        f"/* by a plugin */ {SOUP}",
        SOUP.replace('"', "'"),
        SOUP.replace('"recipeInstructions"', "recipeInstructions").replace("Fry", "\\Fry"),
        SOUP.replace('"Recipe",', '"schema:recipe",, "author":,'),
        SOUP.replace('"', "&quot;"),
        f'{{"@type": "ItemList", "itemListElement": [{{"item": {SOUP}}}]}}',
        SOUP.replace("[{", '{"0": {').replace(', "Add', ', "2": "Add').replace("]}", "}}"),
    ],
    ids=[
        "comment",
        "cdata",
        "cdata in comments",
        "bom",
        "comma",
        "comments",
        "two",
        "semicolons",
        "tab",
        *("remark", "quotes", "keys", "commas", "entities", "in a list", "of PHP"),
    ],
)
def test_what_programs_write_around_and_in_json_is_passed_over(block):
    assert [step.text for step in read_raw(block).story.steps] == ["Fry // it.", "Add /* peas."]


def test_a_recipe_that_cannot_be_read_is_told_and_other_things_are_not():
    (told,) = (note for note in read_raw(SOUP.replace("]}", "]")).notes if "JSON-LD" in note)
    assert told.startswith("the recipe that the page declares cannot be read (JSON-LD, Expecting ")
    assert not any("JSON-LD" in note for note in read_raw('{"@type": "WebSite"').notes)
    (told,) = (note for note in read_raw('{"@type": "Recipe", "name": "a"}').notes if "JSON-LD" in note)
    assert told == "the page declares a recipe without steps (JSON-LD): its visible text is used"


@pytest.mark.parametrize(
    ("instructions", "due"),
    [
        ({"@type": "HowToSection", "item": [{"@type": "HowToStep", "text": "Fry."}, {"text": "Stir."}]}, 2),
        ([{"@type": "HowToSection", "item": [{"text": "Fry."}]}, {"@type": "HowToSection"}, "Stir."], 2),
        ("1. Fry for 2. minutes\n2. Stir.", 2),
        ("1. Fry. 2. Stir. Step 3: Serve.", 3),
        ("Fry.\nStir.", 2),
        ("<ol class='a'><li>Fry.<li>Stir.</ol>", 2),
        ("Fry.<BR class='a'/>Stir.", 2),
        (["Fry\n it.", "Stir."], 2),
        ("Step 1: Fry 1) twice.", 1),
        ([{"@type": "HowToStep", "text": "Fry."}], 1),
    ],
)
def test_instructions_of_every_form_are_steps(instructions, due):
    reading = read_raw(json.dumps({"@type": "Recipe", "recipeInstructions": instructions}))
    assert len(reading.story.steps) == due
    assert reading.notes[0] == "steps as declared by the page (schema.org)"


def test_places_that_steps_state_count():
    steps = [{"position": 2, "text": "Stir."}, {"position": "1", "text": "Fry."}]
    story = read_raw(json.dumps({"@type": "Recipe", "recipeInstructions": steps})).story
    assert [step.text for step in story.steps] == ["Fry.", "Stir."]


def test_a_second_recipe_is_told_and_the_same_once_more_is_not():
    second = SOUP.replace("Fry", "Bake")
    told = {item.reason: item.text for item in read_raw(f"{SOUP}{SOUP}{second}").left_out}
    assert told["another recipe that the page declares"] == "Bake // it.\nAdd /* peas."
    assert "another recipe that the page declares" not in {one.reason for one in read_raw(SOUP * 2).left_out}


STEP = "<div itemprop='recipeInstructions' itemscope><b>1</b><span itemprop='text'>{}</span></div>"


@pytest.mark.parametrize(
    "marked",
    [
        "itemscope itemtype='https://schema.org/Recipe'>"
        "<p itemprop='recipeInstructions'>Fry.</p><p itemprop='recipeInstructions'>Stir.</p>",
        "itemscope itemtype='http://schema.org/Recipe'>"
        "<div itemprop='recipeInstructions' class='instructions'>"
        "<h3>So:</h3><ol><li>Fry.</li><li>Stir.</li></ol></div>",
        "itemscope itemtype='http://schema.org/Recipe'>" + STEP.format("Fry.") + STEP.format("Stir."),
        "typeof='schema:Recipe'><div property='schema:recipeInstructions'>Fry.<br>Stir.</div>",
        "class='hrecipe'><div class='instructions'><p>Fry.</p><p>Stir.</p></div>",
    ],
    ids=["paragraphs", "list", "steps", "RDFa", "microformat"],
)
def test_steps_that_a_page_marks_where_it_shows_them_are_declared(marked):
    page = f"<body><h1>Soup</h1><div {marked}</div><p>Comments: 14</p></body>"
    reading = parse_story_report(page, format="html")
    assert [step.text for step in reading.story.steps] == ["Fry.", "Stir."]
    assert reading.story.title == "Soup"
    assert "no explicit steps found: cut into paragraphs" not in reading.notes


@pytest.mark.parametrize(
    ("image", "due"),
    [
        ("a.jpg", ["a.jpg"]),
        ({"@type": "ImageObject", "url": "a.jpg"}, ["a.jpg"]),
        ({"@type": "ImageObject", "contentUrl": "a.jpg"}, ["a.jpg"]),
        (["a.jpg", "b.jpg"], ["a.jpg", "b.jpg"]),
        ({"@id": "#picture"}, []),
    ],
    ids=["address", "object", "content", "several", "elsewhere"],
)
def test_pictures_of_declared_steps_in_every_form(image, due):
    recipe = {
        "@type": "Recipe",
        "recipeInstructions": [{"@type": "HowToStep", "text": "Fry.", "image": image}],
    }
    (step,) = read_raw(json.dumps(recipe)).story.steps
    assert [picture.target for picture in step.pictures] == due


@pytest.mark.parametrize(
    "shown",
    [
        "<img src='data:image/gif;base64,R0lG' data-src='a.jpg'>",
        "<noscript><img src='a.jpg'></noscript><img data-lazy-src='a.jpg'>",
        "<picture><source srcset='a.jpg 1200w, b.jpg 300w'><img src='placeholder.gif'></picture>",
    ],
    ids=["data-src", "noscript", "srcset"],
)
def test_the_picture_counts_that_a_placeholder_stands_for(shown):
    (step, _) = parse_story_report(f"<ol><li>Fry. {shown}<li>Serve.</ol>", format="html").story.steps
    assert [picture.target for picture in step.pictures] == ["a.jpg"]


def test_one_declared_step_that_the_page_shows_as_several_is_not_taken():
    reading = read(declared() | {"recipeInstructions": " ".join(STEPS[:2])})
    assert "the page declares all its steps as one: its visible text is used" in reading.notes
    assert [step.text for step in reading.story.steps] != [" ".join(STEPS[:2])]


@pytest.mark.parametrize(
    "shown",
    [
        "<figure><img src='a.jpg'><figcaption>At the lake</figcaption></figure>",
        "<figure><figcaption>At the lake</figcaption><img src='a.jpg' alt='x'></figure>",
        "<div class='wp-caption'><img src='a.jpg'><p class='wp-caption-text'>At the lake</p></div>",
        "<p><img src='a.jpg'><br><em>At the lake</em></p>",
        "<p><picture><source srcset='a.jpg 1200w, b.jpg 300w'><img src='placeholder.gif'></picture></p>"
        "<p class='image-caption'>At the lake</p>",
        "<table><tr><td><img src='a.jpg'></td></tr><tr><td class='tr-caption'>At the lake</td></tr></table>",
        '<p>[caption id="a_1" width="9"]<a href="b.jpg"><img src="a.jpg"></a> At the lake[/caption]</p>',
        "<div class='thumb'><img src='a.jpg'><div class='thumbcaption'>At the lake</div></div>",
        "<div class='imageblock'><div><img src='a.jpg'></div><div class='title'>At the lake</div></div>",
        "<div class='figure'><img src='a.jpg'><p class='caption'><span class='caption-number'>At </span>"
        "<span class='caption-text'>the lake</span></p></div>",
        "<p><img src='a.jpg'></p><p><em>At the lake</em></p>",
    ],
)
def test_a_caption_belongs_to_its_picture_and_is_no_step(shown):
    page = f"<main><p>We walked far.</p>{shown}<p>We swam in the cold water.</p></main>"
    reading = parse_story_report(page, format="html")
    assert [step.text for step in reading.story.steps] == ["We walked far.", "We swam in the cold water."]
    ((picture,),) = (step.pictures for step in reading.story.steps if step.pictures)
    assert (picture.target, picture.alt, picture.caption) == ("a.jpg", "At the lake", "At the lake")
    assert reading.story.between == ()
    assert [one.text for one in reading.left_out if one.reason == "caption of a picture"] == ["At the lake"]


@pytest.mark.parametrize(
    ("words", "steps"), [("Figure 2: the mill", 1), ("Photos 3 and 4 show it", 2)], ids=["caption", "step"]
)
def test_a_paragraph_below_a_picture_is_its_caption_if_it_numbers_it(words, steps):
    page = f"<main><p>We walked far.</p><p><img src='a.jpg'></p><p>{words}</p></main>"
    story = parse_story_report(page, format="html").story
    assert len(story.steps) == steps


def test_a_caption_without_a_picture_is_not_called_one_of_a_picture():
    figure = "<figure><blockquote>So it is.</blockquote><figcaption>Ada</figcaption></figure>"
    page = f"<main><p>We swam.</p>{figure}</main>"
    reading = parse_story_report(page, format="html")
    assert [(one.reason, one.text) for one in reading.left_out] == [("caption", "Ada")]


@pytest.mark.parametrize(
    "shown",
    [
        "<figure class='wp-block-gallery'>{}{}</figure>",
        "<ul class='wp-block-gallery'><li class='blocks-gallery-item'>{}</li>"
        "<li class='blocks-gallery-item'>{}</li></ul>",
    ],
    ids=["figure", "list"],
)
def test_captions_of_a_gallery_are_no_steps(shown):
    figure = "<figure><img src='{0}.jpg'><figcaption>Day {0}</figcaption></figure>"
    page = f"<main><p>We walked far.</p>{shown.format(figure.format('a'), figure.format('b'))}</main>"
    (step,) = parse_story_report(page, format="html").story.steps
    assert step.text == "We walked far."
    assert [(one.target, one.caption) for one in step.pictures] == [("a.jpg", "Day a"), ("b.jpg", "Day b")]


@pytest.mark.parametrize(
    ("words", "steps"), [("Fig. 2: the mill", 1), ("Saw the wood", 2)], ids=["caption", "step"]
)
def test_words_below_a_picture_in_a_table_are_its_caption_where_they_number_it(words, steps):
    table = f"<table><tr><td><img src='a.jpg'></td></tr><tr><td>{words}</td></tr></table>"
    story = parse_story_report(f"<main><p>We walked far.</p>{table}</main>", format="html").story
    assert len(story.steps) == steps
    assert story.steps[-1].pictures[0].caption == ("" if steps == 2 else words)


def test_captions_that_are_the_only_words_are_the_text():
    figures = "".join(
        f"<figure><img src='{one}.jpg'><figcaption>Day {one}</figcaption></figure>" for one in "ab"
    )
    assert [step.text for step in parse_story_report(figures, format="html").story.steps] == [
        "Day a",
        "Day b",
    ]


LISTED = PAGE.replace("<p>Take your time here.</p><h3>The end</h3><p>Add cream and serve.</p>", "").replace(
    "slowly.</li></ol>", "slowly.</li><li>Add cream and serve.</li><li>Eat them while they are hot.</li></ol>"
)


@pytest.mark.parametrize(
    ("steps", "due"),
    [
        (STEPS[:1], 4),
        (["Fry them in butter"], 4),
        ([STEPS[0], STEPS[2]], 4),
        (STEPS, 3),
        (["Serve."], 1),
        (STEPS[1::-1], 2),
    ],
    ids=["the first", "a part of one", "two", "most", "short words inside one", "another order"],
)
def test_a_list_that_shows_clearly_more_than_is_declared_is_read(steps, due):
    reading = read({"@type": "Recipe", "name": "Leeks", "recipeInstructions": steps}, LISTED)
    note = "the page declares only part of the steps that it lists: its visible text is used"
    assert (len(reading.story.steps), note in reading.notes) == (due, due == 4)
    if due == 4:
        first, _, third, _ = reading.story.steps
        assert (first.text, first.pictures[0].target, third.text) == (STEPS[0], "rings.jpg", STEPS[2])


def test_a_list_beside_the_main_content_is_read_as_well():
    page = LISTED.replace("<ol>", "</main><div><ol>").replace("</main><footer>", "</div><footer>")
    assert len(read({"@type": "Recipe", "recipeInstructions": STEPS[:1]}, page).story.steps) == 4
