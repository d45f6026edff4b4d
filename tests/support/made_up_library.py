"""A library of pictures that nobody took: rows as indexing would have stored them, in a moment."""

import hashlib
from datetime import datetime

import numpy as np

from limner.arrays import unit_rows
from limner.pictures.metadata import Words
from limner.records import Caption
from limner.store import File, Pixels, SpaceInfo
from limner.store.database import Database


def id_of(number):
    """Id as that of a picture: the SHA-256 of the number."""
    return hashlib.sha256(str(number).encode()).hexdigest()


def drawn(count, width, seed=0):
    """Unit rows in overlapping clusters."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((40, width), dtype=np.float32)
    near = centres[rng.integers(0, 40, count)] + rng.standard_normal((count, width), dtype=np.float32)
    return unit_rows("drawn", near)


def made_up_library(folder, count, spaces=None, *, of=lambda number: {}, at_once=5_000):
    """A library of so many pictures.

    Args:
        folder: its folder.
        count: number of pictures.
        spaces: width of vectors, by space.
        of: number → what differs from a plain picture: path, width_px, height_px, taken, captions, phash.
        at_once: pictures of a batch.
    """
    library, spaces = Database(folder), spaces or {}
    library.save(
        spaces={
            name: SpaceInfo(encoder="drawn", fingerprint="drawn", dim=width) for name, width in spaces.items()
        },
        sources=("/p",),
    )
    rows = {name: drawn(count, width, seed) for seed, (name, width) in enumerate(spaces.items())}
    for start in range(0, count, at_once):
        files, pixels = [], {}
        for number in range(start, min(start + at_once, count)):
            own = {"path": f"/p/{number % 97:02}/IMG_{number:07}.jpg", "width_px": 40, "height_px": 30} | of(
                number
            )
            taken = own.get("taken")
            words = Words(
                captions=tuple(Caption(text=text, source="exif") for text in own.get("captions", ())),
                taken=datetime.fromisoformat(taken) if taken else None,
                taken_from="camera" if taken else "",
            )
            files.append(File(own["path"], 9, 1, "", "", id_of(number), words=words))
            vectors = {name: some[number] for name, some in rows.items()}
            phash = own.get("phash", f"{number:016x}")
            pixels[id_of(number)] = Pixels(own["width_px"], own["height_px"], "JPEG", phash, vectors)
        library.add(files, pixels)
    return library
