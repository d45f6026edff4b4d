"""Fifty pictures that hold words, drawn from a seed, and how often a text finds the right one by them.

Screenshots, slides, signs, labels and recipe cards, among photographs; every file is named by a number, so
that nothing but its pixels tells what it says. Each is asked for by a sentence that does not quote it. With
the extra `ocr` the library is filled twice, with and without what the pictures say; the time of both is
told. Photographs come from LIMNER_DATA/data/flickr8k, where it is there.

Makes: docs/results/ordinary.md (words that pictures show).

    python benchmarks/words_in_pictures.py
"""

import random
import shutil
import tempfile
import time
import tomllib
from pathlib import Path

from harness import arguments, data_folder
from PIL import Image, ImageDraw, ImageFont

from limner.library import Library
from limner.progress import Progress

SEED = 38
KINDS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def drawn(kind: str, words: str, rng: random.Random) -> Image.Image:
    """One picture of a kind; all that is in it is its words."""
    size, (height, small) = KINDS[kind]["size"], KINDS[kind]["letters"]
    dark = kind == "sign" or rng.random() < 0.3
    tone = tuple(rng.randint(20, 90) if dark else rng.randint(205, 250) for _ in range(3))
    ink = (250, 250, 245) if dark else tuple(rng.randint(0, 70) for _ in range(3))
    picture = Image.new("RGB", size, tone)
    draw = ImageDraw.Draw(picture)
    head, *rest = words.split("|")
    left, top = rng.randint(40, 120), rng.randint(40, 140)
    draw.rectangle((left - 20, top - 20, size[0] - 30, top + height + 16), outline=ink, width=3)
    font = ImageFont.load_default(height)
    while font.getlength(head) > size[0] - left - 40:
        height -= 4
        font = ImageFont.load_default(height)
    draw.text((left, top), head, ink, font)
    for row, line in enumerate(rest, start=1):
        place = (left, top + height + 24 + (row - 1) * int(small * 1.7))
        draw.text(place, line, ink, ImageFont.load_default(min(small, height)))
    if kind in ("sign", "label"):  # photographed, not quite straight
        picture = picture.rotate(rng.uniform(-5, 5), Image.Resampling.BICUBIC, fillcolor=tone)
    return picture


def write(folder: Path, photographs: int) -> dict[str, str]:
    """Draw them, and put photographs beside them; sentence → name of the file that it asks for."""
    rng = random.Random(SEED)  # noqa: S311
    found = {}
    texts = ((kind, *text) for kind, about in KINDS.items() for text in about["pictures"])
    for number, (kind, words, asked) in enumerate(texts):
        name = f"{rng.getrandbits(32):08x}{number:02}"
        if kind in ("sign", "label"):
            drawn(kind, words, rng).save(folder / f"{name}.jpg", quality=88)
        else:
            drawn(kind, words, rng).save(folder / f"{name}.png")
        found[asked] = name
    there = sorted((data_folder() / "flickr8k" / "images").glob("*.jpg"))
    for number, file in enumerate(rng.sample(there, min(photographs, len(there)))):
        shutil.copy(file, folder / f"{number:08x}.jpg")
    return found


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--photographs", type=int, default=250, help="that lie beside them")
    parser.add_argument("--show", type=Path, help="write the pictures there, and do nothing else")
    options = parser.parse_args()
    if options.show:
        options.show.mkdir(parents=True, exist_ok=True)
        write(options.show, 0)
        return
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "pictures"
        folder.mkdir()
        asked = write(folder, options.photographs)
        for ocr in (False, True):
            library = Library(Path(place) / f"lib{ocr:d}")
            began = time.perf_counter()
            library.add(folder, ocr=ocr, progress=Progress())
            took = time.perf_counter() - began
            ranks = []
            for sentence, name in asked.items():
                hits = library.search(sentence, 10)
                stems = [Path(hit.picture.path).stem for hit in hits]
                ranks.append(stems.index(name) if name in stems else 99)
            first, five, ten = (sum(rank < k for rank in ranks) for k in (1, 5, 10))
            what = "with" if ocr else "without"
            print(
                f"{what} the words in pictures: {first} of {len(ranks)} first, {five} among five,"
                f" {ten} among ten; indexed in {took:.1f} s"
            )


if __name__ == "__main__":
    main()
