"""Studies and votes of made-up raters whose analysis can be counted by hand."""

from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from limner.research.study.records import (
    Item,
    Key,
    KeyEntry,
    RatedPicture,
    StudyFiles,
    Vote,
    draw,
    write_study,
)

NAMES = {"A": "tested", "B": "control"}
THREE = {"A": "true picture", "B": "context", "C": "plain"}


def picture(number):
    return f"{number:064x}.png"


def pair(number, stratum="all", *, flipped=False, prefilled=False, right=None, cluster=""):
    """A pair whose tested picture comes first unless flipped, and its key."""
    other = number if prefilled else number + 1000
    item = Item(
        id=f"i{number}",
        text=f"text {number}",
        candidates=(
            RatedPicture(id="first", picture=picture(number)),
            RatedPicture(id="second", picture=picture(other)),
        ),
        stratum=stratum,
        prefilled="same" if prefilled else None,
    )
    sides = {"first": ("B",), "second": ("A",)} if flipped else {"first": ("A",), "second": ("B",)}
    if right is not None:
        return item, KeyEntry(right=right)
    return item, KeyEntry(systems=sides, source=f"t{number}", cluster=cluster)


def step(number, systems=(("A",), ("B",), ("C",)), *, stratum="all", sequence="s1", right=None, cluster=""):
    """A step with a candidate per group of systems that share a picture."""
    ids = "abc"[: len(systems)]
    item = Item(
        id=f"i{number}",
        text=f"step {number}",
        candidates=tuple(
            RatedPicture(id=name, picture=picture(10 * number + place)) for place, name in enumerate(ids)
        ),
        stratum=stratum,
        sequence=sequence,
        position=number,
    )
    if right is not None:
        return item, KeyEntry(right=right)
    return item, KeyEntry(systems=dict(zip(ids, systems, strict=True)), cluster=cluster or sequence)


def study_of(pairs, protocol="pairwise", *, systems=None, raters=3):
    """A registered study of items with their entries."""
    items = tuple(item for item, _ in pairs)
    entries = {item.id: entry for item, entry in pairs}
    strata = {}
    for item, entry in pairs:
        if entry.right is None:
            strata.setdefault(item.stratum, []).append(item.id)
    names = NAMES if protocol == "pairwise" else THREE
    key = Key(systems=systems or dict.fromkeys(strata, names), items=entries)
    population = draw(strata, None, 0)
    values = {
        "protocol": protocol,
        "title": "A study",
        "question": "Which?",
        "consent": "Agree?",
        "systems": tuple(names),
        "items": sum(item.prefilled is None for item in items),
        "prefilled": sum(item.prefilled is not None for item in items),
        "checks": sum(entry.right is not None for entry in entries.values()),
        "raters_per_item": raters,
        "sample": {
            "seed": 0,
            "strata": {n: {"population": len(ids), "drawn": len(ids)} for n, ids in strata.items()},
        },
        "created": datetime(2026, 1, 2, tzinfo=UTC),
    }
    with TemporaryDirectory() as folder:
        study = write_study(Path(folder), values, items, key, population)
    return StudyFiles(study=study, items=items, key=key, population=population)


def vote(item, rater, answer):
    return Vote(item=item, rater=rater, answer=answer, seconds=2.5, time=datetime(2026, 1, 3, 12, tzinfo=UTC))


def votes_of(table):
    """Votes of raters r0, r1, … from item → answers; None is no vote."""
    return [
        vote(item, f"r{number}", answer)
        for item, answers in table.items()
        for number, answer in enumerate(answers)
        if answer is not None
    ]


def raters_of(base):
    """How many people consented, by the database of a study's votes."""
    from sqlalchemy import func, select

    from limner.research.study.votes import RATERS

    query = select(func.count()).select_from(RATERS).where(RATERS.c.study == base._study)
    with base.reading() as connection:
        return connection.scalar(query)
