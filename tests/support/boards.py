"""Small hand-made galleries, encoders and pictures for the tests of search and storyboards."""

import hashlib

import numpy as np

from limner.library.channels import Channel, Evidence
from limner.library.gallery import Gallery, Space
from limner.records import Caption, Picture, Step, Story


class TableEncoder:
    """Looks texts up in a table of vectors."""

    name = "table"
    fingerprint = "table-1"

    def __init__(self, table):
        self.table = {text: np.asarray(vector, dtype=np.float32) for text, vector in table.items()}
        self.dim = len(next(iter(self.table.values())))

    def encode_text(self, texts):
        return np.stack([self.table[text] for text in texts])


class TablePairwise:
    """Pairwise terms from a symmetric table of candidates, nats."""

    def __init__(self, table):
        self.table = table

    def block(self, rows, columns):
        return np.asarray(self.table[np.ix_(rows, columns)], dtype=np.float64)


def unit(vectors):
    vectors = np.asarray(vectors, dtype=np.float32)
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def space(vectors, present=None):
    matrix = unit(vectors).astype(np.float16)
    present = np.ones(len(matrix), dtype=bool) if present is None else np.asarray(present, dtype=bool)
    matrix[~present] = 0
    return Space(matrix, present)


def picture_id(name):
    return hashlib.sha256(name.encode()).hexdigest()


def picture(name, group=None, caption=None, labels=()):
    own = picture_id(name)
    return Picture(
        id=own,
        paths=(f"/pictures/{name}.jpg",),
        width_px=4,
        height_px=3,
        format="JPEG",
        size_bytes=10,
        phash="0" * 16,
        group=picture_id(group or name),
        captions=(Caption(text=caption, source="sidecar"),) if caption else (),
        labels=tuple(labels),
    )


class Shelf:
    """Pictures by id, as a library would hand them out; remembers what it was asked."""

    def __init__(self, pictures):
        self.pictures = {p.id: p for p in pictures}
        self.asked = []

    def __call__(self, ids):
        self.asked.append(list(ids))
        return [self.pictures[own] for own in ids]


def two_worlds():
    """Six pictures: kite, beach and boat, each drawn by hand 0 and by hand 1.

    Word axes 0..2 name the thing, `visual` axes 0..1 the hand; hand 0 fits the words a little better.
    """
    names = [f"{thing}-{hand}" for hand in (0, 1) for thing in ("kite", "beach", "boat")]
    pictures = [picture(name, caption=f"A {name.split('-')[0]} by hand") for name in names]
    words = np.tile(np.eye(3), (2, 1)) + np.repeat([[0.0], [0.15]], 3, axis=0)
    look = np.repeat(np.eye(2), 3, axis=0) + 0.05 * np.random.default_rng(0).normal(size=(6, 2))
    gallery = Gallery(
        ids=[p.id for p in pictures],
        groups=[p.group for p in pictures],
        spaces={"caption": space(words), "visual": space(look)},
    )
    texts = ["The kites are flying.", "We walk to the beach.", "A boat!"]
    encoder = TableEncoder(dict(zip(texts, np.eye(3), strict=True)))
    channel = Channel("captions", encoder, "caption", Evidence(slope=10.0, z_slope=0.0, offset=-5.0))
    story = Story(id="trip", steps=tuple(Step(text=text) for text in texts))
    return story, gallery, [channel], Shelf(pictures)
