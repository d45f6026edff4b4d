"""Word's own settings for letters of other scripts: font, size, weight, slant, language and direction."""

import pytest
from docx import Document
from docx.oxml.ns import qn

from limner.export import export
from limner.records import Between, Mark, Part, Passage

SHOWN = ("Normal", "Title", "Subtitle", "Heading 2", "Heading 3", "Heading 4", "Caption")


def value(properties, name, attribute="val"):
    found = properties.find(qn(f"w:{name}"))
    return None if found is None else found.get(qn(f"w:{attribute}"))


def saved(board, tmp_path):
    return Document(str(export(board, tmp_path / "out.docx").path))


@pytest.mark.parametrize(
    ("text", "language", "fonts"),
    [
        ("أغلق الصمام.", "ar", {"cs": "Times New Roman"}),
        ("वाल्व बंद करें।", "hi", {"cs": "Nirmala UI"}),
        ("弁を閉めます。", "ja", {"eastAsia": "Yu Mincho"}),
        ("關閉閥門。", "zh-Hant", {"eastAsia": "PMingLiU"}),
    ],
    ids=["arabic", "hindi", "japanese", "traditional"],
)
def test_every_style_says_how_other_scripts_look(make_board, tmp_path, text, language, fonts):
    direction = "rtl" if language == "ar" else "ltr"
    made = saved(make_board([text], title=text, language=language, direction=direction), tmp_path)
    for name in SHOWN:
        properties = made.styles[name].element.rPr
        assert value(properties, "szCs") == value(properties, "sz")
        for script, font in fonts.items():
            assert value(properties, "rFonts", script) == font
    run = next(run for line in made.paragraphs for run in line.runs if run.text == text)
    spoken = "bidi" if "cs" in fonts else "eastAsia"
    assert value(run._r.rPr, "lang", spoken) == language


def test_words_that_stand_out_do_so_in_every_script(make_board, tmp_path):
    board = make_board(["أغلق الصمام"], direction="rtl", language="ar")
    marks = (Mark(start=0, end=4, kind="strong"), Mark(start=5, end=11, kind="emphasis"))
    step = board.story.steps[0].model_copy(update={"parts": (Part(text="أغلق الصمام", marks=marks),)})
    board = board.model_copy(update={"story": board.story.model_copy(update={"steps": (step,)})})
    runs = {run.text: run.font for line in saved(board, tmp_path).paragraphs for run in line.runs}
    assert runs["أغلق"].cs_bold
    assert runs["الصمام"].cs_italic


def test_headings_and_lists_are_those_of_word(make_board, tmp_path):
    board = make_board(["Saw it."])
    between = (
        Between(before=1, kind="heading", level=3, text="Needed"),
        Between(before=1, kind="item", depth=1, text="a saw"),
        Between(before=1, kind="item", depth=1, number=1, text="Cut."),
    )
    board = board.model_copy(update={"story": board.story.model_copy(update={"between": between})})
    made = saved(board, tmp_path)
    lines = {line.text: line for line in made.paragraphs}
    assert lines["Needed"].style.name == "Heading 2"  # a level less: the title has the first
    numbering = made.part.numbering_part.element
    marks = []
    for text in ("a saw", "Cut."):
        used = lines[text]._p.pPr.numPr.numId.val
        (look,) = (one.abstractNumId.val for one in numbering.num_lst if one.numId == used)
        looks = {one.get(qn("w:abstractNumId")): one for one in numbering.findall(qn("w:abstractNum"))}
        marks.append(value(looks[str(look)].find(qn("w:lvl")), "lvlText"))
    assert marks == ["•", "%1."]


def test_a_numbered_list_is_one_list_of_word_around_a_list_inside_it(make_board, tmp_path):
    board = make_board(["Saw it."])
    items = [
        (1, 1, "Cut."),
        (2, 1, "Along."),
        (2, 2, "Across."),
        (1, 2, "Glue."),
        (2, 1, "Wood."),
        (1, 4, "Go."),
    ]
    between = tuple(
        Between(before=1, kind="item", depth=depth, number=number, text=text) for depth, number, text in items
    )
    board = board.model_copy(update={"story": board.story.model_copy(update={"between": between})})
    lines = {line.text: line for line in saved(board, tmp_path).paragraphs}
    lists = [lines[text]._p.pPr.numPr.numId.val for _, _, text in items]
    outer, inner, same, again, other, apart = lists
    assert outer == again
    assert inner == same
    assert len({outer, inner, other, apart}) == 4


def test_the_head_of_a_table_is_bold_and_repeated(make_board, tmp_path):
    board = make_board(["Sizes"])
    rows = tuple(tuple(Passage(text=cell) for cell in row) for row in (("Size", "Eggs"), ("large", "two")))
    between = (Between(before=0, kind="table", rows=rows, head=1),)
    board = board.model_copy(update={"story": board.story.model_copy(update={"between": between})})
    (table,) = saved(board, tmp_path).tables
    bold = [[cell.paragraphs[0].runs[0].font.bold for cell in row.cells] for row in table.rows]
    assert bold == [[True, True], [None, None]]
    repeated = [bool(row._tr.findall(f".//{qn('w:tblHeader')}")) for row in table.rows]
    assert repeated == [True, False]


def test_a_paragraph_runs_as_its_own_letters_do(make_board, tmp_path):
    text = "Press USB once.\n\nأغلق الصمام USB الآن."
    left = saved(make_board([text]), tmp_path).paragraphs
    (tmp_path / "out.docx").unlink()
    right = saved(make_board([text], direction="rtl", language="ar"), tmp_path).paragraphs
    for made in (left, right):
        found = {
            line.text: line._p.pPr is not None and line._p.pPr.find(qn("w:bidi")) is not None for line in made
        }
        assert not found["Press USB once."]
        assert found["أغلق الصمام USB الآن."]
