"""Tables of results as records, and the same table as Markdown, LaTeX or HTML.

Every cell carries its interval, the published figure and its mark of significance, so that no format can drop
one by accident. Per cent appears here and nowhere else.
"""

import html
import math
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Literal, get_args

from limner.errors import ConfigError, unknown
from limner.records import Record

Kind = Literal["percent", "rank", "precision", "count", "probability"]
Mark = Literal["", "*", "†"]
Format = Literal["md", "latex", "html"]
NONE = "–"
_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "_": r"\_",
        "%": r"\%",
        "&": r"\&",
        "#": r"\#",
        "$": r"\$",
        "{": r"\{",
        "}": r"\}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"$<$",
        ">": r"$>$",
        "≥": r"$\geq$",
        "–": "--",
        "†": r"$\dagger$",
        "λ": r"$\lambda$",
        "α": r"$\alpha$",
        "Γ": r"$\Gamma$",
        "−": r"$-$",
        "→": r"$\to$",
        "|": r"$|$",
        "×": r"$\times$",
    }
)


@cache
def reference() -> Mapping[str, Any]:
    """All published figures by table, as in the files of ``reference/``."""
    folder = files("limner.paper") / "reference"
    found: dict[str, Any] = {}
    for file in sorted(folder.iterdir(), key=lambda one: one.name):
        found |= tomllib.loads(file.read_text("utf-8"))
    return found


class Cell(Record):
    """One figure.

    Attributes:
        value: a fraction, a rank, a precision, a count or a probability; None where no result exists.
        low, high: interval, in the unit of the value.
        paper: the published figure, in the same unit, as printed.
        release: the same figure recomputed from the files of the release.
        mark: ``*`` better, ``†`` worse than the control, significantly after correction.
        kind: how it is written.
        applies: False where the row has no such figure (a system that refines nothing), which is no gap;
            a published one is shown all the same.
    """

    value: float | None = None
    low: float | None = None
    high: float | None = None
    paper: float | None = None
    release: float | None = None
    mark: Mark = ""
    kind: Kind = "percent"
    applies: bool = True

    @property
    def published(self) -> float | None:
        """The published figure with the most digits."""
        return self.paper if self.release is None else self.release

    def parts(self) -> tuple[str, str, str]:
        """The figure with its mark, its interval, and the published figure, each possibly empty."""
        main = NONE if self.value is None else written(self.value, self.kind) + self.mark
        if not self.applies:
            main = ""
        span = ""
        if self.value is not None and self.low is not None and self.high is not None:
            span = f"[{written(self.low, self.kind)}, {written(self.high, self.kind)}]"
        found = [] if self.paper is None else [written(self.paper, self.kind)]
        if self.release is not None:
            found.append(f"release {written(self.release, self.kind)}")
        return main, span, f"({', '.join(found)})" if found else ""


class Row(Record):
    """One row.

    Attributes:
        name: of the system or relation.
        cells: one per column of all blocks.
        remark: beside the name, such as the number of seeds.
    """

    name: str
    cells: tuple[Cell, ...]
    remark: str = ""


class Block(Record):
    """Neighbouring columns under one heading."""

    title: str
    columns: tuple[str, ...]


class Table(Record):
    """A table ready to be written.

    Attributes:
        name: such as ``cmcm-5``.
        title: one line.
        corner: heading of the row names.
        blocks: columns, from left to right.
        rows: from top to bottom.
        notes: lines below it.
    """

    name: str
    title: str
    corner: str
    blocks: tuple[Block, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()

    @property
    def empty(self) -> int:
        """Cells without a result that should have one."""
        return sum(cell.applies and cell.value is None for row in self.rows for cell in row.cells)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of all columns."""
        return tuple(column for block in self.blocks for column in block.columns)


def written(value: float, kind: Kind) -> str:
    """A figure as printed.

    Fractions as per cent with one decimal, ranks with one, precisions with two, probabilities with three,
    small ones as "<0.001".
    """
    if math.isinf(value):
        return "∞"
    if kind == "percent":
        return f"{100 * value:.1f}"
    if kind == "count":
        return f"{value:.0f}"
    if kind == "probability":
        return f"{value:.3f}" if value >= 0.001 else "<0.001"
    return f"{value:.1f}" if kind == "rank" else f"{value:.2f}"


def render(tables: Sequence[Table], form: Format = "md") -> str:
    """Tables as one text.

    Args:
        tables: in order.
        form: ``md``, ``latex`` (needs the package booktabs) or ``html`` (a fragment without style).
    Raises:
        ConfigError: no such form.
    """
    if form not in get_args(Format):
        raise ConfigError("table: " + unknown("format", form, get_args(Format)))
    write = {"md": _markdown, "latex": _latex, "html": _html}[form]
    return "\n".join(write(table) for table in tables)


def notes_of(table: Table) -> tuple[str, ...]:
    """The notes and, where cells are empty, how many."""
    cells = sum(cell.applies for row in table.rows for cell in row.cells)
    gap = (f"{table.empty} of {cells} cells have no result ({NONE}).",) if table.empty else ()
    return (*table.notes, *gap)


def _markdown(table: Table) -> str:
    def safe(text: str) -> str:
        return text.replace("\\", "\\\\").replace("|", "\\|").replace("*", "\\*").replace("_", "\\_")

    titled = len(table.blocks) > 1
    heads = [
        f"{block.title}: {column}" if titled else column for block in table.blocks for column in block.columns
    ]
    lines = [f"**{safe(table.title)}**", ""]
    lines.append("| " + " | ".join(safe(head) for head in (table.corner, *heads)) + " |")
    lines.append("|---|" + "---:|" * len(heads))
    for row in table.rows:
        cells = [" ".join(safe(part) for part in cell.parts() if part) for cell in row.cells]
        lines.append("| " + " | ".join([safe(_name(row)), *cells]) + " |")
    lines += ["", *(f"{safe(note)}  " for note in notes_of(table)), ""]
    return "\n".join(lines)


def _latex(table: Table) -> str:
    def safe(text: str) -> str:
        return text.translate(_LATEX)

    def cell_of(cell: Cell) -> str:
        main, *small = cell.parts()
        return " ".join([safe(main), *(rf"{{\scriptsize {safe(part)}}}" for part in small if part)])

    lines = [r"\begin{table}", r"\centering", rf"\caption{{{safe(table.title)}}}"]
    lines += [rf"\begin{{tabular}}{{l{'r' * len(table.columns)}}}", r"\toprule"]
    if len(table.blocks) > 1:
        spans = [rf"\multicolumn{{{len(b.columns)}}}{{c}}{{{safe(b.title)}}}" for b in table.blocks]
        lines.append(" & ".join(["", *spans]) + r" \\")
    lines.append(" & ".join(safe(head) for head in (table.corner, *table.columns)) + r" \\")
    lines.append(r"\midrule")
    for row in table.rows:
        lines.append(" & ".join([safe(_name(row)), *map(cell_of, row.cells)]) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}"]
    lines += [rf"\par {{\footnotesize {safe(note)}}}" for note in notes_of(table)]
    return "\n".join([*lines, r"\end{table}", ""])


def _html(table: Table) -> str:
    def cell_of(cell: Cell) -> str:
        main, *small = cell.parts()
        rest = "".join(f" <small>{html.escape(part)}</small>" for part in small if part)
        return f"<td>{html.escape(main)}{rest}</td>"

    # Wide tables scroll by themselves, not with the page they stand on.
    title = html.escape(table.title)
    lines = [f'<div role="region" aria-label="{title}" tabindex="0" style="overflow-x:auto">']
    lines += ["<table>", f"<caption>{title}</caption>", "<thead>"]
    corner = f'<th scope="col">{html.escape(table.corner)}</th>'
    if len(table.blocks) > 1:
        spans = [
            f'<th scope="colgroup" colspan="{len(b.columns)}">{html.escape(b.title)}</th>'
            for b in table.blocks
        ]
        lines.append("<tr><td></td>" + "".join(spans) + "</tr>")
    heads = "".join(f'<th scope="col">{html.escape(column)}</th>' for column in table.columns)
    lines += [f"<tr>{corner}{heads}</tr>", "</thead>", "<tbody>"]
    for row in table.rows:
        cells = "".join(map(cell_of, row.cells))
        lines.append(f'<tr><th scope="row">{html.escape(_name(row))}</th>{cells}</tr>')
    lines += ["</tbody>", "</table>", "</div>"]
    lines += [f"<p>{html.escape(note)}</p>" for note in notes_of(table)]
    return "\n".join([*lines, ""])


def _name(row: Row) -> str:
    return f"{row.name} ({row.remark})" if row.remark else row.name
