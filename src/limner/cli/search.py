"""``limner search``: finds pictures by words or by a picture, best first.

Parses options and prints the result; `limner.library.Library` searches.
"""

from datetime import datetime
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter, validators

from limner.cli.main import Flag, Many, emit_json, emit_table, say
from limner.config import Record
from limner.errors import ConfigError, counted
from limner.records import Fit, chance_in_words
from limner.store import Shape


class SearchRow(Record):
    """One result.

    Attributes:
        rank: rank, from 1.
        probability: probability that the picture fits, from 0 to 1; None with a trained run or in a search
            by a picture.
        fit: the probability in a word.
        score: log-odds that it is the wanted picture.
        channels: score by channel, in standard deviations above the mean of the library's pictures.
        taken: capture time; None if no file states it.
        coordinates: latitude and longitude of the place where it was taken; None if no file states them.
        place: names of that place, such as "Siena, Tuscany, Italy"; "" if it has none.
        notes: notes on the whole result, the same in every row.
    """

    rank: int
    probability: float | None
    fit: Fit | None
    score: float
    channels: dict[str, float]
    path: str
    id: str
    caption: str
    taken: datetime | None
    coordinates: tuple[float, float] | None
    place: str
    notes: tuple[str, ...]


def search(
    words: str | None = None,
    *,
    library: Path | None = None,
    k: Annotated[int, Parameter(name=["--k", "-k"])] = 10,
    like: Path | None = None,
    with_: Annotated[tuple[str, ...], Parameter(name="--with", negative="")] = (),
    without: Many = (),
    folder: Path | None = None,
    after: str | None = None,
    before: str | None = None,
    orientation: Shape | None = None,
    min_probability: Annotated[float | None, Parameter(validator=validators.Number(gte=0, lte=1))] = None,
    channel: Many = (),
    model: Path | None = None,
    weights: Many = (),
    device: str = "auto",
    json: Flag = False,
) -> None:
    """Find pictures by words or by a picture.

    A search by words lists the probability that each picture fits, except with --model.

    Example: limner search "a boat on a stormy sea"

    Parameters
    ----------
    words
        Words to search for.
    library
        Path or URL of the library. Default: $LIMNER_LIBRARY; if unset, the library used last (see 'limner
        library').
    k
        Number of pictures to print.
    like
        Picture to search with instead of words: a file (not added to the library) or a picture of the
        library.
    with_
        With --like: words for things that the pictures should show too. Repeatable.
    without
        Words for things that the pictures should not show. Repeatable.
    folder
        Only pictures in this folder or its subfolders.
    after
        Only pictures taken on this day or later, such as 2024-07-01.
    before
        Only pictures taken on this day or earlier.
    orientation
        Only landscape, portrait or square pictures.
    min_probability
        Leave out pictures with a probability below this, from 0 to 1.
    channel
        Channel to use: captions, multilingual, ocr, clip, base or labels. Repeatable. Default: all that the
        library has.
    model
        Folder of a trained run to use instead of all channels; the library must have been indexed with it.
    weights
        Folder of CLIP's weights, or a folder of such folders; NAME=FOLDER names the model. Repeatable.
    device
        Device for trained runs: auto (a CUDA GPU if there is one), cpu, cuda, cuda:N or mps.
    json
        Print JSON.
    """
    from rich.table import Column, Table

    from limner.library import Library
    from limner.pictures.places import place_of

    if (words is None) == (like is None):
        raise ConfigError("search: give either words or --like PICTURE")
    query = like if words is None else words
    opened = Library.open(library, weights=weights, device=device, note=say)
    found = opened.search(
        "" if query is None else query,
        k,
        added=with_,
        without=without,
        folder=folder,
        after=after,
        before=before,
        orientation=orientation,
        min_probability=min_probability,
        model=model,
        channels=channel,
    )
    opened.mark_as_last_used()
    for line in found.notes:
        say(line)
    if words is not None and 0 < len(found) + found.below < min(k, found.searched):
        left_out = found.searched - len(found) - found.below
        pictures = counted(found.searched, "picture")
        say(f"{left_out} of {pictures} left out: nothing to compare with the words")
    coordinates = opened.store.coordinates(one.picture.id for one in found)
    rows = [
        SearchRow(
            rank=rank,
            probability=None if one.probability is None else round(one.probability, 4),
            fit=one.fit,
            score=round(one.score, 3),
            channels={name: round(value, 3) for name, value in one.channels.items()},
            path=one.picture.path,
            id=one.picture.id,
            caption=one.picture.alt,
            taken=one.picture.taken,
            coordinates=coordinates.get(one.picture.id),
            place=place_of(coordinates.get(one.picture.id)),
            notes=found.notes,
        )
        for rank, one in enumerate(found, start=1)
    ]
    if json:
        emit_json(rows)
        return
    if not rows:
        if not found.notes:
            say("no pictures found")
        return
    # Paths wrap instead of being truncated, because a truncated path is of no use.
    table = Table("rank", "probability", Column("picture", overflow="fold"), "caption", title=str(query))
    if coordinates:
        table.add_column("place")
    chances = ["–" if row.probability is None else chance_in_words(row.probability) for row in rows]
    cells = [
        (str(row.rank), chance, row.path, row.caption, row.place)
        for row, chance in zip(rows, chances, strict=True)
    ]
    emit_table(table, [list(one[: len(table.columns)]) for one in cells])
