"""The one door: a `Library` that is filled, searched and illustrated from, and what it answers.

Command line, studio and notebook call the same methods, so that they give the same storyboard.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from datetime import date
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias, TypeVar, get_args

from pydantic import Field

from limner.devices import checked_device
from limner.errors import ConfigError, DataError, LimnerWarning, counted, unknown
from limner.language import ENGLISH
from limner.match.equipment import AUTO, encoders_for
from limner.records import Board, Candidate, Picture, Segmentation, Show, Step, Story
from limner.store.chosen import library_to_ask, library_to_fill, remember
from limner.store.home import home_of
from limner.store.library import PictureStore

if TYPE_CHECKING:
    from limner.arrays import FloatArray
    from limner.describe.chat import Chat
    from limner.describe.pictures import DescribeReport
    from limner.devices import Precision
    from limner.encoders.openvino import Engine
    from limner.encoders.trained import TrainedRun
    from limner.export.plan import Include, Layout, PageSize
    from limner.export.targets import Exported
    from limner.match.illustrator import Illustrator, Matches
    from limner.progress import Progress
    from limner.store.catalogue import Catalogue, Only, Shape
    from limner.store.known import IndexReport
    from limner.store.library import LibrarySummary
    from limner.text.read import Format

AnyPath = str | PathLike[str]
AnyRun: TypeAlias = "AnyPath | TrainedRun"
One = TypeVar("One")


class Library:
    """Pictures of yours, and all that is done with them.

    Args:
        folder: of the library, or its address on object storage, such as ``s3://bucket/lib``; unless given
            that of the environment variable LIMNER_LIBRARY, else the default library. An empty one is made
            where there is none. Pictures stay where they are.
        weights: of encoders, ``NAME=FILE`` or folders to look in, for searching and illustrating.
        device: what computes: auto (a CUDA card where there is one), cpu, cuda, cuda:N or mps. Sentences are
            read on the CPU, and a run that is open already stays where it is.
        make: whether an empty library is made at once, and not only with its first pictures.

    Attributes:
        place: folder or address, by which it is opened again.

    Example:
        >>> lib = limner.Library("lib")
        >>> lib.add("~/Pictures")
        >>> board = lib.illustrate("recipe.md", pins={3: "cake.jpg"})
        >>> board.save("recipe.html")
    """

    def __init__(
        self,
        folder: AnyPath | None = None,
        *,
        weights: Sequence[str] = (),
        device: str = "auto",
        make: bool = True,
    ) -> None:
        self._path = library_to_fill(None if folder is None else as_path(folder, "Library"))
        self._home = home_of(self._path)
        self.place = str(self._home)
        self._weights, self._device = several(weights), device
        self._opened: dict[tuple[object, ...], Illustrator] = {}
        self._store: PictureStore | None = None
        if make or self._home.exists():
            self._store, self._version = self._read()

    @classmethod
    def open(
        cls,
        folder: AnyPath | None = None,
        *,
        weights: Sequence[str] = (),
        device: str = "auto",
        note: Callable[[str], None] = lambda line: None,
    ) -> Self:
        """A library that exists.

        Args:
            folder: as above; unless given that of LIMNER_LIBRARY, else the one that a command used last, else
                the default library.
            weights: as above.
            device: as above.
            note: receives a line where it is the one used last.
        Raises:
            MissingError: there is none, or the object store cannot be reached.
            DataError: its settings are damaged, or a newer limner wrote it.
        """
        place = library_to_ask(None if folder is None else as_path(folder, "Library"), note)
        home_of(place).read()
        return cls(place, weights=weights, device=device)

    @property
    def store(self) -> PictureStore:
        """What it holds: pictures, what is known of them, and their vectors."""
        if self._store is None:
            self._store, self._version = self._read()
        return self._store

    def __repr__(self) -> str:
        """Where it is, and its number of pictures."""
        return f"Library({self.place!r}): {counted(len(self), 'picture')}"

    def __len__(self) -> int:
        """Number of pictures."""
        return len(self.store)

    def find(self, name: AnyPath) -> Picture:
        """One picture by what a person would type.

        Args:
            name: absolute path, path relative to the working folder or to an indexed folder, unique end of a
                path (such as a file name), or the first digits of an id (six or more).
        Raises:
            DataError: none or several fit; the message names the nearest.
        """
        return self.store.find(name)

    def summary(self) -> LibrarySummary:
        """Counts of everything it holds."""
        return self.store.summary()

    def version(self) -> tuple[int, ...]:
        """Numbers that change whenever a process changes the library."""
        return self.store.version()

    def remember(self) -> None:
        """Keep it as the library used last, which `open` takes where none is named."""
        remember(self._path)

    def add(
        self,
        *sources: AnyPath,
        model: AnyRun | None = None,
        metric: AnyRun | None = None,
        encoders: Sequence[str] | None = (AUTO,),
        weights: Sequence[str] = (),
        precision: Precision | None = None,
        engine: Literal[Engine, "ray"] = "auto",
        address: str | None = None,
        captions: bool = True,
        sentences: str | None = None,
        follow_links: bool = False,
        verify: bool = False,
        forget: bool = False,
        workers: int | None = None,
        approximate_from: int | None = None,
        language: str = ENGLISH,
        ocr: bool = True,
        progress: Progress | None = None,
        stop: Callable[[], bool] = lambda: False,
    ) -> IndexReport:
        """Read pictures into the library; only new and changed files are read.

        Args:
            sources: folders, pictures, and CSV, JSON lines or Parquet files with a column of paths; none for
                all that were added so far.
            model: a trained run, or its folder, that looks at the pictures as well; see `illustrate`.
            metric: a trained same-document metric, likewise.
            encoders: what looks at the pixels; ``auto`` takes what the library was made with, for a new one
                CLIP where one has been fetched, else base, which comes with limner. None keeps to those that
                the library was made with, all of them.
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
            verify: compare the content of every file, also of those that look unchanged.
            forget: take pictures for deleted even where a folder is not there, or most of it is missing.
            workers: threads that decode, or processes of Ray; one per core unless given.
            approximate_from: pictures from which a search does not compare all of them; the library keeps it.
            language: ISO 639 code of the texts that a new library is for: of others than English, CLIP is not
                taken unless it is named, for it reads English alone.
            ocr: whether to read the words that pictures show, where the extra ``ocr`` is installed.
            progress: told how far it is; unless given, a bar shows it.
            stop: asked between files; once it says True, what was read is kept and the work ends.
        Returns:
            What is new, changed and unchanged, and what was skipped and why.
        Raises:
            MissingError: a source is not there.
            KeyboardInterrupt: after Ctrl-C; what was read is kept, and the same call continues. With
                `progress`, the report says so instead.
            LimnerError: as `limner.match.equipment.encoders_for` and `limner.store.ingest.index`.
        Warns:
            LimnerWarning: so much of a folder is missing that its drive may be away; nothing was forgotten.
                With `progress`, the report says so instead.
        """
        from limner.pictures.ocr import is_installed, rapid_ocr
        from limner.progress import RESUME, index_progress
        from limner.store.ingest import index  # who only asks a library needs none of these

        places = [as_path(source, "add") for source in sources]
        if address is not None and engine != "ray":
            raise ConfigError("--address: a cluster is asked for by --engine ray; add it or drop the address")
        on_cpu = engine == "openvino" and self._device == "auto"
        device = "cpu" if on_cpu else checked_device(self._device)
        try:
            with index_progress() if progress is None else nullcontext(progress) as shown:
                chosen = encoders_for(
                    self._path,
                    None if encoders is None else several(encoders),
                    weights=several(weights) or self._weights,
                    model=_run(model),
                    metric=_run(metric),
                    precision=precision,
                    engine="auto" if engine == "ray" else engine,
                    device=device,
                    sentences=sentences,
                    language=language,
                    note=shown.note,
                )
                cluster = None
                if engine == "ray":
                    from limner.store.cluster import ClusterEngine

                    cluster = ClusterEngine(chosen.again, address, workers)
                report = index(
                    places,
                    self._path if self._store is None else self._store,
                    image_encoders=chosen.images,
                    text_encoder=chosen.english,
                    multilingual=chosen.multilingual,
                    captions=captions,
                    follow_links=follow_links,
                    verify=verify,
                    forget=forget,
                    workers=workers,
                    approximate_from=approximate_from,
                    engine=cluster,
                    ocr=rapid_ocr() if ocr and is_installed() else None,
                    progress=shown,
                    stop=stop,
                )
                # After what failed it would be no help, and captions in another language tell of the texts.
                worded = next(iter(report.languages), ENGLISH)
                if chosen.better and report.pictures and worded == ENGLISH:
                    shown.note(chosen.better)
        finally:
            self._opened.clear()
            if self._store is not None or self._home.exists():
                self._store, self._version = self._read()
        if report.interrupted and progress is None:
            raise KeyboardInterrupt(RESUME)
        for folder in report.missing if progress is None else ():
            warnings.warn(f"{folder}, or forget=True", LimnerWarning, stacklevel=2)
        return report

    def forget(self, folder: AnyPath) -> int:
        """Take pictures of a folder for deleted that are not there, however many.

        Returns:
            Number of files.
        Raises:
            LimnerError: as `limner.store.ingest.index`.
        """
        from limner.store.ingest import index

        report = index([as_path(folder, "forget")], self.store, forget=True)
        self._opened.clear()
        self._store, self._version = self._read()
        return report.deleted

    def describe(
        self, chat: Chat, *, every: bool = False, limit: int | None = None, progress: Progress | None = None
    ) -> DescribeReport:
        """Let a vision model describe pictures that nobody has written about.

        Args:
            chat: the model.
            every: describe pictures that have words in their files, too.
            limit: pictures at most.
            progress: told how far it is.
        Raises:
            LimnerError: as `limner.describe.pictures.describe_pictures`.
        """
        from limner.describe.pictures import describe_pictures
        from limner.store.words import caption_encoders

        encoders = caption_encoders(self.store.settings.spaces)
        return describe_pictures(self.store, chat, encoders, every=every, limit=limit, progress=progress)

    def remove_descriptions(self, model: str | None = None) -> int:
        """Forget what models have said of the pictures; of one model alone where it is named.

        Returns:
            Number of pictures.
        Raises:
            LimnerError: as `limner.store.words.remove_descriptions`.
        """
        from limner.store.words import caption_encoders, remove_descriptions

        return remove_descriptions(self.store, caption_encoders(self.store.settings.spaces), model)

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
        from limner.store.catalogue import Only

        only = _conditions(folder, after, before, orientation)
        opened = self.illustrator(model, metric, channels)
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
        own = [*opened.notes, *([note] if note else [])]
        if only.folder and not found.searched and not opened.catalogue.passing(Only(folder=only.folder)):
            places = ", ".join(opened.library.settings.sources) or "none"
            own.append(f"no picture of the library lies in {only.folder}; what was indexed: {places}")
        else:
            own += found.notes()
        return Hits(found, opened.channel_names, own)

    def _shown(self, opened: Illustrator, path: Path) -> str | dict[str, FloatArray]:
        """A picture by its path, for `limner.match.illustrator.Illustrator.like`.

        A file that is there is known by its content, wherever it lies; all else is a name of the library's.
        """
        path = path.expanduser()
        if not path.is_file():
            return self.store.find(path).id
        from limner.pictures.decode import read_file
        from limner.pictures.formats import PictureError

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
        keep: AnyPath | Board | None = None,
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
            text: a file (Markdown, HTML, plain text, JSON, Word or PDF), a text, a list of steps, or a
                story. A string is a file where there is one of that name, or where it looks like its name.
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
        from limner.match.advice import advice  # as below, what a search needs none of
        from limner.match.shown import GivenPictures, elsewhere, shown_by
        from limner.text.read import reading_of

        before = None if keep is None else _board(keep)
        allowed = elsewhere(self.store, allowed=allow_outside)
        reading = reading_of(text, by=by, format=format, elsewhere=allowed)
        values: dict[str, Any] = {}
        where = "options"
        if isinstance(options, Mapping):
            values = dict(options)
        elif options is not None:
            where = str(options)
            from limner.config import read_toml

            values = read_toml(as_path(options, "options"))
        now = {"show": show, "min_probability": min_probability, "allow_repeats": allow_repeats}
        values |= {name: value for name, value in now.items() if value is not None}
        opened = self.illustrator(model, metric, channels)
        chosen = opened.options(
            values,
            overrides,
            pins=_pins(pins),
            bans=[_named(picture, "bans") for picture in several(bans)],
            where=where,
        )
        shown = shown_by(reading.story, self.store) if keep_given else None
        story = shown.story if shown and shown.story else reading.story
        kept = None
        if before is not None:
            shown = shown or GivenPictures()
            from limner.match.kept import kept_of

            steps = [number - 1 for number in again]
            kept = kept_of(before, story, chosen, shown, opened.catalogue, again=steps)
            chosen, shown = kept.pinned(chosen), kept.given(shown)
        rewritten = () if rewrite is None else rewrite(story)
        held = None if kept is None else kept.held
        board = opened.board(story, chosen, shown=shown, held=held, relations=relation, rewritten=rewritten)
        if kept is not None:
            board = kept.dressed(board, opened.catalogue, chosen.bans)
        notes = [*reading.summary(), *(shown.notes if shown else ()), *(kept.notes if kept else ())]
        notes += _pinned_twice(chosen.pins, opened.catalogue)
        about = [
            *opened.notes,
            opened.language_note(reading.story),
            advice(board, opened.catalogue, opened.library.settings.spaces),
        ]
        found = (*notes, *(line for line in about if line))
        return Storyboard(**dict(board), notes=found, kept=None if kept is None else len(kept.steps))

    def illustrator(
        self,
        model: AnyRun | None = None,
        metric: AnyRun | None = None,
        channels: Sequence[str] = (),
    ) -> Illustrator:
        """The library as it is now, ready to be asked; kept until it changes, whoever changes it.

        Args:
            model: as of `illustrate`.
            metric: likewise.
            channels: likewise.
        Raises:
            LimnerError: as `limner.match.illustrator.Illustrator` and `trained_runs`.
        """
        if self.version() != self._version:
            self._store, self._version = self._read()
            self._opened.clear()
        runs, channels = (_run(model), _run(metric)), several(channels)
        # A run that is open is held by what is kept, so that no other one gets its number.
        key = (*(run if isinstance(run, Path) else id(run) for run in runs), *channels)
        if key not in self._opened:
            from limner.match.illustrator import Illustrator  # who only adds pictures needs none of it

            device = checked_device(self._device)
            asked = compared = None
            if runs != (None, None):
                from limner.encoders.trained import trained_runs

                asked, compared = trained_runs(*runs, device)
            self._opened[key] = Illustrator(
                self.store,
                model=asked,
                metric=compared,
                channels=channels,
                weights=self._weights,
                device=device,
            )
        return self._opened[key]

    def _read(self) -> tuple[PictureStore, tuple[int, ...]]:
        """What it holds, read anew, so that whoever asks the old one goes on; and of which version."""
        store = PictureStore(self._path)
        return store, store.version()


class Storyboard(Board):
    """A storyboard that can be saved, and that a notebook shows.

    Attributes:
        notes: what a person should know of how the text was read and its pictures chosen, a line each.
        kept: steps that stayed as an earlier storyboard has them; None where there was none to start from.
    """

    notes: tuple[str, ...] = Field(default=(), exclude=True)
    kept: int | None = Field(default=None, exclude=True)

    def __str__(self) -> str:
        """As that of a storyboard; then what was kept, and what was decided anew."""
        if self.kept is None:
            return super().__str__()
        return f"{super().__str__()}; {self.kept} kept, {len(self.steps) - self.kept} anew"

    @classmethod
    def load(cls, path: AnyPath) -> Storyboard:
        """A storyboard that was saved as JSON.

        Raises:
            MissingError: there is no such file.
            DataError: it holds no storyboard.
        """
        from limner.export import load

        return cls(**dict(load(as_path(path, "load"))))

    def save(
        self,
        out: AnyPath,
        *,
        overwrite: bool = False,
        include: Include = "everything",
        with_reasons: bool = False,
        layout: Layout | None = None,
        page_size: PageSize | None = None,
        originals: bool = False,
    ) -> Exported:
        """Write the storyboard, whole or not at all.

        Args:
            out: a file; its suffix says what is written: .html (one page), .pdf, .docx, .epub, .pptx, .md
                (with copies of the pictures) or .json.
            overwrite: whether a file that is there may be replaced.
            include: the whole text, or its steps alone.
            with_reasons: whether it tells why each picture was chosen, and how the storyboard was made.
            layout: book, recipe, article or slides; None: as suits the text.
            page_size: a4, a5 or letter; None: A4, and for slides a wide screen.
            originals: whether pictures keep all their pixels; in Markdown, their files as they are.

        Returns:
            What was written, with what the reader of the file should know.

        Raises:
            ConfigError: an unknown suffix, or a layout or page size that the format does not have.
            LimnerError: as `limner.export.export`.
        """
        from limner.export import export
        from limner.export.plan import Plan

        plan = Plan(include, with_reasons, layout, page_size, originals)
        board = Board(**self._fields())
        return export(board, as_path(out, "save"), overwrite=overwrite, plan=plan)

    def _fields(self) -> dict[str, Any]:
        return {name: value for name, value in self if name not in ("notes", "kept")}

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from limner.export.fragment import board_fragment

        return board_fragment(self, self.notes)


class Hits(list[Candidate]):
    """Pictures that were found, best first; a notebook shows them.

    Attributes:
        channels: ways in which they were compared.
        notes: what a person should know of them, a line each.
        searched: number of pictures among which they were sought: those that meet the conditions.
        below: number of the best that are left out since their chance is below the cut-off.
    """

    def __init__(self, found: Matches, channels: Sequence[str], notes: Sequence[str]) -> None:
        """Take what was found."""
        super().__init__(found)
        self.channels, self.notes = tuple(channels), tuple(notes)
        self.searched, self.below = found.searched, found.below

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from limner.export.fragment import hits_fragment

        return hits_fragment(self, self.notes)


def as_path(value: object, where: str) -> Path:
    """A path that somebody gave, with ``~`` expanded."""
    if not isinstance(value, str | os.PathLike) or not os.fspath(value):
        raise wrong_type(where, value, "a path")
    try:
        return Path(value).expanduser()
    except RuntimeError:  # such as ~nobody, which then is no path that exists
        return Path(value)


def several(values: Sequence[One]) -> Sequence[One]:
    """Several values, where somebody may have given one alone: a string is no list of its letters."""
    return values if isinstance(values, list | tuple) else (values,)


def wrong_type(where: str, found: object, due: str) -> ConfigError:
    """An error on a value of a wrong type."""
    return ConfigError(f"{where}: {found!r:.60} is of type {type(found).__name__}; expected {due}")


def _conditions(
    folder: AnyPath | None, after: date | str | None, before: date | str | None, orientation: Shape | None
) -> Only:
    """Conditions on pictures as people give them.

    Raises:
        ConfigError: a day or an orientation that is none.
    """
    from limner.files import display
    from limner.store.catalogue import Only, Shape

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


def _board(keep: object) -> Board:
    """An earlier storyboard, as given or read from its file."""
    if isinstance(keep, Board):
        return keep
    from limner.export import load

    return load(as_path(keep, "keep"))


def _pinned_twice(pins: Mapping[int, str | None], catalogue: Catalogue) -> list[str]:
    """A line for every picture that is pinned to several steps."""
    steps: dict[str, list[int]] = {}
    for step, picture in sorted(pins.items()):
        if picture is not None:
            steps.setdefault(picture, []).append(step + 1)
    twice = {picture: places for picture, places in steps.items() if len(places) > 1}
    return [
        f"{Path(picture.path).name} is pinned to steps {', '.join(map(str, twice[picture.id]))}, and shown at"
        " each"
        for picture in catalogue.pictures(list(twice))
    ]


def _run(one: AnyRun | None) -> Path | TrainedRun | None:
    """A run as it is, and its folder as a path."""
    return as_path(one, "model") if isinstance(one, str | PathLike) else one


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
