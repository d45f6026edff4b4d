"""Votes as a tidy table: one row a vote, with all that a statistics package needs to know about it."""

import csv
import io
import re
from collections.abc import Iterable, Mapping

from limner.research.study.assignment import units
from limner.research.study.raters import Panelist
from limner.research.study.records import Answer, Item, StudyFiles, Vote

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
        files: of the study.
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
