"""Networks of pictures run by OpenVINO (extra ``fast``), which takes half of torch's time on a CPU, or less.

What it makes is compared with what torch makes of the same pictures; only where it is as near to float32 as
torch itself does it take torch's place, under the same fingerprint. Nothing here loads torch at import.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from limner.arrays import ByteArray, FloatArray
from limner.devices import Precision, openvino
from limner.errors import LimnerWarning, MissingError, NumericsError

if TYPE_CHECKING:
    from torch import nn

Engine = Literal["auto", "torch", "openvino"]
"""What runs a network on a CPU; auto takes OpenVINO where it is installed and many pictures come."""

PATIENCE = 256
"""Pictures that torch looks at first: to compile a network takes as long as a few hundred of them."""
CHECKED_PICTURES = 8
"""Of a batch, those that torch looks at as well."""
LEAST_ERROR = 0.01
"""Distance from torch's float32 row, as a share of its length, that always passes: a cosine of .99995."""

_HINTS = {"bfloat16": "bf16", "float16": "f16", "float32": "f32"}


def compiled(network: nn.Module, side_px: int, precision: Precision) -> Callable[[ByteArray], FloatArray]:
    """A network made ready by OpenVINO; takes seconds.

    Args:
        network: (B, S, S, 3) bytes → (B, F), on the CPU, in evaluation mode.
        side_px: S.
        precision: at least that of products, where the processor has it.
    Returns:
        The same, from arrays to arrays; not to be called by two threads at once.
    Raises:
        MissingError: OpenVINO is not installed.
    """
    engine = openvino()
    import torch

    shape = (side_px, side_px, 3)
    with warnings.catch_warnings():
        # Tracing warns about Python branches of the network's own checks; shapes are fixed here.
        warnings.simplefilter("ignore")
        # An example of two keeps the batch axis from being taken for a constant 1.
        example = torch.zeros(2, *shape, dtype=torch.uint8)
        graph = engine.convert_model(network, example_input=example, input=[-1, *shape])
    hints = {"INFERENCE_PRECISION_HINT": _HINTS[precision], "PERFORMANCE_HINT": "LATENCY"}
    run: Any = engine.Core().compile_model(graph, "CPU", hints)
    return lambda batch: np.array(run([np.ascontiguousarray(batch)])[0], dtype=np.float32)


class Quickest:
    """The rows of a network on a CPU: by torch, and by OpenVINO once many pictures have come."""

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
        """Compile nothing yet.

        Args:
            name: of the encoder, for messages.
            side_px: S.
            precision: of products.
            engine: openvino is taken at the first picture, and what keeps it from that is an error.
            network: makes what `compiled` takes.
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
            MissingError: OpenVINO was asked for and is not installed.
            NumericsError: it was asked for and computes something else than torch.
        """
        if self._fast is None and self._patience == 0:
            self._patience = -1
            try:
                self._fast = self._checked(batch)
            except Exception as error:
                if self._engine == "openvino":
                    raise
                told = " ".join(str(error).split())
                warnings.warn(f"{told}; torch goes on", LimnerWarning, stacklevel=2)
        if self._fast is not None:
            return self._fast(batch)
        if self._patience > 0:
            self._patience = max(self._patience - len(batch), 0)
        return self._by_torch(batch, self._precision)

    def _checked(self, batch: ByteArray) -> Callable[[ByteArray], FloatArray]:
        """OpenVINO's rows, once found as near to torch's float32 as torch's own in this precision."""
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
    """The largest distance of (B, F) rows from others, as a share of the length of these."""
    lengths = np.linalg.norm(exact, axis=1)
    return float((np.linalg.norm(rows - exact, axis=1) / np.maximum(lengths, 1e-12)).max())
