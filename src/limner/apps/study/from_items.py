"""A file of items as the material of a study: for systems that are not limner's own.

JSON lines, one text each, with the files of the pictures that every system shows for it. It makes no choice.
"""

from collections.abc import Sequence
from pathlib import Path

from pydantic import Field, model_validator

from limner.apps.study.material import ALL, Material, PictureSource, Proposal
from limner.data.records import Record
from limner.data.studies import Protocol
from limner.errors import ConfigError, DataError
from limner.files import json_rows


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
    lines: dict[str, ItemLine] = {}
    units: dict[str, dict[str, list[ItemLine]]] = {}
    form = {"holds": "a file of JSON lines", "one": "item", "see": "docs/studies.md"}
    for where, line in json_rows(file, ItemLine, **form):
        if line.id in lines:
            raise DataError(f"{where}: id {line.id!r} comes twice; give every item its own")
        if bool(line.sequence) == pairs:
            raise DataError(
                f"{where}: {line.id!r} is no item of the {protocol} protocol; see docs/studies.md"
            )
        lines[line.id] = line
        units.setdefault(line.stratum, {}).setdefault(line.id if pairs else line.sequence, []).append(line)
    owners = [name for own in units.values() for name in own]
    if len(set(owners)) < len(owners):
        raise DataError(f"{file}: a sequence has steps of two strata; give all its lines one")

    def look_up(stratum: str, name: str) -> Sequence[Proposal]:
        own = sorted(units[stratum][name], key=lambda line: line.position)
        return [_proposal(line, file.parent, pairs=pairs) for line in own]

    return Material(
        unit="item" if pairs else "sequence",
        strata={stratum: list(units[stratum]) for stratum in sorted(units)},
        systems={stratum: dict(zip(letters, names, strict=True)) for stratum in units},
        look_up=look_up,
    )


def _proposal(line: ItemLine, folder: Path, *, pairs: bool) -> Proposal:
    tested, control = folder / line.tested, folder / line.control
    pictures: dict[str, PictureSource] = {"A": tested, "B": control}
    if not pairs:
        pictures = {"A": folder / line.truth, "B": tested, "C": control}
    cluster = line.cluster or line.sequence
    return Proposal(line.id, line.text, pictures, line.context, line.position, cluster)
