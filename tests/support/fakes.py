"""Cheap, deterministic encoders for tests of the library."""

import hashlib
import time

import numpy as np
from PIL import Image

from limner.arrays import ImageVectors
from limner.store import Only


class FakeImages:
    """Mean colours of a 4 × 4 grid as the vector; counts and may record what it encodes."""

    def __init__(
        self, name="grid", space="visual", *, fingerprint="grid-1", delay_s=0.0, log=None, labels=True
    ):
        self.name, self.space, self.fingerprint = name, space, fingerprint
        self.delay_s, self.log, self.labels = delay_s, log, labels
        self.spaces = {space: 48}
        self.side_px = 16
        self.encoded = 0

    def prepare(self, image):
        return np.asarray(image.resize((4, 4), Image.Resampling.BOX))

    def encode_pixels(self, batch):
        self.encoded += len(batch)
        if self.delay_s:
            time.sleep(self.delay_s)
        if self.log is not None:
            with self.log.open("a") as stream:
                for one in batch:
                    stream.write(hashlib.sha256(one.tobytes()).hexdigest() + "\n")
        rows = batch.reshape(len(batch), -1).astype(np.float32) + 1
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        labels = [[("bright" if one.mean() > 127 else "dark", 0.75)] for one in batch] if self.labels else []
        return ImageVectors({self.space: rows}, labels)


class FakeTexts:
    """Bag of hashed words."""

    name, dim = "bag", 32

    def __init__(self, fingerprint="bag-1"):
        self.fingerprint = fingerprint
        self.encoded = []

    def encode_text(self, texts):
        self.encoded += texts
        rows = np.zeros((len(texts), self.dim), dtype=np.float32)
        for row, text in enumerate(texts):
            for word in text.lower().split():
                rows[row, int(hashlib.sha256(word.encode()).hexdigest(), 16) % self.dim] += 1
        return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)


def noise_picture(seed, size=(40, 30)):
    """A smooth random picture; different seeds differ clearly."""
    rng = np.random.default_rng(seed)
    small = rng.integers(0, 256, (5, 6, 3), dtype=np.uint8)
    return Image.fromarray(small).resize(size, Image.Resampling.BICUBIC)


def content(library):
    """What a library contains, whatever the order in which it was indexed: a row a picture, and the files."""
    ids = library.passing(Only())
    spaces = sorted(library.settings.spaces)
    gallery = library.index(spaces).gallery
    rows = {
        one.id: (one, *(gallery.space(name).vectors(gallery.rows([one.id])).tobytes() for name in spaces))
        for one in library.pictures(ids)
    }
    words = library.words_shown(ids), library.coordinates(ids), library.described_by()
    return dict(sorted(rows.items())), library.skipped(), words
