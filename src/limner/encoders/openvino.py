"""Runs networks with OpenVINO, which takes at most half of torch's time on a CPU.

A network that comes with limner is a file in OpenVINO's format and needs no torch. When OpenVINO converts a
torch network, its results are compared with torch's on the same pictures; it replaces torch only if it is as
close to float32 as torch itself. Both have the same fingerprint. Nothing here loads torch at import.
"""

from __future__ import annotations

import hashlib
import os
import threading
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from limner.arrays import ByteArray, FloatArray
from limner.devices import Engine, Precision, openvino
from limner.errors import CheckpointError, ConfigError, LimnerWarning, MissingError, NumericsError
from limner.files import write_bytes

if TYPE_CHECKING:
    from torch import Tensor, nn

PATIENCE = 256
"""Number of pictures that torch encodes first; compiling takes as long as a few hundred of them."""
CHECKED_PICTURES = 8
"""Number of pictures of a batch that torch encodes as well, for comparison."""
LEAST_ERROR = 0.01
"""Distance from torch's float32 row, relative to its length, that is always accepted: a cosine of .99995."""

_HINTS = {"bfloat16": "bf16", "float16": "f16", "float32": "f32"}
NETWORK, TENSORS = ".xml", ".bin"
"""Extensions of the two files of a network in OpenVINO's format: its layers, and their tensors."""
_SOURCE, _HASH = ["limner", "source"], ["limner", "tensors"]
"""Keys in the layers' file: SHA-256 of the source weights, and of the tensors."""


def save_network(path: Path, network: nn.Module, side_px: int, source: str) -> None:
    """Write a network in OpenVINO's format, its tensors in half precision.

    Args:
        path: path of the layers, ending in ``.xml``; the tensors are next to it in ``.bin``.
        network: (B, S, S, 3) bytes → (B, F), on the CPU, in evaluation mode.
        side_px: S.
        source: SHA-256 of the weights from which it was made.
    Raises:
        MissingError: OpenVINO is not installed.
    """
    engine = openvino()
    graph = _converted(network, side_px)
    with TemporaryDirectory() as folder:
        draft = Path(folder) / f"network{NETWORK}"
        engine.save_model(graph, draft, compress_to_fp16=True)
        tensors = draft.with_suffix(TENSORS).read_bytes()
        graph.set_rt_info(source, _SOURCE)
        graph.set_rt_info(hashlib.sha256(tensors).hexdigest(), _HASH)
        engine.save_model(graph, draft, compress_to_fp16=True)
        write_bytes(path.with_suffix(TENSORS), tensors)
        write_bytes(path, draft.read_bytes())


def read_network(path: Path, source: str, precision: Precision) -> Callable[[ByteArray], FloatArray]:
    """Load and compile a network of `save_network`.

    Args:
        path: path of the layers.
        source: SHA-256 that the weights from which it was made must have.
        precision: lowest precision of products, if the processor supports it.
    Returns:
        (B, S, S, 3) bytes → (B, F).
    Raises:
        MissingError: OpenVINO or a file is missing.
        CheckpointError: a file is damaged, or made of other weights.
    """
    engine = openvino()
    core = engine.Core()
    try:
        layers, tensors = path.read_bytes(), path.with_suffix(TENSORS).read_bytes()
    except OSError as error:
        raise MissingError(
            f"{error.filename}: cannot be read ({error.strerror}); reinstall limner"
        ) from error
    try:
        # the reader keeps a reference to the bytes
        values = engine.Tensor(np.frombuffer(tensors, dtype=np.uint8).copy())
        graph = core.read_model(layers, values)
        made_of, held = (str(graph.get_rt_info(name).value) for name in (_SOURCE, _HASH))
    except (RuntimeError, ValueError) as error:
        raise CheckpointError(f"{path}: damaged, or not a network of limner; get it again") from error
    if held != hashlib.sha256(tensors).hexdigest():
        raise CheckpointError(f"{path.with_suffix(TENSORS)}: damaged: its SHA-256 differs; get it again")
    if made_of != source:
        raise CheckpointError(
            f"{path}: made of the weights {made_of[:12]}…, here are {source[:12]}…; write it again with"
            " 'limner models export'"
        )
    return _ready(graph, core, precision)


def _ready(graph: Any, core: Any, precision: Precision, output: int = 0) -> Callable[..., FloatArray]:  # noqa: ANN401
    """An OpenVINO graph compiled for the CPU, from its inputs to one output; takes seconds."""
    hints: dict[str, str | int]
    hints = {"INFERENCE_PRECISION_HINT": _HINTS[precision], "PERFORMANCE_HINT": "LATENCY"}
    # as in torch: the limit of each process if several share a machine, such as Ray's
    if (threads := os.environ.get("OMP_NUM_THREADS", "")).isdecimal() and int(threads):
        hints["INFERENCE_NUM_THREADS"] = int(threads)
    run: Any = core.compile_model(graph, "CPU", hints)
    alone = threading.Lock()

    def compute(batch: NDArray[Any], *more: NDArray[Any]) -> FloatArray:
        with alone:  # it has one output buffer
            return np.array(run([np.ascontiguousarray(one) for one in (batch, *more)])[output], np.float32)

    return compute


class Tower(Protocol):
    """One encoder of a dual model: its input, and for texts the mask of real pieces → (B, D)."""

    def __call__(self, batch: NDArray[Any], real: NDArray[Any] | None = None, /) -> FloatArray:
        """(B, 3, S, S) pixels → (B, D); or (B, T) word pieces, and 1 where they are real."""
        ...


def save_tower(path: Path, network: nn.Module, example: Tensor) -> None:
    """Write one encoder of a dual model in OpenVINO's format, its tensors in half precision.

    Args:
        path: path of the layers, ending in ``.xml``; the tensors are next to it in ``.bin``.
        network: (B, …) → (B, D), on the CPU, in evaluation mode.
        example: (2, …) example input; only B may vary later.
    Raises:
        MissingError: OpenVINO is not installed.
        ConfigError: it cannot be converted.
    """
    engine = openvino()
    import torch

    quick = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # a tracer cannot trace it
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            kind = engine.Type.i64 if example.dtype == torch.int64 else engine.Type.f32
            shape = engine.PartialShape([-1, *example.shape[1:]])
            graph = engine.convert_model(network, example_input=example, input=(shape, kind))
    except RuntimeError as error:
        reason = " ".join(str(error).split())[:120]
        raise ConfigError(f"{path}: OpenVINO cannot convert the network ({reason})") from error
    finally:
        torch.backends.mha.set_fastpath_enabled(quick)
    engine.save_model(graph, path, compress_to_fp16=True)


def read_tower(path: Path, width: int, precision: Precision) -> Tower:
    """Load and compile one encoder of a dual model, from OpenVINO's own format or an ONNX file.

    Args:
        path: path of the layers or of the ONNX file.
        width: D.
        precision: lowest precision of products, if the processor supports it.
    Raises:
        MissingError: OpenVINO is not installed.
        CheckpointError: the file is damaged, or no network from one input to (B, D); of word pieces an input
            that says which are real may come with them.
    """
    engine = openvino()
    core = engine.Core()
    try:
        graph = core.read_model(path)
        masks = [any("mask" in name for name in one.get_names()) for one in graph.inputs]
        kinds = [one.get_element_type().to_dtype() for one in graph.inputs]
        outputs = [
            number
            for number, one in enumerate(graph.outputs)
            if one.get_partial_shape().rank.is_dynamic or len(one.get_partial_shape()) == 2
        ]
        named = [n for n in outputs if any(name.endswith("_embeds") for name in graph.outputs[n].get_names())]
        run = _ready(graph, core, precision, (named or outputs or [0])[0])
    except (RuntimeError, ValueError) as error:
        reason = " ".join(str(error).split())[:120]
        raise CheckpointError(f"{path}: damaged or no network ({reason}); get it again") from error
    if sorted(masks) not in ([False], [False, True]):
        raise CheckpointError(f"{path}: takes {len(masks)} inputs, expected one; not an encoder of CLIP")

    def compute(batch: NDArray[Any], real: NDArray[Any] | None = None, /) -> FloatArray:
        given = [real if mask and real is not None else batch for mask in masks]
        try:
            rows = run(*(one.astype(kind, copy=False) for one, kind in zip(given, kinds, strict=True)))
        except RuntimeError as error:
            reason = " ".join(str(error).split())[:120]
            raise CheckpointError(f"{path}: does not take {batch.shape} ({reason})") from error
        if rows.shape != (len(batch), width):
            raise CheckpointError(f"{path}: made {rows.shape} of {len(batch)} inputs, expected (B, {width})")
        return rows

    return compute


def _converted(network: nn.Module, side_px: int) -> Any:  # noqa: ANN401  (a class of OpenVINO's)
    """Convert a torch network to OpenVINO's graph."""
    engine = openvino()
    import torch

    shape = (side_px, side_px, 3)
    with warnings.catch_warnings():
        # Tracing warns about Python branches of the network's own checks; shapes are fixed here.
        warnings.simplefilter("ignore")
        # An example of two keeps the batch axis from becoming a constant 1.
        example = torch.zeros(2, *shape, dtype=torch.uint8)
        return engine.convert_model(network, example_input=example, input=[-1, *shape])


def compiled(network: nn.Module, side_px: int, precision: Precision) -> Callable[[ByteArray], FloatArray]:
    """Compile a network with OpenVINO, which takes seconds.

    Args:
        network: (B, S, S, 3) bytes → (B, F), on the CPU, in evaluation mode.
        side_px: S.
        precision: lowest precision of products, if the processor supports it.
    Returns:
        The network, from arrays to arrays.
    Raises:
        MissingError: OpenVINO is not installed.
    """
    return _ready(_converted(network, side_px), openvino().Core(), precision)


class SwitchingRunner:
    """Runner of a network on a CPU: torch first, and OpenVINO after many pictures."""

    def __init__(
        self,
        name: str,
        side_px: int,
        precision: Precision,
        *,
        engine: Engine,
        network: Callable[[], nn.Module],
        by_torch: Callable[[ByteArray, Precision], FloatArray],
    ) -> None:
        """Prepare the runner without compiling.

        Args:
            name: name of the encoder, for messages.
            side_px: S.
            precision: precision of products.
            engine: engine; openvino is used from the first picture on, and raises an error if it cannot be
                used.
            network: function that creates the network for `compiled`.
            by_torch: (B, S, S, 3) bytes and a precision → (B, F).
        """
        self._name, self._side_px, self._precision, self._engine = name, side_px, precision, engine
        self._network, self._by_torch = network, by_torch
        self._patience = 0 if engine == "openvino" else PATIENCE
        self._fast: Callable[[ByteArray], FloatArray] | None = None
        if engine == "torch" or (engine == "auto" and find_spec("openvino") is None):
            self._patience = -1

    def __call__(self, batch: ByteArray) -> FloatArray:
        """(B, S, S, 3) bytes → (B, F) rows.

        Raises:
            MissingError: OpenVINO was requested and is not installed.
            NumericsError: OpenVINO was requested and its results differ from torch's.
        """
        if self._fast is None and self._patience == 0:
            self._patience = -1
            try:
                self._fast = self._checked(batch)
            except Exception as error:
                if self._engine == "openvino":
                    raise
                told = " ".join(str(error).split())
                warnings.warn(f"{told}; continuing with torch", LimnerWarning, stacklevel=2)
        if self._fast is not None:
            return self._fast(batch)
        if self._patience > 0:
            self._patience = max(self._patience - len(batch), 0)
        return self._by_torch(batch, self._precision)

    def _checked(self, batch: ByteArray) -> Callable[[ByteArray], FloatArray]:
        """Compile with OpenVINO and check that its rows are as close to torch's float32 as torch's own."""
        try:
            found = compiled(self._network(), self._side_px, self._precision)
            some = batch[:CHECKED_PICTURES]
            exact = self._by_torch(some, "float32")
            own, fast = (
                _distance(rows, exact) for rows in (self._by_torch(some, self._precision), found(some))
            )
        except MissingError:
            raise
        except RuntimeError as error:
            raise NumericsError(f"{self._name}: OpenVINO cannot run it ({error})") from error
        most = 2 * own + LEAST_ERROR
        if not fast <= most:
            raise NumericsError(
                f"{self._name}: OpenVINO's rows are {fast:.3f} of their length from torch's, expected at most"
                f" {most:.3f}"
            )
        return found


def _distance(rows: FloatArray, exact: FloatArray) -> float:
    """Largest distance of (B, F) rows from exact ones, relative to the length of the exact ones."""
    lengths = np.linalg.norm(exact, axis=1)
    return float((np.linalg.norm(rows - exact, axis=1) / np.maximum(lengths, 1e-12)).max())
