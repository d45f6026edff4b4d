"""One `Library` that is filled, searched and illustrated from.

The commands call the same methods, so that a command line and a few lines of Python give the same storyboard.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

from limner import records
from limner.answers import Hits, Storyboard
from limner.arguments import AnyPath, as_path, several, wrong_type
from limner.config import read_toml
from limner.counts import counted
from limner.devices import Precision, checked_device
from limner.encoders.openvino import Engine
from limner.errors import ConfigError, DataError, unknown
from limner.export import load
from limner.match.advice import advice
from limner.match.equipment import AUTO, add_pictures
from limner.match.illustrator import Illustrator
from limner.match.kept import kept_of
from limner.match.shown import Shown, elsewhere, shown_by
from limner.match.trained import TrainedRun
from limner.pictures.decode import display, read_file
from limner.pictures.formats import PictureError
from limner.progress import RESUME, index_progress
from limner.records import Picture, Segmentation, Show, Step, Story
from limner.store import library
from limner.store.catalogue import Only, Shape

if TYPE_CHECKING:
    from limner.arrays import FloatArray
    from limner.research.runs.run import Run
    from limner.store.known import IndexReport
    from limner.text.read import Format

AnyRun = AnyPath | TrainedRun


class Library(library.Library):
    """Pictures of yours, and all that is done with them.

    Args:
        folder: of the library, or its address on object storage, such as ``s3://bucket/lib``; an empty one is
            made where there is none. Pictures stay where they are.
        weights: of encoders, ``NAME=FILE`` or folders to look in, for searching and illustrating.
        device: what computes: auto (a CUDA card where there is one), cpu, cuda, cuda:N or mps. Sentences are
            read on the CPU, and a run that is open already stays where it is.

    Example:
        >>> lib = limner.Library("lib")
        >>> lib.add("~/Pictures")
        >>> board = lib.illustrate("recipe.md", pins={3: "cake.jpg"})
        >>> board.save("recipe.html")
    """

    def __init__(self, folder: AnyPath, *, weights: Sequence[str] = (), device: str = "auto") -> None:
        super().__init__(as_path(folder, "Library"))
        self._weights, self._device = several(weights), device
        self._opened: dict[tuple[object, ...], Illustrator] = {}
        self._version = self.version()

    @classmethod
    def open(cls, folder: AnyPath, *, weights: Sequence[str] = (), device: str = "auto") -> Self:
        """A library that exists; errors as `limner.store.library.Library.open`."""
        opened = super().open(folder)
        opened._weights, opened._device = several(weights), device
        return opened

    def __repr__(self) -> str:
        """Where it is, and its number of pictures."""
        return f"Library({self.place!r}): {counted(len(self), 'picture')}"

    def add(
        self,
        *sources: AnyPath,
        model: AnyRun | None = None,
        metric: AnyRun | None = None,
        encoders: Sequence[str] = (AUTO,),
        weights: Sequence[str] = (),
        precision: Precision | None = None,
        engine: Literal[Engine, "ray"] = "auto",
        address: str | None = None,
        captions: bool = True,
        sentences: str | None = None,
        follow_links: bool = False,
        workers: int | None = None,
    ) -> IndexReport:
        """Read pictures into the library; only new and changed files are read.

        Args:
            sources: folders, pictures, and CSV, JSON lines or Parquet files with a column of paths; none for
                all that were added so far.
            model: a trained run, or its folder, that looks at the pictures as well; see `illustrate`.
            metric: a trained same-document metric, likewise.
            encoders: what looks at the pixels; ``auto`` takes base, which comes with limner, or CLIP where it
                is installed with its weights.
            weights: ``NAME=FILE``, or folders to look in; those of the library unless given.
            precision: of the backbone; unless given that of the library's vectors, else bfloat16, by torch
                float32 on CPUs that are slow in that.
            engine: what runs the backbone on a CPU; auto takes openvino, of a network that is no file of
                limner's once many pictures come and its vectors agree with torch's. ray reads and encodes in
                many processes and needs the extra ``scale``.
            address: of a Ray cluster; None for one on this machine.
            captions: whether to use words that come with pictures.
            sentences: folder or name of a sentence-transformers model, in place of the multilingual encoder.
            follow_links: enter linked folders as well.
            workers: threads that decode, or processes of Ray; one per core unless given.
        Returns:
            What is new, changed and unchanged, and what was skipped and why.
        Raises:
            MissingError: a source is not there.
            KeyboardInterrupt: after Ctrl-C; what was read is kept, and the same call continues.
            LimnerError: as `limner.match.equipment.add_pictures`.
        """
        places = [as_path(source, "add") for source in sources]
        try:
            with index_progress() as progress:
                report = add_pictures(
                    self,
                    places,
                    encoders=several(encoders),
                    weights=several(weights) or self._weights,
                    runs=partial(opened_runs, model, metric),
                    precision=precision,
                    engine=engine,
                    address=address,
                    device=self._device,
                    captions=captions,
                    sentences=sentences,
                    follow_links=follow_links,
                    workers=workers,
                    progress=progress,
                )
        finally:
            self._opened.clear()
            self._version = self.version()
        if report.interrupted:
            raise KeyboardInterrupt(RESUME)
        return report

    def search(
        self,
        query: str | Picture | PathLike[str],
        k: int = 10,
        *,
        added: Sequence[str] = (),
        without: Sequence[str] = (),
        folder: AnyPath | None = None,
        after: date | str | None = None,
        before: date | str | None = None,
        orientation: Shape | None = None,
        min_probability: float | None = None,
        relation: str | None = None,
        model: AnyRun | None = None,
        metric: AnyRun | None = None,
        channels: Sequence[str] = (),
    ) -> Hits:
        """Find pictures by words, or by a picture.

        Args:
            query: words; or a picture, as a `Picture` or a path: of the library, or a file elsewhere, which
                is read and not added.
            k: pictures at most.
            added: with a picture, words for what the pictures should show as well.
            without: words for what the pictures should not show.
            folder: only pictures of which a file lies in it, or in a folder below.
            after: only pictures taken on this day or later, such as ``2024-07-01``.
            before: only pictures taken on this day or sooner.
            orientation: only pictures that are landscape, portrait or square.
            min_probability: with words, the chance below which pictures are left out, 0 to 1.
            relation: with words and a trained run, a relation that the pictures should have.
            model: as of `illustrate`.
            metric: as of `illustrate`.
            channels: as of `illustrate`.
        Returns:
            Pictures with the chance that they fit, best first: the best of those that meet the conditions.
            None where nothing reads the words, which `notes` says.
        Raises:
            ConfigError: an option that does not go with the query, a day that is none.
            DataError: no such picture, or a file that is none.
            LimnerError: as `limner.match.illustrator.Illustrator.search` and `like`.
        """
        if isinstance(k, bool) or not isinstance(k, int) or k < 1:
            raise ConfigError(f"search: k is {k!r}, expected a number of pictures, 1 or more")
        if not isinstance(query, str | Picture | PathLike):
            raise wrong_type("search", query, "words, a Picture of the library or the Path of one")
        if isinstance(query, str) and not query.strip():
            raise ConfigError("search: no words; expected some, such as 'a boat on the sea'")
        only = _conditions(folder, after, before, orientation)
        opened = self._illustrator(model, metric, channels)
        if isinstance(query, str):
            if added:
                raise ConfigError("search: --with adds words to a picture; write them into the words instead")
            note = opened.query_note(query)
            found = opened.search(
                query, k, relation, without=several(without), only=only, min_probability=min_probability
            )
        else:
            if min_probability is not None:
                raise ConfigError("search: --min-score goes with words; a picture as the query has no chance")
            shown = query.id if isinstance(query, Picture) else self._shown(opened, Path(query))
            found = opened.like(shown, k, added=several(added), without=several(without), only=only)
            note = None
        return Hits(
            found,
            opened.channel_names,
            (*opened.notes, *([note] if note else []), *found.notes()),
        )

    def _shown(self, opened: Illustrator, path: Path) -> str | dict[str, FloatArray]:
        """A picture by its path, for `limner.match.illustrator.Illustrator.like`.

        A file that is there is known by its content, wherever it lies; all else is a name of the library's.
        """
        path = path.expanduser()
        if not path.is_file():
            return self.find(path).id
        try:
            data = read_file(os.fsencode(path.absolute())).data
        except PictureError as error:
            raise DataError(f"{path}: {error}") from error
        return opened.look_at(data, str(path), path.suffix.lower())

    def illustrate(
        self,
        text: AnyPath | Story | Sequence[str | Step | Mapping[str, object]],
        *,
        by: Segmentation | None = None,
        format: Format | None = None,  # noqa: A002
        pins: Mapping[int, AnyPath | Picture | None] | None = None,
        bans: Sequence[AnyPath | Picture] = (),
        show: Show | None = None,
        min_probability: float | None = None,
        allow_repeats: bool | None = None,
        keep_given: bool = True,
        keep: AnyPath | records.Storyboard | None = None,
        again: Sequence[int] = (),
        allow_outside: bool = False,
        rewrite: Callable[[Story], Sequence[str]] | None = None,
        relation: str | None = None,
        model: AnyRun | None = None,
        metric: AnyRun | None = None,
        channels: Sequence[str] = (),
        options: AnyPath | Mapping[str, object] | None = None,
        overrides: Sequence[str] = (),
    ) -> Storyboard:
        """Choose a picture for every step of a text.

        Args:
            text: a file (Markdown, HTML, plain text or JSON), a text, a list of steps, or a story. A string
                is a file where there is one of that name, or where it looks like a file's name.
            by: what one step is; explicit steps, else paragraphs, unless given.
            format: how to read it; a file by its suffix, a text as plain text, unless given.
            pins: step, from 1 → the picture to show there, by path, name or id, or None to keep it blank.
            bans: pictures not to use.
            show: how readily a picture is shown: cautious, usual, or always.
            min_probability: chance below which a step stays blank, 0 to 1, in place of what `show` says.
            allow_repeats: let a picture, or one nearly the same, appear twice.
            keep_given: keep pictures that the text shows itself.
            keep: an earlier storyboard, or the JSON file of one: steps with the same words stay as they are
                there, unless they are pinned, their picture is banned or gone, or `again` names them.
            again: steps, from 1, that are chosen anew all the same.
            allow_outside: let a text show files that are neither below its own folder nor in the library.
            rewrite: story → per step what its picture would show, see `limner.describe.steps.rewritten`; it
                is read beside the step, and never shown.
            relation: of the trained run, such as ``action``, that the pictures should have.
            model: a trained run, or its folder, in place of all channels; add it to the library first.
            metric: a trained same-document metric by which pictures are compared; likewise.
            channels: captions, base, labels or clip; all that the library has unless given.
            options: more options, see `limner.match.illustrate.BoardOptions`, or a TOML file of them.
            overrides: ``key=value`` words, which go before all other options.
        Raises:
            ConfigError: something that is no text, an unknown option, a pin below step 1, or `again` without
                `keep`.
            MissingError: no such file.
            DataError: a text without words, a picture that the library does not hold or that several files
                are called, or a step that the text does not have.
            LimnerError: as `limner.match.illustrator.Illustrator.board`.
        """
        if again and keep is None:
            raise ConfigError(f"again: {again!r:.60} needs an earlier storyboard; add keep")
        if not isinstance(again, Sequence) or not all(isinstance(step, int) for step in again):
            raise wrong_type("again", again, "a list of steps, from 1, such as [3, 5]")
        before = None if keep is None else _board(keep)
        allowed = elsewhere(self, allowed=allow_outside)
        from limner.text.read import reading_of

        reading = reading_of(text, by=by, format=format, elsewhere=allowed)
        values: dict[str, Any] = {}
        where = "options"
        if isinstance(options, Mapping):
            values = dict(options)
        elif options is not None:
            where = str(options)
            values = read_toml(as_path(options, "options"))
        now = {"show": show, "min_probability": min_probability, "allow_repeats": allow_repeats}
        values |= {name: value for name, value in now.items() if value is not None}
        opened = self._illustrator(model, metric, channels)
        chosen = opened.options(
            values,
            overrides,
            pins=_pins(pins),
            bans=[_named(picture, "bans") for picture in several(bans)],
            where=where,
        )
        shown = shown_by(reading.story, self) if keep_given else None
        story = shown.story if shown and shown.story else reading.story
        kept = None
        if before is not None:
            shown = shown or Shown()
            steps = [number - 1 for number in again]
            kept = kept_of(before, story, chosen, shown, opened.catalogue, again=steps)
            chosen, shown = kept.pinned(chosen), kept.given(shown)
        rewritten = () if rewrite is None else rewrite(story)
        held = None if kept is None else kept.held
        board = opened.board(story, chosen, shown=shown, held=held, relations=relation, rewritten=rewritten)
        if kept is not None:
            board = kept.dressed(board, opened.catalogue, chosen.bans)
        notes = [*reading.summary(), *(shown.notes if shown else ()), *(kept.notes if kept else ())]
        about = [
            *opened.notes,
            opened.language_note(reading.story),
            advice(board, opened.catalogue, self.settings.spaces),
        ]
        found = (*notes, *(line for line in about if line))
        return Storyboard(**dict(board), notes=found, kept=None if kept is None else len(kept.steps))

    def _illustrator(
        self, model: AnyRun | None, metric: AnyRun | None, channels: Sequence[str]
    ) -> Illustrator:
        """The library ready to be asked; kept until it changes, whoever changes it."""
        version = self.version()
        if version != self._version:
            self.reread()
            self._version = version
            self._opened.clear()
        channels = several(channels)
        key = (_run(model), _run(metric), *channels)
        if key not in self._opened:
            device = checked_device(self._device)
            asked, compared = opened_runs(model, metric, device)
            self._opened[key] = Illustrator(
                self,
                model=asked,
                metric=compared,
                channels=channels,
                weights=self._weights,
                device=device,
            )
        return self._opened[key]


def _conditions(
    folder: AnyPath | None, after: date | str | None, before: date | str | None, orientation: Shape | None
) -> Only:
    """Conditions on pictures as people give them.

    Raises:
        ConfigError: a day or an orientation that is none.
    """
    days: list[date | None] = []
    for name, day in (("after", after), ("before", before)):
        try:
            days.append(date.fromisoformat(day) if isinstance(day, str) else day)
        except ValueError as error:
            raise ConfigError(f"search: {name} is {day!r}; expected a day such as 2024-07-31") from error
    if orientation not in (None, *get_args(Shape)):
        raise ConfigError("search: " + unknown("orientation", str(orientation), get_args(Shape)))
    inside = "" if folder is None else display(os.fsencode(as_path(folder, "folder").absolute()))
    return Only(folder=inside, after=days[0], before=days[1], shape=orientation)


def opened_runs(
    model: AnyRun | None, metric: AnyRun | None, device: str
) -> tuple[TrainedRun | None, TrainedRun | None]:
    """A model and a metric, opened on a device, each of its kind; None stays None.

    Raises:
        LimnerError: as `limner.research.runs.run.library_runs`.
    """
    if model is None and metric is None:
        return None, None
    from limner.research.runs.run import (
        library_runs,  # loads all systems, which few libraries of pictures need
    )

    return library_runs(_run(model), _run(metric), device)


def _board(keep: object) -> records.Storyboard:
    """An earlier storyboard, as given or read from its file."""
    return keep if isinstance(keep, records.Storyboard) else load(as_path(keep, "keep"))


def _run(one: AnyRun | None) -> Path | Run | None:
    """A run as it is, and its folder as a path."""
    if one is None or isinstance(one, str | PathLike):
        return None if one is None else as_path(one, "model")
    from limner.research.runs.run import Run

    if not isinstance(one, Run):
        raise wrong_type("model", one, "a run, or the path of its folder")
    return one


def _pins(pins: object) -> dict[int, str | None]:
    """Pins by the names of their pictures."""
    if not isinstance(pins, Mapping | None):
        raise wrong_type("pins", pins, "a table of steps, from 1, and pictures, such as {3: 'cake.jpg'}")
    found: dict[int, str | None] = {}
    for step, picture in (pins or {}).items():
        if isinstance(step, bool) or not isinstance(step, int):
            raise wrong_type("pins", step, "the number of a step, from 1")
        found[step] = None if picture is None else _named(picture, "pins")
    return found


def _named(picture: object, where: str) -> str:
    """What a picture is found by."""
    return picture.id if isinstance(picture, Picture) else str(as_path(picture, where))
