"""Scene graphs (objects and their relations) as records and as JSON Lines, one picture per line.

Other programs can write such files.
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
    """An object in a picture.

    Attributes:
        label: class name.
        box: left, top, right, bottom as fractions of width and height, with positive area.
        score: confidence of the detector, in [0, 1].
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
        s: index of the subject in `SceneGraph.objects`, from 0.
        p: name of the predicate.
        o: index of the object.
        score: confidence of the relation, in [0, 1].
    """

    s: int = Field(ge=0, strict=True)
    p: Label
    o: int = Field(ge=0, strict=True)
    score: Unit


class SceneGraph(Record):
    """The scene graph of one picture; a graph without objects is valid.

    Attributes:
        image: id of the picture.
        objects: objects, in any order.
        relations: relations between different objects; two objects may have several.
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
        """Whether the graph has no objects."""
        return not self.objects


def each_graph(path: Path | str) -> Iterator[SceneGraph]:
    """Read graphs one at a time.

    Args:
        path: JSON Lines file, UTF-8; blank lines are skipped.
    Raises:
        MissingError: the file does not exist.
        DataError: a line is not a graph, or a picture has two; the message names file and line.
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
    """Read all graphs: picture → graph, in the order of the file; see `each_graph`."""
    return {graph.image: graph for graph in each_graph(path)}


def write_graphs(path: Path | str, graphs: Iterable[SceneGraph]) -> None:
    """Write graphs of different pictures as JSON Lines, atomically; an existing file is replaced."""
    write_lines(
        Path(path), (json.dumps(graph.model_dump(mode="json"), ensure_ascii=False) for graph in graphs)
    )


def shuffled_graphs(
    graphs: Sequence[SceneGraph], seed: int, groups: Sequence[str] | None = None
) -> list[SceneGraph]:
    """Control condition: permute the graphs among the pictures, so that they carry no information.

    Args:
        graphs: graphs of different pictures.
        seed: seed of the permutation.
        groups: group of each picture, such as its split; graphs are permuted within groups. None: one group.
    Returns:
        One graph per picture, in the given order of pictures. In a group of two or more, no picture keeps its
        own graph.
    Raises:
        DataError: the numbers of groups and graphs differ.
    """
    names = list(groups) if groups is not None else [""] * len(graphs)
    if len(names) != len(graphs):
        raise DataError(f"scene graphs: {len(names)} groups for {len(graphs)} graphs; give one each")
    random, dealt = np.random.default_rng(seed), list(graphs)
    for name in dict.fromkeys(names):
        # A cycle through a random order is a permutation without fixed points.
        order = random.permutation([place for place, group in enumerate(names) if group == name]).tolist()
        for here, there in zip(order, [*order[1:], *order[:1]], strict=True):
            dealt[here] = graphs[there].model_copy(update={"image": graphs[here].image})
    return dealt
