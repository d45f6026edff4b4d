"""What the loop does beside its steps: it seeds every generator, and bounds the gradient."""

import random
from functools import partial

import numpy as np
import pytest
import torch
from tasks import PlainTask
from torch import nn

from limner.research.training.loop import Loop
from limner.research.training.settings import LoopConfig

CONFIG = LoopConfig(epochs=1, lr=1e-2, metric="error", seed=5)


class Drawing(PlainTask):
    """Remembers what each generator gave it."""

    steps_per_epoch = 3

    def __init__(self):
        self.model, self.drawn = nn.Linear(3, 1, bias=False), []
        nn.init.constant_(self.model.weight, 0.04)

    def batches(self, epoch):
        return (torch.ones(4, 3) for _ in range(self.steps_per_epoch))

    def step(self, batch):
        self.drawn.append((random.random(), np.random.random(), float(torch.rand(1))))  # noqa: NPY002
        return {"total": self.model(batch).float().square().mean()}


def trained(folder, report=lambda event, task: None, **changes):
    task, config = Drawing(), CONFIG.model_copy(update=changes)
    shown = partial(report, task=task)
    loop = Loop(task, config, folder, validate=lambda model: {"error": 1.0}, maximise=False, report=shown)
    # whatever drew numbers before
    random.random(), np.random.random(7), torch.rand(int(torch.randint(1, 99, ())))  # noqa: NPY002
    loop.fit()
    return task


def test_the_seed_decides_what_every_generator_draws(tmp_path):
    first, again, other = (
        trained(tmp_path / name, seed=seed).drawn for name, seed in (("a", 5), ("b", 5), ("c", 6))
    )
    assert first == again
    assert not {number for row in first for number in row} & {number for row in other for number in row}


def test_every_process_draws_numbers_of_its_own(tmp_path, monkeypatch):
    alone = trained(tmp_path / "a", seed=6).drawn
    monkeypatch.setattr("limner.research.training.loop.processes.rank", lambda: 1)
    assert trained(tmp_path / "b", seed=5).drawn == alone


@pytest.mark.parametrize("precision", ["float32", "float16"])
@pytest.mark.parametrize(("clip_norm", "due"), [(None, 3**0.5 * 0.24), (0.2, 0.2), (1e6, 3**0.5 * 0.24)])
def test_gradients_are_clipped_as_they_are_and_not_as_they_are_scaled(tmp_path, precision, clip_norm, due):
    """By hand: the loss is (w₁ + w₂ + w₃)², each w is 0.04, so that each gradient is 0.24."""
    found = []

    def report(event, task):
        if event.kind == "step":
            found.append(float(task.model.weight.grad.norm()))

    trained(tmp_path, report, precision=precision, clip_norm=clip_norm, lr=1e-9)
    assert found == pytest.approx([due] * 3, rel=2e-3)
