"""The objects in a picture and how they relate: the record, and its JSON lines.

One graph per picture and line, so that any parser, a person with an editor and limner itself write the same
file. It looks at no picture and knows no words.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field, model_validator

from limner.config import Record
from limner.errors import DataError, counted
from limner.files import json_rows, write_lines

Unit = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False, strict=True)]
Box = tuple[Unit, Unit, Unit, Unit]
Label = Annotated[str, Field(min_length=1)]


class SceneObject(Record):
    """A thing in a picture.

    Attributes:
        label: what it is, in words.
        box: left, top, right, bottom as fractions of width and height, with some extent.
        score: how sure its finder is, in [0, 1].
    """

    label: Label
    box: Box
    score: Unit

    @model_validator(mode="after")
    def _has_extent(self) -> "SceneObject":
        left, top, right, bottom = self.box
        if not (left < right and top < bottom):
            raise ValueError("the box must be [left, top, right, bottom] with left < right and top < bottom")
        return self


class SceneRelation(Record):
    """Relation between two objects.

    Attributes:
        s: place of the subject among the objects, from 0.
        p: the predicate, in words.
        o: place of the object.
        score: how sure its finder is, in [0, 1].
    """

    s: int = Field(ge=0, strict=True)
    p: Label
    o: int = Field(ge=0, strict=True)
    score: Unit


class SceneGraph(Record):
    """The scene graph of one picture; without objects it is empty, which is a fact like any other.

    Attributes:
        image: id of the picture.
        objects: things, in any order.
        relations: between two different things; the same two may be related in several ways.
    """

    image: Label
    objects: tuple[SceneObject, ...]
    relations: tuple[SceneRelation, ...]

    @model_validator(mode="after")
    def _joins_its_own_objects(self) -> "SceneGraph":
        for number, relation in enumerate(self.relations):
            for end, place in (("s", relation.s), ("o", relation.o)):
                if place >= len(self.objects):
                    raise ValueError(
                        f"relations.{number}.{end} is {place}, but the picture has"
                        f" {counted(len(self.objects), 'object')}"
                    )
            if relation.s == relation.o:
                raise ValueError(f"relations.{number} relates object {relation.s} to itself")
        return self

    @property
    def empty(self) -> bool:
        """Whether nothing was found in the picture."""
        return not self.objects


def each_graph(path: Path | str) -> Iterator[SceneGraph]:
    """Graphs one after the other, for files that are not to be held whole.

    Args:
        path: JSON lines, UTF-8; blank lines are passed over.
    Raises:
        MissingError: the file does not exist.
        DataError: a line is no graph, or a picture has two; file and line are named.
    """
    rows = json_rows(
        Path(path),
        SceneGraph,
        holds="a file of scene graphs is written by 'limner scenes'",
        one="graph",
        see="docs/scenes.md",
        key="image",
    )
    return (graph for _, graph in rows)


def read_graphs(path: Path | str) -> dict[str, SceneGraph]:
    """Graphs by picture, in the order of the file; see `each_graph`."""
    return {graph.image: graph for graph in each_graph(path)}


def write_graphs(path: Path | str, graphs: Iterable[SceneGraph]) -> None:
    """Write graphs of different pictures as JSON lines, whole or not at all; an existing file is replaced."""
    write_lines(
        Path(path), (json.dumps(graph.model_dump(mode="json"), ensure_ascii=False) for graph in graphs)
    )


def shuffled_graphs(
    graphs: Sequence[SceneGraph], seed: int, groups: Sequence[str] | None = None
) -> list[SceneGraph]:
    """The control: the same graphs dealt to other pictures, so that none says anything about its picture.

    Args:
        graphs: graphs of different pictures; the order and the pictures stay.
        seed: seed of the order.
        groups: groups of each picture, such as its split; graphs are dealt inside a group. None is one group.
    Returns:
        In a group of two or more no picture keeps its own.
    Raises:
        DataError: as many groups are not given as graphs.
    """
    names = list(groups) if groups is not None else [""] * len(graphs)
    if len(names) != len(graphs):
        raise DataError(f"scene graphs: {len(names)} groups for {len(graphs)} graphs; give one each")
    random, dealt = np.random.default_rng(seed), list(graphs)
    for name in dict.fromkeys(names):
        # A cycle through a random order is a shuffle that leaves none in its place.
        order = random.permutation([place for place, one in enumerate(names) if one == name]).tolist()
        for here, there in zip(order, [*order[1:], *order[:1]], strict=True):
            dealt[here] = graphs[there].model_copy(update={"image": graphs[here].image})
    return dealt
