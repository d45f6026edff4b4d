"""What the raters of an item agree on: the majority of its votes, or none.

One rule for both protocols: an answer counts as the item's where more than half of its votes give it, and an
item counts once it has two votes. It tests nothing and prints nothing.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Literal

from limner.data.records import Record
from limner.data.studies import Answer, Item, KeyEntry, StudyFiles, Vote, check_votes

LEAST_VOTES = 2
PairOutcome = Literal["better", "worse", "same", "neither", "no majority"]
PAIR_OUTCOMES: tuple[PairOutcome, ...] = ("better", "worse", "same", "neither", "no majority")
NO_MAJORITY = "no majority"
NOTHING = "nothing"


class Decided(Record):
    """What came out for one item.

    Attributes:
        item: its id.
        stratum: of the item.
        cluster: items of one cluster are not independent.
        outcome: pairwise: a `PairOutcome`; tick-all: letters of the ticked systems in order, such as ``AB``,
            ``nothing`` or ``no majority``.
        votes: that the outcome received; without a majority, the most that any answer received.
        cast: votes on the item; 0 of a pair that was pre-filled.
        score: pairwise: +1 better, −1 worse, 0 else. Tick-all: +1 where more than half of the raters tick B
            and not C, each by itself, −1 the other way round, 0 else.
        prefilled: nobody was asked.
    """

    item: str
    stratum: str
    cluster: str
    outcome: str
    votes: int
    cast: int
    score: int
    prefilled: bool = False


class Tally(Record):
    """All items of a study after its votes, attention checks left out.

    Attributes:
        decided: items with two votes or more, and those pre-filled, in the order of the study.
        unrated: items with fewer votes, which count nowhere.
        incomplete: items with two votes or more, but fewer than registered.
        answers: item → the meaning of every vote on it, in the order of the raters' ids.
    """

    decided: tuple[Decided, ...]
    unrated: tuple[str, ...]
    incomplete: int
    answers: Mapping[str, tuple[str, ...]]


class CheckedRaters(Record):
    """Who answered attention checks, and who failed one.

    Attributes:
        raters: all who cast a vote.
        answered: votes on attention checks.
        wrong: of them not the answer due.
        failed: raters with one wrong answer or more, sorted.
        unchecked: raters who met no check.
    """

    raters: int
    answered: int
    wrong: int
    failed: tuple[str, ...]
    unchecked: int


def tally(files: StudyFiles, votes: Iterable[Vote], without: Iterable[str] = ()) -> Tally:
    """Majorities of all items.

    Args:
        files: of the study.
        votes: from any source.
        without: raters whose votes are left out.
    Raises:
        DataError: a vote that does not fit its item, or two of one rater on one item.
    """
    left_out = set(without)
    by_item: dict[str, list[Vote]] = defaultdict(list)
    for vote in check_votes(votes, files.items, files.study.protocol):
        if vote.rater not in left_out:
            by_item[vote.item].append(vote)
    least = min(LEAST_VOTES, files.study.raters_per_item)
    decided, unrated, incomplete, answers = [], [], 0, {}
    for item in files.items:
        entry = files.key.items[item.id]
        if entry.right is not None:
            continue
        if item.prefilled:
            decided.append(_decided(item, entry, (), prefilled=True))
            continue
        cast = sorted(by_item[item.id], key=lambda vote: vote.rater)
        meant = tuple(meaning(vote.answer, entry) for vote in cast)
        if len(meant) < least:
            unrated.append(item.id)
            continue
        answers[item.id] = meant
        incomplete += len(meant) < files.study.raters_per_item
        decided.append(_decided(item, entry, meant))
    return Tally(decided=tuple(decided), unrated=tuple(unrated), incomplete=incomplete, answers=answers)


def meaning(answer: Answer, entry: KeyEntry) -> str:
    """An answer in terms of the systems: A better (``better``), B better (``worse``), … or letters ticked.

    A ticked picture that several systems share is a tick for each of them.
    """
    if isinstance(answer, str):
        if answer not in ("first", "second"):
            return answer
        return "better" if entry.systems[answer] == ("A",) else "worse"
    letters = sorted({letter for candidate in answer for letter in entry.systems[candidate]})
    return "".join(letters) or NOTHING


def checked(files: StudyFiles, votes: Iterable[Vote]) -> CheckedRaters:
    """Who answered attention checks, and who failed one."""
    raters: set[str] = set()
    met: set[str] = set()
    failed: set[str] = set()
    answered = wrong = 0
    for vote in votes:
        raters.add(vote.rater)
        due = files.key.items[vote.item].right
        if due is None:
            continue
        met.add(vote.rater)
        answered += 1
        if vote.answer != due:
            wrong += 1
            failed.add(vote.rater)
    return CheckedRaters(
        raters=len(raters),
        answered=answered,
        wrong=wrong,
        failed=tuple(sorted(failed)),
        unchecked=len(raters - met),
    )


def majority(answers: Iterable[str]) -> tuple[str, int]:
    """The answer of more than half of the votes and how many gave it, else ``no majority`` and the most."""
    counts = Counter(answers)
    if not counts:
        return NO_MAJORITY, 0
    answer, most = counts.most_common(1)[0]
    return (answer if 2 * most > counts.total() else NO_MAJORITY), most


def _decided(item: Item, entry: KeyEntry, meant: tuple[str, ...], *, prefilled: bool = False) -> Decided:
    outcome, most = ("same", 0) if prefilled else majority(meant)
    return Decided(
        item=item.id,
        stratum=item.stratum,
        cluster=entry.cluster or item.id,
        outcome=outcome,
        votes=most,
        cast=len(meant),
        score=_score(outcome, meant),
        prefilled=prefilled,
    )


def _score(outcome: str, meant: tuple[str, ...]) -> int:
    if outcome in ("better", "worse"):
        return 1 if outcome == "better" else -1
    ticks = [set() if vote in (NOTHING, *PAIR_OUTCOMES) else set(vote) for vote in meant]
    chosen = [2 * sum(letter in one for one in ticks) > len(ticks) for letter in "BC"]
    return int(chosen[0]) - int(chosen[1])
