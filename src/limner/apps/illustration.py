"""A text file and a library become a storyboard: what the command and the studio share.

It resolves what people write (paths, step numbers) to picture ids, puts the calibration in, and adds
pictures that the text itself shows from outside the library. `limner.retrieval.storyboard` decides.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from limner.apps.document_pull import read_pull
from limner.apps.equipment import channels_of, pair_space
from limner.apps.run_channels import check_vectors, predicted, run_channels
from limner.apps.trained import DOCUMENT, MODEL, TrainedRun
from limner.config import build
from limner.data.records import Picture, Story
from limner.data.storyboards import BoardStep, Candidate, Storyboard
from limner.errors import ConfigError, DataError
from limner.retrieval import calibration
from limner.retrieval.storyboard import BoardOptions, illustrate

if TYPE_CHECKING:
    from limner.retrieval.library import Library

NONE, LOOKS = "none", "visual"


@dataclass(frozen=True)
class Shown:
    """Pictures that a text shows itself.

    Attributes:
        inside: 0-based step → id of a picture of the library.
        outside: 0-based step → a picture that is no part of the library.
        notes: pictures named but not at hand, one line each.
    """

    inside: dict[int, str]
    outside: dict[int, Picture]
    notes: tuple[str, ...]


def shown_by(story: Story, library: Library) -> Shown:
    """Match the first picture of each step with the library, by content.

    Raises:
        DataError: a picture is there but cannot be opened.
    """
    inside: dict[int, str] = {}
    outside: dict[int, Picture] = {}
    notes = []
    for position, step in enumerate(story.steps):
        for ref in step.pictures[:1]:
            if ref.path is None:
                notes.append(
                    f"step {position + 1} shows {ref.target}, which is not a file on this machine;"
                    " a picture of the library is chosen instead"
                )
                continue
            picture = picture_from(Path(ref.path), ref.alt)
            try:
                inside[position] = library.picture(picture.id).id
            except DataError:
                outside[position] = picture
        if len(step.pictures) > 1:
            notes.append(f"step {position + 1} shows {len(step.pictures)} pictures; the first is kept")
    return Shown(inside, outside, tuple(notes))


def picture_from(path: Path, alt: str = "") -> Picture:
    """The record of a single file that is no part of a library.

    Args:
        path: a picture.
        alt: words the text gives it, which go before those of its metadata.
    Raises:
        DataError: it cannot be opened as a picture.
    """
    from limner.data.hashes import phash
    from limner.data.images import decode, read_file
    from limner.data.metadata import embedded
    from limner.data.records import Caption
    from limner.data.sidecars import words_of_name
    from limner.data.words import Words, merge

    raw = os.fsencode(path)
    file = read_file(raw)
    decoded = decode(file.data, suffix=path.suffix.lower())
    written = Words(captions=(Caption(text=alt, source="metadata"),) if alt.strip() else ())
    words = merge((written, embedded(decoded.loaded), words_of_name(raw)))
    return Picture(
        id=file.sha256,
        paths=(str(path),),
        width_px=decoded.width_px,
        height_px=decoded.height_px,
        format=decoded.format,
        size_bytes=file.size,
        phash=f"{phash(decoded.rgb):016x}",
        group=file.sha256,
        taken=words.taken,
        captions=words.captions,
        credit=words.credit,
        license=words.license,
    )


def options_from(
    library: Library,
    values: Mapping[str, Any],
    overrides: Sequence[str] = (),
    *,
    pins: Sequence[str] = (),
    bans: Sequence[str] = (),
    channels: Sequence[str] = (),
    metric: TrainedRun | None = None,
    where: str = "options",
) -> BoardOptions:
    """Options of a storyboard from what people write.

    Args:
        library: resolves paths and names of pictures.
        values: settings of a file or of command-line options; `pins` and `bans` in it as people write
            them: steps from 1, pictures by path, name or id, or ``none``.
        overrides: ``key=value`` words.
        pins: ``STEP=PICTURE`` words, steps from 1; PICTURE is a path, a name, an id or ``none``.
        bans: pictures, as in pins.
        channels: those that take part; none for all that the library has. With a trained model, whose
            agreement with a pull is not calibrated, two pictures are compared by their looks, and that
            counts as it does beside labels.
        metric: a trained same-document metric that compares pictures in place of all else. How it weighs
            against a channel is not calibrated: it counts as looks do.
        where: name for messages.
    Raises:
        ConfigError: an unknown setting, or a pin that is not STEP=PICTURE.
        DataError: a picture the library does not hold.
    """
    chosen = build(BoardOptions, dict(values), where, overrides)
    fixed = {step - 1: _named(library, name) for step, name in chosen.pins.items()}
    if min(fixed, default=0) < 0:
        raise ConfigError(f"{where}: pins: step {min(fixed) + 1}; steps count from 1")
    for word in pins:
        step, equals, name = word.partition("=")
        if not equals or not step.strip().isdigit() or int(step) < 1:
            raise ConfigError(f"--pin {word!r}: expected STEP=PICTURE with steps from 1, such as 3=cake.jpg")
        fixed[int(step) - 1] = _named(library, name)
    banned = [library.find(name).id for name in (*chosen.bans, *bans)]
    changes: dict[str, Any] = {"pins": fixed, "bans": tuple(dict.fromkeys(banned))}
    calibrated = calibration.load()
    named = "pair_space" in chosen.model_fields_set
    if metric is not None:
        check_vectors(metric, library)
    space = (
        DOCUMENT
        if metric is not None
        else chosen.pair_space
        if named
        else pair_space(library, captions=MODEL not in channels)
    )
    if space is None or chosen.decoder == "off":
        changes["pair_weight"] = 0.0
    else:
        pull = calibrated.pull(LOOKS if metric is not None else space)
        changes["pair_space"] = space
        if "pair_evidence" not in chosen.model_fields_set:
            changes["pair_evidence"] = pull.evidence if metric is None else read_pull(metric.folder)
        if "pair_weight" not in chosen.model_fields_set:
            changes["pair_weight"] = pull.weight(chosen.decoder, channels or library.settings.spaces)
    return chosen.model_copy(update=changes)


def _named(library: Library, name: str | None) -> str | None:
    """Id of the picture a pin names; None for a step to keep blank."""
    return None if name is None or name == NONE else library.find(name).id


def make_storyboard(
    story: Story,
    library: Library,
    options: BoardOptions,
    *,
    channels: Sequence[str] = (),
    shown: Shown | None = None,
    run: TrainedRun | None = None,
    relation: str | None = None,
) -> Storyboard:
    """Illustrate a story from a library.

    Args:
        story: the text.
        library: the pictures.
        options: see `options_from`.
        channels: names; none for all that the library has.
        shown: pictures the text shows itself and that are kept; None keeps none.
        run: a trained run that the library was indexed with; it takes the place of all channels, and tells
            relations and attention. No calibration of blanks exists for it, so no step is left blank.
        relation: of the run, that the pictures should have.
    Raises:
        ConfigError: channels beside a run, or a relation without one.
        LimnerError: as `illustrate` and `run_channels`.
    """
    if run is None and relation is not None:
        raise ConfigError("--relation: only a trained run knows relations; give one with --model")
    if run is not None and channels:
        raise ConfigError("--channel: a trained run takes the place of all channels; drop one of the two")
    calibrated = calibration.load()
    used = channels_of(library, channels, calibrated) if run is None else run_channels(run, library, relation)
    spaces = {channel.space for channel in used}
    if options.pair_weight > 0:
        spaces.add(options.pair_space)
    shown = shown or Shown({}, {}, ())
    outside = {step: picture for step, picture in shown.outside.items() if step not in options.pins}
    blanked = options.model_copy(update={"pins": {**options.pins, **dict.fromkeys(outside)}})
    gallery = library.gallery(sorted(spaces))
    suitability = None
    if run is None:
        telling = [channel.name for channel in used if gallery.space(channel.space).present.any()]
        suitability = calibrated.suitable(telling or [channel.name for channel in used])
    board = illustrate(
        story,
        gallery,
        used,
        library.pictures,
        blanked,
        suitability=suitability,
        given=shown.inside,
        library=library.folder.resolve().name,
    )
    steps = [
        _given(step, outside[step.position]) if step.position in outside else step for step in board.steps
    ]
    settings = options.settings()
    if run is not None:
        settings |= {"model": f"{run.folder.resolve().name} {run.fingerprint[:12]}", "relation": relation}
    board = board.model_copy(update={"steps": tuple(steps), "settings": settings})
    return board if run is None else predicted(board, run, gallery)


def _given(step: BoardStep, picture: Picture) -> BoardStep:
    """A step that keeps the picture its text shows."""
    return step.model_copy(
        update={
            "chosen": Candidate(picture=picture, score=0.0),
            "origin": "given",
            "reason": "The text shows this picture itself; it is not in the library and guides no other.",
        }
    )
