"""What the user writes about a picture in the library, in place of what its files say.

Kept in a table of its own under the picture's content, so that it outlives indexing, new paths and other
metadata; no file of the user's is touched. What is written counts at once: the captions of that one picture
are encoded anew.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from limner.arrays import usable_rows
from limner.errors import CheckpointError, DataError
from limner.library.library import Library
from limner.library.store import (
    FILES,
    PICTURES,
    PICTURES_SCHEMA,
    WORDS,
    WORDS_SCHEMA,
    Store,
    vectors_name,
)
from limner.library.write import (
    Sentences,
    captions_hash,
    mean_vectors,
    own_captions,
    readable_captions,
    stated_captions,
    vector_table,
)
from limner.pictures.metadata import MAX_CAPTION_CHARS, plain
from limner.records import Record

COMPACT_EDITS = 50
OWN, KEYWORDS = "library", "keywords"


class Described(Record):
    """Words about a picture.

    Attributes:
        captions: descriptions, in the order they are read.
        keywords: without commas in them.
    """

    captions: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()


class PictureWords(Record):
    """What is said about a picture, and what its files say.

    Attributes:
        now: what counts.
        stated: what the files say.
        edited: whether the user wrote what counts.
    """

    now: Described
    stated: Described
    edited: bool


def words_of(library: Library, picture: str) -> PictureWords:
    """What is said about a picture.

    Raises:
        DataError: the library holds no such picture.
    """
    library.picture(picture)
    stated = _described(stated_captions(_files(library.store, picture)))
    own = own_captions(library.store, [picture]).get(picture)
    return PictureWords(now=stated if own is None else _described(own), stated=stated, edited=own is not None)


def write_words(
    library: Library, picture: str, words: Described | None, sentences: Sentences
) -> PictureWords:
    """Keep what the user wrote about a picture; it is on the disk when this returns.

    Args:
        library: that holds it.
        picture: its id.
        words: what counts from now on, also where it is empty; None for what the files say.
        sentences: encoders of the library's spaces of captions, see `limner.library.write.sentences_of`.
    Raises:
        DataError: no such picture, or another process is writing to the library.
        CheckpointError: an encoder is not the one that the library's captions were encoded with.
    """
    store, spaces = library.store, library.settings.spaces
    used = {space: one for space, one in sentences.items() if space in spaces}
    for space, (encoder, _) in used.items():
        if spaces[space].fingerprint != encoder.fingerprint:
            raise CheckpointError(
                f"{library.place}: its captions were encoded by another version; run 'limner index' first"
            )
    with library.writing():
        library.picture(picture)
        # In this order a kill leaves what `mend` completes, or takes back.
        if words is None:
            captions = stated_captions(_files(store, picture))
            _take_over(store, {picture: captions})
            if store.has(WORDS):
                store.delete(WORDS, [picture])
        else:
            captions = _rows(words)
            row = [{"id": picture, "captions": captions}]
            store.upsert(WORDS, pa.Table.from_pylist(row, schema=WORDS_SCHEMA))
            _take_over(store, {picture: captions})
        texts = [caption["text"] for caption in captions]
        for space, (encoder, reads) in used.items():
            readable = readable_captions(texts, reads, library.settings.languages)
            vectors = mean_vectors(encoder, [readable]) if readable else None
            if vectors is not None and usable_rows(vectors).all():
                key = captions_hash(encoder.fingerprint, texts)
                store.upsert(vectors_name(space), vector_table([picture], [key], vectors))
            else:
                store.delete(vectors_name(space), [picture])
        if store.has(WORDS) and store.version(WORDS) % COMPACT_EDITS == 0:
            store.compact()
    return words_of(library, picture)


def mend(store: Store) -> None:
    """Bring the pictures' captions in line with what the user wrote, where a kill came between the two."""
    if store.has(WORDS):
        _take_over(store, dict(store.rows(WORDS, ["id", "captions"])))


def _take_over(store: Store, captions: dict[str, list[dict[str, str]]]) -> None:
    known = store.lookup(PICTURES, "id", captions)
    changed = [
        {**row, "captions": captions[row["id"]]}
        for row in known
        if (row["captions"] or []) != captions[row["id"]]
    ]
    store.upsert(PICTURES, pa.Table.from_pylist(changed, schema=PICTURES_SCHEMA))


def _files(store: Store, picture: str) -> list[dict[str, object]]:
    rows = store.lookup(FILES, "sha256", [picture], ["path", "status", "captions"])
    return sorted((row for row in rows if row["status"] == "ok"), key=lambda row: row["path"])


def _described(captions: Sequence[dict[str, str]]) -> Described:
    listed = (one["text"] for one in captions if one["source"] == KEYWORDS)
    return Described(
        captions=tuple(one["text"] for one in captions if one["source"] != KEYWORDS),
        keywords=tuple(dict.fromkeys(word.strip() for text in listed for word in text.split(","))),
    )


def _rows(words: Described) -> list[dict[str, str]]:
    """As they are kept: each description once, keywords last and as one."""
    told = dict.fromkeys(filter(None, map(plain, words.captions)))
    parts = (plain(part) for word in words.keywords for part in word.split(","))
    listed = ", ".join(dict.fromkeys(filter(None, parts)))
    rows = [{"text": text, "source": OWN} for text in told] + [{"text": listed, "source": KEYWORDS}]
    long = next((row["text"] for row in rows if len(row["text"]) > MAX_CAPTION_CHARS), None)
    if long is not None:
        raise DataError(
            f"words of {len(long):,} letters; a description, or all keywords together, may have"
            f" {MAX_CAPTION_CHARS:,}"
        )
    return [row for row in rows if row["text"]]
