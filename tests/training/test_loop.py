import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from torch import nn

from limner.errors import CheckpointError, NumericsError
from limner.training import checkpoint
from limner.training.loop import BEST, HISTORY, Loop, LoopConfig
from limner.training.state import NAME


class Regression:
    """Fits y = 2x with dropout, so that a resumed run must restore the generator."""

    steps_per_epoch = 6

    def __init__(self, *, bad_at=None, pause_s=0.0):
        torch.manual_seed(7)
        self.model = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Dropout(0.3), nn.Linear(8, 1))
        self.bad_at, self.pause_s, self.taken = bad_at, pause_s, 0

    def batches(self, epoch):
        generator = torch.Generator().manual_seed(100 + epoch)
        return (torch.randn(5, 3, generator=generator) for _ in range(self.steps_per_epoch))

    def step(self, batch):
        time.sleep(self.pause_s)
        error = ((self.model(batch) - 2 * batch.sum(dim=1, keepdim=True)) ** 2).mean()
        self.taken += 1
        return {"total": error * (float("nan") if self.taken == self.bad_at else 1.0)}

    def describe(self, batch):
        return f"{len(batch)} rows"


@torch.no_grad()
def validate(model):
    probe = torch.linspace(-1, 1, 12).view(4, 3)
    return {"error": float(((model(probe) - 2 * probe.sum(dim=1, keepdim=True)) ** 2).mean())}


CONFIG = LoopConfig(epochs=4, lr=1e-2, metric="error", save_every_steps=2)


def loop(folder, task=None, config=CONFIG, **more):
    return Loop(task or Regression(), config, folder, validate=validate, maximise=False, **more)


def contents(folder):
    tensors, state = checkpoint.load(folder / NAME)
    return tensors, state, (folder / HISTORY).read_text()


def assert_same_run(a, b):
    (tensors_a, state_a, history_a), (tensors_b, state_b, history_b) = contents(a), contents(b)
    assert tensors_a.keys() == tensors_b.keys()
    for name, tensor in tensors_a.items():
        assert torch.equal(tensor, tensors_b[name]), name
    assert state_a == state_b
    assert history_a == history_b


class StoppedError(Exception):
    """Stands for whatever ends a process."""


@pytest.mark.parametrize("stop_after", [1, 2, 5, 6, 7, 13, 23])
def test_a_resumed_run_equals_an_undisturbed_one_bit_for_bit(tmp_path, stop_after):
    loop(tmp_path / "whole").fit()

    def stop(event):
        if event.kind == "step" and event.position.taken == stop_after:
            raise StoppedError

    with pytest.raises(StoppedError):
        loop(tmp_path / "cut", report=stop).fit()
    torch.rand(17)  # whatever else draws numbers before the resume
    loop(tmp_path / "cut").fit()
    assert_same_run(tmp_path / "whole", tmp_path / "cut")


@pytest.mark.parametrize("stop_after", [3, 6, 11])
def test_a_run_that_is_asked_to_stop_saves_there_and_loses_nothing(tmp_path, stop_after):
    loop(tmp_path / "whole").fit()
    position = loop(tmp_path / "cut", report=lambda event: event.position.taken == stop_after).fit()
    assert position.taken == stop_after
    assert checkpoint.load(tmp_path / "cut" / NAME)[1]["position"]["taken"] == stop_after
    loop(tmp_path / "cut").fit()
    assert_same_run(tmp_path / "whole", tmp_path / "cut")


@pytest.mark.slow
def test_a_killed_run_loses_at_most_the_steps_since_the_last_save(tmp_path):
    code = (
        "import sys; sys.path.insert(0, sys.argv[2]); from test_loop import *;"
        "torch.set_num_threads(int(sys.argv[3])); loop(Path(sys.argv[1]), Regression(pause_s=0.02)).fit()"
    )
    here = str(Path(__file__).parent)
    for wait_s in (0.15, 0.3, 0.1):
        # Sums are rounded otherwise with another number of threads; a run keeps the one it began with.
        words = [str(tmp_path / "cut"), here, str(torch.get_num_threads())]
        process = subprocess.Popen([sys.executable, "-c", code, *words])
        while not (tmp_path / "cut" / NAME).exists() and process.poll() is None:
            time.sleep(0.02)
        time.sleep(wait_s)
        process.send_signal(signal.SIGKILL)
        process.wait()
    loop(tmp_path / "cut").fit()
    loop(tmp_path / "whole").fit()
    assert_same_run(tmp_path / "whole", tmp_path / "cut")


def test_the_best_weights_are_those_of_the_best_epoch(tmp_path):
    position = loop(tmp_path).fit()
    lines = [json.loads(line) for line in (tmp_path / HISTORY).read_text().splitlines()]
    errors = [line["val"]["error"] for line in lines]
    assert position.best_epoch == errors.index(min(errors))
    model = Regression().model
    tensors, state = checkpoint.load(tmp_path / BEST)
    checkpoint.load_into(model, tensors, "best")
    assert validate(model.eval())["error"] == pytest.approx(min(errors))
    assert state["epoch"] == position.best_epoch


def test_the_direction_of_the_metric_is_kept(tmp_path):
    up = Loop(Regression(), CONFIG, tmp_path, validate=validate, maximise=True).fit()
    lines = [json.loads(line)["val"]["error"] for line in (tmp_path / HISTORY).read_text().splitlines()]
    assert up.best_epoch == lines.index(max(lines))


def test_a_loss_that_is_not_finite_names_step_term_and_samples(tmp_path):
    with pytest.raises(NumericsError, match=r"'total' is nan at epoch 1, step 2 \(samples 5 rows\)"):
        loop(tmp_path, Regression(bad_at=9)).fit()


def test_other_settings_do_not_resume(tmp_path):
    loop(tmp_path).fit()
    with pytest.raises(CheckpointError, match=r"other settings \(loop\)"):
        loop(tmp_path, config=CONFIG.model_copy(update={"lr": 1.0})).fit()


def linear_task(rows):
    """Plain regression on given rows of each batch, from fixed weights."""
    task = Regression()
    task.model = nn.Linear(3, 1)
    whole = [batch[:4] for batch in task.batches(0)]
    task.batches = lambda epoch: [batch[rows] for batch in whole]
    return task


ONE_EPOCH = LoopConfig(epochs=1, lr=1e-2, metric="error")
RANKS = """
import sys; sys.path.insert(0, sys.argv[1])
import torch.distributed as dist
from test_loop import *
rank, folder = int(sys.argv[2]), Path(sys.argv[3])
dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
task = linear_task(slice(rank, None, 2))
if rank == 1:  # the first process's weights must win
    task.model = nn.Linear(3, 1)
stop = (lambda event: event.position.taken == 2) if sys.argv[4] == "stop" else (lambda event: None)
loop(folder / sys.argv[5], task, ONE_EPOCH, report=stop).fit()
checkpoint.save(folder / f"{rank}.safetensors", task.model.state_dict(), {})
dist.destroy_process_group()
"""


def two_processes(folder, how, name):
    """Train in two processes; the weights of each."""
    (folder / "meet").unlink(missing_ok=True)
    words = [sys.executable, "-c", RANKS, str(Path(__file__).parent)]
    runs = [subprocess.Popen([*words, str(rank), str(folder), how, name]) for rank in range(2)]
    assert [run.wait() for run in runs] == [0, 0]
    return [checkpoint.load(folder / f"{rank}.safetensors")[0] for rank in range(2)]


@pytest.mark.slow
def test_two_processes_equal_one_with_the_whole_batch_also_when_resumed(tmp_path):
    alone = linear_task(slice(None))
    loop(tmp_path / "alone", alone, ONE_EPOCH).fit()
    states = two_processes(tmp_path, "whole", "run")
    for name, tensor in alone.model.state_dict().items():
        assert torch.equal(states[0][name], states[1][name])
        assert torch.allclose(states[0][name], tensor, atol=1e-6)
    two_processes(tmp_path, "stop", "cut")
    resumed = two_processes(tmp_path, "whole", "cut")
    for name, tensor in states[0].items():
        assert torch.equal(tensor, resumed[0][name])
        assert torch.equal(tensor, resumed[1][name])


class Remembered(Regression):
    """Its loss depends on all losses before, which no weight tells."""

    def __init__(self, **more):
        super().__init__(**more)
        self.past = torch.zeros(2)

    def step(self, batch):
        losses = super().step(batch)
        total = losses["total"] * (1 + self.past[0])
        self.past = torch.stack([total.detach() / (1 + total.detach()), self.past[1] + 1])
        return {"total": total}

    def memory(self):
        return {"past": self.past}

    def remember(self, memory):
        self.past = memory["past"]


@pytest.mark.parametrize("stop_after", [2, 5, 6, 13])
def test_what_a_task_remembers_survives_bit_for_bit(tmp_path, stop_after):
    loop(tmp_path / "whole", Remembered()).fit()

    def stop(event):
        if event.kind == "step" and event.position.taken == stop_after:
            raise StoppedError

    with pytest.raises(StoppedError):
        loop(tmp_path / "cut", Remembered(), report=stop).fit()
    task = Remembered()
    loop(tmp_path / "cut", task).fit()
    assert task.past[1] == 24
    assert_same_run(tmp_path / "whole", tmp_path / "cut")


@pytest.mark.parametrize("patience", [1, 3])
def test_training_ends_when_nothing_becomes_better(tmp_path, patience):
    errors = iter([3.0, 2.0, 2.5, 2.0, 2.1, 1.0, 0.5])
    config = CONFIG.model_copy(update={"epochs": 7, "stop_after_stale": patience})

    def run(folder):
        return Loop(
            Regression(), config, folder, validate=lambda model: {"error": next(errors)}, maximise=False
        )

    one = run(tmp_path)
    position = one.fit()
    assert one.finished
    assert (position.best_epoch, position.epoch) == (1, 2 + patience)
    again = run(tmp_path)
    assert again.fit().epoch == 2 + patience
    assert again.finished
