"""How things of two kinds are usually related: counts of annotated relations, as probabilities.

The frequency prior of scene graphs: given what two overlapping things are, it says what one probably is to
the other. It reads no annotations (`visual_genome` does) and sees no picture.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from limner.errors import CheckpointError, MissingError
from limner.files import write_bytes

KIND = "limner relation prior 1"
_LOG_FLOOR = 1e-3


@dataclass(frozen=True)
class RelationPrior:
    """Counts of relations between kinds of things, and of pairs that merely overlap.

    Attributes:
        classes: labels of things, O of them.
        predicates: the relations, P of them, without the background.
        counts: (O, O, P + 1) int64, subject × object × predicate; at 0 stands the background: overlapping
            ordered pairs + 1, at 1 + p how often predicate p was annotated.
        source: what it was counted from, for people.
    Source: SPEC 4.4; Zellers et al. 2018 (neural motifs), frequency baseline.
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

    def probabilities(self, subject: str, object_: str) -> NDArray[np.float64]:
        """(P + 1,) probabilities of background and predicates, which sum to 1.

        Args:
            subject: one of the classes.
            object_: one of the classes.
        Raises:
            KeyError: it is none.
        Source: SPEC 4.4: P = F / ΣF.
        """
        counts = self.counts[self._place[subject], self._place[object_]]
        return np.asarray(counts / counts.sum(), dtype=np.float64)

    def log_probabilities(self) -> NDArray[np.float64]:
        """(O, O, P + 1) ln(P + 10⁻³), the bias that a predicate classifier starts from."""
        totals = self.counts.sum(axis=2, keepdims=True)
        return np.asarray(np.log(self.counts / totals + _LOG_FLOOR), dtype=np.float64)

    def related(self, subject: str, object_: str) -> tuple[str, float, float]:
        """The likeliest predicate.

        Returns:
            predicate, its probability, and the probability that there is any relation at all.
        Raises:
            KeyError: a label is none of the classes.
        """
        probabilities = self.probabilities(subject, object_)
        best = 1 + int(np.argmax(probabilities[1:]))
        return self.predicates[best - 1], float(probabilities[best]), float(probabilities[1:].sum())


def overlapping(boxes: Sequence[tuple[float, float, float, float]]) -> list[tuple[int, int]]:
    """Ordered pairs of different boxes with a common area, subject first, in ascending order.

    Args:
        boxes: left, top, right, bottom; N of them.
    Returns:
        Places; boxes that only touch do not overlap.
    """
    if len(boxes) < 2:
        return []
    held = np.asarray(boxes, dtype=np.float64)  # (N, 4)
    low = np.maximum(held[:, None, :2], held[None, :, :2])
    high = np.minimum(held[:, None, 2:], held[None, :, 2:])
    common = np.argwhere((low < high).all(axis=2))
    return [(int(s), int(o)) for s, o in common if s != o]


def save_prior(prior: RelationPrior, path: Path | str) -> None:
    """Write a safetensors file, whole or not at all; the names are JSON in its header."""
    from safetensors.numpy import save

    about = {
        "kind": KIND,
        "classes": json.dumps(prior.classes),
        "predicates": json.dumps(prior.predicates),
        "source": prior.source,
    }
    write_bytes(Path(path), save({"counts": np.ascontiguousarray(prior.counts)}, about))


def load_prior(path: Path | str) -> RelationPrior:
    """Read what `save_prior` wrote.

    Raises:
        MissingError: no such file.
        CheckpointError: not such a file, or its parts do not fit each other.
    """
    from safetensors import SafetensorError, safe_open

    if not Path(path).is_file():
        raise MissingError(
            f"{path}: no such file; count one with 'limner data build-prior RELATIONS --to FILE'"
        )
    try:
        with safe_open(str(path), framework="numpy") as file:
            about = file.metadata() or {}
            if about.get("kind") != KIND:
                raise KeyError("kind")
            names = [json.loads(about[key]) for key in ("classes", "predicates")]
            counts = file.get_tensor("counts")
        if not all(isinstance(name, str) for part in names for name in part):
            raise TypeError("names must be text")
        return RelationPrior(tuple(names[0]), tuple(names[1]), counts, about.get("source", ""))
    except CheckpointError as error:
        raise CheckpointError(f"{path}: {error}; count it again") from error
    except (SafetensorError, KeyError, TypeError, ValueError, OSError) as error:
        raise CheckpointError(
            f"{path}: not a relation prior ({' '.join(str(error).split())[:80]}); count one with"
            " 'limner data build-prior'"
        ) from error
