"""``limner search``: words in, ranked pictures out, with the chance that each fits.

It prints; `limner.api.Library` searches.
"""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from limner.cli.terminal import Flag, Many, emit_json, emit_table, say
from limner.counts import counted
from limner.export.wording import chance_in_words
from limner.records import Fit, Record


class Found(Record):
    """One line of the answer.

    Attributes:
        rank: from 1.
        probability: chance that the picture fits; None with a trained run.
        fit: that in a word.
        score: log-odds that it is the one meant.
        channels: channel → standard deviations above the library's pictures.
    """

    rank: int
    probability: float | None
    fit: Fit | None
    score: float
    channels: dict[str, float]
    path: str
    id: str
    caption: str


def search(
    words: str,
    *,
    library: Path | None = None,
    k: Annotated[int, Parameter(name=["--k", "-k"])] = 10,
    channel: Many = (),
    model: Path | None = None,
    weights: Many = (),
    device: str = "auto",
    json: Flag = False,
) -> None:
    """Find pictures by words.

    The chance says how likely it is that a picture fits the words.

    Example: limner search "a boat on a stormy sea"

    Parameters
    ----------
    words
        What to look for.
    library
        Folder of the library, or its address on object storage. Unless given: $LIMNER_LIBRARY, else the one
        used last, see 'limner library'.
    k
        Pictures to print.
    channel
        captions, base, labels or clip (repeatable); all the library has unless given.
    model
        Folder of a trained run, in place of all channels; the library must have been indexed with it.
    weights
        NAME=FILE, or a folder to look in, for the words' side of clip (repeatable).
    device
        What computes for runs and clip: auto (a CUDA card where there is one), cpu, cuda, cuda:N or mps.
    json
        Print JSON.
    """
    from rich.table import Column, Table

    from limner.api import Library
    from limner.library.chosen import library_to_ask, remember

    place = library_to_ask(library, say)
    opened = Library.open(place, weights=weights, device=device)
    found = opened.search(words, k, model=model, channels=channel)
    remember(place)
    for line in found.notes:
        say(line)
    if 0 < len(found) < min(k, len(opened)):
        wordless = counted(len(opened) - len(found), "picture")
        say(f"nothing to compare with words in {wordless} of {len(opened)}: left out")
    rows = [
        Found(
            rank=rank,
            probability=None if one.probability is None else round(one.probability, 4),
            fit=one.fit,
            score=round(one.score, 3),
            channels={name: round(value, 3) for name, value in one.channels.items()},
            path=one.picture.path,
            id=one.picture.id,
            caption=one.picture.alt,
        )
        for rank, one in enumerate(found, start=1)
    ]
    if json:
        emit_json(rows)
        return
    # A path cut short names no picture: it wraps instead.
    table = Table("rank", "chance", Column("picture", overflow="fold"), "caption", title=words)
    chances = ["–" if row.probability is None else chance_in_words(row.probability) for row in rows]
    emit_table(
        table,
        [[str(row.rank), chance, row.path, row.caption] for row, chance in zip(rows, chances, strict=True)],
    )
