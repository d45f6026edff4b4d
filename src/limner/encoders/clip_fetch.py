"""Downloads of published CLIP models, which are tested, hashed and installed atomically."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from limner.encoders.clip import ClipEncoder
from limner.encoders.clip_files import CARD, ONNX, TOKENIZER, ClipCard, PublishedClip, folder_of, read_clip
from limner.errors import CheckpointError, LimnerError, MissingError
from limner.files import make_folder, sha256_of, write_text
from limner.transfer import fetch_unknown


def hub() -> str:
    """URL of Hugging Face, or of the mirror in ``$HF_ENDPOINT``."""
    return os.environ.get("HF_ENDPOINT", "").rstrip("/") or "https://huggingface.co"


def fetch_published(
    offer: PublishedClip, place: Path | None = None, progress: Callable[[int, int], None] | None = None
) -> Path:
    """Download a published CLIP model atomically.

    The model is tested once, and the hashes of its files are stored in its card.

    Args:
        offer: one of `PUBLISHED`.
        place: folder of such folders; None for `models_folder`.
        progress: function called with the bytes so far and in total, for each file.
    Returns:
        The folder; an existing complete one of the same source is not changed.
    Raises:
        MissingError: the network fails, or the disk cannot be written.
        CheckpointError: the download is not such a model, or another one is in its place.
    """
    target = folder_of(offer.architecture, place)
    source = ", ".join(f"huggingface.co/{one}" for one in offer.repositories)
    if target.exists():
        there = read_clip(target)
        if there.card.source != source:
            raise CheckpointError(
                f"{target}: holds {there.card.source}; remove the folder to replace it with {source}"
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
    """Create and test a model's folder atomically.

    Args:
        target: the folder, which must not exist.
        bring: function that writes networks and tokenizer to a folder and returns their card, without hashes.
    Raises:
        LimnerError: see `bring` and the encoder.
        MissingError: the disk cannot be written.
    """
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
    """Read side, mean, deviation and scaling from the preprocessing file of the library transformers.

    Raises:
        CheckpointError: the file has a setting that limner does not support.
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
