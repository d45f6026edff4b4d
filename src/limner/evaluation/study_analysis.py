"""The planned analysis of a human study: counts, tests, power and agreement per stratum, as one record.

Everything that the tables and pages of a report show is computed here, once with all raters and once without
those who failed an attention check. It draws nothing and writes no file.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from limner.data.records import Record
from limner.data.studies import Protocol, StudyFiles, Vote, check_votes
from limner.evaluation.study_agreement import Agreement, agreement, rated_units
from limner.evaluation.study_majority import NOTHING, CheckedRaters, Decided, Tally, checked, tally
from limner.evaluation.study_statistics import MeanTest, Power, SignTest, mean_test, power_of, sign_test
from limner.evaluation.uncertainty import RESAMPLES, Interval, holm, interval

ALL = "all"
FEWEST_POWER = 3


class Preference(Record):
    """Does a stratum prefer B to C, or A to B?

    Pairwise compares A, the tested system, with B, the control; tick-all B, the model with context, with C,
    the one without.

    Attributes:
        stratum: name, or ``all``.
        tested, control: names of the two systems; "" where strata have different ones.
        items: that count.
        prefilled: of them, pairs of one picture that nobody was asked about.
        outcomes: outcome → items.
        sign, mean: the tests; None without items.
        mean_interval: bootstrap interval of the mean score, drawing whole clusters.
        sign_adjusted, mean_adjusted: p values after Holm's correction over the strata; None where there is no
            test or the stratum is the sum of the others.
        power: what so many items can see; None with fewer than three.
        agreement: of the raters.
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
        votes: share of the votes.
        steps: share of the steps where more than half of the raters ticked it.
    """

    votes: float
    steps: float


class View(Record):
    """The analysis with some raters.

    Attributes:
        raters: in words.
        votes: counted, those on attention checks left out.
        unrated: items with too few votes to count.
        incomplete: items that count with fewer votes than registered.
        strata: one preference each; the sum of all comes last where there are several.
        patterns: tick-all: pattern → votes it received → steps.
        ticks: tick-all: letter → how often it was ticked, whatever else was; empty without votes.
    """

    raters: str
    votes: int
    unrated: int
    incomplete: int
    strata: tuple[Preference, ...]
    patterns: Mapping[str, Mapping[int, int]]
    ticks: Mapping[str, Ticks]


class StudyReport(Record):
    """All that came out of a study.

    Attributes:
        format: of the record.
        study: SHA-256 of its registration.
        title, protocol: as registered.
        systems: letter → names that it has in the strata.
        level: of tests and intervals.
        raters_per_item: as registered.
        checks: attention checks.
        views: with all raters; and without those who failed a check, where there are any.
    """

    format: str = "limner-study-report-1"
    study: str
    title: str
    protocol: Protocol
    systems: Mapping[str, tuple[str, ...]]
    level: float
    raters_per_item: int
    checks: CheckedRaters
    views: tuple[View, ...]


def analyse(files: StudyFiles, votes: Iterable[Vote], *, resamples: int = RESAMPLES) -> StudyReport:
    """Run the planned analysis.

    Args:
        files: of the study.
        votes: from a database or an exported file.
        resamples: of every bootstrap interval.
    Raises:
        DataError: a vote that does not fit its item, or two of one rater on one item.
        MissingError: statsmodels is not installed.
    """
    study = files.study
    cast = check_votes(votes, files.items, study.protocol)
    checks = checked(files, cast)
    views = [_view("all raters", files, cast, (), resamples)]
    if checks.failed:
        rest = f"without the {len(checks.failed)} of {checks.raters} raters who failed an attention check"
        views.append(_view(rest, files, cast, checks.failed, resamples))
    return StudyReport(
        study=study.sha256,
        title=study.title,
        protocol=study.protocol,
        systems={
            letter: tuple(dict.fromkeys(own[letter] for own in files.key.systems.values()))
            for letter in study.systems
        },
        level=study.level,
        raters_per_item=study.raters_per_item,
        checks=checks,
        views=tuple(views),
    )


def _view(
    name: str, files: StudyFiles, votes: Sequence[Vote], without: Sequence[str], resamples: int
) -> View:
    counted = tally(files, votes, without)
    strata = list(files.study.sample.strata)
    found = [
        _preference(
            files, counted, stratum, [one for one in counted.decided if one.stratum == stratum], resamples
        )
        for stratum in strata
    ]
    found = _adjusted(found)
    if len(strata) > 1:
        found.append(_preference(files, counted, ALL, counted.decided, resamples))
    patterns: dict[str, Counter[int]] = {}
    if files.study.protocol == "tick-all":
        for one in counted.decided:
            patterns.setdefault(one.outcome, Counter())[one.votes] += 1
    left_out = set(without)
    return View(
        raters=name,
        votes=sum(files.key.items[v.item].right is None and v.rater not in left_out for v in votes),
        unrated=len(counted.unrated),
        incomplete=counted.incomplete,
        strata=tuple(found),
        patterns={pattern: dict(sorted(counts.items())) for pattern, counts in patterns.items()},
        ticks=_ticks(files, counted) if files.study.protocol == "tick-all" else {},
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
) -> Preference:
    study = files.study
    scores = [one.score for one in decided]
    wins, losses = scores.count(1), scores.count(-1)
    own = {one.item: counted.answers[one.item] for one in decided if not one.prefilled}
    tested, control = ("A", "B") if study.protocol == "pairwise" else ("B", "C")
    return Preference(
        stratum=stratum,
        tested=_name(files, stratum, tested),
        control=_name(files, stratum, control),
        items=len(decided),
        prefilled=sum(one.prefilled for one in decided),
        outcomes=dict(sorted(Counter(one.outcome for one in decided).items())),
        sign=sign_test(wins, losses, study.level) if decided else None,
        mean=mean_test(scores, study.level) if decided else None,
        mean_interval=interval(
            np.array(scores, dtype=np.float64),
            [one.cluster for one in decided],
            resamples=resamples,
            level=1 - study.level,
        )
        if decided
        else None,
        power=power_of(len(decided), study.level, study.power) if len(decided) >= FEWEST_POWER else None,
        agreement=agreement(rated_units(files, own)),
    )


def _name(files: StudyFiles, stratum: str, letter: str) -> str:
    if stratum in files.key.systems:
        return files.key.systems[stratum][letter]
    names = {own[letter] for own in files.key.systems.values()}
    return names.pop() if len(names) == 1 else ""


def _adjusted(found: Sequence[Preference]) -> list[Preference]:
    """Holm's correction over the strata, apart for either test."""
    signs = holm([one.sign.p_value for one in found if one.sign])
    means = holm([one.mean.p_value for one in found if one.mean and one.mean.p_value is not None])
    changed = []
    for one in found:
        sign = signs.pop(0) if one.sign else None
        mean = means.pop(0) if one.mean and one.mean.p_value is not None else None
        changed.append(one.model_copy(update={"sign_adjusted": sign, "mean_adjusted": mean}))
    return changed
