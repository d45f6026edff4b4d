"""Checks of ``limner verify`` for studies: the registered files, the pictures, and every vote."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from limner.errors import LimnerError
from limner.research.study.records import ITEMS, STUDY, Study, checked_files
from limner.research.study.votes import VOTES_FILE, VoteBase, votes_url
from limner.verification import NOT_COVERED, Check, Checked, VerifyOptions, faulty, judged


def _is_study(folder: Path) -> bool:
    return (folder / STUDY).is_file() or (folder / ITEMS).is_file()


def _study(folder: Path, asked: VerifyOptions) -> Iterator[Checked]:
    registered = None
    for path, held in checked_files(folder):
        if isinstance(held, LimnerError):
            yield faulty(path, held)
        else:
            yield judged(path, True, "")
            registered = held if isinstance(held, Study) else registered
    if registered is not None and (asked.votes or (folder / VOTES_FILE).is_file()):
        yield from _votes(folder, registered, asked.votes)


def _votes(folder: Path, study: Study, votes: str | None) -> Iterator[Checked]:
    """Check each vote, and the whole file if the votes are in SQLite."""
    url = votes_url(folder, votes)
    place = url.render_as_string(hide_password=True)
    if url.get_backend_name() == "sqlite":
        place = str(Path(url.database or ""))
    try:
        with closing(VoteBase(folder, study, votes, reading_only=True)) as base:
            votes_checked = base.checked()
            faults = votes_checked.damaged or base.unsound()
        for line in faults:
            yield Checked(path=place, state="damaged", advice=line.removeprefix(f"votes {base.name}: "))
        if not faults:
            yield judged(Path(place), None if votes_checked.unchecked else True, "")
            yield Checked(path=f"{place} (places and raters)", state="not checked", advice=NOT_COVERED)
    except LimnerError as error:
        yield Checked(path=place, state="damaged", advice=str(error).removeprefix("votes "))


CHECKS = (Check("study", _is_study, _study),)
