"""How often unwanted things show among the pictures found: before ``--without``, with it, negated in words.

Makes: docs/search.md (unwanted things, with and without `--without`)

    python benchmarks/search_without.py --to search-without

Indexes 2,000 photographs of Flickr8k's validation and test parts by the encoder that comes with limner,
without their captions, whose words say what a photograph shows. Prints shares of the best twenty: of 19
pairs of words, and of 25 photographs of its training part, from outside the library, for each of three
questions; see docs/search.md.
"""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from harness import arguments, data_folder

from limner.library import Library
from limner.match.illustrator import Illustrator
from limner.records import Candidate
from limner.research.datasets.sets.captions import CaptionedPicture, read_captions

Share = Callable[[Sequence[Candidate], str], float]
PICTURES, BEST, OUTSIDE = 2_000, 20, 25
SHOWS = {
    "people": r"(wo)?m[ae]n|boys?|girls?|persons?|people|child(ren)?|kids?|lad(y|ies)|guys?|baby|toddler"
    r"|players?|crowd|couple|someone|bikers?|skiers?|surfers?|climbers?|hikers?|riders?|cyclists?|skateboarders?|snowboarders?"
    r"|family|teenagers?|adults?|workers?|friends|(fe)?male|dancer|runner|swimmer|racer|motorcyclist|boater"
    r"|kayaker|musician|infant",
    "dog": r"dogs?|pupp(y|ies)|poodle|greyhounds?|terrier|retriever|collie|hound",
    "water": r"water|ocean|sea|lake|river|pool|waves?|beach|pond|swim\w*|surf\w*",
    "snow": r"snow\w*|ski\w*",
    "ball": r"balls?|soccer|football|basketball|tennis|baseball",
    "grass": r"grass\w*|field|lawn",
    "bicycle": r"bi(cycle|ke)s?|cyclist|biker",
    "horse": r"horses?",
    "beach": r"beach|sand|shore",
    "mountain": r"mountains?|rocks?|cliff",
    "street": r"street|city|sidewalk|road",
}
WORDS = {
    "a dog": ("dog", ("people", "water", "ball", "snow", "grass")),
    "a mountain": ("mountain", ("people",)),
    "snow": ("snow", ("people", "dog")),
    "the beach": ("beach", ("people", "dog")),
    "water": ("water", ("people", "dog")),
    "a horse": ("horse", ("people",)),
    "a street": ("street", ("people",)),
    "grass": ("grass", ("people", "dog")),
    "a ball": ("ball", ("people", "dog")),
    "a bicycle": ("bicycle", ("street",)),
}
LIKE = (("dog", "without", "water"), ("snow", "without", "people"), ("dog", "added", "snow"))


def shows(one: CaptionedPicture, thing: str) -> bool:
    """Whether a caption names it."""
    return re.search(rf"\b({SHOWS[thing]})\b", " ".join(one.captions).lower()) is not None


def by_words(asked: Illustrator, share: Share) -> None:
    """Unwanted and wanted things, before, with the option, and negated in words."""
    every = {}
    for words, (wanted, others) in WORDS.items():
        for unwanted in others:
            found = (
                asked.search(words, BEST),
                asked.search(words, BEST, without=[unwanted]),
                asked.search(f"{words} without {unwanted}", BEST),
            )
            every[f"{words}, {unwanted}"] = [
                share(one, thing) for thing in (unwanted, wanted) for one in found
            ]
    every[f"all {len(every)}"] = np.mean(list(every.values()), axis=0).tolist()
    for name, shares in every.items():
        print(line(name, shares))


def by_pictures(asked: Illustrator, outside: Sequence[CaptionedPicture], share: Share) -> None:
    """The same of photographs that show a thing, as questions."""
    for thing, option, word in LIKE:
        some = [one for one in outside if one.path and shows(one, thing)][:OUTSIDE]
        given = {"added": [word]} if option == "added" else {"without": [word]}
        every = []
        for one in some:
            seen = asked.look_at(Path(str(one.path)).read_bytes(), one.name, ".jpg")
            both = asked.like(seen, BEST), asked.like(seen, BEST, **given)
            every.append([share(found, about) for about in (word, thing) for found in both])
        print(line(f"{len(some)} photographs of {thing}, {option} {word}", np.mean(every, axis=0)))


def line(name: str, shares: Sequence[float] | np.ndarray) -> str:
    """A row of the table, in percent."""
    return f"| {name} | {' | '.join(f'{100 * one:.0f}' for one in shares)} |"


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--to", type=Path, required=True, help="folder of the library, reused")
    folder = parser.parse_args().to
    every = [one for one in read_captions(data_folder() / "flickr8k") if one.path]
    held = [one for one in every if one.split != "train"][:PICTURES]
    by_file = {Path(str(one.path)).name: one for one in held}
    Library(folder).add(*(str(one.path) for one in held), captions=False)
    asked = Library.open(folder).illustrator()

    def share(found: Sequence[Candidate], thing: str) -> float:
        return float(np.mean([shows(by_file[Path(one.picture.path).name], thing) for one in found]))

    print(
        "| question, unwanted | unwanted: before | with the option | in words"
        " | wanted: before | with the option | in words |\n|---|---:|---:|---:|---:|---:|---:|"
    )
    by_words(asked, share)
    print(
        "\n| question | the word's thing: before | with the option"
        " | the picture's: before | with the option |\n|---|---:|---:|---:|---:|"
    )
    by_pictures(asked, [one for one in every if one.split == "train"], share)


if __name__ == "__main__":
    main()
