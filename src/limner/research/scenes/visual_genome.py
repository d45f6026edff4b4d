"""Counts annotated relations (in Visual Genome's format or limner's own) into a frequency prior.

Files are streamed, because Visual Genome's is gigabytes in size. Names are lower-cased, and otherwise
unchanged.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np

from limner.config import Record
from limner.errors import RESEARCH, DataError, MissingError, counted, installed
from limner.research.datasets.folders import read_json, refuse_pickle, whereabouts
from limner.research.scenes.graphs import each_graph
from limner.research.scenes.prior import RelationPrior, overlapping

CLASSES = 150
PREDICATES = 50
FILE_NAME = "relationships.json"
_EXPECTED = "a list of {image_id, relationships: [{predicate, subject: {name, x, y, w, h}, object: {...}}]}"


@dataclass(frozen=True)
class Annotated:
    """Annotations of one picture.

    Attributes:
        image: id of the picture.
        labels: labels of its objects, lower case.
        boxes: left, top, right, bottom, in any unit.
        triples: index of the subject, predicate, index of the object.
    """

    image: str
    labels: tuple[str, ...]
    boxes: tuple[tuple[float, float, float, float], ...]
    triples: tuple[tuple[int, str, int], ...]


class Names(Record):
    """The vocabulary of a prior.

    Attributes:
        classes: labels of objects.
        predicates: names of predicates.
    """

    classes: tuple[str, ...]
    predicates: tuple[str, ...]


class PriorReport(Record):
    """Result of counting relations.

    Attributes:
        pictures: number of pictures, with or without relations.
        relations: number of relations counted.
        outside: number of relations left out because a name is not in the vocabulary.
        outside_names: the most frequent names outside the vocabulary, with counts.
    """

    pictures: int
    relations: int
    outside: int
    outside_names: tuple[tuple[str, int], ...]


def read_names(path: Path) -> Names:
    """Read a vocabulary in the format of the filtered Visual Genome.

    Args:
        path: a JSON object with ``idx_to_label`` and ``idx_to_predicate``, each mapping numbers from "1" to
            names.
    Raises:
        MissingError: the file does not exist.
        DataError: the file has another form.
    """
    whole = read_json(
        path, dict[str, dict[str, str | int]], "an object with idx_to_label and idx_to_predicate"
    )
    parts = []
    for key in ("idx_to_label", "idx_to_predicate"):
        try:
            numbered = {int(number): str(name).lower() for number, name in whole[key].items()}
        except (KeyError, ValueError) as error:
            raise DataError(
                f"{path}: {key}: missing or not numbered ({error}); expected an object of numbers from 1 and"
                " names"
            ) from error
        parts.append(tuple(numbered[number] for number in sorted(numbered)))
    return Names(classes=parts[0], predicates=parts[1])


def annotated_pictures(path: Path) -> Iterator[Annotated]:
    """Read the annotations of each picture of a file, in order.

    Args:
        path: Visual Genome's relationships.json or scene_graphs.json, or limner's scene graphs (suffix
            .jsonl).
    Raises:
        MissingError: the file does not exist.
        DataError: an entry has another form; the message says after how many pictures.
    """
    with installed("ijson", RESEARCH):
        import ijson

    if path.suffix.lower() == ".jsonl":
        for graph in each_graph(path):
            yield Annotated(
                graph.image,
                tuple(thing.label.lower() for thing in graph.objects),
                tuple(thing.box for thing in graph.objects),
                tuple((relation.s, relation.p.strip().lower(), relation.o) for relation in graph.relations),
            )
        return
    if not path.is_file():
        holds = whereabouts(path if path.is_dir() else path.parent, (FILE_NAME,))
        raise MissingError(f"{path}: no such file of relations ({holds}); give {FILE_NAME} or a file like it")
    refuse_pickle(path)
    number = 0
    with path.open("rb") as file:
        try:
            for entry in ijson.items(file, "item", use_float=True):
                picture = _picture(entry)
                number += 1
                yield picture
        except (ijson.JSONError, KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            reason = f"{type(error).__name__}: {' '.join(str(error).split())[:80]}"
            if isinstance(error, KeyError):
                reason = f"an entry has no {error}"
            raise DataError(
                f"{path}: after {counted(number, 'picture')}: {reason}; expected {_EXPECTED}"
            ) from error
    if not number:
        raise DataError(f"{path}: no pictures; expected {_EXPECTED}")


def count_relations(
    files: Sequence[Path],
    names: Names | None = None,
    *,
    only: frozenset[str] | None = None,
    seen: Callable[[int], None] = lambda count: None,
) -> tuple[RelationPrior, PriorReport]:
    """Count relations, and overlapping pairs for the background, into a prior.

    Args:
        files: annotated relations, see `annotated_pictures`.
        names: vocabulary; None uses the 150 most frequent labels and 50 most frequent predicates of the
            files, which are then read twice.
        only: ids of the pictures to count, such as a training split; None for all.
        seen: called with 1 for each picture read while counting.
    Raises:
        DataError: no relation is within the vocabulary.
    Source: Zellers et al. 2018; docs/methods/gsda.md §3.2. Departs: a relationships file lists only objects
        that have a relation, so the background is counted among those.
    """
    chosen = names or _frequent(files, only)
    label_place = {name: place for place, name in enumerate(chosen.classes)}
    predicate_place = {name: 1 + place for place, name in enumerate(chosen.predicates)}
    counts = np.zeros((len(label_place), len(label_place), 1 + len(predicate_place)), dtype=np.int64)
    counts[..., 0] = 1
    outside: Counter[str] = Counter()
    pictures = relations = left_out = 0
    for picture in (annotated for path in files for annotated in annotated_pictures(path)):
        seen(1)
        if only is not None and picture.image not in only:
            continue
        pictures += 1
        for s, predicate, o in picture.triples:
            ends = (picture.labels[s], picture.labels[o])
            strange = [name for name in ends if name not in label_place]
            strange += [predicate] * (predicate not in predicate_place)
            if strange:
                left_out += 1
                outside.update(strange)
                continue
            relations += 1
            counts[label_place[ends[0]], label_place[ends[1]], predicate_place[predicate]] += 1
        held = [place for place, label in enumerate(picture.labels) if label in label_place]
        # If no boxes overlap, all pairs are background.
        for s, o in overlapping([picture.boxes[place] for place in held]) or permutations(
            range(len(held)), 2
        ):
            ends = (picture.labels[held[s]], picture.labels[held[o]])
            counts[label_place[ends[0]], label_place[ends[1]], 0] += 1
    if not relations:
        raise DataError(
            f"{', '.join(str(path) for path in files)}: no relation of the vocabulary"
            f" in {counted(pictures, 'picture')} ({left_out} outside it); check the names"
        )
    source = (
        f"{', '.join(path.name for path in files)}: {counted(relations, 'relation')} of"
        f" {counted(pictures, 'picture')}"
    )
    return RelationPrior(chosen.classes, chosen.predicates, counts, source), PriorReport(
        pictures=pictures,
        relations=relations,
        outside=left_out,
        outside_names=tuple(outside.most_common(20)),
    )


def _frequent(files: Sequence[Path], only: frozenset[str] | None) -> Names:
    """The most frequent labels and predicates; ties in alphabetical order."""
    labels: Counter[str] = Counter()
    predicates: Counter[str] = Counter()
    for picture in (annotated for path in files for annotated in annotated_pictures(path)):
        if only is None or picture.image in only:
            labels.update(picture.labels)
            predicates.update(predicate for _, predicate, _ in picture.triples)

    def most(counted: Counter[str], size: int) -> tuple[str, ...]:
        return tuple(sorted(counted, key=lambda name: (-counted[name], name))[:size])

    if not labels or not predicates:
        raise DataError(f"{', '.join(str(path) for path in files)}: no relations; expected {_EXPECTED}")
    return Names(classes=most(labels, CLASSES), predicates=most(predicates, PREDICATES))


def _picture(entry: dict[str, Any]) -> Annotated:
    """Parse one entry of a published file; relations contain their objects or refer to them by id."""
    image = str(entry["image_id"])
    things: dict[Any, tuple[str, tuple[float, float, float, float]]] = {}
    for thing in entry.get("objects", ()):
        things[thing["object_id"]] = _thing(thing)
    triples = []
    for relation in entry["relationships"]:
        ends = []
        for side in ("subject", "object"):
            if f"{side}_id" in relation:
                ends.append(relation[f"{side}_id"])
                things[ends[-1]]  # raises KeyError if no object has this id
            else:
                name, box = _thing(relation[side])
                key = relation[side].get("object_id", (name, box))
                things.setdefault(key, (name, box))
                ends.append(key)
        predicate = relation["predicate"].strip().lower()
        if not predicate:
            raise ValueError("an empty predicate")
        triples.append((ends[0], predicate, ends[1]))
    place = {key: number for number, key in enumerate(things)}
    return Annotated(
        image,
        tuple(name for name, _ in things.values()),
        tuple(box for _, box in things.values()),
        tuple((place[s], predicate, place[o]) for s, predicate, o in triples),
    )


def _thing(value: dict[str, Any]) -> tuple[str, tuple[float, float, float, float]]:
    """Name and corners of an object; of a list of names, as in older files, the first."""
    name = value["name"] if "name" in value else value["names"][0]
    x, y, w, h = (float(value[key]) for key in "xywh")
    label = name.strip().lower()
    if not label or not np.isfinite([x, y, w, h]).all():
        raise ValueError("an object without a name or with a box that is not finite")
    return label, (x, y, x + w, y + h)
