"""Made-up pictures, and libraries of their rows, captions and vectors as indexing leaves them."""

import hashlib
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from limner.arrays import FloatArray, unit_rows
from limner.encoders.catalogue import text_encoder
from limner.match.encoder_setup import picture_encoders
from limner.pictures.metadata import Words
from limner.records import Caption
from limner.store import CAPTIONS, File, Pixels
from limner.store.database import Database
from limner.store.index import index

Draw = Callable[[np.random.Generator, int], FloatArray]
"""So many unit rows of a space."""
PHOTOGRAPHS, CENTRES, BATCH = 24, 300, 16_384
SIDE_PX, PER_FOLDER = 96, 1000  # of drawn pictures
KEPT, STEP = 0.8, 0.4  # of a walk: share of the last place, and length of a step
BEGIN = datetime(2015, 1, 1)
NOUNS = ("fox", "rabbit", "boat", "kite", "cake", "moon", "lamp", "hill", "river", "bridge", "garden")
VERBS = ("watches", "paints", "carries", "follows", "repairs", "finds", "hides", "opens", "washes", "sells")


def sentence(number: int) -> str:
    """One of some ten thousand sentences."""
    first, other, last = (NOUNS[number // part % 11] for part in (1, 110, 1210))
    return f"the {first} {VERBS[number // 11 % 10]} a {other} near the {last}"


def text_of(number: int, steps: int = 10) -> str:
    """A text that no other number has."""
    draws = np.random.default_rng(number).integers(0, 13_310, steps)
    lines = [f"At {number} past {step}, {sentence(draw)}." for step, draw in enumerate(draws.tolist())]
    return "\n\n---\n\n".join(lines)


def request(
    act: str, number: int, count: int, ids: Sequence[str], project: Mapping[str, Any]
) -> tuple[str, str, Any]:
    """Method, path and JSON of something that is asked of the studio, another with every number.

    Args:
        act: what is asked.
        number: of the request.
        count: pictures of the library.
        ids: pictures that have a thumbnail.
        project: the one that is asked about.
    """
    own, words = f"/api/projects/{project.get('id')}", sentence(number % 110)
    change = {"kind": ("blank", "unlock")[number % 2], "step": number // 2 % 10}
    list_, page = "/api/library/pictures", number * 7919 % (count - 200)
    return {
        "page": ("GET", f"{list_}?offset={page}&limit=200", None),
        "look": ("GET", f"{list_}?limit=200&q={words.replace(' ', '+')}", None),
        "thumbnail": ("GET", f"/api/pictures/{ids[number % len(ids)]}/thumbnail?side=256", None),
        "search": ("POST", "/api/search", {"text": f"{words} {number}", "limit": 48}),
        "illustrate": ("POST", "/api/illustrate", {"text": text_of(number), "format": "markdown"}),
        "project": ("POST", "/api/projects", {"text": text_of(number), "format": "markdown"}),
        "edit": ("POST", f"{own}/edits", {"revision": project.get("revision"), "edit": change}),
        "strip": ("GET", f"{own}/steps/{number % 10}/candidates?limit=40", None),
        "read": ("GET", own, None),
        "remove": ("DELETE", own, None),
        "export": ("GET", f"{own}/export?format=html", None),
    }[act]


def draw(album: Path, count: int, *, captioned: bool = False) -> None:
    """Small pictures 0 to count − 1, each of its own content, in folders of a thousand; those there stay."""

    def thousand(start: int) -> None:
        place, end = album / f"{start // PER_FOLDER:06}", min(start + PER_FOLDER, count)
        if place.is_dir() and sum(1 for _ in place.glob("*.jpg")) >= end - start:
            return
        place.mkdir(parents=True, exist_ok=True)
        for number in range(start, end):
            cells = np.random.default_rng(number).integers(0, 256, (6, 6, 3), dtype=np.uint8)
            path = place / f"IMG_{number:09}.jpg"
            Image.fromarray(cells).resize((SIDE_PX, SIDE_PX), Image.Resampling.BICUBIC).save(path, quality=80)
            if captioned:
                path.with_suffix(".txt").write_text(sentence(number))

    with ThreadPoolExecutor() as pool:
        list(pool.map(thousand, range(0, count, PER_FOLDER)))


def walks(origins: FloatArray) -> Draw:
    """Rows that walk around some vectors."""
    walk = np.zeros_like(origins)

    def draw(rng: np.random.Generator, count: int) -> FloatArray:
        nonlocal walk
        rows: list[FloatArray] = []
        while sum(map(len, rows)) < count:
            one, other = rng.integers(0, len(origins), (2, len(origins)))
            walk = KEPT * walk + STEP * (origins[one] - origins[other])
            rows.append(unit_rows("walk", origins + walk))
        return np.concatenate(rows)[:count]

    return draw


def fill(library: Database, pictures: int, draws: Mapping[str, Draw]) -> None:
    """Add so many pictures, with vectors: forty a day, of which every second states when."""
    rng = np.random.default_rng(pictures)
    for start in range(0, pictures, BATCH):
        numbers = range(start, min(start + BATCH, pictures))
        vectors = {name: draw(rng, len(numbers)) for name, draw in draws.items() if name != CAPTIONS}
        files, pixels = [], {}
        for row, number in enumerate(numbers):
            digest = hashlib.sha256(str(number).encode()).hexdigest()
            day = BEGIN + timedelta(days=number // 40, minutes=7 * (number % 40))
            words = Words(
                captions=(Caption(text=sentence(number), source="exif"),),
                taken=day if number % 2 else None,
                taken_from="camera" if number % 2 else "",
                camera="made-up",
            )
            path = f"/made-up/{number % 211:03}/IMG_{number:08}.jpg"
            files.append(File(path, 1, 1, sha256=digest, words=words))
            own = {name: some[row] for name, some in vectors.items()}
            pixels[digest] = Pixels(400, 300, "JPEG", digest[:16], own)
        library.add(files, pixels)
    for start, _ in library.lagging("words", [CAPTIONS] if CAPTIONS in draws else []).items():
        last, texts = library.numbered("words", start, sys.maxsize)
        made = draws[CAPTIONS](rng, len(texts))
        library.fill("words", start, last, {CAPTIONS: dict(zip(texts, made, strict=True))})
    library.settle()


def whole(folder: Path, pictures: int, *, vectors: bool = True) -> Path:
    """A library of photographs of 12 megapixels and so many pictures without files, with base; made once."""
    home = folder / f"{'library' if vectors else 'list'}-{pictures}"
    if (home / "made").exists():
        return home
    album, rng = folder / "photographs", np.random.default_rng(0)
    album.mkdir(parents=True, exist_ok=True)
    for number in range(PHOTOGRAPHS):
        pixels = rng.integers(0, 255, (30, 40, 3), dtype=np.uint8)
        photograph = Image.fromarray(pixels).resize((4000, 3000), Image.Resampling.BICUBIC)
        photograph.save(album / f"IMG_{number:04}.jpg", quality=90)
    (album / "IMG_0000.txt").write_text("A fox paints a kite.")
    words = text_encoder()
    encoders = picture_encoders(["base"], [], sentences=words)
    index([album], Database(home), image_encoders=encoders, text_encoder=words)
    asked = [sentence(number * 37) for number in range(CENTRES)]
    origins = {"captions": words, "base": text_encoder("base", sentences=words)}
    draws = {name: walks(encoder.encode_text(asked)) for name, encoder in origins.items()}
    looks = rng.standard_normal((CENTRES, encoders[0].spaces["looks"]), dtype=np.float32)
    draws["looks"] = walks(unit_rows("looks", looks))
    fill(Database(home), pictures - PHOTOGRAPHS, draws if vectors else {})
    (home / "made").touch()
    return home
