"""Encoders by name: finds and loads their weights.

The one place that knows all encoders, so that commands and studio name them alike; it loads their modules as
they are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from limner.arrays import ImageEncoder, SentenceEncoder, TextEncoder
from limner.devices import TORCH, Engine, Precision, device_of
from limner.encoders.clip_files import (
    CLIP,
    HINT,
    PUBLISHED,
    clips,
    find_clip_folder,
    folder_of,
    published,
)
from limner.encoders.weight_files import (
    FOOD,
    PREFIX,
    SHIPPED_SENTENCES,
    WeightFile,
    find,
    hub_folder,
    read_state,
    shipped_sentences,
    stamp,
)
from limner.errors import CheckpointError, ConfigError, MissingError, installed, unknown
from limner.language import ENGLISH

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
EXPORTS = "'limner[clip]'"
"""Argument of pip for the packages that the export of a CLIP model needs."""
TORCHVISION_TERMS = "BSD 3-Clause, as torchvision; trained on {}, whose own terms may apply"


def image_encoders() -> list[str]:
    """Names for `image_encoder`, besides ``clip:`` with an architecture of open_clip."""
    return [*SHIPPED, COLOUR, *TORCHVISION, PUBLISHED[0].name]


def text_encoders() -> list[str]:
    """Names for `text_encoder`, besides ``clip:`` with an architecture of open_clip."""
    return [SENTENCES, MULTILINGUAL, *SHIPPED, PUBLISHED[0].name]


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
        name: ``minilm`` (English), ``use`` (sixteen languages), one of `SHIPPED` or
            ``clip:ARCHITECTURE``.
        sentences: MiniLM where it is loaded already; the shipped files' text side stands upon it.
        multilingual: takes part in the shipped files' text side, for what is not English.
        foreign: texts → which of them it reads.
        weights: folder of a CLIP model, as in `clip_encoder`.
    Raises:
        ConfigError: unknown name.
        MissingError: its package or weights are missing.
    """
    if name.startswith(CLIP):
        return clip_encoder(name, weights=weights)
    if name in SHIPPED:
        from limner.encoders.base_encoder import BaseTextEncoder, shipped_file

        words = sentences or text_encoder()
        return BaseTextEncoder(name, shipped_file(name), words, multilingual=multilingual, foreign=foreign)
    return sentence_encoder(name)


def sentence_encoder(name: str = SENTENCES) -> SentenceEncoder:
    """Open an encoder of sentences with a list of its languages; loaded once per process.

    Args:
        name: ``minilm`` (English), ``use`` (sixteen languages), or ``sentences:`` with the folder or the
            name of a model of sentence-transformers.
    Raises:
        ConfigError: unknown name.
        MissingError: its package is not installed.
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
    from limner.encoders.sentences import MiniLM, MultilingualUSE

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
        weights: a file, or a folder to look in; None looks in the usual places.
        sentences: embeds class names for the space ``labels``; None loads MiniLM.
        precision: precision of the backbone; ``colour`` has none.
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
        weights: its folder, or one that holds such folders; None looks in the usual places.
        precision: precision of the picture side; None for that of `made`, else bfloat16.
        made: fingerprint of the vectors that a library has, see `limner.encoders.clip.ClipEncoder`.
    Raises:
        MissingError: none exists.
        CheckpointError: its folder is damaged.
    """
    from limner.encoders.clip import ClipEncoder

    return ClipEncoder(find_clip_folder(name, weights), precision=precision, made=made)


def usual_encoders(held: Collection[str] = (), language: str = ENGLISH) -> list[str]:
    """Default image encoders of a library.

    Args:
        held: encoders of the library's vectors; ``base`` and CLIP among them are kept.
        language: ISO 639 code of the texts that it is for. CLIP reads only English.
    Returns:
        Names of image encoders. Of a new library for English texts CLIP, where one has been fetched, else
        ``base``; of several the one that comes first among `PUBLISHED`, else by name.
    Raises:
        CheckpointError: a CLIP's folder is damaged.
    """
    kept = [name for name in dict.fromkeys(held) if name in SHIPPED or name.startswith(CLIP)]
    if kept:
        return kept
    there = clip_models() if language == ENGLISH else []
    listed = [one.name for one in PUBLISHED if one.name in there]
    return [*listed, *there, SHIPPED[0]][:1]


def better_encoder(chosen: Collection[str], language: str = ENGLISH) -> str:
    """Advice on a better image encoder for a new library, or "".

    Args:
        chosen: names of its image encoders.
        language: ISO 639 code of its texts.
    """
    return HINT if set(chosen) == {SHIPPED[0]} and language == ENGLISH else ""


def clip_models() -> list[str]:
    """CLIP encoders that are installed.

    Raises:
        CheckpointError: a folder is damaged.
    """
    return sorted(one.name for one in clips())


def weight_file(name: str, given: Path | None = None) -> WeightFile:
    """Find the weight file of a backbone; see `limner.encoders.weight_files.find`.

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
    """URL of torchvision's published weights of an architecture."""
    return str(_published(name).url)


def class_names(name: str) -> list[str]:
    """Class names of the published weights, in the order of the outputs."""
    return list(_published(name).meta["categories"])


def _published(name: str) -> Any:  # noqa: ANN401  (an untyped enumeration of torchvision)
    """Torchvision's entry of the published weights of an architecture."""
    with installed(f"{name}: torchvision", TORCH):
        from torchvision.models import get_model_weights

    return get_model_weights(name)["COCO_V1" if name in DETECTORS else _RECIPE]


@dataclass(frozen=True)
class Available:
    """Availability of an encoder on this machine.

    Attributes:
        name: name of the encoder.
        file: its weights, or None if it needs none or has none.
        missing: reason why it cannot be used, or "".
    """

    name: str
    file: WeightFile | None
    missing: str = ""


def available() -> list[Available]:
    """List all encoders with their weights, or with advice on getting them."""
    from limner.encoders.base_encoder import shipped_file

    rows = [Available(name, shipped_file(name)) for name in SHIPPED] + [Available(COLOUR, None)]
    for name in TORCHVISION:
        try:
            rows.append(Available(name, weight_file(name)))
        except (MissingError, CheckpointError) as error:
            rows.append(Available(name, None, str(error)))
    found = {
        one.name: Available(one.name, WeightFile(one.path / one.card.image, "models")) for one in clips()
    }
    for name in sorted({one.name for one in PUBLISHED} - set(found)):
        found[name] = Available(name, None, f"no weights of {name}; run 'limner models get {name}'")
    return rows + list(found.values())


@dataclass(frozen=True)
class PublishedWeights:
    """Published weights, before they are downloaded.

    Attributes:
        name: as `fetch_weights` takes it, with the tag that was chosen if there are several.
        source: origin of the weights.
        megabytes: size of the file in MB; 0 if unknown.
        licence: as stated, or "".
        folder: target folder.
    """

    name: str
    source: str
    megabytes: float
    licence: str
    folder: Path

    def __str__(self) -> str:
        """Description in one line."""
        size = f"{self.megabytes:,.0f} MB" if self.megabytes else "a file of unknown size"
        terms = f"licence: {self.licence or 'not stated'}"
        return f"{self.name}: {size} from {self.source} ({terms}), into {self.folder}"


def offered(name: str, folder: Path | None = None) -> PublishedWeights:
    """Weights that `fetch_weights` would download; unlisted CLIP models are looked up at Hugging Face.

    Args:
        name: see `fetch_weights`.
        folder: see `fetch_weights`.
    Raises:
        ConfigError: as `fetch_weights`.
        MissingError: the extra is not installed, or the network fails.
    """
    if name.partition(":")[0] == "clip":
        offer = published(name)
        if offer is not None:
            source = " and ".join(f"huggingface.co/{one}" for one in offer.repositories)
            to = folder_of(offer.architecture, folder)
            return PublishedWeights(f"{offer.name}@{offer.tag}", source, offer.megabytes, offer.licence, to)
        with installed("open_clip", EXPORTS):
            from limner.encoders.clip_export import clip_terms, published_clip

        architecture, _, tag = name.removeprefix(CLIP).partition("@")
        tag, repository = published_clip(architecture, tag)
        megabytes, licence = clip_terms(repository)
        source = f"huggingface.co/{repository}"
        to = folder_of(architecture, folder)
        return PublishedWeights(f"{CLIP}{architecture}@{tag}", source, megabytes, licence, to)
    if name not in (*TORCHVISION, *DETECTORS):
        raise ConfigError(
            unknown(
                "downloadable model",
                name,
                (*TORCHVISION, *DETECTORS, "clip", *(one.name for one in PUBLISHED)),
            )
        )
    mebibytes = float(_published(name).meta["_file_size"])
    source = official_url(name).removeprefix("https://").partition("/")[0]
    terms = TORCHVISION_TERMS.format("COCO" if name in DETECTORS else "ImageNet")
    return PublishedWeights(name, source, mebibytes * 1.048576, terms, folder or hub_folder())


def fetch_weights(
    name: str, folder: Path | None = None, *, progress: Callable[[int, int], None] | None = None
) -> Path:
    """Download the published weights of an architecture; only ever called on a user's request.

    Args:
        name: one of torchvision's in `image_encoders`; one of `DETECTORS`; ``clip`` for the usual CLIP; or
            ``clip:ARCHITECTURE``, with ``@TAG`` for others than its usual weights. What is not among
            `PUBLISHED` is fetched as open_clip's tensors and exported, which needs the extra ``clip``.
        folder: where the file, or the folder of a CLIP, goes; by default the torch hub cache and
            `limner.encoders.clip_files.models_folder`, where encoders look.
        progress: see `limner.transfer.fetch_file`.
    Raises:
        ConfigError: there are no published weights of this name.
        MissingError: the network or the disk refuses.
        CheckpointError: the download differs from the published file.
    """
    if name.partition(":")[0] == "clip":
        offer = published(name)
        if offer is not None:
            from limner.encoders.clip_fetch import fetch_published

            return fetch_published(offer, folder, progress)
        with installed("open_clip", EXPORTS):
            from limner.encoders.clip_export import export_clip, fetch_clip

        architecture, _, tag = name.removeprefix(CLIP).partition("@")
        tensors = fetch_clip(architecture, tag)
        return export_clip(f"{CLIP}{architecture}", tensors, folder_of(architecture, folder))
    if name not in (*TORCHVISION, *DETECTORS):
        raise ConfigError(unknown("downloadable model", name, (*TORCHVISION, *DETECTORS)))
    from limner.transfer import fetch_file

    return fetch_file(official_url(name), folder or hub_folder(), report=progress)
