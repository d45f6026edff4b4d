"""Encoders by name: finds the weights, loads them, and hands out a ready encoder.

The one place that knows all encoders, so that commands and studio name them alike; it loads their modules as
they are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from limner.arrays import ImageEncoder, SentenceEncoder, TextEncoder
from limner.devices import TORCH, Precision, device_of
from limner.encoders.openvino import Engine
from limner.encoders.weight_files import (
    FOOD,
    PREFIX,
    SHIPPED_SENTENCES,
    WeightFile,
    clip_names,
    find,
    find_clip,
    hf_folder,
    hub_folder,
    of_clip,
    read_state,
    shipped_sentences,
    stamp,
)
from limner.errors import CheckpointError, ConfigError, MissingError, installed, unknown

if TYPE_CHECKING:
    from limner.encoders.clip import ClipEncoder

COLOUR = "colour"
SENTENCES = "minilm"
MULTILINGUAL = "use"
# Of torchvision's weights, those of the first ImageNet recipe: their probabilities, which ConSE lives on, are
# less flattened by label smoothing.
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
"""Of torchvision as well: their weights can be had likewise, though they encode nothing."""
TINY = "tiny"
"""The backbone of runs of seconds, see `limner.encoders.pixels.Tiny`; it comes with limner."""
BACKBONES = (*TORCHVISION, FOOD)
# Files of `limner.encoders.base_network` that come with limner.
SHIPPED = ("base", "base-free")
CLIP = "clip:"
TORCHVISION_TERMS = "BSD 3-Clause, as torchvision; trained on {}, whose own terms may apply"


def image_encoders() -> list[str]:
    """Names that `image_encoder` takes; besides these, ``clip:`` with an architecture of open_clip."""
    return [*SHIPPED, COLOUR, *TORCHVISION, f"{CLIP}ViT-B-32"]


def text_encoders() -> list[str]:
    """Names that `text_encoder` takes; besides these, ``clip:`` with an architecture of open_clip."""
    return [SENTENCES, MULTILINGUAL, *SHIPPED, f"{CLIP}ViT-B-32"]


def text_encoder(
    name: str = SENTENCES,
    *,
    sentences: TextEncoder | None = None,
    multilingual: TextEncoder | None = None,
    foreign: Callable[[Sequence[str]], Sequence[bool]] | None = None,
    weights: Path | None = None,
    device: str = "cpu",
) -> TextEncoder:
    """A ready text encoder.

    Args:
        name: ``minilm`` (English), ``use`` (sixteen languages), one of `SHIPPED` or
            ``clip:ARCHITECTURE``.
        sentences: MiniLM where it is loaded already; the shipped files' text side stands upon it.
        multilingual: takes part in the shipped files' text side, for what is not English.
        foreign: texts → which of them it reads.
        weights: of a CLIP model, as in `image_encoder`.
        device: of a CLIP model, as `limner.devices.device_of` takes it; all others compute on the CPU.
    Raises:
        ConfigError: unknown name.
        MissingError: its package or weights are not there.
    """
    if name.startswith(CLIP):
        return clip_encoder(name, weights=weights, device=device_of(device))
    if name in SHIPPED:
        from limner.encoders.base_encoder import BaseTextEncoder, shipped_file

        words = sentences or text_encoder()
        return BaseTextEncoder(name, shipped_file(name), words, multilingual=multilingual, foreign=foreign)
    return sentence_encoder(name)


def sentence_encoder(name: str = SENTENCES) -> SentenceEncoder:
    """A ready encoder of sentences, which says what languages it reads; loaded once per process.

    Args:
        name: ``minilm`` (English), ``use`` (sixteen languages), or ``sentences:`` with the folder or the
            name of a model of sentence-transformers.
    Raises:
        ConfigError: unknown name.
        MissingError: its package is not there.
    """
    from limner.encoders.sentences import NamedSentences, use_files

    if name.startswith(PREFIX):
        return NamedSentences(name.removeprefix(PREFIX))
    if name == MULTILINGUAL:
        return _sentences(name, stamp(use_files()))
    if name != SENTENCES:
        raise ConfigError(unknown("text encoder", name, text_encoders()))
    return _sentences(name, stamp(SHIPPED_SENTENCES))


@lru_cache(maxsize=4)
def _sentences(name: str, _stamp: tuple[tuple[str, int, int], ...]) -> SentenceEncoder:
    """The encoder as its files are now: hashing and reading them takes longer than encoding a text."""
    from limner.encoders.minilm import MiniLM
    from limner.encoders.sentences import MultilingualUSE

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
    """A ready image encoder.

    Args:
        name: one of `image_encoders`, or ``clip:ARCHITECTURE``.
        weights: a file, or a folder to look in; None looks in the usual places.
        sentences: embeds class names for the space ``labels``; None loads MiniLM.
        precision: of the backbone; ``colour`` has none.
        engine: what runs a shipped or torchvision network on a CPU, see `limner.encoders.openvino`; auto is
            OpenVINO for a shipped one, the quicker for others.
        device: what computes, as `limner.devices.device_of` takes it; openvino takes the CPU for auto.
    Raises:
        ConfigError: unknown name or precision, or an engine that does not run it there.
        MissingError: no weights; the message says what to run.
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
        from limner.encoders.base_encoder import BaseImageEncoder, shipped_file

        computes = "cpu" if engine == "openvino" else device
        return BaseImageEncoder(name, shipped_file(name), precision=precision, device=computes, engine=engine)
    if name.startswith(CLIP):
        return clip_encoder(name, weights=weights, precision=precision, device=device_of(device))
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
    name: str, *, weights: Path | None = None, precision: Precision = "bfloat16", device: str = "cpu"
) -> ClipEncoder:
    """A ready CLIP model, both text encoder and image encoder.

    Args:
        name: ``clip:ARCHITECTURE``, such as ``clip:ViT-B-32``.
        weights: as in `image_encoder`.
        precision: of the picture side.
        device: torch device that computes.
    Raises:
        ConfigError: unknown architecture or precision.
        MissingError: the extra or the weights are not there.
        CheckpointError: the file is not of this architecture.
    """
    with installed("open_clip", "'limner[clip]'"):
        from limner.encoders.clip import ClipEncoder, architectures

    architecture = name.removeprefix(CLIP)
    file = find_clip(architecture, weights, architectures(architecture))
    return ClipEncoder(
        architecture,
        read_state(file),
        file.sha256,
        where=str(file.path),
        precision=precision,
        tokenizer=file.path.parent,
        device=device,
    )


def clip_models() -> list[str]:
    """CLIP encoders that can be used at once: the extra is installed, and one file of weights is in reach."""
    if find_spec("open_clip") is None or not (names := clip_names()):
        return []
    from limner.encoders.clip import architectures

    known = architectures()
    return [f"{CLIP}{one}" for one in known if any(of_clip(name, one, known) for name in names)]


def weight_file(name: str, given: Path | None = None) -> WeightFile:
    """The weight file of a backbone; see `limner.encoders.weight_files.find`.

    Raises:
        ConfigError: none of `BACKBONES`.
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
    """Where torchvision's authors publish the weights of an architecture."""
    return str(_published(name).url)


def class_names(name: str) -> list[str]:
    """Class names of the published weights, in the order of the outputs."""
    return list(_published(name).meta["categories"])


def _published(name: str) -> Any:  # noqa: ANN401  (an untyped enumeration of torchvision)
    """What torchvision knows of the published weights of an architecture."""
    with installed(f"{name}: torchvision", TORCH):
        from torchvision.models import get_model_weights

    return get_model_weights(name)["COCO_V1" if name in DETECTORS else _RECIPE]


@dataclass(frozen=True)
class Available:
    """What a machine has of one encoder.

    Attributes:
        name: of the encoder.
        file: its weights, or None where it needs none or has none.
        missing: why it cannot be used, or "".
    """

    name: str
    file: WeightFile | None
    missing: str = ""


def available() -> list[Available]:
    """Every named encoder, with its weights or the line that says how to get them."""
    from limner.encoders.base_encoder import shipped_file

    rows = [Available(name, shipped_file(name)) for name in SHIPPED] + [Available(COLOUR, None)]
    for name in TORCHVISION:
        try:
            rows.append(Available(name, weight_file(name)))
        except (MissingError, CheckpointError) as error:
            rows.append(Available(name, None, str(error)))
    return rows


@dataclass(frozen=True)
class Offer:
    """Published weights, before they are downloaded.

    Attributes:
        name: as `fetch_weights` takes it, with the tag that was chosen where there are several.
        source: where they come from.
        megabytes: of the file; 0 where nobody says.
        licence: as stated, or "".
        folder: where they go.
    """

    name: str
    source: str
    megabytes: float
    licence: str
    folder: Path

    def __str__(self) -> str:
        """All of it in one line."""
        size = f"{self.megabytes:,.0f} MB" if self.megabytes else "a file of unknown size"
        terms = f"licence: {self.licence or 'not stated'}"
        return f"{self.name}: {size} from {self.source} ({terms}), into {self.folder}"


def offered(name: str, folder: Path | None = None) -> Offer:
    """What `fetch_weights` would download; for CLIP, Hugging Face is asked.

    Args:
        name: as of `fetch_weights`.
        folder: likewise.
    Raises:
        ConfigError: as `fetch_weights`.
        MissingError: the extra is not installed, or the network refuses.
    """
    if name.startswith(CLIP):
        from limner.encoders.clip import clip_terms, published_clip

        if folder is not None:
            raise ConfigError("--to: CLIP goes to the cache of Hugging Face (HF_HOME); leave --to out")
        architecture, _, tag = name.removeprefix(CLIP).partition("@")
        tag, repository = published_clip(architecture, tag)
        megabytes, licence = clip_terms(repository)
        source = f"huggingface.co/{repository}"
        return Offer(f"{CLIP}{architecture}@{tag}", source, megabytes, licence, hf_folder())
    if name not in (*TORCHVISION, *DETECTORS):
        raise ConfigError(unknown("downloadable model", name, (*TORCHVISION, *DETECTORS, f"{CLIP}ViT-B-32")))
    mebibytes = float(_published(name).meta["_file_size"])
    source = official_url(name).removeprefix("https://").partition("/")[0]
    terms = TORCHVISION_TERMS.format("COCO" if name in DETECTORS else "ImageNet")
    return Offer(name, source, mebibytes * 1.048576, terms, folder or hub_folder())


def fetch_weights(
    name: str, folder: Path | None = None, *, progress: Callable[[int, int], None] | None = None
) -> Path:
    """Download the published weights of an architecture; only ever called on a user's request.

    Args:
        name: one of torchvision's in `image_encoders`, one of `DETECTORS`, or ``clip:ARCHITECTURE``, with
            ``@TAG`` for others than the usual weights.
        folder: by default the torch hub cache, where every encoder looks; CLIP goes to the cache of
            Hugging Face.
        progress: see `limner.transfer.fetch_file`.
    Raises:
        ConfigError: no published weights under this name.
        MissingError: the network or the disk refuses.
        CheckpointError: what came is not what was published.
    """
    if name.startswith(CLIP):
        from limner.encoders.clip import fetch_clip

        if folder is not None:
            raise ConfigError("--to: CLIP goes to the cache of Hugging Face (HF_HOME); leave --to out")
        architecture, _, tag = name.removeprefix(CLIP).partition("@")
        return fetch_clip(architecture, tag)
    if name not in (*TORCHVISION, *DETECTORS):
        raise ConfigError(unknown("downloadable model", name, (*TORCHVISION, *DETECTORS)))
    from limner.transfer import fetch_file

    return fetch_file(official_url(name), folder or hub_folder(), report=progress)
