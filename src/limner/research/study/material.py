"""What a study can be made from: names that can be drawn, and what stands behind each.

A sample is drawn from names alone; which pictures a system found is looked up once a name is drawn.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from PIL import Image
from pydantic import Field, model_validator

from limner.errors import ConfigError, DataError
from limner.files import json_rows
from limner.records import Record
from limner.research.study.records import Protocol

PictureSource = Path | Image.Image
"""A file, or a picture that lies in none because it was drawn."""
Pictures = Mapping[str, PictureSource | None]
"""Letter of a system → picture; None where the system shows none."""
ALL = "all"


@dataclass(frozen=True)
class Proposal:
    """One text and what every system shows for it.

    Attributes:
        source: its id in the data.
        text: the words.
        pictures: looks up letter → picture, once it is drawn.
        context: all texts of its story in order; empty without one.
        position: place in the story, from 0.
        cluster: what it belongs to, such as a story; "" for nothing.
    """

    source: str
    text: str
    pictures: Callable[[], Pictures]
    context: tuple[str, ...] = ()
    position: int = 0
    cluster: str = ""


@dataclass(frozen=True)
class Material:
    """A population.

    Attributes:
        strata: name → name that can be drawn → its one item, or the steps of a sequence in their order.
        systems: stratum → letter → name of the system.
        notes: lines for the person.
        rules: sentences to register, on what the population and the pictures are.
    """

    strata: Mapping[str, Mapping[str, Sequence[Proposal]]]
    systems: Mapping[str, Mapping[str, str]]
    notes: tuple[str, ...] = field(default=())
    rules: tuple[str, ...] = field(default=())


def lettered(
    tested: PictureSource | None, control: PictureSource | None, truth: PictureSource | None
) -> Pictures:
    """Pictures by the letters of their systems: of pairs, or of tick-all with a true one."""
    if truth is None:
        return {"A": tested, "B": control}
    return {"A": truth, "B": tested, "C": control}


class ItemLine(Record):
    """One line of an items file.

    Attributes:
        id: of the text, unique in the file.
        text: the words.
        tested: picture of the tested system, or of the model with context; relative to the file's folder.
        control: picture of the control, or of the model without context.
        truth: tick-all: the true picture.
        sequence: tick-all: lines of one sequence are shown together in the order of `position`.
        position: place in the story, from 0.
        context: pairwise: all texts of the story, `text` at `position`.
        stratum: what is drawn and reported apart, such as a relation.
        cluster: items of one cluster are not independent; those of a sequence are one.
    """

    id: str = Field(min_length=1)
    text: str = Field(min_length=1)
    tested: str = Field(min_length=1)
    control: str = Field(min_length=1)
    truth: str = ""
    sequence: str = ""
    position: int = Field(default=0, ge=0)
    context: tuple[str, ...] = ()
    stratum: str = ALL
    cluster: str = ""

    @model_validator(mode="after")
    def _whole(self) -> "ItemLine":
        if bool(self.truth) != bool(self.sequence):
            raise ValueError("a line of tick-all has both a truth and a sequence, a pair neither")
        if self.context and not (
            self.position < len(self.context) and self.context[self.position] == self.text
        ):
            raise ValueError("the context holds the text at its position")
        return self

    def proposal(self, folder: Path) -> Proposal:
        """What the line says, with its pictures in a folder."""
        truth = folder / self.truth if self.truth else None
        pictures = partial(lettered, folder / self.tested, folder / self.control, truth)
        cluster = self.cluster or self.sequence
        return Proposal(self.id, self.text, pictures, self.context, self.position, cluster)


def items_material(protocol: Protocol, file: Path, names: Sequence[str] = ()) -> Material:
    """Lines (pairwise) or sequences (tick-all) of a file.

    Args:
        protocol: pairwise or tick-all.
        file: of JSON lines, see `ItemLine`.
        names: of the systems by their letters.
    Raises:
        ConfigError: names are missing.
        MissingError, DataError: the file is not there or a line is wrong.
    """
    pairs = protocol == "pairwise"
    letters = "AB" if pairs else "ABC"
    if len(names) != len(letters):
        raise ConfigError(
            f"study: --items needs --names with {len(letters)} names"
            f" ({'tested,control' if pairs else 'true picture,with context,without context'})"
        )
    known: set[str] = set()
    strata: dict[str, dict[str, list[Proposal]]] = {}
    form = {"holds": "a file of JSON lines", "one": "item", "see": "docs/studies.md"}
    for where, line in json_rows(file, ItemLine, **form):
        if line.id in known:
            raise DataError(f"{where}: id {line.id!r} comes twice; give every item its own")
        if bool(line.sequence) == pairs:
            raise DataError(
                f"{where}: {line.id!r} is no item of the {protocol} protocol; see docs/studies.md"
            )
        known.add(line.id)
        unit = strata.setdefault(line.stratum, {}).setdefault(line.id if pairs else line.sequence, [])
        unit.append(line.proposal(file.parent))
        unit.sort(key=lambda one: one.position)
    owners = [name for own in strata.values() for name in own]
    if len(set(owners)) < len(owners):
        raise DataError(f"{file}: a sequence has steps of two strata; give all its lines one")

    systems = dict(zip(letters, names, strict=True))
    return Material(dict(sorted(strata.items())), dict.fromkeys(strata, systems))
