"""The texts of the jobs: whole stories, and articles put together from captions of photographs.

A text knows the pictures that belong to each step, what its library must hold, and what it must not hold.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from limner.arrays import unit_rows
from limner.language import split_sentences, stem, words
from limner.pictures.hashes import near_groups
from limner.records import Step, Story, blocks_of_steps
from ordinary.pictures import LOOK_ALIKES, STORY_SETS, Part, Pool, Supply, dealt, own_of
from ordinary.translated import LANGUAGES, read_translated

EIGHT = 8
TARGET_STEPS = 2000
CAPTIONS = (0, 2, 3, 4)  # texts of the first round, the second, …; caption 1 is the library's
FITS = 0.55
"""Mean cosine of a text with the five captions of a photograph from which it is said to fit: by eye on
validation, such photographs show the same kind of thing doing the same."""
DOUBTFUL = 0.45
"""From here to `FITS` a photograph may fit or not: none is in a library of which we say that nothing fits."""
NOUNS = (
    "dog", "beach", "snow", "bike", "ball", "water", "grass", "street", "mountain", "rock", "football",
    "skateboard", "pool", "field", "car", "girl", "boy", "woman", "man", "child",
)  # fmt: skip
FITTING, LEAD_SENTENCES = 6, 2
WITHHELD = (
    14  # one photograph in so many is taken out of all libraries of a round, with all that look like it
)

Lack = Literal["", "foreign", "withheld"]


@dataclass(frozen=True)
class Text:
    """A text before it has a library.

    Attributes:
        story: the words, without pictures.
        own: per step the ids of its own picture; empty where the library must not hold any.
        kin: per step further pictures that fit wherever they are in the library.
        lacks: per step why nothing fits: "foreign" (a paragraph of another domain), "withheld" (its picture
            and all that look like it are taken out), or "".
        needs: pictures that its library holds.
        bars: pictures that its library must not hold.
        photographs: whether photographs are judged by what people wrote of them.
    """

    story: Story
    own: tuple[frozenset[str], ...]
    kin: tuple[frozenset[str], ...]
    lacks: tuple[Lack, ...]
    needs: frozenset[str]
    bars: frozenset[str] = frozenset()
    photographs: bool = False


def random(*names: object) -> np.random.Generator:
    """A generator that depends on the names alone."""
    return np.random.default_rng(dealt("/".join(map(str, names)), 2**40))


def books(supply: Supply, part: Part) -> list[Text]:
    """Drawn books; every page of the story fits, the look-alikes beside them do not."""
    made, pages, others, _ = supply.books(part)
    found = []
    for book, own, near in zip(made, pages, others, strict=True):
        assert len(near) == LOOK_ALIKES
        story = book.story.model_copy(update={"id": f"book-{part}-{book.story.id}"})
        found.append(whole(story, own, frozenset(near)))
    return found


def whole(story: Story, own: Sequence[str], beside: frozenset[str] = frozenset()) -> Text:
    """A story whose steps all have a picture; those of the other steps fit too."""
    steps, blocks = blocks_of_steps([Step(text=step.text, title=step.title) for step in story.steps])
    every = frozenset(own)
    return Text(
        story.model_copy(update={"steps": steps, "blocks": blocks}),
        tuple(frozenset((one,)) for one in own),
        (every,) * len(own),
        ("",) * len(own),
        every | beside,
    )


def stories(supply: Supply, name: str, part: Part) -> list[Text]:
    """Documents of a set; those of one step come eight to a text, as on a page of news or of dishes."""
    found, single = [], []
    for story in supply.stories(name, part):
        own = [own_of(story, s) for s in range(len(story.steps))]
        if len(own) > 1:
            found.append(whole(story, own))
        else:
            single.append((story, own[0]))
    order = random(name, part, "single").permutation(len(single))
    for number, start in enumerate(range(0, len(single), EIGHT)):
        chosen = [single[row] for row in order[start : start + EIGHT]]
        steps = [(lead(story.steps[0].text), picture, "") for story, picture in chosen]
        found.append(of_steps(f"{name}-{part}-page{number}", steps))
    return found


def lead(text: str) -> str:
    """Its first two sentences, which name the matter."""
    return " ".join(split_sentences(text)[:LEAD_SENTENCES])


def of_steps(name: str, steps: Sequence[tuple[str, str, Lack]], **more: Any) -> Text:
    """A text of steps: words, the id of their own picture or "", and why nothing fits."""
    own = tuple(frozenset((picture,) if picture else ()) for _, picture, _ in steps)
    return Text(
        Story(id=name, steps=tuple(Step(text=words) for words, _, _ in steps)),
        own,
        lacks=tuple(lack for _, _, lack in steps),
        needs=frozenset().union(*own),
        **({"kin": (frozenset(),) * len(own)} | more),
    )


def unrelated(pool: Pool, caption: int, rng: np.random.Generator) -> list[list[int]]:
    """Eights of photographs drawn at random."""
    order = rng.permutation(len(pool.ids))
    return [order[start : start + EIGHT].tolist() for start in range(0, len(order) - EIGHT + 1, EIGHT)]


def same_noun(pool: Pool, caption: int, rng: np.random.Generator) -> list[list[int]]:
    """Eights whose captions share a noun; a photograph goes with the rarest of its nouns."""
    holding: dict[str, list[int]] = {noun: [] for noun in NOUNS}
    for row in rng.permutation(len(pool.ids)).tolist():
        said = {stem(word) for word in words(pool.captions[row][caption])}
        for noun in NOUNS:
            if stem(noun) in said:
                holding[noun].append(row)
    found: list[list[int]] = []
    used: set[int] = set()
    for noun in sorted(NOUNS, key=lambda noun: len(holding[noun])):
        free = [row for row in holding[noun] if row not in used]
        eights = [free[start : start + EIGHT] for start in range(0, len(free) - EIGHT + 1, EIGHT)]
        used |= {row for eight in eights for row in eight}
        found += eights
    rng.shuffle(found)
    return found


def one_photograph(means: np.ndarray, rng: np.random.Generator) -> list[list[int]]:
    """A photograph and the seven nearest to it by their captions; half of the photographs are used up."""
    free = np.ones(len(means), dtype=bool)
    found = []
    for seed in rng.permutation(len(means)).tolist():
        if free.sum() < len(means) / 2 or free.sum() < EIGHT:
            break
        if not free[seed]:
            continue
        near = np.where(free, means @ means[seed], -np.inf)
        near[seed] = np.inf
        eight = np.argsort(-near, kind="stable")[:EIGHT]
        free[eight] = False
        found.append(rng.permutation(eight).tolist())
    return found


class Photographs:
    """What people wrote of the photographs, as the truth of what fits them."""

    def __init__(self, supply: Supply, pool: Pool) -> None:
        self.pool, self.text = pool, supply.text
        self.row = {one: row for row, one in enumerate(pool.ids)}
        said = [caption for own in pool.captions for caption in own]
        vectors = self.text.encode_text(said).reshape(len(pool.ids), -1, self.text.dim)
        self.each = vectors
        self.means = vectors.mean(axis=1)
        self.groups = near_groups(pool.hashes)

    def copies(self, picture: str) -> set[str]:
        """Near-duplicates of a photograph, itself among them."""
        same = np.flatnonzero(self.groups == self.groups[self.row[picture]])
        return {self.pool.ids[row] for row in same}

    def like(self, caption: int, row: int, limit: float) -> set[str]:
        """Photographs that a caption of one of them fits at least as well as `limit`."""
        near = self.means @ self.each[row, caption]
        return {self.pool.ids[other] for other in np.flatnonzero(near >= limit)} - {self.pool.ids[row]}

    def fitting(self, texts: Sequence[str], limit: float = FITS) -> list[frozenset[str]]:
        """Per text the photographs it fits."""
        near = self.text.encode_text(texts) @ self.means.T
        return [frozenset(self.pool.ids[row] for row in np.flatnonzero(one >= limit)) for one in near]


def captions(supply: Supply, kind: str, part: Part, number: int, judged: Photographs) -> list[Text]:
    """One round of texts of captions: every round uses another caption of the photographs."""
    pool = supply.photographs(part)
    caption = CAPTIONS[number]
    rng = random(kind, part, number)
    if kind == "one-photograph":
        rows = [judged.row[one] for one in pool.ids]
        eights = one_photograph(unit_rows(kind, judged.means[rows]), rng)
    else:
        eights = (unrelated if kind == "unrelated" else same_noun)(pool, caption, rng)
    name = f"{kind}-{part}-{number}"
    steps = [[(pool.captions[row][caption], pool.ids[row], "") for row in rows] for rows in eights]
    return [of_steps(f"{name}-{place:03d}", one, photographs=True) for place, one in enumerate(steps)]


def magazine(supply: Supply, part: Part, number: int, judged: Photographs) -> list[Text]:
    """Articles of six paragraphs with a picture, one of another domain, and one whose picture is withheld."""
    pool = supply.photographs(part)
    caption = CAPTIONS[number]
    rng = random("magazine", part, number)
    order = rng.permutation(len(pool.ids)).tolist()
    hidden = order[: len(order) // WITHHELD]
    bars = {pool.ids[row] for row in hidden}
    for row in hidden:
        bars |= judged.like(caption, judged.row[pool.ids[row]], DOUBTFUL) | judged.copies(pool.ids[row])
    free = [row for row in order if pool.ids[row] not in bars]
    strangers = foreign(supply, part, judged)
    strangers = [strangers[row] for row in rng.permutation(len(strangers))]
    found = []
    for place in range(min(len(hidden), len(free) // FITTING, len(strangers))):
        rows = free[place * FITTING : (place + 1) * FITTING]
        steps = [(pool.captions[row][caption], pool.ids[row], "") for row in rows]
        steps.append((strangers[place], "", "foreign"))
        steps.append((pool.captions[hidden[place]][caption], "", "withheld"))
        steps = [steps[at] for at in rng.permutation(len(steps))]
        name = f"magazine-{part}-{number}-{place:03d}"
        found.append(of_steps(name, steps, bars=frozenset(bars), photographs=True))
    return found


def translated(judged: Photographs) -> list[Text]:
    """Test photographs told in other languages, eight to a text; the English words say what fits."""
    told = read_translated()
    near = judged.fitting([one.en for one in told])
    found = []
    for language in LANGUAGES[1:]:
        for start in range(0, len(told) - EIGHT + 1, EIGHT):
            chosen = told[start : start + EIGHT]
            steps = [(one.told(language), one.file_name, "") for one in chosen]
            kin = tuple(near[start : start + EIGHT])
            found.append(of_steps(f"translated-{language}-{start}", steps, kin=kin))
    return found


def foreign(supply: Supply, part: Part, judged: Photographs) -> list[str]:
    """Paragraphs of guides, articles and story books that no available photograph fits."""
    found: list[str] = []
    for name in STORY_SETS:
        if name != "recipes":
            pages = [step.text for story in supply.stories(name, part) for step in story.steps]
            found += [lead(text) for text in pages]
    found = list(dict.fromkeys(found))
    fits = judged.fitting(found, DOUBTFUL)
    return [text for text, near in zip(found, fits, strict=True) if not near]
