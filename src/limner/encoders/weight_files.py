"""Weight files: lookup, and reading of tensors.

The only module of `limner.encoders` that reads weights, so that all tensors are checked in the same way: no
pickled code, strict keys, finite values.
"""

from __future__ import annotations

import hashlib
import json
import os
import textwrap
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.numpy import save

from limner.errors import CheckpointError, MissingError
from limner.files import sha256_of, write_bytes

if TYPE_CHECKING:
    from torch import Tensor, nn


VARIABLE = "LIMNER_WEIGHTS"
PREFIX = "sentences:"
CLIP = "clip:"
USUAL_CLIP = f"{CLIP}ViT-B-32-quickgelu"
"""The CLIP model that is fetched if no other is named."""
"""Prefix of the names of sentence-transformers models."""
FOOD = "food_resnet50"
"""A ResNet-50 trained on pictures of food, in a file of the user's; see docs/training.md."""
SUFFIXES = (".safetensors", ".pth", ".pt", ".bin", ".tar")
_LONGEST_REASON = 160
_PARALLEL = "module."
_WORDS = "embeddings.word_embeddings.weight"
_MAPPED = {"F16": np.float16, "F32": np.float32}


@dataclass(frozen=True)
class WeightFile:
    """One file of weights.

    Attributes:
        path: path of the file.
        origin: where it was found: given, LIMNER_WEIGHTS, torch hub cache, open_clip cache or package.
    """

    path: Path
    origin: str = "given"

    @cached_property
    def sha256(self) -> str:
        """Hash of the bytes, 64 hex digits; read once."""
        try:
            return sha256_of(self.path)
        except OSError as error:
            raise MissingError(f"{self.path}: cannot be read ({error.strerror}); check the path") from error


@dataclass(frozen=True)
class SentenceFiles:
    """A BERT-style sentence encoder as read from its folder.

    Attributes:
        tokenizer: text of ``tokenizer.json``.
        state: parameter name → array.
        words: (V, D) vectors of the word pieces, in the memory of the file: a text needs few of them.
        heads: attention heads.
        sha256: SHA-256 of the tokenizer and the tensors together.
    """

    tokenizer: str
    state: Mapping[str, NDArray[Any]]
    words: NDArray[Any]
    heads: int
    sha256: str


def hub_folder() -> Path:
    """Checkpoint folder of torch hub, determined like ``torch.hub.get_dir`` but without torch."""
    cache = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    home = os.environ.get("TORCH_HOME", str(Path(cache) / "torch"))
    return Path(home).expanduser() / "hub" / "checkpoints"


def named_places() -> list[Path]:
    """Files and folders of ``$LIMNER_WEIGHTS``, separated as in ``$PATH``.

    Raises:
        MissingError: one of them does not exist.
    """
    places = [Path(word).expanduser() for word in os.environ.get(VARIABLE, "").split(os.pathsep) if word]
    for place in places:
        if not place.exists():
            raise MissingError(f"${VARIABLE}: {place} does not exist; correct or unset the variable")
    return places


def belongs_to(path: Path, name: str) -> bool:
    """Whether a file is named after an architecture.

    The stem must be the name itself or continue with ``-``, ``_`` or ``.``: ``resnet50.safetensors``,
    ``resnet50-0676ba61.pth`` and ``resnet50_mine.pt`` belong to ``resnet50``, ``resnet50x.pth`` does not.
    """
    stem, wanted = path.stem.lower(), name.lower()
    return path.suffix.lower() in SUFFIXES and (
        stem == wanted or (stem.startswith(wanted) and stem[len(wanted)] in "-_.")
    )


def files_in(place: Path, name: str) -> list[Path]:
    """Files of an architecture in a folder (not its subfolders), or the file itself."""
    return [path for path in _listed(place) if belongs_to(path, name)]


def _listed(place: Path) -> list[Path]:
    """Files in a folder, or the file itself."""
    within = place.iterdir() if place.is_dir() else [place]
    return sorted(path for path in within if path.is_file())


def find(name: str, given: Path | None = None, official: str = "", *, published: bool = True) -> WeightFile:
    """Find the weight file of an architecture: given, ``$LIMNER_WEIGHTS``, then the torch hub cache.

    Args:
        name: architecture, such as ``resnet50``.
        given: a file of any name, or a folder searched by `belongs_to`.
        official: its publisher's file name, preferred if a folder contains several files.
        published: whether 'limner models get' knows it.
    Raises:
        MissingError: there is none; the message says what to run.
        CheckpointError: a folder contains several candidates and none is the obvious one.
    """
    if given is not None:
        if given.is_file():
            return WeightFile(given)
        if not given.is_dir():
            raise MissingError(f"weights of {name}: {given} does not exist; check the path")
        places = [(given, "given")]
    else:
        places = [(place, VARIABLE) for place in named_places()] + [(hub_folder(), "torch hub cache")]
    for place, origin in places:
        found = files_in(place, name)
        if found:
            return WeightFile(_obvious(name, found, official), origin)
    looked = ", ".join(str(place) for place, _ in places)
    get = f"run 'limner models get {name}' or " if published else ""
    raise MissingError(f"no weights of {name} (looked in {looked}); {get}pass --weights {name}=FILE")


def find_clip(architecture: str, given: Path | None = None, known: Sequence[str] = ()) -> WeightFile:
    """Find the tensors of an open_clip architecture: like `find`, then the cache of Hugging Face.

    Args:
        architecture: open_clip's name.
        given: see `find`.
        known: all of open_clip's names, so that a name is not mistaken for a longer one.
    Raises:
        MissingError: there are none.
        CheckpointError: there are several candidates and none is the obvious one.
    """
    try:
        return find(architecture, given)
    except MissingError:
        if given is not None and not given.exists():
            raise
        cached = [path for name, path in _cached_clip() if of_clip(name, architecture, known)]
        if given is None and cached:
            return WeightFile(_one_snapshot(architecture, cached), "open_clip cache")
    raise MissingError(
        f"no weights of clip:{architecture}; run 'limner models get clip:{architecture}'"
        " or name open_clip's file of them by --weights FILE"
    )


def of_clip(name: str, architecture: str, known: Sequence[str] = ()) -> bool:
    """Whether a model or file is named after an open_clip architecture and not after a longer one.

    Args:
        name: such as ``CLIP-ViT-B-32-laion2B-s34B-b79K`` or ``ViT-B-16-SigLIP2``.
        architecture: such as ``ViT-B-32``.
        known: all architectures.
    """
    whole = f"-{name}-".lower()
    named = [one for one in (architecture, *known) if f"-{one}-".lower() in whole]
    return architecture in named and len(max(named, key=len)) == len(architecture)


def _cached_clip() -> list[tuple[str, Path]]:
    """(model, file) of open_clip's files in the cache of Hugging Face."""
    return sorted(
        (snapshot.parents[1].name.rpartition("--")[2], path)
        for snapshot in hf_folder().glob("models--*/snapshots/*")
        for path in (snapshot / "open_clip_model.safetensors", snapshot / "open_clip_pytorch_model.bin")
        if path.is_file()
    )


def _one_snapshot(architecture: str, cached: list[Path]) -> Path:
    """The only cached model, safetensors before pickle; if there are several, the user must choose."""
    if len({path.parents[2] for path in cached}) > 1:
        names = ", ".join(sorted({path.parents[2].name for path in cached}))
        raise CheckpointError(
            f"clip:{architecture}: the cache holds several ({names}); name the one meant by --weights FILE"
        )
    return min(cached, key=lambda path: path.suffix != ".safetensors")


def hf_folder() -> Path:
    """Model cache of Hugging Face, determined like ``huggingface_hub`` but without it."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache"))
    home = Path(os.environ.get("HF_HOME", str(cache / "huggingface")))
    return Path(os.environ.get("HF_HUB_CACHE", str(home / "hub"))).expanduser()


def _obvious(name: str, found: list[Path], official: str) -> Path:
    """Choose among several files: NAME itself, or else the publisher's file name."""
    for choice in (
        found,
        [path for path in found if path.stem.lower() == name.lower()],
        [path for path in found if path.name == official],
    ):
        if len(choice) == 1:
            return choice[0]
    names = ", ".join(path.name for path in found)
    raise CheckpointError(
        f"weights of {name}: {found[0].parent} holds {names}; pass the one meant by --weights {name}=FILE"
    )


def read_state(file: WeightFile) -> dict[str, Tensor]:
    """Read parameter name → tensor from a safetensors file or a torch archive, without running its code.

    If a checkpoint has its parameters under ``state_dict``, next to an epoch and the like, these are used;
    the prefix ``module.`` of torch's DataParallel is removed.

    Raises:
        MissingError: the file cannot be opened.
        CheckpointError: it is damaged, contains anything but named tensors, would run code, or has values
            that are not finite.
    """
    import torch
    from safetensors.torch import load_file

    path = file.path
    safe = path.suffix.lower() == ".safetensors"
    with _reading(path, safe=safe):
        if safe:
            content: object = load_file(path)
        else:
            with warnings.catch_warnings():
                # A newer pickle protocol either reads or is refused below; no second message.
                warnings.filterwarnings("ignore", message="Detected pickle protocol")
                content = torch.load(path, map_location="cpu", weights_only=True)
    if isinstance(content, Mapping) and isinstance(content.get("state_dict"), Mapping):
        content = content["state_dict"]
    if not isinstance(content, Mapping) or not content:
        raise CheckpointError(f"{path}: holds {type(content).__name__}, expected parameter name → tensor")
    for key, value in content.items():
        if not isinstance(key, str) or not isinstance(value, torch.Tensor):
            raise CheckpointError(
                f"{path}: entry {key!r} is {type(value).__name__}, expected a tensor; "
                "save the state dict alone"
            )
        if value.is_floating_point() and not bool(torch.isfinite(value).all()):
            raise CheckpointError(f"{path}: parameter {key} is not finite; get the file again")
    whole = all(name.startswith(_PARALLEL) for name in content)
    return {name.removeprefix(_PARALLEL) if whole else name: tensor for name, tensor in content.items()}


@contextmanager
def _reading(path: Path, *, safe: bool = True) -> Iterator[None]:
    """Convert errors of reading a weight file to one line."""
    try:
        yield
    except OSError as error:
        raise MissingError(f"{path}: cannot be read ({error.strerror or error}); check the path") from error
    except MemoryError:
        raise
    # A malicious or damaged file can make its reader fail in any way; nothing has been loaded then.
    except Exception as error:
        if not safe:
            raise CheckpointError(
                f"{path}: refused, it holds more than tensors or is damaged; "
                "save a plain state dict as safetensors"
            ) from error
        detail = " ".join(str(error).split())[:120]
        raise CheckpointError(f"{path}: damaged or no weight file ({detail}); get it again") from error


class Arrays(Mapping[str, NDArray[Any]]):
    """Parameter name → array of a safetensors file, each read when requested, without torch.

    Attributes:
        metadata: metadata of the file.
    """

    def __init__(self, path: Path) -> None:
        """Read the names.

        Raises:
            MissingError: the file cannot be opened.
            CheckpointError: the file is truncated or not in safetensors format.
        """
        self._path = path
        with _reading(path), safe_open(path, "np") as file:
            self._names = frozenset(file.keys())
            self.metadata: dict[str, str] = file.metadata() or {}

    def __getitem__(self, name: str) -> NDArray[Any]:
        """Copy of one parameter.

        Raises:
            KeyError: the name is unknown.
            CheckpointError: a value is not finite.
        """
        if name not in self._names:
            raise KeyError(name)
        with _reading(self._path), safe_open(self._path, "np") as file:
            found: NDArray[Any] = file.get_tensor(name)
        # a sum takes a third of the time, and is finite only if all values are
        if not np.isfinite(found.sum()) and not np.isfinite(found).all():
            raise CheckpointError(f"{self._path}: parameter {name} is not finite; get the file again")
        return found

    def mapped(self, name: str) -> NDArray[Any]:
        """One parameter in the memory of the file; what is used of it is read, and is not checked.

        Raises:
            CheckpointError: there is no such parameter.
        """
        with _reading(self._path), self._path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            entry = json.loads(file.read(size))[name]
            start = 8 + size + entry["data_offsets"][0]
            return np.asarray(np.memmap(file, _MAPPED[entry["dtype"]], "r", start, tuple(entry["shape"])))

    def __contains__(self, name: object) -> bool:
        """Whether there is such a parameter; it is not read."""
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        """All names."""
        return iter(sorted(self._names))

    def __len__(self) -> int:
        """Number of parameters."""
        return len(self._names)


def load_strictly(model: nn.Module, state: Mapping[str, Tensor], where: str) -> None:
    """Load parameters into a model with strict keys, floating-point ones as float32.

    Raises:
        CheckpointError: a key is missing, unknown, or of another shape.
    """
    import torch

    # only counters of batch norm may be missing (older files have none); they are not used
    counters = {key: torch.tensor(0) for key in model.state_dict() if key.endswith("num_batches_tracked")}
    filled = {key: value.float() if value.is_floating_point() else value for key, value in state.items()}
    try:
        model.load_state_dict(counters | filled, assign=True)
    except RuntimeError as error:
        reason = str(error).partition(":")[2].strip(" .\n\t")
        raise CheckpointError(
            f"{where}: {textwrap.shorten(reason, _LONGEST_REASON)}; the file is of another architecture"
        ) from error


SHIPPED_SENTENCES = (
    Path(__file__).with_name("minilm.safetensors"),
    Path(__file__).with_name("minilm.tokenizer.json"),
)
"""MiniLM as it comes with limner: tensors in half precision, and the tokenizer."""


def stamp(paths: Iterable[Path]) -> tuple[tuple[str, int, int], ...]:
    """Path, size and modification time of each file.

    Raises:
        MissingError: a file does not exist.
    """
    try:
        found = [(path, path.stat()) for path in paths]
    except OSError as error:
        raise MissingError(f"{error.filename}: cannot be read ({error.strerror}); reinstall it") from error
    return tuple((str(path), status.st_size, status.st_mtime_ns) for path, status in found)


def shipped_sentences() -> SentenceFiles:
    """Read the MiniLM that comes with limner; its hash is that of the published model.

    Raises:
        MissingError: a file does not exist.
        CheckpointError: a file is damaged.
    """
    tensors, tokenizer = SHIPPED_SENTENCES
    state = Arrays(tensors)
    with _reading(tokenizer):
        text = tokenizer.read_text(encoding="utf-8")
    try:
        heads, source = int(state.metadata["heads"]), state.metadata["source"]
    except KeyError as error:
        raise CheckpointError(f"{tensors}: says no {error}; reinstall limner") from error
    return SentenceFiles(text, state, state.mapped(_WORDS), heads, source)


def save_half(files: SentenceFiles, path: Path) -> None:
    """Write the tensors of a sentence encoder in half precision, as `shipped_sentences` reads them.

    Args:
        files: files of the published model, see `read_sentence_files`.
        path: path ending in ``.safetensors``.
    """
    half = {
        name: value.astype(np.float16) if value.dtype.kind == "f" else value
        for name, value in files.state.items()
    }
    write_bytes(path, save(half, metadata={"source": files.sha256, "heads": str(files.heads)}))


def read_sentence_files(folder: Path) -> SentenceFiles:
    """Read a sentence encoder's folder in Hugging Face's layout.

    Raises:
        MissingError: one of its files is missing.
        CheckpointError: a file is damaged.
    """
    try:
        tokenizer = (folder / "tokenizer.json").read_text(encoding="utf-8")
        heads = json.loads((folder / "config.json").read_text(encoding="utf-8"))["num_attention_heads"]
    except OSError as error:
        raise MissingError(f"{error.filename}: cannot be read ({error.strerror}); reinstall it") from error
    except (ValueError, KeyError) as error:
        raise CheckpointError(f"{folder}/config.json: damaged ({error}); reinstall it") from error
    tensors = WeightFile(folder / "model.safetensors", "package")
    joined = hashlib.sha256(tokenizer.encode() + tensors.sha256.encode()).hexdigest()
    state = Arrays(tensors.path)
    return SentenceFiles(tokenizer, state, state.mapped(_WORDS), int(heads), joined)
