"""Probability that a picture fits a step, from the evidence of its captions and pixels and from its agreement
with the pictures of other steps.

Evidence, agreement and probability are linear forms of a few features, which are defined here; the
calibration has their weights. The evidence for a picture does not depend on which channels other pictures
have.

Source: docs/methods/storyboard.md §2–§4.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from limner.match.calibration import Calibration
from limner.match.candidates import SHY, ChannelSimilarity, ExpectedSimilarity, Float64Array, Pool
from limner.store.vectors import BoolArray

WORDS = ("captions", "multilingual")
"""Channels that compare a step with a picture's captions; the first that a picture has counts."""
PIXELS = ("model", "clip", "base", "labels")
"""Channels that compare a step with pixels, the best first; the first that a picture has counts."""
OCR = "ocr"
"""Channel that compares a step with the text in a picture."""
OCR_FROM, OCR_WEIGHT = 0.35, 32.0
"""Cosine above which the text in a picture counts as evidence for it, and the weight of the excess. It never
counts against a picture, because most text in pictures does not describe them.
"""
Features = dict[str, Float64Array]
ROUNDS = 2
"""Number of iterations of agreement between the steps."""
LEAST_SHARE = -8.0
"""Lower limit of log shares."""


def first_of(pool: Pool, names: tuple[str, ...]) -> ChannelSimilarity:
    """Values of the first of these channels that a picture has; absent if it has none of them."""
    found = ChannelSimilarity.absent(pool.there.shape)
    for name in names:
        one = pool.channels.get(name)
        if one is not None:
            found = found.filled(one)
    return found


def evidence(pool: Pool, calibration: Calibration) -> Float64Array:
    """Evidence of a picture's own captions and pixels, in log-odds against another picture of the library.

    Args:
        pool: the candidates.
        calibration: the weights.
    Returns:
        (S, K); −inf for empty cells and for pictures without any channel.
    """
    words, pixels = first_of(pool, WORDS), first_of(pool, PIXELS)
    total = calibration.evidence.of(evidence_features(words, pixels))
    if OCR in pool.channels:
        written = pool.channels[OCR]
        near = np.maximum(written.cosine - OCR_FROM, 0.0)
        total = total + OCR_WEIGHT * np.where(written.present, near, 0.0)
    return np.where(words.present | pixels.present, total, -np.inf)


def evidence_features(words: ChannelSimilarity, pixels: ChannelSimilarity) -> Features:
    """Features (S, K) of the linear form of evidence, by name.

    ``pixels`` is T · z: z is how far a picture stands out, and T how far right pictures stand out in this
    channel; see `limner.match.candidates.ChannelSimilarity`.
    """
    said = words.present.astype(np.float64)
    looks = np.where(pixels.present, pixels.trust * pixels.z, 0.0)
    return {
        "words": said,
        "words_cosine": words.cosine,
        "words_z": words.z,
        "words_title": words.titled,
        "pixels": (1 - said) * looks,
        "pixels_beside_words": said * looks,
    }


def shares(odds: Float64Array, available: int, *, sharpness: float = 1.0, none: float = 0.0) -> Float64Array:
    """Probability (S, K) that each candidate is the picture of its step, where a step may also have none.

    exp(s u_j) / (exp(s (ln M + none)) + Σ exp(s u)), s the sharpness and M the pictures available.
    """
    nothing = np.full((len(odds), 1), np.log(max(available, 1)) + none)
    whole = log_sum_exp(sharpness * np.concatenate([odds, nothing], axis=1))
    return np.asarray(np.exp(sharpness * odds - whole))


def doubt(pool: Pool, own: Float64Array, calibration: Calibration, fixed: Iterable[int] = ()) -> float:
    """Share of the steps that expect no picture by their own evidence, 0 to 1; 1 if all steps are fixed.

    Args:
        pool: the candidates.
        own: (S, K) from `evidence`.
        calibration: the weights.
        fixed: steps that do not count.
    """
    p = shares(own, pool.available, sharpness=calibration.sharpness, none=calibration.none)
    rest = np.delete(p.sum(axis=1), list(fixed))
    return float(1.0 - rest.mean()) if len(rest) else 1.0


def agreement(
    pool: Pool,
    own: Float64Array,
    calibration: Calibration,
    likes: Mapping[str, ExpectedSimilarity],
    fixed: Mapping[int, int] | None = None,
) -> Float64Array:
    """Log-odds from evidence and from agreement with the pictures that the other steps are expected to show.

    Args:
        pool: the candidates.
        own: (S, K) from `evidence`.
        calibration: the weights.
        likes: similarities of two pictures by ``captions`` and ``looks``, if available.
        fixed: column of the picture that a step is certain to show, by step; None for no such step.
    Returns:
        (S, K); −inf as in `own`.
    """
    odds = own
    if len(own) < 2:
        return calibration.agreement.weights["own"] * own
    for _ in range(ROUNDS):
        features = agreement_features(pool, own, odds, calibration, likes, fixed)
        odds = np.where(np.isfinite(own), calibration.agreement.of(features), -np.inf)
    return odds


def agreement_features(  # noqa: PLR0917
    pool: Pool,
    own: Float64Array,
    odds: Float64Array,
    calibration: Calibration,
    likes: Mapping[str, ExpectedSimilarity],
    fixed: Mapping[int, int] | None = None,
) -> Features:
    """Features (S, K) of the linear form of agreement, by name.

    The mean similarity a of a candidate to the expected pictures of the other steps has the weight g / (g +
    1) with g = doubt · D · A², where A is the mean of a over the expected pictures of all steps, and D the
    share of steps that expect none. The weight is small if the pictures of a text do not agree, or if every
    step has clear evidence of its own.
    """
    p = shares(odds, pool.available, sharpness=calibration.sharpness, none=calibration.none)
    for step, column in (fixed or {}).items():
        p[step] = np.arange(p.shape[1]) == column
    weight = max(float(p.sum()), SHY)
    like = {name: one.of(p) for name, one in likes.items()}
    agreed = sum((max(float((p * one).sum()) / weight, 0.0) for one in like.values()), 0.0)
    heard = calibration.doubt * max(1.0 - float(p.sum()) / len(p), 0.0) * agreed**2
    gate = heard / (heard + 1.0)
    said = first_of(pool, WORDS).present.astype(np.float64)
    none = np.zeros(own.shape)
    return {
        "own": np.where(np.isfinite(own), own, 0.0),
        "captions": gate * said * like.get("captions", none),
        "looks": gate * (1 - said) * like.get("looks", none),
        "looks_beside_words": gate * said * like.get("looks", none),
    }


def probabilities(
    pool: Pool, own: Float64Array, odds: Float64Array, calibration: Calibration
) -> Float64Array:
    """Probability that each candidate fits its step.

    Args:
        pool: the candidates.
        own: (S, K) from `evidence`.
        odds: (S, K) from `agreement`, with all further evidence.
        calibration: the weights.
    Returns:
        (S, K); 0 for empty cells.
    """
    found = sigmoid(calibration.chance.of(probability_features(pool, own, odds, calibration)))
    return np.where(np.isfinite(odds), found, 0.0)


def probability_features(
    pool: Pool, own: Float64Array, odds: Float64Array, calibration: Calibration
) -> Features:
    """Features (S, K) of the linear form of a probability's log-odds, by name.

    ``share`` is the log of a candidate's share among the candidates of its step, ``certain`` the share
    itself, and ``words_share`` the log share of candidates with captions. ``trust`` is that of the pixel
    channel. All others are features of the step. ``mass`` is the evidence that the library has any picture
    for the step, ``size`` the log of the number of pictures. ``words_cosine`` is the best cosine by captions,
    for candidates with captions, and ``pixels_cosine`` the best by pixels, for the others. ``wordless`` is
    the log share of all candidates without captions, for these candidates, which score too low next to
    pictures with captions. ``agreed`` is what agreement adds to the log-odds of the most likely picture. So
    among pictures of one kind, the probability increases with the odds.
    """
    finite = np.isfinite(odds)
    known, alone = np.where(finite, odds, 0.0), np.where(np.isfinite(own), own, 0.0)
    mass, size = log_sum_exp(odds), np.log(max(pool.available, 1))
    mass = np.where(np.isfinite(mass), mass, 0.0)
    words, pixels = first_of(pool, WORDS), first_of(pool, PIXELS)
    said, seen = words.present, pixels.present & ~words.present
    wordless = log_sum_exp(np.where(said, -np.inf, odds))
    wordless = np.where(np.isfinite(wordless), np.maximum(wordless - mass, LEAST_SHARE), 0.0)
    share = np.minimum(known - mass, 0.0)
    agreed = np.where(finite, odds - calibration.agreement.weights["own"] * alone, 0.0)
    if odds.shape[1]:
        agreed = np.take_along_axis(agreed, odds.argmax(axis=1)[:, None], axis=1)
    return {
        "one": np.ones(odds.shape),
        "share": share,
        "certain": np.exp(share),
        "mass": np.broadcast_to(mass - size, odds.shape),
        "size": np.full(odds.shape, size),
        "trust": pixels.trust,
        "words_share": said * share,
        "words_cosine": said * _most(words.cosine, said),
        "pixels_cosine": seen * _most(pixels.cosine, seen),
        "wordless": ~said * wordless,
        "agreed": np.broadcast_to(agreed, odds.shape),
    }


def _most(values: Float64Array, usable: BoolArray) -> Float64Array:
    """Largest usable value (S, 1) of each row (S, K); −1 if none is usable."""
    return np.asarray(np.max(np.where(usable, values, -1.0), axis=1, initial=-1.0, keepdims=True))


# SciPy has both, but importing it takes longer than a search.


def sigmoid(odds: Float64Array) -> Float64Array:
    """Logistic function 1 / (1 + e^−x), in the shape of the log-odds."""
    return np.asarray(np.exp(-np.logaddexp(0.0, -odds)))


def log_sum_exp(odds: Float64Array) -> Float64Array:
    """Logarithm (S, 1) of the sum of exp over each row (S, K); −inf for an empty row."""
    top = np.max(odds, axis=1, initial=-np.inf, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    total = np.exp(odds - top).sum(axis=1, keepdims=True)
    return np.asarray(top + np.log(total, out=np.full(total.shape, -np.inf), where=total > 0))
