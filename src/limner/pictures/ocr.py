"""Text in pictures (signs, labels, slides, screenshots), read by RapidOCR if it is installed.

Its networks (PP-OCR, Apache-2.0) are in its package and run in OpenVINO; nothing is downloaded.
"""

from __future__ import annotations

import hashlib
import importlib.util
import threading
from collections.abc import Callable, Iterable
from importlib.metadata import version
from itertools import count
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from PIL import Image

from limner.arrays import ByteArray
from limner.devices import cores, openvino
from limner.errors import MissingError
from limner.pictures.metadata import plain

LOOK_PX, FIND_PX, READ_PX = 192, 640, 960
"""Side of the square in which a picture is checked for text; longest side at which lines are detected, and at
which they are read. In a square, letters of a wide picture are taller than at its own aspect ratio.
"""
LINE_PX = 96
"""Minimum width of a line, 48 pixels high, for the recogniser; with RapidOCR's 320, short lines take longer.
"""
LEAST_SIGHT = 0.98
"""Confidence, 0 to 1, that the quick check needs at one point of the square."""
LEAST_SCORE, LEAST_LETTERS = 0.8, 2
"""Minimum confidence of a line, 0 to 1, and minimum number of letters: patterns are mistaken for single
characters.
"""
MOST_LINES, MOST_CHARS = 200, 2000
MOST_ENGINES, READ_EACH = 4, 50
"""Maximum number of engines, and number of pictures read before another engine is created, which takes as
long as reading 20.
"""
_FILES = {"Det": "*_det_*.onnx", "Rec": "*_rec_*.onnx"}


class OcrEngine(Protocol):
    """Reads the text in pictures; thread-safe."""

    @property
    def fingerprint(self) -> str:
        """Hash of the engine's version and settings: equal fingerprints read equal text."""
        ...

    def sees_words(self, rgb: Image.Image) -> bool:
        """Whether a picture may contain text, by a quick check of a small copy."""
        ...

    def read(self, rgb: Image.Image) -> str:
        """The text, one line each; "" for none.

        Args:
            rgb: upright picture; `READ_PX` on its longer side are enough.
        """
        ...


def rapid_ocr() -> OcrEngine:
    """The engine of the extra ``ocr``.

    Raises:
        MissingError: the extra is not installed.
    """
    if importlib.util.find_spec("rapidocr") is None:
        raise MissingError("reading text in pictures needs RapidOCR; run: pip install 'limner[ocr]'")
    return RapidOcr()


class RapidOcr:
    """RapidOCR on the CPU; the quick check uses only its line detector."""

    def __init__(self) -> None:
        """Load nothing before the first picture."""
        self.fingerprint = hashlib.sha256(
            f"rapidocr {version('rapidocr')} {LOOK_PX} {LEAST_SIGHT} {FIND_PX} {READ_PX} {LINE_PX}"
            f" {LEAST_SCORE} {LEAST_LETTERS}".encode()
        ).hexdigest()
        self._loading = threading.Lock()
        self._sight: Callable[[ByteArray], float] | None = None
        self._free: list[Any] = []
        self._turns = threading.Semaphore(1)
        self._count = count(1)

    def sees_words(self, rgb: Image.Image) -> bool:
        """See `OcrEngine.sees_words`."""
        with self._loading:
            self._sight = self._sight or _sight()
        square = rgb.resize((LOOK_PX, LOOK_PX), Image.Resampling.BILINEAR)
        return self._sight(np.asarray(square)) >= LEAST_SIGHT

    def read(self, rgb: Image.Image) -> str:
        """See `OcrEngine.read`."""
        small = rgb.copy()
        small.thumbnail((READ_PX, READ_PX), Image.Resampling.BILINEAR)
        if next(self._count) in range(READ_EACH, READ_EACH * MOST_ENGINES, READ_EACH):
            self._turns.release()
        with self._turns:
            engine = self._free.pop() if self._free else _rapidocr()
            try:
                found = engine(np.asarray(small)[:, :, ::-1], use_det=True, use_cls=False, use_rec=True)
            finally:
                self._free.append(engine)
        lines = zip(found.txts or (), found.scores or (), strict=True)
        return "\n".join(legible(lines))[:MOST_CHARS]


def legible(lines: Iterable[tuple[str, float]]) -> list[str]:
    """Keep the lines whose confidence and length are sufficient."""
    texts = [plain(text) for text, score in lines if score >= LEAST_SCORE]
    return [text for text in texts if sum(map(str.isalpha, text)) >= LEAST_LETTERS]


def _network(part: str) -> Path:
    """Path of a network in RapidOCR's package."""
    package = importlib.util.find_spec("rapidocr")
    folders = [] if package is None else package.submodule_search_locations or []
    files = (file for folder in folders for file in Path(folder, "models").glob(_FILES[part]))
    network = next(files, None)
    if network is None:  # RapidOCR would download one
        raise MissingError(
            f"rapidocr: its package lacks models/{_FILES[part]}; run: pip install --force-reinstall rapidocr"
        )
    return network


def _sight() -> Callable[[ByteArray], float]:
    """Highest confidence that a square (S, S, 3) contains text at some point; thread-safe."""
    core = openvino().Core()
    graph = core.read_model(_network("Det"))
    graph.reshape([1, 3, LOOK_PX, LOOK_PX])
    at_once = min(cores(), MOST_ENGINES)
    # Not pinned: OpenVINO would bind the first thread of each network to the first core.
    hints = {"NUM_STREAMS": at_once, "INFERENCE_NUM_THREADS": at_once, "ENABLE_CPU_PINNING": False}
    network = core.compile_model(graph, "CPU", hints)

    def sight(pixels: ByteArray) -> float:
        batch = (pixels[None, :, :, ::-1].transpose(0, 3, 1, 2) / np.float32(127.5) - 1).astype(np.float32)
        return float(network.create_infer_request().infer([np.ascontiguousarray(batch)])[0].max())

    return sight


def _rapidocr() -> Any:  # noqa: ANN401
    networks = {part: _network(part) for part in _FILES}
    from rapidocr import EngineType, RapidOCR

    settings: dict[str, Any] = {
        "Global.log_level": "critical",
        "Global.use_cls": False,
        "Det.limit_type": "max",
        "Det.limit_side_len": FIND_PX,
        "Det.max_candidates": MOST_LINES,
        "Rec.rec_img_shape": [3, 48, LINE_PX],
        # several pictures at once, each on one core
        "EngineConfig.openvino.inference_num_threads": 1,
        "EngineConfig.openvino.enable_cpu_pinning": False,
    }
    for part, network in networks.items():
        settings |= {f"{part}.engine_type": EngineType.OPENVINO, f"{part}.model_path": str(network)}
    return RapidOCR(params=settings)
