"""PDFs as texts: paragraphs put together again, what pages carry beside them left out, limits."""

import io
import subprocess
import sys

import pypdf
import pypdfium2
import pytest
import typst
from PIL import Image

from limner.errors import DataError
from limner.progress import Progress
from limner.text import worker
from limner.text.pdf import read_pdf
from limner.text.read import read_bytes
from limner.text.worker import read_limited

WORDS = (
    "The quick brown fox jumps over the lazy dog while a well-known painter looks on and counts the"
    " extraordinary colours of the evening sky above the unbelievably quiet harbour of the old town."
)
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
RECIPE = """
#set page(height: 90mm)
#text(18pt)[Fried potatoes]

*Ingredients*

- two potatoes
- butter

*Method*

+ Peel them.
  + First wash them.
+ Fry them.
"""


def document(source):
    return read_pdf(typst.compile(source.encode()), "a.pdf")


def read(source):
    return read_bytes(typst.compile(source.encode()), "a.pdf")


def test_a_pdf_is_the_text_that_it_was_made_from():
    reading = read(MANUAL)
    story = reading.story
    assert story.title == "The pump"
    assert [step.title for step in story.steps] == ["First part", "Second part"]
    assert story.steps[0].text == f"{WORDS} {WORDS}\n\n{WORDS}\n- the first thing\n- the second thing"
    assert story.steps[1].text == f"{WORDS} {WORDS} {WORDS}"
    furniture = {item.text for item in reading.left_out if item.reason == "page furniture"}
    assert {"Manual of the pump", "Page 1", "Page 2"} <= furniture


def test_lines_are_reported_as_they_look():
    blocks = [(block.kind, block.level, block.look, block.text) for block in document(RECIPE).blocks]
    assert blocks[:3] == [
        ("paragraph", 1, ("larger",), "Fried potatoes"),
        ("paragraph", 0, ("bold",), "Ingredients"),
        ("paragraph", 0, (), "• two potatoes"),
    ]
    assert [mark.kind for mark in document(RECIPE).blocks[1].marks] == ["strong"]
    story = read(RECIPE).story
    assert (story.title, [step.text for step in story.steps]) == (
        "Fried potatoes",
        ["Peel them.\n1. First wash them.", "Fry them."],
    )


def test_what_a_browser_prints_around_its_only_page_is_no_step():
    edges = "header: [11/28/26, 9:05 AM Soup], footer: [https:\\/\\/a.example/soup 1/1]"
    reading = read(f"#set page({edges})\nPeel 1/2 of an onion, and fry it.")
    assert [step.text for step in reading.story.steps] == ["Peel 1/2 of an onion, and fry it."]
    assert [item.text[:8] for item in reading.left_out] == ["11/28/26", "https://"]


def test_a_table_of_contents_is_furniture():
    entries = "\n\n".join(f"Chapter {n} #box(width: 1fr, repeat[.]) {n}" for n in range(1, 5))
    found = document(f"{entries}\n\n{WORDS}")
    assert [block.text for block in found.blocks] == [WORDS]
    assert len(found.left_out) == 4


def test_pictures_are_counted_once_and_their_small_captions_go(tmp_path):
    picture = "#rect(width: 30mm, height: 10mm)[x]"
    Image.new("RGB", (60, 20), "red").save(tmp_path / "a.png")
    picture = '#image("a.png", width: 30mm)\n#v(-4mm)#text(7pt)[Figure 1: The pump]'
    (tmp_path / "a.typ").write_text(f"{WORDS}\n\n{picture}\n\n{WORDS}\n\n{picture}")
    found = read_pdf(typst.compile(str(tmp_path / "a.typ")), "a.pdf")
    assert found.notes == ["2 pictures inside the PDF left out"]
    assert [block.text for block in found.blocks] == [WORDS, WORDS]


def test_a_text_in_letters_of_one_width_is_no_code():
    source = '#set page(width: 60mm)\n#set text(font: "DejaVu Sans Mono")\n' + "words " * 30
    assert [(block.kind, block.text) for block in document(source).blocks] == [
        ("paragraph", ("words " * 30).strip())
    ]
    mixed = document(f"{WORDS}\n\n```\nlet x = 1\nlet y = 2\n```\n\n{WORDS}")
    assert [block.text for block in mixed.blocks if block.kind == "code"] == ["let x = 1\nlet y = 2"]


def test_lines_far_apart_do_not_state_the_usual_distance():
    spaced = "\\ #v(24mm)\n".join(
        f"a line {number} that stands alone and ends in no stop" for number in range(9)
    )
    assert len(document(f"#set page(width: 120mm, height: 400mm)\n{spaced}").blocks) == 9


def scan():
    file = io.BytesIO()
    pages = [Image.new("L", (200, 300))]
    Image.new("RGB", (200, 300), "white").save(file, "PDF", save_all=True, append_images=pages)
    return file.getvalue()


def encrypted():
    file, writer = io.BytesIO(), pypdf.PdfWriter()
    writer.add_blank_page(100, 100)
    writer.encrypt("secret", algorithm="RC4-128")
    writer.write(file)
    return file.getvalue()


def many():
    file, pdf = io.BytesIO(), pypdfium2.PdfDocument.new()
    for _ in range(3_001):
        pdf.new_page(10, 10)
    pdf.save(file)
    return file.getvalue()


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (scan, "2 pages without text"),
        (encrypted, "password"),
        (many, "3,001 pages"),
        (lambda: b"%PDF-1.7\n1 0", "damaged"),
    ],
    ids=["scan", "encrypted", "many", "cut"],
)
def test_what_is_no_text_is_one_true_line(made, message):
    with pytest.raises(DataError, match=message) as caught:
        read_limited(made(), "b.pdf")
    assert "\n" not in str(caught.value)


# The process


class Stopped(Progress):
    """Raises once it is asked."""

    def advance(self, count):
        assert count == 0
        raise InterruptedError("nobody waits")


@pytest.fixture
def started(monkeypatch):
    """All processes that are started; their reader is the code of `reader`, if a test sets it."""
    found, start = [], subprocess.Popen

    class Reader:
        code = ""

    def popen(command, **options):
        command = [sys.executable, "-c", Reader.code, *command[4:]] if Reader.code else command
        found.append(start(command, **options))
        return found[-1]

    monkeypatch.setattr(worker.subprocess, "Popen", popen)
    Reader.processes = found
    return Reader


def replaced(body):
    """Code of a process whose reader is replaced."""
    lines = ["import limner.text.pdf as pdf", "from limner.text import worker", "def read(data, where):"]
    return "\n".join([*lines, f"    {body}", "pdf.read_pdf = read", "worker.main()"])


def test_a_document_is_the_same_through_the_process_and_without(started):
    data = typst.compile(MANUAL.encode())
    assert read_limited(data, "a.pdf") == read_pdf(data, "a.pdf")
    assert [process.returncode is None for process in started.processes] == [False]


@pytest.mark.slow
def test_what_would_not_end_is_killed_in_one_line(started, monkeypatch):
    monkeypatch.setattr(worker, "DEADLINE_S", 1.0)
    started.code = replaced("while True: pass")
    with pytest.raises(
        DataError, match=r"^a.pdf: a PDF that was not read within 1 seconds; print it .*split it$"
    ):
        read_limited(b"x", "a.pdf")
    started.code = replaced("while True: pass")
    with pytest.raises(InterruptedError):
        read_limited(b"x", "a.pdf", Stopped())
    assert all(process.returncode is not None for process in started.processes)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="this system limits no memory")
@pytest.mark.parametrize(
    "body", ["bytearray(1 << 29)", "import os; os.abort()", "raise IndexError('two\\\\nlines')"]
)
def test_a_reader_that_breaks_is_one_line(started, body):
    started.code = replaced(body)
    with pytest.raises(DataError, match=r"^a.pdf: .* more than 400 MB of memory, or is damaged; .*split it$"):
        read_limited(b"x", "a.pdf")


@pytest.mark.slow
def test_a_process_ends_by_itself_if_its_caller_was_killed():
    command = [sys.executable, "-c", replaced("while True: pass"), "a.pdf", "0.1", str(2**30)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdin.close()
        assert process.stdout.read() == b""
        assert process.wait(20) != 0
