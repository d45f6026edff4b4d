"""Pictures of a story read both ways: each keeps its own look and hears those before and after it.

A captioner that tells one picture must know the others, or its sentences make no story. It says no word.
"""

import torch
from torch import Tensor, nn

from limner.encoders.ragged import read_both_ways
from limner.errors import ShapeError


class RowNorm(nn.BatchNorm1d):
    """Batch normalisation that also takes a batch of one row.

    One row has no variance, so a story of one picture, trained on alone, is normalised by the running
    statistics and does not move them.
    """

    def forward(self, rows: Tensor) -> Tensor:
        """(N, W) → (N, W)."""
        if self.training and len(rows) == 1:
            return nn.functional.batch_norm(
                rows,
                self.running_mean,
                self.running_var,
                self.weight,
                self.bias,
                training=False,
                eps=self.eps,
            )
        return super().forward(rows)


class PictureSequenceEncoder(nn.Module):
    """Features of single pictures joined with a two-layer Bi-LSTM's outputs over their story.

    Source: SPEC 4.8 (GLAC Net, Kim et al. 2018).
    """

    def __init__(self, image_width: int, *, local: int, hidden: int, joined: int, dropout: float) -> None:
        """Draw the weights from torch's generator.

        Args:
            image_width: F of the picture features.
            local: width of what a picture says alone.
            hidden: of the Bi-LSTM, per direction.
            joined: width of the result.
            dropout: in [0, 1), between the layers of the Bi-LSTM and on the result, in training.
        """
        super().__init__()
        self.image_width, self.width = image_width, joined
        self.local = nn.Linear(image_width, local)
        self.local_norm = RowNorm(local)
        self.story = nn.LSTM(
            local, hidden, num_layers=2, batch_first=True, bidirectional=True, dropout=dropout
        )
        self.join = nn.Linear(local + 2 * hidden, joined)
        self.dropout = nn.Dropout(dropout)
        self.join_norm = RowNorm(joined)

    def forward(self, features: Tensor, steps: Tensor) -> Tensor:
        """Encode the pictures of B stories.

        Args:
            features: (S, F) the pictures of all stories one after the other.
            steps: (B,) int64 on the CPU, at least 1, with sum S.
        Returns:
            (S, joined).
        Raises:
            ShapeError: sizes do not fit.
        """
        if features.ndim != 2 or features.shape[1] != self.image_width:
            raise ShapeError(
                f"captioner: picture features {tuple(features.shape)}, expected (S, {self.image_width})"
            )
        alone = self.local_norm(self.local(features))  # (S, local)
        heard = read_both_ways(self.story, alone, steps.tolist())  # (S, 2·hidden)
        joined: Tensor = self.join_norm(self.dropout(self.join(torch.cat([alone, heard], dim=1))))
        return joined
