"""Attention checks: items that say themselves which answer is due.

A rater who reads cannot miss them, and one who clicks the same answer everywhere misses some: two different
answers take turns. No field but their text tells them from other items. Nothing is counted here.
"""

from collections.abc import Sequence

from limner.data.studies import PAIR_WORDS, Answer, Candidate, Item, KeyEntry, PairAnswer, Protocol
from limner.evaluation.study_sampling import shuffled

PAIR_DUE: tuple[PairAnswer, ...] = ("neither", "same")
TICKED = 3


def attention_checks(
    protocol: Protocol, pages: Sequence[Sequence[tuple[Item, KeyEntry]]], count: int, seed: int
) -> list[list[tuple[Item, KeyEntry]]]:
    """Pages of one check each.

    Args:
        protocol: pairwise or tick-all.
        pages: those that raters are shown; their pictures are used again.
        count: checks wanted.
        seed: of the choice of pictures.
    Returns:
        As many; none where the pages have fewer than two different pictures.
    """
    pictures = sorted({one.picture for page in pages for item, _ in page for one in item.candidates})
    strata = [page[0][0].stratum for page in pages]
    if len(pictures) < 2:
        return []
    found = []
    for number in range(count):
        stratum = strata[int(shuffled(map(str, range(len(strata))), seed, "check stratum", number)[0])]
        chosen = shuffled(pictures, seed, "check", number)
        made = _pair(chosen, number) if protocol == "pairwise" else _ticks(chosen, number)
        item, due = made
        found.append([(item.model_copy(update={"stratum": stratum}), KeyEntry(right=due))])
    return found


def _pair(pictures: Sequence[str], number: int) -> tuple[Item, Answer]:
    due = PAIR_DUE[number % len(PAIR_DUE)]
    item = Item(
        id="x",
        text=f"This is a check that texts are read. Whatever the pictures show, answer “{PAIR_WORDS[due]}”.",
        candidates=(
            Candidate(id="first", picture=pictures[0]),
            Candidate(id="second", picture=pictures[1]),
        ),
    )
    return item, due


def _ticks(pictures: Sequence[str], number: int) -> tuple[Item, Answer]:
    chosen = pictures[:TICKED]
    ids = "abc"[: len(chosen)]
    every = number % 2 == 0
    told = "tick every picture of this step" if every else "tick no picture of this step"
    item = Item(
        id="x",
        text=f"This is a check that texts are read. Whatever the pictures show, {told}.",
        candidates=tuple(Candidate(id=name, picture=one) for name, one in zip(ids, chosen, strict=True)),
        sequence="x",
    )
    return item, tuple(ids) if every else ()
