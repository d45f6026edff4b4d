"""Encoders and channels as commands name them, for indexing and for asking a library.

``auto`` takes what is installed and says what it took. It loads through the catalogue and trains nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from limner.devices import Precision, checked_device, usual_precision
from limner.encoders.base_encoder import made_by as shipped_now
from limner.encoders.catalogue import (
    COLOUR,
    MULTILINGUAL,
    SENTENCES,
    SHIPPED,
    better_encoder,
    clip_encoder,
    image_encoder,
    image_encoders,
    sentence_encoder,
    text_encoder,
    usual_encoders,
    weight_file,
)
from limner.encoders.clip_files import CLIP, clips_at
from limner.encoders.openvino import Engine
from limner.encoders.text_cache import RecentTexts
from limner.encoders.weight_files import PREFIX
from limner.errors import CheckpointError, ConfigError, DataError, unknown
from limner.language import ENGLISH
from limner.pictures.decode import decode
from limner.pictures.formats import PictureError
from limner.store.channels import COSINE, Channel
from limner.store.home import spaces_of
from limner.store.library import Library
from limner.store.store import SpaceInfo

if TYPE_CHECKING:
    from limner.arrays import FloatArray, ImageEncoder, SentenceEncoder, TextEncoder
    from limner.match.trained import TrainedRun
    from limner.progress import Progress
    from limner.store.known import IndexReport


AUTO = "auto"
DEFAULT = SHIPPED[0]
DEFAULT_BACKBONE = "resnet50"
# Channels, each a space of a library, the most telling first. Captions and class names are both sentences.
CHANNELS = ("captions", "multilingual", "clip", "base", "labels")
# Spaces that can compare two pictures, the most telling first. What pictures are said to show tells
# more about their story than how they look, where most of them have words.
PAIR_SPACES = ("captions", "looks", "visual", "clip", "colour")
WORDED = ("captions",)
"""Those of them that hold words, not pixels."""


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
    engine: Engine = "auto",
    device: str = "cpu",
    sentences: TextEncoder | None = None,
    runs: Sequence[TrainedRun] = (),
) -> list[ImageEncoder]:
    """Encoders for indexing.

    Args:
        names: of the catalogue, or ``auto``: what ``--weights`` names, else
            `limner.encoders.catalogue.usual_encoders`.
        weights: as given to ``--weights``.
        made: spaces that the library has.
        precision: of backbones; None for that of the vectors that the library has, else bfloat16, or float32
            on CPUs that are slow in that.
        engine: what runs backbones on a CPU.
        device: what computes, as `limner.devices.device_of` takes it; runs lie on theirs already.
        sentences: embeds class names.
        runs: trained runs that look at the pictures as well; their encoders come last.
    Raises:
        ConfigError: unknown name.
        MissingError: weights of a name that was asked for are not there.
        CheckpointError: see `limner.research.runs.run.Run.encoder`.
    """
    places = weights_by_name(weights)
    chosen = list(names)
    if AUTO in chosen:
        if chosen != [AUTO]:
            raise ConfigError("--encoder: auto stands alone; name the encoders or leave the option out")
        chosen = _automatic(places, made)
    # The runs first: what is wrong with them is said before other encoders are loaded.
    trained: list[ImageEncoder] = [run.encoder(places) for run in runs]
    opened: list[ImageEncoder] = []
    for name in chosen:
        given = places.get(name, places.get(""))
        if name.startswith(CLIP):
            if engine == "torch":
                raise ConfigError(f"{name}: runs by OpenVINO, not by torch; leave --engine out")
            theirs = made["clip"].fingerprint if "clip" in made else ""
            opened.append(clip_encoder(name, weights=given, precision=precision, made=theirs))
            continue
        load = partial(image_encoder, name, weights=given, engine=engine, device=device, sentences=sentences)
        # Colours have no precision.
        opened.append(
            load(precision=precision or "bfloat16")
            if precision or name == COLOUR
            else _as_made(load, made, device, by_torch=name not in SHIPPED or engine == "torch")
        )
    return opened + trained


def _as_made(
    load: Callable[..., ImageEncoder], made: Mapping[str, SpaceInfo], device: str, *, by_torch: bool
) -> ImageEncoder:
    """An encoder in the precision that a library's vectors are of, if they are its own; else as usual."""
    usual = load(precision="bfloat16")
    held = [made[space] for space in usual.spaces if space in made] if made else []
    theirs = {one.fingerprint for one in held if one.encoder == usual.name}
    if theirs:
        others = (load(precision=precision) for precision in ("float32", "float16"))
        found = next((one for one in chain([usual], others) if theirs == {one.fingerprint}), None)
        if found is not None:
            return found
    # Another precision is loaded only where it is wanted.
    # OpenVINO multiplies in float32 itself where a processor is slow in less.
    quick = not by_torch or usual_precision(device) == "bfloat16"
    return usual if quick else load(precision="float32")


def _automatic(places: dict[str, Path], made: Mapping[str, SpaceInfo]) -> list[str]:
    """What was named by its weights, else the usual encoders of a library with these spaces."""
    named = [name for name in places if name]
    if named:
        return named[:1]
    if places:
        clips = [one.name for one in clips_at(places[""])]
        if not clips:
            weight_file(DEFAULT_BACKBONE, places[""])
        return clips[:1] or [DEFAULT_BACKBONE]
    return usual_encoders([one.encoder for one in made.values()])


def eyes_of(
    library: Library,
    *,
    weights: Sequence[str] = (),
    device: str = "cpu",
    runs: Sequence[TrainedRun] = (),
) -> list[ImageEncoder]:
    """The encoders by which a library's pictures are compared by their looks, as it was indexed with them.

    Args:
        library: the pictures.
        weights: as of `picture_encoders`.
        device: likewise.
        runs: trained runs that compare pictures.
    Raises:
        CheckpointError: the library was indexed by another version of an encoder.
        LimnerError: as `picture_encoders`.
    """
    made = library.settings.spaces
    compared = [made[space] for space in PAIR_SPACES if space in made and space not in WORDED]
    names = list(dict.fromkeys(info.encoder for info in compared))
    found = picture_encoders(names, weights, made=made, device=device, runs=runs)
    for encoder in found:
        if any(made[space].fingerprint != encoder.fingerprint for space in encoder.spaces if space in made):
            raise CheckpointError(
                f"{library.place}: pictures were encoded by another version of {encoder.name}; index again"
            )
    return found


def vectors_of_file(
    encoders: Iterable[ImageEncoder], data: bytes, where: str, suffix: str = ""
) -> dict[str, FloatArray]:
    """How a picture from outside a library looks: space → (1, D) unit rows.

    Args:
        encoders: see `eyes_of`.
        data: the whole file.
        where: its name, for messages.
        suffix: of its name, lower case.
    Raises:
        DataError: no picture, or one beyond the limits of the decoder.
    """
    found: dict[str, FloatArray] = {}
    for encoder in encoders:
        try:
            pixels = encoder.prepare(decode(data, encoder.side_px, suffix).rgb)
        except (PictureError, ValueError, ZeroDivisionError, MemoryError) as error:
            raise DataError(f"{where}: cannot be read as a picture: {error}") from error
        found |= encoder.encode_pixels(pixels[None]).spaces
    return found


def multilingual_encoder(place: str | os.PathLike[str], model: str | None = None) -> SentenceEncoder:
    """What encodes captions in all languages for a library.

    Args:
        place: folder or address of the library, which may not exist yet.
        model: folder or name of a sentence-transformers model; None for the one the library has, or the one
            that comes with limner.
    Raises:
        LimnerError: as `limner.encoders.catalogue.sentence_encoder` and `limner.store.store.read_settings`.
    """
    if model is not None:
        return sentence_encoder(f"{PREFIX}{model}")
    made = spaces_of(place).get("multilingual")
    return sentence_encoder(MULTILINGUAL if made is None else made.encoder)


def add_pictures(
    library: Library | str | os.PathLike[str],
    sources: Sequence[str | os.PathLike[str]],
    *,
    encoders: Sequence[str] = (AUTO,),
    weights: Sequence[str] = (),
    runs: Callable[[str], Iterable[TrainedRun | None]] = lambda device: (),
    precision: Precision | None = None,
    engine: Literal[Engine, "ray"] = "auto",
    address: str | None = None,
    device: str = "auto",
    captions: bool = True,
    sentences: str | None = None,
    follow_links: bool = False,
    verify: bool = False,
    workers: int | None = None,
    approximate_from: int | None = None,
    progress: Progress | None = None,
) -> IndexReport:
    """Bring a library up to date with encoders that are named.

    Args:
        library: a library, or its folder or address, which is made where there is none.
        sources: folders, lists of paths or pictures; none for all indexed so far.
        encoders: names of image encoders, see `picture_encoders`.
        weights: of them.
        runs: device → trained runs that look at the pictures as well, opened there; None is no run.
        precision: of backbones; see `picture_encoders`.
        engine: what runs backbones on a CPU; ray reads and encodes in many processes, see
            `limner.store.cluster`.
        address: of a Ray cluster; None for one on this machine.
        device: what computes, see `limner.devices.device_of`; openvino takes the CPU for auto.
        captions: whether to keep captions.
        sentences: a sentence-transformers model in place of the multilingual encoder.
        follow_links: enter linked folders.
        verify: compare the content of every file.
        workers: threads that decode, or processes of Ray; None for one per core.
        approximate_from: as of `limner.store.ingest.index`.
        progress: shows how far it is.
    Raises:
        LimnerError: as these.
    """
    from limner.store.cluster import ClusterEngine  # who only asks a library needs neither
    from limner.store.ingest import index

    if address is not None and engine != "ray":
        raise ConfigError("--address: a cluster is asked for by --engine ray; add it or drop the address")
    computes = "cpu" if engine == "openvino" and device == "auto" else checked_device(device)
    place = library.place if isinstance(library, Library) else library

    def opened(made: Mapping[str, SpaceInfo]) -> list[ImageEncoder]:
        return picture_encoders(
            encoders,
            weights,
            made=made,
            precision=precision,
            engine="auto" if engine == "ray" else engine,
            device=computes,
            sentences=sentence_encoder(SENTENCES),
            runs=[run for run in runs(computes) if run is not None],
        )

    held = spaces_of(place)
    own = opened(held)
    if computes not in ("auto", "cpu") and all(one.name.startswith(CLIP) for one in own):
        raise ConfigError(f"{own[0].name}: computes on the CPU, not on {computes}; leave --device out")
    better = "" if held or list(encoders) != [AUTO] else better_encoder([one.name for one in own])
    if better and progress is not None:
        progress.note(better)
    # Workers take the precision of this machine, not the one that is usual on theirs.
    made = {
        space: SpaceInfo(encoder=one.name, fingerprint=one.fingerprint, dim=dim)
        for one in own
        for space, dim in one.spaces.items()
    }
    return index(
        sources,
        library,
        image_encoders=own,
        multilingual=multilingual_encoder(place, sentences),
        text_encoder=sentence_encoder(SENTENCES),
        captions=captions,
        follow_links=follow_links,
        verify=verify,
        workers=workers,
        approximate_from=approximate_from,
        engine=ClusterEngine(partial(opened, made), address, workers) if engine == "ray" else None,
        progress=progress,
    )


def channels_of(
    library: Library,
    names: Sequence[str],
    weights: Sequence[str] = (),
) -> list[Channel]:
    """The channels to ask a library with.

    Args:
        library: an indexed library.
        names: channel names; none means every channel that some picture of the library has.
        weights: of clip, as given to ``--weights``; none for the usual places.
    Raises:
        ConfigError: unknown channel, or weights of an unknown encoder.
        DataError: the library has no vectors for a channel that was asked for, or for any.
        CheckpointError: the library's vectors were made by another encoder.
    """
    from limner.match.trained import MODEL  # as below, who adds pictures needs none of this

    spaces = library.settings.spaces
    for name in names:
        if name == MODEL:
            raise ConfigError("--channel: a trained model is no channel to name; give its run with --model")
        if name not in CHANNELS:
            raise ConfigError("--channel: " + unknown("channel", name, CHANNELS))
        if name not in spaces:
            there = ", ".join(channel for channel in CHANNELS if channel in spaces) or "none"
            raise DataError(
                f"{library.place}: no vectors for channel {name!r} (there: {there});"
                " index with an encoder for it"
            )
    held = library.summary().vectors
    # Captions are asked for as one, in whatever language they are.
    named = {*names, *(["multilingual"] if "captions" in names and "multilingual" in spaces else [])}
    chosen = [name for name in CHANNELS if (name in named if names else held.get(name, 0))]
    if not chosen:
        raise DataError(
            f"{library.place}: nothing in this library can be searched by words;"
            " run 'limner index' on it again, without --encoder"
        )
    places = weights_by_name(weights)
    encoders: dict[str, TextEncoder] = {}
    channels = []
    for name in chosen:
        made_by = spaces[name]
        kind = made_by.encoder if name in ("clip", "base", "multilingual") else SENTENCES
        # Class names enter the fingerprint of the picture encoder, not that of the sentences alone.
        same = {"labels": True, "base": kind in SHIPPED and shipped_now(kind, made_by.fingerprint)}
        if name == "clip":
            model = clip_encoder(kind, weights=places.get(kind, places.get("")))
            encoder: TextEncoder = RecentTexts(model)
            same[name] = made_by.fingerprint in model.accepted
        else:
            encoder = _loaded(kind, encoders)
        if not same.get(name, made_by.fingerprint == encoder.fingerprint):
            raise CheckpointError(
                f"{library.place}: {name} were encoded by another version of {encoder.name}; index again"
            )
        reads: frozenset[str] | None = frozenset((ENGLISH,))
        if name == "base":
            reads = sentence_encoder(MULTILINGUAL).reads
        if name == "multilingual":
            reads = sentence_encoder(kind).reads
            if reads is not None and held.get("captions", 0) >= held.get("multilingual", 0):
                reads -= {ENGLISH}  # all captions are English, and MiniLM reads those better
        channels.append(Channel(name, encoder, name, COSINE, reads=reads))
    return channels


def _loaded(kind: str, encoders: dict[str, TextEncoder]) -> TextEncoder:
    """A text encoder by name that remembers its last texts; each is loaded once."""
    if kind not in encoders:
        from limner.match.languages import foreign

        encoders[kind] = RecentTexts(
            text_encoder(
                kind,
                sentences=_loaded(SENTENCES, encoders),
                multilingual=_loaded(MULTILINGUAL, encoders),
                foreign=foreign,
            )
            if kind in SHIPPED
            else text_encoder(kind)
        )
    return encoders[kind]
