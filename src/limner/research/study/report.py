"""Reports of a study: tables (with the papers' figures on request), example pages, and a CSV file.

All formats are rendered from the same tables, so that Markdown, LaTeX and HTML agree.
"""

import csv
import html
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from scipy.stats import binomtest

from limner.config import Record
from limner.errors import DataError, counted
from limner.research.evaluation.uncertainty import Interval
from limner.research.paper.page import Example, Group, check_page, in_parts, shown_picture, write_page
from limner.research.paper.table import Cell, ColumnBlock, Kind, Row, Table, reference, render
from limner.research.study.analysis import (
    ALL,
    LETTERS_A_SECOND,
    NO_MAJORITY,
    NOTHING,
    PICTURE_S,
    Decided,
    StratumPreference,
    StudyReport,
    View,
    tally,
)
from limner.research.study.assignment import units
from limner.research.study.records import (
    PICTURES,
    Answer,
    Item,
    Study,
    StudyFiles,
    Vote,
    redrawn,
)
from limner.research.study.recruitment import Panelist, crowd_of
from limner.research.study.statistics import EFFECTS, MeanTest

PAIR_COLUMNS = {
    "better": "better",
    "worse": "worse",
    "same": 'same ("both good")',
    "neither": 'neither ("both bad")',
    NO_MAJORITY: NO_MAJORITY,
}
PATTERNS = ("A", "AB", "AC", "ABC", "B", "C", "BC", NOTHING)
FEWEST_COLUMNS = (2, 3, 4, 5)


def build(report: StudyReport, *, published: bool = False) -> list[Table]:
    """Build all tables of a report: outcomes, tests, power and agreement for each view.

    Args:
        report: result of `limner.research.study.analysis.analyse`.
        published: whether to show the papers' figures too.
    """
    tables: list[Table] = []
    for view in report.views:
        if report.protocol == "pairwise":
            tables.append(_pairs(report, view, published=published))
        else:
            tables += [_patterns(report, view, published=published), _ticked(report, view)]
        tables += [_tests(report, view), _power(report, view, published=published), _agreement(report, view)]
    return tables


def _title(words: str, report: StudyReport, view: View) -> str:
    """Title of a table, with the raters counted and a mark for interim results."""
    return f"{words} ({view.raters}{'; interim' if report.interim else ''})"


def _pairs(report: StudyReport, view: View, *, published: bool) -> Table:
    """Table 6 of CMCM: shares of outcomes per relation."""
    entry = reference()["cmcm-6"]
    theirs: Mapping[str, Mapping[str, float]] = entry["rows"] if published else {}
    tested = [one.tested for one in view.strata]
    once = {name for name in tested if tested.count(name) == 1}
    several = len(view.strata) > 1
    ours = {_row_name(one, theirs, alone=one.tested in once, several=several): one for one in view.strata}
    rows, columns = [], list(PAIR_COLUMNS.values() if published else PAIR_COLUMNS)
    if not published:
        for letter, outcome in (("A", "better"), ("B", "worse")):
            if len(names := report.systems.get(letter, ())) == 1:
                columns[list(PAIR_COLUMNS).index(outcome)] = f"{names[0]} better"
    for name in [*theirs, *(name for name in ours if name not in theirs)]:
        one, cells = ours.get(name), []
        for outcome in PAIR_COLUMNS:
            paper = theirs.get(name, {}).get(outcome)
            printed = None if paper is None else paper / 100
            if one is None or not one.items:
                applies = printed is not None or one is not None
                cells.append(Cell(paper=printed, kind="whole percent", applies=applies))
                continue
            count = one.outcomes.get(outcome, 0)
            span = binomtest(count, one.items).proportion_ci(1 - report.level, method="wilson")
            share = count / one.items
            low, high = min(float(span.low), share), max(float(span.high), share)
            cells.append(Cell(value=share, low=low, high=high, paper=printed, kind="whole percent"))
        remark = "" if one is None else _sizes(one)
        if one is not None and one.tested and name in theirs and one.tested != name:
            remark = f"here {one.tested}, {remark}"
        rows.append(Row(name=name, cells=tuple(cells), remark=remark))
    notes = [
        "Share of items in per cent; brackets: Wilson interval, which assumes independent items."
        + (
            f" Parentheses: the paper's figure, from {entry['items']} items per row that were selected by"
            " outcome."
            if published
            else ""
        ),
        "Better: more than half of an item's raters prefer the picture of the tested system. No majority: no"
        " answer has more than half of the votes" + ("; the paper has no such column." if published else "."),
        "Same: raters answered that the two pictures are exactly the same, or the pair was pre-filled"
        + ('; the paper prints this answer as "both good".' if published else "."),
    ]
    return Table(
        name="cmcm-6",
        title=_title(entry["title"] if published else "Preferences", report, view),
        corner="system",
        blocks=_blocks({"share of items": columns}),
        rows=tuple(rows),
        notes=(*notes, *_counted(report, view)),
    )


def _row_name(one: StratumPreference, published: Mapping[str, Any], *, alone: bool, several: bool) -> str:
    """Name of the paper's row for a relation, or for a system with one stratum; else a new name."""
    if f"CMCM_{one.stratum}" in published:
        return f"CMCM_{one.stratum}"
    if alone and one.tested in published:
        return one.tested
    if not one.tested or (one.stratum == ALL and several):
        return one.stratum
    return one.tested if one.stratum == ALL else f"{one.tested}, {one.stratum}"


def _patterns(report: StudyReport, view: View, *, published: bool) -> Table:
    """Table 2 of VRSS: number of steps by the majority's ticks and by the votes for them."""
    entry = reference()["vrss-2"]
    theirs: Mapping[str, Mapping[str, int]] = entry["rows"] if published else {}
    votes = sorted({*FEWEST_COLUMNS, *(n for counts in view.patterns.values() for n in counts)})
    total = sum(sum(counts.values()) for counts in view.patterns.values())
    rows = []
    for pattern in (*PATTERNS, NO_MAJORITY):
        counts, paper = view.patterns.get(pattern, {}), theirs.get(pattern, {})
        cells = [
            Cell(value=counts.get(n, 0) if total else None, paper=paper.get(str(n)), kind="count")
            for n in votes
        ]
        ours, printed = sum(counts.values()), sum(paper.values())
        cells.append(Cell(value=ours if total else None, paper=printed or None, kind="count"))
        share = printed / entry["steps"] if paper else None
        cells.append(Cell(value=ours / total if total else None, paper=share))
        rows.append(Row(name=_pattern_name(pattern, report), cells=tuple(cells)))
    return Table(
        name="vrss-2",
        title=_title(entry["title"] if published else "Pictures that the majority ticked", report, view),
        corner="ticked by the majority",
        blocks=_blocks({"steps by votes": [str(n) for n in votes], "all": ("steps", "% of steps")}),
        rows=tuple(rows),
        notes=(
            "Number of steps for which more than half of the raters ticked exactly these pictures, by number"
            " of votes; without a majority, by the votes for the most frequent answer. A tick on a picture"
            " that several systems chose counts for each.",
            *(
                (
                    f"Parentheses: the paper's figure, of {entry['steps']} steps; its model with context is"
                    " VRSS and its model without is VSE++. It does not report steps without the true picture."
                    " Its sums and shares of all steps are recomputed from its counts.",
                )
                if published
                else ()
            ),
            *_counted(report, view),
        ),
    )


def _pattern_name(pattern: str, report: StudyReport) -> str:
    if pattern in (NOTHING, NO_MAJORITY):
        return pattern
    plain = {"A": "true", "B": "context", "C": "no context"}
    names = [
        report.systems[letter][0] if len(report.systems.get(letter, ())) == 1 else plain[letter]
        for letter in pattern
    ]
    return f"{', '.join(names)}{' only' if len(names) == 1 else ''}"


def _ticked(report: StudyReport, view: View) -> Table:
    """How often each system's picture was ticked."""
    rows = []
    for letter in ("A", "B", "C"):
        ticks = view.ticks.get(letter)
        cells = (Cell(value=ticks.votes if ticks else None), Cell(value=ticks.steps if ticks else None))
        rows.append(Row(name=_pattern_name(letter, report).removesuffix(" only"), cells=cells))
    return Table(
        name="vrss-2-ticks",
        title=_title("Pictures ticked", report, view),
        corner="picture of",
        blocks=_blocks({"ticked, %": ("of votes", "by the majority of a step")}),
        rows=tuple(rows),
        notes=("Each picture is counted independently of the others.",),
    )


def _tests(report: StudyReport, view: View) -> Table:
    def cells(one: StratumPreference) -> Iterable[Cell]:
        yield from _cells(one.mean, {"mean": "precision"}, one.mean_interval)
        yield from _cells(one.sign, {"wins": "count", "losses": "count", "p_value": "probability"})
        yield _cell(one.sign_adjusted, "probability")
        yield from _cells(one.mean, {"t": "precision", "p_value": "probability"})
        yield _cell(one.mean_adjusted, "probability")
        yield from _cells(one.mean, {"effect": "precision"}, one.mean)

    scored = (
        "Score of an item: +1 if the majority prefers the tested system, −1 if it prefers the control, else"
        " 0."
        if report.protocol == "pairwise"
        else "Score of a step: +1 if more than half of the raters tick the picture of the model with"
        " context but no majority ticks that of the model without, −1 in the reverse case, else 0."
    )
    return Table(
        name=f"{report.protocol}-tests",
        title=_title("Tests of the preference", report, view),
        corner="stratum",
        blocks=_blocks(
            {
                "score": ("mean",),
                "sign test": ("wins", "losses", "p", "p (Holm)"),
                "t-test": ("t", "p", "p (Holm)", "effect d"),
            }
        ),
        rows=tuple(Row(name=one.stratum, cells=tuple(cells(one)), remark=_sizes(one)) for one in view.strata),
        notes=(
            scored,
            "Sign test: exact, two-sided, without ties. t-test: mean score against 0; undefined if all scores"
            " are equal. Effect: mean divided by standard deviation, interval from the noncentral t"
            " distribution.",
            "Interval of the mean: bootstrap of whole stories or duplicate groups. Holm: corrected for the"
            " number of strata; the row of all strata does not count as a test.",
        ),
    )


def _power(report: StudyReport, view: View, *, published: bool) -> Table:
    names = [f"{effect:g}" for effect in EFFECTS]

    def cells(one: StratumPreference) -> Iterable[Cell]:
        yield _cell(one.items, "count")
        yield from _cells(one.power, {"detectable": "precision", "detectable_t": "precision"})
        for name in names:
            yield _cell(one.power.of[name] if one.power else None, "precision")

    required = next((one.power.power for one in view.strata if one.power), 0.95)
    paper = reference()["cmcm-6"]["detectable"]
    printed = f" The paper states {paper}, which corresponds to about 450 items."
    return Table(
        name=f"{report.protocol}-power",
        title=_title("Power", report, view),
        corner="stratum",
        blocks=_blocks(
            {
                "sample": ("items",),
                f"effect detectable with power {required:g}": ("normal", "t-test"),
                "power for an effect of": names,
            }
        ),
        rows=tuple(Row(name=one.stratum, cells=tuple(cells(one))) for one in view.strata),
        notes=(
            f"Two-sided, level {report.level:g}; effects are means divided by standard deviations."
            + (printed if published and report.protocol == "pairwise" else ""),
        ),
    )


def _agreement(report: StudyReport, view: View) -> Table:
    unit = "an item" if report.protocol == "pairwise" else "a picture of a step, ticked or not"
    kinds: dict[str, Kind] = {"observed": "percent", "kappa": "precision", "kappa_units": "count"}
    kinds |= {"alpha": "precision", "alpha_units": "count"}
    return Table(
        name=f"{report.protocol}-agreement",
        title=_title("Agreement of the raters", report, view),
        corner="stratum",
        blocks=_blocks(
            {
                "pairs of votes": ("equal",),
                "Fleiss": ("kappa", "its units"),
                "Krippendorff": ("alpha", "its units"),
            }
        ),
        rows=tuple(Row(name=one.stratum, cells=tuple(_cells(one.agreement, kinds))) for one in view.strata),
        notes=(
            f"A unit is {unit}. Kappa uses the units with the most frequent number of votes, alpha all units"
            " with two or more; both are undefined if all votes are the same. Pre-filled pairs do not count.",
        ),
    )


def _blocks(columns: Mapping[str, Sequence[str]]) -> tuple[ColumnBlock, ...]:
    """Column blocks from title → names of columns."""
    return tuple(ColumnBlock(title=title, columns=tuple(names)) for title, names in columns.items())


def _cells(
    record: Record | None, kinds: Mapping[str, Kind], span: Interval | MeanTest | None = None
) -> Iterable[Cell]:
    """One cell per field of a record; empty cells if there is no record."""
    values = {} if record is None else dict(record)
    return [_cell(values.get(name), kind, span) for name, kind in kinds.items()]


def _cell(value: float | None, kind: Kind, span: Interval | MeanTest | None = None) -> Cell:
    """One cell; a None value gives a cell marked as not applicable."""
    if value is None:
        return Cell(kind=kind, applies=False)
    low, high = (span.low, span.high) if span else (None, None)
    return Cell(value=value, low=low, high=high, kind=kind)


def _sizes(one: StratumPreference) -> str:
    filled = f", {one.prefilled} pre-filled" if one.prefilled else ""
    return f"n = {one.items}{filled}"


def _counted(report: StudyReport, view: View) -> Sequence[str]:
    """Notes that name the systems and count votes and raters."""
    roles = ["True picture", "Model with context", "Model without context"]
    if report.protocol == "pairwise":
        roles = ["Tested", "Control"]
    named = [
        f"{role}: {', '.join(report.systems.get(letter, ())) or 'not named'}"
        for letter, role in zip("ABC", roles, strict=False)
    ]
    checks = report.checks
    return (
        f"{'; '.join(named)}.",
        f"{counted(view.votes, 'vote')} of {counted(view.people, 'rater')};"
        f" {counted(view.unrated, 'item')} with too few votes left out;"
        f" {view.incomplete} of the others have fewer than {counted(report.raters_per_item, 'vote')}.",
        f"Attention checks of all {counted(checks.raters, 'rater')}: {checks.wrong} of {checks.answered}"
        f" answers wrong; failed by {counted(len(checks.failed), 'rater')};"
        f" {counted(checks.unchecked, 'rater')} answered none.",
    )


def standing_lines(report: StudyReport) -> list[str]:
    """Warnings for the top of a report: interim results, withdrawn votes, suspicious votes."""
    lines = []
    if report.interim:
        lines.append(
            f"INTERIM: {report.votes:,} of {counted(report.due, 'registered vote')} received; figures and"
            " tests will change, and looking at a test early invalidates its registered level"
        )
    gone = report.withdrawn
    if gone.votes:
        verb = "is" if gone.votes == 1 else "are"
        lines.append(
            f"{counted(gone.raters, 'rater')} withdrew; {counted(gone.votes, 'vote')} {verb} left out"
            " everywhere"
        )
    odd = report.flags
    if odd.untimed:
        lines.append(
            f"FLAG: {counted(odd.untimed, 'vote')} of {counted(len(odd.untimed_by), 'rater')} took 0 seconds:"
            " a program sent them, or a clock was set back; they are counted"
        )
    if odd.hurried:
        lines.append(
            f"FLAG: {counted(odd.hurried, 'vote')} of {counted(len(odd.hurried_by), 'rater')} came faster"
            f" than their pages can be read (median {odd.hurried_s:.1f} s; limit: {LETTERS_A_SECOND}"
            " characters"
            f" a second and {PICTURE_S} s per picture);"
            " they are counted"
        )
    if odd.crowded:
        judged = report.due // report.raters_per_item
        lines.append(
            f"FLAG: {counted(len(odd.crowded), 'rater')} with {counted(odd.crowd_votes, 'vote')} began one"
            f" after another from one network address ({counted(odd.crowds, 'crowd')} of"
            f" {crowd_of(report.raters_per_item)} or more) and cast most of the votes on"
            f" {odd.crowd_items:,} of {counted(judged, 'item')}: perhaps a class, or one person who took part"
            " many times; they are counted"
        )
    return lines


_STYLE = (
    ":root{color-scheme:light dark}body{font:1rem/1.5 system-ui,sans-serif;max-width:84rem;margin:2rem auto;"
    "padding:0 1rem}table{border-collapse:collapse;margin:2rem 0 .5rem}"
    "caption{text-align:left;font-weight:600;padding-bottom:.5rem}"
    "th,td{padding:.25rem .75rem;text-align:right;white-space:nowrap}"
    "th:first-child{text-align:left}thead tr:last-child,tbody tr:last-child{border-bottom:1px solid}"
)


def report_text(
    files: StudyFiles,
    report: StudyReport,
    form: Literal["md", "latex", "html", "json"] = "md",
    *,
    published: bool = False,
) -> str:
    """Render the whole report.

    Args:
        files: files of the study.
        report: results of the study.
        form: md, latex (only the tables; needs the package booktabs), html (one page) or json.
        published: whether to show the papers' figures too.
    """
    if form == "json":
        return report.model_dump_json(indent=2)
    tables = render(build(report, published=published), form)
    if form == "latex":
        return tables
    study, again = files.study, "reproduce" if redrawn(files.population) else "DO NOT REPRODUCE"
    facts = [
        *standing_lines(report),
        *registration_lines(study),
        f"The seed and the stored population {again} the sample; no file was altered",
    ]
    if form == "md":
        plain = [line.replace("*", "\\*").replace("_", "\\_") for line in facts]
        return "\n".join([f"# {study.title}", "", *(f"- {line}" for line in plain), "", tables])
    title, listed = html.escape(study.title), "".join(f"<li>{html.escape(line)}</li>" for line in facts)
    return (
        '<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{_STYLE}</style></head>\n"
        f"<body><main>\n<h1>{title}</h1>\n<ul>{listed}</ul>\n{tables}\n</main></body></html>"
    )


def registration_lines(study: Study) -> list[str]:
    """The registration, one fact per line."""
    sizes = ", ".join(
        f"{name}: {stratum.drawn:,} of {stratum.population:,}"
        for name, stratum in study.sample.strata.items()
    )
    return [
        f"Registered {study.created:%Y-%m-%d %H:%M} UTC with limner {study.version}, SHA-256 {study.sha256}",
        f"Protocol: {study.protocol}; question: {study.question}",
        f"Sample: simple random, seed {study.sample.seed}, unit {study.sample.unit}; {sizes}",
        f"{counted(study.items, 'item')} to show, {study.checks} of them attention checks;"
        f" {study.prefilled} pairs with equal pictures pre-filled; {study.raters_per_item} raters per item",
        *(f"Hypothesis: {line}" for line in study.hypotheses),
        *(f"Planned: {line}" for line in study.analysis),
    ]


def write_preferred(folder: Path, files: StudyFiles, votes: Iterable[Vote], to: Path, count: int) -> None:
    """Write an HTML page with examples in three groups: one system, the other, or neither is preferred.

    In pairwise studies, the majority's answer decides. In tick-all studies, a system is preferred if more
    than half of the raters tick its picture and no majority ticks the other's; neither is preferred if no
    majority ticks either. The remaining items are only counted.

    Args:
        folder: folder of the study, which holds the pictures.
        files: files of the study.
        votes: votes from a database or an exported file.
        to: the .html file to write.
        count: number of items per group, taken at regular intervals.
    Raises:
        ConfigError: `to` is not an .html file.
        DataError: no item has enough votes, or a picture cannot be read.
    Source: VRSS 2020, Figs. 3 to 5; docs/methods/vrss.md §7.
    """
    check_page(to)
    result = tally(files, [vote for vote in votes if vote.answer is not None])
    if not result.decided:
        raise DataError(
            f"study: {folder}: no item has enough votes; wait for more, see 'limner study status'"
        )
    pairs = files.study.protocol == "pairwise"
    letters = "AB" if pairs else "BC"
    items = {item.id: item for item in files.items}

    def named(decision: Decided, letter: str) -> str:
        return files.key.systems[decision.stratum][letter]

    def neither(decision: Decided) -> bool:
        if pairs:
            return decision.outcome == "neither"
        meant = result.answers[decision.item]
        return all(2 * sum(letter in _letters(vote) for vote in meant) <= len(meant) for letter in letters)

    names = [
        " or ".join(dict.fromkeys(named(decision, letter) for decision in result.decided))
        for letter in letters
    ]
    parts = {
        f"{names[0]} is preferred": [decision for decision in result.decided if decision.score > 0],
        f"{names[1]} is preferred": [decision for decision in result.decided if decision.score < 0],
        "Neither is preferred": [
            decision for decision in result.decided if not decision.score and neither(decision)
        ],
    }
    rest = len(result.decided) - sum(map(len, parts.values()))

    def shown(decision: Decided) -> Iterator[Group]:
        item, entry = items[decision.item], files.key.items[decision.item]
        examples = []
        for candidate in item.candidates:
            systems = [named(decision, letter) for letter in entry.systems[candidate.id]]
            picture = None
            if candidate.picture is not None:
                picture = shown_picture(folder / PICTURES / candidate.picture)
            facts = [" and ".join(systems)]
            if not pairs:
                facts.append(_ticked_by(result.answers[decision.item], entry.systems[candidate.id]))
            examples.append(Example(picture, "", tuple(facts)))
        yield Group(item.text, examples, level=3)

    note = (
        "Items by the answer of more than half of their raters; examples are taken at regular intervals."
        f" Left out because both pictures fit or raters disagree: {counted(rest, 'item')}."
    )
    groups = in_parts(parts, counted(len(result.decided), "item"), count, shown)
    write_page(to, "examples", files.study.title, note, groups=groups)


def _letters(meant: str) -> set[str]:
    """Letters of the systems that one rater ticked."""
    return set() if meant == NOTHING else set(meant)


def _ticked_by(votes: Sequence[str], systems: Sequence[str]) -> str:
    count = sum(bool(_letters(vote) & set(systems)) for vote in votes)
    return f"ticked by {count} of {counted(len(votes), 'rater')}"


COLUMNS = (
    "rater",
    "worker",
    "page",
    "item",
    "source",
    "stratum",
    "check",
    "passed",
    "answer",
    "system",
    "shown_order",
    "seconds",
    "time",
    "withdrawn",
)
PANEL_COLUMNS = ("panel", "batch", "session")
JOINED = " + "
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def tidy_csv(
    files: StudyFiles,
    votes: Iterable[Vote],
    panelists: Mapping[str, Panelist] | None = None,
    *,
    worker_ids: bool = False,
) -> str:
    """All votes as CSV, one row per vote, for example for R or pandas.

    Args:
        files: files of the study.
        votes: its votes; rows of withdrawn votes have no answer.
        panelists: rater → ids on the panel.
        worker_ids: whether to include the panel's ids of worker, study and session; otherwise each worker is
            given as a hash.
    """
    known = panelists or {}
    pages = {item.id: name for name, unit in units(files.items, ()).items() for item in unit.items}
    items = {item.id: item for item in files.items}
    out = io.StringIO()
    columns = (*COLUMNS, *PANEL_COLUMNS) if worker_ids else COLUMNS
    table = csv.DictWriter(out, columns, lineterminator="\n")
    table.writeheader()
    for vote in votes:
        row = {"page": pages[vote.item], **_row(files, vote, items[vote.item])}
        who = known.get(vote.rater)
        if who is not None:
            row["worker"] = who.worker if worker_ids else who.hashed
            row |= who.model_dump(include=set(PANEL_COLUMNS)) if worker_ids else {}
        table.writerow({name: _plain(value) for name, value in row.items()})
    return out.getvalue()


def _plain(value: object) -> object:
    """Escape a cell that a spreadsheet would read as a formula."""
    if not isinstance(value, str):
        return value
    text = "\n".join(
        re.split("\r\n?", value)
    )  # the csv module does not quote a lone \\r, which would end the row
    return f"'{text}" if value.startswith(_FORMULA) else text


def _row(files: StudyFiles, vote: Vote, item: Item) -> dict[str, object]:
    entry = files.key.items[vote.item]
    check, gone = entry.right is not None, vote.answer is None
    return {
        "rater": vote.rater,
        "item": vote.item,
        "source": entry.source,
        "stratum": item.stratum,
        "check": _yes(check),
        "passed": _yes(vote.answer == entry.right) if check and not gone else "",
        "answer": "" if vote.answer is None else _said(vote.answer),
        "system": "" if vote.answer is None or check else _systems(files, vote.answer, item),
        "shown_order": JOINED.join(vote.shown_order),
        "seconds": "" if gone else f"{vote.seconds:.3f}",
        "time": vote.time.isoformat(),
        "withdrawn": _yes(gone),
    }


def _said(answer: Answer) -> str:
    if isinstance(answer, str):
        return answer
    return JOINED.join(answer) or "none"


def _systems(files: StudyFiles, answer: Answer, item: Item) -> str:
    """Names of the systems whose pictures the answer chose."""
    chosen = (answer,) if isinstance(answer, str) else answer
    systems = files.key.items[item.id].systems
    letters = sorted({letter for candidate in chosen for letter in systems.get(candidate, ())})
    return JOINED.join(files.key.systems[item.stratum][letter] for letter in letters)


def _yes(true: bool) -> str:
    return "yes" if true else "no"
