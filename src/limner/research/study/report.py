"""What comes out of a human study: tables, the papers' figures beside ours; a page of examples; votes as a
table.

A report becomes tables here and nowhere else, so that Markdown, LaTeX and HTML say the same.
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
    """All tables of a report, in order: per view outcomes, tests, power and agreement.

    Args:
        report: of `limner.research.study.analysis.analyse`.
        published: also show the figures of the papers, beside ours.
    """
    found: list[Table] = []
    for view in report.views:
        if report.protocol == "pairwise":
            found.append(_pairs(report, view, published=published))
        else:
            found += [_patterns(report, view, published=published), _ticked(report, view)]
        found += [_tests(report, view), _power(report, view, published=published), _agreement(report, view)]
    return found


def _title(words: str, report: StudyReport, view: View) -> str:
    """A title that says whose votes a table counts, and whether more are to come."""
    return f"{words} ({view.raters}{'; interim' if report.interim else ''})"


def _pairs(report: StudyReport, view: View, *, published: bool) -> Table:
    """Table 6 of CMCM: shares of the outcomes per relation."""
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
                cells.append(Cell(paper=printed, applies=printed is not None or one is not None))
                continue
            count = one.outcomes.get(outcome, 0)
            span = binomtest(count, one.items).proportion_ci(1 - report.level, method="wilson")
            share = count / one.items
            low, high = min(float(span.low), share), max(float(span.high), share)
            cells.append(Cell(value=share, low=low, high=high, paper=printed))
        remark = "" if one is None else _sizes(one)
        if one is not None and one.tested and name in theirs and one.tested != name:
            remark = f"here {one.tested}, {remark}"
        rows.append(Row(name=name, cells=tuple(cells), remark=remark))
    notes = [
        "Share of items in per cent; brackets: Wilson interval, items taken as independent."
        + (
            f" Parentheses: the paper's figure, of {entry['items']} items a row that were chosen by their"
            " outcome."
            if published
            else ""
        ),
        "Better: more than half of an item's raters prefer the picture of the tested system. No majority: no"
        " answer has more than half of the votes" + ("; the paper has no such column." if published else "."),
        "Same: raters answered that the two pictures are exactly the same, or they are and nobody was asked"
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
    """The paper's row of a relation, or of a system with one stratum; else a row of its own."""
    if f"CMCM_{one.stratum}" in published:
        return f"CMCM_{one.stratum}"
    if alone and one.tested in published:
        return one.tested
    if not one.tested or (one.stratum == ALL and several):
        return one.stratum
    return one.tested if one.stratum == ALL else f"{one.tested}, {one.stratum}"


def _patterns(report: StudyReport, view: View, *, published: bool) -> Table:
    """Table 2 of VRSS: steps by what the majority ticked and how many votes it had."""
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
            "Steps for which more than half of the raters ticked exactly these pictures, by how many did;"
            " without a majority, by the most votes that anything had. A tick of a picture that several"
            " systems chose counts for each.",
            *(
                (
                    f"Parentheses: the paper's figure, of {entry['steps']} steps, where the model with"
                    " context is VRSS and the one without VSE++; it prints no steps without the true"
                    " picture.",
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
    """Results of every system on its own."""
    rows = []
    for letter in ("A", "B", "C"):
        found = view.ticks.get(letter)
        cells = (Cell(value=found.votes if found else None), Cell(value=found.steps if found else None))
        rows.append(Row(name=_pattern_name(letter, report).removesuffix(" only"), cells=cells))
    return Table(
        name="vrss-2-ticks",
        title=_title("Pictures ticked", report, view),
        corner="picture of",
        blocks=_blocks({"ticked, %": ("of votes", "by the majority of a step")}),
        rows=tuple(rows),
        notes=("Whatever else was ticked.",),
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
        "Score of an item: +1 where the majority prefers the tested system, −1 the control, 0 else."
        if report.protocol == "pairwise"
        else "Score of a step: +1 where more than half of the raters tick the picture of the model with"
        " context and not that of the one without, each by itself, −1 the other way round, 0 else."
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
            "Sign test: exact, two-sided, ties left out. t-test: mean score against 0; no figure where all"
            " scores are equal. Effect: mean over standard deviation, interval by the noncentral t.",
            "Interval of the mean: bootstrap of whole stories or duplicate groups. Holm: corrected for the"
            " number of strata; the row of all strata is no further test.",
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
    said = f" The paper states {paper}, which belongs to about 450 items."
    return Table(
        name=f"{report.protocol}-power",
        title=_title("What the study can see", report, view),
        corner="stratum",
        blocks=_blocks(
            {
                "sample": ("items",),
                f"effect seen with power {required:g}": ("normal", "t-test"),
                "power to see an effect of": names,
            }
        ),
        rows=tuple(Row(name=one.stratum, cells=tuple(cells(one))) for one in view.strata),
        notes=(
            f"Two-sided, level {report.level:g}; effects are means over standard deviations."
            + (said if published and report.protocol == "pairwise" else ""),
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
            f"A unit is {unit}. Kappa takes those with the commonest number of votes, alpha all with two or"
            " more; neither is defined where all votes are one answer. Pre-filled pairs do not count.",
        ),
    )


def _blocks(columns: Mapping[str, Sequence[str]]) -> tuple[ColumnBlock, ...]:
    """Title → its columns."""
    return tuple(ColumnBlock(title=title, columns=tuple(own)) for title, own in columns.items())


def _cells(
    record: Record | None, kinds: Mapping[str, Kind], span: Interval | MeanTest | None = None
) -> Iterable[Cell]:
    """A figure for each of some fields of a record, none defined without the record."""
    values = {} if record is None else dict(record)
    return [_cell(values.get(name), kind, span) for name, kind in kinds.items()]


def _cell(value: float | None, kind: Kind, span: Interval | MeanTest | None = None) -> Cell:
    """A figure, or nothing where it is not defined, which is no gap."""
    if value is None:
        return Cell(kind=kind, applies=False)
    low, high = (span.low, span.high) if span else (None, None)
    return Cell(value=value, low=low, high=high, kind=kind)


def _sizes(one: StratumPreference) -> str:
    filled = f", {one.prefilled} pre-filled" if one.prefilled else ""
    return f"n = {one.items}{filled}"


def _counted(report: StudyReport, view: View) -> Sequence[str]:
    """Whose pictures they were, and how many votes count."""
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
        f" {counted(view.unrated, 'item')} with too few votes left out,"
        f" {view.incomplete} of those counted have fewer than {counted(report.raters_per_item, 'vote')}.",
        f"Attention checks, of all {counted(checks.raters, 'rater')}: {checks.wrong} of {checks.answered}"
        f" answers wrong; failed by {counted(len(checks.failed), 'rater')};"
        f" {counted(checks.unchecked, 'rater')} met none.",
    )


def standing_lines(report: StudyReport) -> list[str]:
    """Whether the study is through, what is left out because raters withdrew, and what to look into."""
    found = []
    if report.interim:
        found.append(
            f"INTERIM: {report.votes:,} of the {counted(report.due, 'vote')} registered are in; figures and"
            " tests will change, and a test that is looked at early is no test of the registered level"
        )
    gone = report.withdrawn
    if gone.votes:
        verb = "is" if gone.votes == 1 else "are"
        found.append(
            f"{counted(gone.raters, 'rater')} withdrew; {counted(gone.votes, 'vote')} {verb} left out"
            " everywhere"
        )
    odd = report.flags
    if odd.untimed:
        found.append(
            f"FLAG: {counted(odd.untimed, 'vote')} of {counted(len(odd.untimed_by), 'rater')} took 0 seconds:"
            " a program sent them, or a clock was set back; they count"
        )
    if odd.hurried:
        found.append(
            f"FLAG: {counted(odd.hurried, 'vote')} of {counted(len(odd.hurried_by), 'rater')} came faster"
            f" than their pages can be read (median {odd.hurried_s:.1f} s; nobody reads"
            f" {LETTERS_A_SECOND} letters a second and looks at each picture for less than {PICTURE_S} s);"
            " they count"
        )
    if odd.crowded:
        judged = report.due // report.raters_per_item
        found.append(
            f"FLAG: {counted(len(odd.crowded), 'rater')} with {counted(odd.crowd_votes, 'vote')} began one"
            f" after another from one network address ({counted(odd.crowds, 'crowd')} of"
            f" {crowd_of(report.raters_per_item)} or more) and cast most of the votes on"
            f" {odd.crowd_items:,} of {counted(judged, 'item')}: a class does so, and one person who takes"
            " part again and again; they count"
        )
    return found


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
    """The whole report.

    Args:
        files: files of the study.
        report: what came out.
        form: md, latex (tables alone; needs the package booktabs), html (one page) or json.
        published: also show the figures of the papers, beside ours.
    """
    if form == "json":
        return report.model_dump_json(indent=2)
    tables = render(build(report, published=published), form)
    if form == "latex":
        return tables
    study, again = files.study, "is" if redrawn(files.population) else "IS NOT"
    facts = [
        *standing_lines(report),
        *registration_lines(study),
        f"The sample {again} what the seed draws from the stored population; no file was altered",
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
    """Registration, one fact per line."""
    sizes = ", ".join(
        f"{name}: {one.drawn:,} of {one.population:,}" for name, one in study.sample.strata.items()
    )
    return [
        f"Registered {study.created:%Y-%m-%d %H:%M} UTC with limner {study.version}, SHA-256 {study.sha256}",
        f"Protocol: {study.protocol}; question: {study.question}",
        f"Sample: simple random, seed {study.sample.seed}, unit {study.sample.unit}; {sizes}",
        f"{counted(study.items, 'item')} to show, {study.checks} of them attention checks;"
        f" {study.prefilled} pairs of one picture pre-filled; {study.raters_per_item} raters per item",
        *(f"Hypothesis: {line}" for line in study.hypotheses),
        *(f"Planned: {line}" for line in study.analysis),
    ]


def write_preferred(folder: Path, files: StudyFiles, votes: Iterable[Vote], to: Path, count: int) -> None:
    """Write a page with items of three groups: one system is preferred, the other is, or neither.

    Of pairs, by the majority's answer. Of steps whose fitting pictures were ticked, a system is preferred
    where more than half of the raters tick its picture, and not so many the other's; neither, where not so
    many tick either. The remaining items, where both fit or raters differ, are counted.

    Args:
        folder: folder of the study, which holds the pictures.
        files: files of it.
        votes: from a database or an exported file.
        to: an .html file.
        count: items per group, evenly spread over all of it, so that nobody chooses them.
    Raises:
        ConfigError: `to` is no .html file.
        DataError: no item has two votes, or a picture does not open.
    Source: VRSS 2020, Figs. 3 to 5; docs/methods/vrss.md §7.
    """
    check_page(to)
    found = tally(files, [vote for vote in votes if vote.answer is not None])
    if not found.decided:
        raise DataError(f"study: {folder}: no item has two votes; wait for more, see 'limner study status'")
    pairs = files.study.protocol == "pairwise"
    letters = "AB" if pairs else "BC"
    items = {item.id: item for item in files.items}

    def named(one: Decided, letter: str) -> str:
        return files.key.systems[one.stratum][letter]

    def neither(one: Decided) -> bool:
        if pairs:
            return one.outcome == "neither"
        meant = found.answers[one.item]
        return all(2 * sum(letter in _letters(vote) for vote in meant) <= len(meant) for letter in letters)

    names = [" or ".join(dict.fromkeys(named(one, letter) for one in found.decided)) for letter in letters]
    parts = {
        f"{names[0]} is preferred": [one for one in found.decided if one.score > 0],
        f"{names[1]} is preferred": [one for one in found.decided if one.score < 0],
        "Neither is preferred": [one for one in found.decided if not one.score and neither(one)],
    }
    rest = len(found.decided) - sum(map(len, parts.values()))

    def shown(one: Decided) -> Iterator[Group]:
        item, entry = items[one.item], files.key.items[one.item]
        examples = []
        for candidate in item.candidates:
            systems = [named(one, letter) for letter in entry.systems[candidate.id]]
            picture = None
            if candidate.picture is not None:
                picture = shown_picture(folder / PICTURES / candidate.picture)
            facts = [" and ".join(systems)]
            if not pairs:
                facts.append(_ticked_by(found.answers[one.item], entry.systems[candidate.id]))
            examples.append(Example(picture, "", tuple(facts)))
        yield Group(item.text, examples, level=3)

    note = (
        "Items by what more than half of their raters said; those shown are spread evenly over each group."
        f" Left out, because both fit or raters differ: {counted(rest, 'item')}."
    )
    groups = in_parts(parts, counted(len(found.decided), "item"), count, shown)
    write_page(to, "examples", files.study.title, note, groups=groups)


def _letters(meant: str) -> set[str]:
    """Systems that one rater ticked."""
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
    """All votes as comma-separated values, for example for R or pandas.

    Args:
        files: files of the study.
        votes: that fit it; of withdrawn ones all but what they said is given.
        panelists: rater → how a panel knows them.
        worker_ids: name workers as the panel does, with its numbers of the study and the visit; else a hash
            stands for each worker.
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
    """A cell that no spreadsheet takes for a formula, whatever a text or a panel is called."""
    if not isinstance(value, str):
        return value
    text = "\n".join(re.split("\r\n?", value))  # without its line feed, one is not quoted and ends the row
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
    """Names of the systems whose pictures were chosen."""
    chosen = (answer,) if isinstance(answer, str) else answer
    shown = files.key.items[item.id].systems
    letters = sorted({letter for one in chosen for letter in shown.get(one, ())})
    return JOINED.join(files.key.systems[item.stratum][letter] for letter in letters)


def _yes(true: bool) -> str:
    return "yes" if true else "no"
