"""A trained run opened to be looked at: its model, the texts of its data set, and their pictures.

For figures. It measures nothing and trains nothing.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from limner.errors import CheckpointError, DataError

if TYPE_CHECKING:
    from PIL.Image import Image

    from limner.datasets.pairs import PairSet
    from limner.training.pictures import PictureRows

SIDE_PX = 240


def open_run(run: Path, device: str = "cpu") -> tuple[Any, Any]:
    """A trained model in evaluation mode, and its settings, whatever its system.

    Raises:
        MissingError: nothing was trained there yet.
        CheckpointError: it does not load.
    """
    from limner.training import checkpoint
    from limner.training.loop import BEST
    from limner.training.systems import system

    _, state = checkpoint.load(run / BEST)
    try:
        name = str(state["config"]["config"]["system"])
    except (KeyError, TypeError) as error:
        raise CheckpointError(f"{run / BEST}: names no system; train it again") from error
    return system(name).load(run, device)


class Pictures:
    """Pictures of a run's data set by the id of a pair, whole as their files hold them."""

    def __init__(self, data: "PairSet", rows: "PictureRows") -> None:
        """Take the pairs, and where drawn pictures are: those lie in no files."""
        self._pairs, self._rows = {pair.id: pair for pair in data.pairs}, rows

    def __call__(self, name: str) -> "Image":
        """The picture, upright RGB, at a scale fit for showing.

        Raises:
            DataError: it does not open any more.
        """
        from PIL import Image

        from limner.data.images import PictureError, decode, read_file
        from limner.training.pictures import ArrayRows

        if isinstance(self._rows, ArrayRows):
            values = self._rows.take(self._rows.places([self._pairs[name].image_id]))[0]
            return Image.fromarray(np.asarray(values, dtype=np.uint8))
        path = Path(self._pairs[name].image)
        try:
            return decode(read_file(os.fsencode(path.absolute())).data, SIDE_PX, path.suffix.lower()).rgb
        except PictureError as error:
            raise DataError(f"figure: {path}: {error}; restore the file") from error

    def identity(self, name: str) -> str:
        """Equal for pairs with the same picture."""
        return self._pairs[name].image_id

    def same(self, one: str, other: str) -> bool:
        """Whether two pairs have the same picture."""
        return self.identity(one) == self.identity(other)


def open_pictures(run: Path) -> tuple[dict[str, str], Pictures]:
    """Texts of a run's data set by the id of their pair, and its pictures."""
    from limner.training.corpus import open_corpus

    _, config = open_run(run)
    data, rows = open_corpus(config.data, files=True)
    return {pair.id: pair.text for pair in data.pairs}, Pictures(data, rows)
