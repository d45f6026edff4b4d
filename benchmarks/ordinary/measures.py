"""From what steps were given to the figures of a cell: shares, paired differences, calibration."""

from collections.abc import Callable, Iterable, Sequence
from math import pi, sqrt

import numpy as np

from limner.config import Record
from limner.research.evaluation.uncertainty import Difference, difference
from ordinary.boards import Outcome

BINS = 10


class Share(Record):
    """How many of how many; `share` is None of nothing."""

    found: int
    of: int

    @property
    def share(self) -> float | None:
        """In [0, 1]."""
        return self.found / self.of if self.of else None


class Bin(Record):
    """Steps whose stated probability lies in one tenth.

    Attributes:
        steps: how many.
        stated: mean of what is stated.
        true: share for which it holds.
    """

    steps: int
    stated: float
    true: float


class Calibrated(Record):
    """Stated probabilities against the truth.

    Attributes:
        error: expected calibration error, the mean over steps of |stated − true| of their tenth; None where
            nothing is stated.
        bins: the tenths that hold a step, from low to high.
    """

    error: float | None
    bins: tuple[Bin, ...]

    @property
    def noise(self) -> float:
        """The error that true chances would show on as many steps, were each drawn by itself.

        Mean of |k / n − p| for k of a binomial distribution, by its normal approximation.
        """
        steps = sum(one.steps for one in self.bins)
        off = (one.steps * sqrt(2 * one.stated * (1 - one.stated) / (pi * one.steps)) for one in self.bins)
        return sum(off) / max(steps, 1)


class Figures(Record):
    """One cell of the table.

    Attributes:
        texts, steps: how many.
        own, fits: steps shown their own, or a fitting picture, of those whose library holds one.
        alone_own, alone_fits: the same by plain search of each step alone.
        own_gain, fits_gain: the board's share minus that of each step alone, paired, with a 95 % interval by
            bootstrap over texts; None where no step has an own picture.
        blank_fits: steps left blank though something fits.
        wrong: why nothing fits → steps shown a picture all the same; the others are blank, as is right.
        calibrated: the stated chance that the picture shown fits; blanks show none.
    """

    texts: int
    steps: int
    own: Share
    fits: Share
    alone_own: Share
    alone_fits: Share
    own_gain: Difference | None
    fits_gain: Difference | None
    blank_fits: Share
    wrong: dict[str, Share]
    calibrated: Calibrated


def figures(outcomes: Sequence[Outcome]) -> Figures:
    """The figures of some steps; texts are known by their id."""
    has_own = [one for one in outcomes if one.own]
    has_fit = [one for one in outcomes if one.fits]
    return Figures(
        texts=len({one.text for one in outcomes}),
        steps=len(outcomes),
        own=share(one.chosen in one.own for one in has_own),
        fits=share(one.chosen in one.fits for one in has_fit),
        alone_own=share(one.alone in one.own for one in has_own),
        alone_fits=share(one.alone in one.fits for one in has_fit),
        own_gain=gain(has_own, lambda one, picture: picture in one.own),
        fits_gain=gain(has_fit, lambda one, picture: picture in one.fits),
        blank_fits=share(one.chosen is None for one in has_fit),
        wrong={
            lack: share(one.chosen is not None for one in outcomes if one.lack == lack)
            for lack in sorted({one.lack for one in outcomes} - {""})
        },
        calibrated=calibrated(
            [
                (one.stated, one.chosen in one.fits)
                for one in outcomes
                if one.chosen is not None and one.stated is not None
            ]
        ),
    )


def share(found: Iterable[bool]) -> Share:
    """Count what is true."""
    values = list(found)
    return Share(found=sum(values), of=len(values))


def gain(outcomes: Sequence[Outcome], right: Callable[[Outcome, str | None], bool]) -> Difference | None:
    """Paired difference of the board and each step alone."""
    if not outcomes:
        return None
    board = np.array([right(one, one.chosen) for one in outcomes], dtype=np.float64)
    alone = np.array([right(one, one.alone) for one in outcomes], dtype=np.float64)
    return difference(board, alone, [one.text for one in outcomes])


def calibrated(pairs: Sequence[tuple[float, bool]]) -> Calibrated:
    """Expected calibration error in tenths of the stated probability.

    Source: Naeini et al., Obtaining Well Calibrated Probabilities Using Bayesian Binning, 2015.
    """
    if not pairs:
        return Calibrated(error=None, bins=())
    chance = np.array([one for one, _ in pairs])
    truth = np.array([one for _, one in pairs], dtype=np.float64)
    tenth = np.minimum((chance * BINS).astype(int), BINS - 1)
    bins = [
        Bin(
            steps=int((tenth == b).sum()),
            stated=float(chance[tenth == b].mean()),
            true=float(truth[tenth == b].mean()),
        )
        for b in np.unique(tenth)
    ]
    error = sum(one.steps * abs(one.stated - one.true) for one in bins) / len(pairs)
    return Calibrated(error=float(error), bins=tuple(bins))
