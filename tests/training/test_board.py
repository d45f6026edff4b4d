"""What a run shows in TensorBoard, also after a kill, and the line when the package is absent."""

import subprocess
import sys

import pytest

from limner.errors import MissingError
from limner.training.board import EVERY_STEPS, FOLDER, Board
from limner.training.state import Position
from limner.training.task import Event


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
    with Board(tmp_path) as board:
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
    with Board(tmp_path) as board:
        for taken in range(1, 3 * EVERY_STEPS + 1):
            board(step(taken, 1.0))
    with Board(tmp_path) as board:  # saved after step EVERY_STEPS, killed later
        for taken in range(EVERY_STEPS + 1, 4 * EVERY_STEPS + 1):
            board(step(taken, 2.0))
    expected = [(n * EVERY_STEPS, 1.0 if n == 1 else 2.0) for n in range(1, 5)]
    assert scalars(tmp_path)["loss/total"] == expected


def test_a_board_that_is_told_nothing_writes_nothing(tmp_path):
    pytest.importorskip("tensorboard", reason="the extra 'tensorboard' is not installed")
    with Board(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


def test_without_the_extra_one_line_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(MissingError, match=r"pip install 'limner\[tensorboard\]'") as found:
        Board(tmp_path)
    assert "\n" not in str(found.value)
    assert list(tmp_path.iterdir()) == []


def test_the_package_is_not_imported_before_a_board_is_made():
    code = "import sys, limner.training.board, limner.training.loop; assert 'tensorboard' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
