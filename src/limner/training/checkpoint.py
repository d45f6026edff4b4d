"""Checkpoints: tensors in safetensors, everything else as JSON in the same file.

One file, written beside its target and moved over it, so that a full disk or a kill leaves the
last good one. No pickle is ever written or read. It stores what it is given and knows no system.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from limner.errors import CheckpointError, MissingError
from limner.files import replacing

if TYPE_CHECKING:
    from torch import Tensor, nn

FORMAT = "limner-checkpoint-1"


def save(path: Path, tensors: Mapping[str, "Tensor"], state: Mapping[str, Any]) -> None:
    """Write tensors and plain state as one file, all or nothing.

    Args:
        path: target; its folder exists.
        tensors: name → tensor on any device.
        state: JSON values.
    Raises:
        CheckpointError: the disk is full or the folder cannot be written; the file that was there
            before is untouched.
    """
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    metadata = {"format": FORMAT, "state": json.dumps(state)}
    # A contiguous copy each: tied or sliced tensors share storage, which the format refuses.
    copies = {name: t.detach().cpu().clone().contiguous() for name, t in tensors.items()}
    try:
        with replacing(path) as draft:
            save_file(copies, draft, metadata)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(
            f"{path}: checkpoint not written ({error}); the one before it is untouched; free space and resume"
        ) from error


def load(path: Path) -> tuple[dict[str, "Tensor"], dict[str, Any]]:
    """Tensors (on the CPU) and state of a file that `save` wrote.

    Raises:
        MissingError: no such file.
        CheckpointError: not such a file, or damaged.
    """
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise MissingError(f"{path}: no checkpoint there; train first or check the path")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            if metadata.get("format") != FORMAT:
                raise CheckpointError(f"{path}: format {metadata.get('format')!r}, expected {FORMAT!r}")
            return {name: file.get_tensor(name) for name in file.keys()}, json.loads(metadata["state"])  # noqa: SIM118
    except (SafetensorError, OSError, KeyError, json.JSONDecodeError) as error:
        raise CheckpointError(f"{path}: not a checkpoint of limner ({error}); nothing was loaded") from error


def prefixed(prefix: str, tensors: Mapping[str, "Tensor"]) -> dict[str, "Tensor"]:
    """Names with ``prefix/`` before them, to keep several sets in one file."""
    return {f"{prefix}/{name}": tensor for name, tensor in tensors.items()}


def part(prefix: str, tensors: Mapping[str, "Tensor"]) -> dict[str, "Tensor"]:
    """The set that `prefixed` put under a prefix."""
    start = f"{prefix}/"
    return {name.removeprefix(start): t for name, t in tensors.items() if name.startswith(start)}


def load_into(model: "nn.Module", tensors: Mapping[str, "Tensor"], where: str) -> None:
    """Load weights with strict keys and shapes.

    Raises:
        CheckpointError: a key is missing, left over or of another shape; the model is unchanged.
    """
    own = model.state_dict()
    missing = sorted(own.keys() - tensors.keys())
    extra = sorted(tensors.keys() - own.keys())
    wrong = sorted(name for name in own.keys() & tensors.keys() if own[name].shape != tensors[name].shape)
    for what, names in (("missing", missing), ("unexpected", extra), ("of another shape", wrong)):
        if names:
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            raise CheckpointError(
                f"{where}: weights {what}: {', '.join(names[:3])}{more}; was it trained with this config?"
            )
    model.load_state_dict(dict(tensors), strict=True)
