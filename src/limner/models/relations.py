"""The coherence-aware module: which relations hold between a text and a picture, from their vectors.

Linear as published, or with the product of both vectors, or with a hidden layer. All pairs of N texts and M
pictures come without repeating any vector. It computes logits and no losses.
"""

from typing import Literal, get_args

import torch
from torch import Tensor, nn

from limner.arrays import expect
from limner.errors import ConfigError, unknown

Kind = Literal["linear", "product", "mlp"]


class CoherenceModule(nn.Module):
    """Relation logits of pairs.

    "linear": z = W [t; v] + b, which cannot express that a relation depends on text and picture together.
    "product": W [t; v; t⊙v] + b. "mlp": W₂ ReLU(W₁ [t; v] + b₁) + b₂.

    Source: CMCM 2022, Coherence Aware Module; docs/methods/cmcm.md §2.4; the last two are ours.
    """

    def __init__(self, dim: int, relations: int, kind: Kind = "linear", hidden: int = 512) -> None:
        """Draw the weights from torch's generator.

        Args:
            dim: D.
            relations: C, at least 1.
            kind: see above.
            hidden: width of the hidden layer of "mlp".
        Raises:
            ConfigError: unknown kind, or no relations.
        """
        super().__init__()
        if kind not in get_args(Kind):
            raise ConfigError("relations: " + unknown("kind", kind, get_args(Kind)))
        if relations < 1:
            raise ConfigError(f"relations: {relations} of them, expected at least 1")
        self.kind, self.dim = kind, dim
        self.first = nn.Linear(2 * dim, hidden if kind == "mlp" else relations)
        self.product = nn.Parameter(torch.randn(relations, dim) * dim**-0.5) if kind == "product" else None
        self.second = nn.Linear(hidden, relations) if kind == "mlp" else None

    def forward(self, texts: Tensor, images: Tensor) -> Tensor:
        """(B, D) and (B, D), row by row a pair → (B, C)."""
        expect("relations", texts=(texts, f"B {self.dim}"), images=(images, f"B {self.dim}"))
        logits: Tensor = self.first(torch.cat([texts, images], dim=1))
        if self.product is not None:
            logits = logits + (texts * images) @ self.product.t()
        return logits if self.second is None else self._deeper(logits)

    def terms(self, texts: Tensor, images: Tensor) -> tuple[Tensor, Tensor]:
        """What a text adds, (N, C) with the bias, and what a picture adds, (M, C); a logit is their sum.

        Raises:
            ConfigError: the module is not linear.
        Source: docs/methods/cmcm.md §2.4.
        """
        if self.kind != "linear":
            raise ConfigError(
                f"relations: {self.kind!r} is no sum of a text and a picture term; use its table"
            )
        return self._halves(texts, images)

    def table(self, texts: Tensor, images: Tensor) -> Tensor:
        """(N, D) and (M, D) → (N, M, C); no pair's vectors are put side by side.

        Memory is N·M·C, and for "mlp" N·M·hidden: call it in blocks.
        """
        first, second = self._halves(texts, images)
        logits = first.unsqueeze(1) + second  # (N, M, C), for "mlp" (N, M, hidden)
        if self.product is not None:
            logits = logits + torch.stack([(texts * w) @ images.t() for w in self.product], dim=2)
        return logits if self.second is None else self._deeper(logits)

    def _deeper(self, hidden: Tensor) -> Tensor:
        assert self.second is not None  # noqa: S101  (the type checker's: only "mlp" comes here)
        found: Tensor = self.second(torch.relu(hidden))
        return found

    def _halves(self, texts: Tensor, images: Tensor) -> tuple[Tensor, Tensor]:
        """The first layer applied to either part alone; the bias goes with the text."""
        expect("relations", texts=(texts, f"N {self.dim}"), images=(images, f"M {self.dim}"))
        of_text, of_image = self.first.weight[:, : self.dim], self.first.weight[:, self.dim :]
        return texts @ of_text.t() + self.first.bias, images @ of_image.t()
