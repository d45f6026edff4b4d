"""Word documents become blocks; their pictures stay in memory, and what is damaged is one line."""

import io
import zipfile

import pytest
from block_notation import marked, notation
from docx import Document
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls
from PIL import Image

from limner.errors import DataError
from limner.text.docx import read_docx

W = nsdecls("w")
NOTES = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/footnotes"
NOTES_KIND = "application/vnd.openxmlformats-officedocument.wordprocessingml.footnotes+xml"


def picture(colour="red"):
    data = io.BytesIO()
    Image.new("RGB", (60, 40), colour).save(data, "PNG")
    return io.BytesIO(data.getvalue())


def saved(document, **changes):
    """The bytes of a document, with parts of it changed (name → old → new bytes) or added."""
    data, changed = io.BytesIO(), io.BytesIO()
    document.save(data)
    with zipfile.ZipFile(data) as made, zipfile.ZipFile(changed, "w") as into:
        for name in made.namelist():
            content = made.read(name)
            for old, new in changes.get(name, {}).items():
                assert old in content
                content = content.replace(old, new)
            into.writestr(name, content)
        for name in changes.keys() - set(made.namelist()):
            into.writestr(name, changes[name])
    return changed.getvalue()


@pytest.fixture(scope="module")
def soup():
    document = Document()
    document.add_heading("Onion soup", 0)
    document.add_heading("Ingredients", 1)
    document.add_paragraph("6 onions", style="List Bullet")
    document.add_heading("Method", 1)
    for number, words in enumerate(("Peel the onions.", "Fry them.", "Pour in the stock."), 1):
        document.add_paragraph(words, style="List Number")
        shown = document.add_paragraph().add_run().add_picture(picture((80 * number, 0, 0)))
        shown._inline.docPr.set("descr", f"onions {number}\n\nDescribed by a program")
        document.add_paragraph(f"Figure {number}: {words.split()[0]}ing", style="Caption")
    document.add_paragraph("It was good.")
    document.sections[0].header.paragraphs[0].text = "Soups of the world"
    return saved(document)


def test_lists_go_on_across_pictures_which_are_in_the_blocks(soup):
    document = read_docx(soup, "soup.docx")
    assert notation(document.blocks) == [
        "# Onion soup",
        "## Ingredients",
        "- 6 onions",
        "## Method",
        "1. Peel the onions.",
        "[picture-1.png: Figure 1: Peeling]",
        "2. Fry them.",
        "[picture-2.png: Figure 2: Frying]",
        "3. Pour in the stock.",
        "[picture-3.png: Figure 3: Pouring]",
        "It was good.",
    ]
    (shown,) = document.blocks[7].pictures
    assert (shown.alt, shown.path, len(shown.sha256 or "")) == ("onions 2", None, 64)
    with Image.open(io.BytesIO(shown.data or b"")) as opened:
        assert opened.convert("RGB").getpixel((0, 0)) == (160, 0, 0)
    assert [part.text for part in document.left_out] == ["Soups of the world"]


def test_a_list_that_begins_anew_counts_anew():
    document = Document()
    numbering = document.part.numbering_part.element
    number = document.styles["List Number"].element.pPr.numPr.numId.val
    (definition,) = (one.abstractNumId.val for one in numbering.num_lst if one.numId == number)
    for words in ("Peel.", "Fry."):
        document.add_paragraph(words, style="List Number")
    document.add_paragraph("The sauce:")
    again = numbering.add_num(definition)
    again.add_lvlOverride(0).add_startOverride(1)
    for words in ("Stir.", "Boil."):
        properties = document.add_paragraph(words, style="List Number")._p.get_or_add_pPr()
        properties.get_or_add_numPr().get_or_add_numId().val = again.numId
    blocks = read_docx(saved(document), "two.docx").blocks
    assert notation(blocks) == ["1. Peel.", "2. Fry.", "The sauce:", "1. Stir.", "2. Boil."]


def test_headings_that_word_numbers_begin_with_their_numbers():
    document = Document()
    numbering = document.part.numbering_part.element
    form = '<w:start w:val="1"/><w:numFmt w:val="decimal"/><w:lvlText w:val="Step %1:"/>'
    level = f'<w:lvl w:ilvl="0">{form}</w:lvl>'
    numbering.insert(0, parse_xml(f'<w:abstractNum {W} w:abstractNumId="77">{level}</w:abstractNum>'))
    listed = numbering.add_num(77)
    for words in ("Cut", "Glue"):
        properties = document.add_heading(words, 2)._p.get_or_add_pPr()
        properties.get_or_add_numPr().get_or_add_numId().val = listed.numId
        document.add_paragraph(f"{words} it.")
    blocks = read_docx(saved(document), "steps.docx").blocks
    assert notation(blocks) == ["## Step 1: Cut", "Cut it.", "## Step 2: Glue", "Glue it."]


def test_what_word_alone_knows_is_read_too():
    document = Document()
    first = document.add_paragraph("Read this. ")
    first.add_run("Careful!").bold = True
    document.add_paragraph().add_run("Ingredients:").underline = True
    hidden = document.add_paragraph("Close the valve.").add_run(" Secret.")
    hidden.font.hidden = True
    document.add_page_break()
    changed = document.add_paragraph("Clean the filter")._p
    changed.append(parse_xml(f'<w:ins {W} w:id="1" w:author="x"><w:r><w:t> well</w:t></w:r></w:ins>'))
    changed.append(parse_xml(f'<w:del {W} w:id="2" w:author="x"><w:r><w:delText>!</w:delText></w:r></w:del>'))
    counted = document.add_paragraph("Figure ")._p
    counted.append(
        parse_xml(f'<w:fldSimple {W} w:instr=" SEQ Figure "><w:r><w:t>1</w:t></w:r></w:fldSimple>')
    )
    related = f'<Relationship Id="r9" Type="{NOTES}" Target="footnotes.xml"/></Relationships>'
    stated = f'<Override PartName="/word/footnotes.xml" ContentType="{NOTES_KIND}"/></Types>'
    note = '<w:footnote w:id="2"><w:p><w:r><w:t>Water may be hot.</w:t></w:r></w:p></w:footnote>'
    named = b'</w:t></w:r><w:r><w:footnoteReference w:id="2"/></w:r>'
    changes = {
        "word/document.xml": {b"Careful!</w:t></w:r>": b"Careful!" + named},
        "word/_rels/document.xml.rels": {b"</Relationships>": related.encode()},
        "[Content_Types].xml": {b"</Types>": stated.encode()},
        "word/footnotes.xml": f"<w:footnotes {W}>{note}</w:footnotes>",
    }
    read = read_docx(saved(document, **changes), "a.docx")
    assert notation(read.blocks) == [
        "Read this. Careful![1]",
        "Ingredients:",
        "Close the valve.",
        "---",
        "Clean the filter well",
        "Figure 1",
        "(aside) 1. Water may be hot.",
    ]
    assert marked(read.blocks[0]) == [("Careful!", "strong"), ("[1]", "above")]
    assert marked(read.blocks[1]) == [("Ingredients:", "strong")]
    assert [part.text for part in read.left_out] == [" Secret."]


def bomb(name, content, stated=None):
    """A document with a part of that content, of which it may state another size."""

    def made(soup):
        data = io.BytesIO()
        with (
            zipfile.ZipFile(io.BytesIO(soup)) as old,
            zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as new,
        ):
            for part in old.namelist():
                new.writestr(part, content if part == name else old.read(part))
            if name not in old.namelist():
                new.writestr(name, content)
            new.getinfo(name).file_size = stated or len(content)
        return data.getvalue()

    return made


def garbled(soup):
    """A document whose compressed body is no longer what zlib can unpack."""
    whole = bomb("word/document.xml", zipfile.ZipFile(io.BytesIO(soup)).read("word/document.xml"))(soup)
    place = whole.rindex(b"word/document.xml", 0, whole.rindex(b"PK\x01\x02")) + 60
    return whole[:place] + bytes(40) + whole[place + 40 :]


REFUSED = {
    "cut": (lambda soup: soup[:3000], "damaged"),
    "garbled": (garbled, "damaged"),
    "inside": (bomb("word/document.xml", "<w:document"), "damaged"),
    "without a body": (bomb("word/document.xml", "<w:document xmlns:w='x'/>"), "damaged"),
    "deep": (bomb("word/document.xml", f"<w:document {W}>{'<w:p>' * 2_000}"), "damaged"),
    "pictures": (bomb("word/media/x.png", b"", 600_000_000), "too large"),
    "entities": (bomb("word/document.xml", '<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>'), "document type"),
    "many": (bomb("word/document.xml", f"<w:document {W}>{'<w:p/>' * 300_001}</w:document>"), "too large"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_word_document_is_one_true_line(name, soup):
    make, message = REFUSED[name]
    with pytest.raises(DataError, match=message) as caught:
        read_docx(make(soup), "b.docx")
    assert "\n" not in str(caught.value)


def test_a_picture_on_the_writers_disk_is_never_opened(soup, tmp_path):
    secret = tmp_path / "secret.png"
    Image.new("RGB", (9, 9)).save(secret)
    outside = f'TargetMode="External" Target="{secret.as_uri()}"'.encode()
    related = "word/_rels/document.xml.rels"
    content = zipfile.ZipFile(io.BytesIO(soup)).read(related).replace(b'Target="media/image1.png"', outside)
    blocks = read_docx(bomb(related, content)(soup), "linked.docx").blocks
    first, second, _ = [picture for block in blocks for picture in block.pictures]
    assert (first.data, first.caption, second.target) == (None, "Figure 1: Peeling", "picture-1.png")
    assert "not inside the document" in first.problem
