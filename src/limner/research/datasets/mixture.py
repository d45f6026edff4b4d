"""Mixtures: several data sets combined for training, with overlaps removed and licences respected."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from limner.errors import ConfigError, DataError, counted, unknown
from limner.research.datasets import split_source
from limner.research.datasets.pairs import MissingPicture, MixtureEntry, Pair, PairSet, licensed, text_id


def read_mixture(entries: Mapping[str, MixtureEntry], manifest: Path | None = None) -> PairSet:
    """Read several sets, split each, and combine them.

    Args:
        entries: name → settings of the set.
        manifest: see `limner.research.datasets.pairs.Source`.
    Raises:
        ConfigError: there is no set, or the location of one is not known.
        MissingError, DataError: see the readers and `mixed`.
    """
    if not entries:
        raise ConfigError('data: set "mixture" has no sets; add tables [data.mixture.NAME]')
    place = os.environ.get("LIMNER_DATA")
    parts = {}
    for name, entry in entries.items():
        if not entry.annotations and not place:
            raise ConfigError(
                f"data.mixture.{name}: no folder given; set data.mixture.{name}.annotations or $LIMNER_DATA"
            )
        folder = entry.annotations or str(Path(place or "") / "data" / name)
        parts[name] = split_source(entry.model_copy(update={"annotations": folder}), manifest)
    return mixed(
        parts,
        {name: entry.weight for name, entry in entries.items()},
        {name: entry.licences for name, entry in entries.items()},
    )


WEIGHT = "weight"
"""Key in `Pair.meta`: how often a training pair occurs in an epoch."""


def mixed(
    parts: Mapping[str, PairSet],
    weights: Mapping[str, float],
    licences: Mapping[str, Sequence[str]] | None = None,
) -> PairSet:
    """Combine sets that are already split.

    A training pair is dropped if its picture or text (ignoring case and white space) is also in validation or
    test of any of the sets. Relation labels are dropped, because the sets have no common relations.

    Args:
        parts: name → set, each pair with split and group; the name becomes a prefix of ids, groups and
            sequences.
        weights: name → how often a training pair of the set occurs in an epoch.
        licences: name → allowed licences, see `licensed`. Training pairs that overlap with a validation or
            test pair left out by licence are dropped too.
    Returns:
        The mixture; dropped pairs are counted in `notes` and listed in `missing`.
    Raises:
        DataError: a pair has no split, or no training row is left.
    """
    held: dict[tuple[str, str], str] = {}
    for name, data in parts.items():
        for pair in data.pairs:
            if not (pair.split and pair.group):
                raise DataError(f"{name}: pair {pair.id!r} has no split; split the sets before mixing them")
            if pair.split != "train":
                for key in _keys(pair):
                    held.setdefault(key, f"{pair.split} of {name}")
    pairs: list[Pair] = []
    left = [missing for data in parts.values() for missing in data.missing]
    notes = [note for data in parts.values() for note in data.notes]
    for name, whole in parts.items():
        data = licensed(whole, (licences or {}).get(name, ()))
        notes += data.notes[len(whole.notes) :]
        before = len(left)
        for pair in data.pairs:
            leak = next((key for key in _keys(pair) if key in held), None)
            if leak and pair.split == "train":
                reason = f"its {leak[0]} is also in {held[leak]}"
                left.append(MissingPicture(id=f"{name}:{pair.id}", image=pair.image, reason=reason))
                continue
            pairs.append(
                pair.model_copy(
                    update={
                        "id": f"{name}:{pair.id}",
                        "seq": f"{name}:{pair.seq}" if pair.seq else "",
                        "group": f"{name}:{pair.group}",
                        "labels": {},
                        "meta": {**pair.meta, WEIGHT: weights[name]},
                    }
                )
            )
        train, dropped = sum(pair.split == "train" for pair in data.pairs), len(left) - before
        notes.append(
            f"{name}: {train - dropped:,} of {counted(train, 'training row')}, weight {weights[name]:g};"
            f" {dropped:,} dropped because their picture or text is also in validation or test"
        )
    if not any(pair.split == "train" for pair in pairs):
        raise DataError(f"mixture of {', '.join(parts)}: no training row is left; see what was dropped")
    return PairSet("+".join(parts), (), tuple(pairs), tuple(left), tuple(notes))


def set_of(data: PairSet, name: str) -> PairSet:
    """One set of a mixture, with its original ids.

    Args:
        data: a mixture made by `mixed`.
        name: name of the set.
    Raises:
        ConfigError: the mixture has no such set.
    """
    names = dict.fromkeys(pair.group.partition(":")[0] for pair in data.pairs)
    if name not in names:
        raise ConfigError(f"{data.name}: " + unknown("set", name, names))
    start, suffix = f"{name}:", data.name.removeprefix("+".join(names))  # such as "-first48"
    pairs = [pair for pair in data.pairs if pair.group.startswith(start)]
    bare = [
        pair.model_copy(
            update={key: getattr(pair, key).removeprefix(start) for key in ("id", "seq", "group")}
        )
        for pair in pairs
    ]
    missing = tuple(entry for entry in data.missing if entry.id.startswith(start))
    return replace(data, name=f"{name}{suffix}", pairs=tuple(bare), missing=missing)


def _keys(pair: Pair) -> tuple[tuple[str, str], ...]:
    """Keys that identify a pair in the validation or test split of any set."""
    return ("picture", pair.image_id), ("text", text_id(pair.text))
