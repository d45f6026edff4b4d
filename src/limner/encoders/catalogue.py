"""Encoders by name: finds the weights, loads them, and hands out a ready encoder.

The one place that knows all encoders, so that commands and studio name them alike. It downloads
nothing: missing weights are an error that says what to run.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from limner.encoders.weights import WeightFile, find, read_sentence_files, read_state
from limner.errors import ConfigError, unknown
from limner.similarity import ImageEncoder, TextEncoder

if TYPE_CHECKING:
    from limner.encoders.conse import ConSE
    from limner.encoders.pixels import Precision

COLOUR = "colour"
SENTENCES = "minilm"
# name → torchvision's weights whose file and class names are meant. The first ImageNet recipe is
# preferred: its probabilities are less flattened by label smoothing, which ConSE lives on.
TORCHVISION = {
    "resnet18": "IMAGENET1K_V1",
    "resnet34": "IMAGENET1K_V1",
    "resnet50": "IMAGENET1K_V1",
    "resnet101": "IMAGENET1K_V1",
    "resnet152": "IMAGENET1K_V1",
    "vit_b_16": "IMAGENET1K_V1",
    "vit_b_32": "IMAGENET1K_V1",
    "convnext_tiny": "IMAGENET1K_V1",
    "convnext_small": "IMAGENET1K_V1",
    "convnext_base": "IMAGENET1K_V1",
    "swin_t": "IMAGENET1K_V1",
    "efficientnet_b0": "IMAGENET1K_V1",
}


def image_encoders() -> list[str]:
    """Names that `image_encoder` takes."""
    return [COLOUR, *TORCHVISION]


def text_encoders() -> list[str]:
    """Names that `text_encoder` takes."""
    return [SENTENCES]


def text_encoder(name: str = SENTENCES, *, device: str = "cpu") -> TextEncoder:
    """A ready text encoder.

    Raises:
        ConfigError: unknown name.
        MissingError: its package or weights are not there.
    """
    if name != SENTENCES:
        raise ConfigError(unknown("text encoder", name, text_encoders()))
    from limner.encoders.minilm import MiniLM

    return MiniLM(read_sentence_files(), device=device)


def image_encoder(
    name: str,
    *,
    weights: Path | None = None,
    sentences: TextEncoder | None = None,
    precision: Precision = "bfloat16",
    device: str = "cpu",
) -> ImageEncoder:
    """A ready image encoder.

    Args:
        name: one of `image_encoders`.
        weights: a file, or a folder to look in; None looks in the usual places.
        sentences: embeds class names for the space ``labels``; None loads MiniLM.
        precision: of the backbone; ``colour`` has none.
        device: torch device that computes.
    Raises:
        ConfigError: unknown name or precision.
        MissingError: no weights; the message says what to run.
        CheckpointError: the file is not of this architecture.
    """
    if name == COLOUR:
        from limner.encoders.colour import ColourEncoder

        return ColourEncoder()
    if name not in TORCHVISION:
        raise ConfigError(unknown("image encoder", name, image_encoders()))
    from limner.encoders.pixels import PixelEncoder, build, check_precision

    check_precision(precision)
    file = weight_file(name, weights)
    backbone = build(name, read_state(file), str(file.path))
    conse = None
    if backbone.head is not None and len(backbone.head[0]) == len(class_names(name)):
        conse = _conse(name, sentences)
    return PixelEncoder(name, backbone, file.sha256, conse=conse, precision=precision, device=device)


def weight_file(name: str, given: Path | None = None) -> WeightFile:
    """The weight file that `image_encoder` would take; see `limner.encoders.weights.find`."""
    return find(name, given, official_url(name).rpartition("/")[2])


def official_url(name: str) -> str:
    """Where torchvision's authors publish the weights of an architecture."""
    from torchvision.models import get_model_weights

    return str(get_model_weights(name)[TORCHVISION[name]].url)


def class_names(name: str) -> list[str]:
    """Class names of the published weights, in the order of the outputs."""
    from torchvision.models import get_model_weights

    return list(get_model_weights(name)[TORCHVISION[name]].meta["categories"])


def _conse(name: str, sentences: TextEncoder | None) -> ConSE:
    """The classes of an architecture in the space of sentences."""
    from limner.encoders.conse import ConSE

    return ConSE(class_names(name), sentences or text_encoder())
