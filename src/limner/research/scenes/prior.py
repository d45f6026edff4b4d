"""From things in a picture to its scene graph: which pairs are related, and how.

Two ways to choose the predicate: by the frequency prior of annotated relations, or, if there is none, by
where the boxes lie. It finds no things and reads no files.
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
"""Least probability that there is any relation."""
MOST_RELATIONS = 30
"""Relations per picture."""


@dataclass(frozen=True)
class RelationPrior:
    """Counts of relations between kinds of things, and of pairs that merely overlap.

    Attributes:
        classes: labels of things, O of them.
        predicates: the relations, P of them, without the background.
        counts: (O, O, P + 1) int64, subject × object × predicate; at 0 stands the background: overlapping
            ordered pairs + 1, at 1 + p how often predicate p was annotated.
        source: what it was counted from, for people.
    Source: Zellers et al. 2018 (neural motifs), frequency baseline; docs/methods/gsda.md §3.2.
    """

    classes: tuple[str, ...]
    predicates: tuple[str, ...]
    counts: NDArray[np.int64]
    source: str = ""
    _place: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check that the parts fit each other."""
        due = (len(self.classes), len(self.classes), len(self.predicates) + 1)
        if self.counts.dtype != np.int64 or self.counts.shape != due:
            raise CheckpointError(
                f"relation prior: counts are {self.counts.dtype} {self.counts.shape}, expected int64 {due}"
            )
        for names, what in ((self.classes, "classes"), (self.predicates, "predicates")):
            if not names or not all(names) or len(set(names)) != len(names):
                raise CheckpointError(f"relation prior: {what} must be different names, at least one")
        if self.counts.size and (self.counts.min() < 0 or self.counts[..., 0].min() < 1):
            raise CheckpointError("relation prior: counts must not be negative, those of the background ≥ 1")
        object.__setattr__(self, "_place", {name: place for place, name in enumerate(self.classes)})

    def __contains__(self, label: object) -> bool:
        """Whether a label is one of the classes."""
        return label in self._place

    def related(self, subject: str, object_: str) -> tuple[str, float, float]:
        """The likeliest predicate.

        Returns:
            predicate, its probability, and the probability that there is any relation at all.
        Raises:
            KeyError: a label is none of the classes.
        Source: docs/methods/gsda.md §3.2: P = F / ΣF.
        """
        counts = self.counts[self._place[subject], self._place[object_]]
        probabilities = counts / counts.sum()
        best = 1 + int(np.argmax(probabilities[1:]))
        return self.predicates[best - 1], float(probabilities[best]), float(probabilities[1:].sum())


def overlapping(boxes: Sequence[tuple[float, float, float, float]]) -> list[tuple[int, int]]:
    """Ordered pairs of different boxes with a common area, subject first, in ascending order.

    Args:
        boxes: left, top, right, bottom; N of them.
    Returns:
        Places; boxes that only touch do not overlap.
    """
    held = np.asarray(boxes, dtype=np.float64).reshape(-1, 4)
    low = np.maximum(held[:, None, :2], held[None, :, :2])
    high = np.minimum(held[:, None, 2:], held[None, :, 2:])
    common = np.argwhere((low < high).all(axis=2))
    return [(int(s), int(o)) for s, o in common if s != o]


def save_prior(prior: RelationPrior, path: Path | str) -> None:
    """Write a safetensors file, whole or not at all; the names are JSON in its header."""
    about = {
        "kind": KIND,
        "classes": json.dumps(prior.classes),
        "predicates": json.dumps(prior.predicates),
        "source": prior.source,
    }
    write_bytes(Path(path), arrays_file({"counts": np.ascontiguousarray(prior.counts)}, about))


def load_prior(path: Path | str) -> RelationPrior:
    """Read what `save_prior` wrote.

    Raises:
        MissingError: the file does not exist.
        CheckpointError: not such a file, or its parts do not fit each other.
    """
    if not Path(path).is_file():
        raise MissingError(
            f"{path}: no such file; count one with 'limner data build-prior RELATIONS --to FILE'"
        )
    try:
        arrays, about = read_arrays(Path(path))
        if about.get("kind") != KIND:
            raise KeyError("kind")
        classes, predicates = (_WORDS.validate_json(about[key]) for key in ("classes", "predicates"))
        return RelationPrior(classes, predicates, arrays["counts"], about.get("source", ""))
    except CheckpointError as error:
        raise CheckpointError(f"{path}: {error}; count it again") from error
    except (KeyError, ValueError) as error:
        raise CheckpointError(
            f"{path}: not a relation prior ({' '.join(str(error).split())[:80]}); count one with"
            " 'limner data build-prior'"
        ) from error


@dataclass
class LabelNames:
    """Names of a detector's labels in the prior, and the labels without one.

    Attributes:
        prior: None if relations come from positions: every label then stands for itself.
        names: finder's label → class of the prior, given by the user; a label that is a class needs none.
        unmatched: label → how many things had it; they stay in their graphs, without relations.
    """

    prior: RelationPrior | None
    names: Mapping[str, str] = field(default_factory=dict)
    unmatched: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        """Reject names that the prior does not know."""
        for label, name in self.names.items():
            if self.prior is not None and name not in self.prior:
                raise ConfigError(
                    f"labels: {label!r}: " + unknown("class of the prior", name, self.prior.classes)
                )

    def rename(self, objects: Iterable[SceneObject]) -> tuple[SceneObject, ...]:
        """The things under the prior's names; those without one are counted and keep their own."""
        renamed = []
        for thing in objects:
            label = self.names.get(thing.label, thing.label)
            if self.prior is not None and label not in self.prior:
                self.unmatched[thing.label] += 1
            renamed.append(thing if label == thing.label else thing.model_copy(update={"label": label}))
        return tuple(renamed)


def read_label_names(path: Path, prior: RelationPrior | None = None) -> dict[str, str]:
    """Finder's label → class of the prior, from a TOML file of ``"label" = "class"`` lines.

    Args:
        path: the file.
        prior: names that are none of its classes are then left out: for a list that serves many priors.
    Raises:
        ConfigError: not TOML, or not text for text.
    """
    found = read_toml(path)
    wrong = next((label for label, name in found.items() if not isinstance(name, str) or not name), None)
    if wrong is not None:
        raise ConfigError(f"{path}: {wrong!r} is {found[wrong]!r}, expected the name of a class")
    return {label: name for label, name in found.items() if prior is None or name in prior}


def coco_label_names(prior: RelationPrior) -> dict[str, str]:
    """COCO's classes under the names of the filtered Visual Genome, as far as a prior has them."""
    return read_label_names(Path(__file__).with_name("coco_visual_genome.toml"), prior)


def relate(
    image: str, objects: Sequence[SceneObject], prior: RelationPrior | None, *, must_overlap: bool = True
) -> SceneGraph:
    """A graph whose predicates are the likeliest for the two labels, or where boxes lie.

    With a prior, a pair is kept where the prior gives any relation at least `MIN_RELATED`; the score of the
    relation is the probability of the predicate times both scores. Without one, every pair has one relation,
    from the earlier thing to the later; its score is the product of both scores. The best `MOST_RELATIONS`
    stay, equal scores in the order of their pairs.

    Args:
        image: id of the picture.
        objects: things, best first, under the prior's names; others get no relation.
        prior: prior of relations; None uses `position`.
        must_overlap: relate only things whose boxes overlap.
    Source: GSDA 2021, Section 3.3; docs/methods/gsda.md §3.3.
    """
    pairs: Iterable[tuple[int, int]] = permutations(range(len(objects)), 2)
    if must_overlap:
        pairs = overlapping([thing.box for thing in objects])
    found = []
    for s, o in pairs:
        subject, object_ = objects[s], objects[o]
        if prior is None:
            if s < o:
                score = subject.score * object_.score
                found.append(SceneRelation(s=s, p=position(subject.box, object_.box), o=o, score=score))
        elif subject.label in prior and object_.label in prior:
            predicate, probability, related = prior.related(subject.label, object_.label)
            # A predicate that was never annotated for two labels is no finding, whatever else is likely.
            if related >= MIN_RELATED and probability > 0:
                score = probability * subject.score * object_.score
                found.append(SceneRelation(s=s, p=predicate, o=o, score=score))
    best = sorted(found, key=lambda relation: -relation.score)[:MOST_RELATIONS]
    return SceneGraph(image=image, objects=tuple(objects), relations=tuple(best))


def position(subject: Sequence[float], object_: Sequence[float]) -> str:
    """Position of the first box relative to the second, one of six relations; y increases downwards.

    Args:
        subject: left, top, right, bottom.
        object_: likewise.
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
