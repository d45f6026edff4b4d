"""Mean colours of a picture's cells: fixed features for drawn worlds, where no backbone is at hand.

They are constants, as features of a frozen backbone are. They know nothing of what a picture shows.
"""

import torch
from torch import Tensor, nn

from limner.errors import ShapeError

CELLS = 4
WIDTH = CELLS * CELLS * 3


class CellColours(nn.Module):
    """Bytes (B, H, W, 3) → (B, 48) mean colours of 4 × 4 cells, each in [−1, 1]; no weights."""

    width = WIDTH

    def forward(self, pictures: Tensor) -> Tensor:
        """Describe B pictures.

        Raises:
            ShapeError: not bytes of B pictures.
        """
        if pictures.dtype != torch.uint8 or pictures.ndim != 4 or pictures.shape[3] != 3:
            raise ShapeError(
                f"cells: pictures are {pictures.dtype} {tuple(pictures.shape)}, expected uint8 (B, H, W, 3)"
            )
        scaled = pictures.permute(0, 3, 1, 2).float() / 127.5 - 1
        return nn.functional.adaptive_avg_pool2d(scaled, CELLS).flatten(1)
