"""What a run shows in TensorBoard, also after a kill, and the line when the package is absent."""

import os
import signal
import sys

import pytest
from forked import codes, started

from limner.errors import MissingError
from limner.research.training.checkpoint import Position
from limner.research.training.loop import Event
from limner.research.training.tensorboard import EVERY_STEPS, FOLDER, TensorBoardLog


def step(taken, value):
    return Event("step", Position(taken=taken), {"total": value}, 0.0)


def epoch(taken, value):
    entry = {"epoch": 0, "lr": 0.5, "loss": {"total": value}, "val": {"MedR": value + 1}}
    return Event("epoch", Position(taken=taken, epoch=1, history=[entry]), {"MedR": value + 1}, 0.0)


def scalars(run):
    """Tag to (step, value), as a viewer reads them."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    read = EventAccumulator(str(run / FOLDER))
    read.Reload()
    return {tag: [(e.step, e.value) for e in read.Scalars(tag)] for tag in read.Tags()["scalars"]}


def test_losses_come_by_steps_and_figures_by_epochs(tmp_path):
    pytest.importorskip("tensorboard", reason="the extra 'tensorboard' is not installed")
    with TensorBoardLog(tmp_path) as board:
        for taken in range(1, 2 * EVERY_STEPS + 2):
            board(step(taken, float(taken)))
        board(epoch(2 * EVERY_STEPS + 1, 3.0))
    at, end = EVERY_STEPS, 2 * EVERY_STEPS + 1
    assert scalars(tmp_path) == {
        "loss/total": [(at, at), (2 * at, 2 * at)],
        "epoch/total": [(end, 3.0)],
        "val/MedR": [(end, 4.0)],
        "lr": [(end, 0.5)],
    }


def test_a_resumed_run_replaces_the_steps_it_takes_again(tmp_path):
    pytest.importorskip("tensorboard", reason="the extra 'tensorboard' is not installed")
    with TensorBoardLog(tmp_path) as board:
        for taken in range(1, 3 * EVERY_STEPS + 1):
            board(step(taken, 1.0))
    with TensorBoardLog(tmp_path) as board:  # saved after step EVERY_STEPS, killed later
        for taken in range(EVERY_STEPS + 1, 4 * EVERY_STEPS + 1):
            board(step(taken, 2.0))
    expected = [(n * EVERY_STEPS, 1.0 if n == 1 else 2.0) for n in range(1, 5)]
    assert scalars(tmp_path)["loss/total"] == expected


def resumed(taken, step):
    """The first step after a resume, `step` steps into the epoch after one that was saved."""
    entry = {"epoch": 0, "lr": 0.5, "loss": {"total": 3.0}, "val": {"MedR": 4.0}}
    return Event("step", Position(taken=taken, step=step, epoch=1, history=[entry]), {"total": 1.0}, 0.0)


@pytest.mark.parametrize("step", [1, 2])
def test_an_epoch_that_was_saved_and_not_written_is_written_on_resume(tmp_path, step):
    pytest.importorskip("tensorboard", reason="the extra 'tensorboard' is not installed")
    with TensorBoardLog(tmp_path) as board:
        board(resumed(7 + step, step))
    due = {"epoch/total": [(7, 3.0)], "val/MedR": [(7, 4.0)], "lr": [(7, 0.5)]}
    assert scalars(tmp_path) == due
    with TensorBoardLog(tmp_path) as board:  # once more: nothing comes twice
        board(resumed(7 + step, step))
    assert scalars(tmp_path) == due


def test_an_epoch_that_was_written_is_not_written_again(tmp_path):
    pytest.importorskip("tensorboard", reason="the extra 'tensorboard' is not installed")
    with TensorBoardLog(tmp_path) as board:
        board(epoch(7, 9.0))  # other values than those of the resumed position
    with TensorBoardLog(tmp_path) as board:
        board(resumed(8, 1))
    assert scalars(tmp_path)["epoch/total"] == [(7, 9.0)]


def killed(folder):
    """Show some steps and an epoch, and end as by a kill."""
    board = TensorBoardLog(folder)
    for taken in range(1, EVERY_STEPS + 1):
        board(step(taken, 1.0))
    board(epoch(EVERY_STEPS, 3.0))
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
def test_a_kill_takes_nothing_that_was_told(tmp_path):
    pytest.importorskip("tensorboard", reason="the extra 'tensorboard' is not installed")
    assert codes(started(killed, (tmp_path,))) == [-signal.SIGKILL]
    found = scalars(tmp_path)
    assert found["loss/total"] == [(EVERY_STEPS, 1.0)]
    assert found["lr"] == [(EVERY_STEPS, 0.5)]


def test_a_board_that_is_told_nothing_writes_nothing(tmp_path):
    pytest.importorskip("tensorboard", reason="the extra 'tensorboard' is not installed")
    with TensorBoardLog(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


def test_without_the_extra_one_line_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(MissingError, match=r"pip install 'limner\[tensorboard\]'") as found:
        TensorBoardLog(tmp_path)
    assert "\n" not in str(found.value)
    assert list(tmp_path.iterdir()) == []
