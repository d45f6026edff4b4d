"""Tables of results as records, rendered as Markdown, LaTeX or HTML.

Each cell has a value, interval, published figure and significance mark. Only this module converts fractions
to per cent.
"""

import html
import math
import string
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Literal, get_args

from pydantic import ConfigDict, Field

from limner.config import Record
from limner.errors import ConfigError, unknown

Kind = Literal[
    "percent",
    "whole percent",
    "exact percent",
    "rank",
    "precision",
    "count",
    "probability",
    "setting",
    "score",
    "product",
]
Mark = Literal["", "*", "†"]
Best = Literal["", "bold", "underlined"]
Format = Literal["md", "latex", "html"]
NONE = "–"
SETTINGS = "settings"
"""Heading of the column of training settings."""
UNEVEN = "‡"
"""Mark of a comparison between runs with different settings."""
_FORMS: Mapping[Kind, tuple[str, str]] = {
    "percent": (".1f", ".2f"),
    "whole percent": (".0f", ".1f"),
    "exact percent": (".2f", ".3f"),
    "rank": (".1f", ".2f"),
    "precision": (".2f", ".3f"),
    "count": (".0f", ".0f"),
    "probability": (".3f", ".3f"),
    "setting": ("g", "g"),
    "score": (".4f", ".5f"),
    "product": (".2f", ".3f"),
}
"""Format of a published figure, as the papers print it, and of ours, with one decimal more: rounding hides no
difference."""
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
        "‡": r"$\ddagger$",
        "β": r"$\beta$",
        "γ": r"$\gamma$",
        "λ": r"$\lambda$",
        "μ": r"$\mu$",
        "σ": r"$\sigma$",
        "α": r"$\alpha$",
        "Γ": r"$\Gamma$",
        "−": r"$-$",
        "→": r"$\to$",
        "|": r"$|$",
        "×": r"$\times$",
        "±": r"$\pm$",
    }
)


@cache
def reference() -> Mapping[str, Any]:
    """All published figures by table, from the files in ``reference/``."""
    folder = files("limner.research.paper") / "reference"
    found: dict[str, Any] = {}
    for file in sorted(folder.iterdir(), key=lambda one: one.name):
        found |= tomllib.loads(file.read_text("utf-8"))
    return found


class Cell(Record):
    """One figure.

    Attributes:
        value: a fraction, rank, precision, count, probability, setting or score; None if there is no result.
        low, high: interval, in the unit of the value.
        deviation: standard deviation over the pools of one run, as in the paper; averaged over runs.
        paper: the published figure, in the same unit.
        paper_deviation: the published deviation.
        release: the same figure, recomputed from the files of the release.
        release_deviation: its deviation, over the same pools.
        mark: ``*`` significantly better, ``†`` significantly worse than the control, after correction.
        kind: format of the figure.
        applies: False if the row cannot have this figure (such as refined ranks of a system that does not
            refine); the empty cell is then not a gap.
        uneven: whether the control has other settings.
        best: how the paper marks the best values of a column.
    """

    model_config = ConfigDict(ser_json_inf_nan="strings")

    value: float | None = None
    low: float | None = None
    high: float | None = None
    deviation: float | None = None
    paper: float | None = None
    paper_deviation: float | None = None
    release: float | None = None
    release_deviation: float | None = None
    mark: Mark = ""
    kind: Kind = "percent"
    applies: bool = True
    uneven: bool = False
    best: Best = ""

    def parts(self) -> tuple[str, str, str]:
        """The figure with its mark, its interval, and the published figure, each possibly empty."""
        sign = UNEVEN if self.uneven and self.mark else ""
        main = NONE if self.value is None else written(self.value, self.kind, ours=True) + self.mark + sign
        if not self.applies:
            main = ""
        elif self.value is not None and self.deviation is not None:
            main += f" ± {written(self.deviation, self.kind, ours=True)}"
        span = ""
        if self.value is not None and self.low is not None and self.high is not None:
            span = f"[{', '.join(written(one, self.kind, ours=True) for one in (self.low, self.high))}]"
        found = []
        if self.paper is not None:
            found.append(written(self.paper, self.kind))
            if self.paper_deviation is not None:
                found[0] += f" ± {written(self.paper_deviation, self.kind)}"
        if self.release is not None:
            found.append(f"release {written(self.release, self.kind, ours=True)}")
            if self.release_deviation is not None:
                found[-1] += f" ± {written(self.release_deviation, self.kind, ours=True)}"
        return main, span, f"({', '.join(found)})" if found else ""


class RunSettings(Record):
    """Settings of the runs behind some figures.

    Attributes:
        preset: preset of the runs; "" if not recorded.
        deviations: deviations from it, common to all runs; None if not recorded.
        some: deviations of only some of the runs.
        departures: what differs from the printed paper, in any of the runs.
        reduced: whether a size or the number of epochs is below the paper's.
        backbone: architecture, and whether it was frozen or trained; "" if not recorded.
        seeds: seeds of training.
        data: data sets.
        split: their split.
        factors: factors of the weights that the paper chose for another data set.
    """

    preset: str
    deviations: tuple[str, ...] | None
    some: tuple[str, ...] = ()
    departures: tuple[str, ...] = ()
    reduced: bool = False
    backbone: str
    seeds: tuple[int, ...]
    data: tuple[str, ...]
    split: str
    factors: tuple[str, ...] = ()

    @property
    def listed(self) -> str:
        """What differs from the preset and from the printed paper, in one line; "" for nothing."""
        every = ", ".join(self.deviations or ())
        every += f"{'; ' * bool(every)}only some runs: {', '.join(self.some)}" if self.some else ""
        lists = {"Deviations from the preset": every, "Departures from the paper": ", ".join(self.departures)}
        return " ".join(f"{title}: {some}." for title, some in lists.items() if some)

    def words(self, letter: str = "") -> str:
        """One line for the table; `letter` is that of the note that lists the deviations."""
        preset = f"preset {self.preset}" if self.preset else "preset not recorded"
        count = len(self.deviations or ()) + len(self.some)
        if self.deviations is None:
            preset += ", deviations not recorded"
        elif count:
            preset += f" with {count} deviation{'s' * (count > 1)}"
        preset += f" ({letter})" if self.listed else ""
        seeds = f"seed{'s' * (len(self.seeds) > 1)} {', '.join(map(str, self.seeds))}"
        backbone = self.backbone or "backbone not recorded"
        where = f"{', '.join(self.data)}, {self.split} split"
        return "; ".join((preset, backbone, seeds, where, *self.factors))


class Row(Record):
    """One row.

    Attributes:
        name: name of the system or relation.
        cells: one per column of all blocks.
        remark: remark next to the name, such as the number of seeds.
        settings: settings of its runs; None if there are none.
        uneven: differences between these settings and those of the row it is compared with; "" for none.
    """

    name: str
    cells: tuple[Cell, ...]
    remark: str = ""
    settings: RunSettings | None = None
    uneven: str = ""


class ColumnBlock(Record):
    """Neighbouring columns under one heading."""

    title: str
    columns: tuple[str, ...]


class Table(Record):
    """A finished table.

    Attributes:
        name: name, such as ``cmcm-5``.
        title: one line.
        corner: heading of the row names.
        blocks: columns, from left to right.
        rows: rows, from top to bottom.
        notes: lines below the table.
        columns_of: system → settings, if systems are columns instead of rows.
    """

    name: str
    title: str
    corner: str
    blocks: tuple[ColumnBlock, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    columns_of: Mapping[str, RunSettings] = Field(default_factory=dict)

    @property
    def empty(self) -> int:
        """Number of cells that should have a result but do not."""
        return sum(cell.applies and cell.value is None for row in self.rows for cell in row.cells)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of all columns."""
        return tuple(column for block in self.blocks for column in block.columns)

    @property
    def letters(self) -> Mapping[str, str]:
        """List of deviations → letter of its note, in the order of the rows."""
        every = [row.settings for row in self.rows if row.settings] + list(self.columns_of.values())
        lists = dict.fromkeys(one.listed for one in every if one.listed)
        return {one: _letter(number) for number, one in enumerate(lists)}

    @property
    def left(self) -> tuple[str, ...]:
        """Headings of the columns before the figures."""
        return (self.corner, *((SETTINGS,) if any(row.settings for row in self.rows) else ()))

    @property
    def beside(self) -> list[tuple[str, ...]]:
        """First columns of every row: its name and, if any row has them, settings."""
        letters = self.letters
        words = [
            row.settings.words(letters.get(row.settings.listed, "")) if row.settings else NONE
            for row in self.rows
        ]
        return [(_name(row), own)[: len(self.left)] for row, own in zip(self.rows, words, strict=True)]


def written(value: float, kind: Kind, *, ours: bool = False) -> str:
    """Format a figure: fractions as per cent, probabilities below 0.001 as "<0.001", settings as they are.

    Args:
        value: in the unit of `Cell.value`.
        kind: its kind.
        ours: whether it has one decimal more than a published figure.
    """
    if math.isinf(value):
        return "∞"
    if kind == "probability" and value < 0.001:
        return "<0.001"
    return format(100 * value if kind.endswith("percent") else value, _FORMS[kind][ours])


def render(tables: Sequence[Table], form: Format = "md") -> str:
    """Render tables as one text.

    Args:
        tables: in order.
        form: ``md``, ``latex`` (needs the package booktabs) or ``html`` (a fragment without style).
    Raises:
        ConfigError: the form is unknown.
    """
    if form not in get_args(Format):
        raise ConfigError("table: " + unknown("format", form, get_args(Format)))
    write = {"md": _markdown, "latex": _latex, "html": _html}[form]
    return "\n".join(write(table) for table in tables)


def notes_of(table: Table) -> tuple[str, ...]:
    """All notes of a table: its own, those on settings, and the number of empty cells, if any."""
    cells = sum(cell.applies for row in table.rows for cell in row.cells)
    gap = (f"{table.empty} of {cells} cells have no result ({NONE}).",) if table.empty else ()
    letters = table.letters
    columns = [f"{name}: {one.words(letters.get(one.listed, ''))}." for name, one in table.columns_of.items()]
    uneven: dict[str, list[str]] = {}
    for row in table.rows:
        if row.uneven:
            uneven.setdefault(row.uneven, []).append(row.name)
    signs = [
        f"{UNEVEN} {', '.join(names)}: compared across settings; {how}." for how, names in uneven.items()
    ]
    lists = [f"({letter}) {listed}" for listed, letter in letters.items()]
    return (*table.notes, *columns, *signs, *lists, *gap)


def _letter(number: int) -> str:
    """Letters for 0, 1, … in turn: a to z, then aa, ab and so on."""
    tail = string.ascii_lowercase[number % 26]
    return tail if number < 26 else _letter(number // 26 - 1) + tail


def _markdown(table: Table) -> str:
    def safe(text: str) -> str:
        return text.replace("\\", "\\\\").replace("|", "\\|").replace("*", "\\*").replace("_", "\\_")

    titled = len(table.blocks) > 1
    heads = [
        f"{block.title}: {column}" if titled else column for block in table.blocks for column in block.columns
    ]
    lines = [f"**{safe(table.title)}**", ""]
    lines.append("| " + " | ".join(safe(head) for head in (*table.left, *heads)) + " |")
    lines.append("|" + "---|" * len(table.left) + "---:|" * len(heads))
    for row, beside in zip(table.rows, table.beside, strict=True):
        cells = []
        for cell in row.cells:
            main, *rest = map(safe, cell.parts())
            marked = {"": main, "bold": f"**{main}**", "underlined": f"<u>{main}</u>"}[cell.best]
            cells.append(" ".join(part for part in (marked, *rest) if part))
        lines.append("| " + " | ".join([*map(safe, beside), *cells]) + " |")
    lines += ["", *(f"{safe(note)}  " for note in notes_of(table)), ""]
    return "\n".join(lines)


def _latex(table: Table) -> str:
    def safe(text: str) -> str:
        return text.translate(_LATEX)

    def cell_of(cell: Cell) -> str:
        main, *small = cell.parts()
        main = {"": "{}", "bold": r"\textbf{{{}}}", "underlined": r"\underline{{{}}}"}[cell.best].format(
            safe(main)
        )
        return " ".join([main, *(rf"{{\scriptsize {safe(part)}}}" for part in small if part)])

    lines = [r"\begin{table}", r"\centering", rf"\caption{{{safe(table.title)}}}"]
    left = "l" + r"p{4cm}" * (len(table.left) - 1)
    lines += [rf"\begin{{tabular}}{{{left}{'r' * len(table.columns)}}}", r"\toprule"]
    if len(table.blocks) > 1:
        spans = [rf"\multicolumn{{{len(b.columns)}}}{{c}}{{{safe(b.title)}}}" for b in table.blocks]
        lines.append(" & ".join([*("" for _ in table.left), *spans]) + r" \\")
    lines.append(" & ".join(safe(head) for head in (*table.left, *table.columns)) + r" \\")
    lines.append(r"\midrule")
    for row, (name, *words) in zip(table.rows, table.beside, strict=True):
        small = [rf"{{\scriptsize {safe(one)}}}" for one in words]
        lines.append(" & ".join([safe(name), *small, *map(cell_of, row.cells)]) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}"]
    lines += [rf"\par {{\footnotesize {safe(note)}}}" for note in notes_of(table)]
    return "\n".join([*lines, r"\end{table}", ""])


def _html(table: Table) -> str:
    def cell_of(cell: Cell) -> str:
        main, *small = cell.parts()
        rest = "".join(f" <small>{html.escape(part)}</small>" for part in small if part)
        form = {"": "{}", "bold": "<strong>{}</strong>", "underlined": "<u>{}</u>"}[cell.best]
        return f"<td>{form.format(html.escape(main))}{rest}</td>"

    # A wide table scrolls by itself, not with the page.
    title = html.escape(table.title)
    lines = [f'<div role="region" aria-label="{title}" tabindex="0" style="overflow-x:auto">']
    lines += ["<table>", f"<caption>{title}</caption>", "<thead>"]
    corner = "".join(f'<th scope="col">{html.escape(head)}</th>' for head in table.left)
    if len(table.blocks) > 1:
        spans = [
            f'<th scope="colgroup" colspan="{len(b.columns)}">{html.escape(b.title)}</th>'
            for b in table.blocks
        ]
        lines.append("<tr>" + "<td></td>" * len(table.left) + "".join(spans) + "</tr>")
    heads = "".join(f'<th scope="col">{html.escape(column)}</th>' for column in table.columns)
    lines += [f"<tr>{corner}{heads}</tr>", "</thead>", "<tbody>"]
    for row, (name, *words) in zip(table.rows, table.beside, strict=True):
        cells = "".join(f"<td>{html.escape(one)}</td>" for one in words)
        cells += "".join(map(cell_of, row.cells))
        lines.append(f'<tr><th scope="row">{html.escape(name)}</th>{cells}</tr>')
    lines += ["</tbody>", "</table>", "</div>"]
    lines += [f"<p>{html.escape(note)}</p>" for note in notes_of(table)]
    return "\n".join([*lines, ""])


def _name(row: Row) -> str:
    reduced = ", reduced" if row.settings and row.settings.reduced else ""
    name = f"{row.name}{reduced} {UNEVEN}" if row.uneven else row.name + reduced
    return f"{name} ({row.remark})" if row.remark else name
