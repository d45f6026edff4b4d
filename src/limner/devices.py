"""Devices, precisions and threads, checked in one place, so that all commands accept the same names.

On a CPU, networks run in OpenVINO, which does not need torch; torch comes with the extras ``torch`` and
``research``. Thread pools return results in order and keep a bounded number of them in memory.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from limner.errors import ConfigError, installed

if TYPE_CHECKING:
    import torch


Precision = Literal["float32", "bfloat16", "float16"]
Engine = Literal["auto", "torch", "openvino"]
"""Engine that runs a network on a CPU; for a torch network, auto uses OpenVINO only after many pictures."""
TORCH = "'limner[torch]'"
"""Argument for ``pip install`` with the packages that CUDA GPUs and Apple GPUs need."""
_FIRST_LOOK = threading.Lock()
_NAMED = re.compile(r"cpu|mps|cuda(:\d{1,3})?", re.ASCII)


def openvino() -> Any:  # noqa: ANN401  (a package that may be absent)
    """Import OpenVINO with its telemetry disabled.

    Raises:
        MissingError: OpenVINO is not installed.
    """
    # The telemetry package sends data without asking.
    sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]
    with installed("OpenVINO", "openvino"):
        import openvino
        import openvino.preprocess
    import numpy as np

    # OpenVINO deadlocks if two threads access a tensor for the first time at once.
    with _FIRST_LOOK:
        _ = openvino.Tensor(np.zeros(1)).data
    return openvino


def has_nvidia_driver() -> bool:
    """Whether an NVIDIA driver is installed; without one, torch is not imported to look for a card."""
    try:
        ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        return False
    return True


def device_of(name: str) -> str:
    """Find the torch device of that name.

    Args:
        name: "cpu", "cuda", "cuda:N" (N from 0) or "mps"; "auto" is the first CUDA GPU, or else the CPU.
    Raises:
        ConfigError: the name is unknown, or this machine has no such device.
        MissingError: the device needs torch, which is not installed.
    """
    if name == "cpu" or (name == "auto" and not (has_nvidia_driver() and find_spec("torch"))):
        return "cpu"
    if name != "auto" and not _NAMED.fullmatch(name):
        raise ConfigError(f"device {name!r}: expected auto, cpu, cuda, cuda:N or mps")
    with installed("torch", TORCH):
        import torch
    cards = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if name == "auto":
        return "cuda" if cards else "cpu"
    kind, _, number = name.partition(":")
    if kind == "cuda" and int(number or 0) >= cards:
        found = "no CUDA GPU" if not cards else f"{cards} CUDA GPU(s), cuda:0 to cuda:{cards - 1}"
        raise ConfigError(f"device {name!r}: torch finds {found} on this machine; use cpu or auto")
    if kind == "mps" and not torch.backends.mps.is_available():
        raise ConfigError("device 'mps': torch finds no Apple GPU on this machine; use cpu or auto")
    return name


def checked_device(name: str) -> str:
    """Check the name of a device immediately; "auto" is resolved later, because looking for a card imports
    torch.

    Args:
        name: see `device_of`.
    Raises:
        ConfigError: as `device_of`.
    """
    return name if name in ("auto", "cpu") else device_of(name)


def usual_precision(device: str) -> Precision:
    """Default precision of torch's products: bfloat16 if the machine supports it in hardware.

    Without that support a picture takes twice as long as in float32 (with AVX-512), or 13 times (AVX2).

    Args:
        device: see `device_of`.
    """
    import torch

    if device_of(device) != "cpu":
        return "bfloat16"
    emulated = torch.cpu._is_avx512_supported() and not torch.cpu._is_avx512_bf16_supported()
    return "bfloat16" if torch.ops.mkldnn._is_mkldnn_bf16_supported() and not emulated else "float32"


def autocast(device: str, precision: Precision) -> torch.autocast:
    """Context in which products use the given precision; sums and weights stay float32.

    Args:
        device: torch device that computes.
        precision: "float32" changes nothing.
    """
    import torch

    half = torch.float16 if precision == "float16" else torch.bfloat16
    return torch.autocast(device.partition(":")[0], half, enabled=precision != "float32")


T = TypeVar("T")
R = TypeVar("R")
MOST_WORKERS = 16
_ARENA_MAX, _ARENAS = -8, 2
"""The option's number in the GNU C library's malloc.h, and its value."""


def cores() -> int:
    """Default number of decoding threads: one per usable core, at most 16."""
    usable = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    return min(max(usable, 1), MOST_WORKERS)


def share_memory() -> None:
    """Limit the number of malloc arenas, so that memory freed by one thread can be used by another.

    The GNU C library has eight arenas per core, none of which shrinks; other C libraries are left unchanged.
    """
    if sys.platform == "linux":
        import ctypes

        with contextlib.suppress(AttributeError):  # another C library
            ctypes.CDLL(None).mallopt(_ARENA_MAX, _ARENAS)


def ahead(
    items: Iterable[T],
    work: Callable[[T], R],
    *,
    workers: int,
    in_flight: int,
    initializer: Callable[..., Any] | None = None,
    initargs: tuple[Any, ...] = (),
) -> Generator[R, None, None]:
    """`map` in threads, in order; if it is closed early, items not yet started are cancelled.

    Args:
        items: may be endless; they are taken as there is room.
        work: called in a worker thread; its error is raised in place of its result.
        workers: number of threads, at least 1.
        in_flight: maximum number of items started and not yet returned, which bounds the memory.
        initializer: called in each thread before its first item.
        initargs: its arguments.
    """
    waiting: deque[Future[R]] = deque()
    pool = ThreadPoolExecutor(workers, "limner-ahead", initializer, initargs)
    try:
        for item in items:
            waiting.append(pool.submit(work, item))
            if len(waiting) >= in_flight:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


_LIMITING = threading.Lock()
_limited: list[Any] = []
"""The active limit, once for each open `one_core_products`."""


@contextmanager
def one_core_products() -> Iterator[None]:
    """Context in which NumPy computes each product on a single core, in every thread.

    For work that already runs in several threads, as in `one_core_each`. Contexts may be nested; the last one
    to close restores the number of threads.
    """
    from threadpoolctl import threadpool_limits

    with _LIMITING:
        _limited.append(_limited[-1] if _limited else threadpool_limits(1, "blas"))
    try:
        yield
    finally:
        with _LIMITING:
            held = _limited.pop()
            if not _limited:
                held.restore_original_limits()


def one_core_each(items: Iterable[T], work: Callable[[T], R], *, workers: int) -> Generator[R, None, None]:
    """`ahead` with torch on a single core in each worker; its number of threads is restored at the end.

    The threads of a product wait for each other by spinning, which takes cores from other work.
    """
    import torch

    threads = torch.get_num_threads()
    try:
        yield from ahead(
            items,
            work,
            workers=workers,
            in_flight=2 * workers + 1,
            initializer=torch.set_num_threads,
            initargs=(1,),
        )
    finally:
        # Torch uses the number last set, by any thread, for threads started later.
        torch.set_num_threads(threads)
