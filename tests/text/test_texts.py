"""Texts of every format become stories; nothing is lost unseen, and no input breaks a reader."""

import json
import os
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limner.errors import ConfigError, DataError, LimnerError, MissingError
from limner.match.illustrate import step_texts
from limner.records import PictureRef, Step, Story
from limner.text.read import parse_story_report, read_story_report


def parse_story(text, **options):
    return parse_story_report(text, **options).story


RECIPE = """# Cake

A short introduction.

![hero](h.jpg)

## Ingredients

- flour
- egg

## Method

1. Mix **all**
   softly.

   Wait.
   - slowly
   - gently

![one](one.jpg)

2. Bake
   ```
   x = 1
     y = 2
   ```
3. Eat 👩‍👩‍👧

## Notes

Keep cool.
"""


def texts(story):
    return [step.text for step in story.steps]


def test_a_markdown_recipe_is_its_numbered_list():
    reading = parse_story_report(RECIPE, format="markdown")
    assert reading.story.title == "Cake"
    assert reading.story.by == "step"
    assert texts(reading.story) == [
        "Mix all softly.\n\nWait.\n- slowly\n- gently",
        "Bake\n\nx = 1\n  y = 2",
        "Eat 👩‍👩‍👧",
    ]
    assert [step.title for step in reading.story.steps] == ["Method"] * 3
    assert [[p.target for p in step.pictures] for step in reading.story.steps] == [["one.jpg"], [], []]
    left_out = " ".join(item.text for item in reading.left_out)
    for words in ("A short introduction.", "flour", "egg", "Keep cool."):
        assert words in left_out
    assert [target for item in reading.left_out for target in item.pictures] == ["h.jpg"]
    assert any("ingredients" in line for line in reading.summary())


def test_what_is_in_no_step_keeps_its_place_and_its_markup():
    source = RECIPE.replace(
        "A short introduction.", "A *short* introduction, see [this](https://example.org/)."
    )
    reading = parse_story_report(source, format="markdown")
    told = [(part.before, part.kind, part.text) for part in reading.story.between]
    assert told == [
        (0, "paragraph", "A short introduction, see this."),
        (0, "paragraph", ""),
        (0, "heading", "Ingredients"),
        (0, "item", "flour"),
        (0, "item", "egg"),
        (0, "heading", "Method"),
        (3, "heading", "Notes"),
        (3, "paragraph", "Keep cool."),
    ]
    first, picture = reading.story.between[:2]
    assert [(first.text[one.start : one.end], one.kind, one.target) for one in first.marks] == [
        ("short", "emphasis", ""),
        ("this", "link", "https://example.org/"),
    ]
    assert picture.pictures[0].target == "h.jpg"
    mixed, baked, _ = reading.story.steps
    assert [(part.kind, part.depth, part.number) for part in mixed.parts] == [
        ("item", 1, 1),
        ("paragraph", 1, None),
        ("item", 2, None),
        ("item", 2, None),
    ]
    assert [(mark.start, mark.end, mark.kind) for mark in mixed.parts[0].marks] == [(4, 7, "strong")]
    assert (baked.parts[1].kind, baked.parts[1].text) == ("code", "x = 1\n  y = 2")
    assert all("not illustrated, but kept" in line for line in reading.summary())
    steps = tuple(step.model_copy(update={"lines": None}) for step in reading.story.steps)
    without_source = reading.story.model_copy(update={"markdown": "", "steps": steps})
    assert parse_story(reading.story.model_dump_json(), format="json") == without_source


def test_tables_keep_their_cells_and_quotations_are_known():
    text = "Words.\n\n| a | **b** |\n|---|---|\n| 1 | 2 |\n\n> Said.\n"
    story = parse_story(text, format="markdown", by="paragraph")
    (table,), (_, said) = story.between, story.steps
    assert [[cell.text for cell in row] for row in table.rows] == [["a", "b"], ["1", "2"]]
    assert table.head == 1
    assert table.rows[0][1].marks[0].kind == "strong"
    assert said.parts[0].quoted


def test_lines_of_plain_text_are_kept_where_the_author_broke_them():
    verse, wrapped = parse_story(
        "Roses are red,\nviolets blue.\n\n"
        "This paragraph has been wrapped by a program at some width\nand so its lines mean nothing at all.\n"
    ).steps
    assert verse.parts[0].text == "Roses are red,\nviolets blue."
    assert wrapped.parts == ()


def test_by_paragraph_keeps_even_the_ingredients():
    story = parse_story(RECIPE, format="markdown", by="paragraph")
    assert story.by == "paragraph"
    assert "- flour\n- egg" in texts(story)
    assert "Keep cool." in texts(story)


def test_front_matter_is_no_step_and_breaks_are_pages():
    reading = parse_story_report(
        "---\ntitle: Ein Buch\nlang: no\nauthor: [A, B]\nlicense: CC BY\nlayout: x\n---\n"
        "![](1.png)\n\nFirst page.\n\n---\n\nSecond.\n\n![alt](2.png 'title')\n\n"
        "---\n\n![Only this](3.png)\n",
        format="markdown",
    )
    story = reading.story
    assert (story.title, story.language, story.author, story.license) == ("Ein Buch", "no", "A, B", "CC BY")
    assert texts(story) == ["First page.", "Second.", "Only this"]
    assert [step.pictures[0].target for step in story.steps] == ["1.png", "2.png", "3.png"]
    assert [item.reason for item in reading.left_out] == ["front matter 'layout'"]


@pytest.mark.parametrize(
    "front",
    [
        '+++\ntitle = "A day"\nlang = "no"\n[params]\nx = 1\n+++\n',
        '{\n  "title": "A day",\n  "lang": "no",\n  "params": {"x": 1}\n}\n',
    ],
    ids=["toml", "json"],
)
def test_front_matter_in_toml_and_json_is_no_step(front):
    reading = parse_story_report(f"{front}\nA fox.\n\nA hare.\n", format="markdown")
    assert (reading.story.title, reading.story.language) == ("A day", "no")
    assert texts(reading.story) == ["A fox.", "A hare."]
    assert [item.reason for item in reading.left_out] == ["front matter 'params'"]


def test_a_story_that_begins_with_a_brace_is_not_front_matter():
    reading = parse_story_report("{ smiles\n}\n\nA fox.", format="markdown")
    assert texts(reading.story) == ["{ smiles }", "A fox."]


def test_a_story_that_begins_with_a_break_is_not_front_matter():
    story = parse_story("---\n\nShe said: hello.\n\n---\n\nHe went.\n", format="markdown")
    assert texts(story) == ["She said: hello.", "He went."]


def test_broken_front_matter_is_one_line():
    with pytest.raises(DataError, match="front matter is not YAML") as caught:
        parse_story("---\ntitle: [a\n---\nText.\n", format="markdown")
    assert "\n" not in str(caught.value)


def test_headings_are_steps_and_the_introduction_of_an_article_stays():
    text = "# T\n\nIntro\n\n## A\n\ntext a\n\n## Group\n\n### C\n\ntext c\n"
    reading = parse_story_report(text, format="markdown")
    assert [(s.title, s.text) for s in reading.story.steps] == [
        ("", "Intro"),
        ("A", "text a"),
        ("C", "text c"),
    ]
    assert [item.text for item in reading.left_out] == ["Group"]
    assert parse_story(text, format="markdown", by="heading").by == "heading"


def test_numbered_headings_take_what_is_under_them():
    text = (
        "# T\n\nIntro\n\n## Step 1: Cut\n\na\n\n### Detail\n\nb\n\n## Step 2: Glue\n\nc\n\n## Thanks\n\nd\n"
    )
    reading = parse_story_report(text, format="markdown")
    assert [(s.title, s.text) for s in reading.story.steps] == [
        ("Step 1: Cut", "a\n\nDetail\n\nb"),
        ("Step 2: Glue", "c"),
    ]
    assert [(item.reason, item.text) for item in reading.left_out] == [
        ("introduction", "Intro"),
        ("after the steps", "Thanks\n\nd"),
    ]


def test_mixed_sections_keep_the_text_between_lists():
    long = "A long paragraph that says much more than the two short items of the list below it does."
    text = f"# T\n\n## Prepare\n\n{long}\n\n## Build\n\n1. Cut\n2. Glue\n"
    assert texts(parse_story(text, format="markdown")) == [long, "Cut", "Glue"]


def test_headings_with_pictures_alone_are_their_own_words():
    story = parse_story("# T\n\n## Oil\n![](a.png)\n## Fire\n![](b.png)", format="markdown")
    assert texts(story) == ["Oil", "Fire"]
    assert [step.pictures[0].target for step in story.steps] == ["a.png", "b.png"]


def test_tables_and_raw_html_in_markdown_are_read():
    story = parse_story(
        "| a | b |\n|---|---|\n| ![x](1.png) one | 2 |\n\n"
        "<p align=center><img src='2.png' alt='two'>Words</p>\n",
        format="markdown",
    )
    assert texts(story) == ["a | b\none | 2", "Words"]
    assert [step.pictures[0].target for step in story.steps] == ["1.png", "2.png"]


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("Step 1: Mix\n\nmore\n\nStep 2: Bake\nlong\n\nend", ["Mix\n\nmore", "Bake long\n\nend"]),
        ("第一步：打鸡蛋。\n第二步：加糖。", ["打鸡蛋。", "加糖。"]),
        ("١. اغسل الخضار\n٢. قطع الخضار", ["اغسل الخضار", "قطع الخضار"]),
        ("Hatua 1: Chemsha maji.\nHatua 2: Weka unga.", ["Chemsha maji.", "Weka unga."]),
        ("चरण 1: पानी उबालें।\nचरण 2: चाय डालें।", ["पानी उबालें।", "चाय डालें।"]),
        ("שלב 1: לערבב.\nשלב 2: לאפות.", ["לערבב.", "לאפות."]),
        ("First page\fSecond page", ["First page", "Second page"]),
        ("1. Boil.\n2. Serve\nhot.", ["Boil.", "Serve hot."]),
    ],
)
def test_plain_text_steps(text, steps):
    story = parse_story(text)
    assert story.by == "step"
    assert texts(story) == steps


def test_a_number_out_of_turn_is_text():
    reading = parse_story_report("It began.\n\n1984. It was a bright day.\n\n2.5 kg of salt.")
    assert reading.story.by == "paragraph"
    assert len(reading.story.steps) == 3
    assert len(reading.notes) == 1  # that no steps were found


def test_plain_title_and_plain_ingredients():
    reading = parse_story_report("Soup\n\nIngredients:\nsalt\nwater\n\nMethod:\n1. Boil.\n2. Serve.\n")
    assert reading.story.title == "Soup"
    assert texts(reading.story) == ["Boil.", "Serve."]
    assert "salt" in reading.left_out[0].text
    assert parse_story("The Lost Goat\n\nOnce, a goat.\n\nHome.").title == "The Lost Goat"
    assert parse_story("only words\n\nno stops\n\nat all").title == ""


@pytest.mark.parametrize(
    ("text", "pieces", "direction"),
    [
        ("ذهب الولد إلى المدرسة. ثم عاد؟ نعم.", 3, "rtl"),
        ("राम घर गया। वह खुश था। क्यों?", 3, "ltr"),
        ("他回家了。他说：“好！”为什么？", 3, "ltr"),
        ("שלום עולם hello. מה שלומך?", 2, "rtl"),
        ("「はい。」と言った。値は３．５です．終わり。", 3, "ltr"),
        ("Dr. Smith ate 3.5 apples. Why?", 2, "ltr"),
        ("สวัสดีครับ วันนี้อากาศดี", 1, "ltr"),
        ("Nilikwenda nyumbani. Nilikula.", 2, "ltr"),
    ],
)
def test_sentences_and_direction(text, pieces, direction):
    story = parse_story(text, by="sentence")
    assert len(story.steps) == pieces
    assert "".join("".join(texts(story)).split()) == "".join(text.split())
    assert story.direction == direction


@pytest.mark.parametrize("format_", ["plain", "markdown", "html"])
def test_no_letter_is_altered(format_):
    words = "e\u0301 \u200fשלום\u200e 👩\u200d👩\u200d👧 क्\u200dष ﬁ Å a\u00a0b"
    body = f"<p>{words}</p><p>end</p>" if format_ == "html" else f"{words}\n\nend"
    assert texts(parse_story(body, format=format_)) == [words, "end"]


BLOG = """<!doctype html><html lang="en"><head><title>My cat | Blog</title>
<meta name="author" content="Ann"></head>
<body><header class="site-header"><a href="/">Home</a></header><nav>Menu About</nav>
<div id="wrap"><div class="post"><h1>My cat</h1>
<p>My cat sleeps all day on the warm windowsill and never looks at the birds outside, whatever they do.</p>
<figure><img src="data:image/gif;base64,AA" data-src="cat.jpg" alt="cat">
<figcaption>Asleep</figcaption></figure>
<p>At night she wakes and hunts moths under the lamp in the garden until the sun comes up again.</p></div>
<div class="sidebar">Other posts and archives</div>
<div id="comments"><p>Nice cat, I have two of them!</p></div></div>
<footer>Copyright</footer><script>var x = "words";</script></body></html>"""


def test_a_blog_page_is_its_main_content():
    reading = parse_story_report(BLOG, format="html")
    story = reading.story
    assert (story.title, story.language, story.author) == ("My cat", "en", "Ann")
    words = " ".join(texts(story))
    assert "windowsill" in words
    assert "moths" in words
    assert "Asleep" not in words
    assert "Asleep" in story.steps[0].pictures[0].alt
    for beside in ("Menu", "Copyright", "Nice cat", "Other posts", "var x"):
        assert beside not in words
    assert [p.target for step in story.steps for p in step.pictures] == ["cat.jpg"]
    assert reading.left_out


def test_a_handwritten_page_is_kept_whole():
    page = (
        "<html lang=ar dir=rtl><h1>قصة</h1><p>ذهب الولد.<br>عاد.</p>"
        "<hr><p>end</p><img srcset='s.jpg 1x, l.jpg 2x'>"
    )
    story = parse_story(page, format="html")
    assert (story.title, story.language, story.direction) == ("قصة", "ar", "rtl")
    assert texts(story) == ["ذهب الولد.\nعاد.", "end"]
    assert story.steps[1].pictures[0].target == "l.jpg"


@pytest.mark.parametrize(
    ("page", "direction"),
    [
        ("<html dir=rtl><p>He went to school.</p>", "rtl"),
        ("<html dir=rtl><body dir=LTR><p>ذهب الولد.</p>", "ltr"),
        ("<html dir=auto><p>ذهب الولد.</p>", "rtl"),
    ],
    ids=["declared", "by the nearest element", "told by the letters"],
)
def test_a_page_declares_its_direction(page, direction):
    assert parse_story(page, format="html").direction == direction


def test_a_paragraph_that_begins_with_its_number_is_an_item():
    for source, format_ in (("Step 1: Cut.\n\nStep 2: Glue.", "markdown"), ("<p>1) Cut.<p>2) Glue.", "html")):
        steps = parse_story(source, format=format_).steps
        parts = [(part.kind, part.depth, part.number, part.text) for step in steps for part in step.parts]
        assert parts == [("item", 1, 1, "Cut."), ("item", 1, 2, "Glue.")]


def test_chinese_steps_are_counted_in_chinese():
    numbers = "一二三四五六七八九"
    numbers = [*numbers, "十", *(f"十{n}" for n in numbers), "二十", *(f"二十{n}" for n in numbers)]
    story = parse_story("\n".join(f"第{number}步：切番茄{number}片" for number in numbers))
    assert texts(story) == [f"切番茄{number}片" for number in numbers]


def test_declared_recipe_steps_win():
    recipe = {
        "@context": "https://schema.org",
        "@graph": [
            {"@type": "WebPage"},
            {
                "@type": ["Recipe"],
                "name": "Tea",
                "author": {"name": "Ann"},
                "recipeIngredient": ["water", "leaves"],
                "recipeInstructions": [
                    {
                        "@type": "HowToSection",
                        "name": "Water",
                        "itemListElement": [
                            {
                                "@type": "HowToStep",
                                "text": "Boil <b>it</b> &amp; wait",
                                "image": {"url": "1.jpg"},
                            }
                        ],
                    },
                    {"@type": "HowToStep", "name": "Pour", "text": "Pour it."},
                    "Drink.",
                ],
            },
        ],
    }
    page = f"<script type='application/ld+json'>{json.dumps(recipe)}</script><h1>x</h1><ol><li>a<li>b</ol>"
    reading = parse_story_report(page, format="html")
    assert (reading.story.title, reading.story.author) == ("Tea", "Ann")
    assert [(s.title, s.text) for s in reading.story.steps] == [
        ("Water", "Boil it & wait"),
        ("", "Pour it."),
        ("", "Drink."),
    ]
    assert reading.story.steps[0].pictures[0].target == "1.jpg"
    assert reading.left_out[0].text == "water\nleaves"
    assert [(part.before, part.kind, part.text) for part in reading.story.between] == [
        (0, "heading", "Ingredients"),
        (0, "item", "water"),
        (0, "item", "leaves"),
    ]


def test_a_page_with_control_characters_beside_its_navigation():
    page = "<nav>Home</nav>\f<p>Some words that stand here.</p><p>And more\x01words of the page.</p>"
    assert texts(parse_story(page, format="html")) == [
        "Some words that stand here.",
        "And more words of the page.",
    ]


def test_json_forms():
    story = parse_story('["a", {"text": "b", "image": "x.png", "title": "B"}]', format="json")
    assert (story.id, texts(story), story.steps[1].title) == ("text", ["a", "b"], "B")
    whole = Story(
        id="s",
        title="T",
        by="sentence",
        split="val",
        steps=(Step(text="a", pictures=(PictureRef(target="x", alt="y", sha256="z"),)), Step(text="b")),
    )
    assert parse_story(whole.model_dump_json(), format="json") == whole
    assert parse_story(json.dumps({"story": whole.model_dump()}), format="json") == whole
    reading = parse_story_report('{"tittle": "T", "steps": ["One cat. Two."]}', format="json", by="sentence")
    assert texts(reading.story) == ["One cat.", "Two."]
    assert [item.reason for item in reading.left_out] == ["unknown key 'tittle'"]


@pytest.mark.parametrize(
    "bad", ["{", "3", "{}", '{"steps": [3]}', '{"steps": [""]}', '{"steps":["a"],"by":"x"}']
)
def test_wrong_json_is_one_line(bad):
    with pytest.raises(DataError) as caught:
        parse_story(bad, format="json")
    assert "\n" not in str(caught.value)


def test_pictures_resolve_beside_the_text(tmp_path):
    (tmp_path / "my pic.jpg").write_bytes(b"x")
    (tmp_path / "ä.jpg").write_bytes(b"x")
    path = tmp_path / "t.md"
    path.write_text(
        "# T\n\nA ![a](my%20pic.jpg) ![b](<ä.jpg>) ![c](none.jpg) ![d](https://e.org/a.jpg) ![e](data:x)\n",
        encoding="utf-8",
    )
    reading = read_story_report(path)
    found = [(p.target, p.path) for p in reading.story.steps[0].pictures]
    assert found == [
        ("my%20pic.jpg", str((tmp_path / "my pic.jpg").resolve())),
        ("ä.jpg", str((tmp_path / "ä.jpg").resolve())),
        ("none.jpg", None),
        ("https://e.org/a.jpg", None),
    ]
    assert [item.reason for item in reading.left_out] == ["picture inside the file (data: URI)"]
    assert reading.story.id == "t"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_encodings(tmp_path, encoding):
    path = tmp_path / "a.txt"
    path.write_bytes("Жил-был кот.\n\nКонец.".encode(encoding))
    reading = read_story_report(path)
    assert texts(reading.story) == ["Жил-был кот.", "Конец."]
    assert not any("read as" in note for note in reading.notes)


def test_declared_and_guessed_encodings_are_reported(tmp_path):
    page = tmp_path / "a.html"
    page.write_bytes("<meta charset=windows-1251><p>Жил-был кот.</p>".encode("cp1251"))
    reading = read_story_report(page)
    assert texts(reading.story) == ["Жил-был кот."]
    assert "cp1251" in reading.notes[0]
    plain = tmp_path / "b.txt"
    plain.write_bytes(("Жил-был у бабушки серенький козлик. " * 20).encode("cp1251"))
    reading = read_story_report(plain)
    assert "козлик" in reading.story.steps[0].text
    assert "guess" in reading.notes[0]


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.txt", b"", "empty"),
        ("a.txt", b" \n\xef\xbb\xbf", "empty|no step"),
        ("a.txt", b"\x89PNG\r\n\x1a\n", "PNG"),
        ("a.txt", b"ab\0cd", "zero bytes"),
        ("a.txt", b"\xff\xfea", "utf-16"),
        ("a.docx", b"PK\x03\x04", "damaged"),
        ("a.md", b"<!-- x -->\n\n---\n", "no step"),
        ("a.html", b"<html><body><script>x</script></body></html>", "no step"),
        ("a.html", b"<div>" * 400 + b"x", "deep"),
        ("a.md", b">" * 200 + b" x", "deep"),
    ],
)
def test_what_is_no_text_is_one_clear_line(tmp_path, name, data, message):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(DataError, match=message) as caught:
        read_story_report(tmp_path / name)
    assert "\n" not in str(caught.value)


def test_missing_too_large_and_unknown_options(tmp_path, monkeypatch):
    with pytest.raises(MissingError):
        read_story_report(tmp_path / "none.txt")
    with pytest.raises(MissingError):
        read_story_report(tmp_path, format="plain")
    monkeypatch.setattr("limner.text.read.MAX_BYTES", 10)
    (tmp_path / "a.txt").write_text("word " * 10)
    with pytest.raises(DataError, match="larger"):
        read_story_report(tmp_path / "a.txt")
    with pytest.raises(ConfigError, match="paragraph"):
        parse_story("a", by="paragraf")
    with pytest.raises(DataError, match="no heading"):
        parse_story("a b", by="heading")


def test_entities_are_not_expanded():
    bomb = '<!DOCTYPE a [<!ENTITY x "words"><!ENTITY f SYSTEM "file:///etc/passwd">]><p>&x;&f; end</p>'
    words = " ".join(texts(parse_story(bomb, format="html")))
    assert "root:" not in words
    assert "end" in words


WORD = st.text(st.characters(categories=["L", "M"]), min_size=1, max_size=8).map(lambda w: "a" + w)
PARAGRAPHS = st.lists(st.lists(WORD, min_size=1, max_size=6).map(" ".join), min_size=1, max_size=8)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    PARAGRAPHS,
    st.sampled_from(["plain", "markdown", "html"]),
    st.sampled_from([None, "paragraph", "sentence"]),
)
def test_paragraphs_of_words_come_back_whole_and_in_order(paragraphs, format_, by):
    text = "".join(f"<p>{p}</p>" for p in paragraphs) if format_ == "html" else "\n\n".join(paragraphs)
    story = parse_story(text, format=format_, by=by)
    assert [story.title, *texts(story)][0 if story.title else 1 :] == paragraphs


@settings(max_examples=150, deadline=None)
@given(
    st.one_of(st.text(), st.text(alphabet="#*->|1.2) \n\t`~[]()!<>/pliou&;:={}\"'\\-ab—。\u200f\x0c")),
    st.sampled_from(["plain", "markdown", "html", "json"]),
    st.sampled_from([None, "step", "paragraph", "sentence", "heading"]),
)
def test_any_text_is_a_story_or_a_limner_error(text, format_, by):
    try:
        story = parse_story(text, format=format_, by=by)
    except LimnerError:
        return
    assert all(step.text.strip() for step in story.steps)


BLOCK = st.sampled_from(
    [
        "# h{n}",
        "## h{n}",
        "### h{n}",
        "w{n}a w{n}b",
        "- b{n}",
        "1. o{n}",
        "2. o{n}",
        "---",
        "![](p{n}.png)",
        "## Ingredients",
        "Step 1: s{n}",
        "Step 2: s{n}",
        "> q{n}",
        "    c{n}",
        "| t{n} |\n|---|\n| d{n} |",
    ]
)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.lists(BLOCK, min_size=1, max_size=12), st.sampled_from([None, "paragraph", "sentence", "heading"]))
def test_every_word_and_picture_is_in_a_step_or_listed_as_left_out(blocks, by):
    text = "\n\n".join(block.format(n=n) for n, block in enumerate(blocks))
    try:
        reading = parse_story_report(text, format="markdown", by=by)
    except DataError:
        return
    steps = reading.story.steps
    kept = [reading.story.title, *(s.title for s in steps), *(s.text for s in steps)]
    kept += [item.text for item in reading.left_out]
    words = set(" ".join(kept).split())
    targets = Counter(p.target for s in steps for p in s.pictures)
    targets.update(target for item in reading.left_out for target in item.pictures)
    for n, block in enumerate(blocks):
        for word in ("h", "b", "o", "s", "q", "c", "d", "t"):
            if f"{word}{{n}}" in block:
                assert f"{word}{n}" in words
        if "w{n}a" in block:
            assert {f"w{n}a", f"w{n}b"} <= words
        if "p{n}.png" in block:
            assert targets[f"p{n}.png"] == 1


@pytest.mark.shared
@pytest.mark.parametrize("name", ["storybook", "howto", "recipes"])
def test_real_stories_survive_as_json_and_as_markdown(name):
    root = Path(os.environ.get("LIMNER_DATA", Path(__file__).parents[3] / "shared")) / "data" / name
    if not root.is_dir():
        pytest.skip(f"{root} is absent")
    for line in (root / "stories.jsonl").read_text(encoding="utf-8").splitlines()[:60]:
        row = json.loads(line)
        story = parse_story(line, format="json")
        assert texts(story) == [page["text"].strip() for page in row["pages"]]
        assert all((root / step.pictures[0].target).is_file() for step in story.steps)


@pytest.mark.slow
def test_long_lists_and_hostile_brackets_end_soon():
    assert len(parse_story("- a\n" * 5_000, format="markdown").steps) == 1
    with pytest.raises(DataError, match="brackets"):
        parse_story("[" * 30_000, format="markdown")


def test_tables_and_code_stay_in_their_place_and_are_no_words_to_compare():
    code, table = "```\nlength = 20\n```", "| oven | minutes |\n|---|---|\n| gas | 40 |"
    reading = parse_story_report(f"Cut the wood.\n\n{code}\n\nGlue it.\n\n{table}\n", format="markdown")
    assert [step.text for step in reading.story.steps] == ["Cut the wood.", "Glue it."]
    assert [(part.kind, part.before) for part in reading.story.between] == [("code", 1), ("table", 2)]
    assert {one.reason for one in reading.left_out} == {"code", "table"}
    text = f"# T\n\n## Cut\n\nCut it.\n\n{code}\n\nMind it.\n\n## Bake\n\n{table}\n"
    story = parse_story_report(text, format="markdown").story
    assert [part.kind for step in story.steps for part in step.parts] == [
        "paragraph",
        "code",
        "paragraph",
        "table",
    ]
    assert step_texts(story) == ["Cut. Cut it.\n\nMind it.", "Bake"]
