"""The words that a picture shows: signs, labels, slides, screenshots; read by RapidOCR, if it is installed.

Its networks come in its package (PP-OCR, Apache-2.0) and are run by OpenVINO; nothing is fetched.
"""

from __future__ import annotations

import hashlib
import importlib.util
import threading
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from queue import LifoQueue
from typing import Any, Protocol

import numpy as np
from PIL import Image

from limner.errors import MissingError
from limner.pictures.metadata import plain

LOOK_PX, FIND_PX, READ_PX = 256, 640, 960
"""Longest side at which a picture is looked at for words at all, at which lines are found, and read."""
LEAST_SCORE, LEAST_LETTERS = 0.8, 2
"""How sure a line must be, 0 to 1, and how many letters it must have: patterns are taken for single signs."""
MOST_LINES, MOST_CHARS = 200, 2000
MOST_ENGINES = 4
_FILES = {"Det": "*_det_*.onnx", "Rec": "*_rec_*.onnx"}


class OcrEngine(Protocol):
    """Reads the words that pictures show; may be called by several threads."""

    @property
    def fingerprint(self) -> str:
        """Equal fingerprints read equal words."""
        ...

    def sees_words(self, rgb: Image.Image) -> bool:
        """Whether a picture may show words, by a quick look at a small copy."""
        ...

    def read(self, rgb: Image.Image) -> str:
        """The words, a line each; "" for none.

        Args:
            rgb: upright; `READ_PX` on its longer side are enough.
        """
        ...


def rapid_ocr() -> OcrEngine:
    """The engine of the extra ``ocr``.

    Raises:
        MissingError: it is not installed.
    """
    if not is_installed():
        raise MissingError("the words in pictures are read by RapidOCR; run: pip install 'limner[ocr]'")
    return RapidOcr()


def is_installed() -> bool:
    """Whether the extra ``ocr`` is installed."""
    return importlib.util.find_spec("rapidocr") is not None


class RapidOcr:
    """RapidOCR on the CPU."""

    def __init__(self) -> None:
        """Nothing is loaded before the first picture."""
        self.fingerprint = hashlib.sha256(
            f"rapidocr {version('rapidocr')} {LOOK_PX} {FIND_PX} {READ_PX} {LEAST_SCORE}"
            f" {LEAST_LETTERS}".encode()
        ).hexdigest()
        self._free: LifoQueue[Any] = LifoQueue()
        self._made = 0
        self._making = threading.Lock()

    def sees_words(self, rgb: Image.Image) -> bool:
        """As `OcrEngine.sees_words`."""
        found = self._run(rgb, LOOK_PX, use_rec=False)
        return found.boxes is not None and len(found.boxes) > 0

    def read(self, rgb: Image.Image) -> str:
        """As `OcrEngine.read`."""
        found = self._run(rgb, READ_PX, use_rec=True)
        lines = zip(found.txts or (), found.scores or (), strict=True)
        return "\n".join(legible(lines))[:MOST_CHARS]

    def _run(self, rgb: Image.Image, side_px: int, *, use_rec: bool) -> Any:  # noqa: ANN401
        small = rgb.copy()
        small.thumbnail((side_px, side_px), Image.Resampling.BILINEAR)
        engine = self._engine()
        try:
            return engine(np.asarray(small)[:, :, ::-1], use_det=True, use_cls=False, use_rec=use_rec)
        finally:
            self._free.put(engine)

    def _engine(self) -> Any:  # noqa: ANN401
        """One that reads no other picture now; of threads beyond `MOST_ENGINES` one waits for another."""
        with self._making:
            if self._free.empty() and self._made < MOST_ENGINES:
                self._made += 1
                return _rapidocr()
        return self._free.get()


def legible(lines: Iterable[tuple[str, float]]) -> list[str]:
    """Of the lines that were read, with how sure each is, those that are words."""
    texts = [plain(text) for text, score in lines if score >= LEAST_SCORE]
    return [text for text in texts if sum(map(str.isalpha, text)) >= LEAST_LETTERS]


def _rapidocr() -> Any:  # noqa: ANN401
    import rapidocr
    from rapidocr import EngineType, RapidOCR

    models = Path(rapidocr.__file__).parent / "models"
    settings: dict[str, Any] = {
        "Global.log_level": "critical",
        "Global.use_cls": False,
        "Det.limit_type": "max",
        "Det.limit_side_len": FIND_PX,
        "Det.max_candidates": MOST_LINES,
        # several pictures at once, each on one core
        "EngineConfig.openvino.inference_num_threads": 1,
    }
    for part, pattern in _FILES.items():
        network = next(models.glob(pattern), None)
        if network is None:  # it would fetch one
            raise MissingError(f"{models}: no {pattern}; run: pip install --force-reinstall rapidocr")
        settings |= {f"{part}.engine_type": EngineType.OPENVINO, f"{part}.model_path": str(network)}
    return RapidOCR(params=settings)
