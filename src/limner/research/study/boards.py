"""Studies of storyboards: the steps at which systems decided, with the picture or the blank of each."""

import hashlib
import os
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path

from limner.errors import ConfigError, DataError
from limner.export.storyboard_json import load
from limner.match.illustrate import step_texts
from limner.records import Board
from limner.research.study.material import ALL, Material, Pictures, Proposal, lettered
from limner.research.study.records import Protocol

Boards = Mapping[str, tuple[Path, Board]]
"""Role (tested, control, truth) → file and storyboard of one story."""


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
        MissingError, DataError: a file is no storyboard, stories differ, a step has no true picture, or
            systems chose none of the pictures.
    """
    if not tested or len(tested) != len(control) or len(truth) not in (0, len(tested)):
        raise ConfigError(
            f"study: {len(tested)} tested, {len(control)} control, {len(truth)} true storyboards;"
            " name as many of each, in the same order"
        )
    pairs = protocol == "pairwise"
    stories: dict[str, list[Proposal]] = {}
    steps, fixed, blanks = 0, 0, 0
    for paths in zip(tested, control, truth or tested, strict=True):
        roles = ("tested", "control", "truth") if truth else ("tested", "control")
        own: Boards = {role: (path, load(path)) for role, path in zip(roles, paths, strict=False)}
        first = own["tested"][1].story
        for path, board in own.values():
            if step_texts(board.story) != step_texts(first):
                raise DataError(
                    f"study: {path} and {paths[0]} have different steps; illustrate the same text twice"
                )
        if first.id in stories:
            raise DataError(f"study: {paths[0]}: a second board of {first.id!r}; name it once")
        chosen = _chosen_by_systems(own)
        steps, fixed = steps + len(first.steps), fixed + len(first.steps) - len(chosen)
        blanks += sum(
            board.steps[place].chosen is None for board in _systems(own) for place in sorted(chosen)
        )
        if not pairs:
            _check_truth(own, chosen)
        stories[first.id] = [step for step in _steps_of(own, with_truth=not pairs) if step.position in chosen]
    stories = {name: own_steps for name, own_steps in stories.items() if own_steps}
    if not stories:
        raise DataError(
            f"study: {tested[0]}: a person or the text itself fixed the picture of every step, so that no"
            " system chose any; illustrate with --ignore-given and without pins"
        )
    if pairs:
        stories = {step.source: [step] for steps in stories.values() for step in steps}
    stems = [tested[0].stem, control[0].stem]
    systems = list(names) or (stems if pairs else ["true picture", *stems])
    rules = []
    if fixed:
        rules.append(
            f"{fixed} of {steps} steps are not in the population: a person or the text itself fixed what they"
            " show in one of the storyboards, so that no system chose it."
        )
    if blanks and pairs:
        rules.append("Where a system leaves a step blank, raters are shown that it has no picture there.")
    elif blanks:
        rules.append(
            "Where a system leaves a step blank, it has no picture to tick, which counts as not ticked."
        )
    lettered = {ALL: dict(zip("AB" if pairs else "ABC", systems, strict=True))}
    return Material({ALL: stories}, lettered, notes=tuple(rules), rules=tuple(rules))


def _systems(own: Boards) -> list[Board]:
    """Storyboards of the two systems."""
    return [board for role, (_, board) in own.items() if role != "truth"]


def _chosen_by_systems(own: Boards) -> frozenset[int]:
    """Steps at which nobody but the systems decided, blanks among them.

    A blank is what the system chose: leaving it out would choose items by what was found for them. Pictures
    that a person pinned or the text brings, and blanks that a person asked for, say nothing of any system.
    """
    fixed = {
        step.position
        for board in _systems(own)
        for step in board.steps
        if step.origin in ("given", "pinned") or step.blank in ("asked for", "ruled out")
    }
    return frozenset(range(len(own["tested"][1].steps))) - fixed


def _check_truth(own: Boards, places: Collection[int]) -> None:
    """Every step that is shown needs a true picture."""
    path, board = own.get("truth", own["tested"])
    for place in sorted(places):
        if "truth" in own and board.steps[place].chosen is None:
            raise DataError(f"study: {path}: step {place + 1} is blank; a true picture is due at every step")
        if "truth" not in own and not any(one.path for one in board.story.steps[place].pictures):
            raise DataError(
                f"study: {path}: the text shows no picture of its own at step {place + 1};"
                " name storyboards with the true pictures by --truth"
            )


def _steps_of(own: Boards, *, with_truth: bool) -> list[Proposal]:
    story = own["tested"][1].story
    texts = tuple(step_texts(story))
    return [
        Proposal(
            source=f"{story.id}#{place + 1}",
            text=text,
            pictures=partial(_shown_at, own, place, with_truth=with_truth),
            context=texts if len(texts) > 1 else (),
            position=place,
            cluster=story.id,
        )
        for place, text in enumerate(texts)
    ]


def _shown_at(own: Boards, place: int, *, with_truth: bool) -> Pictures:
    chosen = {role: _chosen(path, board, place) for role, (path, board) in own.items()}
    truth = chosen.get("truth")
    if with_truth and truth is None:
        written = own["tested"][1].story.steps[place]
        truth = next(Path(one.path) for one in written.pictures if one.path)
    return lettered(chosen["tested"], chosen["control"], truth if with_truth else None)


def _chosen(path: Path, board: Board, place: int) -> Path | None:
    """The file of the picture chosen for a step; None for a blank."""
    chosen = board.steps[place].chosen
    if chosen is None:
        return None
    for name in chosen.picture.paths:
        file = Path(name)
        if file.is_file() and hashlib.sha256(file.read_bytes()).hexdigest() == chosen.picture.id:
            return file
    raise DataError(
        f"study: {path}: step {place + 1}: {os.fspath(chosen.picture.path)} is not there any more as it was"
        " chosen; restore it, or illustrate again"
    )
