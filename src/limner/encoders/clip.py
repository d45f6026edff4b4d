"""CLIP and SigLIP by open_clip (extra ``clip``): texts and pictures in one space that was learned for both.

Where weights are there it is the strongest untrained channel. The caller hands over the tensors and, for
architectures that bring a tokenizer of their own, the folder of its files.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor

from limner.arrays import ByteArray, FloatArray, ImageVectors, unit_rows
from limner.devices import Precision, autocast
from limner.encoders import pixels
from limner.encoders.framing import Framing, checked, frame, shorter_side_px
from limner.encoders.sentences import by_windows
from limner.encoders.weight_files import load_strictly, of_clip
from limner.errors import CheckpointError, ConfigError, MissingError, installed, unknown

if TYPE_CHECKING:
    from PIL.Image import Image

_METHOD = "clip/1"
_BATCH = 64
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json")
"""What a tokenizer of its own consists of, in the layout of Hugging Face."""
WEIGHT_FILES = ("open_clip_model.safetensors", "open_clip_pytorch_model.bin")
"""Names of a repository's weights, the one that open_clip takes first."""
USUAL = ("datacomp_xl", "laion2b", "webli")
"""How the tags of an architecture's usual weights begin, the most accurate on ImageNet first."""


@dataclass(frozen=True)
class _Tokens:
    """How texts become numbers.

    Attributes:
        encode: text → word pieces, without the special ones.
        first, last: special pieces before and after.
        pad: fills up the context.
        described: for the fingerprint.
    """

    encode: Callable[[str], list[int]]
    first: list[int]
    last: list[int]
    pad: int
    described: str


def _own_tokens(architecture: str, folder: Path | None, clean: str) -> _Tokens:
    """A tokenizer in the layout of Hugging Face, as open_clip uses it.

    Raises:
        MissingError: its files are not there.
        CheckpointError: they are damaged.
    """
    from open_clip.tokenizer import get_clean_fn

    if folder is None or not all((folder / name).is_file() for name in TOKENIZER_FILES):
        raise MissingError(
            f"clip: {architecture} needs {' and '.join(TOKENIZER_FILES)} beside its weights; run"
            f" 'limner models get clip:{architecture}' or copy them there"
        )
    try:
        text = (folder / TOKENIZER_FILES[0]).read_text(encoding="utf-8")
        tokenizer = Tokenizer.from_str(text)
        pad = json.loads((folder / TOKENIZER_FILES[1]).read_text(encoding="utf-8"))["pad_token"]
        number = tokenizer.token_to_id(pad["content"] if isinstance(pad, dict) else pad)
        if number is None:
            raise ValueError(f"no piece {pad!r}")
    except OSError as error:
        raise MissingError(f"{error.filename}: cannot be read ({error.strerror})") from error
    except Exception as error:  # the reader raises bare exceptions
        raise CheckpointError(f"{folder}: tokenizer damaged ({' '.join(str(error).split())[:80]})") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    cleaned = get_clean_fn(clean)
    bare = tokenizer.encode("a", add_special_tokens=False).ids
    whole = tokenizer.encode("a").ids
    start = next(n for n in range(len(whole)) if whole[n : n + len(bare)] == bare)
    return _Tokens(
        lambda words: list(tokenizer.encode(cleaned(words), add_special_tokens=False).ids),
        whole[:start],
        whole[start + len(bare) :],
        int(number),
        f" tokenizer={hashlib.sha256(text.encode()).hexdigest()} pad={number} clean={clean}",
    )


def architectures(wanted: str | None = None) -> list[str]:
    """Names of the architectures open_clip knows.

    Args:
        wanted: one that must be among them.
    Raises:
        ConfigError: it is not.
        MissingError: the extra is not installed.
    """
    known = list(_open_clip().list_models())
    if wanted is not None and wanted not in known:
        raise ConfigError("clip: " + unknown("architecture", wanted, known))
    return known


def _open_clip() -> Any:  # noqa: ANN401  (an optional, untyped module)
    """The module, or what to install."""
    with installed("open_clip", "'limner[clip]'"):
        import open_clip
    return open_clip


def _clip_tokens(architecture: str) -> _Tokens:
    """CLIP's own tokenizer, which comes with open_clip."""
    made = _open_clip().get_tokenizer(architecture)
    return _Tokens(made.encode, [made.sot_token_id], [made.eot_token_id], 0, "")


def _published(architecture: str) -> dict[str, Any]:
    """How the published weights of an architecture want their pictures, where all of them agree; else {}."""
    found = [one for _, one in _pretrained(architecture)]
    wanted = [{name: one.get(name) for name in ("mean", "std", "resize_mode")} for one in found]
    return wanted[0] if wanted and all(one == wanted[0] for one in wanted) else {}


def _pretrained(architecture: str) -> list[tuple[str, dict[str, Any]]]:
    """(tag, settings) of each published file of weights."""
    module = _open_clip()
    tags = module.list_pretrained_tags_by_model(architecture)
    return [(tag, dict(module.get_pretrained_cfg(architecture, tag))) for tag in tags]


def published_clip(architecture: str, tag: str = "") -> tuple[str, str]:
    """Tag and repository on Hugging Face of published weights.

    Args:
        architecture: open_clip's name.
        tag: which of its weights; "" for the usual ones.
    Raises:
        ConfigError: unknown architecture or tag, or several, none of which is usual, and none is named.
        MissingError: the extra is not installed.
    """
    known = architectures(architecture)
    choices = {
        one: settings["hf_hub"].rstrip("/")
        for one, settings in _pretrained(architecture)
        if of_clip(settings.get("hf_hub", "").rstrip("/").rpartition("/")[2], architecture, known)
    }
    if not choices:
        raise ConfigError(
            f"clip: no weights of {architecture} are published under its name; get open_clip's file of it and"
            f" pass --weights clip:{architecture}=FILE"
        )
    usual = [one for start in USUAL for one in choices if one.startswith(start)]
    if not tag and len(choices) > 1 and not usual:
        names = ", ".join(f"clip:{architecture}@{one}" for one in choices)
        raise ConfigError(f"clip: {architecture} has several weights; name one: {names}")
    tag = tag or next(iter((*usual, *choices)))
    if tag not in choices:
        raise ConfigError(f"clip: {architecture}: " + unknown("weights", tag, choices))
    return tag, choices[tag]


def clip_terms(repository: str) -> tuple[float, str]:
    """Megabytes of a repository's weights, and the licence that it states or "".

    Raises:
        MissingError: the extra is not installed, or the network refuses.
    """
    with _fetching(repository):
        from huggingface_hub import model_info

        found = model_info(repository, files_metadata=True)
        sizes = {one.rfilename: one.size or 0 for one in found.siblings or ()}
        size = next((sizes[name] for name in WEIGHT_FILES if name in sizes), 0)
        stated = found.card_data.get("license") if found.card_data else None
        return size / 1e6, str(stated or "")


def fetch_clip(architecture: str, tag: str = "") -> Path:
    """Download published weights and their tokenizer into the cache of Hugging Face, where `find_clip` looks.

    Args:
        architecture: open_clip's name.
        tag: as of `published_clip`.
    Raises:
        ConfigError: as `published_clip`.
        MissingError: the extra is not installed, or the network refuses.
    """
    module, (tag, repository) = _open_clip(), published_clip(architecture, tag)
    own = module.get_model_config(architecture)["text_cfg"].get("hf_tokenizer_name")
    with _fetching(architecture):
        from huggingface_hub import hf_hub_download

        path = Path(module.download_pretrained(module.get_pretrained_cfg(architecture, tag)))
        for name in TOKENIZER_FILES if own else ():
            hf_hub_download(repository, name)
    return path


@contextmanager
def _fetching(what: str) -> Iterator[None]:
    """Turn trouble with the network into one line."""
    try:
        yield
    except Exception as error:  # of whatever library stands between here and the network
        reason = " ".join(str(error).split())[:120]
        raise MissingError(f"clip: {what} could not be fetched ({reason}); try again later") from error


class ClipEncoder:
    """One CLIP model as text encoder and image encoder of the space ``clip``.

    A text longer than the model's context (75 tokens beside the two that frame it, for most) is cut
    into windows of nearly equal length; its vector is their mean weighted by length, rescaled to
    length 1. open_clip alone would cut off the rest without a word.

    Source: Radford et al. 2021; Cherti et al. 2023 (open_clip). Departs: windows; pictures are scaled
    bilinearly where CLIP is published with bicubic scaling.
    """

    def __init__(
        self,
        architecture: str,
        state: Mapping[str, Tensor],
        sha256: str,
        *,
        where: str = "clip",
        precision: Precision = "bfloat16",
        tokenizer: Path | None = None,
        device: str = "cpu",
    ) -> None:
        """Take the parameters of an open_clip model.

        Args:
            architecture: open_clip's name, such as ``ViT-B-32``; weights published by OpenAI need the
                names that end in ``-quickgelu``.
            state: parameter name → tensor, exactly those of the architecture.
            sha256: of the weight file.
            where: the file, for messages.
            precision: of the picture side; text is encoded in float32 always.
            tokenizer: folder of `TOKENIZER_FILES`, for architectures with a tokenizer of their own.
            device: torch device that computes.
        Raises:
            MissingError: the extra is not installed, or the tokenizer's files are not there.
            ConfigError: unknown architecture, or a text side from another library.
            CheckpointError: the parameters are not those of the architecture, or the tokenizer is damaged.
        """
        open_clip = _open_clip()
        architectures(architecture)
        text = open_clip.get_model_config(architecture)["text_cfg"]
        if text.get("hf_model_name"):
            raise ConfigError(
                f"clip: the text side of {architecture} comes from another library; choose a ViT or RN one"
            )
        published = _published(architecture)
        # A crop for CLIP, the whole squeezed for SigLIP.
        framing: Framing = "squash" if published.get("resize_mode") == "squash" else "crop"
        own = text.get("hf_tokenizer_name")
        cleaned = text.get("tokenizer_kwargs", {}).get("clean", "whitespace")
        tokens = _own_tokens(architecture, tokenizer, cleaned) if own else _clip_tokens(architecture)
        with torch.random.fork_rng(devices=[]):  # random initial values are drawn, then all replaced
            model = open_clip.create_model(architecture, pretrained=None, load_weights=False)
        load_strictly(model, state, where)
        self._model = model.to(device).eval().requires_grad_(requires_grad=False)
        self._tokens = tokens
        self._context = int(model.context_length)
        size = model.visual.image_size
        self._size_px = int(size[0] if isinstance(size, tuple) else size)
        self._mean = published.get("mean") or model.visual.image_mean or open_clip.OPENAI_DATASET_MEAN
        self._std = published.get("std") or model.visual.image_std or open_clip.OPENAI_DATASET_STD
        self._precision, self._framing, self._device = precision, framing, device
        self.name = f"clip:{architecture}"
        self.dim = int(open_clip.get_model_config(architecture)["embed_dim"])
        self.spaces = {"clip": self.dim}
        self.side_px = shorter_side_px(self._size_px, framing)
        # Of pictures in every precision: texts, the same in all, are compared with any of them.
        self.fingerprints: dict[Precision, str] = {
            one: hashlib.sha256(
                f"{_METHOD} {architecture} {sha256} {one} {framing}{tokens.described}".encode()
            ).hexdigest()
            for one in get_args(Precision)
        }
        self.fingerprint = self.fingerprints[precision]

    def prepare(self, image: Image) -> ByteArray:
        """One upright RGB picture → (H, H, 3) bytes, H being the model's."""
        return frame(image, self._size_px, self._framing)

    def encode_pixels(self, batch: ByteArray) -> ImageVectors:
        """(B, H, H, 3) bytes → vectors; no labels.

        Raises:
            ShapeError: not B such squares.
            NumericsError: a value is not finite.
        """
        checked(self.name, batch, self._size_px)
        values = pixels.normalised(pixels.to_device(batch, self._device), self._mean, self._std)
        with torch.inference_mode(), autocast(self._device, self._precision):
            features = self._model.encode_image(values).float().cpu().numpy()
        return ImageVectors({"clip": unit_rows(self.name, features)})

    def encode_text(self, texts: Sequence[str]) -> FloatArray:
        """Texts → (N, D) float32 rows of unit length.

        Raises:
            DataError: a text is empty once cleaned, naming its place.
        """
        room = self._context - len(self._tokens.first) - len(self._tokens.last)
        pieces = [self._tokens.encode(text) for text in texts]
        return by_windows(self.name, texts, pieces, room, self._encode_windows)

    def _encode_windows(self, windows: list[list[int]]) -> FloatArray:
        """W windows of word pieces → (W, D) unit rows."""
        vectors: FloatArray = np.zeros((len(windows), self.dim), dtype=np.float32)
        for start in range(0, len(windows), _BATCH):
            batch = windows[start : start + _BATCH]
            tokens = torch.full((len(batch), self._context), self._tokens.pad, dtype=torch.long)
            for row, ids in enumerate(batch):
                framed = [*self._tokens.first, *ids, *self._tokens.last]
                tokens[row, : len(framed)] = torch.tensor(framed)
            with torch.inference_mode():
                made = self._model.encode_text(tokens.to(self._device), normalize=True)
            vectors[start : start + _BATCH] = made.cpu().numpy()
        return vectors
