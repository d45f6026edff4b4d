"""Crops pictures to the square input of a backbone: random in training, deterministic in evaluation."""

import math
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from limner.arrays import ByteArray
from limner.devices import ahead, cores
from limner.encoders.framing import SIDE_PX, frame, shorter_side_px
from limner.errors import DataError
from limner.pictures.decode import PictureError, decode, read_file
from limner.research.datasets.pairs import places_in
from limner.research.training.settings import Crop, DataConfig

Places = NDArray[np.int64]
AREA, SHAPE, TRIES = (0.08, 1.0), (3 / 4, 4 / 3), 10
LOG_SHAPE = (math.log(SHAPE[0]), math.log(SHAPE[1]))


@dataclass(frozen=True)
class TrainingFraming:
    """Cropping and mirroring of pictures.

    Attributes:
        side_px: side of the square, pixels.
        crop: "none" stretches the whole picture to the square. "random" scales the shorter side to the square
            and takes a random (in evaluation the central) square along the longer side. "resized" takes a
            random part of 8 to 100 % of the area with an aspect ratio of 3:4 to 4:3; in evaluation the centre
            of the picture scaled to 8/7 of the square.
        flip: whether to mirror pictures in training with probability ½.
    Source: docs/methods/data.md §6.
    """

    side_px: int = SIDE_PX
    crop: Crop = "none"
    flip: bool = False

    @property
    def shorter_px(self) -> int:
        """Pixels of the shorter side needed in evaluation."""
        return shorter_side_px(self.side_px, "crop") if self.crop == "resized" else self.side_px

    @property
    def drawn_from_px(self) -> int | None:
        """Pixels of the shorter side needed in training; None for the original size."""
        return None if self.crop == "resized" else self.side_px

    def plain(self, picture: Image.Image) -> ByteArray:
        """An upright RGB picture → (side, side, 3) bytes, for evaluation."""
        if self.crop == "random":
            return crop(picture, (0.5, 0.5), self.side_px)
        return frame(picture, self.side_px, "crop" if self.crop == "resized" else "squash")

    def drawn(self, picture: Image.Image, rng: np.random.Generator) -> ByteArray:
        """An upright RGB picture → (side, side, 3) bytes, for training."""
        if self.crop == "none":
            found = self.plain(picture)
        elif self.crop == "random":
            found = crop(picture, rng.random(2), self.side_px)
        else:
            size, box = (self.side_px, self.side_px), part(picture.size, rng)
            found = np.asarray(picture.resize(size, Image.Resampling.BILINEAR, box=box, reducing_gap=2.0))
        return found[:, ::-1] if self.flip and rng.random() < 0.5 else found


def framing_of(config: DataConfig) -> TrainingFraming:
    """The framing in the settings of a run."""
    return TrainingFraming(config.picture_size, config.crop, config.flip)


class FileRows:
    """Picture files, decoded and cropped on each access; for fine-tuning a backbone."""

    backbone = None

    def __init__(
        self,
        files: Mapping[str, Path | str],
        framing: TrainingFraming = TrainingFraming(),
        workers: int | None = None,
    ) -> None:
        """Set the files and how they are cropped.

        Args:
            files: `Pair.image_id` → file.
            framing: how pictures are cropped.
            workers: number of decoding threads; None for one per core.
        """
        self._files = [Path(path) for path in files.values()]
        self._places = {name: place for place, name in enumerate(files)}
        self._framing, self._workers = framing, workers or cores()

    def places(self, ids: Sequence[str]) -> Places:
        """See `PictureRows`."""
        return places_in(self._places, ids)

    def take(self, places: Places) -> NDArray[Any]:
        """(B, side, side, 3) bytes, for evaluation."""
        framing = self._framing
        return self._each(lambda place: framing.plain(self._decoded(place, framing.shorter_px)), places)

    def drawn(self, places: Places, seeds: Sequence[Sequence[int]]) -> NDArray[Any]:
        """(B, side, side, 3) bytes, for training.

        Args:
            places: (B,) rows.
            seeds: (B,) seeds of each picture's generator.
        """

        def one(place: int, seed: Sequence[int]) -> ByteArray:
            picture = self._decoded(place, self._framing.drawn_from_px)
            return self._framing.drawn(picture, np.random.default_rng(seed))

        return self._each(one, places, seeds)

    def _each(self, read: Callable[..., ByteArray], places: Places, *more: Sequence[Any]) -> NDArray[Any]:
        workers = self._workers
        wanted = zip(places.tolist(), *more, strict=True)
        with closing(ahead(wanted, lambda one: read(*one), workers=workers, in_flight=2 * workers)) as found:
            return np.stack(list(found))

    def _decoded(self, place: int, side_px: int | None) -> Image.Image:
        path = self._files[place]
        try:
            return decode(read_file(os.fsencode(path.absolute())).data, side_px, path.suffix.lower()).rgb
        except PictureError as error:
            raise DataError(
                f"pictures: {path}: {error}; leave its pairs out with --set data.missing=drop"
            ) from error


def crop(picture: Image.Image, at: Sequence[float] | NDArray[np.float64], side_px: int) -> ByteArray:
    """Scale the shorter side to the square's side, then crop a square.

    Args:
        picture: upright RGB picture.
        at: position of the square along width and height, each in [0, 1]; 0.5 is the centre.
        side_px: side of the square, pixels.
    Returns:
        (side, side, 3) bytes.
    """
    scale = side_px / min(picture.size)
    width, height = (max(side_px, round(side * scale)) for side in picture.size)
    resized = picture.resize((width, height), Image.Resampling.BILINEAR)
    left, top = round(at[0] * (width - side_px)), round(at[1] * (height - side_px))
    return np.asarray(resized.crop((left, top, left + side_px, top + side_px)))


def part(size: tuple[int, int], rng: np.random.Generator) -> tuple[int, int, int, int]:
    """A random crop of random area and aspect ratio: left, top, right, bottom, in pixels.

    After ten samples that do not fit, the largest central crop with an allowed aspect ratio.

    Source: torchvision's random resized crop, which VSE++ uses; docs/methods/data.md §6. Departs: each
    picture has its own generator, so that its crop does not depend on others.
    """
    width, height = size
    for _ in range(TRIES):
        area, shape = width * height * rng.uniform(*AREA), math.exp(rng.uniform(*LOG_SHAPE))
        wide, high = round(math.sqrt(area * shape)), round(math.sqrt(area / shape))
        if 0 < wide <= width and 0 < high <= height:
            left, top = int(rng.integers(width - wide + 1)), int(rng.integers(height - high + 1))
            return left, top, left + wide, top + high
    wide = min(width, max(1, round(height * SHAPE[1])))
    high = min(height, max(1, round(width / SHAPE[0])))
    left, top = (width - wide) // 2, (height - high) // 2
    return left, top, left + wide, top + high
