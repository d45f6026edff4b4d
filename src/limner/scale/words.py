"""The user's captions, which replace those of the files, and a model's captions, which are added to those of
the files.

They are stored in separate tables by the picture's content, so that they survive indexing, new paths and new
metadata; the user's files are not changed. New captions take effect at once: the captions of those pictures
are encoded again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pydantic import Field

from limner.arrays import usable_rows
from limner.config import Record
from limner.encoders.catalogue import sentence_encoder, text_encoder
from limner.errors import CheckpointError, DataError
from limner.pictures.metadata import MAX_CAPTION_CHARS, plain
from limner.pictures.places import place_of
from limner.scale.library import PictureStore
from limner.scale.store import (
    DESCRIPTIONS,
    DESCRIPTIONS_SCHEMA,
    FILES,
    PICTURES,
    PICTURES_SCHEMA,
    WORDS,
    WORDS_SCHEMA,
    TableStore,
    chunks,
    vectors_name,
)
from limner.scale.write import (
    CAPTIONS,
    MODEL,
    MULTILINGUAL,
    Sentences,
    captions_hash,
    described_captions,
    mean_vectors,
    model_captions,
    own_captions,
    readable_captions,
    sentences_of,
    stated_captions,
    vector_table,
)
from limner.store import SpaceInfo

COMPACT_EDITS = 50
OWN, KEYWORDS = "library", "keywords"
_AT_ONCE = 512


class TableCaptions(Record):
    """Words about a picture.

    Attributes:
        captions: descriptions, in reading order.
        keywords: keywords, which contain no commas.
    """

    captions: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()


class TableModelWords(Record):
    """Caption of a picture by a model.

    Attributes:
        model: name of the model.
        sentence: what the picture shows.
        keywords: keywords, which contain no commas.
    """

    model: str = Field(min_length=1)
    sentence: str = Field(min_length=1, max_length=MAX_CAPTION_CHARS)
    keywords: tuple[str, ...] = ()


class TableWords(Record):
    """Captions of a picture, with their sources.

    Attributes:
        now: captions in use.
        stated: captions of the files.
        edited: whether the captions in use are the user's.
        described: a model's caption, used with those of the files unless the user wrote captions; None if
            there is none.
        coordinates: latitude and longitude in degrees of where it was taken; None if its files state none.
        place: names of that place, as "Siena, Tuscany, Italy", or "".
    """

    now: TableCaptions
    stated: TableCaptions
    edited: bool
    described: TableModelWords | None = None
    coordinates: tuple[float, float] | None = None
    place: str = ""


def words_of(library: PictureStore, picture: str) -> TableWords:
    """Captions of a picture.

    Raises:
        DataError: the picture is not in the library.
    """
    library.picture(picture)
    stated = _described(stated_captions(_files(library.store, picture)))
    own = own_captions(library.store, [picture]).get(picture)
    rows = library.store.lookup(DESCRIPTIONS, "id", [picture])
    by_model = next((_model_words(row) for row in rows), None)
    now = stated if own is None else _described(own)
    if own is None and by_model is not None:
        now = TableCaptions(
            captions=(*stated.captions, by_model.sentence),
            keywords=tuple(dict.fromkeys((*stated.keywords, *by_model.keywords))),
        )
    coordinates = library.coordinates([picture]).get(picture)
    return TableWords(
        now=now,
        stated=stated,
        edited=own is not None,
        described=by_model,
        coordinates=coordinates,
        place=place_of(coordinates),
    )


def write_words(
    library: PictureStore, picture: str, words: TableCaptions | None, sentences: Sentences
) -> TableWords:
    """Store the user's captions of a picture, and flush them to the disk.

    Args:
        library: library that contains it.
        picture: its id.
        words: new captions, which may be empty; None restores those of the files and of a model.
        sentences: encoders of the library's spaces of captions, see `limner.scale.write.sentences_of`.
    Raises:
        DataError: the picture does not exist, or another process is writing to the library.
        CheckpointError: the library's captions were encoded with another encoder.
    """
    store, used = library.store, _fitting(library, sentences)
    with library.writing():
        library.picture(picture)
        # In this order, `repair_captions` can complete or undo a write that was killed.
        if words is None:
            by_model = described_captions(store, [picture]).get(picture, ())
            captions = [*stated_captions(_files(store, picture)), *by_model]
            _take_over(store, {picture: captions})
            if store.has(WORDS):
                store.delete(WORDS, [picture])
        else:
            captions = _rows(words)
            row = [{"id": picture, "captions": captions}]
            store.upsert(WORDS, pa.Table.from_pylist(row, schema=WORDS_SCHEMA))
            _take_over(store, {picture: captions})
        _encode(library, {picture: captions}, used)
        if store.has(WORDS) and store.version(WORDS) % COMPACT_EDITS == 0:
            store.compact()
    return words_of(library, picture)


def caption_encoders(made: Mapping[str, SpaceInfo]) -> Sentences:
    """Open the encoders of a library's spaces of captions.

    Args:
        made: the spaces of the library.
    Raises:
        LimnerError: see `limner.encoders.catalogue.sentence_encoder`.
    """
    return sentences_of(
        text_encoder() if CAPTIONS in made else None,
        sentence_encoder(made[MULTILINGUAL].encoder) if MULTILINGUAL in made else None,
    )


def write_descriptions(
    library: PictureStore, found: Mapping[str, TableModelWords], sentences: Sentences
) -> None:
    """Store a model's captions of pictures, and flush them to the disk.

    They replace those of another model, and are used unless the user wrote captions.

    Args:
        library: library that contains them.
        found: id → words.
        sentences: see `write_words`.
    Raises:
        DataError, CheckpointError: see `write_words`.
    """
    store, used = library.store, _fitting(library, sentences)
    rows = [
        {"id": picture, "model": one.model, "sentence": one.sentence, "keywords": list(one.keywords)}
        for picture, one in found.items()
    ]
    said = {picture: model_captions(one.model_dump()) for picture, one in found.items()}
    with library.writing():
        # In this order, `repair_captions` can complete a write that was killed.
        store.upsert(DESCRIPTIONS, pa.Table.from_pylist(rows, schema=DESCRIPTIONS_SCHEMA))
        _encode(library, _say(store, said), used)
        if rows and store.version(DESCRIPTIONS) % COMPACT_EDITS == 0:
            store.compact()


def remove_descriptions(library: PictureStore, sentences: Sentences, model: str | None = None) -> int:
    """Remove captions by models; return the number of pictures that had one.

    Args:
        library: library that contains them.
        sentences: see `write_words`.
        model: name of a model, to remove only its captions; None for all.
    Raises:
        DataError, CheckpointError: see `write_words`.
    """
    store, used = library.store, _fitting(library, sentences)
    if not store.has(DESCRIPTIONS):
        return 0
    with library.writing():
        rows = store.rows(DESCRIPTIONS, ["id", "model"])
        gone = [picture for picture, by in rows if model in (None, by)]
        for some in chunks(gone, _AT_ONCE):
            # In this order, `repair_captions` can undo a write that was killed.
            captions = _say(store, {picture: [] for picture in some})
            store.delete(DESCRIPTIONS, some)
            _encode(library, captions, used)
        if gone:
            store.compact()
    return len(gone)


def described_by(store: TableStore) -> dict[str, str]:
    """Names of the models by id of the pictures that they described."""
    return dict(store.rows(DESCRIPTIONS, ["id", "model"])) if store.has(DESCRIPTIONS) else {}


def repair_captions(store: TableStore) -> None:
    """Make the pictures' captions consistent with those of the user and of a model, after a kill."""
    if store.has(WORDS):
        _take_over(store, dict(store.rows(WORDS, ["id", "captions"])))
    if store.has(DESCRIPTIONS):
        for batch in store.scan(DESCRIPTIONS, DESCRIPTIONS_SCHEMA.names):
            _say(store, {row["id"]: model_captions(row) for row in batch.to_pylist()})


def _fitting(library: PictureStore, sentences: Sentences) -> Sentences:
    """Encoders of the library's spaces."""
    spaces = library.settings.spaces
    used = {space: one for space, one in sentences.items() if space in spaces}
    for space, (encoder, _) in used.items():
        if spaces[space].fingerprint != encoder.fingerprint:
            raise CheckpointError(
                f"{library.place}: its captions were encoded by another version; run 'limner index' first"
            )
    return used


def _say(store: TableStore, described: Mapping[str, list[dict[str, str]]]) -> dict[str, list[dict[str, str]]]:
    """Add a model's captions to those of the files, for pictures without captions by the user.

    Returns:
        The captions of these pictures, by id.
    """
    own = own_captions(store, described)
    known = store.lookup(PICTURES, "id", described.keys() - own.keys(), ["id", "captions"])
    before = {row["id"]: row["captions"] or [] for row in known}
    captions = {
        picture: [*(one for one in rows if one["source"] != MODEL), *described[picture]]
        for picture, rows in before.items()
    }
    _take_over(store, {picture: rows for picture, rows in captions.items() if rows != before[picture]})
    return captions


def _encode(library: PictureStore, captions: Mapping[str, Sequence[dict[str, str]]], used: Sentences) -> None:
    """Compute the vectors of captions again."""
    texts = {picture: [one["text"] for one in rows] for picture, rows in captions.items()}
    for space, (encoder, reads) in used.items():
        read = {
            picture: readable_captions(each, reads, library.settings.languages)
            for picture, each in texts.items()
        }
        ids = [picture for picture, each in read.items() if each]
        if ids:
            vectors = mean_vectors(encoder, [read[picture] for picture in ids])
            good = np.flatnonzero(usable_rows(vectors))
            ids = [ids[row] for row in good]
            keys = [captions_hash(encoder.fingerprint, texts[picture]) for picture in ids]
            library.store.upsert(vectors_name(space), vector_table(ids, keys, vectors[good]))
        library.store.delete(vectors_name(space), sorted(texts.keys() - set(ids)))


def _model_words(row: Mapping[str, Any]) -> TableModelWords:
    return TableModelWords(
        model=row["model"], sentence=row["sentence"], keywords=tuple(row["keywords"] or ())
    )


def _take_over(store: TableStore, captions: dict[str, list[dict[str, str]]]) -> None:
    known = store.lookup(PICTURES, "id", captions)
    changed = [
        {**row, "captions": captions[row["id"]]}
        for row in known
        if (row["captions"] or []) != captions[row["id"]]
    ]
    store.upsert(PICTURES, pa.Table.from_pylist(changed, schema=PICTURES_SCHEMA))


def _files(store: TableStore, picture: str) -> list[dict[str, object]]:
    rows = store.lookup(FILES, "sha256", [picture], ["path", "status", "captions"])
    return sorted((row for row in rows if row["status"] == "ok"), key=lambda row: row["path"])


def _described(captions: Sequence[dict[str, str]]) -> TableCaptions:
    listed = (one["text"] for one in captions if one["source"] == KEYWORDS)
    return TableCaptions(
        captions=tuple(one["text"] for one in captions if one["source"] != KEYWORDS),
        keywords=tuple(dict.fromkeys(word.strip() for text in listed for word in text.split(","))),
    )


def _rows(words: TableCaptions) -> list[dict[str, str]]:
    """Captions as stored rows: each description once, then all keywords as one row."""
    told = dict.fromkeys(filter(None, map(plain, words.captions)))
    parts = (plain(part) for word in words.keywords for part in word.split(","))
    listed = ", ".join(dict.fromkeys(filter(None, parts)))
    rows = [{"text": text, "source": OWN} for text in told] + [{"text": listed, "source": KEYWORDS}]
    long = next((row["text"] for row in rows if len(row["text"]) > MAX_CAPTION_CHARS), None)
    if long is not None:
        raise DataError(
            f"a text of {len(long):,} letters; a description, or all keywords together, may have at most"
            f" {MAX_CAPTION_CHARS:,}"
        )
    return [row for row in rows if row["text"]]
