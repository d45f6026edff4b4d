"""A CLIP on disk: a folder with two networks, a tokenizer and a card that says how they are used.

Published ones are fetched as ONNX files; what limner writes itself (`limner.encoders.clip_export`) is in
OpenVINO's own form. Both are read without torch.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from pydantic import Field, ValidationError

from limner.devices import Precision
from limner.encoders.weight_files import SUFFIXES, named_places
from limner.errors import CheckpointError, ConfigError, LimnerError, MissingError, unknown
from limner.files import data_folder, first_fault, make_folder, sha256_of, write_text
from limner.records import Record

CLIP = "clip:"
CARD = "clip.json"
TOKENIZER = "tokenizer.json"
ONNX = ".onnx"
Clean = Literal["lower", "whitespace", "canonicalize"]
"""What open_clip does to a text before it is cut into pieces."""
_HASH = Field(pattern="^[0-9a-f]{64}$")


class ClipCard(Record):
    """What a CLIP's folder says of itself.

    Attributes:
        format: of the folder.
        architecture: open_clip's name.
        source: where the files come from.
        licence: terms of the weights as their publisher states them, or "".
        weights: SHA-256 that tells these weights from others; of the file that they were exported from, or of
            both networks.
        dim: D.
        side_px: S, side of the square that the image network takes.
        mean, std: of a channel, of values in [0, 1].
        resize: ``shortest`` scales the shorter side to S and cuts out the centre; ``squash`` scales both.
        interpolation: of that scaling.
        context: word pieces that the text network takes, those that frame a text included.
        pad: piece that fills up.
        clean: what is done to a text first.
        image, text: file of a network.
        sha256: file → hash.
        earlier: precision → fingerprint that limner gave the vectors of these weights when torch made them,
            from pictures that were framed in another way; empty where it never read such weights.
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
    """A CLIP that is there.

    Attributes:
        path: the folder.
        card: its card.
    """

    path: Path
    card: ClipCard

    @property
    def name(self) -> str:
        """As the catalogue has it."""
        return CLIP + self.card.architecture

    def checked(self, name: str) -> Path:
        """One of its files, whole.

        Raises:
            MissingError: it cannot be read.
            CheckpointError: it is another one than the card says.
        """
        path = self.path / name
        try:
            found = sha256_of(path)
        except OSError as error:
            raise MissingError(f"{path}: cannot be read ({error.strerror}); get {self.name} again") from error
        if found != self.card.sha256.get(name):
            raise CheckpointError(
                f"{path}: damaged, its SHA-256 is another than in {CARD}; remove the folder and get"
                f" {self.name} again"
            )
        return path


def models_folder() -> Path:
    """Where models that are fetched or exported are kept."""
    return data_folder() / "models"


def folder_of(architecture: str, place: Path | None = None) -> Path:
    """The folder that a CLIP goes to.

    Args:
        architecture: open_clip's name.
        place: folder of such folders; None for `models_folder`.
    """
    return (place or models_folder()) / f"clip-{architecture}"


def read_clip(path: Path) -> ClipFolder:
    """Open a folder; its networks are not read yet.

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
    """What a folder is, or what its folders are."""
    try:
        inside = sorted(place.iterdir()) if place.is_dir() else []
    except OSError as error:
        raise MissingError(f"{place}: cannot be read ({error.strerror}); check the path") from error
    return [read_clip(path) for path in (place, *inside) if (path / CARD).is_file()]


def clips() -> list[ClipFolder]:
    """All that are there, those of ``$LIMNER_WEIGHTS`` first; of an architecture the first.

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
    """The folder of an architecture.

    Args:
        name: ``clip:ARCHITECTURE``.
        given: the folder, or one that holds such folders; None for the usual places.
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
    """A CLIP that somebody publishes as ONNX files.

    Attributes:
        architecture: open_clip's name.
        tag: tells it from others of the architecture.
        image, text: repository and path of a network.
        tokenizer, preprocessing: likewise.
        megabytes: of all files.
        licence: what the repositories state.
        dim, context, pad, clean: as of `ClipCard`.
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
        """As the catalogue has it."""
        return CLIP + self.architecture

    @property
    def repositories(self) -> list[str]:
        """Whose files they are."""
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
    _transformers_js("ViT-B-32-quickgelu", "Xenova/clip-vit-base-patch32", 305, _OPENAI),
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
"""What 'limner models get' fetches, the usual one first; ``-quickgelu`` are OpenAI's own weights."""
HINT = (
    "CLIP would find more for English texts: published, ViT-B/32 finds the photographs of 59 of 100 captions"
    " first among 1,000 (Flickr30k), base of 25 (Flickr8k). Get it once by 'limner models get clip'"
    f" ({PUBLISHED[0].megabytes} MB); new libraries then take it."
)
"""Said to a person whose new library is made without it."""


def published(name: str) -> PublishedClip | None:
    """What is published under a name; None where nothing is.

    Args:
        name: ``clip`` for the usual one, or ``clip:ARCHITECTURE``, with ``@TAG`` for others than its first.
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


def hub() -> str:
    """Address of Hugging Face, or of the mirror that ``$HF_ENDPOINT`` names."""
    return os.environ.get("HF_ENDPOINT", "").rstrip("/") or "https://huggingface.co"


def fetch_published(
    offer: PublishedClip, place: Path | None = None, progress: Callable[[int, int], None] | None = None
) -> Path:
    """Download a published CLIP; the folder appears whole or not at all.

    What it brings is tried out once and hashed; the hashes are kept in its card.

    Args:
        offer: one of `PUBLISHED`.
        place: folder of such folders; None for `models_folder`.
        progress: called with bytes so far and in all, of each file.
    Returns:
        The folder; one that is there already, whole and of the same source, is left as it is.
    Raises:
        MissingError: the network or the disk refuses.
        CheckpointError: what came is no such CLIP, or there is another one in its place.
    """
    from limner.transfer import fetch_unknown

    target = folder_of(offer.architecture, place)
    source = ", ".join(f"huggingface.co/{one}" for one in offer.repositories)
    if target.exists():
        there = read_clip(target)
        if there.card.source != source:
            raise CheckpointError(
                f"{target}: holds {there.card.source}; remove the folder to have {source} in its place"
            )
        for name in there.card.sha256:
            there.checked(name)
        return target
    files = {
        f"image{ONNX}": offer.image,
        f"text{ONNX}": offer.text,
        TOKENIZER: offer.tokenizer,
        "preprocessor_config.json": offer.preprocessing,
    }

    def bring(draft: Path) -> ClipCard:
        for name, (repository, path) in files.items():
            fetch_unknown(f"{hub()}/{repository}/resolve/main/{path}", draft / name, report=progress)
        side_px, mean, std, resize, interpolation = _preprocessing(draft / "preprocessor_config.json")
        (draft / "preprocessor_config.json").unlink()
        networks = (sha256_of(draft / f"image{ONNX}") + sha256_of(draft / f"text{ONNX}")).encode()
        return ClipCard(
            architecture=offer.architecture,
            source=source,
            licence=offer.licence,
            weights=hashlib.sha256(networks).hexdigest(),
            dim=offer.dim,
            side_px=side_px,
            mean=mean,
            std=std,
            resize=resize,
            interpolation=interpolation,
            context=offer.context,
            pad=offer.pad,
            clean=offer.clean,
            image="image.onnx",
            text="text.onnx",
            sha256={},
        )

    make_clip(target, bring)
    return target


def make_clip(target: Path, bring: Callable[[Path], ClipCard]) -> None:
    """Fill a folder, try out what is in it, and put it in its place, whole or not at all.

    Args:
        target: the folder; must not be there.
        bring: puts networks and tokenizer into a folder and returns their card, without hashes.
    Raises:
        LimnerError: as `bring` and the encoder.
        MissingError: the disk refuses.
    """
    from limner.encoders.clip import ClipEncoder

    try:
        make_folder(target.parent)
        with TemporaryDirectory(prefix=f".{target.name}-", dir=target.parent) as place:
            draft = Path(place) / target.name
            draft.mkdir()
            card = bring(draft)
            hashes = {path.name: sha256_of(path) for path in sorted(draft.iterdir())}
            write_text(draft / CARD, card.model_copy(update={"sha256": hashes}).model_dump_json(indent=1))
            ClipEncoder(read_clip(draft)).try_out()
            draft.rename(target)
    except LimnerError:
        raise
    except OSError as error:
        raise MissingError(
            f"{target}: cannot be written ({error.strerror or error}); choose another folder"
        ) from error


_Preprocessing = tuple[
    int,
    tuple[float, float, float],
    tuple[float, float, float],
    Literal["shortest", "squash"],
    Literal["bicubic", "bilinear"],
]


def _preprocessing(path: Path) -> _Preprocessing:
    """Side, mean, deviation and scaling, from the file that says it to the library transformers.

    Raises:
        CheckpointError: it says something that limner does not do.
    """
    try:
        said: Mapping[str, object] = json.loads(path.read_bytes())
        size, crop = said["size"], said.get("crop_size")
        cut = bool(said.get("do_center_crop", crop is not None))
        sides = {*_sides(crop)} if cut else {*_sides(size)}
        shortest = not isinstance(size, dict) or "shortest_edge" in size
        (side,) = sides
        kinds: dict[object, Literal["bicubic", "bilinear"]] = {3: "bicubic", 2: "bilinear"}
        interpolation = kinds[said.get("resample", 3)]
        if cut and not (shortest and {*_sides(size)} == sides):
            raise ValueError("scales to another size than it cuts out")
        if not cut and shortest:
            raise ValueError("cuts no square out")
        mean, std = (_three(said[name]) for name in ("image_mean", "image_std"))
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{path.name}: not the preprocessing of a CLIP ({error})") from error
    return side, mean, std, "shortest" if cut else "squash", interpolation


def _sides(size: object) -> list[int]:
    values = list(size.values()) if isinstance(size, dict) else [size]
    return [int(str(value)) for value in values]


def _three(values: object) -> tuple[float, float, float]:
    if not isinstance(values, list):
        raise TypeError(f"{values!r} are no three numbers")
    red, green, blue = map(float, values)
    return red, green, blue
