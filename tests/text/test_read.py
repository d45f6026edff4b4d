"""Texts of every format and encoding become stories; nothing is lost unseen, and no input breaks the door."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import limner
from limner.cli.main import run
from limner.errors import ConfigError, DataError, LimnerError, MissingError
from limner.match.illustrate import step_texts
from limner.records import Block, PictureRef, Step, Story
from limner.text.read import MAX_CHARACTERS, read, read_bytes, read_text

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
TEA = "Tea\n\nIngredients:\nwater\nleaves\n\nMethod:\n1. Boil the water.\n2. Pour it over the leaves.\n"


def texts(story):
    return [step.text for step in story.steps]


def test_a_recipe_is_its_method_and_all_else_is_listed():
    reading = read_text(RECIPE, format="markdown")
    assert (reading.story.title, reading.story.by) == ("Cake", "step")
    assert texts(reading.story) == [
        "Mix all softly.\n\nWait.\n- slowly\n- gently",
        "Bake\n\nx = 1\n  y = 2",
        "Eat 👩‍👩‍👧",
    ]
    assert [[picture.target for picture in step.pictures] for step in reading.story.steps] == [
        ["one.jpg"],
        [],
        [],
    ]
    reasons = {item.reason: (item.text, item.pictures) for item in reading.left_out}
    assert "flour" in reasons["supplies"][0]
    aside = [item for item in reading.left_out if item.reason == "aside"]
    assert "A short introduction." in aside[0].text
    assert aside[0].pictures == ("h.jpg",)
    assert "Keep cool." in aside[-1].text
    assert sum("not illustrated, but kept" in line for line in reading.summary()) == 2


def test_a_step_is_compared_by_its_heading_and_words_without_code_and_tables():
    code, table = "```\nlength = 20\n```", "| oven | minutes |\n|---|---|\n| gas | 40 |"
    text = f"# T\n\n## Cut\n\nCut it.\n\n{code}\n\nMind it.\n\n## Bake\n\nBake it.\n\n{table}\n"
    story = read_text(text, format="markdown").story
    assert step_texts(story) == ["Cut. Cut it.\n\nMind it.", "Bake. Bake it."]
    blocks = (Block(kind="heading", text="Bake", level=2), Block(kind="table", text="gas | 40"))
    step = Step(text="gas | 40", title="Bake", run=(0, 2))
    assert step_texts(Story(id="a", steps=(step,), blocks=blocks)) == ["Bake"]
    story = Story(id="a", steps=(Step(text="One.", title="Method"), Step(text="😀", title="Method")))
    assert step_texts(story) == ["One.", "😀"]


@pytest.mark.parametrize(
    "text", ["Rar! is a dog.", "RIFF and GIF8 are words.", "PK is here.", "%PD is no PDF"]
)
def test_what_begins_like_a_file_of_another_kind_is_a_text(tmp_path, text):
    (tmp_path / "a.txt").write_text(f"{text}\n\nHe went home.")
    assert texts(limner.read(tmp_path / "a.txt")) == [text, "He went home."]


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
    ],
)
def test_sentences_and_direction(text, pieces, direction):
    story = read_text(text, by="sentence").story
    assert len(story.steps) == pieces
    assert "".join("".join(texts(story)).split()) == "".join(text.split())
    assert story.direction == direction


@pytest.mark.parametrize("kind", ["plain", "markdown", "html"])
def test_no_letter_is_altered(kind):
    words = "e\u0301 \u200fשלום\u200e 👩\u200d👩\u200d👧 क्\u200dष ﬁ Å a\u00a0b"
    body = f"<p>{words}</p><p>end</p>" if kind == "html" else f"{words}\n\nend"
    assert texts(read_text(body, format=kind).story) == [words, "end"]


# JSON


def test_json_forms():
    story = read_text('["a", {"text": "b", "image": "x.png", "title": "B"}]', format="json").story
    assert (story.id, texts(story), story.steps[1].title) == ("text", ["a", "b"], "B")
    assert [picture.target for picture in story.steps[1].pictures] == ["x.png"]
    named = PictureRef(target="https://e.org/x", alt="y", sha256="z", problem="is not a file on this machine")
    steps = (Step(text="a", pictures=(named,)), Step(text="b"))
    whole = Story(id="s", title="T", by="sentence", split="val", steps=steps)
    assert read_text(whole.model_dump_json(), format="json").story == whole
    reading = read_text(
        json.dumps({"story": whole.model_dump(), "steps": [{"origin": "pinned"}]}), format="json"
    )
    assert reading.story == whole
    assert (
        "a storyboard: its text is illustrated again; its pictures and its 1 pin are kept" in reading.notes[0]
    )
    reading = read_text('{"tittle": "T", "steps": ["One cat. Two."]}', format="json", by="sentence")
    assert texts(reading.story) == ["One cat.", "Two."]
    assert reading.notes == ("left out: 1 unknown key ('tittle')",)


def test_a_read_story_survives_as_json():
    story = read_text(RECIPE, format="markdown").story
    again = read_text(story.model_dump_json(), format="json").story
    blocks = tuple(block.model_copy(update={"lines": None}) for block in story.blocks)
    assert again.model_copy(update={"markdown": story.markdown}) == story.model_copy(
        update={"blocks": again.blocks, "steps": again.steps}
    )
    assert texts(again) == texts(story)
    assert [block.text for block in again.blocks] == [block.text for block in blocks]


@pytest.mark.parametrize(
    "bad",
    [
        *("{", "3", "{}", '{"steps": [3]}', '{"steps": [""]}', '{"steps":["a"],"by":"x"}'),
        '{"steps": [{"text": "a", "image": 3}]}',
        '{"steps": [{"text": "a", "run": [0, 9]}], "blocks": [{"text": "a"}]}',
        '{"steps": [{"text": "a", "run": [0, 1]}], "blocks": [{"txt": "a"}]}',
    ],
)
def test_wrong_json_is_one_line(bad):
    with pytest.raises(DataError) as caught:
        read_text(bad, format="json")
    assert "\n" not in str(caught.value)


@pytest.mark.shared
@pytest.mark.parametrize("name", ["storybook", "howto", "recipes"])
def test_real_stories_are_read_as_they_are(name):
    root = Path(os.environ.get("LIMNER_DATA", Path(__file__).parents[3] / "shared")) / "data" / name
    if not root.is_dir():
        pytest.skip(f"{root} is absent")
    for line in (root / "stories.jsonl").read_text(encoding="utf-8").splitlines()[:60]:
        row = json.loads(line)
        story = read_text(line, format="json").story
        assert texts(story) == [page["text"].strip() for page in row["pages"]]
        assert all((root / step.pictures[0].target).is_file() for step in story.steps)


# Files and encodings


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_encodings(encoding):
    reading = read_bytes("Жил-был кот.\n\nОн спал.".encode(encoding), "a.txt")
    assert texts(reading.story) == ["Жил-был кот.", "Он спал."]
    assert not any("read as" in note for note in reading.notes)


def test_declared_and_guessed_encodings_are_reported():
    reading = read_bytes("<meta charset=windows-1251><p>Жил-был кот.</p>".encode("cp1251"), "a.html")
    assert texts(reading.story) == ["Жил-был кот."]
    assert "cp1251" in reading.notes[0]
    reading = read_bytes(("Жил-был у бабушки серенький козлик. " * 20).encode("cp1251"), "b.txt")
    assert "козлик" in reading.story.steps[0].text
    assert "guess" in reading.notes[0]


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.txt", b"", "empty"),
        ("a.txt", b" \n\xef\xbb\xbf", "empty|no step"),
        ("a.png", b"\x89PNG\r\n\x1a\n\0", r"is not a text.* \(image/png\); expected a text, a Word document"),
        ("a.txt", b"\x89PNG\r\n\x1a\n", "not a text in any known encoding"),
        ("a.txt", b"ab\0cd", "not a text, or UTF-16 without"),
        ("a.txt", b"\xff\xfea", "not valid utf-16"),
        ("a.txt", b"\xff\xfe\0\xd8", "utf-16"),
        ("a.odt", b"PK\x03\x04", r"damaged .*\(application/vnd.oasis.opendocument.text\)"),
        ("a.docx", b"PK\x03\x04", "damaged"),
        ("a.docx", b"words", "is not a Word document, as its name says"),
        ("a.doc", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1\0", "Office before 2007 or with a password"),
        ("a.md", b"{\\rtf1 words}", "RTF"),
        ("a.md", b"<!-- x -->\n\n---\n", "no step"),
        ("a.html", b"<html><body><script>x</script></body></html>", "no step"),
        ("a.txt", b"word " * 800_000, "longer than 3 million characters"),
    ],
)
def test_what_is_no_text_is_one_line(name, data, message):
    with pytest.raises(DataError, match=message) as caught:
        read_bytes(data, name)
    assert "\n" not in str(caught.value)


def test_the_longest_text_is_read_and_one_letter_more_is_not():
    assert read_text("a" * MAX_CHARACTERS).story.steps
    with pytest.raises(DataError, match="text: longer than 3 million characters"):
        read_text("a" * (MAX_CHARACTERS + 1))


def test_names_and_options_that_are_wrong_are_one_line(tmp_path):
    for missing in ("none.txt", "folder/none", tmp_path):
        with pytest.raises(MissingError):
            read(missing)
    with pytest.raises(ConfigError, match="paragraph"):
        read_text("a", by="paragraf")
    with pytest.raises(ConfigError, match="markdown"):
        read_text("a", format="markdwon")
    for source in (3, b"words", [object()]):
        with pytest.raises(ConfigError):
            read(source)
    with pytest.raises(DataError, match="without steps"):
        read([])


def test_an_unknown_suffix_is_read_as_plain_text_and_says_so():
    reading = read_bytes(b"# A fox\n\nruns.", "a.foo")
    assert "'.foo', is of no known format" in reading.notes[0]
    assert read_bytes(b"# A fox\n\nruns.", "a.foo", format="markdown").notes == (
        "no explicit steps found: divided into paragraphs",
    )


# The doors


def test_limner_reads_a_path_a_text_a_list_or_a_story(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("tea.txt").write_text(TEA)
    for source in ("tea.txt", Path("tea.txt"), tmp_path / "tea.txt", TEA):
        story = limner.read(source)
        assert (story.title, texts(story)) == ("Tea", ["Boil the water.", "Pour it over the leaves."])
    assert limner.read(story) is story
    assert texts(limner.read(["One.", limner.Step(text="Two."), {"text": "Three."}])) == [
        "One.",
        "Two.",
        "Three.",
    ]


def test_the_command_prints_the_steps_of_a_text_without_any_picture(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("tea.txt").write_text(TEA)
    assert run(["illustrate", "tea.txt", "--steps"]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines() == [
        "Tea",
        "1. [Method:] Boil the water.",
        "2. [Method:] Pour it over the leaves.",
        "supplies: Ingredients: water leaves",
    ]
    assert err == ""
    assert run(["illustrate", "tea.txt", "--steps", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["steps"][0]["text"] == "Boil the water."
    Path("fox.txt").write_text("A fox ran.\n\nIt slept.")
    assert run(["illustrate", "fox.txt", "none.txt", "--steps"]) == 1
    out, err = capsys.readouterr()
    assert out.splitlines() == ["1. A fox ran.", "2. It slept."]
    assert err.splitlines()[0] == "fox.txt: no explicit steps found: divided into paragraphs"
    assert run(["illustrate", "tea.txt"]) == 2
    assert "--out is missing" in capsys.readouterr().err


def test_reading_imports_neither_the_library_nor_its_encoders():
    code = "import limner, sys; limner.read('A fox.'); print({*sys.modules} & {'lance', 'PIL', 'torch'})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


# Any text


def words_of(reading):
    """All letters and digits of a story and of what was left out of it."""
    story = reading.story
    said = [story.title, story.author, *(item.text for item in reading.left_out), *reading.notes]
    said += [words for block in story.blocks for words in (block.text, str(block.number))]
    return "".join(filter(str.isalnum, "".join(said)))


def story_or_line(text, kind, by=None):
    """The reading, or None where it is refused in one line; any other error passes through."""
    try:
        return read_text(text, format=kind, by=by)
    except LimnerError as error:
        lines = str(error).count("\n") + 1
    assert lines == 1
    return None


BY = [None, "step", "paragraph", "sentence", "heading"]


@settings(max_examples=150, deadline=None)
@given(
    st.one_of(st.text(), st.text(alphabet="#*->|1.2) \n\t`~[]()!<>/pliou&;:={}\"'\\-ab—。\u200f\x0c")),
    st.sampled_from(["plain", "markdown", "html", "json"]),
    st.sampled_from(BY),
)
def test_any_text_is_a_story_or_one_line(text, kind, by):
    reading = story_or_line(text, kind, by)
    assert reading is None or all(step.text.strip() for step in reading.story.steps)


PARTS = st.sampled_from(
    ["fox", "Step 1", "2.", "hare", "第一步", "שועל", "a < b", "&amp;", "<img src=a.png>", "<p>"]
)
TAGS = st.sampled_from("p div h1 h2 ul ol li b a table tr td pre blockquote span br hr".split())  # noqa: SIM905
PAGES = st.recursive(
    PARTS,
    lambda inner: st.builds(
        lambda tag, parts, close: f"<{tag}>{' '.join(parts)}{f'</{tag}>' if close else ''}",
        TAGS,
        st.lists(inner, max_size=4),
        st.booleans(),
    ),
    max_leaves=12,
)


@given(st.lists(PAGES, min_size=1, max_size=4).map(" ".join))
def test_a_page_is_read_or_refused_and_loses_no_word(page):
    reading = story_or_line(page, "html")
    for word in ("fox", "hare", "שועל") if reading else ():
        assert words_of(reading).count(word) >= page.count(word), (page, reading)


KEYS = [
    "@type",
    "@graph",
    "name",
    "text",
    "image",
    "step",
    "itemListElement",
    "recipeInstructions",
    "steps",
    "run",
]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | PARTS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(KEYS) | st.text(max_size=3),
            inner | st.sampled_from(["Recipe", "HowTo", "HowToSection", "HowToStep", "ListItem"]),
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(VALUES, st.booleans())
def test_whatever_is_declared_or_given_as_json_is_read_or_refused(value, recipe):
    story_or_line(json.dumps(value), "json")
    block = {"@type": "Recipe", "recipeInstructions": value} if recipe else value
    declared = json.dumps(block).replace("<", "\\u003c")
    page = f"<script type='application/ld+json'>{declared}</script><p>A fox.</p><p>A hare.</p>"
    reading = story_or_line(page, "html")
    assert reading is not None
    assert recipe or texts(reading.story)[:2] == ["A fox.", "A hare."] or "@type" in declared


BLOCKS = [
    *("# h{n}", "## h{n}", "### h{n}", "w{n}a w{n}b", "- b{n}", "1. o{n}", "2. o{n}", "---", "![](p{n}.png)"),
    *("## Ingredients", "Step 1: s{n}", "Step 2: s{n}", "> q{n}", "    c{n}", "| t{n} |\n|---|\n| d{n} |"),
]


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(BLOCKS), min_size=1, max_size=12), st.sampled_from(BY))
def test_every_word_and_picture_is_in_the_story_once(blocks, by):
    text = "\n\n".join(block.format(n=n) for n, block in enumerate(blocks))
    reading = story_or_line(text, "markdown", by)
    if reading is None:
        return
    words = words_of(reading)
    targets = Counter(picture.target for block in reading.story.blocks for picture in block.pictures)
    for n, block in enumerate(blocks):
        for sign in "hboqcdtw":
            if f"{sign}{{n}}" in block:
                assert f"{sign}{n}" in words
        if "p{n}.png" in block:
            assert targets[f"p{n}.png"] == 1
