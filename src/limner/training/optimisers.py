"""Optimisers by name, with the settings of the loop.

The loop takes whichever a system's settings ask for. It schedules nothing.
"""

from collections.abc import Iterable
from typing import Literal

import torch
from torch import nn

OptimiserName = Literal["adam", "adadelta"]


def optimiser(
    name: OptimiserName,
    parameters: Iterable[nn.Parameter],
    lr: float,
    betas: tuple[float, float],
    weight_decay: float,
) -> torch.optim.Optimizer:
    """An optimiser of the parameters that take gradients.

    Args:
        name: which.
        parameters: all of a model.
        lr: rate.
        betas: of Adam.
        weight_decay: of either.
    """
    some = [parameter for parameter in parameters if parameter.requires_grad]
    if name == "adadelta":
        return torch.optim.Adadelta(some, lr=lr, weight_decay=weight_decay)
    return torch.optim.Adam(some, lr=lr, betas=betas, weight_decay=weight_decay)
