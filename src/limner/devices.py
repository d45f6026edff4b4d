"""What computes, and in which precision: read in one place, so that all commands take and refuse the same."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from limner.errors import ConfigError

if TYPE_CHECKING:
    import torch

Precision = Literal["float32", "bfloat16", "float16"]
_NAMED = re.compile(r"cpu|mps|cuda(:\d{1,3})?", re.ASCII)


def device_of(name: str) -> str:
    """The torch device that a person named.

    Args:
        name: "auto" is the first CUDA card, else the CPU; "cpu", "cuda", "cuda:N" (N from 0) and "mps" are
            what they say.
    Raises:
        ConfigError: none of these, or this machine has no such device.
    """
    import torch

    cards = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if name == "auto":
        return "cuda" if cards else "cpu"
    if not _NAMED.fullmatch(name):
        raise ConfigError(f"device {name!r}: expected auto, cpu, cuda, cuda:N or mps")
    kind, _, number = name.partition(":")
    if kind == "cuda" and int(number or 0) >= cards:
        found = "no CUDA card" if not cards else f"{cards} CUDA card(s), cuda:0 to cuda:{cards - 1}"
        raise ConfigError(f"device {name!r}: torch finds {found} on this machine; use cpu or auto")
    if kind == "mps" and not torch.backends.mps.is_available():
        raise ConfigError("device 'mps': torch finds no Apple GPU on this machine; use cpu or auto")
    return name


def autocast(device: str, precision: Precision) -> torch.autocast:
    """Within, products are of half the bits where the precision says so; sums and weights stay float32.

    Args:
        device: torch device that computes.
        precision: "float32" changes nothing.
    """
    import torch

    half = torch.float16 if precision == "float16" else torch.bfloat16
    return torch.autocast(device.partition(":")[0], half, enabled=precision != "float32")
