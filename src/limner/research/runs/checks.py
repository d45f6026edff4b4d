"""The checks of trained runs and feature stores for ``limner verify``."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np

from limner.checksums import NOTES, is_sound, noted
from limner.errors import LimnerError, counted
from limner.research.datasets import features
from limner.research.datasets.neighbours import SCORES_FILE, read_pair_scores
from limner.research.evaluation.refinement import REFINEMENT, read_refinement
from limner.research.evaluation.results import ChoiceResult, Result, SequenceResult
from limner.research.runs.metric import PAIRWISE, read_pairwise
from limner.research.systems.complementary import memory
from limner.research.training import checkpoint
from limner.research.training.checkpoint import BEST, HISTORY
from limner.verification import Check, Checked, VerifyOptions, faulty, judged, read

_COPY = "restore the run from a copy, or train in another folder"


def _is_run(folder: Path) -> bool:
    return any((folder / name).is_file() for name in (BEST, checkpoint.RESUME, HISTORY, NOTES))


def _run(folder: Path, _asked: VerifyOptions) -> Iterator[Checked]:
    """Check checkpoints, the memory bank, other files that contain their checksum, and recorded checksums."""
    yield from _checkpoints(folder)
    readers: dict[str, Callable[[], object]] = {
        SCORES_FILE: partial(read_pair_scores, folder),
        PAIRWISE: partial(read_pairwise, folder),
        REFINEMENT: partial(read_refinement, folder),
    }
    for kind in (Result, ChoiceResult, SequenceResult):
        for path in sorted((folder / kind.FOLDER).glob("*.json")):
            readers[str(path.relative_to(folder))] = partial(kind.read, path)
    yield from (read(folder / name, reader) for name, reader in readers.items() if (folder / name).is_file())
    yield from _noted(folder)


def _checkpoints(folder: Path) -> Iterator[Checked]:
    state = {}
    for name in (BEST, checkpoint.RESUME):
        path = folder / name
        if path.is_file():
            try:
                tensors = checkpoint.load(path)[0]
                yield read(path, lambda: None)
                if name == checkpoint.RESUME:
                    state = checkpoint.part("memory", tensors)
            except LimnerError as error:
                yield faulty(path, error)
    try:
        for path, sound in memory.states(folder, state):
            parts = ", ".join(sorted(one.name for one in path.parent.glob(f"{path.stem}.*")))
            yield judged(path, sound, f"one of {parts}; {_COPY}")
    except LimnerError as error:
        yield faulty(folder / memory.FOLDER, error)


def _noted(folder: Path) -> Iterator[Checked]:
    """Check recorded files: whether they exist, and the checksum of those that do not contain their own."""
    try:
        files = noted(folder)
    except LimnerError as error:
        yield faulty(folder / NOTES, error)
        return
    yield judged(folder / NOTES, True if files else None, "")
    for name, due in files.items():
        path = folder / name
        if not path.is_file():
            yield judged(path, False, _COPY)
        elif due:
            yield judged(path, is_sound(path, due), _COPY)


def _is_feature_store(folder: Path) -> bool:
    named = (folder / features.KEY).is_file() and (folder / features.IDS).is_file()
    return named or (folder / features.ROWS).is_file()


def _features(folder: Path, asked: VerifyOptions) -> Iterator[Checked]:
    path = folder / features.ROWS
    try:
        held = features.opened(folder)
        wrong = held.damaged(np.arange(len(held.stored)))
    except (LimnerError, OSError) as error:
        yield faulty(path, error)
        return
    if not wrong:
        yield judged(path, held.sums is not None or None, "")
        return
    what = f"{counted(len(wrong), 'row')}, the first of picture {held.ids[wrong[0]]!r}"
    if asked.repair:
        left = features.repair(folder)
        advice = f"{what}; {counted(left, 'row')} kept; the next run extracts the others again"
        yield Checked(path=str(path), state="repaired", advice=advice)
    else:
        advice = f"{what}; --repair removes them, and the next run extracts them again"
        yield Checked(path=str(path), state="damaged", advice=advice)


CHECKS = (Check("run", _is_run, _run), Check("feature store", _is_feature_store, _features, whole=False))
