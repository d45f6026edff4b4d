"""Tables in three formats say the same: every figure, interval, published value and mark."""

import re
from html.parser import HTMLParser

import pytest

from limner.errors import ConfigError
from limner.research.paper.table import Cell, ColumnBlock, Row, Table, notes_of, render

TABLE = Table(
    name="t",
    title="Ranks & <recalls> 50 %",
    corner="model",
    blocks=(
        ColumnBlock(title="plain", columns=("MedR", "R@1")),
        ColumnBlock(title="refined", columns=("R@1",)),
    ),
    rows=(
        Row(
            name="CMCM_Story|x",
            remark="3 seeds",
            cells=(
                Cell(value=4.25, low=3, high=6.5, paper=4.2, kind="rank"),
                Cell(value=0.4651, low=0.4, high=0.5, paper=0.465, mark="*"),
                Cell(value=1.0, low=1.0, high=1.0, mark="†"),
            ),
        ),
        Row(name="Base", cells=(Cell(kind="rank", paper=10.0), Cell(), Cell(applies=False))),
    ),
    notes=("A note.",),
)


def test_cells_are_counted_where_a_result_is_due():
    assert TABLE.empty == 2
    assert notes_of(TABLE) == ("A note.", "2 of 5 cells have no result (–).")
    assert notes_of(TABLE.model_copy(update={"rows": TABLE.rows[:1]})) == ("A note.",)


def test_markdown_line_by_line():
    assert render([TABLE]).splitlines() == [
        "**Ranks & <recalls> 50 %**",
        "",
        "| model | plain: MedR | plain: R@1 | refined: R@1 |",
        "|---|---:|---:|---:|",
        r"| CMCM\_Story\|x (3 seeds) | 4.25 [3.00, 6.50] (4.2) | 46.51\* [40.00, 50.00] (46.5) | "
        "100.00† [100.00, 100.00] |",
        "| Base | – (10.0) | – |  |",
        "",
        "A note.  ",
        "2 of 5 cells have no result (–).  ",
    ]


def test_markdown_is_a_table_to_a_parser():
    from markdown_it import MarkdownIt

    page = MarkdownIt("commonmark").enable("table").render(render([TABLE]))
    cells = re.findall(r"<td[^>]*>(.*?)</td>", page)
    assert cells == [
        "CMCM_Story|x (3 seeds)",
        "4.25 [3.00, 6.50] (4.2)",
        "46.51* [40.00, 50.00] (46.5)",
        "100.00† [100.00, 100.00]",
        "Base",
        "– (10.0)",
        "–",
        "",
    ]


def test_latex_escapes_and_balances():
    text = render([TABLE], "latex")
    assert r"CMCM\_Story$|$x (3 seeds) & 4.25 {\scriptsize [3.00, 6.50]} {\scriptsize (4.2)}" in text
    assert r"\caption{Ranks \& $<$recalls$>$ 50 \%}" in text
    assert r"\multicolumn{2}{c}{plain} & \multicolumn{1}{c}{refined} \\" in text
    assert r"100.00$\dagger$" in text
    assert text.count("{") - text.count(r"\{") == text.count("}") - text.count(r"\}")
    assert text.count(r"\begin{") == text.count(r"\end{") == 2
    rows = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert [line.count(" & ") for line in rows[1:]] == [3, 3, 3]


class Cells(HTMLParser):
    def __init__(self):
        super().__init__()
        self.rows, self.open = [], []

    def handle_starttag(self, tag, attributes):
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "tr" in self.open and self.rows[-1]:
            self.rows[-1][-1] += data


def test_html_has_the_same_cells_and_nothing_unescaped():
    text = render([TABLE], "html")
    seen = Cells()
    seen.feed(text)
    assert seen.open == []
    assert [cell.strip() for cell in seen.rows[2]] == [
        "CMCM_Story|x (3 seeds)",
        "4.25 [3.00, 6.50] (4.2)",
        "46.51* [40.00, 50.00] (46.5)",
        "100.00† [100.00, 100.00]",
    ]
    assert "<recalls>" not in text
    assert seen.rows[0] == ["", "plain", "refined"]


def test_infinite_ranks_and_precisions_have_a_form():
    row = Row(name="r", cells=(Cell(value=float("inf"), kind="rank"), Cell(value=0.285, kind="precision")))
    table = Table(
        name="t", title="t", corner="c", blocks=(ColumnBlock(title="b", columns=("x", "y")),), rows=(row,)
    )
    assert "| r | ∞ | 0.285 |" in render([table])


def test_an_unknown_format_is_named():
    with pytest.raises(ConfigError, match="unknown format 'latx'; did you mean 'latex'"):
        render([TABLE], "latx")


@pytest.mark.parametrize(
    ("kind", "value", "shown"),
    [
        ("percent", 0.46512, "46.51 (46.5)"),
        ("exact percent", 0.654123, "65.412 (65.41)"),
        ("whole percent", 0.2436, "24.4 (24)"),
        ("rank", 4.25, "4.25 (4.2)"),
        ("precision", 0.8249, "0.825 (0.82)"),
        ("score", 0.627949, "0.62795 (0.6279)"),
        ("product", 0.0374, "0.037 (0.04)"),
        ("count", 12, "12 (12)"),
    ],
)
def test_ours_has_one_decimal_more_than_the_papers_as_printed(kind, value, shown):
    main, _, paper = Cell(value=value, paper=value, kind=kind).parts()
    assert f"{main} {paper}" == shown
