import json
import math
import os
import signal
from pathlib import Path

import pytest
import safetensors.torch
import torch
from forked import codes, started
from tasks import PlainTask
from torch import distributed, nn

from limner.errors import CheckpointError, NumericsError
from limner.research.training import checkpoint
from limner.research.training.checkpoint import BEST, HISTORY, RESUME
from limner.research.training.loop import Loop
from limner.research.training.settings import LoopConfig


class Regression(PlainTask):
    """Fits y = 2x with dropout, so that a resumed run must restore the generator."""

    steps_per_epoch = 6

    def __init__(self, *, bad_at=None):
        torch.manual_seed(7)
        self.model = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Dropout(0.3), nn.Linear(8, 1))
        self.bad_at, self.taken = bad_at, 0

    def batches(self, epoch):
        generator = torch.Generator().manual_seed(100 + epoch)
        return (torch.randn(5, 3, generator=generator) for _ in range(self.steps_per_epoch))

    def step(self, batch):
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
    tensors, state = checkpoint.load(folder / RESUME)
    return tensors, state, (folder / HISTORY).read_text()


def assert_same_run(a, b):
    (tensors_a, state_a, history_a), (tensors_b, state_b, history_b) = contents(a), contents(b)
    assert tensors_a.keys() == tensors_b.keys()
    for name, tensor in tensors_a.items():
        assert torch.equal(tensor, tensors_b[name]), name
    assert state_a == state_b
    assert history_a == history_b


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """An undisturbed run, for others to be compared with."""
    folder = tmp_path_factory.mktemp("whole")
    loop(folder).fit()
    return folder


class StoppedError(Exception):
    """Stands for whatever ends a process."""


@pytest.mark.parametrize("stop_after", [1, 2, 5, 6, 7, 13, 23])
def test_a_resumed_run_equals_an_undisturbed_one_bit_for_bit(whole, tmp_path, stop_after):

    def stop(event):
        if event.kind == "step" and event.position.taken == stop_after:
            raise StoppedError

    with pytest.raises(StoppedError):
        loop(tmp_path / "cut", report=stop).fit()
    torch.rand(17)  # whatever else draws numbers before the resume
    loop(tmp_path / "cut").fit()
    assert_same_run(whole, tmp_path / "cut")


@pytest.mark.parametrize("stop_after", [3, 6, 11])
def test_a_run_that_is_asked_to_stop_saves_there_and_loses_nothing(whole, tmp_path, stop_after):
    position = loop(tmp_path / "cut", report=lambda event: event.position.taken == stop_after).fit()
    assert position.taken == stop_after
    assert checkpoint.load(tmp_path / "cut" / RESUME)[1]["position"]["taken"] == stop_after
    loop(tmp_path / "cut").fit()
    assert_same_run(whole, tmp_path / "cut")


def dies(folder, threads, how, number):
    """Train in this process, and end it after a step or half way through a save."""
    torch.set_num_threads(threads)
    whole, saves = checkpoint.save_file, []

    def kill():
        os.kill(os.getpid(), signal.SIGKILL)

    def save_file(tensors, name, metadata):
        saves.append(name)
        if len(saves) == number:
            Path(name).write_bytes(b"half")
            kill()
        whole(tensors, name, metadata)

    if how == "save":
        checkpoint.save_file = save_file
    loop(folder, report=lambda event: how == "step" and event.position.taken == number and kill()).fit()


def killed(folder, how, number):
    """Train in a process that is killed after a step, or half way through a save."""
    # Sums are rounded otherwise with another number of threads; a run keeps the one it began with.
    assert codes(started(dies, (folder, torch.get_num_threads(), how, number))) == [-signal.SIGKILL]


@pytest.mark.slow
def test_a_killed_run_loses_at_most_the_steps_since_the_last_save(whole, tmp_path):
    """Every second step is saved; first it is killed half way through a save, then between two."""
    for how, number, saved in (("save", 3, 4), ("step", 17, 16)):
        killed(tmp_path, how, number)
        assert checkpoint.load(tmp_path / RESUME)[1]["position"]["taken"] == saved
    loop(tmp_path).fit()
    assert_same_run(whole, tmp_path)


@pytest.mark.parametrize("save", [2, 4, 5])
def test_a_disk_that_fills_up_ends_the_run_and_a_resumed_one_is_the_same(whole, tmp_path, monkeypatch, save):
    """Saves are: after step 2, after step 4, after step 6, the best weights, the end of the epoch."""
    saves_whole, saves = safetensors.torch.save_file, []

    def save_file(tensors, name, metadata):
        saves.append(name)
        if len(saves) >= save:
            Path(name).write_bytes(b"half")
            raise OSError(28, "No space left on device")
        saves_whole(tensors, name, metadata)

    with monkeypatch.context() as patched:
        patched.setattr("limner.research.training.checkpoint.save_file", save_file)
        with pytest.raises(CheckpointError, match="No space left"):
            loop(tmp_path / "cut").fit()
    assert len(saves) == save
    left = {file.name for file in (tmp_path / "cut").iterdir()}
    assert left - {"digests.json", "lock"} == ({RESUME} if save < 5 else {RESUME, BEST})
    assert checkpoint.load(tmp_path / "cut" / RESUME)[1]["position"]["taken"] == {2: 2, 4: 6, 5: 6}[save]
    loop(tmp_path / "cut").fit()
    assert_same_run(whole, tmp_path / "cut")


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


def test_a_validation_that_is_not_finite_names_its_value(tmp_path):
    endless = Loop(Regression(), CONFIG, tmp_path, validate=lambda _: {"error": math.inf}, maximise=False)
    with pytest.raises(NumericsError, match="validation error is inf at epoch 0"):
        endless.fit()


def test_other_settings_do_not_resume(tmp_path):
    loop(tmp_path).fit()
    with pytest.raises(CheckpointError, match=r"other settings \(loop.lr was .*, now 1.0\)"):
        loop(tmp_path, config=CONFIG.model_copy(update={"lr": 1.0})).fit()


def linear_task(rows):
    """Plain regression on given rows of each batch, from fixed weights."""
    task = Regression()
    task.model = nn.Linear(3, 1)
    whole = [batch[:4] for batch in task.batches(0)]
    task.batches = lambda epoch: [batch[rows] for batch in whole]
    return task


ONE_EPOCH = LoopConfig(epochs=1, lr=1e-2, metric="error")


def trains(rank, folder, *jobs):
    """Train job after job as one of two processes."""
    distributed.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    for number, (how, name, precision) in enumerate(job.split() for job in jobs):
        task = linear_task(slice(rank, None, 2))
        if rank == 1:  # the first process's weights must win
            task.model = nn.Linear(3, 1)
        if precision == "float16" and rank == 1:  # one overflows once, and neither takes that step
            plain, factors = task.step, iter([1.0, float("inf")] + [1.0] * 9)
            task.step = lambda batch, of=plain, by=factors: {"total": of(batch)["total"] * next(by)}

        def stop(event, how=how):
            return how == "stop" and event.position.taken == 2

        config = ONE_EPOCH.model_copy(update={"precision": precision})
        loop(folder / name, task, config, report=stop).fit()
        checkpoint.save(folder / f"{number}-{rank}.safetensors", task.model.state_dict(), {})
    distributed.destroy_process_group()


def two_processes(folder, *jobs):
    """Train job after job ("whole" or "stop", folder, precision) in two processes; the weights of each."""
    assert codes(started(trains, *((rank, folder, *jobs) for rank in range(2)))) == [0, 0]
    files = [[folder / f"{number}-{rank}.safetensors" for rank in range(2)] for number in range(len(jobs))]
    return [[checkpoint.load(file)[0] for file in pair] for pair in files]


@pytest.mark.slow
def test_two_processes_equal_one_with_the_whole_batch_also_when_resumed_or_in_half_precision(tmp_path):
    alone = linear_task(slice(None))
    loop(tmp_path / "alone", alone, ONE_EPOCH).fit()
    jobs = ["whole run float32", "stop cut float32", "whole cut float32"]
    jobs += ["whole half bfloat16", "stop cut-half bfloat16", "whole cut-half bfloat16"]
    states, _, resumed, halves, _, resumed_half, scaled = two_processes(
        tmp_path, *jobs, "whole scaled float16"
    )
    for name, tensor in alone.model.state_dict().items():
        assert torch.equal(states[0][name], states[1][name])
        assert torch.allclose(states[0][name], tensor, atol=1e-6)
        assert torch.equal(states[0][name], resumed[0][name])
        assert torch.equal(states[0][name], resumed[1][name])
    for pair in (halves, scaled):
        for name, tensor in pair[0].items():
            assert torch.equal(tensor, pair[1][name])
            assert tensor.isfinite().all()
    assert all(torch.equal(tensor, resumed_half[1][name]) for name, tensor in halves[0].items())
    assert 1 <= json.loads((tmp_path / "scaled" / HISTORY).read_text())["skipped"] < 6


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

    def state_dict(self):
        return {"past": self.past}

    def load_state_dict(self, state):
        self.past = state["past"]


@pytest.mark.slow
def test_what_a_task_remembers_survives_bit_for_bit(tmp_path):
    loop(tmp_path / "whole", Remembered()).fit()
    for stop_after in (2, 5, 6, 13):
        cut = tmp_path / str(stop_after)

        def stop(event, at=stop_after):
            if event.kind == "step" and event.position.taken == at:
                raise StoppedError

        with pytest.raises(StoppedError):
            loop(cut, Remembered(), report=stop).fit()
        task = Remembered()
        loop(cut, task).fit()
        assert task.past[1] == 24
        assert_same_run(tmp_path / "whole", cut)


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


STEPS = CONFIG.model_copy(update={"schedule": "steps", "steps": (1, 3), "step_factor": 0.1})


def rates_of_epochs(folder, config):
    """Rate of the weights and of the last layer, which has one of its own, in every epoch."""
    found = []
    run = loop(folder, config=config.model_copy(update={"rates": {"3": 5e-3}}))
    run._report = lambda event: (
        found.append([group["lr"] for group in run._state.optimiser.param_groups])
        if event.kind == "step" and event.position.step == 1
        else None
    )
    run.fit()
    return found


def test_rates_fall_at_the_epochs_named_and_one_of_its_own_stays(tmp_path):
    """GSDA's 2e-4, then 2e-5, while the graphs' and the captioner's stay: here at two epochs, by ten each."""
    found = rates_of_epochs(tmp_path / "steps", STEPS)
    assert found == [pytest.approx([rate, 5e-3], abs=0) for rate in (1e-2, 1e-3, 1e-3, 1e-2 * 0.1**2)]
    history = (tmp_path / "steps" / HISTORY).read_text().splitlines()
    assert [json.loads(line)["lr"] for line in history] == [rates[0] for rates in found]
    none = rates_of_epochs(tmp_path / "none", STEPS.model_copy(update={"steps": ()}))
    assert none == [[1e-2, 5e-3]] * 4
    cosine = rates_of_epochs(tmp_path / "cosine", CONFIG.model_copy(update={"schedule": "cosine"}))
    assert [first / second for first, second in cosine] == pytest.approx([2.0] * 4)  # along it all fall


@pytest.mark.parametrize(
    ("restarts", "due"),
    [((), [1, 0.5 + 0.5**1.5, 0.5, 0.5 - 0.5**1.5, 0, 0]), ((1, 3), [1, 1, 0.5, 1, 0, 0])],
)
def test_each_cycle_of_a_cosine_falls_to_nothing_and_stays_there(restarts, due):
    config = LoopConfig(epochs=4, schedule="cosine", restarts=restarts)
    assert [config.learning_rate_factor(epoch) for epoch in range(6)] == pytest.approx(due)


def resumes(whole, folder, config, stops):
    """Stop a run after each of some steps and resume it: the same run as one that was not stopped."""
    for stop_after in stops:
        cut = folder / str(stop_after)
        loop(cut, config=config, report=lambda event, at=stop_after: event.position.taken == at).fit()
        loop(cut, config=config).fit()
        assert_same_run(whole, cut)


@pytest.mark.slow
def test_a_run_with_steps_resumes_bit_for_bit(tmp_path):
    loop(tmp_path / "whole", config=STEPS).fit()
    resumes(tmp_path / "whole", tmp_path, STEPS, (5, 6, 8, 19))


@pytest.mark.parametrize("steps", [(0,), (15, 15), (20, 15), (-1,)])
def test_steps_rise(steps):
    with pytest.raises(ValueError, match="expected increasing epochs of at least 1, such as"):
        LoopConfig(schedule="steps", steps=steps)


HALF = {one: CONFIG.model_copy(update={"precision": one}) for one in ("bfloat16", "float16")}


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_a_run_in_half_precision_resumes_bit_for_bit(whole, tmp_path, precision):
    loop(tmp_path / "half", config=HALF[precision]).fit()
    resumes(tmp_path / "half", tmp_path, HALF[precision], (1, 5, 13))
    half, full = (checkpoint.load(folder / RESUME)[0] for folder in (tmp_path / "half", whole))
    assert not torch.equal(half["model/0.weight"], full["model/0.weight"])  # it was not float32 in disguise
    assert half["model/0.weight"].dtype == torch.float32


def test_precisions_are_checked():
    with pytest.raises(ValueError, match="precision"):
        LoopConfig(precision="float8")


class Overflowing(Regression):
    """Its loss overflows at some steps, counted from 1, or is refused by a check before there is one."""

    def __init__(self, losses=(), errors=()):
        super().__init__()
        self.losses, self.errors = losses, errors

    def step(self, batch):
        total = super().step(batch)["total"]
        if self.taken in self.errors:
            raise NumericsError("hinge: score in row 0 is not finite")
        return {"total": total * (float("inf") if self.taken in self.losses else 1.0)}


CALM = CONFIG.model_copy(update={"precision": "float16", "epochs": 1, "save_every_steps": 100})


@pytest.mark.parametrize("kind", ["losses", "errors"])
@pytest.mark.parametrize("clip", [None, 1.0])
def test_an_overflow_is_left_out_counted_and_halves_the_scale(tmp_path, kind, clip):
    """The update of step 3 does not happen: weights and moments after it are those before it."""
    config, seen = CALM.model_copy(update={"clip_norm": clip}), {}
    task = Overflowing(**{kind: (3,)})
    run = loop(tmp_path, task, config)
    scaler = run._scaler

    def report(event):
        if event.kind == "step":
            own = run._state.optimiser.state_dict()["state"]
            steps = float(own[0]["step"]) if own else 0.0
            weights = task.model[0].weight.detach().clone()
            seen[event.position.step] = (scaler.get_scale(), weights, steps, event.position.skipped)

    run._report = report
    run.fit()
    (before, weights, steps, _), (after, kept, still, skipped) = seen[2], seen[3]
    assert after == before / 2
    assert torch.equal(weights, kept)
    assert (still, skipped) == (steps, seen[2][3] + 1)
    entry = json.loads((tmp_path / HISTORY).read_text())
    assert entry["skipped"] == seen[6][3] >= 1
    assert 0 < entry["loss"]["total"] < 100
    assert "skipped" not in json.loads(float32_history(tmp_path / "other"))


def float32_history(folder):
    loop(folder, config=CALM.model_copy(update={"precision": "float32"})).fit()
    return (folder / HISTORY).read_text()


def test_an_overflow_that_no_scale_ends_stops_the_run(tmp_path):
    task = Overflowing(losses=range(1, 100))
    task.steps_per_epoch = 50
    with pytest.raises(
        NumericsError, match=r"\(samples 5 rows\).*17 updates of this epoch skipped.*bfloat16"
    ):
        loop(tmp_path, task, CALM).fit()


def test_bfloat16_does_not_forgive_what_is_not_finite(tmp_path):
    with pytest.raises(NumericsError, match="'total' is nan"):
        loop(tmp_path, Regression(bad_at=3), HALF["bfloat16"]).fit()


def test_a_run_from_before_validation_pairs_were_stated_goes_on(tmp_path):
    assert loop(tmp_path, report=lambda event: event.kind == "epoch").fit().epoch == 1
    position = loop(tmp_path, val_pairs=7).fit()
    assert [entry.get("val_pairs") for entry in position.history] == [None, 7, 7, 7]
    lines = [json.loads(line) for line in (tmp_path / HISTORY).read_text().splitlines()]
    assert lines == position.history
