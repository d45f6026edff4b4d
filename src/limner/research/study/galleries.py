"""The page of a finished study: items whose raters prefer one system, the other, or neither."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from PIL.Image import Image

from limner.counts import counted
from limner.errors import DataError
from limner.pictures.decode import decode, read_file
from limner.pictures.formats import PictureError
from limner.research.paper.page import Example, Group, check_page, spread, write_page
from limner.research.study.analysis import NOTHING, Decided, tally
from limner.research.study.records import PICTURES, StudyFiles, Vote

SIDE_PX = 360


def write_preferred(folder: Path, files: StudyFiles, votes: Iterable[Vote], to: Path, count: int) -> None:
    """Write a page with items of three groups: one system is preferred, the other is, or neither.

    Of pairs, by the majority's answer. Of steps whose fitting pictures were ticked, a system is preferred
    where more than half of the raters tick its picture, and not so many the other's; neither, where not so
    many tick either. The remaining items, where both fit or raters differ, are counted.

    Args:
        folder: of the study, which holds the pictures.
        files: of it.
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

    def shown(one: Decided) -> Group:
        item, entry = items[one.item], files.key.items[one.item]
        examples = []
        for candidate in item.candidates:
            systems = [named(one, letter) for letter in entry.systems[candidate.id]]
            picture = None
            if candidate.picture is not None:
                picture = _opened(folder / PICTURES / candidate.picture)
            facts = [" and ".join(systems)]
            if not pairs:
                facts.append(_ticked(found.answers[one.item], entry.systems[candidate.id]))
            examples.append(Example(picture, "", tuple(facts)))
        return Group(item.text, examples, level=3)

    def groups() -> Iterator[Group]:
        for title, members in parts.items():
            yield Group(f"{title}: {len(members)} of {counted(len(found.decided), 'item')}", ())
            yield from (shown(members[place]) for place in spread(range(len(members)), count))

    note = (
        "Items by what more than half of their raters said; those shown are spread evenly over each group."
        f" Left out, because both fit or raters differ: {counted(rest, 'item')}."
    )
    write_page(to, "examples", files.study.title, note, groups=groups())


def _opened(path: Path) -> Image:
    try:
        return decode(read_file(bytes(path.absolute())).data, SIDE_PX, path.suffix).rgb
    except PictureError as error:
        raise DataError(f"study: {path}: {error}; restore the file") from error


def _letters(meant: str) -> set[str]:
    """Systems that one rater ticked."""
    return set() if meant == NOTHING else set(meant)


def _ticked(votes: Sequence[str], systems: Sequence[str]) -> str:
    count = sum(bool(_letters(vote) & set(systems)) for vote in votes)
    return f"ticked by {count} of {counted(len(votes), 'rater')}"
