"""The registered analysis of a human study: counts, tests, power and agreement per stratum.

Computes every number in a report's tables, once with all raters and once without those who failed an
attention check.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import median

import numpy as np

from limner.config import Record
from limner.errors import counted
from limner.research.evaluation.uncertainty import RESAMPLES, Interval, holm, interval
from limner.research.study.assignment import units
from limner.research.study.records import Answer, Item, KeyEntry, Protocol, StudyFiles, Vote, check_votes
from limner.research.study.statistics import (
    Agreement,
    MeanTest,
    Power,
    SignTest,
    agreement,
    mean_test,
    power_of,
    sign_test,
)

LEAST_VOTES = 2
NO_MAJORITY = "no majority"
NOTHING = "nothing"
PAIR_OUTCOMES = ("better", "worse", "same", "neither", NO_MAJORITY)


class Decided(Record):
    """Result of one item.

    Attributes:
        item: id of the item.
        stratum: stratum of the item.
        cluster: group of dependent items.
        outcome: pairwise: one of `PAIR_OUTCOMES`; tick-all: letters of the ticked systems in order, such as
            ``AB``, ``nothing`` or ``no majority``.
        votes: number of votes for the outcome; without a majority, for the most frequent answer.
        score: pairwise: +1 better, −1 worse, else 0. Tick-all: +1 if a majority ticks B but no majority ticks
            C, −1 in the reverse case, else 0.
        prefilled: whether the pair was pre-filled, so that no rater was asked.
    """

    item: str
    stratum: str
    cluster: str
    outcome: str
    votes: int
    score: int
    prefilled: bool = False


class Tally(Record):
    """Outcomes of all items of a study except attention checks.

    Attributes:
        decided: items with enough votes (`LEAST_VOTES`) and pre-filled ones, in the order of the study.
        unrated: ids of items with fewer votes, which are not counted.
        incomplete: number of items with enough votes, but fewer than registered.
        answers: item → meaning of each vote on it, in the order of the raters' ids.
    """

    decided: tuple[Decided, ...]
    unrated: tuple[str, ...]
    incomplete: int
    answers: Mapping[str, tuple[str, ...]]


class CheckedRaters(Record):
    """Results of the attention checks.

    Attributes:
        raters: number of raters who voted.
        answered: number of votes on attention checks.
        wrong: number of wrong votes among them.
        failed: raters with at least one wrong vote, sorted.
        unchecked: number of raters who answered no check.
    """

    raters: int
    answered: int
    wrong: int
    failed: tuple[str, ...]
    unchecked: int


class Withdrawn(Record):
    """Items and votes left out because raters withdrew.

    Attributes:
        raters: number of raters who withdrew after voting.
        votes: number of their votes, including attention checks.
    """

    raters: int
    votes: int


def withdrawn(votes: Iterable[Vote]) -> Withdrawn:
    """Count the withdrawn votes and the raters who cast them."""
    gone = [vote.rater for vote in votes if vote.answer is None]
    return Withdrawn(raters=len(set(gone)), votes=len(gone))


class Flags(Record):
    """Suspicious votes, for the reader to check; none is excluded.

    Attributes:
        untimed: number of votes that took 0 seconds.
        untimed_by: raters who cast them, sorted.
        hurried: number of other votes cast faster than their page can be read, see `least_seconds`.
        hurried_by: raters who cast them, sorted.
        hurried_s: median seconds of those votes; None if there are none.
        crowds: number of crowds: raters who began shortly after one another from one network address.
        crowded: raters in a crowd who voted, sorted.
        crowd_votes: number of their votes, including attention checks.
        crowd_items: number of items, without attention checks, on which one crowd cast most of the votes.
    """

    untimed: int
    untimed_by: tuple[str, ...]
    hurried: int = 0
    hurried_by: tuple[str, ...] = ()
    hurried_s: float | None = None
    crowds: int
    crowded: tuple[str, ...]
    crowd_votes: int
    crowd_items: int = 0


LETTERS_A_SECOND = 50
"""About ten English words: more than twice the average silent reading speed (238 words a minute;
Brysbaert 2019, Journal of Memory and Language 109)."""
PICTURE_S = 0.25
"""Duration of one fixation (Rayner 2009, Quarterly Journal of Experimental Psychology 62)."""


def least_seconds(items: Iterable[Item]) -> float:
    """Least seconds needed to read a page and look at its pictures.

    Args:
        items: items of the page. Only the text to judge counts, not the rest of its story.
    """
    return sum(
        len(item.text) / LETTERS_A_SECOND
        + PICTURE_S * sum(candidate.picture is not None for candidate in item.candidates)
        for item in items
    )


def flags(files: StudyFiles, votes: Iterable[Vote], crowds: Mapping[str, str]) -> Flags:
    """Count suspicious votes.

    Args:
        files: files of the study.
        votes: votes that were not withdrawn.
        crowds: rater → crowd, see `limner.research.study.recruitment`.
    """
    cast = list(votes)
    untimed = [vote.rater for vote in cast if vote.seconds <= 0]
    pages = units(files.items, files.key.checks).values()
    least = {item.id: least_seconds(page.items) for page in pages for item in page.items}
    hurried = [vote for vote in cast if 0 < vote.seconds < least[vote.item]]
    crowded = [vote.rater for vote in cast if vote.rater in crowds]
    of_items: dict[str, list[str]] = defaultdict(list)
    for vote in cast:
        if vote.item not in files.key.checks:
            of_items[vote.item].append(crowds.get(vote.rater, ""))
    decided = [majority(names)[0] in set(crowds.values()) for names in of_items.values()]
    return Flags(
        untimed=len(untimed),
        untimed_by=tuple(sorted(set(untimed))),
        hurried=len(hurried),
        hurried_by=tuple(sorted({vote.rater for vote in hurried})),
        hurried_s=median(vote.seconds for vote in hurried) if hurried else None,
        crowds=len({crowds[rater] for rater in crowded}),
        crowded=tuple(sorted(set(crowded))),
        crowd_votes=len(crowded),
        crowd_items=sum(decided),
    )


def tally(files: StudyFiles, votes: Iterable[Vote]) -> Tally:
    """Decide each item by majority.

    Args:
        files: files of the study.
        votes: its votes, see `check_votes`.
    """
    by_item: dict[str, list[Vote]] = defaultdict(list)
    for vote in votes:
        by_item[vote.item].append(vote)
    least = min(LEAST_VOTES, files.study.raters_per_item)
    decided, unrated, incomplete, answers = [], [], 0, {}
    for item in files.items:
        entry = files.key.items[item.id]
        if item.id in files.key.checks:
            continue
        cast = sorted(by_item[item.id], key=lambda vote: vote.rater)
        meant = tuple(meaning(vote.answer, entry) for vote in cast if vote.answer is not None)
        if item.prefilled:
            outcome, most = str(item.prefilled), 0
        elif len(meant) < least:
            unrated.append(item.id)
            continue
        else:
            outcome, most = majority(meant)
            answers[item.id] = meant
            incomplete += len(meant) < files.study.raters_per_item
        decision = Decided(
            item=item.id,
            stratum=item.stratum,
            cluster=entry.cluster or item.id,
            outcome=outcome,
            votes=most,
            score=_score(outcome, meant),
            prefilled=bool(item.prefilled),
        )
        decided.append(decision)
    return Tally(decided=tuple(decided), unrated=tuple(unrated), incomplete=incomplete, answers=answers)


def meaning(answer: Answer, entry: KeyEntry) -> str:
    """An answer in terms of the systems: ``better`` (A is), ``worse`` (B is), … or the ticked letters.

    A tick on a picture that several systems share counts for each of them.
    """
    if isinstance(answer, str):
        if answer not in ("first", "second"):
            return answer
        return "better" if entry.systems[answer] == ("A",) else "worse"
    letters = sorted({letter for candidate in answer for letter in entry.systems[candidate]})
    return "".join(letters) or NOTHING


def checked(files: StudyFiles, votes: Iterable[Vote]) -> CheckedRaters:
    """Evaluate the attention checks."""
    cast = list(votes)
    checks = [vote for vote in cast if vote.item in files.key.checks]
    wrong = [vote for vote in checks if vote.answer != files.key.checks[vote.item]]
    raters = {vote.rater for vote in cast}
    return CheckedRaters(
        raters=len(raters),
        answered=len(checks),
        wrong=len(wrong),
        failed=tuple(sorted({vote.rater for vote in wrong})),
        unchecked=len(raters - {vote.rater for vote in checks}),
    )


def majority(answers: Iterable[str]) -> tuple[str, int]:
    """The answer with more than half of the votes, or ``no majority``; and the count of the top answer."""
    counts = Counter(answers)
    if not counts:
        return NO_MAJORITY, 0
    answer, most = counts.most_common(1)[0]
    return (answer if 2 * most > counts.total() else NO_MAJORITY), most


def _score(outcome: str, meant: tuple[str, ...]) -> int:
    if outcome in ("better", "worse"):
        return 1 if outcome == "better" else -1
    ticks = [set() if vote in (NOTHING, *PAIR_OUTCOMES) else set(vote) for vote in meant]
    chosen = [2 * sum(letter in letters for letters in ticks) > len(ticks) for letter in "BC"]
    return int(chosen[0]) - int(chosen[1])


def rated_units(files: StudyFiles, answers: Mapping[str, tuple[str, ...]]) -> list[tuple[str, ...]]:
    """The votes on each unit of agreement: an item (pairwise), or a picture, ticked or not (tick-all).

    A picture that several systems share is one unit.

    Args:
        files: files of the study.
        answers: item → its votes, from `tally`.
    """
    if files.study.protocol == "pairwise":
        return list(answers.values())
    units = []
    for item, votes in answers.items():
        ticked = [set() if vote == NOTHING else set(vote) for vote in votes]
        for letters in files.key.items[item].systems.values():
            units.append(tuple("ticked" if set(letters) <= ticks else "not" for ticks in ticked))
    return units


ALL = "all"
FEWEST_POWER = 3


class StratumPreference(Record):
    """Preference between two systems in one stratum.

    Pairwise compares A (tested system) with B (control); tick-all compares B (model with context) with C
    (model without).

    Attributes:
        stratum: name, or ``all``.
        tested, control: names of the two systems; "" if strata have different ones.
        items: number of items that count.
        prefilled: number of pre-filled pairs among them.
        outcomes: outcome → number of items.
        sign, mean: the tests; None without items.
        mean_interval: bootstrap interval of the mean score, resampling whole clusters.
        sign_adjusted, mean_adjusted: p values after Holm's correction over the strata; None if there is no
            test or the stratum is ``all``, the union of the others.
        power: power analysis for this number of items; None with fewer than three.
        agreement: inter-rater agreement.
    """

    stratum: str
    tested: str
    control: str
    items: int
    prefilled: int
    outcomes: Mapping[str, int]
    sign: SignTest | None
    mean: MeanTest | None
    mean_interval: Interval | None
    sign_adjusted: float | None = None
    mean_adjusted: float | None = None
    power: Power | None
    agreement: Agreement


class Ticks(Record):
    """How often a system's picture was ticked.

    Attributes:
        votes: share of the votes, in [0, 1].
        steps: share of the steps in which more than half of the raters ticked it, in [0, 1].
    """

    votes: float
    steps: float


class View(Record):
    """The analysis of the votes of some raters.

    Attributes:
        raters: description of these raters.
        people: number of raters whose votes count.
        votes: number of their votes, without attention checks.
        unrated: number of items with too few votes to count.
        incomplete: number of items that count with fewer votes than registered.
        strata: one preference per stratum; if there are several, their union comes last.
        patterns: tick-all: pattern → number of votes for it → number of steps.
        ticks: tick-all: letter → how often its picture was ticked; empty without votes.
    """

    raters: str
    people: int
    votes: int
    unrated: int
    incomplete: int
    strata: tuple[StratumPreference, ...]
    patterns: Mapping[str, Mapping[int, int]]
    ticks: Mapping[str, Ticks]


class StudyReport(Record):
    """Results of a study.

    Attributes:
        format: format of the record.
        study: SHA-256 of the registration.
        title, protocol: as registered.
        systems: letter → its names in the strata.
        level: level of tests and intervals.
        raters_per_item: as registered.
        votes, due: number of votes on items to judge, and the registered number.
        interim: whether some items lack votes.
        checks: results of the attention checks.
        withdrawn: withdrawn votes, which count nowhere.
        flags: suspicious votes.
        views: with all raters; then, if any failed a check, without them.
    """

    format: str = "limner-study-report-1"
    study: str
    title: str
    protocol: Protocol
    systems: Mapping[str, tuple[str, ...]]
    level: float
    raters_per_item: int
    votes: int
    due: int
    interim: bool
    checks: CheckedRaters
    withdrawn: Withdrawn
    flags: Flags
    views: tuple[View, ...]


def analyse(
    files: StudyFiles,
    votes: Iterable[Vote],
    *,
    crowds: Mapping[str, str] | None = None,
    resamples: int = RESAMPLES,
) -> StudyReport:
    """Run the registered analysis.

    Args:
        files: files of the study.
        votes: votes from a database or an exported file.
        crowds: rater → crowd; known only from a database.
        resamples: number of bootstrap resamples per interval.
    Raises:
        DataError: a vote is invalid for its item, or a rater has two votes on one item.
        MissingError: statsmodels is not installed.
    """
    study = files.study
    given = list(votes)
    progress = progress_of(files, given)
    cast = [vote for vote in given if vote.answer is not None]
    checks = checked(files, cast)
    views = [_view("all raters", files, cast, resamples)]
    if checks.failed:
        who = f"{len(checks.failed)} of {counted(checks.raters, 'rater')}"
        rest = f"without the {who} who failed an attention check"
        sound = [vote for vote in cast if vote.rater not in checks.failed]
        views.append(_view(rest, files, sound, resamples))
    return StudyReport(
        **study.model_dump(include={"title", "protocol", "level", "raters_per_item"}),
        study=study.sha256,
        systems={
            letter: tuple(dict.fromkeys(names[letter] for names in files.key.systems.values()))
            for letter in study.systems
        },
        votes=progress.votes,
        due=progress.due,
        interim=progress.complete < progress.items,
        checks=checks,
        withdrawn=withdrawn(given),
        flags=flags(files, cast, crowds or {}),
        views=tuple(views),
    )


def _view(name: str, files: StudyFiles, votes: Sequence[Vote], resamples: int) -> View:
    counted = tally(files, votes)
    if not counted.answers:  # pre-filled pairs alone are not a result
        counted = counted.model_copy(update={"decided": ()})
    preferences = []
    for stratum in files.study.sample.strata:
        decided = [item for item in counted.decided if item.stratum == stratum]
        preferences.append(_preference(files, counted, stratum, decided, resamples))
    preferences = _adjusted(preferences)
    if len(preferences) > 1:
        preferences.append(_preference(files, counted, ALL, counted.decided, resamples))
    ticked = files.study.protocol == "tick-all"
    patterns: dict[str, Counter[int]] = defaultdict(Counter)
    for item in counted.decided if ticked else ():
        patterns[item.outcome][item.votes] += 1
    return View(
        raters=name,
        people=len({vote.rater for vote in votes}),
        votes=sum(vote.item not in files.key.checks for vote in votes),
        unrated=len(counted.unrated),
        incomplete=counted.incomplete,
        strata=tuple(preferences),
        patterns={pattern: dict(sorted(counts.items())) for pattern, counts in patterns.items()},
        ticks=_ticks(files, counted) if ticked else {},
    )


def _ticks(files: StudyFiles, counted: Tally) -> dict[str, Ticks]:
    """How often each system's picture was ticked."""
    ticks = {}
    for letter in files.study.systems if counted.answers else ():
        steps = [[vote != NOTHING and letter in vote for vote in votes] for votes in counted.answers.values()]
        ticks[letter] = Ticks(
            votes=sum(map(sum, steps)) / sum(map(len, steps)),
            steps=sum(2 * sum(votes_of_step) > len(votes_of_step) for votes_of_step in steps) / len(steps),
        )
    return ticks


def _preference(
    files: StudyFiles, counted: Tally, stratum: str, decided: Sequence[Decided], resamples: int
) -> StratumPreference:
    study = files.study
    scores = [item.score for item in decided]
    wins, losses = scores.count(1), scores.count(-1)
    answers = {item.item: counted.answers[item.item] for item in decided if not item.prefilled}
    tested, control = ("A", "B") if study.protocol == "pairwise" else ("B", "C")
    sign = mean = span = None
    if decided:
        sign, mean = sign_test(wins, losses, study.level), mean_test(scores, study.level)
        values, clusters = np.array(scores, dtype=np.float64), [item.cluster for item in decided]
        span = interval(values, clusters, resamples=resamples, level=1 - study.level)
    return StratumPreference(
        stratum=stratum,
        tested=_name(files, stratum, tested),
        control=_name(files, stratum, control),
        items=len(decided),
        prefilled=sum(item.prefilled for item in decided),
        outcomes=dict(sorted(Counter(item.outcome for item in decided).items())),
        sign=sign,
        mean=mean,
        mean_interval=span,
        power=power_of(len(decided), study.level, study.power) if len(decided) >= FEWEST_POWER else None,
        agreement=agreement(rated_units(files, answers)),
    )


def _name(files: StudyFiles, stratum: str, letter: str) -> str:
    if stratum in files.key.systems:
        return files.key.systems[stratum][letter]
    names = {systems[letter] for systems in files.key.systems.values()}
    return names.pop() if len(names) == 1 else ""


def _adjusted(found: Sequence[StratumPreference]) -> list[StratumPreference]:
    """Apply Holm's correction over the strata, separately for each test."""
    signs = holm([preference.sign.p_value for preference in found if preference.sign])
    means = holm(
        [
            preference.mean.p_value
            for preference in found
            if preference.mean and preference.mean.p_value is not None
        ]
    )
    return [
        preference.model_copy(
            update={
                "sign_adjusted": signs.pop(0) if preference.sign else None,
                "mean_adjusted": means.pop(0)
                if preference.mean and preference.mean.p_value is not None
                else None,
            }
        )
        for preference in found
    ]


class StudyProgress(Record):
    """Progress of a running study.

    Attributes:
        title, protocol: as registered.
        items: number of items to judge, without attention checks and pre-filled pairs.
        prefilled: number of pairs with equal pictures, which are not shown.
        checks: number of attention checks.
        raters_per_item: as registered.
        raters: number of raters who voted.
        votes: number of votes on items to judge.
        due: registered number of votes on them.
        complete: number of items with all registered votes.
        untouched: number of items without a vote.
        failed: number of raters who failed an attention check.
        withdrawn: withdrawn votes, which count nowhere else.
    """

    title: str
    protocol: str
    items: int
    prefilled: int
    checks: int
    raters_per_item: int
    raters: int
    votes: int
    due: int
    complete: int
    untouched: int
    failed: int
    withdrawn: Withdrawn

    def lines(self) -> list[str]:
        """Progress as lines for the terminal."""
        gone = self.withdrawn
        return [
            f"{self.title} ({self.protocol}): {self.votes:,} of {counted(self.due, 'vote')} by"
            f" {counted(self.raters, 'rater')}",
            f"{self.complete:,} of {counted(self.items, 'item')} with"
            f" {counted(self.raters_per_item, 'vote')} or more,"
            f" {self.untouched:,} with none; {self.prefilled:,} pairs with equal pictures are pre-filled",
            f"{counted(self.failed, 'rater')} failed one of {counted(self.checks, 'attention check')}",
            *(
                [f"{counted(gone.raters, 'rater')} withdrew {counted(gone.votes, 'vote')}"]
                if gone.votes
                else []
            ),
        ]


def progress_of(files: StudyFiles, votes: Iterable[Vote]) -> StudyProgress:
    """Count the votes of a study so far.

    Raises:
        DataError: a vote is invalid for its item, or a rater has two votes on one item.
    """
    study = files.study
    every = check_votes(votes, files.items, study.protocol)
    cast = [vote for vote in every if vote.answer is not None]
    given = Counter(vote.item for vote in cast)
    counts = [
        given[item.id] for item in files.items if not item.prefilled and item.id not in files.key.checks
    ]
    return StudyProgress(
        **study.model_dump(include={"title", "protocol", "prefilled", "checks", "raters_per_item"}),
        items=len(counts),
        raters=len({vote.rater for vote in cast}),
        votes=sum(counts),
        due=len(counts) * study.raters_per_item,
        complete=sum(count >= study.raters_per_item for count in counts),
        untouched=counts.count(0),
        failed=len(checked(files, cast).failed),
        withdrawn=withdrawn(every),
    )
