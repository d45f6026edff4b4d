"""Storyboards as the material of a study: the same texts illustrated in two ways.

Steps are compared as they stand in the files of `limner illustrate -o board.json`; a picture must still be
the one that was chosen. It makes no storyboard.
"""

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from limner.apps.study.material import ALL, Material, PictureSource, Proposal
from limner.data.studies import Protocol
from limner.errors import ConfigError, DataError
from limner.retrieval.storyboard import step_texts

if TYPE_CHECKING:
    from limner.data.records import Picture
    from limner.data.storyboards import BoardStep, Storyboard


def boards_material(
    protocol: Protocol,
    tested: Sequence[Path],
    control: Sequence[Path],
    truth: Sequence[Path] = (),
    names: Sequence[str] = (),
) -> Material:
    """Steps of stories (pairwise) or whole stories (tick-all).

    Args:
        protocol: pairwise or tick-all.
        tested: .json storyboards of the tested system, or of the model with context.
        control: those of the other system, of the same stories in the same order.
        truth: tick-all: those with the true pictures; the ones that the texts themselves show unless given.
        names: of the systems by their letters; the files' names unless given.
    Raises:
        ConfigError: numbers of files do not fit.
        MissingError, DataError: a file is no storyboard, stories differ, or a step has no picture.
    """
    from limner.apps.export.document import load

    if not tested or len(tested) != len(control) or len(truth) not in (0, len(tested)):
        raise ConfigError(
            f"study: {len(tested)} tested, {len(control)} control, {len(truth)} true storyboards;"
            " name as many of each, in the same order"
        )
    rows = {"tested": tested, "control": control, **({"truth": truth} if truth else {})}
    boards = {role: [load(path) for path in paths] for role, paths in rows.items()}
    told: dict[str, dict[str, tuple[Path, Storyboard]]] = {}
    for place, first in enumerate(boards["tested"]):
        own = {role: (rows[role][place], boards[role][place]) for role in rows}
        for path, board in own.values():
            if step_texts(board.story) != step_texts(first.story):
                raise DataError(
                    f"study: {path} and {tested[place]} have different steps; illustrate the same text twice"
                )
        if first.story.id in told:
            raise DataError(f"study: {tested[place]}: a second board of {first.story.id!r}; name it once")
        told[first.story.id] = own
    pairs = protocol == "pairwise"
    _check_steps(told, with_truth=not pairs)

    def look_up(stratum: str, name: str) -> Sequence[Proposal]:
        del stratum
        story, place = name.rsplit("#", 1) if pairs else (name, "")
        return _proposals(story, told[story], [int(place) - 1] if pairs else None, with_truth=not pairs)

    population = [
        f"{story}#{step + 1}" for story, own in told.items() for step in range(len(own["tested"][1].steps))
    ]
    stems = [tested[0].stem, control[0].stem]
    systems = list(names) or (stems if pairs else ["true picture", *stems])
    return Material(
        unit="item" if pairs else "sequence",
        strata={ALL: population if pairs else list(told)},
        systems={ALL: dict(zip("AB" if pairs else "ABC", systems, strict=True))},
        look_up=look_up,
    )


def _check_steps(told: "dict[str, dict[str, tuple[Path, Storyboard]]]", *, with_truth: bool) -> None:
    """Refuse steps without a picture of the system before anything is drawn.

    Leaving such steps out would choose items by what was found for them.
    """
    for own in told.values():
        for role, (path, board) in own.items():
            for step in board.steps:
                where = f"study: {path}: step {step.position + 1}"
                if step.chosen is None:
                    raise DataError(f"{where} is blank, and no step may be left out; use --min-score 0")
                if role != "truth" and step.origin in ("given", "pinned"):
                    raise DataError(
                        f"{where} has a {step.origin} picture, which no system chose;"
                        " illustrate with --ignore-given and without pins"
                    )
        path, board = own["tested"]
        for place, written in enumerate(board.story.steps):
            if with_truth and "truth" not in own and not any(one.path for one in written.pictures):
                raise DataError(
                    f"study: {path}: the text shows no picture of its own at step {place + 1};"
                    " name storyboards with the true pictures by --truth"
                )


def _proposals(
    story: str,
    own: "dict[str, tuple[Path, Storyboard]]",
    places: Sequence[int] | None,
    *,
    with_truth: bool,
) -> list[Proposal]:
    texts = tuple(step_texts(own["tested"][1].story))
    found = []
    for place in range(len(texts)) if places is None else places:
        tested, control = (_chosen(*own[role], place) for role in ("tested", "control"))
        pictures: dict[str, PictureSource] = {"A": tested, "B": control}
        if with_truth:
            pictures = {"A": _truth(own, place), "B": tested, "C": control}
        found.append(
            Proposal(
                source=f"{story}#{place + 1}",
                text=texts[place],
                pictures=pictures,
                context=texts if len(texts) > 1 else (),
                position=place,
                cluster=story,
            )
        )
    return found


def _truth(own: "dict[str, tuple[Path, Storyboard]]", place: int) -> Path:
    if "truth" in own:
        return _chosen(*own["truth"], place)
    shown = own["tested"][1].story.steps[place].pictures
    return next(Path(one.path) for one in shown if one.path)


def _chosen(path: Path, board: "Storyboard", place: int) -> Path:
    """The file of the picture chosen for a step."""
    step: BoardStep = board.steps[place]
    assert step.chosen is not None  # noqa: S101  (blanks were refused before the draw)
    return _file(path, place, step.chosen.picture)


def _file(board: Path, place: int, picture: "Picture") -> Path:
    for name in picture.paths:
        file = Path(name)
        if file.is_file() and hashlib.sha256(file.read_bytes()).hexdigest() == picture.id:
            return file
    raise DataError(
        f"study: {board}: step {place + 1}: {os.fspath(picture.path)} is not there any more as it was chosen;"
        " restore it, or illustrate again"
    )
