"""Word documents as texts: what is a step, whose picture is whose, and what is refused."""

import io
import zipfile

import pytest
from docx import Document
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls
from PIL import Image

from limner.errors import DataError
from limner.text.read import read_story_report, read_story_stream

pytestmark = pytest.mark.slow

W = nsdecls("w")
PART = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/footnotes"
KIND = "application/vnd.openxmlformats-officedocument.wordprocessingml.footnotes+xml"


def picture(colour="red"):
    data = io.BytesIO()
    Image.new("RGB", (60, 40), colour).save(data, "PNG")
    return io.BytesIO(data.getvalue())


def saved(document, path, **changes):
    """The document in a file, with parts of it changed (name → old → new bytes) or added."""
    data = io.BytesIO()
    document.save(data)
    with zipfile.ZipFile(data) as made, zipfile.ZipFile(path, "w") as into:
        for name in made.namelist():
            content = made.read(name)
            for old, new in changes.get(name, {}).items():
                assert old in content
                content = content.replace(old, new)
            into.writestr(name, content)
        for name in changes.keys() - set(made.namelist()):
            into.writestr(name, changes[name])
    return path


@pytest.fixture
def soup(tmp_path):
    document = Document()
    document.add_heading("Onion soup", 0)
    document.add_heading("Ingredients", 1)
    for line in ("6 onions", "1 l stock"):
        document.add_paragraph(line, style="List Bullet")
    document.add_heading("Method", 1)
    for number, words in enumerate(("Peel the onions.", "Fry them in butter.", "Pour in the stock."), 1):
        document.add_paragraph(words, style="List Number")
        shown = document.add_paragraph().add_run().add_picture(picture((80 * number, 0, 0)))
        shown._inline.docPr.set("descr", "")
        document.add_paragraph(f"Figure {number}: {words.split()[0]}ing", style="Caption")
    table = document.add_table(2, 2)
    for place, cell in enumerate(cell for row in table.rows for cell in row.cells):
        cell.text = f"cell {place}"
    document.sections[0].header.paragraphs[0].text = "Soups of the world"
    return saved(document, tmp_path / "soup.docx")


def test_a_word_document_is_a_story_with_its_own_pictures(soup):
    reading = read_story_report(soup)
    story = reading.story
    assert story.title == "Onion soup"
    assert [step.text for step in story.steps] == [
        "Peel the onions.",
        "Fry them in butter.",
        "Pour in the stock.",
    ]
    assert [step.parts[0].number for step in story.steps] == [
        1,
        2,
        3,
    ]  # pictures between them restart nothing
    shown = [picture for step in story.steps for picture in step.pictures]
    assert [picture.alt for picture in shown] == [
        "Figure 1: Peeling",
        "Figure 2: Frying",
        "Figure 3: Pouring",
    ]
    with Image.open(shown[1].path) as opened:
        assert opened.convert("RGB").getpixel((0, 0)) == (160, 0, 0)
    table = next(part for part in story.between if part.kind == "table")
    assert [[cell.text for cell in row] for row in table.rows] == [["cell 0", "cell 1"], ["cell 2", "cell 3"]]
    assert {"head of the pages", "caption of a picture", "ingredients or supplies"} <= {
        one.reason for one in reading.left_out
    }


def test_a_list_that_begins_anew_counts_anew(tmp_path):
    document = Document()
    numbering = document.part.numbering_part.element
    own = document.styles["List Number"].element.pPr.numPr.numId.val
    (definition,) = (one.abstractNumId.val for one in numbering.num_lst if one.numId == own)
    for words in ("Peel.", "Fry."):
        document.add_paragraph(words, style="List Number")
    document.add_paragraph("The sauce:")
    again = numbering.add_num(definition)
    again.add_lvlOverride(0).add_startOverride(1)
    for words in ("Stir.", "Boil."):
        properties = document.add_paragraph(words, style="List Number")._p.get_or_add_pPr()
        properties.get_or_add_numPr().get_or_add_numId().val = again.numId
    story = read_story_report(saved(document, tmp_path / "two.docx")).story
    parts = [part for step in story.steps for part in step.parts]
    assert [part.number for part in parts if part.kind == "item"] == [1, 2, 1, 2]


def test_what_word_alone_knows_is_read_too(tmp_path):
    document = Document()
    document.add_heading("Before you begin", 1)
    first = document.add_paragraph("Read this. ")
    first.add_run("Careful!")
    document.add_heading("Steps", 1)
    document.add_paragraph("Close the valve.", style="List Number")
    document.add_paragraph("It turns to the right.")
    document.add_paragraph("Open the lid:", style="List Number")
    document.add_paragraph("loosen the screws", style="List Bullet 2")
    changed = document.add_paragraph("Clean the filter", style="List Number")._p
    changed.append(parse_xml(f'<w:ins {W} w:id="1" w:author="x"><w:r><w:t> well</w:t></w:r></w:ins>'))
    changed.append(parse_xml(f'<w:del {W} w:id="2" w:author="x"><w:r><w:delText>!</w:delText></w:r></w:del>'))
    held = f"<w:sdt {W}><w:sdtContent><w:p><w:r><w:t>In a form.</w:t></w:r></w:p></w:sdtContent></w:sdt>"
    document.element.body.insert(len(document.element.body) - 1, parse_xml(held))
    related = f'<Relationship Id="r9" Type="{PART}" Target="footnotes.xml"/></Relationships>'
    stated = f'<Override PartName="/word/footnotes.xml" ContentType="{KIND}"/></Types>'
    note = '<w:footnote w:id="2"><w:p><w:r><w:t>Water may be hot.</w:t></w:r></w:p></w:footnote>'
    named = b'</w:t></w:r><w:r><w:footnoteReference w:id="2"/></w:r>'
    changes = {
        "word/document.xml": {b"Careful!</w:t></w:r>": b"Careful!" + named},
        "word/_rels/document.xml.rels": {b"</Relationships>": related.encode()},
        "[Content_Types].xml": {b"</Types>": stated.encode()},
        "word/footnotes.xml": f"<w:footnotes {W}>{note}</w:footnotes>",
    }
    path = saved(document, tmp_path / "a.docx", **changes)
    story = read_story_report(path).story
    assert story.title == ""  # two headings of the first level: none of them is the title
    assert [step.text for step in story.steps] == [
        "Close the valve.\n\nIt turns to the right.",
        "Open the lid:\n\n- loosen the screws",
        "Clean the filter well",
    ]
    between = [part.text for part in story.between]
    assert between[-2:] == ["In a form.", "[1] Water may be hot."]
    assert "Read this. Careful![1]" in between


def test_a_document_is_known_by_its_content(soup, tmp_path, monkeypatch):
    monkeypatch.setattr("limner.text.read.MAX_BYTES", 10)  # of a text: a document holds pictures
    named = tmp_path / "notes.md"
    named.write_bytes(soup.read_bytes())
    reading = read_story_report(named)
    assert len(reading.story.steps) == 3
    assert "Word" in reading.notes[0]
    with soup.open("rb") as stream:
        streamed = read_story_stream(stream, "standard input", format="plain").story
    assert streamed.steps[0].pictures[0].path  # its pictures are its own, wherever it comes from


def bomb(name, content, stated=None):
    """A document with a part of that content, of which it may state another size."""

    def made(path, soup):
        with zipfile.ZipFile(soup) as old, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
            for one in old.namelist():
                if one != name:
                    new.writestr(one, old.read(one))
            new.writestr(name, content)
            if stated is not None:
                new.getinfo(name).file_size = stated

    return made


REFUSED = {
    "text": (lambda path, soup: path.write_text("just words"), "is not a Word document"),
    "cut": (lambda path, soup: path.write_bytes(soup.read_bytes()[:3000]), "damaged"),
    "inside": (bomb("word/document.xml", "<w:document"), "damaged"),
    "pictures": (bomb("word/media/x.png", b"", 600_000_000), "unpacks to"),
    "entities": (bomb("word/document.xml", '<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>'), "declares"),
    "many": (
        bomb("word/document.xml", f"<w:document {W}><w:body>{'<w:p/>' * 60_001}</w:body></w:document>"),
        "60,000",
    ),
    "workbook": (bomb("[Content_Types].xml", "spreadsheetml"), "Excel"),
    "old": (lambda path, soup: path.write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600)), "2007"),
    "locked": (
        lambda path, soup: path.write_bytes(
            b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "EncryptedPackage".encode("utf-16-le")
        ),
        "password",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_word_document_is_one_true_line(name, soup, tmp_path):
    make, message = REFUSED[name]
    make(tmp_path / "b.docx", soup)
    with pytest.raises(DataError, match=message) as caught:
        read_story_report(tmp_path / "b.docx")
    assert "\n" not in str(caught.value)


def test_a_picture_on_the_writers_disk_is_never_opened(soup, tmp_path):
    secret = tmp_path / "secret.png"
    Image.new("RGB", (9, 9)).save(secret)
    path = tmp_path / "linked.docx"
    with zipfile.ZipFile(soup) as old, zipfile.ZipFile(path, "w") as new:
        for one in old.namelist():
            inside = b'Target="media/image1.png"'
            outside = f'TargetMode="External" Target="{secret.as_uri()}"'.encode()
            new.writestr(
                one, old.read(one).replace(inside, outside) if one.endswith(".rels") else old.read(one)
            )
    reading = read_story_report(path)
    assert [len(step.pictures) for step in reading.story.steps] == [0, 1, 1]
    assert "linked picture outside the document" in {one.reason for one in reading.left_out}


def test_captions_and_levels_are_those_of_the_document(tmp_path):
    document = Document()
    document.add_heading("Manual", 0)
    document.add_heading("Part one", 1)
    document.add_heading("The lid", 2)
    document.add_paragraph("Lift the lid.")
    document.add_picture(picture())
    counted = document.add_paragraph("Figure ")
    field = f'<w:fldSimple {W} w:instr=" SEQ Figure \\* ARABIC "><w:r><w:t>1</w:t></w:r></w:fldSimple>'
    counted._p.append(parse_xml(field))
    counted.add_run(": the yard")
    document.add_heading("The box", 2)
    document.add_paragraph("Close the box.")
    story = read_story_report(saved(document, tmp_path / "a.docx")).story
    shown = [one for step in story.steps for one in step.pictures]
    assert [(one.caption, one.alt) for one in shown] == [("Figure 1: the yard",) * 2]
    assert [(part.text, part.level) for part in story.between] == [
        ("Part one", 2),
        ("The lid", 3),
        ("The box", 3),
    ]
