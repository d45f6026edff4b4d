"""How far raters agree beyond chance: Fleiss' kappa and Krippendorff's alpha for nominal answers.

Kappa asks for equally many votes everywhere, alpha takes what there is; both are told, with the number of
units behind them. It knows no study and interprets nothing.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from limner.data.records import Record
from limner.data.studies import StudyFiles
from limner.errors import MissingError
from limner.evaluation.study_majority import NOTHING


class Agreement(Record):
    """Agreement of the raters of a study.

    Attributes:
        observed: share of pairs of votes on one unit that agree; None without such a pair.
        kappa: Fleiss' kappa over the units with `raters` votes; None where it is not defined.
        kappa_units: how many those are.
        raters: the number of votes that most units have, the larger of two; 0 where none has two.
        alpha: Krippendorff's alpha over all units with two votes or more; None where it is not defined.
        alpha_units: how many those are.
    """

    observed: float | None
    kappa: float | None
    kappa_units: int
    raters: int
    alpha: float | None
    alpha_units: int


def agreement(units: Iterable[Sequence[str]]) -> Agreement:
    """Both measures of the same votes.

    Args:
        units: per unit its votes, in any order.
    """
    paired = [tuple(unit) for unit in units if len(unit) > 1]
    sizes = Counter(len(unit) for unit in paired)
    raters = max(sizes, key=lambda size: (sizes[size], size), default=0)
    complete = [unit for unit in paired if len(unit) == raters]
    same = sum(count * (count - 1) for unit in paired for count in Counter(unit).values())
    total = sum(len(unit) * (len(unit) - 1) for unit in paired)
    return Agreement(
        observed=same / total if total else None,
        kappa=fleiss_kappa(complete),
        kappa_units=len(complete),
        raters=raters,
        alpha=krippendorff_alpha(paired),
        alpha_units=len(paired),
    )


def fleiss_kappa(units: Sequence[Sequence[str]]) -> float | None:
    """Fleiss' kappa by statsmodels.

    Args:
        units: all with the same number of votes.
    Returns:
        At most 1; None with fewer than two votes a unit, or where all votes are one answer.
    Raises:
        MissingError: statsmodels is not installed.
    """
    import numpy as np

    try:
        from statsmodels.stats.inter_rater import fleiss_kappa as kappa
    except ImportError:
        raise MissingError(
            "statsmodels is not installed; it tells agreement; pip install 'limner[studies]'"
        ) from None

    answers = sorted({answer for unit in units for answer in unit})
    if len(answers) < 2 or len(units[0]) < 2:
        return None
    counts = np.array([[unit.count(answer) for answer in answers] for unit in map(list, units)])
    return float(kappa(counts))


def krippendorff_alpha(units: Sequence[Sequence[str]]) -> float | None:
    """Krippendorff's alpha for nominal answers; units may have different numbers of votes.

    Args:
        units: per unit its votes; those with fewer than two say nothing and are left out.
    Returns:
        At most 1; None where there is no pair of votes, or all votes are one answer.
    Source: Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability", section D.
    """
    paired = [Counter(unit) for unit in units if len(unit) > 1]
    totals: Counter[str] = Counter()
    for unit in paired:
        totals.update(unit)
    n = totals.total()
    if len(totals) < 2:
        return None
    # Pairs of different answers: observed within units, expected among all votes.
    observed = sum((unit.total() ** 2 - _squares(unit)) / (unit.total() - 1) for unit in paired)
    expected = (n**2 - _squares(totals)) / (n - 1)
    return float(1 - observed / expected)


def rated_units(files: StudyFiles, answers: Mapping[str, tuple[str, ...]]) -> list[tuple[str, ...]]:
    """The units of agreement: items of pairs; in tick-all every system's picture, ticked or not.

    Pictures that systems share are one unit.

    Args:
        files: of the study.
        answers: item → its votes, as `study_majority.tally` gives them.
    """
    if files.study.protocol == "pairwise":
        return list(answers.values())
    units = []
    for item, votes in answers.items():
        ticked = [set() if vote == NOTHING else set(vote) for vote in votes]
        for letters in files.key.items[item].systems.values():
            units.append(tuple("ticked" if set(letters) <= one else "not" for one in ticked))
    return units


def _squares(counts: Counter[str]) -> int:
    return sum(count**2 for count in counts.values())
