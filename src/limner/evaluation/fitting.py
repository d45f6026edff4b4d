"""Fits what turns cosines into evidence, and says how good the fit is on data it has not seen.

Logistic regression of "is the right one" on the cosine gives posterior log odds; taking off the log
odds of the sample leaves a log-likelihood ratio. It fits numbers, it does not store or apply them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from limner.arrays import scores
from limner.counts import counted
from limner.errors import ConfigError, DataError, unknown
from limner.language import languages_of
from limner.library.channels import EncodedChannel, Evidence
from limner.library.library import Library
from limner.storyboard.calibration import Calibration, OwnChannel
from limner.storyboard.equipment import channels_of

Form = Literal["slope", "z", "both"]
FORMS: tuple[Form, ...] = get_args(Form)
PRIOR = 0.01
"""Share of matches a fit is made for; where the model is wrong, it is least wrong around there. A picture is
one of many, hence low."""
Values = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Pairs:
    """Cosines of P pairs, of which some belong together.

    Attributes:
        cosine: (P,).
        z: (P,) the cosine standardised over its gallery.
        match: (P,) True where the two belong together.
        weight: (P,) share of each pair in the fit, summing to 1 over the matches and over the rest.
    """

    cosine: Values
    z: Values
    match: Mask
    weight: Values


def standardised(scores: Values) -> Values:
    """(N, M) cosines → each row with mean 0 and deviation 1; a constant row becomes 0."""
    std = scores.std(axis=1, keepdims=True)
    centred = scores - scores.mean(axis=1, keepdims=True)
    z: Values = np.divide(centred, std, out=np.zeros_like(centred), where=std > 0)
    return z


def text_pairs(scores: Values, match: Mask, *, others: int = 100) -> Pairs:
    """All matching pairs of a score table, and a sample of the others for each text.

    Args:
        scores: (N, M) cosines, rows are texts.
        match: (N, M) True where the picture belongs to the text.
        others: pairs drawn per text among the rest, by seed 0, without replacement.
    Raises:
        DataError: a text has no match or nothing but matches.
    """
    wrong = (~match).sum(axis=1)
    if not match.any(axis=1).all() or not wrong.all():
        raise DataError("text_pairs: every text needs a picture that matches and one that does not")
    # the smallest of random keys are a draw without replacement; matches get keys out of reach
    keys = np.random.default_rng(0).random(scores.shape)
    keys[match] = 2.0
    take = min(others, int(wrong.min()))
    drawn = np.argpartition(keys, take - 1, axis=1)[:, :take]
    chosen = match.copy()
    np.put_along_axis(chosen, drawn, True, axis=1)
    return weighted(scores[chosen], standardised(scores)[chosen], match[chosen])


def weighted(cosine: Values, z: Values, match: Mask) -> Pairs:
    """Pairs with equal weight for each match, and for each of the rest."""
    weight = np.where(match, 1.0 / match.sum(), 1.0 / (~match).sum())
    return Pairs(cosine, z, match, weight)


def fit_evidence(pairs: Pairs, form: Form = "both") -> Evidence:
    """The log-likelihood ratio that is linear in the cosine, its z, or both.

    Args:
        pairs: what to learn from.
        form: which of the two the ratio may depend on.
    Raises:
        DataError: all pairs match, or none.
    Source: prior-weighted logistic regression of Brümmer & du Preez 2006, section 6.
    """
    columns = {"slope": [pairs.cosine], "z": [pairs.z], "both": [pairs.cosine, pairs.z]}[form]
    if pairs.match.all() or not pairs.match.any():
        raise DataError("evidence: the pairs all match or none does; both kinds are needed")
    weight = pairs.weight * np.where(pairs.match, PRIOR, 1 - PRIOR) * len(pairs.match)
    model = LogisticRegression(C=np.inf, tol=1e-8, max_iter=10_000)
    model.fit(np.stack(columns, axis=1), pairs.match, sample_weight=weight)
    slopes = [float(value) for value in model.coef_[0]]
    return Evidence(
        slope=slopes[0] if form != "z" else 0.0,
        z_slope=slopes[-1] if form != "slope" else 0.0,
        offset=float(model.intercept_[0]) - float(np.log(PRIOR / (1 - PRIOR))),
    )


def ratios(evidence: Evidence, cosine: Values, z: Values) -> Values:
    """Evidence of pairs in nats, in the shape of the cosines."""
    nats: Values = evidence.slope * cosine + evidence.z_slope * z + evidence.offset
    return nats


def cost(evidence: Evidence, pairs: Pairs) -> float:
    """Cllr in bits: 0 is perfect, 1 is knowing nothing, more is misleading.

    Source: Brümmer & du Preez 2006, equation 13.
    """
    nats = ratios(evidence, pairs.cosine, pairs.z)
    loss = np.logaddexp(0.0, np.where(pairs.match, -nats, nats))
    return float((pairs.weight * loss).sum() / (2 * np.log(2)) / (pairs.weight[pairs.match].sum()))


FITTED = ("clip", "base", "labels")
"""Channels that look at pixels; of words, a captioned picture says nothing but its own caption."""
LEAST = 50
MOST = 2000
TYPICAL = 5.0
"""Pictures that the typical mean and spread count for, as in the shipped calibration."""


def fit_channel(library: Library, name: str, shipped: Calibration, weights: Sequence[str] = ()) -> OwnChannel:
    """Fit a channel on the captioned pictures of a library.

    The form is the one that costs least on every other picture when fitted on the rest; then it is fitted on
    all. Of more than 2,000 pictures so many are drawn.

    Args:
        library: an indexed library.
        name: of the channel.
        shipped: what the fit would replace.
        weights: as of `limner.storyboard.equipment.channels_of`.
    Raises:
        ConfigError: the channel does not look at pixels.
        DataError: the library lacks its vectors, too few pictures have a caption, or captions and vectors
            have nothing to do with each other.
        CheckpointError: see `limner.storyboard.equipment.channels_of`.
    """
    if name not in FITTED:
        raise ConfigError("--channel: " + unknown("channel to fit", name, FITTED))
    (channel,) = (one for one in channels_of(library, [name], shipped, weights=weights) if one.name == name)
    gallery = library.gallery([channel.space])
    space = gallery.space(channel.space)
    rows = np.flatnonzero(space.present)
    said = {
        row: one.alt
        for row, one in zip(rows, library.pictures(gallery.ids[int(row)] for row in rows), strict=True)
        if one.alt.strip()
    }
    codes = languages_of(list(said.values())).each if said else ()
    captions = {
        row: text
        for (row, text), code in zip(said.items(), codes, strict=True)
        if channel.reads is None or code.code in channel.reads
    }
    rows = np.array(list(captions), dtype=np.int64)
    if len(rows) < LEAST:
        raise DataError(
            f"{library.place}: channel {name} reads captions of {counted(len(rows), 'picture')}, expected at"
            f" least {LEAST} to fit on; the calibration that comes with limner stays"
        )
    rows = np.random.default_rng(0).permutation(rows)[:MOST]
    texts = EncodedChannel.encode(channel, [captions[row] for row in rows])
    table = scores(texts.texts, space.vectors(rows)).astype(np.float64)
    kin = np.unique([gallery.groups[int(row)] for row in rows], return_inverse=True)[1]
    alike = np.unique([captions[row] for row in rows], return_inverse=True)[1]
    match = (kin[:, None] == kin) | (alike[:, None] == alike)
    halves = [text_pairs(table[half::2][:, half::2], match[half::2][:, half::2]) for half in (0, 1)]
    costs = {form: np.mean([_held_out(halves, half, form) for half in (0, 1)]) for form in FORMS}
    form = min(costs, key=lambda one: costs[one])
    if not costs[form] < 1:
        raise DataError(
            f"{library.place}: captions and channel {name} say nothing of each other (Cllr"
            f" {costs[form]:.2f} bits, 1 is knowing nothing); the calibration that comes with limner stays"
        )
    evidence = fit_evidence(text_pairs(table, match), form).model_copy(
        update={
            "typical_mean": float(table.mean()),
            "typical_std": float(table.std(axis=1).mean()),
            "typical_count": TYPICAL,
        }
    )
    return OwnChannel(
        evidence=evidence,
        fingerprint=library.settings.spaces[name].fingerprint,
        pairs=len(rows),
        cost=round(float(costs[form]), 4),
        cost_before=round(float(np.mean([cost(shipped.channels[name], half) for half in halves])), 4),
    )


def _held_out(halves: list[Pairs], half: int, form: Form) -> float:
    """Cllr on one half of a fit on the other; without end where a better match would be less evidence."""
    evidence: Evidence = fit_evidence(halves[1 - half], form)
    spread = float(halves[1 - half].cosine.std())
    return cost(evidence, halves[half]) if evidence.slope + evidence.z_slope / spread > 0 else np.inf
