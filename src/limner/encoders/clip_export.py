"""Export of models of open_clip (extras ``clip`` and ``research``) to folders that limner runs without torch.

`limner.encoders.clip_files` describes such a folder, and `limner.encoders.clip` runs it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_args

import torch
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, processors
from torch import Tensor, nn

from limner.devices import Precision
from limner.encoders.clip_fetch import make_clip
from limner.encoders.clip_files import TOKENIZER, ClipCard, folder_of
from limner.encoders.framing import Framing
from limner.encoders.openvino import save_tower
from limner.encoders.weight_files import CLIP, find_clip, load_strictly, of_clip, read_state
from limner.errors import CheckpointError, ConfigError, MissingError, installed, unknown

TOKENIZER_FILES = (TOKENIZER, "tokenizer_config.json")
"""Files of a model's own tokenizer, in Hugging Face's layout."""
WEIGHT_FILES = ("open_clip_model.safetensors", "open_clip_pytorch_model.bin")
"""File names of a repository's weights, in open_clip's order of preference."""
USUAL = ("datacomp_xl", "laion2b", "webli")
"""Prefixes of the tags of an architecture's default weights, the most accurate on ImageNet first."""


def _own_tokenizer(architecture: str, folder: Path) -> tuple[str, int]:
    """Content of a tokenizer in Hugging Face's layout, and the id of its padding piece.

    Raises:
        MissingError: its files do not exist.
        CheckpointError: they are damaged.
    """
    if not all((folder / name).is_file() for name in TOKENIZER_FILES):
        raise MissingError(
            f"clip: {architecture} needs {' and '.join(TOKENIZER_FILES)} beside its weights; run"
            f" 'limner models get {CLIP}{architecture}' or copy them there"
        )
    try:
        content = (folder / TOKENIZER_FILES[0]).read_text(encoding="utf-8")
        pad = json.loads((folder / TOKENIZER_FILES[1]).read_text(encoding="utf-8"))["pad_token"]
        number = Tokenizer.from_str(content).token_to_id(pad["content"] if isinstance(pad, dict) else pad)
        if number is None:
            raise ValueError(f"no piece {pad!r}")
    except OSError as error:
        raise MissingError(f"{error.filename}: cannot be read ({error.strerror})") from error
    except Exception as error:  # the reader raises bare exceptions
        raise CheckpointError(f"{folder}: tokenizer damaged ({' '.join(str(error).split())[:80]})") from error
    return content, int(number)


def architectures(wanted: str | None = None) -> list[str]:
    """Names of the architectures that open_clip knows.

    Args:
        wanted: name that must be one of them.
    Raises:
        ConfigError: it is not.
        MissingError: the extra is not installed.
    """
    known = list(_open_clip().list_models())
    if wanted is not None and wanted not in known:
        raise ConfigError("clip: " + unknown("architecture", wanted, known))
    return known


def _open_clip() -> Any:  # noqa: ANN401  (an optional, untyped module)
    """Import open_clip, or raise an error with advice."""
    with installed("open_clip", "'limner[clip]'"):
        import open_clip
    return open_clip


def clip_tokenizer(architecture: str) -> str:
    """CLIP's own tokenizer, which comes with open_clip, as the content of a tokenizer file.

    Its pattern is open_clip's as interpreted by the package ``regex``, whose case folding makes U+0345
    neither a letter nor another character.
    """
    made = _open_clip().get_tokenizer(architecture)
    first, last = (made.decoder[number] for number in (made.sot_token_id, made.eot_token_id))
    pattern = r"'[sſ]|'t|'re|'ve|'m|'ll|'d|\p{L}+|\p{N}|[^\s\p{L}\p{N}\x{345}]+"
    tokenizer = Tokenizer(
        models.BPE(vocab=dict(made.encoder), merges=list(made.bpe_ranks), end_of_word_suffix="</w>")
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pattern), "removed", invert=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{first} $A {last}",
        special_tokens=[(first, made.sot_token_id), (last, made.eot_token_id)],
    )
    return str(tokenizer.to_str())


def _published(architecture: str) -> dict[str, Any]:
    """Preprocessing of an architecture's published weights, if it is the same for all; otherwise {}."""
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
        tag: tag of the weights; "" for the default ones.
    Raises:
        ConfigError: the architecture or tag is unknown, or there are several weights without a default and
            none is named.
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
            f" run 'limner models export clip:{architecture} --weights FILE'"
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
    """Size of a repository's weights in megabytes, and the licence that it states, or "".

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
    """Download published weights and their tokenizer into Hugging Face's cache, where `find_clip` looks.

    Args:
        architecture: open_clip's name.
        tag: see `published_clip`.
    Raises:
        ConfigError: see `published_clip`.
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
    """Convert network errors to one line."""
    try:
        yield
    except Exception as error:  # of any library used for the download
        reason = " ".join(str(error).split())[:120]
        raise MissingError(f"clip: {what} could not be fetched ({reason}); try again later") from error


class _Side(nn.Module):
    """One encoder of a dual model."""

    def __init__(self, model: nn.Module, *, texts: bool) -> None:
        super().__init__()
        self.model, self.texts = model, texts

    def forward(self, values: Tensor) -> Tensor:
        """(B, …) → (B, D)."""
        model: Any = self.model
        rows: Tensor = model.encode_text(values) if self.texts else model.encode_image(values)
        return rows


def export_clip(name: str, weights: Path | None = None, target: Path | None = None) -> Path:
    """Export a model of open_clip to a folder that limner runs without torch.

    Args:
        name: ``clip:ARCHITECTURE``; weights published by OpenAI need the names that end in ``-quickgelu``.
        weights: a file of its tensors, or a folder to look in; None for the default folders. An architecture
            with its own tokenizer needs `TOKENIZER_FILES` next to it.
        target: folder to create; None for the one where limner looks.
    Returns:
        The folder.
    Raises:
        MissingError: the extra, the weights or the tokenizer's files are missing, or the disk cannot be
            written.
        ConfigError: the architecture is unknown or not supported, or the folder already exists.
        CheckpointError: the tensors do not match the architecture, or the tokenizer is damaged.
    """
    open_clip, architecture = _open_clip(), name.removeprefix(CLIP)
    file = find_clip(architecture, weights, architectures(architecture))
    target = target or folder_of(architecture)
    if target.exists():
        raise ConfigError(f"{target}: already exists; remove it or name another folder with --output")
    config = open_clip.get_model_config(architecture)
    text = config["text_cfg"]
    settings = text.get("tokenizer_kwargs", {})
    if text.get("hf_model_name") or settings.get("strip_sep_token"):
        raise ConfigError(
            f"clip: the text side of {architecture} comes from another library; choose a ViT or RN one"
        )
    published = _published(architecture)
    own = bool(text.get("hf_tokenizer_name"))
    clean = settings.get("clean", "whitespace" if own else "lower")
    content, pad = (
        _own_tokenizer(architecture, file.path.parent) if own else (clip_tokenizer(architecture), 0)
    )
    kinds = {one.get("interpolation") for _, one in _pretrained(architecture)}
    with torch.random.fork_rng(devices=[]):  # all random initial values are replaced
        model = open_clip.create_model(architecture, pretrained=None, load_weights=False)
    load_strictly(model, read_state(file), str(file.path))
    model = model.eval().requires_grad_(requires_grad=False)
    size = model.visual.image_size
    side_px = int(size[0] if isinstance(size, tuple) else size)
    scaling = published.get("resize_mode") or "shortest"
    if scaling not in ("shortest", "squash"):
        raise ConfigError(f"clip: {architecture} wants padding around pictures, which limner does not do")
    mean = published.get("mean") or model.visual.image_mean or open_clip.OPENAI_DATASET_MEAN
    std = published.get("std") or model.visual.image_std or open_clip.OPENAI_DATASET_STD
    context = int(model.context_length)

    def bring(draft: Path) -> ClipCard:
        save_tower(draft / "image.xml", _Side(model, texts=False), torch.zeros(2, 3, side_px, side_px))
        save_tower(draft / "text.xml", _Side(model, texts=True), torch.zeros(2, context, dtype=torch.long))
        (draft / TOKENIZER).write_text(content, encoding="utf-8", newline="")
        described = f" tokenizer={hashlib.sha256(content.encode()).hexdigest()} pad={pad} clean={clean}"
        return ClipCard(
            architecture=architecture,
            source=f"open_clip {open_clip.__version__}, {file.path.name}",
            licence="",
            weights=file.sha256,
            dim=int(config["embed_dim"]),
            side_px=side_px,
            mean=tuple(mean),
            std=tuple(std),
            resize="squash" if scaling == "squash" else "shortest",
            interpolation="bilinear" if kinds == {"bilinear"} else "bicubic",
            context=context,
            pad=pad,
            clean=clean,
            image="image.xml",
            text="text.xml",
            sha256={},
            earlier={
                precision: earlier_fingerprint(
                    architecture,
                    file.sha256,
                    precision,
                    "squash" if scaling == "squash" else "crop",
                    described if own else "",
                )
                for precision in get_args(Precision)
            },
        )

    make_clip(target, bring)
    return target


def earlier_fingerprint(
    architecture: str, sha256: str, precision: Precision, framing: Framing, tokenizer: str = ""
) -> str:
    """Fingerprint that limner gave image vectors of some weights when torch computed them.

    Args:
        architecture: open_clip's name.
        sha256: SHA-256 of the weights.
        precision: precision of the image encoder.
        framing: framing of pictures.
        tokenizer: part of the fingerprint for a tokenizer of its own.
    """
    said = f"clip/1 {architecture} {sha256} {precision} {framing}{tokenizer}"
    return hashlib.sha256(said.encode()).hexdigest()
