"""From detected objects to a scene graph: which pairs are related, and how.

The predicate is the most frequent one for the two labels in annotated data (frequency prior) or, without a
prior, the relative position of the boxes.
"""

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from limner.checksums import arrays_file, read_arrays
from limner.config import read_toml
from limner.errors import CheckpointError, ConfigError, MissingError, unknown
from limner.files import write_bytes
from limner.research.scenes.graphs import SceneGraph, SceneObject, SceneRelation

_WORDS = TypeAdapter(tuple[str, ...])
KIND = "limner relation prior 1"
MIN_RELATED = 0.2
"""Least probability that two objects are related at all."""
MOST_RELATIONS = 30
"""Most relations per picture."""


@dataclass(frozen=True)
class RelationPrior:
    """Frequency prior: counts of predicates for each pair of object classes.

    Attributes:
        classes: object classes, O of them.
        predicates: predicates, P of them, without the background.
        counts: (O, O, P + 1) int64, subject × object × predicate. Index 0 is the background (number of
            overlapping ordered pairs, plus 1), index 1 + p the annotated count of predicate p.
        source: human-readable description of the data.
    Source: Zellers et al. 2018 (neural motifs), frequency baseline; docs/methods/gsda.md §3.2.
    """

    classes: tuple[str, ...]
    predicates: tuple[str, ...]
    counts: NDArray[np.int64]
    source: str = ""
    _place: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check that shapes and names are consistent."""
        due = (len(self.classes), len(self.classes), len(self.predicates) + 1)
        if self.counts.dtype != np.int64 or self.counts.shape != due:
            raise CheckpointError(
                f"relation prior: counts are {self.counts.dtype} {self.counts.shape}, expected int64 {due}"
            )
        for names, what in ((self.classes, "classes"), (self.predicates, "predicates")):
            if not names or not all(names) or len(set(names)) != len(names):
                raise CheckpointError(f"relation prior: {what} must be distinct names, at least one")
        if self.counts.size and (self.counts.min() < 0 or self.counts[..., 0].min() < 1):
            raise CheckpointError("relation prior: counts must not be negative, those of the background ≥ 1")
        object.__setattr__(self, "_place", {name: place for place, name in enumerate(self.classes)})

    def __contains__(self, label: object) -> bool:
        """Whether a label is one of the classes."""
        return label in self._place

    def related(self, subject: str, object_: str) -> tuple[str, float, float]:
        """The most probable predicate for two labels.

        Returns:
            The predicate, its probability, and the probability of any relation.
        Raises:
            KeyError: a label is not one of the classes.
        Source: docs/methods/gsda.md §3.2: P = F / ΣF.
        """
        counts = self.counts[self._place[subject], self._place[object_]]
        probabilities = counts / counts.sum()
        best = 1 + int(np.argmax(probabilities[1:]))
        return self.predicates[best - 1], float(probabilities[best]), float(probabilities[1:].sum())


def overlapping(boxes: Sequence[tuple[float, float, float, float]]) -> list[tuple[int, int]]:
    """Ordered pairs of different boxes that overlap; boxes that only touch do not.

    Args:
        boxes: N boxes: left, top, right, bottom.
    Returns:
        Pairs of indices, subject first, in ascending order.
    """
    held = np.asarray(boxes, dtype=np.float64).reshape(-1, 4)
    low = np.maximum(held[:, None, :2], held[None, :, :2])
    high = np.minimum(held[:, None, 2:], held[None, :, 2:])
    common = np.argwhere((low < high).all(axis=2))
    return [(int(s), int(o)) for s, o in common if s != o]


def save_prior(prior: RelationPrior, path: Path | str) -> None:
    """Write a prior to a safetensors file, atomically; the names are JSON in its header."""
    about = {
        "kind": KIND,
        "classes": json.dumps(prior.classes),
        "predicates": json.dumps(prior.predicates),
        "source": prior.source,
    }
    write_bytes(Path(path), arrays_file({"counts": np.ascontiguousarray(prior.counts)}, about))


def load_prior(path: Path | str) -> RelationPrior:
    """Read a prior written by `save_prior`.

    Raises:
        MissingError: the file does not exist.
        CheckpointError: not a prior, or an inconsistent one.
    """
    if not Path(path).is_file():
        raise MissingError(
            f"{path}: does not exist; create one with 'limner data build-prior RELATIONS --to FILE'"
        )
    try:
        arrays, about = read_arrays(Path(path))
        if about.get("kind") != KIND:
            raise KeyError("kind")
        classes, predicates = (_WORDS.validate_json(about[key]) for key in ("classes", "predicates"))
        return RelationPrior(classes, predicates, arrays["counts"], about.get("source", ""))
    except CheckpointError as error:
        raise CheckpointError(f"{path}: {error}; build it again") from error
    except (KeyError, ValueError) as error:
        raise CheckpointError(
            f"{path}: not a relation prior ({' '.join(str(error).split())[:80]}); create one with"
            " 'limner data build-prior'"
        ) from error


@dataclass
class LabelNames:
    """Mapping from a detector's labels to classes of the prior, which counts labels without a class.

    Attributes:
        prior: None if relations come from positions; labels are then left as they are.
        names: detector's label → class of the prior, from the user; labels that are classes need no entry.
        unmatched: label without a class → number of objects; they stay in their graphs, without relations.
    """

    prior: RelationPrior | None
    names: Mapping[str, str] = field(default_factory=dict)
    unmatched: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        """Check that the names are classes of the prior."""
        for label, name in self.names.items():
            if self.prior is not None and name not in self.prior:
                raise ConfigError(
                    f"labels: {label!r}: " + unknown("class of the prior", name, self.prior.classes)
                )

    def rename(self, objects: Iterable[SceneObject]) -> tuple[SceneObject, ...]:
        """Rename objects to the prior's classes; objects without a class keep their label and are counted."""
        renamed = []
        for thing in objects:
            label = self.names.get(thing.label, thing.label)
            if self.prior is not None and label not in self.prior:
                self.unmatched[thing.label] += 1
            renamed.append(thing if label == thing.label else thing.model_copy(update={"label": label}))
        return tuple(renamed)


def read_label_names(path: Path, prior: RelationPrior | None = None) -> dict[str, str]:
    """Read detector's label → class of the prior from a TOML file of ``"label" = "class"`` lines.

    Args:
        path: the file.
        prior: if given, entries whose class it lacks are left out, so that one file serves many priors.
    Raises:
        ConfigError: not TOML, or a value is not a name.
    """
    names = read_toml(path)
    wrong = next((label for label, name in names.items() if not isinstance(name, str) or not name), None)
    if wrong is not None:
        raise ConfigError(f"{path}: {wrong!r} is {names[wrong]!r}, expected the name of a class")
    return {label: name for label, name in names.items() if prior is None or name in prior}


def coco_label_names(prior: RelationPrior) -> dict[str, str]:
    """COCO's class → class of the filtered Visual Genome, for the classes that a prior has."""
    return read_label_names(Path(__file__).with_name("coco_visual_genome.toml"), prior)


def relate(
    image: str, objects: Sequence[SceneObject], prior: RelationPrior | None, *, must_overlap: bool = True
) -> SceneGraph:
    """Build a scene graph from objects, with predicates from a prior or from positions.

    With a prior, a pair is related if the probability of any relation is at least `MIN_RELATED`; the score is
    the probability of the best predicate times both objects' scores. Without a prior, each pair has one
    relation, from the earlier object to the later, and its score is the product of both scores. The
    `MOST_RELATIONS` highest scores are kept; ties in the order of the pairs.

    Args:
        image: id of the picture.
        objects: objects, best first, with the prior's class names; other labels get no relation.
        prior: frequency prior; None uses `position`.
        must_overlap: whether to relate only objects whose boxes overlap.
    Source: GSDA 2021, Section 3.3; docs/methods/gsda.md §3.3.
    """
    pairs: Iterable[tuple[int, int]] = permutations(range(len(objects)), 2)
    if must_overlap:
        pairs = overlapping([thing.box for thing in objects])
    relations = []
    for s, o in pairs:
        subject, object_ = objects[s], objects[o]
        if prior is None:
            if s < o:
                score = subject.score * object_.score
                relations.append(SceneRelation(s=s, p=position(subject.box, object_.box), o=o, score=score))
        elif subject.label in prior and object_.label in prior:
            predicate, probability, related = prior.related(subject.label, object_.label)
            # A probability of 0 means that no predicate was annotated for these labels.
            if related >= MIN_RELATED and probability > 0:
                score = probability * subject.score * object_.score
                relations.append(SceneRelation(s=s, p=predicate, o=o, score=score))
    best = sorted(relations, key=lambda relation: -relation.score)[:MOST_RELATIONS]
    return SceneGraph(image=image, objects=tuple(objects), relations=tuple(best))


def position(subject: Sequence[float], object_: Sequence[float]) -> str:
    """Position of the first box relative to the second, one of six; y increases downwards.

    Args:
        subject: left, top, right, bottom of the first box.
        object_: the same of the second.
    Source: Johnson et al. 2018 (sg2im), section 4: relations of COCO-Stuff.
    """
    sx0, sy0, sx1, sy1 = subject
    ox0, oy0, ox1, oy1 = object_
    if sx0 < ox0 and sx1 > ox1 and sy0 < oy0 and sy1 > oy1:
        return "surrounding"
    if sx0 > ox0 and sx1 < ox1 and sy0 > oy0 and sy1 < oy1:
        return "inside"
    angle = math.atan2((sy0 + sy1) - (oy0 + oy1), (sx0 + sx1) - (ox0 + ox1))
    if abs(angle) >= 3 * math.pi / 4:
        return "left of"
    if -math.pi / 4 <= angle < math.pi / 4:
        return "right of"
    return "above" if angle < 0 else "below"
