"""Jobs: a text, a library that holds its pictures, and what is right for every step.

    from ordinary.jobs import jobs
    for job in jobs("unrelated", "shown", 300, "choose", encoders=(sentences, eyes), cache=folder):
        ...

Texts are packed into libraries of the size asked for, so that small libraries are many different draws, and
filled up with other pictures. Jobs of one library share one gallery object.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path

from embeddings import CachedText

from limner.encoders.catalogue import MULTILINGUAL, text_encoder
from limner.errors import ConfigError, DataError, unknown
from limner.records import Picture, Story
from limner.store.vectors import Gallery
from ordinary import texts
from ordinary.pictures import STORY_SETS, Encoders, Part, Pool, Supply, Words, supply
from ordinary.texts import CAPTIONS, TARGET_STEPS, Lack, Photographs, Text

SIZES = (30, 300, 1000, 5000)
PARTS: tuple[Part, ...] = ("fit", "choose", "report")
OF_CAPTIONS = ("unrelated", "same-noun", "one-photograph", "magazine", "translated")
WORDS: dict[str, tuple[Words, ...]] = {
    "books": ("shown", "hidden", "third"),
    **dict.fromkeys(STORY_SETS, ("hidden",)),
    "storybook": ("shown", "hidden", "third"),
    **dict.fromkeys(OF_CAPTIONS, ("shown", "hidden", "third")),
}
"""Kind of text → what its pictures' words can be. Of story sets, picture books alone have any beside the
text: those of validation, and thirty of the test part."""
KINDS = tuple(WORDS)


@dataclass(frozen=True)
class Job:
    """A text to illustrate from a library, and the answers.

    Attributes:
        kind: of text, one of `KINDS`.
        words: whether the pictures' words are shown, hidden, or shown for a third of the pictures.
        size: pictures of the library, as asked for.
        part: fit, choose or report.
        gallery: the library; one object for all jobs of it. Space ``captions`` has a row for every picture,
            present where its words are shown; so has ``multilingual``, for texts in other languages.
        records: ids → pictures, as `illustrate` needs them.
        story: the text.
        own: per step the ids of its own picture; empty where the library has none.
        fits: per step what a reader would accept: `own`, its near-duplicates, and further pictures of the
            story or photographs of which people wrote the same.
        lacks: per step why nothing fits, "" where something does.
    """

    kind: str
    words: Words
    size: int
    part: Part
    gallery: Gallery
    records: Callable[[Sequence[str]], list[Picture]]
    story: Story
    own: tuple[frozenset[str], ...]
    fits: tuple[frozenset[str], ...]
    lacks: tuple[Lack, ...]


def jobs(
    kind: str,
    words: Words,
    size: int,
    part: Part,
    *,
    encoders: Encoders,
    cache: Path,
    limit: int | None = None,
) -> list[Job]:
    """All jobs of one cell of the table.

    Args:
        kind: one of `KINDS`.
        words: one of `WORDS[kind]`.
        size: pictures per library.
        part: whose pictures and stories.
        encoders: of sentences, and of pixels; without the latter a gallery has no space but ``captions``.
        cache: folder of vectors and drawings, reused.
        limit: texts at most, the first ones.
    Raises:
        ConfigError: an unknown kind, or words that its pictures do not have.
        DataError: too few pictures or no text for this size and part.
    """
    if kind not in WORDS:
        raise ConfigError("jobs: " + unknown("kind", kind, KINDS))
    if words not in WORDS[kind]:
        raise ConfigError(f"jobs: pictures of {kind} have no words of their own; use {WORDS[kind][0]!r}")
    stock = supply(encoders[0], tuple(encoders[1]), cache)
    others = []
    if kind == "translated":
        if part != "report":
            raise DataError(
                f"jobs: told in other languages are photographs of the report alone, not of {part}"
            )
        others = [CachedText(text_encoder(MULTILINGUAL), cache)]
    judged = None
    if kind in OF_CAPTIONS:
        judged = Photographs(stock, Pool.joined([stock.photographs(part), stock.further(part)]))
    made: list[Job] = []
    steps = 0
    literal = stock.literal(kind) if kind in STORY_SETS and words != "hidden" else None
    for number, every in enumerate(rounds(stock, kind, part, judged)):
        told = every if literal is None else [text for text in every if text.needs <= literal.keys()]
        other = partial(fillers, stock, kind, part)
        for library, chosen in packed(told, size, other, f"{kind}/{part}/{number}"):
            gallery = library.gallery(library.ids, words, stock.text, others)
            records = library.records(words)
            for text in chosen:
                own, fits = answers(text, gallery, judged)
                made.append(Job(kind, words, size, part, gallery, records, text.story, own, fits, text.lacks))
                steps += len(own)
            if limit is not None and len(made) >= limit:
                return made[:limit]
            if steps >= TARGET_STEPS:
                return made
    if not made:
        raise DataError(f"jobs: no text of {kind} ({part}) has its pictures in a library of {size}")
    return made


def rounds(stock: Supply, kind: str, part: Part, judged: Photographs | None) -> Iterator[list[Text]]:
    """Texts of a kind: all at once, or for photographs caption by caption."""
    if kind == "books":
        yield texts.books(stock, part)
    elif judged is None:
        yield texts.stories(stock, kind, part)
    elif kind == "translated":
        yield texts.translated(judged)
    else:
        for number in range(len(CAPTIONS)):
            if kind == "magazine":
                yield texts.magazine(stock, part, number, judged)
            else:
                yield texts.captions(stock, kind, part, number, judged)


def packed(
    told: Sequence[Text], size: int, others: Callable[[], Iterator[Pool]], name: str
) -> Iterator[tuple[Pool, list[Text]]]:
    """Texts with the pictures of a library of `size` that holds all of theirs.

    A text with more pictures than that is left out.

    Args:
        told: the texts, in the order in which they are packed.
        size: of every library.
        others: pools that libraries are filled from, those of the texts' own pictures among them.
        name: of the kind, part and round; says what is drawn.
    Raises:
        DataError: there are not enough other pictures.
    """
    held: set[str] = set()
    chosen: list[Text] = []
    batches: list[tuple[set[str], list[Text]]] = []
    for text in told:
        if len(text.needs) > size:
            continue
        if len(held | text.needs) > size:
            batches.append((held, chosen))
            held, chosen = set(), []
        held, chosen = held | text.needs, [*chosen, text]
    if chosen:
        batches.append((held, chosen))
    for place, (needed, batch) in enumerate(batches):
        bars = frozenset(chain.from_iterable(text.bars for text in batch))
        lacking = size - len(needed)
        filling: list[str] = []
        pools: list[Pool] = []
        for pool in others():
            pools.append(pool)
            free = [one for one in pool.ids if one not in needed and one not in bars]
            order = texts.random(name, size, place, len(pools)).permutation(len(free))
            filling += [free[row] for row in order[: lacking - len(filling)]]
            if len(filling) >= lacking and needed <= {one for used in pools for one in used.ids}:
                break
        if len(filling) < lacking:
            raise DataError(
                f"jobs: {name} has {len(needed) + len(filling)} pictures for a library of {size};"
                " ask for a smaller one"
            )
        wanted = needed | set(filling)
        yield Pool.joined(pools).where(wanted.__contains__), batch


def fillers(stock: Supply, kind: str, part: Part) -> Iterator[Pool]:
    """Other pictures for a library, those of the same kind first; read only as far as needed."""
    if kind == "books":
        yield stock.books(part)[3]
    elif kind in STORY_SETS:
        yield stock.pages(kind, part)
    yield stock.photographs(part)
    yield stock.further(part)
    if kind != "magazine":  # paragraphs of other domains must find nothing of theirs
        if kind != "books":
            yield stock.books(part)[3]
        yield from (stock.pages(name, part) for name in STORY_SETS if name != kind)


def answers(
    text: Text, gallery: Gallery, judged: Photographs | None
) -> tuple[tuple[frozenset[str], ...], tuple[frozenset[str], ...]]:
    """Per step what is its own and what fits, of the pictures that the library holds."""
    group = dict(zip(gallery.ids, gallery.groups, strict=True))
    mates: dict[str, set[str]] = {}
    for one, name in group.items():
        mates.setdefault(name, set()).add(one)
    near: Sequence[frozenset[str]] = [frozenset()] * len(text.own)
    if judged is not None and text.photographs:
        near = judged.fitting([step.text for step in text.story.steps])
    own, fits = [], []
    for s, wanted in enumerate(text.own):
        here = wanted & group.keys()
        accepted = here | ((text.kin[s] | near[s]) & group.keys())
        accepted |= {mate for one in accepted for mate in mates[group[one]]}
        own.append(frozenset(here))
        fits.append(frozenset(accepted))
    return tuple(own), tuple(fits)
