"""What a file of the encoder base finds on data that it was not trained on, from pixels alone.

Makes: docs/results/index.md (out of the box), docs/languages.md (words in six languages), and the card of the
  encoder `base`

    python benchmarks/base_results.py                         # both shipped files on the test splits
    python benchmarks/base_results.py --split val FILE ...    # other files, on validation

Every caption or page asks for its own picture among all pictures of its set and split. 95 % bootstrap
intervals by picture, in stories by story or source. Forty test photographs of Flickr8k are told in six
languages as well: these words ask for their photographs, and first for their second captions.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from embeddings import encoded
from harness import arguments, data_folder
from ordinary.translated import LANGUAGES, read_translated

from limner.arrays import FloatArray, TextEncoder
from limner.encoders.base_encoder import BaseImageEncoder
from limner.encoders.base_file import BaseTextEncoder, shipped_file
from limner.encoders.catalogue import MULTILINGUAL, SENTENCES, sentence_encoder
from limner.encoders.weight_files import WeightFile
from limner.research.datasets import split_source
from limner.research.datasets.pairs import MixtureEntry, Pair
from limner.research.datasets.sets.captions import read_captions
from limner.research.evaluation.ranking import different
from limner.research.evaluation.stories import same_document
from limner.research.evaluation.uncertainty import Interval, interval
from limner.research.runs.train import read_config

CONFIG = Path(__file__).parents[1] / "configs" / "base.toml"
HEAD = "| texts | queries | R@1 | R@5 | R@10 | MedR |\n|---|---|---|---|---|---|"
TITLE = {"flickr8k": "Flickr8k", "storybook": "storybook, released", "howto": "howto", "recipes": "recipes"}


def rows_of(name: str, entry: MixtureEntry, split: str) -> tuple[Pair, ...]:
    """The rows of one split, as 'limner train' splits the set."""
    where = entry.model_copy(update={"annotations": str(data_folder() / name)})
    return tuple(pair for pair in split_source(where).pairs if pair.split == split)


def ranks(texts: FloatArray, pictures: FloatArray, own: np.ndarray) -> np.ndarray:
    """1-based rank of each text's own picture; ties count against it."""
    scores = texts @ pictures.T
    return (scores >= scores[np.arange(len(own)), own][:, None]).sum(axis=1)


def shown(one: Interval) -> str:
    """A value and its interval, in percent."""
    value, low, high = (f"{100 * number:.1f}" for number in (one.value, one.low, one.high))
    return f"{value} ({low}–{high})"


def line(title: str, found: np.ndarray, groups: Sequence[str]) -> str:
    """A row of the table: recalls in percent and the median rank."""
    cells = [shown(interval((found <= k).astype(float), groups)) for k in (1, 5, 10)]
    middle = interval(found.astype(float), groups, "median")
    cells.append(f"{middle.value:g} ({middle.low:g}–{middle.high:g})")
    return f"| {title} | {len(found):,} | {' | '.join(cells)} |"


def in_languages(
    title: str,
    words: TextEncoder,
    gallery: FloatArray,
    place: dict[str, int],
    codes: Sequence[str] = LANGUAGES,
) -> None:
    """A row for each language in which forty photographs are told, and one for all but English."""
    told = read_translated()
    names = [Path(one.file_name).name for one in told]
    own = np.array([place[name] for name in names])

    def asked(code: str) -> np.ndarray:
        return ranks(words.encode_text([one.told(code) for one in told]), gallery, own)

    found = {code: asked(code) for code in codes}
    for code, each in found.items():
        print(line(f"Flickr8k, {title}{code}", each, names), flush=True)
    if others := [each for code, each in found.items() if code != "en"]:
        print(line(f"Flickr8k, {title}all but en", np.concatenate(others), names * len(others)), flush=True)


def by_captions() -> None:
    """The words in six languages against the second captions of the test photographs, by both encoders."""
    photographs = [one for one in read_captions(data_folder() / "flickr8k") if one.split == "test"]
    place = {Path(one.name).name: row for row, one in enumerate(photographs)}
    print(f"\ncaptions of {len(photographs):,} photographs\n\n{HEAD}")
    for name, codes in ((SENTENCES, ("en",)), (MULTILINGUAL, LANGUAGES)):
        words = sentence_encoder(name)
        gallery = words.encode_text([one.captions[1] for one in photographs])
        in_languages(f"{name}, ", words, gallery, place, codes)


def one_pin(looks: FloatArray, stories: Sequence[frozenset[str]]) -> float:
    """Share of the pictures of a story that one of its pictures finds among its first ten."""
    scores = looks @ looks.T
    np.fill_diagonal(scores, -np.inf)
    place = (-scores).argsort(axis=1).argsort(axis=1)
    found = [
        float(place[row, column] < 10)
        for row, own in enumerate(stories)
        for column, other in enumerate(stories)
        if row != column and own & other
    ]
    return float(np.mean(found))


def report(name: str, file: WeightFile, split: str) -> None:
    """The table of one file."""
    encoder = BaseImageEncoder(name, file)
    words = sentence_encoder()
    english = BaseTextEncoder(name, file, words)
    foreign = BaseTextEncoder(
        name,
        file,
        words,
        multilingual=sentence_encoder(MULTILINGUAL),
        foreign=lambda texts: [True] * len(texts),  # English, too, by the multilingual encoder
    )
    print(f"\n{name}, {split}, SHA-256 {file.sha256[:12]}\n")
    print(HEAD, flush=True)
    more = []
    for part, entry in read_config(CONFIG, []).data.mixture.items():
        pairs = rows_of(part, entry, split)
        columns, _ = different([pair.image_id for pair in pairs])
        first = np.unique(columns, return_index=True)[1]
        spaces = encoded(encoder, [pairs[row].image for row in first])
        joint, looks = spaces["base"], spaces["looks"]
        texts = [pair.text for pair in pairs]
        groups = [str(pair.meta.get("source") or pair.seq or pair.image_id) for pair in pairs]
        for title, reader in (("", english), (", multilingual encoder", foreign)):
            found = ranks(reader.encode_text(texts), joint, columns)
            print(line(f"{TITLE[part]}{title}", found, groups), flush=True)
        if entry.set == "captions" and split == "test":
            place = {Path(pairs[row].image).name: int(columns[row]) for row in first}
            in_languages("", foreign, joint, place)
            in_languages("minilm, ", english, joint, place, ("en",))
        if part == "storybook":
            stories: list[set[str]] = [set() for _ in first]
            for pair, column in zip(pairs, columns, strict=True):
                stories[column].add(pair.seq)
            frozen = [frozenset(own) for own in stories]
            measured = same_document(lambda some, others, looks=looks: looks[some] @ looks[others].T, frozen)
            found = one_pin(looks, frozen)
            more.append(
                f"Looks, storybook released: the nearest picture is of the same story for"
                f" {100 * measured['R@1']:.1f} % of the pictures, mean AP {measured['mAP']:.3f};"
                f" on average, {100 * found:.1f} % of a story's other pictures are among the ten nearest."
            )
    print("\n" + "\n".join(more), flush=True)


def main() -> None:
    options = arguments(__doc__)
    options.add_argument("files", nargs="*", type=Path)
    options.add_argument("--split", choices=("val", "test"), default="test")
    chosen = options.parse_args()
    files = [(file.stem, WeightFile(file)) for file in chosen.files] or [
        (name, shipped_file(name)) for name in ("base", "base-free")
    ]
    if chosen.split == "test":
        by_captions()
    for name, file in files:
        report(name, file, chosen.split)


if __name__ == "__main__":
    main()
