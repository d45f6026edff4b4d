"""The planned analysis of a human study: counts, tests, power and agreement per stratum, as one record.

Everything that the tables of a report show is computed here, once with all raters and once without those who
failed an attention check.
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
        item: its id.
        stratum: stratum of the item.
        cluster: items of one cluster are not independent.
        outcome: pairwise: one of `PAIR_OUTCOMES`; tick-all: letters of the ticked systems in order, such as
            ``AB``, ``nothing`` or ``no majority``.
        votes: that the outcome received; without a majority, the most that any answer received.
        score: pairwise: +1 better, −1 worse, 0 else. Tick-all: +1 where more than half of the raters tick B
            and not C, each by itself, −1 the other way round, 0 else.
        prefilled: nobody was asked.
    """

    item: str
    stratum: str
    cluster: str
    outcome: str
    votes: int
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
        wrong: number of answers not the answer due.
        failed: raters with one wrong answer or more, sorted.
        unchecked: raters who met no check.
    """

    raters: int
    answered: int
    wrong: int
    failed: tuple[str, ...]
    unchecked: int


class Withdrawn(Record):
    """Items and votes left out because raters withdrew.

    Attributes:
        raters: who withdrew after voting.
        votes: number of their votes, attention checks among them.
    """

    raters: int
    votes: int


def withdrawn(votes: Iterable[Vote]) -> Withdrawn:
    """Count the votes that were withdrawn, and whose they were."""
    gone = [vote.rater for vote in votes if vote.answer is None]
    return Withdrawn(raters=len(set(gone)), votes=len(gone))


class Flags(Record):
    """Findings to check; they exclude nothing.

    Attributes:
        untimed: votes that took no time, 0 seconds.
        untimed_by: raters who cast them, sorted.
        hurried: other votes that came faster than anybody reads their page, see `least_seconds`.
        hurried_by: raters who cast them, sorted.
        hurried_s: median seconds of their pages; None without any.
        crowds: times that several raters began one after another from one network address.
        crowded: those raters, sorted, as far as they voted.
        crowd_votes: number of their votes, attention checks among them.
        crowd_items: items on which one crowd cast more than half of the votes, attention checks left out.
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
"""Ten words of English: more than twice as fast as people read silently (238 words a minute on average;
Brysbaert 2019, Journal of Memory and Language 109)."""
PICTURE_S = 0.25
"""As long as one look at a picture lasts (a fixation; Rayner 2009, Quarterly Journal of Experimental
Psychology 62)."""


def least_seconds(items: Iterable[Item]) -> float:
    """The time in which nobody has read a page and looked at its pictures.

    Args:
        items: on the page. Of a story only the text to judge counts: the rest need not be read again.
    """
    return sum(
        len(item.text) / LETTERS_A_SECOND
        + PICTURE_S * sum(one.picture is not None for one in item.candidates)
        for item in items
    )


def flags(files: StudyFiles, votes: Iterable[Vote], crowds: Mapping[str, str]) -> Flags:
    """Count what is odd about votes that stand.

    Args:
        files: files of the study.
        votes: that were not withdrawn.
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
    """Majorities of all items.

    Args:
        files: files of the study.
        votes: that fit it, see `check_votes`.
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
        one = Decided(
            item=item.id,
            stratum=item.stratum,
            cluster=entry.cluster or item.id,
            outcome=outcome,
            votes=most,
            score=_score(outcome, meant),
            prefilled=bool(item.prefilled),
        )
        decided.append(one)
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
    """The answer of more than half of the votes and how many gave it, else ``no majority`` and the most."""
    counts = Counter(answers)
    if not counts:
        return NO_MAJORITY, 0
    answer, most = counts.most_common(1)[0]
    return (answer if 2 * most > counts.total() else NO_MAJORITY), most


def _score(outcome: str, meant: tuple[str, ...]) -> int:
    if outcome in ("better", "worse"):
        return 1 if outcome == "better" else -1
    ticks = [set() if vote in (NOTHING, *PAIR_OUTCOMES) else set(vote) for vote in meant]
    chosen = [2 * sum(letter in one for one in ticks) > len(ticks) for letter in "BC"]
    return int(chosen[0]) - int(chosen[1])


def rated_units(files: StudyFiles, answers: Mapping[str, tuple[str, ...]]) -> list[tuple[str, ...]]:
    """The units of agreement: items of pairs; in tick-all every system's picture, ticked or not.

    Pictures that systems share are one unit.

    Args:
        files: files of the study.
        answers: item → its votes, as `tally` gives them.
    """
    if files.study.protocol == "pairwise":
        return list(answers.values())
    units = []
    for item, votes in answers.items():
        ticked = [set() if vote == NOTHING else set(vote) for vote in votes]
        for letters in files.key.items[item].systems.values():
            units.append(tuple("ticked" if set(letters) <= one else "not" for one in ticked))
    return units


ALL = "all"
FEWEST_POWER = 3


class StratumPreference(Record):
    """Does a stratum prefer B to C, or A to B?

    Pairwise compares A, the tested system, with B, the control; tick-all B, the model with context, with C,
    the one without.

    Attributes:
        stratum: name, or ``all``.
        tested, control: names of the two systems; "" if strata have different ones.
        items: that count.
        prefilled: number of pairs with one picture, which nobody was asked about.
        outcomes: outcome → items.
        sign, mean: the tests; None without items.
        mean_interval: bootstrap interval of the mean score, drawing whole clusters.
        sign_adjusted, mean_adjusted: p values after Holm's correction over the strata; None if there is no
            test or the stratum is the sum of the others.
        power: what so many items can see; None with fewer than three.
        agreement: agreement of the raters.
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
    """Frequency with which a system's picture was ticked.

    Attributes:
        votes: share of the votes.
        steps: share of the steps where more than half of the raters ticked it.
    """

    votes: float
    steps: float


class View(Record):
    """The analysis with some raters.

    Attributes:
        raters: in words.
        people: raters whose votes are counted.
        votes: votes of theirs, those on attention checks left out.
        unrated: items with too few votes to count.
        incomplete: items that count with fewer votes than registered.
        strata: one preference each; the sum of all comes last if there are several.
        patterns: tick-all: pattern → votes it received → steps.
        ticks: tick-all: letter → how often it was ticked, whatever else was; empty without votes.
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
    """Result of a study.

    Attributes:
        format: format of the record.
        study: SHA-256 of its registration.
        title, protocol: as registered.
        systems: letter → names that it has in the strata.
        level: level of tests and intervals.
        raters_per_item: as registered.
        votes, due: votes on items to be judged, and those registered.
        interim: not all items have the votes that were registered.
        checks: attention checks.
        withdrawn: what is left out everywhere.
        flags: what to look into.
        views: with all raters; and without those who failed a check, if there are any.
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
    """Run the planned analysis.

    Args:
        files: files of the study.
        votes: from a database or an exported file.
        crowds: rater → crowd, from a database; a file does not say.
        resamples: resamples of every bootstrap interval.
    Raises:
        DataError: a vote that does not fit its item, or two of one rater on one item.
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
            letter: tuple(dict.fromkeys(own[letter] for own in files.key.systems.values()))
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
    if not counted.answers:  # pairs of one picture that nobody was asked about are no result by themselves
        counted = counted.model_copy(update={"decided": ()})
    found = []
    for stratum in files.study.sample.strata:
        decided = [one for one in counted.decided if one.stratum == stratum]
        found.append(_preference(files, counted, stratum, decided, resamples))
    found = _adjusted(found)
    if len(found) > 1:
        found.append(_preference(files, counted, ALL, counted.decided, resamples))
    ticked = files.study.protocol == "tick-all"
    patterns: dict[str, Counter[int]] = defaultdict(Counter)
    for one in counted.decided if ticked else ():
        patterns[one.outcome][one.votes] += 1
    return View(
        raters=name,
        people=len({vote.rater for vote in votes}),
        votes=sum(vote.item not in files.key.checks for vote in votes),
        unrated=len(counted.unrated),
        incomplete=counted.incomplete,
        strata=tuple(found),
        patterns={pattern: dict(sorted(counts.items())) for pattern, counts in patterns.items()},
        ticks=_ticks(files, counted) if ticked else {},
    )


def _ticks(files: StudyFiles, counted: Tally) -> dict[str, Ticks]:
    """Ticks of every system by itself."""
    found = {}
    for letter in files.study.systems if counted.answers else ():
        steps = [[vote != NOTHING and letter in vote for vote in votes] for votes in counted.answers.values()]
        found[letter] = Ticks(
            votes=sum(map(sum, steps)) / sum(map(len, steps)),
            steps=sum(2 * sum(one) > len(one) for one in steps) / len(steps),
        )
    return found


def _preference(
    files: StudyFiles, counted: Tally, stratum: str, decided: Sequence[Decided], resamples: int
) -> StratumPreference:
    study = files.study
    scores = [one.score for one in decided]
    wins, losses = scores.count(1), scores.count(-1)
    own = {one.item: counted.answers[one.item] for one in decided if not one.prefilled}
    tested, control = ("A", "B") if study.protocol == "pairwise" else ("B", "C")
    sign = mean = span = None
    if decided:
        sign, mean = sign_test(wins, losses, study.level), mean_test(scores, study.level)
        values, clusters = np.array(scores, dtype=np.float64), [one.cluster for one in decided]
        span = interval(values, clusters, resamples=resamples, level=1 - study.level)
    return StratumPreference(
        stratum=stratum,
        tested=_name(files, stratum, tested),
        control=_name(files, stratum, control),
        items=len(decided),
        prefilled=sum(one.prefilled for one in decided),
        outcomes=dict(sorted(Counter(one.outcome for one in decided).items())),
        sign=sign,
        mean=mean,
        mean_interval=span,
        power=power_of(len(decided), study.level, study.power) if len(decided) >= FEWEST_POWER else None,
        agreement=agreement(rated_units(files, own)),
    )


def _name(files: StudyFiles, stratum: str, letter: str) -> str:
    if stratum in files.key.systems:
        return files.key.systems[stratum][letter]
    names = {own[letter] for own in files.key.systems.values()}
    return names.pop() if len(names) == 1 else ""


def _adjusted(found: Sequence[StratumPreference]) -> list[StratumPreference]:
    """Holm's correction over the strata, apart for either test."""
    signs = holm([one.sign.p_value for one in found if one.sign])
    means = holm([one.mean.p_value for one in found if one.mean and one.mean.p_value is not None])
    return [
        one.model_copy(
            update={
                "sign_adjusted": signs.pop(0) if one.sign else None,
                "mean_adjusted": means.pop(0) if one.mean and one.mean.p_value is not None else None,
            }
        )
        for one in found
    ]


class StudyProgress(Record):
    """Counts of a running study.

    Attributes:
        title, protocol: as registered.
        items: to be judged, without attention checks and pre-filled pairs.
        prefilled: pairs of one picture, which nobody is shown.
        checks: attention checks.
        raters_per_item: as registered.
        raters: who voted.
        votes: on items to be judged.
        due: votes wanted on them.
        complete: items with all votes.
        untouched: items without a vote.
        failed: raters who failed an attention check.
        withdrawn: what raters took back, which counts nowhere else.
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
        """For the terminal."""
        gone = self.withdrawn
        return [
            f"{self.title} ({self.protocol}): {self.votes:,} of {counted(self.due, 'vote')} by"
            f" {counted(self.raters, 'rater')}",
            f"{self.complete:,} of {counted(self.items, 'item')} with"
            f" {counted(self.raters_per_item, 'vote')} or more,"
            f" {self.untouched:,} none; {self.prefilled:,} pairs of one picture are pre-filled",
            f"{counted(self.failed, 'rater')} failed one of {counted(self.checks, 'attention check')}",
            *(
                [f"{counted(gone.raters, 'rater')} withdrew {counted(gone.votes, 'vote')}"]
                if gone.votes
                else []
            ),
        ]


def progress_of(files: StudyFiles, votes: Iterable[Vote]) -> StudyProgress:
    """Count.

    Raises:
        DataError: a vote that does not fit its item, or two of one rater on one item.
    """
    study = files.study
    every = check_votes(votes, files.items, study.protocol)
    cast = [vote for vote in every if vote.answer is not None]
    given = Counter(vote.item for vote in cast)
    counts = [given[one.id] for one in files.items if not one.prefilled and one.id not in files.key.checks]
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
