"""The names of ImageNet's classes as texts, and what the published classifier takes for their pictures.

The backbone knows a thousand things that no training text may name. It needs no picture of ImageNet: the
weights of a class and how features vary together tell where its pictures lie.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from limner.arrays import TextEncoder
from limner.encoders.base import CLASSES, FEATURES, WIDTHS, BaseNet
from limner.losses.contrastive import info_nce

DRAWN = 256
"""Classes of a step."""
SIGNAL, NOISE = 0.7, 0.7
"""Shares of a class's direction and of some training picture in a made-up picture; chosen on validation."""


class Classes:
    """Draws classes and made-up pictures of them."""

    def __init__(self, net: BaseNet, features: Tensor, english: TextEncoder, foreign: TextEncoder) -> None:
        """Work out where the pictures of each class lie.

        Args:
            net: with its published classifier, and the moments of the features.
            features: (P, F) of training pictures, by the published backbone.
            english: of sentences.
            foreign: of sentences in many languages.
        Source: the means of classes under linear discriminant analysis: those of a class with weights w lie
            along Σ w, where Σ is the covariance of the features.
        """
        from torchvision.models import ResNet50_Weights

        names = ResNet50_Weights.IMAGENET1K_V2.meta["categories"]
        texts = [f"a photo of a {name}" for name in names]
        device = features.device
        self._english = torch.from_numpy(english.encode_text(texts)).to(device)
        self._foreign = torch.from_numpy(foreign.encode_text(texts)).to(device)
        backbone: Any = net.backbone
        weights = backbone._fc.weight.detach()
        last = features[:, FEATURES - WIDTHS[-1] :]
        self._standard = (features - net.feature_mean) / net.feature_deviation
        varied = (last - last.mean(dim=0)) @ (weights - weights.mean(dim=0)).t()  # (P, 1000)
        length = self._standard.norm(dim=1).mean()
        self._directions = normalize(varied.t() @ self._standard, dim=1) * length
        self._mean, self._deviation = net.feature_mean, net.feature_deviation

    def loss(self, net: BaseNet, temperature: float) -> Tensor:
        """How well each text side tells the made-up picture of a class from those of others."""
        device = self._standard.device
        chosen = torch.randperm(CLASSES)[:DRAWN].to(device)
        mixed = torch.randint(len(self._standard), (len(chosen),)).to(device)
        made = SIGNAL * self._directions[chosen] + NOISE * self._standard[mixed]
        pictures = net.joint(made * self._deviation + self._mean)
        wrong = ~torch.eye(len(chosen), dtype=torch.bool, device=device)
        sides = (net.sentences(self._english[chosen]), net.multilingual(self._foreign[chosen]))
        first, second = (info_nce(side @ pictures.t() / temperature, wrong) for side in sides)
        return first + second
