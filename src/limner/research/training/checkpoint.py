"""Checkpoints: tensors and JSON state in one safetensors file, and the state needed to resume a run.

Files are written atomically, so a full disk or a crash leaves the previous one intact. Pickles are neither
written nor read.
"""

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR, ReduceLROnPlateau

from limner.checksums import arrays_checksum, noting, unseal
from limner.config import differences
from limner.errors import CheckpointError, DataError, MissingError
from limner.files import replacing, storage_error, write_text

FORMAT = "limner-checkpoint-1"
BEST, RESUME, HISTORY = "model.safetensors", "resume.safetensors", "history.jsonl"
T = TypeVar("T")


def save(path: Path, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
    """Write tensors and JSON state to one file, atomically.

    Args:
        path: target file in an existing folder.
        tensors: name → tensor on any device.
        state: JSON values.
    Raises:
        CheckpointError: the disk is full or the folder cannot be written; the previous file is intact.
    """
    # contiguous copies, because the format does not allow shared storage (tied or sliced tensors)
    copies = {name: t.detach().cpu().clone().contiguous() for name, t in tensors.items()}
    metadata = {"format": FORMAT, "state": json.dumps(state)}
    metadata["checksum"] = _checksum(copies, metadata["state"])
    wanted = sum(t.nbytes for t in copies.values())
    try:
        with noting(path.parent, path.name), replacing(path, wanted=wanted) as draft:
            save_file(copies, draft, metadata)
    except (OSError, SafetensorError) as error:
        refused = storage_error(error, path, wanted)
        reason = error if refused is None else refused.strerror
        raise CheckpointError(
            f"{path}: checkpoint not written ({reason}); the previous one is intact; free space and resume"
        ) from error


def write_history(path: Path, history: Sequence[Mapping[str, Any]]) -> None:
    """Write the history, one line per epoch, atomically, and record its digest in the run folder."""
    text = "".join(f"{json.dumps(entry)}\n" for entry in history)
    with noting(path.parent, path.name, text.encode()):
        write_text(path, text)


def _checksum(tensors: Mapping[str, Tensor], state: str) -> str:
    """Checksum of the contents of a checkpoint."""
    content = {name: t.reshape(-1).view(torch.uint8).numpy() for name, t in tensors.items()}
    kinds = {f"kind of {name}": f"{t.dtype} {tuple(t.shape)}" for name, t in tensors.items()}
    return arrays_checksum(content, {**kinds, "state": state})


def load(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read tensors (on the CPU) and state written by `save`.

    Raises:
        MissingError: the file does not exist.
        CheckpointError: the file is not a checkpoint, or is damaged.
    """
    if not path.is_file():
        raise MissingError(f"{path}: no such checkpoint; train first or check the path")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            if metadata.get("format") != FORMAT:
                raise CheckpointError(f"{path}: format {metadata.get('format')!r}, expected {FORMAT!r}")
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        due = metadata.get("checksum")
        if due not in (None, _checksum(tensors, metadata["state"])):
            raise CheckpointError(
                f"{path}: damaged (its checksum differs from its content); nothing was loaded; restore it"
                " from a copy, or remove it and train again"
            )
        return tensors, json.loads(metadata["state"])
    except CheckpointError:
        raise
    except Exception as error:  # a damaged header can raise anything
        reason = " ".join(str(error).split())[:200]
        raise CheckpointError(f"{path}: not a checkpoint of limner ({reason}); nothing was loaded") from error


def prefixed(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Prepend ``prefix/`` to the names, to store several sets in one file."""
    return {f"{prefix}/{name}": tensor for name, tensor in tensors.items()}


def part(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors with a prefix, without it; inverse of `prefixed`."""
    start = f"{prefix}/"
    return {name.removeprefix(start): t for name, t in tensors.items() if name.startswith(start)}


def load_into(model: nn.Module, tensors: Mapping[str, Tensor], where: str) -> None:
    """Load weights with strict keys and shapes.

    Raises:
        CheckpointError: a key is missing or unexpected, or has another shape; the model is unchanged.
    """
    own = model.state_dict()
    missing = sorted(own.keys() - tensors.keys())
    extra = sorted(tensors.keys() - own.keys())
    wrong = sorted(name for name in own.keys() & tensors.keys() if own[name].shape != tensors[name].shape)
    for what, names in (("missing", missing), ("unexpected", extra), ("of another shape", wrong)):
        if names:
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            raise CheckpointError(
                f"{where}: weights {what}: {', '.join(names[:3])}{more}; was it trained with these settings?"
            )
    model.load_state_dict(dict(tensors), strict=True)


def random_state() -> tuple[dict[str, Tensor], dict[str, Any]]:
    """States of the random generators: tensors for torch, JSON values for Python and NumPy."""
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


def restore_random(tensors: dict[str, Tensor], plain: dict[str, Any]) -> None:
    """Restore a state from `random_state`."""
    name, keys, position, has_gauss, gauss = plain["numpy"]
    np.random.set_state((name, np.array(keys, dtype=np.uint32), position, has_gauss, gauss))  # noqa: NPY002
    version, words, gauss_next = plain["python"]
    random.setstate((version, tuple(words), gauss_next))
    torch.set_rng_state(tensors["torch"])
    if torch.cuda.is_available():
        states = [tensors[f"cuda{i}"] for i in range(torch.cuda.device_count()) if f"cuda{i}" in tensors]
        if states:
            torch.cuda.set_rng_state_all(states)


@dataclass
class Position:
    """Progress of training.

    Attributes:
        epoch: current epoch, from 0.
        step: number of batches of the epoch already used.
        taken: total number of steps.
        skipped: number of updates of this epoch skipped because float16 overflowed.
        sums: loss name → sum over the other steps of this epoch.
        best: best validation value so far; None before the first.
        best_epoch: its epoch; −1 before the first.
        history: one entry per finished epoch.
    """

    epoch: int = 0
    step: int = 0
    taken: int = 0
    skipped: int = 0
    sums: dict[str, float] = field(default_factory=dict)
    best: float | None = None
    best_epoch: int = -1
    history: list[dict[str, Any]] = field(default_factory=list)

    @property
    def means(self) -> dict[str, float]:
        """Mean of each loss over the updates of this epoch."""
        return {name: total / max(self.step - self.skipped, 1) for name, total in self.sums.items()}


@dataclass(frozen=True)
class TrainingState:
    """Everything that changes during training, and the settings that must not.

    Attributes:
        model, optimiser, schedule: built from the settings.
        position: progress.
        settings: settings that must be the same when the run is resumed.
        scaler: gradient scaler; has no state unless enabled.
    """

    model: nn.Module
    optimiser: Optimizer
    schedule: ReduceLROnPlateau | LambdaLR
    position: Position
    settings: dict[str, Any]
    scaler: torch.amp.GradScaler

    def save(self, path: Path, task_state: Mapping[str, Tensor]) -> None:
        """Save everything, with the state of the task; see `save` for errors."""
        tensors, plain = random_state()
        optimiser = self.optimiser.state_dict()
        moments = {f"{i}.{k}": v for i, own in optimiser["state"].items() for k, v in own.items()}
        everything = (
            prefixed("model", self.model.state_dict())
            | prefixed("optimiser", moments)
            | prefixed("random", tensors)
            | prefixed("memory", task_state)
        )
        rest = {
            "position": asdict(self.position),
            "random": plain,
            "schedule": self.schedule.state_dict(),
            "groups": optimiser["param_groups"],
            "settings": self.settings,
            "scaler": self.scaler.state_dict(),
        }
        save(path, everything, rest)

    def restore(self, path: Path) -> dict[str, Tensor]:
        """Restore from a saved file; returns the state of the task.

        Raises:
            CheckpointError: the file was written with other settings, or does not match the model.
        """
        tensors, rest = load(path)
        if changed := differences(rest["settings"], self.settings):
            raise CheckpointError(
                f"{path}: the run was started with other settings ({changed}); use another folder"
            )
        load_into(self.model, part("model", tensors), str(path))
        moments: dict[int, dict[str, Tensor]] = {}
        parameters = [one for group in self.optimiser.param_groups for one in group["params"]]
        for name, tensor in part("optimiser", tensors).items():
            index, _, key = name.partition(".")
            own = parameters[int(index)]
            # fused optimisers require the memory layout of the parameter
            laid = torch.empty_like(own, dtype=tensor.dtype).copy_(tensor) if tensor.ndim else tensor
            moments.setdefault(int(index), {})[key] = laid
        self.optimiser.load_state_dict({"state": moments, "param_groups": rest["groups"]})
        self.schedule.load_state_dict(rest["schedule"])
        if self.scaler.is_enabled():
            self.scaler.load_state_dict(rest["scaler"])
        for name, value in rest["position"].items():
            setattr(self.position, name, value)
        restore_random(part("random", tensors), rest["random"])
        return part("memory", tensors)


def stored(file: Path, parse: Callable[[bytes], T], what: str) -> T:
    """Read a file that training writes at its end.

    Args:
        file: a JSON object, with or without the checksum of `limner.checksums.seal`.
        parse: function of its content without the checksum.
        what: name of the content, for messages.
    Raises:
        CheckpointError: the file is missing or damaged.
    """
    try:
        return parse(unseal(file.read_bytes(), file, "run limner train to its end"))
    except DataError as error:
        raise CheckpointError(str(error)) from error
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error).partition("\n")[0]
        raise CheckpointError(f"{file}: no {what} there ({reason}); run limner train to its end") from error
