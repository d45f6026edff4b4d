"""Encoders and channels as commands name them, for indexing and for asking a library.

``auto`` takes what is installed and says what it took. It loads through the catalogue and trains nothing.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from limner.devices import Precision, device_of
from limner.encoders.catalogue import (
    CLIP,
    MULTILINGUAL,
    SENTENCES,
    SHIPPED,
    clip_models,
    image_encoder,
    image_encoders,
    sentence_encoder,
    text_encoder,
    weight_file,
)
from limner.encoders.text_cache import RecentTexts
from limner.encoders.weight_files import PREFIX
from limner.errors import CheckpointError, ConfigError, DataError, LimnerWarning, unknown
from limner.language import ENGLISH
from limner.library.channels import Channel
from limner.library.ingest import index
from limner.library.library import Library
from limner.library.store import SETTINGS_FILE, SpaceInfo, read_settings
from limner.storyboard.calibration import Calibration
from limner.storyboard.languages import foreign
from limner.storyboard.trained import MODEL, TrainedRun

if TYPE_CHECKING:
    from limner.arrays import ImageEncoder, SentenceEncoder, TextEncoder
    from limner.library.known import IndexReport
    from limner.library.library import LibrarySummary
    from limner.progress import Progress


AUTO = "auto"
DEFAULT = SHIPPED[0]
DEFAULT_BACKBONE = "resnet50"
# Channels, each a space of a library, the most telling first. Captions and class names are both sentences.
CHANNELS = ("captions", "multilingual", "clip", "base", "labels")
# Spaces that can compare two pictures, the most telling first. What pictures are said to show tells
# more about their story than how they look, where most of them have words.
PAIR_SPACES = ("captions", "looks", "visual", "clip", "colour")
CAPTIONED = 0.5


def weights_by_name(words: Sequence[str]) -> dict[str, Path]:
    """``NAME=FILE`` words and bare folders as a map; a bare folder or file serves every name as "".

    Raises:
        ConfigError: an unknown encoder name, or one whose file comes with limner.
    """
    found: dict[str, Path] = {}
    for word in words:
        name, equals, place = word.partition("=")
        if not equals:
            found[""] = Path(word).expanduser()
            continue
        if name not in image_encoders() and not name.startswith(CLIP):
            raise ConfigError("--weights: " + unknown("image encoder", name, image_encoders()))
        if name in SHIPPED:
            raise ConfigError(f"--weights: {name} comes with limner and takes no other file; drop {word!r}")
        found[name] = Path(place).expanduser()
    return found


def picture_encoders(
    names: Sequence[str],
    weights: Sequence[str],
    *,
    made: Mapping[str, SpaceInfo] = MappingProxyType({}),
    precision: Precision | None = None,
    engine: Literal["torch", "openvino"] = "torch",
    device: str = "cpu",
    sentences: TextEncoder | None = None,
    runs: Sequence[TrainedRun] = (),
) -> list[ImageEncoder]:
    """Encoders for indexing.

    Args:
        names: of the catalogue, or ``auto``: what ``--weights`` names; else CLIP where it is installed and
            one model is in reach; else the eyes that come with limner.
        weights: as given to ``--weights``.
        made: spaces that the library has.
        precision: of backbones; None for that of the vectors that the library has, else bfloat16.
        engine: what runs backbones.
        device: torch device that computes; runs lie on theirs already.
        sentences: embeds class names.
        runs: trained runs that look at the pictures as well; their encoders come last.
    Raises:
        ConfigError: unknown name.
        MissingError: weights of a name that was asked for are not there.
        CheckpointError: see `limner.runs.run.Run.encoder`.
    """
    places = weights_by_name(weights)
    chosen = list(names)
    if AUTO in chosen:
        if chosen != [AUTO]:
            raise ConfigError("--encoder: auto stands alone; name the encoders or leave the option out")
        chosen = [_automatic(places)]
    # The runs first: what is wrong with them is said before other encoders are loaded.
    trained: list[ImageEncoder] = [run.encoder(places) for run in runs]
    opened: list[ImageEncoder] = []
    for name in chosen:
        given = places.get(name, places.get(""))
        load = partial(image_encoder, name, weights=given, engine=engine, device=device, sentences=sentences)
        opened.append(load(precision=precision) if precision else _as_made(load, made))
    return opened + trained


def _as_made(load: Callable[..., ImageEncoder], made: Mapping[str, SpaceInfo]) -> ImageEncoder:
    """An encoder in the precision that a library's vectors are of, if they are its own; else in bfloat16."""
    usual = load(precision="bfloat16")
    held = [made[space] for space in usual.spaces if space in made] if made else []
    theirs = {one.fingerprint for one in held if one.encoder == usual.name}
    if not theirs or theirs == {usual.fingerprint}:
        return usual
    others = (load(precision=precision) for precision in ("float32", "float16"))
    return next((one for one in others if theirs == {one.fingerprint}), usual)


def _automatic(places: dict[str, Path]) -> str:
    """The best encoder there is."""
    named = [name for name in places if name]
    if named:
        return named[0]
    if places:
        weight_file(DEFAULT_BACKBONE, places[""])
        return DEFAULT_BACKBONE
    found = clip_models()
    if len(found) > 1:
        several = f"several CLIP models are there ({', '.join(found)}): {DEFAULT} is taken; name one of them"
        warnings.warn(several, LimnerWarning, stacklevel=2)
    return found[0] if len(found) == 1 else DEFAULT


def multilingual_encoder(folder: Path, model: str | None = None) -> SentenceEncoder:
    """What encodes captions in all languages for a library.

    Args:
        folder: of the library, which may not exist yet.
        model: folder or name of a sentence-transformers model; None for the one the library has, or the one
            that comes with limner.
    Raises:
        LimnerError: as `limner.encoders.catalogue.sentence_encoder` and `read_settings`.
    """
    if model is not None:
        return sentence_encoder(f"{PREFIX}{model}")
    made = _spaces(folder).get("multilingual")
    return sentence_encoder(MULTILINGUAL if made is None else made.encoder)


def _spaces(folder: Path) -> dict[str, SpaceInfo]:
    """Those of a library that may not exist yet."""
    return read_settings(folder).spaces if (folder / SETTINGS_FILE).exists() else {}


def add_pictures(
    library: Library | str | os.PathLike[str],
    sources: Sequence[str | os.PathLike[str]],
    *,
    encoders: Sequence[str] = (AUTO,),
    weights: Sequence[str] = (),
    runs: Callable[[str], Iterable[TrainedRun | None]] = lambda device: (),
    precision: Precision | None = None,
    engine: Literal["torch", "openvino"] = "torch",
    device: str = "auto",
    captions: bool = True,
    sentences: str | None = None,
    follow_links: bool = False,
    verify: bool = False,
    workers: int | None = None,
    progress: Progress | None = None,
) -> IndexReport:
    """Bring a library up to date with encoders that are named.

    Args:
        library: a library, or its folder, which is made where there is none.
        sources: folders, lists of paths or pictures; none for all indexed so far.
        encoders: names of image encoders, see `picture_encoders`.
        weights: of them.
        runs: torch device → trained runs that look at the pictures as well, opened there; None is no run.
        precision: of backbones; see `picture_encoders`.
        engine: what runs backbones.
        device: what computes, see `limner.devices.device_of`; openvino takes the CPU for auto.
        captions: whether to keep captions.
        sentences: a sentence-transformers model in place of the multilingual encoder.
        follow_links: enter linked folders.
        verify: compare the content of every file.
        workers: threads that decode; None for one per core.
        progress: shows how far it is.
    Raises:
        LimnerError: as these.
    """
    computes = "cpu" if engine == "openvino" and device == "auto" else device_of(device)
    trained = [run for run in runs(computes) if run is not None]
    minilm = sentence_encoder(SENTENCES)
    folder = library.folder if isinstance(library, Library) else Path(library)
    return index(
        sources,
        library,
        multilingual=multilingual_encoder(folder, sentences),
        image_encoders=picture_encoders(
            encoders,
            weights,
            made=_spaces(folder),
            precision=precision,
            engine=engine,
            device=computes,
            sentences=minilm,
            runs=trained,
        ),
        text_encoder=minilm,
        captions=captions,
        follow_links=follow_links,
        verify=verify,
        workers=workers,
        progress=progress,
    )


def channels_of(
    library: Library,
    names: Sequence[str],
    calibration: Calibration,
    device: str = "cpu",
    weights: Sequence[str] = (),
) -> list[Channel]:
    """The channels to ask a library with.

    Args:
        library: an indexed library.
        names: channel names; none means every channel that some picture of the library has.
        calibration: how cosines become nats.
        device: torch device of the text side of clip; encoders of sentences stay on the CPU.
        weights: of clip, as given to ``--weights``; none for the usual places.
    Raises:
        ConfigError: unknown channel, or weights of an unknown encoder.
        DataError: the library has no vectors for a channel that was asked for, or for any.
        CheckpointError: the library's vectors were made by another encoder.
    """
    spaces = library.settings.spaces
    for name in names:
        if name == MODEL:
            raise ConfigError("--channel: a trained model is no channel to name; give its run with --model")
        if name not in CHANNELS:
            raise ConfigError("--channel: " + unknown("channel", name, CHANNELS))
        if name not in spaces:
            there = ", ".join(channel for channel in CHANNELS if channel in spaces) or "none"
            raise DataError(
                f"{library.folder}: no vectors for channel {name!r} (there: {there});"
                " index with an encoder for it"
            )
    held = library.summary().vectors
    # Captions are asked for as one, in whatever language they are.
    named = {*names, *(["multilingual"] if "captions" in names and "multilingual" in spaces else [])}
    chosen = [name for name in CHANNELS if (name in named if names else held.get(name, 0))]
    if not chosen:
        raise DataError(
            f"{library.folder}: nothing in this library can be searched by words;"
            " run 'limner index' on it again, without --encoder"
        )
    from limner.encoders.base_encoder import made_by as shipped_now

    places = weights_by_name(weights)
    encoders: dict[str, TextEncoder] = {}
    channels = []
    for name in chosen:
        made_by = spaces[name]
        kind = made_by.encoder if name in ("clip", "base", "multilingual") else SENTENCES
        encoder = _loaded(kind, encoders, device, places.get(kind, places.get("")))
        # Class names enter the fingerprint of the picture encoder, not that of the sentences alone.
        same = {"labels": True, "base": kind in SHIPPED and shipped_now(kind, made_by.fingerprint)}
        if not same.get(name, made_by.fingerprint == encoder.fingerprint):
            raise CheckpointError(
                f"{library.folder}: {name} were encoded by another version of {encoder.name}; index again"
            )
        reads: frozenset[str] | None = frozenset((ENGLISH,))
        if name == "base":
            reads = sentence_encoder(MULTILINGUAL).reads
        if name == "multilingual":
            reads = sentence_encoder(kind).reads
            if reads is not None and held.get("captions", 0) >= held.get("multilingual", 0):
                reads -= {ENGLISH}  # all captions are English, and MiniLM reads those better
        channels.append(calibration.channel(name, encoder, reads))
    return channels


def _loaded(
    kind: str, encoders: dict[str, TextEncoder], device: str, weights: Path | None = None
) -> TextEncoder:
    """A text encoder by name that remembers its last texts; each is loaded once."""
    if kind not in encoders:
        encoders[kind] = RecentTexts(
            text_encoder(
                kind,
                sentences=_loaded(SENTENCES, encoders, device),
                multilingual=_loaded(MULTILINGUAL, encoders, device),
                foreign=foreign,
            )
            if kind in SHIPPED
            else text_encoder(kind, weights=weights, device=device)
        )
    return encoders[kind]


def pair_space(held: LibrarySummary, calibration: Calibration, *, captions: bool = True) -> str | None:
    """The space in which two pictures of a library are compared, or None.

    Captions, where at least half of the pictures have some; else the pixels, where that space is calibrated.

    Args:
        held: what the library holds.
        calibration: which spaces can be used for this.
        captions: whether they may be compared.
    """
    captioned = captions and held.vectors.get("captions", 0) >= CAPTIONED * held.pictures
    spaces = (space for space in PAIR_SPACES if space in held.spaces and space in calibration.pairs)
    return next((space for space in spaces if captioned or space != "captions"), None)
