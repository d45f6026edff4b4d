"""Encoders and channels by name, for indexing and for searching a library.

``auto`` uses the installed encoders and reports its choice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from limner.devices import usual_precision
from limner.encoders.base_file import made_by as shipped_now
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
from limner.encoders.weight_files import CLIP, PREFIX
from limner.errors import CheckpointError, ConfigError, DataError, MissingError, unknown
from limner.language import ENGLISH
from limner.store import CAPTION_SPACES, WORDED_SPACES, SpaceInfo
from limner.store import MULTILINGUAL as IN_ALL_LANGUAGES

if TYPE_CHECKING:
    from limner.arrays import FloatArray, ImageEncoder, SentenceEncoder, TextEncoder
    from limner.devices import Engine, Precision
    from limner.encoders.trained import TrainedRun
    from limner.store import Store
    from limner.store.search import Channel


AUTO = "auto"
DEFAULT = SHIPPED[0]
DEFAULT_BACKBONE = "resnet50"
# channels, best first, each with a space of the library; captions and class names are both sentences
CHANNELS = ("captions", "multilingual", "ocr", "clip", "base", "labels")
# Spaces that can compare two pictures, the best first. If most pictures have captions, these tell
# more about their story than their looks.
PAIR_SPACES = ("captions", "looks", "visual", "clip", "colour")
WORDED = ("captions",)
"""Spaces that encode captions, not pixels."""


def weights_by_name(words: Sequence[str]) -> dict[str, Path]:
    """Parse ``NAME=FILE`` and bare paths; a path without a name applies to all encoders, and has the key "".

    Raises:
        ConfigError: the encoder is unknown, or its weights come with limner.
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
            raise ConfigError(f"--weights: {name} comes with limner, without other files; leave {word!r} out")
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
    """Open image encoders for indexing.

    Args:
        names: names of the catalogue, or ``auto``: those of ``--weights``, or else
            `limner.encoders.catalogue.usual_encoders`.
        weights: values of ``--weights``.
        made: spaces of the library.
        precision: precision of backbones; None for that of the library's vectors, or else bfloat16, or
            float32 on CPUs that are slow in bfloat16.
        engine: engine that runs backbones on a CPU.
        device: device, see `limner.devices.device_of`; runs are already on their own device.
        sentences: encoder of class names.
        runs: trained runs whose image encoders are applied too; they come last.
    Raises:
        ConfigError: a name is unknown.
        MissingError: the weights of a requested encoder are missing.
        CheckpointError: see `limner.research.runs.run.Run.encoder`.
    """
    places = weights_by_name(weights)
    chosen = list(names)
    if AUTO in chosen:
        if chosen != [AUTO]:
            raise ConfigError(
                "--encoder: auto cannot be combined with others; name the encoders or leave the option out"
            )
        chosen = _automatic(places, made)
    # runs first, so that their errors are raised before other encoders are loaded
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
        # the encoder of colours has no precision
        opened.append(
            load(precision=precision or "bfloat16")
            if precision or name == COLOUR
            else _as_made(load, made, device, by_torch=name not in SHIPPED or engine == "torch")
        )
    return opened + trained


def _as_made(
    load: Callable[..., ImageEncoder], made: Mapping[str, SpaceInfo], device: str, *, by_torch: bool
) -> ImageEncoder:
    """Open an encoder in the precision of the library's vectors if it made them, otherwise in the default
    precision.
    """
    usual = load(precision="bfloat16")
    held = [made[space] for space in usual.spaces if space in made] if made else []
    theirs = {one.fingerprint for one in held if one.encoder == usual.name}
    if theirs:
        others = (load(precision=precision) for precision in ("float32", "float16"))
        found = next((one for one in chain([usual], others) if theirs == {one.fingerprint}), None)
        if found is not None:
            return found
    # another precision is loaded only if needed
    # OpenVINO itself uses float32 on processors that are slow in lower precision
    quick = not by_torch or usual_precision(device) == "bfloat16"
    return usual if quick else load(precision="float32")


def _automatic(places: dict[str, Path], made: Mapping[str, SpaceInfo]) -> list[str]:
    """Names of the encoders for which weights are given, otherwise the default ones of a library with these
    spaces.
    """
    named = [name for name in places if name]
    if named:
        return named[:1]
    if places:
        from limner.encoders.clip_files import clips_at

        clips = [one.name for one in clips_at(places[""])]
        if not clips:
            weight_file(DEFAULT_BACKBONE, places[""])
        return clips[:1] or [DEFAULT_BACKBONE]
    return usual_encoders([one.encoder for one in made.values()])


def image_encoders_of(
    library: Store,
    *,
    weights: Sequence[str] = (),
    device: str = "cpu",
    runs: Sequence[TrainedRun] = (),
) -> list[ImageEncoder]:
    """Open the image encoders by which the pictures of a library are compared, as used for indexing.

    Args:
        library: the pictures.
        weights: see `picture_encoders`.
        device: see `picture_encoders`.
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
    """Encode a picture that is not in a library: (1, D) unit rows by space.

    Args:
        encoders: see `image_encoders_of`.
        data: content of the file.
        where: name of the file, for messages.
        suffix: extension of the file, lower case.
    Raises:
        DataError: the file is no picture, or exceeds the limits of the decoder.
    """
    from limner.pictures.decode import PictureError, decode

    found: dict[str, FloatArray] = {}
    for encoder in encoders:
        try:
            pixels = encoder.prepare(decode(data, encoder.side_px, suffix).rgb)
        except (PictureError, ValueError, ZeroDivisionError, MemoryError) as error:
            raise DataError(f"{where}: cannot be read as a picture: {error}") from error
        found |= encoder.encode_pixels(pixels[None]).spaces
    return found


def multilingual_encoder(made: Mapping[str, SpaceInfo], model: str | None = None) -> SentenceEncoder:
    """Open the encoder of captions in other languages than English.

    Args:
        made: spaces of the library.
        model: folder or name of a sentence-transformers model; None for that of the library, or else the one
            that comes with limner.
    Raises:
        LimnerError: as `limner.encoders.catalogue.sentence_encoder`.
    """
    if model is not None:
        return sentence_encoder(f"{PREFIX}{model}")
    there = made.get(IN_ALL_LANGUAGES)
    return sentence_encoder(MULTILINGUAL if there is None else there.encoder)


class Encoders(NamedTuple):
    """Encoders for indexing.

    Attributes:
        images: image encoders.
        english, multilingual: encoders of captions; None does not change their vectors.
        again: function that opens the same image encoders in another process, in the same precision.
        better: advice on a better image encoder for a new library, or "".
    """

    images: list[ImageEncoder]
    english: TextEncoder | None
    multilingual: SentenceEncoder | None
    again: Callable[[], list[ImageEncoder]]
    better: str


def encoders_for(
    made: Mapping[str, SpaceInfo],
    names: Sequence[str] | None = (AUTO,),
    *,
    weights: Sequence[str] = (),
    model: Path | TrainedRun | None = None,
    metric: Path | TrainedRun | None = None,
    precision: Precision | None = None,
    engine: Engine = "auto",
    device: str = "cpu",
    sentences: str | None = None,
    language: str = ENGLISH,
    note: Callable[[str], None] = lambda line: None,
) -> Encoders:
    """Choose and open all encoders for indexing a library.

    Args:
        made: spaces of the library; none if it is new.
        names: names of image encoders, see `picture_encoders`; None for those that made the library's
            vectors, or the default ones for a new library.
        weights: see `picture_encoders`.
        model: trained run, or its folder, whose image encoder is applied too.
        metric: trained same-document metric, or its folder, that is applied too.
        precision: see `picture_encoders`.
        engine: see `picture_encoders`.
        device: see `picture_encoders`.
        sentences: sentence-transformers model to use instead of the multilingual encoder.
        language: ISO 639 code of the texts that a new library is for.
        note: function that receives a line about anything left out.
    Raises:
        CheckpointError: the library's own encoders are requested, but it was indexed with another version of
            them, so that all vectors would have to be computed again.
        MissingError: one of them is not known here.
        LimnerError: as `picture_encoders` and `limner.encoders.trained.trained_runs`.
    """
    english = sentence_encoder(SENTENCES)
    captions, multilingual = CAPTION_SPACES
    as_made = names is None and bool(made)
    kept = made if as_made else {}
    if captions in kept and kept[captions].fingerprint != english.fingerprint:
        raise CheckpointError(
            "the library's captions were encoded by another version; add folders with 'limner index'"
        )
    kept = {space: one for space, one in kept.items() if space not in WORDED_SPACES}
    if kept:
        from limner.encoders.trained import DOCUMENT, MODEL, trained_runs

        # names of the image encoders that made them
        made_by = dict.fromkeys(one.encoder for name, one in kept.items() if name not in (MODEL, DOCUMENT))
        names = list(made_by)
        for name in names:
            if name not in image_encoders() and not name.startswith(CLIP):
                raise MissingError(f"the library was made with {name!r}; add folders with 'limner index'")
        opened = [run for run in trained_runs(model, metric, device) if run is not None]
        there = {run.space: run for run in opened if run.space in kept}
        if kept.keys() & {MODEL, DOCUMENT} > there.keys():
            note("new pictures get no vectors of the trained run: the studio was started without it")
        model, metric = there.get(MODEL), there.get(DOCUMENT)
    usual = not made and names in (None, [AUTO], (AUTO,))
    if usual and not weights:
        names = usual_encoders(language=language)
    again = partial(
        _opened,
        [AUTO] if names is None else names,
        weights,
        model=model,
        metric=metric,
        precision=precision,
        engine=engine,
        device=device,
    )
    images = again(made)
    if device not in ("auto", "cpu") and images and all(one.name.startswith(CLIP) for one in images):
        raise ConfigError(f"{images[0].name}: computes on the CPU, not on {device}; leave --device out")
    for encoder in images:
        for space in kept.keys() & encoder.spaces:
            if kept[space].fingerprint != encoder.fingerprint:
                raise CheckpointError(
                    f"{space}: made by other weights of {kept[space].encoder} or in another way;"
                    " start the studio with --weights, or add folders with 'limner index'"
                )
    # workers use the precision of this machine, not their own default
    same = {
        space: SpaceInfo(encoder=one.name, fingerprint=one.fingerprint, dim=dim)
        for one in images
        for space, dim in one.spaces.items()
    }
    worded = made.keys() if as_made else set(CAPTION_SPACES)
    return Encoders(
        images,
        english if captions in worded else None,
        multilingual_encoder(made, sentences) if multilingual in worded else None,
        partial(again, same),
        better_encoder([one.name for one in images], language) if usual else "",
    )


def _opened(
    names: Sequence[str],
    weights: Sequence[str],
    made: Mapping[str, SpaceInfo],
    *,
    model: Path | TrainedRun | None,
    metric: Path | TrainedRun | None,
    precision: Precision | None,
    engine: Engine,
    device: str,
) -> list[ImageEncoder]:
    """Open image encoders as `picture_encoders` does, from plain values that can be sent to a worker of a
    cluster.
    """
    runs: list[TrainedRun] = []
    if (model, metric) != (None, None):
        from limner.encoders.trained import trained_runs

        runs = [run for run in trained_runs(model, metric, device) if run is not None]
    return picture_encoders(
        names,
        weights,
        made=made,
        precision=precision,
        engine=engine,
        device=device,
        sentences=sentence_encoder(SENTENCES),
        runs=runs,
    )


def channels_of(
    library: Store,
    names: Sequence[str],
    weights: Sequence[str] = (),
) -> list[Channel]:
    """Open the channels to search a library with.

    Args:
        library: an indexed library.
        names: names of channels; empty for all that any picture of the library has.
        weights: weights of clip, as for ``--weights``; empty for the default folders.
    Raises:
        ConfigError: a channel is unknown, or weights are of an unknown encoder.
        DataError: the library has no vectors for a requested channel, or for any.
        CheckpointError: the library's vectors were made by another encoder.
    """
    from limner.store.search import COSINE, Channel

    spaces = library.settings.spaces
    for name in names:
        if name == "model":
            raise ConfigError("--channel: a trained run is not a channel; give its folder with --model")
        if name not in CHANNELS:
            raise ConfigError("--channel: " + unknown("channel", name, CHANNELS))
        if name not in spaces:
            there = ", ".join(channel for channel in CHANNELS if channel in spaces) or "none"
            raise DataError(
                f"{library.place}: no vectors for channel {name!r} (available: {there});"
                " index with an encoder for it"
            )
    held = library.vectors()
    # captions of all languages are one channel
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
        # The fingerprint of class names includes the image encoder, not only the sentence encoder.
        same = {"labels": True, "base": kind in SHIPPED and shipped_now(kind, made_by.fingerprint)}
        if name == "clip":
            model = clip_encoder(kind, weights=places.get(kind, places.get("")))
            encoder: TextEncoder = _cached(model)
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
                reads -= {ENGLISH}  # all captions are English, which MiniLM encodes better
        channels.append(Channel(name, encoder, name, COSINE, reads=reads))
    return channels


def _loaded(kind: str, encoders: dict[str, TextEncoder]) -> TextEncoder:
    """Load a text encoder by name, once, with a cache of its last texts."""
    if kind not in encoders:
        from limner.match.languages import foreign

        encoders[kind] = _cached(
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


def _cached(encoder: TextEncoder) -> TextEncoder:
    """The encoder with a cache of its last texts, which indexing does not need."""
    from limner.encoders.text_cache import RecentTextCache

    return RecentTextCache(encoder)
