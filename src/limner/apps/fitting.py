"""Fits a channel's calibration on a library's own captioned pictures.

Each caption asks for its picture among the others, as a step of a text does later.
"""

from __future__ import annotations

import numpy as np

from limner.apps.equipment import CHANNELS, channels_of
from limner.data.language import languages_of
from limner.errors import ConfigError, DataError, unknown
from limner.evaluation.evidence import FORMS, Form, Pairs, cost, fit_evidence, text_pairs
from limner.retrieval.calibration import Calibration
from limner.retrieval.channels import EncodedChannel, Evidence
from limner.retrieval.library import Library
from limner.retrieval.own_calibration import OwnChannel
from limner.similarity import scores

FITTED = ("clip", "base", "labels")
"""Channels that look at pixels; of words, a captioned picture says nothing but its own caption."""
LEAST = 50
MOST = 2000
TYPICAL = 5.0
"""Pictures that the typical mean and spread count for, as in the shipped calibration."""


def fit_channel(library: Library, name: str, shipped: Calibration, *, seed: int = 0) -> OwnChannel:
    """Fit a channel on the captioned pictures of a library.

    The form is the one that costs least on every other picture when fitted on the rest; then it is fitted on
    all. Of more than 2,000 pictures so many are drawn.

    Args:
        library: an indexed library.
        name: of the channel.
        shipped: what the fit would replace.
        seed: of the draws.
    Raises:
        ConfigError: the channel does not look at pixels.
        DataError: the library lacks its vectors, too few pictures have a caption, or captions and vectors
            have nothing to do with each other.
        CheckpointError: see `limner.apps.equipment.channels_of`.
    """
    if name not in FITTED:
        raise ConfigError("--channel: " + unknown("channel to fit", name, FITTED))
    (channel,) = (one for one in channels_of(library, [name], shipped) if one.name == name)
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
        for (row, text), told in zip(said.items(), codes, strict=True)
        if channel.reads is None or told.code in channel.reads
    }
    rows = np.array(list(captions), dtype=np.int64)
    if len(rows) < LEAST:
        raise DataError(
            f"{library.folder}: {len(rows)} pictures have a caption that channel {name} reads, expected at"
            f" least {LEAST} to fit on; the calibration that comes with limner stays"
        )
    rows = np.random.default_rng(seed).permutation(rows)[:MOST]
    texts = EncodedChannel.encode(channel, [captions[row] for row in rows])
    table = scores(texts.texts, np.asarray(space.matrix[rows], dtype=np.float32)).astype(np.float64)
    kin = np.unique([gallery.groups[int(row)] for row in rows], return_inverse=True)[1]
    alike = np.unique([captions[row] for row in rows], return_inverse=True)[1]
    match = (kin[:, None] == kin) | (alike[:, None] == alike)
    halves = [text_pairs(table[half::2][:, half::2], match[half::2][:, half::2]) for half in (0, 1)]
    costs = {form: np.mean([_held_out(halves, half, form) for half in (0, 1)]) for form in FORMS}
    form = min(costs, key=lambda one: costs[one])
    if not costs[form] < 1:
        raise DataError(
            f"{library.folder}: captions and channel {name} say nothing of each other (Cllr"
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
        fingerprint=library.settings.spaces[CHANNELS[name]].fingerprint,
        pairs=len(rows),
        cost=round(float(costs[form]), 4),
        cost_before=round(float(np.mean([cost(shipped.evidence(name), half) for half in halves])), 4),
    )


def _held_out(halves: list[Pairs], half: int, form: Form) -> float:
    """Cllr on one half of a fit on the other; without end where a better match would be less evidence."""
    evidence: Evidence = fit_evidence(halves[1 - half], form)
    spread = float(halves[1 - half].cosine.std())
    return cost(evidence, halves[half]) if evidence.slope + evidence.z_slope / spread > 0 else np.inf
