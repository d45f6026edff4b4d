"""Lists which encoders are usable on this machine, and downloads the weights of others.

Nothing is downloaded unless the user asks for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from limner.encoders.base_file import shipped_file
from limner.encoders.catalogue import (
    COLOUR,
    DETECTORS,
    SHIPPED,
    TORCHVISION,
    official_url,
    torchvision_weights,
    weight_file,
)
from limner.encoders.clip_files import PUBLISHED, clips, folder_of, published
from limner.encoders.weight_files import CLIP, WeightFile, hub_folder
from limner.errors import CheckpointError, ConfigError, MissingError, installed, unknown
from limner.transfer import fetch_file

EXPORTS = "'limner[clip]'"
"""Argument for ``pip install`` with the packages that exporting a CLIP model needs."""
TORCHVISION_TERMS = "BSD 3-Clause, as torchvision; trained on {}, whose own terms may apply"


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
    mebibytes = float(torchvision_weights(name).meta["_file_size"])
    source = official_url(name).removeprefix("https://").partition("/")[0]
    terms = TORCHVISION_TERMS.format("COCO" if name in DETECTORS else "ImageNet")
    return PublishedWeights(name, source, mebibytes * 1.048576, terms, folder or hub_folder())


def fetch_weights(
    name: str, folder: Path | None = None, *, progress: Callable[[int, int], None] | None = None
) -> Path:
    """Download the published weights of an architecture; called only when the user asks for it.

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
    return fetch_file(official_url(name), folder or hub_folder(), report=progress)
