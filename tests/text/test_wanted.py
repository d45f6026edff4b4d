"""Places at which authors ask for a picture, in the forms that people draft them in.

`tests/marked_texts` holds texts, each with a JSON file: `marks` lists the words of all places in order,
`never` words that are in none, `steps` the other steps with ``--also-steps``.
"""

import json
from pathlib import Path

import pytest
from docx import Document

import limner
from limner.records import Story
from limner.text.read import read
from limner.text.wanted import asked_in

TEXTS = Path(__file__).parents[1] / "marked_texts"
NAMES = sorted(path.name for path in TEXTS.iterdir() if path.suffix in (".md", ".txt", ".html"))
ASKED = {
    "[photo: tadpoles]": "tadpoles",
    "[Photo 3: tadpoles].": "tadpoles",
    "[PICTURE – tadpoles in a jar]": "tadpoles in a jar",
    "<photo of words>": "words",
    "[insert image of words here]": "words",
    "[photo here]": "",
    "[Screenshot]": "",
    "TODO photo: the oven": "the oven",
    "todo: add a picture of the oven": "the oven",
    "TODO image": "",
    "(picture of frog eggs in a pond)": "frog eggs in a pond",
    "![words]": "words",
    "![image.png]": "",
    "[TODO: photo of the oven]": "the oven",
    "[photo needed: the stall]": "the stall",
    "[Hier Foto einfügen: Kinder]": "Kinder",
    "[foto dell'orto]": "orto",
    "[фото печи]": "печи",
    "[かまの写真]": "かま",
    "![TODO: photo of the flames]": "the flames",
    "[photo: by the river at dawn]": "by the river at dawn",
    "[photo: credit card on a table]": "credit card on a table",
    "[capture d’écran : le menu]": "le menu",
    "[zdjęcie: kot]": "kot",
    "[fotoğraf: kedi]": "kedi",
    "[사진: 고양이]": "고양이",
    "[صورة: قطة]": "قطة",
    "[รูป: แมว]": "แมว",
}
NOT_ASKED = (
    "Photo: Maria Keller", "[Photo by Maria Keller]", "[photo: © Maria]", "[Foto von Maria Keller]",
    "[photo: courtesy of the archive]", "[Photo credit: Ann]", "(Photo: Ann)", "(Bild von einem Hund)",
    "[Photo with kind permission of Ann]", "[Bild mit freundlicher Genehmigung]", "[photo: by Ann Hill]",
    "[picture book]", "[photos are in the drive]", "![[photo: x]]", "TODO: check the oven",
    "photo of the oven", "[She turned it over.]", "![words][old]", "[photo: words](page.html)", "[1]", "",
)  # fmt: skip


@pytest.mark.parametrize(("line", "words"), ASKED.items())
def test_lines_that_ask_for_a_picture(line: str, words: str) -> None:
    assert asked_in(line) == words


@pytest.mark.parametrize("line", NOT_ASKED)
def test_lines_that_ask_for_none(line: str) -> None:
    assert asked_in(line) is None


def words_of(story: Story) -> list[str]:
    return [story.blocks[story.steps[place].run[0]].text for place in sorted(story.places)]


@pytest.mark.parametrize("name", NAMES)
def test_marks_of_a_text_are_its_steps(name: str) -> None:
    note = json.loads((TEXTS / name).with_suffix(".json").read_text(encoding="utf-8"))
    reading = read(TEXTS / name)
    assert words_of(reading.story) == note["marks"]
    assert not note["marks"] or len(reading.story.steps) == len(note["marks"])
    assert [words for words in note.get("never", ()) if words in " ".join(words_of(reading.story))] == []
    also = read(TEXTS / name, by="step").story
    assert words_of(also) == note["marks"]
    others = [step.text for place, step in enumerate(also.steps) if place not in also.places]
    assert others == note.get("steps", others)
    assert others
    again = limner.Story.model_validate_json(also.model_dump_json())
    assert again.places == also.places


def test_marks_without_words_ask_for_what_stands_beside_them() -> None:
    text = "# Bread\n\n![]()\n\nKnead it.\n\n[photo]\n\n## Oven\n\n[image]\n\nBake it.\n"
    steps = limner.read(text, format="markdown").steps
    assert [step.text for step in steps] == ["Bread", "Knead it.", "Bake it."]


def test_a_word_document_marks_places(tmp_path: Path) -> None:
    document = Document()
    document.add_heading("The herb bed", 0)
    document.add_paragraph("Dig the bed.")
    document.add_paragraph("[photo: a spade in dark soil]").runs[0].italic = True
    document.add_paragraph("Plant the thyme. [picture of three pots]", "List Number")
    document.add_paragraph("(picture of a watering can)")
    document.add_paragraph("Read the leaflet (a picture of thyme is in it).")
    document.save(tmp_path / "bed.docx")
    story = read(tmp_path / "bed.docx").story
    assert words_of(story) == ["a spade in dark soil", "three pots", "a watering can"]
    assert "Plant the thyme." in [block.text for block in story.blocks]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("味噌を溶きます。【画像：味噌を溶く】", ["味噌を溶く"]),
        ("Beat the eggs.[photo: eggs]", ["eggs"]),
        ("Rest. [photo: a] [photo: b]", ["a", "b"]),
        ("Sit down on the [picture of Ann] and wait.", []),
        ("Look at the [picture]", []),
    ],
)
def test_marks_at_the_end_of_a_step(text: str, words: list[str]) -> None:
    assert words_of(limner.read(f"{text}\n\nGo on.", format="plain")) == words


def test_credits_of_a_picture_in_an_item_ask_for_none(tmp_path: Path) -> None:
    (tmp_path / "text.md").write_text("1. Go in. ![The door](hall.jpg)\n   [Photo: Tom Hill]\n2. Sit.\n")
    assert not read(tmp_path / "text.md").story.places


def test_pictures_that_a_page_loads_later_ask_for_none() -> None:
    page = (
        "<p>One.</p><img alt='a b' class='lazy'><noscript><img src='a.jpg'></noscript><p>Two.</p>"
        "<a href='x'><img alt='share it'></a><img alt='a b' :src='x'>"
        "<!-- photo: header start --><p>Three.</p>"
        "<figure><figcaption>Photo: Ann Hill</figcaption></figure>"
    )
    assert not limner.read(page, format="html").places


def test_reading_takes_time_in_proportion_to_the_text() -> None:
    assert len(read("[photo]\n\nOne.\n\n" + "[photo: a] " * 5000, format="plain").story.places) == 5001


def test_the_summary_counts_the_places() -> None:
    reading = read("Rest.\n\n[photo: a bench]\n\nGo on.", format="plain")
    assert reading.summary() == ["1 place that the text marks (--also-steps for its steps too)"]
