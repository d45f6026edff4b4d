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
from typing import TYPE_CHECKING, NamedTuple

from limner.devices import usual_precision
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
from limner.encoders.weight_files import PREFIX
from limner.errors import CheckpointError, ConfigError, DataError, MissingError, unknown
from limner.language import ENGLISH
from limner.store.home import home_of, spaces_of
from limner.store.store import SpaceInfo

if TYPE_CHECKING:
    from limner.arrays import FloatArray, ImageEncoder, SentenceEncoder, TextEncoder
    from limner.devices import Precision
    from limner.encoders.openvino import Engine
    from limner.encoders.trained import TrainedRun
    from limner.store.channels import Channel
    from limner.store.library import PictureStore


AUTO = "auto"
DEFAULT = SHIPPED[0]
DEFAULT_BACKBONE = "resnet50"
# Channels, each a space of a library, the most telling first. Captions and class names are both sentences.
CHANNELS = ("captions", "multilingual", "ocr", "clip", "base", "labels")
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
    library: PictureStore,
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
    from limner.pictures.decode import decode
    from limner.pictures.formats import PictureError

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


class Encoders(NamedTuple):
    """What a library is filled by.

    Attributes:
        images: make the vectors of pixels.
        english, multilingual: make those of captions; None leaves them alone.
        again: opens the image encoders once more, in the same precision, in whichever process.
        better: a line on what would look better at the pictures of a new library; "" where nothing is known.
    """

    images: list[ImageEncoder]
    english: TextEncoder | None
    multilingual: SentenceEncoder | None
    again: Callable[[], list[ImageEncoder]]
    better: str


def encoders_for(
    place: str | os.PathLike[str],
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
    """The encoders that a library is filled by; nothing else decides this.

    Args:
        place: folder or address of the library, which may not exist yet.
        names: of image encoders, as of `picture_encoders`; None for those that made the library's vectors,
            and for a new one the usual ones.
        weights: as of `picture_encoders`.
        model: a trained run, or its folder, that looks at the pictures as well.
        metric: a trained same-document metric, likewise.
        precision: as of `picture_encoders`.
        engine: likewise.
        device: likewise.
        sentences: a sentence-transformers model in place of the multilingual encoder.
        language: ISO 639 code of the texts that a new library is made for.
        note: receives a line on what is left out.
    Raises:
        CheckpointError: the library's own are asked for, and made its vectors in another version, so that
            all would be made anew.
        LimnerError: as `picture_encoders` and `limner.encoders.trained.trained_runs`.
    """
    from limner.store.write import CAPTION_SPACES, WORDED_SPACES

    made, english = spaces_of(place), sentence_encoder(SENTENCES)
    captions, multilingual = CAPTION_SPACES
    as_made = names is None and bool(made)
    kept = made if as_made else {}
    if captions in kept and kept[captions].fingerprint != english.fingerprint:
        raise CheckpointError(
            f"{home_of(place)}: its captions were encoded by another version; add folders with 'limner index'"
        )
    kept = {space: one for space, one in kept.items() if space not in WORDED_SPACES}
    if kept:
        from limner.encoders.trained import DOCUMENT, MODEL, trained_runs

        names = _that_made(kept)
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
    # Others take the precision of this machine, not the one that is usual on theirs.
    same = {
        space: SpaceInfo(encoder=one.name, fingerprint=one.fingerprint, dim=dim)
        for one in images
        for space, dim in one.spaces.items()
    }
    worded = made.keys() if as_made else set(CAPTION_SPACES)
    return Encoders(
        images,
        english if captions in worded else None,
        multilingual_encoder(place, sentences) if multilingual in worded else None,
        partial(again, same),
        better_encoder([one.name for one in images], language) if usual else "",
    )


def _that_made(spaces: Mapping[str, SpaceInfo]) -> list[str]:
    """Names of the image encoders that made some spaces.

    Raises:
        MissingError: one of them is not known here.
    """
    from limner.encoders.trained import DOCUMENT, MODEL

    names = list(dict.fromkeys(one.encoder for name, one in spaces.items() if name not in (MODEL, DOCUMENT)))
    for name in names:
        if name not in image_encoders() and not name.startswith(CLIP):
            raise MissingError(f"the library was made with {name!r}; add folders with 'limner index'")
    return names


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
    """As `picture_encoders`, all of it opened here: a worker of a cluster is sent this and plain values."""
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
    library: PictureStore,
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
    from limner.encoders.text_cache import RecentTexts  # who only adds pictures needs none of these
    from limner.store.channels import COSINE, Channel

    spaces = library.settings.spaces
    for name in names:
        if name == "model":
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
        from limner.encoders.text_cache import RecentTexts
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
