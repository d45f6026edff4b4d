"""From things in a picture to its scene graph: which pairs are related, and how.

Two ways to choose the predicate: by the frequency prior of annotated relations, or, where there is none, by
where the boxes lie. It finds no things and reads no files.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from limner.config import read_toml
from limner.data.relation_prior import RelationPrior, overlapping
from limner.data.scene_graphs import SceneGraph, SceneObject, SceneRelation
from limner.errors import ConfigError, DataError, unknown

MIN_RELATED = 0.2
MOST_RELATIONS = 30


@dataclass(frozen=True)
class RelationRules:
    """Which pairs are kept.

    Attributes:
        must_overlap: only pairs whose boxes overlap.
        min_related: least probability that there is any relation, in [0, 1].
        most: relations per picture.
    Source: SPEC 4.4.
    """

    must_overlap: bool = True
    min_related: float = MIN_RELATED
    most: int = MOST_RELATIONS

    def __post_init__(self) -> None:
        """Check the ranges."""
        if not 0 <= self.min_related <= 1 or self.most < 0:
            raise ConfigError(
                f"scene relations: {self}, expected min_related in [0, 1] and most of at least 0"
            )


@dataclass
class LabelNames:
    """What a finder's labels are called in the prior, and which have no name there.

    Attributes:
        prior: None where relations are told by position: every label then stands for itself.
        names: finder's label → class of the prior, given by the user; a label that is a class needs none.
        unmatched: label → how many things had it; they stay in their graphs, without relations.
    """

    prior: RelationPrior | None
    names: Mapping[str, str] = field(default_factory=dict)
    unmatched: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        """Refuse names that the prior does not know."""
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


def relate_by_prior(
    image: str, objects: Sequence[SceneObject], prior: RelationPrior, rules: RelationRules | None = None
) -> SceneGraph:
    """A graph whose predicates are the likeliest for the two labels.

    A pair is kept where the prior gives any relation at least `min_related`; the first `most` stay, by
    probability of the predicate times both scores, which becomes the relation's score.

    Args:
        image: id of the picture.
        objects: things under the prior's names; others get no relation.
        prior: of relations.
        rules: None takes those of the paper's reading.
    Source: SPEC 4.4.
    """
    kept = rules or RelationRules()
    found = []
    for s, o in _candidates(objects, must_overlap=kept.must_overlap):
        if objects[s].label not in prior or objects[o].label not in prior:
            continue
        predicate, probability, related = prior.related(objects[s].label, objects[o].label)
        # A predicate that was never annotated for two labels is no finding, whatever min_related says.
        if related >= kept.min_related and probability > 0:
            score = probability * objects[s].score * objects[o].score
            found.append(SceneRelation(s=s, p=predicate, o=o, score=score))
    return _graph(image, objects, found, kept.most)


def relate_by_position(
    image: str, objects: Sequence[SceneObject], rules: RelationRules | None = None
) -> SceneGraph:
    """A graph of six relations that boxes alone tell: left of, right of, above, below, inside, surrounding.

    One relation per pair, from the earlier thing to the later; its score is the product of both scores.

    Args:
        image: id of the picture.
        objects: things, best first.
        rules: as `relate_by_prior`; boxes need no `min_related`.
    Source: Johnson et al. 2018 (sg2im), section 4: relations of COCO-Stuff.
    """
    kept = rules or RelationRules()
    found = [
        SceneRelation(
            s=s,
            p=position(objects[s].box, objects[o].box),
            o=o,
            score=objects[s].score * objects[o].score,
        )
        for s, o in _candidates(objects, must_overlap=kept.must_overlap)
        if s < o
    ]
    return _graph(image, objects, found, kept.most)


def position(subject: Sequence[float], object_: Sequence[float]) -> str:
    """Where the first box lies as seen from the second; y grows downwards.

    Args:
        subject: left, top, right, bottom.
        object_: likewise.
    """
    if len(subject) != 4 or len(object_) != 4:
        raise DataError(f"position: boxes {subject} and {object_}, expected left, top, right, bottom each")
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


def _candidates(objects: Sequence[SceneObject], *, must_overlap: bool) -> list[tuple[int, int]]:
    """Ordered pairs of places that may be related."""
    if must_overlap:
        return overlapping([thing.box for thing in objects])
    return [(s, o) for s in range(len(objects)) for o in range(len(objects)) if s != o]


def _graph(image: str, objects: Sequence[SceneObject], found: list[SceneRelation], most: int) -> SceneGraph:
    """The graph of the best relations; equal scores keep the order of their pairs."""
    best = sorted(found, key=lambda relation: -relation.score)[:most]
    return SceneGraph(image=image, objects=tuple(objects), relations=tuple(best))
