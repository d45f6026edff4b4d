"""Tests of a preference, what size of it a study can see, and how far its raters agree.

Scores are +1, 0 or −1 per item, so the sign test is exact and the t-test is the papers'.
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
"""Whose power is reported: what CMCM's study could see by its own account, Cohen's small and medium one."""


class SignTest(Record):
    """Wins against losses, ties left out.

    Attributes:
        wins, losses: items.
        share: wins among both; None without either.
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
        t, p_value: two-sided; None if all scores are equal or there is only one.
        effect: mean over standard deviation (Cohen's d, n − 1); None as above.
        low, high: interval of the effect from the noncentral t distribution; None as above.
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
    """Sensitivity of a study with so many items.

    Attributes:
        n: items.
        level: level of the two-sided test.
        power: required.
        detectable: smallest standardised effect seen with that power, normal approximation (the papers').
        detectable_t: the same for the t-test, exactly.
        of: effect → power of the t-test to see it.
    """

    n: int
    level: float
    power: float
    detectable: float
    detectable_t: float
    of: dict[str, float]


def sign_test(wins: int, losses: int, level: float = 0.05) -> SignTest:
    """Exact two-sided binomial test that wins and losses are equally likely.

    Args:
        wins: items with a positive score, 0 or more.
        losses: items with a negative score, 0 or more.
        level: 1 − coverage of the interval, in (0, 1).
    """
    if not wins + losses:
        return SignTest(wins=0, losses=0, share=None, low=0.0, high=1.0, p_value=1.0)
    found = binomtest(wins, wins + losses)
    span = found.proportion_ci(1 - level, method="exact")
    return SignTest(
        wins=wins,
        losses=losses,
        share=wins / (wins + losses),
        low=float(span.low),
        high=float(span.high),
        p_value=float(found.pvalue),
    )


def mean_test(scores: Sequence[float], level: float = 0.05) -> MeanTest:
    """One-sample t-test of scores against 0 with the standardised effect and its interval.

    Args:
        scores: (n,) finite, one per item, at least one.
        level: 1 − coverage of the interval, in (0, 1).
    Source: CMCM 2022, Human Evaluation; docs/methods/evaluation.md §9.4; the interval as in Cumming & Finch
    2001, by inverting the noncentral t.
    """
    values = np.asarray(scores, dtype=np.float64)
    mean = float(values.mean())
    if len(np.unique(values)) < 2:
        return MeanTest(n=len(values), mean=mean)
    found = ttest_1samp(values, 0.0)
    t = float(found.statistic)
    low, high = effect_interval(t, len(values), level)
    return MeanTest(
        n=len(values),
        mean=mean,
        t=t,
        p_value=float(found.pvalue),
        effect=mean / float(values.std(ddof=1)),
        low=low,
        high=high,
    )


def effect_interval(t: float, n: int, level: float = 0.05) -> tuple[float, float]:
    """Interval of the standardised effect behind a t statistic of n scores.

    Each end is the effect under which a t at least (at most) as large has probability level / 2.
    """
    reach = 10.0 + 2.0 * abs(t)

    def below(shift: float) -> float:
        found = float(nct.cdf(t, n - 1, shift))
        # scipy gives NaN where a tail is too small to compute, which is far from both ends
        return found if math.isfinite(found) else float(shift < t)

    def end(probability: float) -> float:
        at = brentq(lambda shift: below(shift) - probability, t - reach, t + reach)
        return float(at) / math.sqrt(n)

    return end(1 - level / 2), end(level / 2)


def detectable_effect(n: int, level: float = 0.05, power: float = 0.95) -> float:
    """Smallest standardised effect that a two-sided test of n scores sees with that power.

    Args:
        n: items, at least 1.
        level: level of the test, in (0, 1).
        power: required, in (0, 1).
    Source: docs/methods/evaluation.md §9.4, (z_{1−a/2} + z_{1−b}) / √n; needs no package beyond the core.
    """
    return float((norm.ppf(1 - level / 2) + norm.ppf(power)) / math.sqrt(n))


def power_of(n: int, level: float = 0.05, power: float = 0.95) -> Power:
    """Sensitivity of a two-sided one-sample test of n scores.

    Args:
        n: items, at least 3.
        level: level of the test, in (0, 1).
        power: required, more than `level` and less than 1.
    Raises:
        MissingError: statsmodels is not installed.
    Source: docs/methods/evaluation.md §9.4: (z_{1−a/2} + z_{1−b}) / √n, by statsmodels, beside the exact one
    of the t-test.
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
    """Smallest effect with that power; statsmodels' own search ends at negative effects for some n."""
    high = start
    while _t_power(high, n, level) < power:
        high *= 1.5
    return float(brentq(lambda effect: _t_power(effect, n, level) - power, 0.0, high))


def _t_power(effect: float, n: int, level: float) -> float:
    test = statsmodels("power").TTestPower()
    found = float(test.power(effect, n, level))
    # The tail on the other side is NaN where it is too small to compute; the near one is the power then.
    return found if math.isfinite(found) else float(test.power(effect, n, level / 2, alternative="larger"))


class Agreement(Record):
    """Agreement of the raters of a study.

    Attributes:
        observed: share of pairs of votes on one unit that agree; None without such a pair.
        kappa: Fleiss' kappa over the units with `raters` votes; None if it is not defined.
        kappa_units: how many those are.
        raters: the number of votes that most units have, the larger of two; 0 where none has two.
        alpha: Krippendorff's alpha over all units with two votes or more; None if it is not defined.
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
    raters = statsmodels("inter_rater")
    if len({answer for unit in units for answer in unit}) < 2 or len(units[0]) < 2:
        return None
    counts, _ = raters.aggregate_raters(np.array(units))
    return float(raters.fleiss_kappa(counts))


def krippendorff_alpha(units: Sequence[Sequence[str]]) -> float | None:
    """Krippendorff's alpha for nominal answers; units may have different numbers of votes.

    Args:
        units: per unit its votes; those with fewer than two say nothing and are left out.
    Returns:
        At most 1; None if there is no pair of votes, or all votes are one answer.
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
    """A part of ``statsmodels.stats``.

    Raises:
        MissingError: it is not installed.
    """
    try:
        return import_module(f"statsmodels.stats.{part}")
    except ImportError:
        raise MissingError(
            "statsmodels is not installed; it analyses studies; pip install 'limner[studies]'"
        ) from None
