"""A trained run opened to be looked at: its model, the texts of its data set, and their pictures.

For figures. It measures nothing and trains nothing.
"""

import io
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup
from PIL import Image

from limner.datasets.pairs import one_row_per_pair
from limner.datasets.vocabulary import UNKNOWN
from limner.errors import ConfigError, DataError
from limner.export.targets import check_place, whole
from limner.pages import environment, policy
from limner.pictures.decode import PictureError, decode, read_file
from limner.pictures.thumbnails import Copy
from limner.runs.run import Run
from limner.runs.validation import vectors
from limner.systems.base import Model
from limner.training.corpus import ArrayRows, rows_of

if TYPE_CHECKING:
    from limner.arrays import FloatArray
    from limner.datasets.pairs import Pair, PairSet
    from limner.training.corpus import PictureRows


FEATURE_SIDE_PX = 240


class Pictures:
    """Pictures of a run's data set by the id of a pair, whole as their files hold them."""

    def __init__(self, data: "PairSet", rows: "PictureRows") -> None:
        """Take the pairs, and where drawn pictures are: those lie in no files."""
        self._pairs, self._rows = {pair.id: pair for pair in data.pairs}, rows

    def __call__(self, name: str) -> Image.Image:
        """The picture, upright RGB, at a scale fit for showing.

        Raises:
            DataError: it does not open any more.
        """
        if isinstance(self._rows, ArrayRows):
            values = self._rows.take(self._rows.places([self._pairs[name].image_id]))[0]
            return Image.fromarray(np.asarray(values, dtype=np.uint8))
        path = Path(self._pairs[name].image)
        try:
            return decode(
                read_file(os.fsencode(path.absolute())).data, FEATURE_SIDE_PX, path.suffix.lower()
            ).rgb
        except PictureError as error:
            raise DataError(f"figure: {path}: {error}; restore the file") from error

    def identity(self, name: str) -> str:
        """Equal for pairs with the same picture."""
        return self._pairs[name].image_id

    def same(self, one: str, other: str) -> bool:
        """Whether two pairs have the same picture."""
        return self.identity(one) == self.identity(other)


def open_pictures(run: Path) -> tuple[dict[str, str], Pictures]:
    """Texts of a run's data set by the id of their pair, and its pictures."""
    data, rows = Run.open(run).data(files=True)
    return {pair.id: pair.text for pair in data.pairs}, Pictures(data, rows)


SIDE_PX = 360
TEXT_CHARACTERS = 280


def check_page(out: Path) -> None:
    """See whether a page can be written, before anything is computed.

    Raises:
        ConfigError: `out` is no .html file.
        DataError, MissingError: it cannot be written.
    """
    if out.suffix.lower() not in (".html", ".htm"):
        raise ConfigError(f"figure: {out}: this one is a page of pictures and texts; name an .html file")
    check_place(out, overwrite=True)


STYLES = {
    "examples": ("examples",),
    "scenes": ("scenes",),
    "strips": ("examples", "strips"),
    "topic": ("examples", "topic"),
}
"""Template of a page → its style sheets, in order."""


def write_page(out: Path, name: str, title: str, note: str, **shown: object) -> None:
    """Write a page; what is shown is drawn one after the other, so that few pictures are in memory.

    Args:
        out: an .html file; an existing one is replaced.
        name: of the template, one of `STYLES`: ``examples`` shows groups (of `Group`), ``scenes`` scenes,
            ``strips`` stories and ``topic`` steps.
        title: of the page.
        note: below it: what is shown and how it was chosen.
        **shown: what the template names; may be drawn as it is read.
    Raises:
        ConfigError, DataError, MissingError: see `check_page`.
    """
    check_page(out)
    own = environment()
    own.filters["copy"] = copy_of
    own.filters["alt"] = alt
    style = "".join(own.get_template(f"{sheet}.css").render() for sheet in STYLES[name])
    parts = own.get_template(f"{name}.html").generate(
        title=title,
        note=note,
        style=Markup(style),  # noqa: S704 - our own file, no part of it comes from a user
        policy=policy(style),
        most_characters=TEXT_CHARACTERS,
        **shown,
    )
    with whole(out) as draft, draft.open("w", encoding="utf-8", newline="\n") as file:
        for part in parts:
            file.write(part)


def copy_of(picture: Image.Image, side_px: int = SIDE_PX) -> Copy:
    """A copy of at most so many pixels a side, without metadata; smaller ones keep their size."""
    small = picture.convert("RGB")
    small.thumbnail((side_px, side_px))
    small.info = {}
    out = io.BytesIO()
    small.save(out, "WEBP", quality=80, method=4)
    return Copy(out.getvalue(), "image/webp", *small.size)


def alt(text: str) -> str:
    """Alternative text: what is known of a picture is the text it came with."""
    words = " ".join(text.split())
    return f"picture with the text: {words[:TEXT_CHARACTERS]}" if words else "picture without a text"


@dataclass(frozen=True)
class Example:
    """One picture with a text, or either.

    Attributes:
        picture: shown whole; None for a text alone.
        text: shown up to a length; the rest opens on a click.
        facts: what is said of it, a line each.
        right: whether it is the sought one, which is then marked.
    """

    picture: Image.Image | None
    text: str
    facts: tuple[str, ...] = ()
    right: bool = False


@dataclass(frozen=True)
class Group:
    """Examples in a row.

    Attributes:
        title: of the row.
        examples: in order.
        level: 2 for a group of its own, 3 for one below the group before it.
        lead: shown large beneath the title: the query.
    """

    title: str
    examples: Sequence[Example]
    level: int = 2
    lead: Example | None = None


WORDS = ("justice", "patriotism")
TOP = 5
NOTE = (
    "The best five of the test part for every query, by every run; green is what belongs to the query."
    " Queries that nobody named are the first of the test part, whatever is found for them."
)


@dataclass(frozen=True)
class _Ranked:
    """One run's vectors of the test part."""

    name: str
    model: Model
    texts: "FloatArray"
    images: "FloatArray"


def write_found(
    runs: Sequence[Path],
    to: Path,
    *,
    texts: Sequence[str] = (),
    pictures: Sequence[str] = (),
    count: int = 3,
    weights: Path | None = None,
) -> None:
    """Write the page.

    Args:
        runs: folders, trained on one data set with one split.
        to: an .html file.
        texts: queries, words, or ids of test pairs; "justice", "patriotism" and the first texts unless given.
        pictures: ids of test pairs whose pictures are queries; the first ones unless given.
        count: test texts and pictures shown when none is named.
        weights: of the backbone, where features have to be made.
    Raises:
        ConfigError: no run, or no such pair.
        DataError: the runs are of different test parts.
    """
    if not runs:
        raise ConfigError("figure: complementary-3 compares runs; pass --run FOLDER once per run")
    ranked, kept = [], None
    for run in runs:
        found, data, picture = _open(run, weights)
        pairs = one_row_per_pair(data.split("test"))
        if kept is None:
            kept = (pairs, picture)
        elif [pair.id for pair in kept[0]] != [pair.id for pair in pairs]:
            raise DataError(f"figure: {run} has another test part than {runs[0]}; name runs of one split")
        ranked.append(found(pairs))
    assert kept is not None  # noqa: S101  (there is a run)
    pairs, picture = kept
    asked = list(texts) or [*WORDS, *(pair.id for pair in pairs[:count])]
    shown = list(pictures) or [pair.id for pair in pairs[:count]]
    known = {pair.id: pair for pair in pairs}
    absent = [name for name in shown if name not in known]
    if absent:
        raise ConfigError(f"figure: the test part has no pair {absent[0]!r}; name one by its id")

    def groups() -> Iterator[Group]:
        for words in asked:
            own = known.get(words)
            yield Group(
                "Text", (), lead=Example(picture(own.id) if own else None, own.text if own else words)
            )
            yield from (_pictures(one, own, words, pairs, picture) for one in ranked)
        for name in shown:
            own = known[name]
            yield Group("Picture", (), lead=Example(picture(name), ""))
            yield from (_texts(one, own, pairs) for one in ranked)

    write_page(to, "examples", "Found for texts, words and pictures", NOTE, groups=groups())


def _open(run: Path, weights: Path | None) -> tuple[Any, Any, "Pictures"]:
    """How to encode the test part of a run, its data set, and the pictures to show."""
    opened = Run.open(run)
    data, rows = opened.data(weights=weights)

    def ranked(pairs: Sequence["Pair"]) -> _Ranked:
        texts, images, columns = vectors(opened.model, rows, rows_of(pairs, rows, ()), opened.can)
        return _Ranked(opened.name, opened.model, texts, images[columns])

    return ranked, data, Pictures(data, rows)


def _pictures(
    one: _Ranked, own: "Pair | None", words: str, pairs: Sequence["Pair"], picture: "Pictures"
) -> Group:
    text = own.text if own else words
    query = one.model.encode_text([text])
    scores = one.model.score(query, one.images)[0]
    chosen = _best(scores, [pair.image_id for pair in pairs])
    found = [
        Example(
            picture(pairs[place].id),
            "",
            (_score(scores[place]),),
            right=own is not None and pairs[place].image_id == own.image_id,
        )
        for place in chosen
    ]
    known = "" if _knows(one.model, text) else ": none of these words was in its training texts"
    return Group(one.name + known, found, level=3)


def _knows(model: Model, text: str) -> bool:
    """Whether any word of a text is one the model learned; a model without a vocabulary knows all."""
    if model.vocabulary is None:
        return True
    numbers, lengths = model.vocabulary.batch([text], model.max_length)
    return bool((numbers[0, : lengths[0]] != UNKNOWN).any())


def _texts(one: _Ranked, own: "Pair", pairs: Sequence["Pair"]) -> Group:
    place = next(number for number, pair in enumerate(pairs) if pair.id == own.id)
    scores = one.model.score(one.texts, one.images[place : place + 1])[:, 0]
    found = [
        Example(
            None,
            pairs[number].text,
            (_score(scores[number]),),
            right=pairs[number].image_id == own.image_id or pairs[number].text == own.text,
        )
        for number in _best(scores, [pair.text for pair in pairs])
    ]
    return Group(one.name, found, level=3)


def _score(value: float) -> str:
    return f"score {value:.2f}".replace("-", "−")


def _best(scores: "FloatArray", names: Sequence[str]) -> list[int]:
    """Places of the best `TOP`, one of each name."""
    found: dict[str, int] = {}
    for place in np.argsort(-scores, kind="stable").tolist():
        found.setdefault(names[place], place)
        if len(found) == TOP:
            break
    return list(found.values())
