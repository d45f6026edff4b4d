"""Captions in six languages against 1,000 test photographs of Flickr8k: by their captions, by pixels.

Makes: docs/texts.md (words in six languages)

    python benchmarks/translated_captions.py [--pixels ENCODER --cache DIR]

The gallery has each photograph's second caption. English words are asked with both sentence encoders, the
others with the multilingual one. With --pixels the captions are hidden, and the photographs themselves are
compared, by an encoder that comes with limner.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from embeddings import data_folder, picture_vectors
from ordinary.translated import LANGUAGES, Translated, read_translated

from limner.arrays import FloatArray, TextEncoder
from limner.encoders.catalogue import MULTILINGUAL, SENTENCES, image_encoder, text_encoder
from limner.match.languages import foreign
from limner.research.datasets.sets.captions import CaptionedPicture, read_captions


def ranks(texts: FloatArray, gallery: FloatArray, own: list[int]) -> np.ndarray:
    """1-based rank of each text's own picture; ties count against it."""
    scores = texts @ gallery.T
    right = scores[np.arange(len(own)), own]
    return (scores >= right[:, None]).sum(axis=1)


def line(name: str, found: np.ndarray) -> str:
    """Recalls in percent and the median rank."""
    return (
        f"{name:28s} R@1 {100 * (found <= 1).mean():5.1f}  R@10 {100 * (found <= 10).mean():5.1f}"
        f"  MedR {np.median(found):5.1f}  n {len(found)}"
    )


def looked_at(
    name: str, cache: Path, photographs: Sequence[CaptionedPicture], told: list[Translated], own: list[int]
) -> None:
    """The same words against the photographs themselves."""
    files = [str(one.path) for one in photographs]
    gallery = picture_vectors(image_encoder(name), "flickr8k-test", files, cache)["base"]
    encoder = text_encoder(name, multilingual=text_encoder(MULTILINGUAL), foreign=foreign)
    every = []
    for code in LANGUAGES:
        found = ranks(encoder.encode_text([one.told(code) for one in told]), gallery, own)
        print(line(f"{code}, {name}", found))
        every += [found] if code != "en" else []
    print(line(f"all but English, {name}", np.concatenate(every)))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--pixels", help="an encoder that comes with limner, such as base")
    options.add_argument("--cache", type=Path, help="folder for vectors of pictures, reused")
    asked = options.parse_args()
    photographs = [one for one in read_captions(data_folder() / "flickr8k") if one.split == "test"]
    place = {one.name: row for row, one in enumerate(photographs)}
    told = read_translated()
    own = [place[one.file_name] for one in told]
    if asked.pixels:
        looked_at(asked.pixels, asked.cache, photographs, told, own)
        return
    gallery: dict[str, FloatArray] = {}
    readers: dict[str, TextEncoder] = {}
    for kind in (SENTENCES, MULTILINGUAL):
        readers[kind] = text_encoder(kind)
        gallery[kind] = readers[kind].encode_text([one.captions[1] for one in photographs])
    print(
        line(
            "en, minilm",
            ranks(readers[SENTENCES].encode_text([one.en for one in told]), gallery[SENTENCES], own),
        )
    )
    every = []
    for code in LANGUAGES:
        words = readers[MULTILINGUAL].encode_text([one.told(code) for one in told])
        found = ranks(words, gallery[MULTILINGUAL], own)
        print(line(f"{code}, use", found))
        every += [found] if code != "en" else []
    print(line("all but English, use", np.concatenate(every)))


if __name__ == "__main__":
    main()
