"""The objects in a picture and how they relate: the record, and its JSON lines.

One graph per picture and line, so that any parser, a person with an editor and limner itself write the same
file. It looks at no picture and knows no words.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field, ValidationError, model_validator

from limner.datasets.base import refuse_pickle
from limner.errors import DataError, MissingError
from limner.files import write_lines
from limner.records import Record

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
    """What one thing is to another.

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
                    raise ValueError(f"relations.{number}.{end} is {place}, but {len(self.objects)} objects")
            if relation.s == relation.o:
                raise ValueError(f"relations.{number} relates object {relation.s} to itself")
        return self

    @property
    def empty(self) -> bool:
        """Whether nothing was found in the picture."""
        return not self.objects


def parse_graph(value: Any, where: str) -> SceneGraph:  # noqa: ANN401  (any JSON value)
    """A graph from its plain JSON value.

    Args:
        value: ``{"image", "objects": [{"label", "box", "score"}], "relations": [{"s", "p", "o", "score"}]}``.
        where: file and line, for the message.
    Raises:
        DataError: anything else; the first fault is named.
    """
    try:
        return SceneGraph.model_validate(value)
    except ValidationError as error:
        raise DataError(f"{where}: {_fault(error)}") from error


def read_graphs(path: Path | str) -> dict[str, SceneGraph]:
    """Graphs by picture, in the order of the file.

    Args:
        path: JSON lines, UTF-8; blank lines are passed over.
    Raises:
        MissingError: no such file.
        DataError: a line is no graph, or a picture has two; file and line are named.
    """
    found: dict[str, SceneGraph] = {}
    for number, graph in _numbered(Path(path)):
        if graph.image in found:
            raise DataError(f"{path}:{number}: a second graph of picture {graph.image!r}; keep one of them")
        found[graph.image] = graph
    return found


def each_graph(path: Path | str) -> Iterator[SceneGraph]:
    """Graphs one after the other, for files that are not to be held whole; see `read_graphs`."""
    return (graph for _, graph in _numbered(Path(path)))


def write_graphs(path: Path | str, graphs: Iterable[SceneGraph]) -> None:
    """Write JSON lines, whole or not at all.

    Args:
        path: the file; an existing one is replaced.
        graphs: of different pictures.
    Raises:
        DataError: two graphs of one picture.
    """
    seen = set[str]()

    def lines() -> Iterator[str]:
        for graph in graphs:
            if graph.image in seen:
                raise DataError(f"{path}: two graphs of picture {graph.image!r}; keep one of them")
            seen.add(graph.image)
            yield line_of(graph)

    write_lines(Path(path), lines())


def line_of(graph: SceneGraph) -> str:
    """A graph as one line of JSON."""
    return json.dumps(graph.model_dump(mode="json"), ensure_ascii=False)


def shuffled_graphs(
    graphs: Sequence[SceneGraph], seed: int, groups: Sequence[str] | None = None
) -> list[SceneGraph]:
    """The control: the same graphs dealt to other pictures, so that none says anything about its picture.

    Args:
        graphs: of different pictures; the order and the pictures stay.
        seed: of the order.
        groups: of each picture, such as its split; graphs are dealt inside a group. None is one group.
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


def _numbered(file: Path) -> Iterator[tuple[int, SceneGraph]]:
    """Line numbers, from 1, and graphs."""
    if not file.is_file():
        raise MissingError(f"{file}: no such file of scene graphs; run 'limner scenes' or check the path")
    refuse_pickle(file)
    with file.open("rb") as stream:
        for number, line in enumerate(stream, 1):
            if not line.strip():
                continue
            try:
                value = json.loads(line.decode("utf-8"))
            except (ValueError, RecursionError) as error:
                raise DataError(
                    f"{file}:{number}: not JSON ({str(error)[:80]}); expected one graph per line, UTF-8"
                ) from None
            yield number, parse_graph(value, f"{file}:{number}")


def _fault(error: ValidationError) -> str:
    """The first of pydantic's complaints, with what to do about it."""
    problem = error.errors()[0]
    place = ".".join(str(part) for part in problem["loc"]) or "graph"
    hint = {
        "box": "; the box of a whole picture is [0, 0, 1, 1]",
        "score": "; the score of something known to be true is 1",
    }.get(str(problem["loc"][-1]) if problem["loc"] else "", "")
    what = " ".join(problem["msg"].removeprefix("Value error, ").split())
    return f"{place}: {what[:160]}, found {str(problem['input'])[:60]!r}{hint}"
