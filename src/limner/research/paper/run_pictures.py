"""A trained run opened to be looked at: the pictures of its data set, and what it finds among them.

For figures. It measures nothing and trains nothing.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from PIL import Image

from limner.errors import ConfigError, DataError
from limner.research.datasets.pairs import one_row_per_pair
from limner.research.paper.page import Example, Group, shown_picture, write_page
from limner.research.runs.run import Run
from limner.research.runs.validation import vectors
from limner.research.systems.base import Model
from limner.research.training.corpus import ArrayRows, rows_of

if TYPE_CHECKING:
    from limner.arrays import FloatArray
    from limner.research.datasets.pairs import Pair, PairSet
    from limner.research.training.corpus import PictureRows


PICTURE_SIDE_PX = 240


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
        return shown_picture(Path(self._pairs[name].image), PICTURE_SIDE_PX)

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


WORDS = ("justice", "patriotism")
TOP = 5
NOTE = (
    "The best five of the test part for every query, by every run; green is what belongs to the query."
    " Queries that nobody named are the first of the test part, whatever is found for them."
)


class _Ranked(NamedTuple):
    """One run's vectors of the test part."""

    name: str
    model: Model
    texts: "FloatArray"
    images: "FloatArray"


def write_found(
    runs: Sequence[Path],
    to: Path,
    *,
    texts: Sequence[str],
    pictures: Sequence[str],
    count: int,
    weights: Path | None,
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
    ranked: list[_Ranked] = []
    pairs: Sequence[Pair] = ()
    for run in runs:
        opened = Run.open(run)
        data, rows = opened.data(weights=weights)
        own = one_row_per_pair(data.split("test"))
        if not ranked:
            pairs, picture = own, Pictures(data, rows)
        elif [pair.id for pair in own] != [pair.id for pair in pairs]:
            raise DataError(f"figure: {run} has another test part than {runs[0]}; name runs of one split")
        encoded, images, columns = vectors(opened.model, rows, rows_of(own, rows, ()), opened.can)
        ranked.append(_Ranked(opened.name, opened.model, encoded, images[columns]))
    asked = list(texts) or [*WORDS, *(pair.id for pair in pairs[:count])]
    shown = list(pictures) or [pair.id for pair in pairs[:count]]
    places = {pair.id: place for place, pair in enumerate(pairs)}
    absent = [name for name in shown if name not in places]
    if absent:
        raise ConfigError(f"figure: the test part has no pair {absent[0]!r}; name one by its id")

    def groups() -> Iterator[Group]:
        for words in asked:
            own = pairs[places[words]] if words in places else None
            lead = Example(picture(own.id), own.text) if own else Example(None, words)
            yield Group("Text", (), lead=lead)
            yield from (_pictures(one, own, words, pairs, picture) for one in ranked)
        for name in shown:
            yield Group("Picture", (), lead=Example(picture(name), ""))
            yield from (_texts(one, places[name], pairs) for one in ranked)

    write_page(to, "examples", "Found for texts, words and pictures", NOTE, groups=groups())


def _pictures(
    one: _Ranked, own: "Pair | None", words: str, pairs: Sequence["Pair"], picture: "Pictures"
) -> Group:
    text = own.text if own else words
    scores = one.model.score(one.model.encode_text([text]), one.images)[0]
    found = [
        Example(
            picture(pairs[place].id),
            "",
            (_score(scores[place]),),
            right=own is not None and pairs[place].image_id == own.image_id,
        )
        for place in best_of(scores, [pair.image_id for pair in pairs])
    ]
    known = "" if knows(one.model, text) else ": none of these words was in its training texts"
    return Group(one.name + known, found, level=3)


def _texts(one: _Ranked, own: int, pairs: Sequence["Pair"]) -> Group:
    scores = one.model.score(one.texts, one.images[own : own + 1])[:, 0]
    found = [
        Example(
            None,
            pairs[place].text,
            (_score(scores[place]),),
            right=pairs[place].image_id == pairs[own].image_id or pairs[place].text == pairs[own].text,
        )
        for place in best_of(scores, [pair.text for pair in pairs])
    ]
    return Group(one.name, found, level=3)


def _score(value: float) -> str:
    return f"score {value:.2f}".replace("-", "−")


def knows(model: Model, text: str) -> bool:
    """Whether a model learned any word of a text; a full stop is none, and frozen encoders know all."""
    words = model.vocabulary
    return words is None or any(word in words and word[:1].isalnum() for word in words.tokens(text))


def best_of(scores: "FloatArray", names: Sequence[str]) -> list[int]:
    """Places of the best five, one of each name."""
    found: dict[str, int] = {}
    for place in np.argsort(-scores, kind="stable").tolist():
        found.setdefault(names[place], place)
        if len(found) == TOP:
            break
    return list(found.values())
