"""Encoders by name: finds and loads their weights.

The only module that knows all encoders, so that commands and studio use the same names; it imports their
modules when they are requested.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from limner.arrays import ImageEncoder, SentenceEncoder, TextEncoder
from limner.devices import TORCH, Engine, Precision, device_of
from limner.encoders.base_file import BaseTextEncoder, shipped_file
from limner.encoders.sentences import MiniLM, MultilingualUSE, NamedSentences, use_files
from limner.encoders.weight_files import (
    CLIP,
    FOOD,
    PREFIX,
    SHIPPED_SENTENCES,
    USUAL_CLIP,
    WeightFile,
    find,
    read_state,
    shipped_sentences,
    stamp,
)
from limner.errors import ConfigError, installed, unknown
from limner.language import ENGLISH

if TYPE_CHECKING:
    from limner.encoders.clip import ClipEncoder

COLOUR = "colour"
SENTENCES = "minilm"
MULTILINGUAL = "use"
# Torchvision's first ImageNet weights: their class probabilities, which ConSE uses, are less flattened by
# label smoothing.
_RECIPE = "IMAGENET1K_V1"
TORCHVISION = (
    *(f"resnet{layers}" for layers in (18, 34, 50, 101, 152)),
    *("vgg16", "vgg19"),
    *("vit_b_16", "vit_b_32"),
    *("convnext_tiny", "convnext_small", "convnext_base"),
    *("swin_t", "efficientnet_b0"),
)
DETECTORS = (
    *("fasterrcnn_resnet50_fpn", "fasterrcnn_resnet50_fpn_v2"),
    *("fasterrcnn_mobilenet_v3_large_fpn", "fasterrcnn_mobilenet_v3_large_320_fpn"),
)
"""Detectors of torchvision: their weights can be downloaded in the same way, although they encode nothing."""
TINY = "tiny"
"""The backbone of smoke runs, see `limner.encoders.pixels.Tiny`; it comes with limner."""
BACKBONES = (*TORCHVISION, FOOD)
# Files of `limner.encoders.base_network` that come with limner.
SHIPPED = ("base", "base-free")


def image_encoders() -> list[str]:
    """Names for `image_encoder`; ``clip:`` with an architecture of open_clip is accepted too."""
    return [*SHIPPED, COLOUR, *TORCHVISION, USUAL_CLIP]


def text_encoders() -> list[str]:
    """Names for `text_encoder`; ``clip:`` with an architecture of open_clip is accepted too."""
    return [SENTENCES, MULTILINGUAL, *SHIPPED, USUAL_CLIP]


def text_encoder(
    name: str = SENTENCES,
    *,
    sentences: TextEncoder | None = None,
    multilingual: TextEncoder | None = None,
    foreign: Callable[[Sequence[str]], Sequence[bool]] | None = None,
    weights: Path | None = None,
) -> TextEncoder:
    """Open a text encoder.

    Args:
        name: ``minilm`` (English), ``use`` (fifteen languages), one of `SHIPPED`, or ``clip:ARCHITECTURE``.
        sentences: MiniLM if it is already loaded; the text encoder of the shipped files uses it.
        multilingual: multilingual encoder, which the text encoder of the shipped files uses for other
            languages than English.
        foreign: function from texts to the mask of those for the multilingual encoder.
        weights: folder of a CLIP model, see `clip_encoder`.
    Raises:
        ConfigError: the name is unknown.
        MissingError: its package or weights are missing.
    """
    if name.startswith(CLIP):
        return clip_encoder(name, weights=weights)
    if name in SHIPPED:
        words = sentences or text_encoder()
        return BaseTextEncoder(name, shipped_file(name), words, multilingual=multilingual, foreign=foreign)
    return sentence_encoder(name)


def sentence_encoder(name: str = SENTENCES) -> SentenceEncoder:
    """Open a sentence encoder, which has a list of its languages; loaded once per process.

    Args:
        name: ``minilm`` (English), ``use`` (fifteen languages), or ``sentences:`` with the folder or name of
            a sentence-transformers model.
    Raises:
        ConfigError: the name is unknown.
        MissingError: its package is not installed.
    """
    if name.startswith(PREFIX):
        return NamedSentences(name.removeprefix(PREFIX))
    if name == MULTILINGUAL:
        return _sentences(name, stamp(use_files()))
    if name != SENTENCES:
        raise ConfigError(unknown("text encoder", name, text_encoders()))
    return _sentences(name, stamp(SHIPPED_SENTENCES))


@lru_cache(maxsize=4)
def _sentences(name: str, _stamp: tuple[tuple[str, int, int], ...]) -> SentenceEncoder:
    """The encoder, cached by the state of its files, because hashing and reading them takes longer than
    encoding a text.
    """
    return MultilingualUSE() if name == MULTILINGUAL else MiniLM(shipped_sentences())


def image_encoder(
    name: str,
    *,
    weights: Path | None = None,
    sentences: TextEncoder | None = None,
    precision: Precision = "bfloat16",
    engine: Engine = "auto",
    device: str = "cpu",
) -> ImageEncoder:
    """Open an image encoder.

    Args:
        name: one of `image_encoders`, or ``clip:ARCHITECTURE``.
        weights: a file, or a folder to look in; None looks in the default folders.
        sentences: encoder of class names for the space ``labels``; None loads MiniLM.
        precision: precision of the backbone; ``colour`` has none.
        engine: engine that runs a shipped or torchvision network on a CPU, see `limner.encoders.openvino`;
            auto is OpenVINO for a shipped network, and the faster one for others.
        device: device, see `limner.devices.device_of`; with openvino, auto is the CPU.
    Raises:
        ConfigError: the name or precision is unknown, or the engine does not run on the device.
        MissingError: there are no weights; the message says what to run.
        CheckpointError: the file is not of this architecture.
    """
    if name == COLOUR:
        from limner.encoders.colour import ColourEncoder

        return ColourEncoder()
    for what, value, choices in (
        ("precision", precision, get_args(Precision)),
        ("engine", engine, get_args(Engine)),
    ):
        if value not in choices:
            raise ConfigError("encoder: " + unknown(what, value, choices))
    if engine == "openvino" and device not in ("cpu", "auto"):
        raise ConfigError(f"encoder: openvino computes on the CPU, not on {device}; leave one of the two out")
    if name in SHIPPED:
        from limner.encoders.base_encoder import BaseImageEncoder

        computes = "cpu" if engine == "openvino" else device
        return BaseImageEncoder(name, shipped_file(name), precision=precision, device=computes, engine=engine)
    if name.startswith(CLIP):
        if device not in ("cpu", "auto"):
            raise ConfigError(f"{name}: computes on the CPU, not on {device}; leave the device out")
        return clip_encoder(name, weights=weights, precision=precision)
    if name not in TORCHVISION:
        raise ConfigError(unknown("image encoder", name, image_encoders()))
    with installed(f"{name}: torch", TORCH):
        from limner.encoders.pixels import ConSE, PixelEncoder, build

    file = weight_file(name, weights)
    backbone = build(name, read_state(file), str(file.path))
    conse, classes = None, class_names(name)
    if backbone.head is not None and len(backbone.head[0]) == len(classes):
        conse = ConSE(classes, sentences or text_encoder())
    computes = "cpu" if engine == "openvino" else device_of(device)
    return PixelEncoder(
        name, backbone, file.sha256, conse=conse, precision=precision, device=computes, engine=engine
    )


def clip_encoder(
    name: str, *, weights: Path | None = None, precision: Precision | None = None, made: str = ""
) -> ClipEncoder:
    """Open a CLIP model, both text encoder and image encoder; it runs on the CPU.

    Args:
        name: ``clip:ARCHITECTURE``, such as ``clip:ViT-B-32-quickgelu``.
        weights: its folder, or a folder of such folders; None looks in the default folders.
        precision: precision of the image encoder; None for that of `made`, or else bfloat16.
        made: fingerprint of a library's vectors, see `limner.encoders.clip.ClipEncoder`.
    Raises:
        MissingError: there is none.
        CheckpointError: its folder is damaged.
    """
    from limner.encoders.clip import ClipEncoder
    from limner.encoders.clip_files import find_clip_folder

    return ClipEncoder(find_clip_folder(name, weights), precision=precision, made=made)


def usual_encoders(held: Collection[str] = (), language: str = ENGLISH) -> list[str]:
    """Default image encoders of a library.

    Args:
        held: encoders of the library's vectors; ``base`` and CLIP among them are kept.
        language: ISO 639 code of the texts that it is for. CLIP reads only English.
    Returns:
        Names of image encoders. For a new library of English texts: CLIP, if it has been downloaded,
        otherwise ``base``; of several CLIP models the first in `PUBLISHED`, or else by name.
    Raises:
        CheckpointError: a CLIP's folder is damaged.
    """
    kept = [name for name in dict.fromkeys(held) if name in SHIPPED or name.startswith(CLIP)]
    if kept:
        return kept
    if language != ENGLISH:
        return [SHIPPED[0]]
    from limner.encoders.clip_files import PUBLISHED

    there = clip_models()
    listed = [one.name for one in PUBLISHED if one.name in there]
    return [*listed, *there, SHIPPED[0]][:1]


def better_encoder(chosen: Collection[str], language: str = ENGLISH) -> str:
    """Advice on a better image encoder for a new library, or "".

    Args:
        chosen: names of its image encoders.
        language: ISO 639 code of its texts.
    """
    if set(chosen) != {SHIPPED[0]} or language != ENGLISH:
        return ""
    from limner.encoders.clip_files import HINT

    return HINT


def clip_models() -> list[str]:
    """CLIP encoders that are installed.

    Raises:
        CheckpointError: a folder is damaged.
    """
    from limner.encoders.clip_files import clips

    return sorted(one.name for one in clips())


def weight_file(name: str, given: Path | None = None) -> WeightFile:
    """Find the weight file of a backbone; see `limner.encoders.weight_files.find`.

    Raises:
        ConfigError: the name is not in `BACKBONES`.
        MissingError, CheckpointError: see there.
    """
    if name == TINY:
        return WeightFile(Path(__file__).with_name(f"{TINY}.safetensors"), "package")
    if name not in BACKBONES:
        raise ConfigError(unknown("backbone", name, BACKBONES))
    if name == FOOD:
        return find(name, given, published=False)
    return find(name, given, official_url(name).rpartition("/")[2])


def official_url(name: str) -> str:
    """URL of torchvision's published weights of an architecture."""
    return str(torchvision_weights(name).url)


def class_names(name: str) -> list[str]:
    """Class names of the published weights, in the order of the outputs."""
    return list(torchvision_weights(name).meta["categories"])


def torchvision_weights(name: str) -> Any:  # noqa: ANN401  (an untyped enumeration of torchvision)
    """Torchvision's entry of the published weights of an architecture."""
    with installed(f"{name}: torchvision", TORCH):
        from torchvision.models import get_model_weights

    return get_model_weights(name)["COCO_V1" if name in DETECTORS else _RECIPE]
