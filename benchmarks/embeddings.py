"""Vectors of the data sets beside the project, computed once and kept in a folder.

Other benchmarks import it, so that calibration and results see the same vectors.
"""

import argparse
import hashlib
import json
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import get_args

import numpy as np
from harness import arguments, data_folder

from limner.arrays import FloatArray, ImageEncoder, TextEncoder
from limner.devices import usual_precision
from limner.encoders.catalogue import image_encoder, text_encoder
from limner.encoders.openvino import Engine
from limner.pictures.decode import decode, read_file
from limner.research.datasets.sets.captions import CaptionedPicture, read_captions
from limner.research.datasets.sets.stories import StorySet, read_stories

BATCH = 32
CHUNK = 512


class CachedText:
    """A text encoder that remembers every text in a folder."""

    def __init__(self, encoder: TextEncoder, cache: Path) -> None:
        self.encoder, self.name, self.dim = encoder, encoder.name, encoder.dim
        self.fingerprint = encoder.fingerprint
        self.folder = cache / f"{encoder.name}-{encoder.fingerprint[:12]}"
        self.folder.mkdir(parents=True, exist_ok=True)

    def encode_text(self, texts: Sequence[str]) -> FloatArray:
        """(N, D) unit rows, as the encoder itself gives them."""
        key = hashlib.sha256(json.dumps(list(texts)).encode()).hexdigest()[:24]
        path = self.folder / f"{key}.npy"
        if not path.exists():
            save(path, self.encoder.encode_text(texts))
        return np.load(path, allow_pickle=False)


def save(path: Path, array: FloatArray) -> None:
    """Write whole or not at all."""
    part = path.with_suffix(f".{os.getpid()}.part")
    with part.open("wb") as stream:
        np.save(stream, array, allow_pickle=False)
    part.replace(path)


def picture_vectors(
    encoder: ImageEncoder, name: str, files: Sequence[str], cache: Path
) -> dict[str, FloatArray]:
    """Space → (M, D) vectors of the files of a data set, in their order; chunks already there are read."""
    folder = cache / f"{encoder.name}-{encoder.fingerprint[:12]}" / name
    folder.mkdir(parents=True, exist_ok=True)
    found: dict[str, list[FloatArray]] = {space: [] for space in encoder.spaces}
    for start in range(0, len(files), CHUNK):
        chunk = list(files[start : start + CHUNK])
        key = hashlib.sha256(json.dumps(chunk).encode()).hexdigest()[:24]
        paths = {space: folder / f"{key}-{space}.npy" for space in encoder.spaces}
        if not all(path.exists() for path in paths.values()):
            for space, vectors in encoded(encoder, chunk).items():
                save(paths[space], vectors)
            print(f"{encoder.name} {name}: {min(start + CHUNK, len(files))} of {len(files)}", flush=True)
        for space, path in paths.items():
            found[space].append(np.load(path, allow_pickle=False))
    return {space: np.concatenate(parts) for space, parts in found.items()}


def encoded(encoder: ImageEncoder, files: Sequence[str]) -> dict[str, FloatArray]:
    """Space → (M, D) vectors of picture files."""

    def prepare(file: str) -> np.ndarray:
        data = read_file(os.fsencode(file)).data
        return encoder.prepare(decode(data, encoder.side_px, Path(file).suffix.lower()).rgb)

    parts: dict[str, list[FloatArray]] = {space: [] for space in encoder.spaces}
    with ThreadPoolExecutor(2) as pool:
        pixels = list(pool.map(prepare, files))
    for start in range(0, len(files), BATCH):
        made = encoder.encode_pixels(np.stack(pixels[start : start + BATCH]))
        for space, vectors in made.spaces.items():
            parts[space].append(vectors)
    return {space: np.concatenate(vectors) for space, vectors in parts.items()}


def open_set(name: str) -> StorySet | list[CaptionedPicture]:
    """Read one data set."""
    folder = data_folder() / name
    return read_captions(folder) if name == "flickr8k" else read_stories(folder)


def files_of(data: StorySet | list[CaptionedPicture]) -> dict[str, str]:
    """Picture id → file, by first appearance; for captioned pictures the id is the name."""
    if not isinstance(data, StorySet):
        return {picture.name: str(picture.path) for picture in data if picture.path}
    refs = [ref for story in data.stories for step in story.steps for ref in step.pictures]
    files: dict[str, str] = {}
    for ref in refs:
        if ref.sha256 and ref.path:
            files.setdefault(ref.sha256, ref.path)
    return files


def parser(about: str | None) -> argparse.ArgumentParser:
    """Arguments that all of them share."""
    shared = arguments(about)
    shared.add_argument("--cache", type=Path, required=True, help="folder for vectors, reused")
    shared.add_argument("--weights", type=Path, help="file or folder of the ResNet-50 weights")
    shared.add_argument(
        "--engine", choices=get_args(Engine), default="torch", help="runs the networks; a cache each"
    )
    return shared


def encoders(options: argparse.Namespace, names: Sequence[str]) -> tuple[CachedText, list[ImageEncoder]]:
    """Sentences, and picture encoders by name."""
    import torch

    torch.set_num_threads(min(2, os.cpu_count() or 1))
    sentences = text_encoder()
    pixels = [
        image_encoder(
            name,
            weights=options.weights,
            engine=options.engine,
            sentences=sentences,
            precision=usual_precision("cpu"),
        )
        for name in names
    ]
    return CachedText(sentences, options.cache), pixels
