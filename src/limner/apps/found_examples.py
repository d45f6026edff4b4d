"""A page of what runs find for texts, single words and pictures (T&K, Figure 3).

All pictures or texts of the test part are ranked. It measures nothing.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from limner.apps.export.examples import Example, Group, write_examples
from limner.datasets.vocabulary import UNKNOWN
from limner.errors import ConfigError, DataError

if TYPE_CHECKING:
    from limner.apps.run_pictures import Pictures
    from limner.datasets.features import Layer
    from limner.datasets.pairs import Pair
    from limner.similarity import FloatArray

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
    model: Any
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
    from limner.datasets.pairs import one_row_per_pair

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

    write_examples(to, "Found for texts, words and pictures", NOTE, groups())


def _open(run: Path, weights: Path | None) -> tuple[Any, Any, "Pictures"]:
    """How to encode the test part of a run, its data set, and the pictures to show."""
    from limner.apps.run_pictures import Pictures, open_run
    from limner.apps.validation import vectors
    from limner.training.corpus import open_corpus, rows_of

    model, config = open_run(run)
    tuned = getattr(config, "trunk", "") == "finetune"
    layer: Layer = getattr(config, "layer", "pooled")
    data, rows = open_corpus(config.data, files=tuned, layer=layer, weights=weights)

    def ranked(pairs: Sequence["Pair"]) -> _Ranked:
        texts, images, columns = vectors(model, rows, rows_of(pairs, rows, ()))
        return _Ranked(config.row or config.system, model, texts, images[columns])

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


def _knows(model: Any, text: str) -> bool:  # noqa: ANN401
    """Whether any word of a text is one the model learned."""
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
