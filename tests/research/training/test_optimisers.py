"""Parts of a model with a rate of their own."""

import pytest
import torch
from tasks import PlainTask
from torch import nn

from limner.research.training.loop import Loop, optimiser
from limner.research.training.settings import LoopConfig


class Parts(nn.Module):
    """Two parts whose names begin alike, and a frozen one."""

    def __init__(self):
        super().__init__()
        self.head, self.header = nn.Linear(2, 2), nn.Linear(2, 2, bias=False)
        self.frozen = nn.Linear(2, 2).requires_grad_(requires_grad=False)


def test_groups_have_their_rates_and_every_weight_is_in_one():
    model = Parts()
    rates = {"head": 0.5, "absent": 3.0, "frozen": 4.0}
    made = optimiser("adam", model.named_parameters(), 0.1, (0.9, 0.999), 0.0, rates=rates)
    assert [(group["lr"], len(group["params"])) for group in made.param_groups] == [(0.1, 1), (0.5, 2)]
    assert made.param_groups[0]["params"][0] is model.header.weight


class Task(PlainTask):
    """One batch an epoch that pulls all weights to zero."""

    steps_per_epoch = 1

    def __init__(self):
        torch.manual_seed(0)
        self.model = Parts()

    def batches(self, epoch):
        return [epoch]

    def step(self, batch):
        return {"total": sum(p.square().sum() for p in self.model.parameters() if p.requires_grad)}

    def describe(self, batch):
        return str(batch)


def test_a_rate_of_its_own_never_falls(tmp_path):
    config = LoopConfig(epochs=4, lr=0.1, rates={"head": 0.5}, plateau_patience=0, metric="MRR")
    loop = Loop(Task(), config, tmp_path, validate=lambda model: {"MRR": 0.0}, maximise=True)
    position = loop.fit()
    groups = torch.tensor([group["lr"] for group in loop._state.optimiser.param_groups])
    torch.testing.assert_close(groups, torch.tensor([1e-4, 0.5]))
    assert [round(entry["lr"], 6) for entry in position.history] == [0.1, 0.1, 0.01, 0.001]


STALE = [9.0, 8.0, 7.0, 6.0, 5.0, *[5.0] * 8]  # a median rank that stops to fall at its fifth epoch


@pytest.mark.parametrize("maximise", [False, True], ids=["fewer", "more"])
@pytest.mark.parametrize("patience", [0, 2, 5])
def test_a_plateau_counts_ties_as_stale_in_either_direction(tmp_path, maximise, patience):
    """Torch's own rule, in the direction of the figure: with a patience of 5 the sixth stale epoch cuts."""
    values = [20 - value for value in STALE] if maximise else STALE
    drawn = iter(values)
    config = LoopConfig(epochs=len(values), lr=0.1, plateau_patience=patience, plateau_factor=0.5)
    loop = Loop(Task(), config, tmp_path, validate=lambda model: {"MedR": next(drawn)}, maximise=maximise)
    rates = [entry["lr"] for entry in loop.fit().history]
    cuts = [epoch for epoch in range(1, len(rates)) if rates[epoch] < rates[epoch - 1]]
    # epoch 4 has the best value; the rate is lower from the epoch after `patience + 1` stale ones
    assert cuts == list(range(4 + patience + 2, len(values), patience + 1))


@pytest.mark.parametrize(("values", "maximise"), [([-0.3, -0.2, -0.1], True), ([0.3, 0.2999, 0.2998], False)])
def test_every_better_value_counts_however_little(tmp_path, values, maximise):
    drawn = iter([*values, values[-1]])
    config = LoopConfig(epochs=4, lr=0.1, plateau_patience=0, metric="hinge")
    loop = Loop(Task(), config, tmp_path, validate=lambda model: {"hinge": next(drawn)}, maximise=maximise)
    loop.fit()
    assert [entry["lr"] for entry in loop._state.position.history] == [0.1] * 4
    assert loop._state.optimiser.param_groups[0]["lr"] == pytest.approx(0.01)
