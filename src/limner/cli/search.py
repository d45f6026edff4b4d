"""``limner search``: words in, ranked pictures out, with what each channel said.

It prints; `limner.api.Library` searches.
"""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from limner.cli.terminal import Flag, Many, emit_json, emit_table, say
from limner.counts import counted
from limner.records import Record


class Found(Record):
    """One line of the answer: rank from 1, match strength and each channel's share of it."""

    rank: int
    score: float
    shares: dict[str, float]
    path: str
    id: str
    caption: str


def search(
    words: str,
    *,
    library: Path,
    k: Annotated[int, Parameter(name=["--k", "-k"])] = 10,
    channel: Many = (),
    model: Path | None = None,
    weights: Many = (),
    device: str = "auto",
    json: Flag = False,
) -> None:
    """Find pictures by words.

    Scores are match strengths (natural log of odds): above 0, the picture fits better than chance.

    Example: limner search "a boat on a stormy sea" --library lib

    Parameters
    ----------
    words
        What to look for.
    library
        Folder of the library, or its address on object storage.
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

    found = Library.open(library, weights=weights, device=device).search(
        words, k, model=model, channels=channel
    )
    for line in found.notes:
        say(line)
    rows = []
    for rank, one in enumerate(found, start=1):
        shares = {name: round(share, 3) for name, share in one.channels.items()}
        about = {"path": one.picture.path, "id": one.picture.id, "caption": one.picture.alt}
        rows.append(Found(rank=rank, score=round(one.score, 3), shares=shares, **about))
    silent = sum(not row.shares for row in rows)
    if silent:
        say(
            f"nothing to compare with words in {counted(silent, 'picture')} of {len(rows)}:"
            " no evidence, hence 0"
        )
    if json:
        emit_json(rows)
        return
    names = [name for name in found.channels if any(name in row.shares for row in rows)]
    # A path cut short names no picture: it wraps instead.
    picture = Column("picture", overflow="fold")
    table = Table("rank", "score", *names, picture, "caption", title=f"{words} (match strength)")
    cells = []
    for row in rows:
        parts = [f"{row.shares[name]:+.2f}" if name in row.shares else "–" for name in names]
        cells.append([str(row.rank), f"{row.score:+.2f}", *parts, row.path, row.caption])
    emit_table(table, cells)
