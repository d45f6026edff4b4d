"""PDFs as texts: paragraphs put together again, what pages carry beside them left out, what is refused."""

import io

import pypdf
import pypdfium2
import pytest
import typst
from PIL import Image

from limner.errors import DataError
from limner.text.read import read_story_report

WORDS = (
    "The quick brown fox jumps over the lazy dog while a well-known painter looks on and counts the"
    " extraordinary colours of the evening sky above the unbelievably quiet harbour of the old town."
)


def made(path, source):
    path.write_bytes(typst.compile(source.encode()))
    return path


MANUAL = f"""
#set page(width: 90mm, height: 70mm, margin: 12mm, header: [Manual of the pump],
  footer: context align(center)[Page #counter(page).display()])
#set text(9pt, hyphenate: true, lang: "en")
#set par(justify: true)
#text(16pt)[The pump]

#text(13pt)[First part]

{WORDS} {WORDS}

{WORDS}

- the first thing
- the second thing

#text(13pt)[Second part]

{WORDS} {WORDS} {WORDS}
"""


def test_a_pdf_is_the_text_that_it_was_made_from(tmp_path):
    reading = read_story_report(made(tmp_path / "a.pdf", MANUAL))
    story = reading.story
    assert story.title == "The pump"
    assert [step.title for step in story.steps] == ["First part", "Second part"]
    assert story.steps[0].text == f"{WORDS} {WORDS}\n\n{WORDS}\n\n- the first thing\n- the second thing"
    assert story.steps[1].text == f"{WORDS} {WORDS} {WORDS}"
    beside = {one.text for one in reading.left_out if one.reason == "page number, header or footer"}
    assert {"Manual of the pump", "Page 1", "Page 2"} <= beside


def test_what_a_browser_prints_around_its_only_page_is_no_step(tmp_path):
    edges = "header: [11/28/26, 9:05 AM Soup], footer: [https:\\/\\/a.example/soup 1/1]"
    source = f"#set page({edges})\nPeel 1/2 of an onion, and fry it."
    reading = read_story_report(made(tmp_path / "a.pdf", source))
    assert [step.text for step in reading.story.steps] == ["Peel 1/2 of an onion, and fry it."]
    assert [one.text[:8] for one in reading.left_out] == ["11/28/26", "https://"]


def test_numbered_paragraphs_are_steps(tmp_path):
    source = "#set page(height: 60mm)\n1. Peel them.\n\n2. Fry them.\n\n3. Eat them."
    story = read_story_report(made(tmp_path / "a.pdf", source)).story
    assert [step.text for step in story.steps] == ["Peel them.", "Fry them.", "Eat them."]


def test_a_text_in_letters_of_one_width_is_no_code(tmp_path):
    source = '#set page(width: 60mm)\n#set text(font: "DejaVu Sans Mono")\n' + "words " * 30
    story = read_story_report(made(tmp_path / "a.pdf", source)).story
    assert [step.text for step in story.steps] == [("words " * 30).strip()]


def test_lines_far_apart_do_not_tell_the_usual_distance(tmp_path):
    spaced = "\\ #v(24mm)\n".join(
        f"a line {number} that stands alone and ends in no stop" for number in range(9)
    )
    source = f"#set page(width: 120mm, height: 400mm)\n{spaced}"
    story = read_story_report(made(tmp_path / "a.pdf", source)).story
    assert len(story.steps) == 9


def scan(path):
    Image.new("RGB", (200, 300), "white").save(
        path, "PDF", save_all=True, append_images=[Image.new("L", (200, 300))]
    )


def locked(path):
    writer = pypdf.PdfWriter()
    writer.add_blank_page(100, 100)
    writer.encrypt("secret", algorithm="RC4-128")
    writer.write(path)


def many(path):
    pdf = pypdfium2.PdfDocument.new()
    for _ in range(3_001):
        pdf.new_page(10, 10)
    data = io.BytesIO()
    pdf.save(data)
    path.write_bytes(data.getvalue())


REFUSED = {
    "scan": (scan, "2 pages without text"),
    "locked": (locked, "password"),
    "many": (many, "3,001 pages"),
    "cut": (lambda path: path.write_bytes(b"%PDF-1.7\n1 0 obj\n<<"), "damaged"),
    "text": (lambda path: path.write_text("%PD is no PDF"), "is not a PDF"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_text_is_one_true_line(name, tmp_path):
    make, message = REFUSED[name]
    make(tmp_path / "b.pdf")
    with pytest.raises(DataError, match=message) as caught:
        read_story_report(tmp_path / "b.pdf")
    assert "\n" not in str(caught.value)
