"""Pictures of a training batch: stored features, an array, or files decoded on the way.

All answer the same two calls, so that a task does not know which it has. It computes no features.
"""

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from limner.errors import DataError, ShapeError

if TYPE_CHECKING:
    from PIL.Image import Image

Places = NDArray[np.int64]
SIDE_PX = 224


class PictureRows(Protocol):
    """Rows by picture."""

    def places(self, ids: Sequence[str]) -> Places:
        """(B,) rows of some pictures, by `Pair.image_id`; a picture without a row is an error."""
        ...

    def take(self, places: Places) -> NDArray[Any]:
        """(B, …) of some rows: float features, or bytes (B, H, W, 3)."""
        ...


class ArrayRows:
    """An array in memory or memory-mapped, with the pictures' ids."""

    def __init__(self, ids: Sequence[str], values: NDArray[Any]) -> None:
        """Take both.

        Args:
            ids: (N,) different.
            values: (N, …).
        Raises:
            ShapeError: not one row per id, or an id comes twice.
        """
        self._places = {name: place for place, name in enumerate(ids)}
        if len(self._places) != len(values) or len(self._places) != len(ids):
            raise ShapeError(f"pictures: {len(self._places)} different ids for {len(values)} rows")
        self._values = values

    def places(self, ids: Sequence[str]) -> Places:
        """See `PictureRows`."""
        return _places(self._places, ids)

    def take(self, places: Places) -> NDArray[Any]:
        """See `PictureRows`."""
        return self._values[places]


class FileRows:
    """Files, decoded and cropped to 224 pixels each time; for training a backbone along.

    Source: SPEC 1.6, CMCM `release`: shorter side to 224, random crop in training, centre crop else, no flip.
    """

    def __init__(self, files: Mapping[str, Path | str], workers: int = 2) -> None:
        """Take the files.

        Args:
            files: `Pair.image_id` → file.
            workers: threads that decode.
        """
        self._files = [Path(path) for path in files.values()]
        self._places = {name: place for place, name in enumerate(files)}
        self._workers = workers

    def places(self, ids: Sequence[str]) -> Places:
        """See `PictureRows`."""
        return _places(self._places, ids)

    def take(self, places: Places) -> NDArray[Any]:
        """(B, 224, 224, 3) bytes, centre crops."""
        return self._read(places, np.full((len(places), 2), 0.5))

    def cropped(self, places: Places, rng: np.random.Generator) -> NDArray[Any]:
        """(B, 224, 224, 3) bytes, random crops."""
        return self._read(places, rng.random((len(places), 2)))

    def _read(self, places: Places, at: NDArray[np.float64]) -> NDArray[Any]:
        with ThreadPoolExecutor(self._workers, thread_name_prefix="limner-pictures") as pool:
            return np.stack(list(pool.map(self._one, places.tolist(), at.tolist())))

    def _one(self, place: int, at: Sequence[float]) -> NDArray[np.uint8]:
        from limner.data.images import PictureError, decode, read_file

        path = self._files[place]
        try:
            picture = decode(read_file(os.fsencode(path.absolute())).data, SIDE_PX, path.suffix.lower()).rgb
        except PictureError as error:
            raise DataError(
                f"pictures: {path}: {error}; leave its pairs out (data.missing='drop')"
            ) from error
        return crop(picture, at)


def crop(picture: "Image", at: Sequence[float]) -> NDArray[np.uint8]:
    """Shorter side to 224 pixels, then a square.

    Args:
        picture: RGB, upright.
        at: where the square lies along width and height, each in [0, 1]; 0.5 is the centre.
    Returns:
        (224, 224, 3).
    """
    from PIL import Image

    scale = SIDE_PX / min(picture.size)
    width, height = (max(SIDE_PX, round(side * scale)) for side in picture.size)
    resized = picture.resize((width, height), Image.Resampling.BILINEAR)
    left, top = round(at[0] * (width - SIDE_PX)), round(at[1] * (height - SIDE_PX))
    return np.asarray(resized.crop((left, top, left + SIDE_PX, top + SIDE_PX)))


def _places(known: Mapping[str, int], ids: Sequence[str]) -> Places:
    absent = [name for name in ids if name not in known]
    if absent:
        raise DataError(f"pictures: {absent[0]!r} has no row ({len(absent)} of {len(ids)}); make them again")
    return np.array([known[name] for name in ids], dtype=np.int64)
