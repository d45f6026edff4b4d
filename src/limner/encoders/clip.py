"""CLIP by open_clip (extra ``clip``): texts and pictures in one space that was learned for both.

Where weights are at hand it is the strongest untrained channel. It reads no files: the caller hands
over the tensors, and architectures that need a tokenizer from a network are refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import numpy as np

from limner.encoders.framing import Framing, check_framing, frame, shorter_side_px
from limner.encoders.pixels import Precision, check_precision
from limner.encoders.weights import load_strictly
from limner.errors import ConfigError, DataError, MissingError, ShapeError, unknown
from limner.similarity import ByteArray, FloatArray, ImageVectors, unit_rows

if TYPE_CHECKING:
    from PIL.Image import Image
    from torch import Tensor

_METHOD = "clip/1"
_BATCH = 64


def architectures() -> list[str]:
    """Names of the architectures open_clip knows.

    Raises:
        MissingError: the extra is not installed.
    """
    return list(_open_clip().list_models())


def _open_clip() -> Any:  # noqa: ANN401  (an optional, untyped module)
    """The module, or what to install."""
    try:
        import open_clip
    except ImportError as error:
        raise MissingError("open_clip is not installed; run: pip install 'limner[clip]'") from error
    return open_clip


class ClipEncoder:
    """One CLIP model as text encoder and image encoder of the space ``clip``.

    A text longer than the model's context (75 tokens beside the two that frame it, for most) is cut
    into windows of nearly equal length; its vector is their mean weighted by length, rescaled to
    length 1. open_clip alone would cut off the rest without a word.

    Source: Radford et al. 2021; Cherti et al. 2023 (open_clip). Departs: windows; pictures are scaled
    bilinearly where CLIP is published with bicubic scaling.
    """

    def __init__(
        self,
        architecture: str,
        state: Mapping[str, Tensor],
        sha256: str,
        *,
        where: str = "clip",
        precision: Precision = "bfloat16",
        framing: Framing = "crop",
        device: str = "cpu",
    ) -> None:
        """Take the parameters of an open_clip model.

        Args:
            architecture: open_clip's name, such as ``ViT-B-32``; weights published by OpenAI need the
                names that end in ``-quickgelu``.
            state: parameter name → tensor, exactly those of the architecture.
            sha256: of the weight file.
            where: the file, for messages.
            precision: of the picture side; text is encoded in float32 always.
            framing: the published one by default.
            device: torch device that computes.
        Raises:
            MissingError: the extra is not installed.
            ConfigError: unknown architecture, precision or framing, or a tokenizer that is not CLIP's.
            CheckpointError: the parameters are not those of the architecture.
        """
        open_clip = _open_clip()
        import torch

        check_precision(precision)
        check_framing(framing)
        if architecture not in open_clip.list_models():
            raise ConfigError("clip: " + unknown("architecture", architecture, open_clip.list_models()))
        text = open_clip.get_model_config(architecture)["text_cfg"]
        if text.get("hf_model_name") or text.get("hf_tokenizer_name"):
            raise ConfigError(
                f"clip: {architecture} needs a tokenizer from a network; choose a ViT or RN one"
            )
        with torch.random.fork_rng(devices=[]):  # random initial values are drawn, then all replaced
            model = open_clip.create_model(architecture, pretrained=None, load_weights=False)
        load_strictly(model, state, where)
        self._model = model.eval().requires_grad_(requires_grad=False).to(device)
        self._tokenizer = open_clip.get_tokenizer(architecture)
        self._context = int(model.context_length)
        size = model.visual.image_size
        self._size_px = int(size[0] if isinstance(size, tuple) else size)
        mean = model.visual.image_mean or open_clip.OPENAI_DATASET_MEAN
        std = model.visual.image_std or open_clip.OPENAI_DATASET_STD
        self._mean, self._std = (255 * torch.tensor(values, device=device) for values in (mean, std))
        self._precision, self._framing, self._device = precision, framing, device
        self.name = f"clip:{architecture}"
        self._width = int(open_clip.get_model_config(architecture)["embed_dim"])
        settings = f"{_METHOD} {architecture} {sha256} {precision} {framing}"
        self._fingerprint = hashlib.sha256(settings.encode()).hexdigest()

    @property
    def fingerprint(self) -> str:
        """Hash of weights, architecture, precision, framing and method."""
        return self._fingerprint

    @property
    def dim(self) -> int:
        """D of the joint space."""
        return self._width

    @property
    def spaces(self) -> dict[str, int]:
        """Space name → D."""
        return {"clip": self._width}

    @property
    def side_px(self) -> int:
        """Pixels of the shorter side that `prepare` makes use of."""
        return shorter_side_px(self._size_px, self._framing)

    def prepare(self, image: Image) -> ByteArray:
        """One upright RGB picture → (H, H, 3) bytes, H being the model's."""
        return frame(image, self._size_px, self._framing)

    def encode_pixels(self, batch: ByteArray) -> ImageVectors:
        """(B, H, H, 3) bytes → vectors; no labels.

        Raises:
            ShapeError: not B such squares.
            NumericsError: a value is not finite.
        """
        import torch

        side = self._size_px
        if batch.dtype != np.uint8 or batch.ndim != 4 or batch.shape[1:] != (side, side, 3):
            raise ShapeError(
                f"{self.name}: batch is {batch.dtype} {batch.shape}, expected uint8 (B, {side}, {side}, 3)"
            )
        values = torch.from_numpy(np.ascontiguousarray(batch)).to(self._device, torch.float32)
        pixels = values.sub_(self._mean).div_(self._std).permute(0, 3, 1, 2)
        with torch.inference_mode(), self._autocast():
            features = self._model.encode_image(pixels).float().cpu().numpy()
        return ImageVectors({"clip": unit_rows(self.name, features)})

    def encode_text(self, texts: Sequence[str]) -> FloatArray:
        """Texts → (N, D) float32 rows of unit length.

        Raises:
            DataError: a text is empty once cleaned, naming its place.
        """
        import torch

        owners: list[int] = []
        windows: list[list[int]] = []
        room = self._context - 2
        for row, text in enumerate(texts):
            ids = self._tokenizer.encode(text)
            if not ids:
                raise DataError(
                    f"{self.name}: text {row + 1} of {len(texts)} ({text[:20]!r}) has no words; leave it out"
                )
            count = -(-len(ids) // room)
            for part in range(count):
                owners.append(row)
                windows.append(ids[part * len(ids) // count : (part + 1) * len(ids) // count])
        sums = np.zeros((len(texts), self.dim), dtype=np.float32)
        for start in range(0, len(windows), _BATCH):
            batch = windows[start : start + _BATCH]
            tokens = torch.zeros(len(batch), self._context, dtype=torch.long)
            for row, ids in enumerate(batch):
                framed = [self._tokenizer.sot_token_id, *ids, self._tokenizer.eot_token_id]
                tokens[row, : len(framed)] = torch.tensor(framed)
            with torch.inference_mode():
                features = self._model.encode_text(tokens.to(self._device), normalize=True).cpu().numpy()
            lengths = np.asarray([len(ids) for ids in batch], dtype=np.float32)
            np.add.at(sums, np.asarray(owners[start : start + _BATCH]), features * lengths[:, None])
        return unit_rows(self.name, sums)

    def _autocast(self) -> AbstractContextManager[Any]:
        """Half-precision products where asked for."""
        import torch

        device = self._device.partition(":")[0]
        return torch.autocast(device, torch.bfloat16, enabled=self._precision == "bfloat16")
