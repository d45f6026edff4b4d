"""A CLIP model on disk: a folder with two networks, a tokenizer and a card with their parameters.

Published models are downloaded as ONNX files; models written by limner (`limner.encoders.clip_export`) are in
OpenVINO's format. Both are read without torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from limner.config import Record
from limner.devices import Precision
from limner.encoders.weight_files import CLIP, SUFFIXES, USUAL_CLIP, named_places
from limner.errors import CheckpointError, ConfigError, MissingError, unknown
from limner.files import data_folder, first_fault, sha256_of

CARD = "clip.json"
TOKENIZER = "tokenizer.json"
ONNX = ".onnx"
Clean = Literal["lower", "whitespace", "canonicalize"]
"""Ways in which open_clip cleans a text before tokenising it."""
_HASH = Field(pattern="^[0-9a-f]{64}$")


class ClipCard(Record):
    """Metadata of a CLIP model's folder.

    Attributes:
        format: format of the folder.
        architecture: open_clip's name.
        source: origin of the files.
        licence: terms of the weights as their publisher states them, or "".
        weights: SHA-256 that tells these weights from others; of the file that they were exported from, or of
            both networks.
        dim: D.
        side_px: S, side of the square that the image network takes.
        mean, std: mean and standard deviation of each channel, for values in [0, 1].
        resize: ``shortest`` scales the shorter side to S and cuts out the centre; ``squash`` scales both.
        interpolation: interpolation of that scaling.
        context: maximum number of word pieces of a text, including the two special ones.
        pad: padding piece.
        clean: cleaning of texts.
        image, text: file of a network.
        sha256: SHA-256 by file.
        earlier: fingerprints by precision of vectors that older versions of limner computed with torch from
            these weights, from differently framed pictures; empty if there were none.
    """

    format: Literal[1] = 1
    architecture: str = Field(pattern=r"^[\w.+-]+$")
    source: str
    licence: str
    weights: str = _HASH
    dim: int = Field(gt=0)
    side_px: int = Field(gt=0, le=4096)
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    resize: Literal["shortest", "squash"]
    interpolation: Literal["bicubic", "bilinear"]
    context: int = Field(gt=2)
    pad: int = Field(ge=0)
    clean: Clean
    image: Literal["image.onnx", "image.xml"]
    text: Literal["text.onnx", "text.xml"]
    sha256: dict[str, str]
    earlier: dict[Precision, str] = Field(default={})


@dataclass(frozen=True)
class ClipFolder:
    """An installed CLIP model.

    Attributes:
        path: the folder.
        card: its card.
    """

    path: Path
    card: ClipCard

    @property
    def name(self) -> str:
        """Name in the catalogue."""
        return CLIP + self.card.architecture

    def checked(self, name: str) -> Path:
        """Content of one of its files, verified.

        Raises:
            MissingError: it cannot be read.
            CheckpointError: its hash differs from that on the card.
        """
        path = self.path / name
        try:
            found = sha256_of(path)
        except OSError as error:
            raise MissingError(f"{path}: cannot be read ({error.strerror}); get {self.name} again") from error
        if found != self.card.sha256.get(name):
            raise CheckpointError(
                f"{path}: damaged: its SHA-256 differs from that in {CARD}; remove the folder and get"
                f" {self.name} again"
            )
        return path


def models_folder() -> Path:
    """Folder of downloaded and exported models."""
    return data_folder() / "models"


def folder_of(architecture: str, place: Path | None = None) -> Path:
    """Target folder of a CLIP model.

    Args:
        architecture: open_clip's name.
        place: folder of such folders; None for `models_folder`.
    """
    return (place or models_folder()) / f"clip-{architecture}"


def read_clip(path: Path) -> ClipFolder:
    """Open a folder without reading its networks.

    Raises:
        MissingError: there is no card, or it cannot be read.
        CheckpointError: the card is damaged, or of another version of limner.
    """
    card = path / CARD
    try:
        return ClipFolder(path, ClipCard.model_validate_json(card.read_bytes()))
    except OSError as error:
        raise MissingError(f"{card}: cannot be read ({error.strerror}); check the path") from error
    except ValidationError as error:
        raise CheckpointError(
            f"{card}: damaged, or of another version of limner ({first_fault(error)}); remove the folder and"
            " get it again"
        ) from error


def clips_at(place: Path) -> list[ClipFolder]:
    """CLIP models in a folder: itself, or its subfolders."""
    try:
        inside = sorted(place.iterdir()) if place.is_dir() else []
    except OSError as error:
        raise MissingError(f"{place}: cannot be read ({error.strerror}); check the path") from error
    return [read_clip(path) for path in (place, *inside) if (path / CARD).is_file()]


def clips() -> list[ClipFolder]:
    """All installed CLIP models, one per architecture, those of ``$LIMNER_WEIGHTS`` first.

    Raises:
        MissingError: a place of the variable does not exist, or a folder cannot be read.
        CheckpointError: a card is damaged.
    """
    found: dict[str, ClipFolder] = {}
    for place in (*named_places(), models_folder()):
        for one in clips_at(place):
            found.setdefault(one.name, one)
    return list(found.values())


def find_clip_folder(name: str, given: Path | None = None) -> ClipFolder:
    """Find the folder of an architecture.

    Args:
        name: ``clip:ARCHITECTURE``.
        given: the folder, or a folder of such folders; None for the default folders.
    Raises:
        MissingError: there is none; the message says what to run.
        CheckpointError: a card is damaged.
    """
    if given is not None and not given.exists():
        raise MissingError(f"weights of {name}: {given} does not exist; check the path")
    for one in clips() if given is None else clips_at(given):
        if one.name == name:
            return one
    if given is not None and given.is_file() and given.suffix.lower() in SUFFIXES:
        raise MissingError(
            f"weights of {name}: {given} is a file of tensors; write a folder from it by"
            f" 'limner models export {name} --weights {given}'"
        )
    fetch = f"{name}" if any(name == one.name for one in PUBLISHED) else ""
    how = f"run 'limner models get {fetch}'" if fetch else f"run 'limner models export {name}'"
    raise MissingError(
        f"no weights of {name} (looked in {given or models_folder()}); {how} or pass --weights {name}=FOLDER"
    )


@dataclass(frozen=True)
class PublishedClip:
    """A CLIP model that is published as ONNX files.

    Attributes:
        architecture: open_clip's name.
        tag: tag of the weights of the architecture.
        image, text: repository and path of a network.
        tokenizer, preprocessing: repository and path of these files.
        megabytes: size of all files in MB.
        licence: licence as stated by the repositories.
        dim, context, pad, clean: see `ClipCard`.
    """

    architecture: str
    tag: str
    image: tuple[str, str]
    text: tuple[str, str]
    tokenizer: tuple[str, str]
    preprocessing: tuple[str, str]
    megabytes: int
    licence: str
    dim: int = 512
    context: int = 77
    pad: int = 0
    clean: Clean = "lower"

    @property
    def name(self) -> str:
        """Name in the catalogue."""
        return CLIP + self.architecture

    @property
    def repositories(self) -> list[str]:
        """Repositories of the files."""
        files = (self.image, self.text, self.tokenizer, self.preprocessing)
        return list(dict.fromkeys(repository for repository, _ in files))


def _transformers_js(architecture: str, repository: str, megabytes: int, licence: str) -> PublishedClip:
    """A repository in the layout of transformers.js, its networks in half precision."""
    return PublishedClip(
        architecture,
        "fp16",
        image=(repository, "onnx/vision_model_fp16.onnx"),
        text=(repository, "onnx/text_model_fp16.onnx"),
        tokenizer=(repository, TOKENIZER),
        preprocessing=(repository, "preprocessor_config.json"),
        megabytes=megabytes,
        licence=licence,
    )


_OPENAI = "none stated there; OpenAI publishes the model's code under MIT"
PUBLISHED = (
    _transformers_js(USUAL_CLIP.removeprefix(CLIP), "Xenova/clip-vit-base-patch32", 305, _OPENAI),
    PublishedClip(
        "ViT-B-32-quickgelu",
        "fp32",
        image=("Qdrant/clip-ViT-B-32-vision", "model.onnx"),
        text=("Qdrant/clip-ViT-B-32-text", "model.onnx"),
        tokenizer=("Qdrant/clip-ViT-B-32-text", TOKENIZER),
        preprocessing=("Qdrant/clip-ViT-B-32-vision", "preprocessor_config.json"),
        megabytes=608,
        licence="MIT",
    ),
    _transformers_js("ViT-B-16-quickgelu", "Xenova/clip-vit-base-patch16", 302, _OPENAI),
)
"""Models that 'limner models get' downloads, the default first; ``-quickgelu`` are OpenAI's own weights."""
HINT = (
    "CLIP finds more pictures for English texts: for 59 of 100 captions, ViT-B/32 is reported to rank the"
    " right photograph first among 1,000 (Flickr30k); base does for 25 (Flickr8k). Download it once with"
    f" 'limner models get clip' ({PUBLISHED[0].megabytes} MB); new libraries then use it."
)
"""Advice for a new library without CLIP."""


def published(name: str) -> PublishedClip | None:
    """Published model with a given name, or None.

    Args:
        name: ``clip`` for the default one, or ``clip:ARCHITECTURE``, with ``@TAG`` for weights other than its
            first.
    Raises:
        ConfigError: the architecture has no such tag.
    """
    architecture, _, tag = name.removeprefix(CLIP).partition("@")
    if name in (CLIP.rstrip(":"), CLIP):
        return PUBLISHED[0]
    known = {one.tag: one for one in PUBLISHED if one.architecture == architecture}
    if not known:
        return None
    if tag and tag not in known:
        raise ConfigError(f"{CLIP}{architecture}: " + unknown("weights", tag, known))
    return known[tag] if tag else next(iter(known.values()))
