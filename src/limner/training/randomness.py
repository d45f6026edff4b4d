"""Seeds and the state of every random generator training draws from.

Resuming restores all of them, which is what makes a resumed run equal an undisturbed one. It never
touches a generator unless told to.
"""

import random
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor


def seed_all(seed: int) -> None:
    """Seed python, NumPy and torch (every device)."""
    import torch

    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002  (libraries still draw from the global generator)
    torch.manual_seed(seed)


def capture() -> tuple[dict[str, "Tensor"], dict[str, Any]]:
    """The present state: tensors for torch's generators, plain values for python's and NumPy's."""
    import torch

    name, keys, position, has_gauss, gauss = np.random.get_state()  # noqa: NPY002
    version, words, gauss_next = random.getstate()
    tensors = {"torch": torch.get_rng_state()}
    if torch.cuda.is_available():
        tensors |= {f"cuda{i}": state for i, state in enumerate(torch.cuda.get_rng_state_all())}
    plain = {
        "numpy": [str(name), np.asarray(keys).tolist(), int(position), int(has_gauss), float(gauss)],
        "python": [version, list(words), gauss_next],
    }
    return tensors, plain


def restore(tensors: dict[str, "Tensor"], plain: dict[str, Any]) -> None:
    """Go on from a state that `capture` gave."""
    import torch

    name, keys, position, has_gauss, gauss = plain["numpy"]
    np.random.set_state((name, np.array(keys, dtype=np.uint32), position, has_gauss, gauss))  # noqa: NPY002
    version, words, gauss_next = plain["python"]
    random.setstate((version, tuple(words), gauss_next))
    torch.set_rng_state(tensors["torch"])
    if torch.cuda.is_available():
        states = [tensors[f"cuda{i}"] for i in range(torch.cuda.device_count()) if f"cuda{i}" in tensors]
        if states:
            torch.cuda.set_rng_state_all(states)
