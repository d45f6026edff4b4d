"""``limner search``: words in, ranked pictures out, with what each channel said.

It prints; `limner.retrieval.index` searches.
"""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from limner.apps.equipment import channels_of
from limner.apps.run_channels import run_channels
from limner.apps.terminal import emit_json, emit_table, say
from limner.apps.trained import TrainedRun
from limner.data.records import Record
from limner.errors import ConfigError
from limner.retrieval.library import Library


class Found(Record):
    """One line of the answer: rank from 1, evidence in nats and each channel's share of it."""

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
    channel: Annotated[tuple[str, ...], Parameter(negative="", show_default=False)] = (),
    model: Path | None = None,
    json: Annotated[bool, Parameter(negative="", show_default=False)] = False,
) -> None:
    """Find pictures by words.

    Scores are evidence in nats (natural-log units): above 0, the picture fits better than chance.

    Example: limner search "a boat on a stormy sea" --library lib

    Parameters
    ----------
    words
        What to look for.
    library
        Folder of the library.
    k
        Pictures to print.
    channel
        captions, labels or clip (repeatable); all the library has unless given.
    model
        Folder of a trained run, in place of all channels; the library must have been indexed with it.
    json
        Print JSON.
    """
    from limner.retrieval import calibration
    from limner.retrieval.channels import EncodedChannel
    from limner.retrieval.index import search as find

    if not words.strip():
        raise ConfigError("search: no words; example: limner search 'a boat on the sea' --library lib")
    if model is not None and channel:
        raise ConfigError("--model: a trained run takes the place of all channels; drop --channel")
    run = None if model is None else TrainedRun.open(model)
    opened = Library.open(library)
    channels = channels_of(opened, channel, calibration.load()) if run is None else run_channels(run, opened)
    gallery = opened.gallery(sorted({one.space for one in channels}))
    hits = find(gallery, [EncodedChannel.encode(one, [words]) for one in channels], k)
    pictures = opened.pictures([gallery.ids[row] for row in hits.rows[0]])
    rows = [
        Found(
            rank=place + 1,
            score=round(float(hits.scores[0, place]), 3),
            shares={
                name: round(float(share[0, place]), 3)
                for name, share in hits.shares.items()
                if hits.present[name][0, place]
            },
            path=picture.path,
            id=picture.id,
            caption=picture.alt,
        )
        for place, picture in enumerate(pictures)
    ]
    silent = sum(not row.shares for row in rows)
    if silent:
        say(
            f"{silent} of these {len(rows)} pictures have nothing to compare with words: no evidence, hence 0"
        )
    if json:
        emit_json([row.model_dump() for row in rows])
        return
    from rich.table import Column, Table

    names = [one.name for one in channels]
    # A path cut short names no picture: it wraps instead.
    table = Table(
        "rank",
        "score",
        *names,
        Column("picture", overflow="fold"),
        "caption",
        title=f"{words} (nats of evidence)",
    )
    cells = [
        [
            str(row.rank),
            f"{row.score:+.2f}",
            *(f"{row.shares[name]:+.2f}" if name in row.shares else "–" for name in names),
            row.path,
            row.caption,
        ]
        for row in rows
    ]
    emit_table(table, cells)
