"""Optimisers by name, with the settings of the loop.

The loop takes whichever a system's settings ask for. It schedules nothing.
"""

from collections.abc import Iterable, Mapping
from typing import Literal

import torch
from torch import nn

OptimiserName = Literal["adam", "adadelta"]


def optimiser(
    name: OptimiserName,
    parameters: Iterable[tuple[str, nn.Parameter]],
    lr: float,
    betas: tuple[float, float],
    weight_decay: float,
    *,
    rates: Mapping[str, float],
) -> torch.optim.Optimizer:
    """An optimiser of the parameters that take gradients.

    Args:
        name: which.
        parameters: all of a model, by name.
        lr: rate.
        betas: of Adam.
        weight_decay: of either.
        rates: part of the model, by the beginning of its names → rate of its own.
    Returns:
        Group 0 holds what has no rate of its own, the others follow in the order of `rates`; a part that the
        model does not have gets no group.
    """
    groups: dict[str, list[nn.Parameter]] = {"": [], **{part: [] for part in rates}}
    for key, parameter in parameters:
        if parameter.requires_grad:
            part = next((part for part in rates if key == part or key.startswith(part + ".")), "")
            groups[part].append(parameter)
    some = [
        {"params": found, "lr": rates.get(part, lr)} for part, found in groups.items() if found or not part
    ]
    if name == "adadelta":
        return torch.optim.Adadelta(some, lr=lr, weight_decay=weight_decay)
    # one kernel per step instead of several per tensor: a fourth of the time on a CPU
    return torch.optim.Adam(some, lr=lr, betas=betas, weight_decay=weight_decay, fused=True)
