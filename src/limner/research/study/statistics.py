"""Significance tests of a preference, power analysis, and inter-rater agreement.

Scores are +1, 0 or −1 per item. The sign test is exact; the t-test is the one that the papers use.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any

import numpy as np
from pydantic import ConfigDict
from scipy.optimize import brentq
from scipy.stats import binomtest, nct, norm, ttest_1samp

from limner.config import Record
from limner.errors import MissingError

EFFECTS = (0.17, 0.2, 0.5)
"""Effects whose power is reported: the one that CMCM states as detectable, and Cohen's small and medium."""


class SignTest(Record):
    """Sign test of wins against losses; ties do not count.

    Attributes:
        wins, losses: numbers of items.
        share: wins / (wins + losses), in [0, 1]; None if both are 0.
        low, high: exact (Clopper–Pearson) interval of the share.
        p_value: two-sided, exact.
    """

    wins: int
    losses: int
    share: float | None
    low: float
    high: float
    p_value: float


class MeanTest(Record):
    """One-sample t-test of the mean score against 0, and the standardised effect.

    Attributes:
        n: items.
        mean: mean of the scores, in [−1, 1].
        t, p_value: t statistic and two-sided p value; None if all scores are equal or there is only one.
        effect: mean / standard deviation (Cohen's d, n − 1); None as for `t`.
        low, high: interval of the effect from the noncentral t distribution; None as for `t`.
    """

    model_config = ConfigDict(ser_json_inf_nan="strings")

    n: int
    mean: float
    t: float | None = None
    p_value: float | None = None
    effect: float | None = None
    low: float | None = None
    high: float | None = None


class Power(Record):
    """Power analysis for n items.

    Attributes:
        n: items.
        level: level of the two-sided test.
        power: required power.
        detectable: smallest standardised effect detected with that power, by the papers' normal
            approximation.
        detectable_t: the same for the t-test, exact.
        of: effect → power of the t-test for it.
    """

    n: int
    level: float
    power: float
    detectable: float
    detectable_t: float
    of: dict[str, float]


def sign_test(wins: int, losses: int, level: float = 0.05) -> SignTest:
    """Exact two-sided binomial test of the hypothesis that wins and losses are equally likely.

    Args:
        wins: items with a positive score, 0 or more.
        losses: items with a negative score, 0 or more.
        level: 1 − coverage of the interval, in (0, 1).
    """
    if not wins + losses:
        return SignTest(wins=0, losses=0, share=None, low=0.0, high=1.0, p_value=1.0)
    test = binomtest(wins, wins + losses)
    span = test.proportion_ci(1 - level, method="exact")
    return SignTest(
        wins=wins,
        losses=losses,
        share=wins / (wins + losses),
        low=float(span.low),
        high=float(span.high),
        p_value=float(test.pvalue),
    )


def mean_test(scores: Sequence[float], level: float = 0.05) -> MeanTest:
    """One-sample t-test of the mean score against 0, with the standardised effect and its interval.

    Args:
        scores: (n,) finite scores, n ≥ 1.
        level: 1 − coverage of the interval, in (0, 1).
    Source: CMCM 2022, Human Evaluation; docs/methods/evaluation.md §9.4. Interval: Cumming & Finch 2001
    (inversion of the noncentral t).
    """
    values = np.asarray(scores, dtype=np.float64)
    mean = float(values.mean())
    if len(np.unique(values)) < 2:
        return MeanTest(n=len(values), mean=mean)
    test = ttest_1samp(values, 0.0)
    t = float(test.statistic)
    low, high = effect_interval(t, len(values), level)
    return MeanTest(
        n=len(values),
        mean=mean,
        t=t,
        p_value=float(test.pvalue),
        effect=mean / float(values.std(ddof=1)),
        low=low,
        high=high,
    )


def effect_interval(t: float, n: int, level: float = 0.05) -> tuple[float, float]:
    """Interval of the standardised effect, given the t statistic of n scores.

    The lower (upper) end is the effect under which a t at least (at most) as large has probability level / 2.
    """
    reach = 10.0 + 2.0 * abs(t)

    def below(shift: float) -> float:
        probability_below = float(nct.cdf(t, n - 1, shift))
        # scipy returns NaN if a tail is too small to compute, which only happens far from both ends
        return probability_below if math.isfinite(probability_below) else float(shift < t)

    def end(probability: float) -> float:
        at = brentq(lambda shift: below(shift) - probability, t - reach, t + reach)
        return float(at) / math.sqrt(n)

    return end(1 - level / 2), end(level / 2)


def detectable_effect(n: int, level: float = 0.05, power: float = 0.95) -> float:
    """Smallest standardised effect that a two-sided test of n scores detects with the given power.

    Args:
        n: items, at least 1.
        level: level of the test, in (0, 1).
        power: required power, in (0, 1).
    Source: docs/methods/evaluation.md §9.4, (z_{1−a/2} + z_{1−b}) / √n. Does not need statsmodels.
    """
    return float((norm.ppf(1 - level / 2) + norm.ppf(power)) / math.sqrt(n))


def power_of(n: int, level: float = 0.05, power: float = 0.95) -> Power:
    """Power analysis of a two-sided one-sample test of n scores.

    Args:
        n: items, at least 3.
        level: level of the test, in (0, 1).
        power: required power, greater than `level` and less than 1.
    Raises:
        MissingError: statsmodels is not installed.
    Source: docs/methods/evaluation.md §9.4, (z_{1−a/2} + z_{1−b}) / √n, by statsmodels; and the exact value
    for the t-test.
    """
    test = statsmodels("power").NormalIndPower()
    normal = float(test.solve_power(nobs1=n, alpha=level, power=power, ratio=0))
    return Power(
        n=n,
        level=level,
        power=power,
        detectable=normal,
        detectable_t=_seen_by_t(n, level, power, normal),
        of={f"{effect:g}": _t_power(effect, n, level) for effect in EFFECTS},
    )


def _seen_by_t(n: int, level: float, power: float, start: float) -> float:
    """Smallest effect with that power. For some n statsmodels' own search ends at a negative effect."""
    high = start
    while _t_power(high, n, level) < power:
        high *= 1.5
    return float(brentq(lambda effect: _t_power(effect, n, level) - power, 0.0, high))


def _t_power(effect: float, n: int, level: float) -> float:
    test = statsmodels("power").TTestPower()
    two_sided = float(test.power(effect, n, level))
    # NaN means that the far tail is too small to compute; the near tail is then the power.
    return (
        two_sided
        if math.isfinite(two_sided)
        else float(test.power(effect, n, level / 2, alternative="larger"))
    )


class Agreement(Record):
    """Inter-rater agreement of a study.

    Attributes:
        observed: share of pairs of votes on one unit that agree; None if there is no pair.
        kappa: Fleiss' kappa over the units with exactly `raters` votes; None if undefined.
        kappa_units: number of those units.
        raters: most frequent number of votes per unit (at least 2; ties: the larger); 0 if no unit has two.
        alpha: Krippendorff's alpha over all units with at least two votes; None if undefined.
        alpha_units: number of those units.
    """

    observed: float | None
    kappa: float | None
    kappa_units: int
    raters: int
    alpha: float | None
    alpha_units: int


def agreement(units: Iterable[Sequence[str]]) -> Agreement:
    """Observed agreement, Fleiss' kappa and Krippendorff's alpha of the same votes.

    Args:
        units: the votes of each unit, in any order.
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
    """Fleiss' kappa, computed by statsmodels.

    Args:
        units: votes of each unit, the same number everywhere.
    Returns:
        At most 1; None with fewer than two votes per unit, or if all votes are the same answer.
    Raises:
        MissingError: statsmodels is not installed.
    """
    raters = statsmodels("inter_rater")
    if len({answer for unit in units for answer in unit}) < 2 or len(units[0]) < 2:
        return None
    counts, _ = raters.aggregate_raters(np.array(units))
    return float(raters.fleiss_kappa(counts))


def krippendorff_alpha(units: Sequence[Sequence[str]]) -> float | None:
    """Krippendorff's alpha for nominal answers; units may have different numbers of votes.

    Args:
        units: the votes of each unit; units with fewer than two are ignored.
    Returns:
        At most 1; None if there is no pair of votes, or if all votes are the same answer.
    Source: Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability", section D.
    """
    paired = [Counter(unit) for unit in units if len(unit) > 1]
    totals = sum(paired, Counter[str]())
    n = totals.total()
    if len(totals) < 2:
        return None
    # Pairs of different answers: observed within units, expected among all votes.
    observed = sum((unit.total() ** 2 - _squares(unit)) / (unit.total() - 1) for unit in paired)
    expected = (n**2 - _squares(totals)) / (n - 1)
    return float(1 - observed / expected)


def _squares(counts: Counter[str]) -> int:
    return sum(count**2 for count in counts.values())


def statsmodels(part: str) -> Any:  # noqa: ANN401
    """Import a module of ``statsmodels.stats``.

    Raises:
        MissingError: statsmodels is not installed.
    """
    try:
        return import_module(f"statsmodels.stats.{part}")
    except ImportError:
        raise MissingError(
            "statsmodels, needed to analyse studies, is not installed; pip install 'limner[studies]'"
        ) from None
