"""The Python API: `Library`, with which pictures are indexed and searched and texts illustrated, and its
results.

Command line, studio and notebooks call the same methods, so that they all produce the same storyboard.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from datetime import date
from importlib.metadata import entry_points
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias, TypeVar, get_args

from pydantic import Field

from limner.devices import checked_device
from limner.errors import (
    ConfigError,
    DataError,
    LimnerError,
    LimnerWarning,
    MissingError,
    counted,
    unknown,
)
from limner.files import data_folder, display, make_folder, write_bytes
from limner.language import ENGLISH
from limner.match.encoder_setup import AUTO, encoders_for
from limner.records import Arrangement, Board, Candidate, Picture, Segmentation, Show, Step, Story
from limner.store.database import Database, exists

if TYPE_CHECKING:
    from limner.arrays import FloatArray
    from limner.describe.chat import Chat
    from limner.describe.pictures import DescribeReport
    from limner.devices import Engine, Precision
    from limner.encoders.trained import TrainedRun
    from limner.export import Exported, Layout, PageSize
    from limner.match.illustrate import BoardOptions
    from limner.match.illustrator import Illustrator, Matches
    from limner.pictures.ocr import OcrEngine
    from limner.progress import Progress
    from limner.store import LibrarySummary, Only, Shape, SpaceInfo, Store
    from limner.store.index import IndexReport
    from limner.text.picture_files import InLibrary
    from limner.text.read import Format

AnyPath = str | PathLike[str]
AnyRun: TypeAlias = "AnyPath | TrainedRun"
One = TypeVar("One")


class Library:
    """A library of your pictures: opened, or created if there is none.

    Args:
        folder: path of the library, or its URL on object storage, such as ``s3://bucket/lib``. Default: the
            environment variable LIMNER_LIBRARY; if unset, the default library. The library refers to your
            pictures; it neither moves nor changes them.
        weights: weights of encoders for searching and illustrating, ``NAME=FILE``, or folders to look in.
        device: device of the encoders: auto (a CUDA GPU if there is one), cpu, cuda, cuda:N or mps.
            Sentences are encoded on the CPU, and a trained run that is already open stays on its device.
        make: whether an empty library is created at once; otherwise it is created with its first pictures.

    Attributes:
        place: path or URL of the library.

    Raises:
        ConfigError: the device does not exist, or the folder is not a path.
        DataError: the library's settings are damaged, or a newer limner wrote them.
        MissingError: the object store cannot be reached.

    Example:
        >>> import limner
        >>> lib = limner.Library("lib")
        >>> report = lib.add("demo/pictures")
        >>> len(lib)
        66
        >>> board = lib.illustrate(["A girl sails a boat.", "A bear cooks supper."])
        >>> len(board.steps)
        2
    """

    def __init__(
        self,
        folder: AnyPath | None = None,
        *,
        weights: Sequence[str] = (),
        device: str = "auto",
        make: bool = True,
    ) -> None:
        self._path = library_to_index(None if folder is None else as_path(folder, "Library"))
        self.place = _written(self._path)
        self._weights, self._device = several(weights), device
        self._opened: dict[tuple[object, ...], Illustrator] = {}
        self._store = open_store(self.place, make=make) if make or _exists(self._path) else None
        self._version = 0

    @classmethod
    def open(
        cls,
        folder: AnyPath | None = None,
        *,
        weights: Sequence[str] = (),
        device: str = "auto",
        note: Callable[[str], None] = lambda line: None,
    ) -> Self:
        """Open an existing library; unlike `Library`, it never creates one.

        Args:
            folder: path or URL, as above. Default: the environment variable LIMNER_LIBRARY; if unset, the
                library that a command used last; if there is none, the default library.
            weights: as above.
            device: as above.
            note: function that receives a line of text if the library used last is opened.
        Raises:
            MissingError: the library does not exist, or the object store cannot be reached.
            DataError: the library's settings are damaged, or a newer limner wrote them.

        Example:
            >>> limner.Library.open("lib")
            Library('...lib'): 66 pictures
        """
        place = library_to_search(None if folder is None else as_path(folder, "Library"), note)
        open_store(place)
        return cls(place, weights=weights, device=device)

    @property
    def store(self) -> Database:
        """Pictures, metadata and vectors of the library."""
        if self._store is None:
            self._store = open_store(self.place, make=True)
        return self._store

    @property
    def exists(self) -> bool:
        """Whether it was created."""
        return self._store is not None or _exists(self._path)

    def __repr__(self) -> str:
        """Location and number of pictures."""
        return f"Library({self.place!r}): {counted(len(self), 'picture')}"

    def __len__(self) -> int:
        """Number of pictures."""
        return len(self.store)

    def find(self, name: AnyPath) -> Picture:
        """Find one picture by its path, file name or id.

        Args:
            name: absolute path, path relative to the working folder or to an indexed folder, unique end of a
                path (such as a file name), or the first digits of an id (six or more).
        Raises:
            DataError: no picture or several pictures match; the message names the nearest.

        Example:
            >>> limner.Library("lib").find("shore/932fc7.jpg").format
            'JPEG'
        """
        return self.store.find(name)

    def summary(self) -> LibrarySummary:
        """Counts of pictures, files, captions and vectors.

        Example:
            >>> limner.Library("lib").summary().pictures
            66
        """
        return self.store.counts().model_copy(update={"vectors": self.store.vectors()})

    def version(self) -> int:
        """Version number of the library: different after any process has changed it."""
        return self.store.version()

    def mark_as_last_used(self) -> None:
        """Make this the library used last, which `open` opens by default."""
        remember_last_library(self._path)

    def add(
        self,
        *sources: AnyPath,
        model: AnyRun | None = None,
        metric: AnyRun | None = None,
        encoders: Sequence[str] | None = (AUTO,),
        weights: Sequence[str] = (),
        precision: Precision | None = None,
        engine: Engine = "auto",
        captions: bool = True,
        sentences: str | None = None,
        follow_links: bool = False,
        forget: bool = False,
        workers: int | None = None,
        language: str = ENGLISH,
        ocr: bool = True,
        progress: Progress | None = None,
        stop: Callable[[], bool] = lambda: False,
    ) -> IndexReport:
        """Read pictures into the library; only new and changed files are read.

        Args:
            sources: folders and pictures. Default: all sources that were added before.
            model: trained run, or its folder, whose image encoder is applied too; see `illustrate`.
            metric: trained same-document metric, or its folder, that is applied too.
            encoders: names of image encoders. ``auto`` uses base or CLIP, whichever the library already has;
                if it has neither, CLIP if it has been downloaded, otherwise base, which comes with limner.
                None uses all encoders of the library.
            weights: weights, ``NAME=FILE``, or folders to look in. Default: those of this object.
            precision: precision of the backbone. Default: that of the library's vectors; new libraries use
                bfloat16 (with torch, float32 on CPUs that are slow in bfloat16).
            engine: engine that runs the backbone on a CPU. auto uses openvino; networks that do not come with
                limner run in it only for many pictures, and only if its vectors agree with torch's.
            captions: whether to use captions that come with the pictures.
            sentences: folder or name of a sentence-transformers model to use instead of the multilingual
                encoder.
            follow_links: whether to enter linked folders too.
            forget: whether to treat missing pictures as deleted, even if a whole folder is missing.
            workers: number of decoding threads. Default: one per core.
            language: ISO 639 code of the texts that a new library is for. CLIP reads only English: with
                another language it is not used unless it is named.
            ocr: whether to read the text in pictures, if the extra ``ocr`` is installed.
            progress: receiver of the progress. Default: a progress bar.
            stop: function that is called between files; once it returns True, indexing ends, and the pictures
                read so far stay in the library.
        Returns:
            Counts of new, changed and unchanged files, and the skipped ones with reasons.
        Raises:
            MissingError: a source does not exist.
            KeyboardInterrupt: the user pressed Ctrl-C; the pictures read so far stay in the library, and the
                same call continues. With `progress`, the report states it instead.
            LimnerError: as `limner.match.encoder_setup.encoders_for` and `limner.store.index.index`.
        Warns:
            LimnerWarning: so much of a folder is missing that its drive may be disconnected; nothing was
                forgotten. With `progress`, the report states it instead.

        Example:
            >>> report = limner.Library("lib").add("demo/pictures")
            >>> report.new, report.deleted
            (0, 0)
        """
        from limner.progress import RESUME, index_progress

        places = [as_path(source, "add") for source in sources]
        if not self.exists:
            from limner.pictures.find import source_path

            for place in places:
                source_path(place)  # before a library is created
        on_cpu = engine == "openvino" and self._device == "auto"
        device = "cpu" if on_cpu else checked_device(self._device)
        try:
            with index_progress() if progress is None else nullcontext(progress) as shown:
                chosen = encoders_for(
                    self._spaces(),
                    None if encoders is None else several(encoders),
                    weights=several(weights) or self._weights,
                    model=_run(model),
                    metric=_run(metric),
                    precision=precision,
                    engine=engine,
                    device=device,
                    sentences=sentences,
                    language=language,
                    note=shown.note,
                )
                report = self._index(
                    places,
                    image_encoders=chosen.images,
                    text_encoder=chosen.english,
                    multilingual=chosen.multilingual,
                    captions=captions,
                    follow_links=follow_links,
                    forget=forget,
                    workers=workers,
                    ocr=_ocr_engine() if ocr else None,
                    progress=shown,
                    stop=stop,
                )
                # no advice after a failure, or if the captions are in a language that CLIP does not read
                worded = next(iter(report.languages), ENGLISH)
                if chosen.better and report.pictures and worded == ENGLISH:
                    shown.note(chosen.better)
        finally:
            self._opened.clear()
        if report.interrupted and progress is None:
            raise KeyboardInterrupt(RESUME)
        for folder in report.missing if progress is None else ():
            warnings.warn(f"{folder}, or forget=True", LimnerWarning, stacklevel=2)
        return report

    def forget(self, folder: AnyPath) -> int:
        """Treat the missing pictures of a folder as deleted, even if all are missing.

        Args:
            folder: an indexed folder.
        Returns:
            Number of files that were forgotten.
        Raises:
            LimnerError: as `limner.store.index.index`.
        """
        report = self._index([as_path(folder, "forget")], forget=True)
        self._opened.clear()
        return report.deleted

    def describe(
        self, chat: Chat, *, every: bool = False, limit: int | None = None, progress: Progress | None = None
    ) -> DescribeReport:
        """Use a vision model to caption pictures that have no caption.

        Args:
            chat: the model.
            every: whether to describe pictures that have captions in their files too.
            limit: maximum number of pictures to describe.
            progress: receiver of the progress.
        Returns:
            Counts of described pictures, and the failures with reasons.
        Raises:
            LimnerError: as `limner.describe.pictures.describe_pictures`.
        """
        from limner.describe.pictures import describe_pictures

        return describe_pictures(self.store, chat, every=every, limit=limit, progress=progress)

    def remove_descriptions(self, model: str | None = None) -> int:
        """Remove the captions that vision models wrote.

        Args:
            model: name of a model, to remove only its captions.
        Returns:
            Number of pictures whose captions were removed.
        Raises:
            LimnerError: as `limner.store.index.encode_captions`.
        """
        from limner.store.index import encode_captions

        count = self.store.remove_descriptions(model)
        encode_captions(self.store)
        return count

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
        """Find pictures by words or by a picture.

        Args:
            query: words; a picture of the library, as a `Picture` or a path; or the path of any other
                picture, which is not added to the library.
            k: maximum number of pictures to return, at least 1.
            added: words for things that the pictures should show too, if the query is a picture.
            without: words for things that the pictures should not show.
            folder: folder; only pictures in it or its subfolders are returned.
            after: day, such as ``2024-07-01``; only pictures taken on it or later are returned.
            before: day; only pictures taken on it or earlier are returned.
            orientation: landscape, portrait or square; only such pictures are returned.
            min_probability: probability, from 0 to 1, below which pictures are left out, if the query is
                words.
            relation: relation that the pictures should have, if the query is words and `model` is given.
            model: see `illustrate`.
            metric: see `illustrate`.
            channels: see `illustrate`.
        Returns:
            Pictures that meet the conditions, best first, with the probability that each fits. Empty, with
            the reason in `notes`, if no channel can read the words.
        Raises:
            ConfigError: an option contradicts the query, or a day is not a date.
            DataError: the picture is not in the library, or the file is not a picture.
            LimnerError: as `limner.match.illustrator.Illustrator.search` and `like`.

        Example:
            >>> hits = limner.Library("lib").search("a boat on the sea", k=3)
            >>> all(0 <= hit.probability <= 1 for hit in hits)
            True
        """
        if isinstance(k, bool) or not isinstance(k, int) or k < 1:
            raise ConfigError(f"search: k is {k!r}; expected a number of pictures, 1 or more")
        if not isinstance(query, str | Picture | PathLike):
            raise wrong_type("search", query, "words, a Picture of the library or the Path of one")
        if isinstance(query, str) and not query.strip():
            raise ConfigError("search: no words; expected some, such as 'a boat on the sea'")
        only = _conditions(folder, after, before, orientation)
        opened = self.illustrator(model, metric, channels)
        if isinstance(query, str):
            if added:
                raise ConfigError("search: --with adds words to a picture; add them to the search words")
            note = opened.query_note(query)
            found = opened.search(
                query, k, relation, without=several(without), only=only, min_probability=min_probability
            )
        else:
            if min_probability is not None:
                raise ConfigError("search: --min-probability needs words; a picture gives no probability")
            shown = query.id if isinstance(query, Picture) else self._shown(opened, Path(query))
            found = opened.like(shown, k, added=several(added), without=several(without), only=only)
            note = None
        notes = [*opened.notes, *([note] if note else [])]
        if (
            only.folder
            and not found.searched
            and not opened.library.passing(_conditions(folder, None, None, None))
        ):
            places = ", ".join(opened.library.settings.sources) or "none"
            notes.append(f"no picture of the library is in {only.folder}; indexed folders: {places}")
        else:
            notes += found.notes()
        return Hits(found, opened.channel_names, notes)

    def _shown(self, opened: Illustrator, path: Path) -> str | dict[str, FloatArray]:
        """Query for `limner.match.illustrator.Illustrator.like`: the vectors of an existing file, or an id.

        An existing file is looked up by its content; any other path is a name in the library.
        """
        path = path.expanduser()
        if not path.is_file():
            return self.store.find(path).id
        from limner.pictures.decode import PictureError, read_file

        try:
            data = read_file(os.fsencode(path.absolute())).data
        except PictureError as error:
            raise DataError(f"{path}: {error}") from error
        return opened.look_at(data, str(path), path.suffix.lower())

    def illustrate(
        self,
        text: AnyPath | Story | Sequence[str | Step | Mapping[str, object]],
        *,
        pictures: Sequence[AnyPath] = (),
        order: Arrangement | None = None,
        fill: bool | None = None,
        cover: AnyPath | Picture | None = None,
        also_steps: bool = False,
        by: Segmentation | None = None,
        format: Format | None = None,  # noqa: A002
        pins: Mapping[int, AnyPath | Picture | None] | None = None,
        bans: Sequence[AnyPath | Picture] = (),
        show: Show | None = None,
        min_probability: float | None = None,
        count: int | Literal["all"] | None = None,
        allow_repeats: bool | None = None,
        keep_given: bool = True,
        keep: AnyPath | Board | None = None,
        again: Sequence[int] = (),
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
                story. A string names a file if that file exists or if it looks like a file name; otherwise
                it is the text itself.
            pictures: folders and pictures that are this text's pictures: no others are used, and they are
                added to the library first. Photographs lie along the steps in the order in which they were
                taken. Default: all pictures of the library.
            order: order of these photographs: ``taken``, ``name``, or ``any`` if they have none.
            fill: whether steps to which none of them belongs get a picture from the rest of the library.
            cover: the picture that stands for the text, or ``none``. Default: what the text itself names, or
                of these photographs the first or the last, if it is the finished thing or fits the title.
            also_steps: whether a text that marks places for pictures gets them at its steps, too.
            by: unit of the text that is one step. Default: the places that the text marks for pictures, or
                else explicit steps; if there are none, paragraphs.
            format: format of the text. Default: that of the file's extension, or plain text.
            pins: pictures to show, by step from 1: a path, file name or id, or None to keep the step blank.
            bans: pictures never to use.
            show: when to show a picture: cautious (only if it probably fits), usual (the default), or always.
            min_probability: probability, from 0 to 1, below which a step stays blank; overrides `show`.
            count: number of pictures, or ``all``. Default: all; in prose, one for about 200 words.
            allow_repeats: whether a picture, or a near-duplicate, may appear more than once. Default: no.
            keep_given: whether steps whose text already shows a picture get no other one.
            keep: earlier storyboard, or its JSON file. Steps whose words have not changed keep their picture,
                unless they are pinned or named in `again`, or the picture is banned or gone.
            again: steps, from 1, for which to choose again, with `keep`.
            rewrite: function from the story to one sentence per step that describes its picture, see
                `limner.describe.steps.rewritten`. The sentences help to find pictures, and are never shown.
            relation: relation of the trained run, such as ``action``, that the pictures should have.
            model: trained run, or its folder, to use instead of all channels; `add` its vectors first.
            metric: trained same-document metric, or its folder, used to compare pictures; `add` its vectors
                first.
            channels: channels to use: captions, base, labels or clip. Default: all that the library has.
            options: more options, see `limner.match.illustrate.BoardOptions`, or a TOML file of them.
            overrides: options as ``key=value``, which override all others.
        Returns:
            The storyboard, with one step for each step of the text.
        Raises:
            ConfigError: `text` is not a text, an option is unknown, a pin is below step 1, or `again` is
                given without `keep`.
            MissingError: the file does not exist.
            DataError: the text has no words, a picture is not in the library or its name is ambiguous, or the
                text does not have a step that is named.
            LimnerError: as `limner.match.illustrator.Illustrator.board`.

        Example:
            >>> lib = limner.Library("lib")
            >>> board = lib.illustrate(["A girl sails a boat."], pins={1: "shore/932fc7.jpg"})
            >>> board.steps[0].origin
            'pinned'
        """
        if again and keep is None:
            raise ConfigError(f"again: {again!r:.60} needs an earlier storyboard; add keep")
        if not isinstance(again, Sequence) or not all(isinstance(step, int) for step in again):
            raise wrong_type("again", again, "a list of steps, from 1, such as [3, 5]")
        from limner.match.explain import advice  # imported here and below because a search does not need them
        from limner.text.read import read

        before = None if keep is None else _board(keep)
        sources = [as_path(source, "pictures") for source in several(pictures)]
        if sources:
            self.add(*sources, model=model, metric=metric)
        by = by or ("step" if also_steps else None)
        reading = read(text, by=by, format=format, in_library=in_library(self.store))
        values, where = _values(options)
        now: dict[str, Any] = {"show": show, "min_probability": min_probability}
        now |= {"count": count, "allow_repeats": allow_repeats, "order": order, "fill": fill}
        now["named"] = named_paths(sources)
        now["cover"] = None if cover is None else _named(cover, "cover")
        if "named" not in values and now["named"] is None and before is not None and before.row is not None:
            now["named"] = before.row.named
        if "cover" not in values and now["cover"] is None and before is not None:
            now["cover"] = before.settings.get("cover")
        values |= {name: value for name, value in now.items() if value is not None}
        opened = self.illustrator(model, metric, channels)
        chosen = opened.options(
            values,
            overrides,
            pins=_pins(pins),
            bans=[_named(picture, "bans") for picture in several(bans)],
            where=where,
        )
        shown = None
        if keep_given and any(step.pictures for step in reading.story.steps):
            from limner.match.given_pictures import match_given_pictures

            shown = match_given_pictures(reading.story, self.store)
        story = shown.story if shown and shown.story else reading.story
        kept = None
        if before is not None:
            from limner.match.given_pictures import GivenPictures
            from limner.match.kept_steps import kept_steps

            shown = shown or GivenPictures()

            steps = [number - 1 for number in again]
            kept = kept_steps(before, story, chosen, shown, opened.library, again=steps)
            chosen = kept.pinned(chosen)
        rewritten = () if rewrite is None else rewrite(story)
        held = None if kept is None else kept.held
        if held is not None and before is not None and before.story.places and by is None:
            held = dict.fromkeys(set(range(len(story.steps))) - story.places) | held
        board = opened.board(story, chosen, shown=shown, held=held, relations=relation, rewritten=rewritten)
        if kept is not None:
            board = kept.dressed(board)
        notes = [*reading.summary(), *(shown.notes if shown else ()), *(kept.notes if kept else ())]
        notes += [*_pinned_twice(chosen.pins, opened.library), *_chosen(board, chosen, opened.library)]
        about = [
            *opened.notes,
            opened.language_note(reading.story),
            advice(board, opened.library),
        ]
        found = (*notes, *(line for line in about if line))
        return Storyboard(**dict(board), notes=found, kept=None if kept is None else len(kept.steps))

    def illustrator(
        self,
        model: AnyRun | None = None,
        metric: AnyRun | None = None,
        channels: Sequence[str] = (),
    ) -> Illustrator:
        """Prepared searcher over the current pictures; cached until any process changes the library.

        Args:
            model: see `illustrate`.
            metric: see `illustrate`.
            channels: see `illustrate`.
        Raises:
            LimnerError: as `limner.match.illustrator.Illustrator` and `trained_runs`.
        """
        version = self.version()
        if version != self._version:
            self._version = version
            self._opened.clear()
        runs, channels = (_run(model), _run(metric)), several(channels)
        # The cached illustrator keeps a reference to the run, so its id cannot be reused.
        key = (*(run if isinstance(run, Path) else id(run) for run in runs), *channels)
        if key not in self._opened:
            from limner.match.illustrator import Illustrator  # adding pictures does not need it

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

    def _index(self, sources: Sequence[Path], **how: Any) -> IndexReport:  # noqa: ANN401
        """See `limner.store.index.index`."""
        package = _package_of(self.place)
        if package is None:
            from limner.store import index as package  # searching and illustrating do not need it

        report: IndexReport = package.index(sources, self.store, **how)
        return report

    def _spaces(self) -> dict[str, SpaceInfo]:
        """Vector spaces of the library, which may not exist yet."""
        return self.store.settings.spaces if self.exists else {}


class Storyboard(Board):
    """A storyboard that can be saved and is displayed in notebooks; see `Library.illustrate`.

    Attributes:
        notes: notes on how the text was read and its pictures were chosen, one line each.
        kept: number of steps that kept their picture from an earlier storyboard; None without one.

    Example:
        >>> board = limner.Library("lib").illustrate(["A girl sails a boat."], show="always")
        >>> print(board)
          1  chosen   ...
        1 step: 1 chosen, 0 left blank...
    """

    notes: tuple[str, ...] = Field(default=(), exclude=True)
    kept: int | None = Field(default=None, exclude=True)

    def __str__(self) -> str:
        """Summary of the storyboard; with an earlier one, also the numbers of steps kept and chosen again."""
        if self.kept is None:
            return super().__str__()
        return f"{super().__str__()}; {self.kept} kept, {len(self.steps) - self.kept} chosen again"

    @classmethod
    def load(cls, path: AnyPath) -> Storyboard:
        """Read a storyboard that was saved as JSON.

        Args:
            path: the .json file.
        Raises:
            MissingError: the file does not exist.
            DataError: the file cannot be read or contains no storyboard.

        Example:
            >>> board = limner.Library("lib").illustrate(["A girl sails a boat."])
            >>> written = board.save("story.json", overwrite=True)
            >>> limner.Storyboard.load("story.json").shown == board.shown
            True
        """
        return cls(**dict(_board(as_path(path, "load"))))

    def save(
        self,
        out: AnyPath,
        *,
        overwrite: bool = False,
        with_reasons: bool = False,
        layout: Layout | None = None,
        page_size: PageSize | None = None,
    ) -> Exported:
        """Write the storyboard to a file, atomically.

        Args:
            out: the file; its extension gives the format: .html (one page), .pdf, .docx, .epub, .pptx, .md
                (with copies of the pictures) or .json.
            overwrite: whether an existing file may be replaced.
            with_reasons: whether to include the reason for each choice.
            layout: book, recipe, article or slides. Default: chosen from the text.
            page_size: a4, a5 or letter. Default: A4; for slides, a wide screen.

        Returns:
            Path of the file, with warnings about its content.

        Raises:
            ConfigError: the extension is unknown, the format has no such layout or page size, or the file
                exists and `overwrite` is false.
            LimnerError: as `limner.export.export`.

        Example:
            >>> board = limner.Library("lib").illustrate(["A girl sails a boat."])
            >>> board.save("story.html", overwrite=True).path.name
            'story.html'
        """
        from limner.export import Plan, export

        plan = Plan(layout, page_size, with_reasons)
        board = Board(**self._fields())
        return export(board, as_path(out, "save"), overwrite=overwrite, plan=plan)

    def _fields(self) -> dict[str, Any]:
        return {name: value for name, value in self if name not in ("notes", "kept")}

    def _repr_html_(self) -> str:
        """HTML for a notebook."""
        from limner.export.fragment import board_fragment

        return board_fragment(self, self.notes)


class Hits(list[Candidate]):
    """Result of a search: pictures, best first, displayed in notebooks; see `Library.search`.

    Attributes:
        channels: names of the channels that were compared.
        notes: notes on the result, one line each.
        searched: number of pictures that were searched, namely those that meet the conditions.
        below: number of pictures left out because their probability is below `min_probability`.

    Example:
        >>> hits = limner.Library("lib").search("a bear", k=2)
        >>> len(hits), hits.searched
        (2, 66)
    """

    def __init__(self, found: Matches, channels: Sequence[str], notes: Sequence[str]) -> None:
        """Wrap the matches of an `Illustrator`."""
        super().__init__(found)
        self.channels, self.notes = tuple(channels), tuple(notes)
        self.searched, self.below = found.searched, found.below

    def _repr_html_(self) -> str:
        """HTML for a notebook."""
        from limner.export.fragment import hits_fragment

        return hits_fragment(self, self.notes)


def open_store(place: AnyPath, *, make: bool = False) -> Database:
    """Open a library in a folder, or at a URL if an installed package can.

    Args:
        place: path or URL.
        make: whether to create an empty one if there is none.
    Raises:
        MissingError: there is none, and none is made; or no installed package opens such a URL.
        DataError: it is damaged, or of another version.
    """
    place = _written(Path(place))
    package = _package_of(place)
    if package is None:
        return Database(place, make=make)
    opened: Database = package.open_store(place, make=make)
    return opened


def _package_of(place: str) -> Any:  # noqa: ANN401  (a module)
    """Module that opens and indexes libraries at such a URL; None for a folder.

    Raises:
        MissingError: none is installed.
    """
    scheme, url, _ = place.partition("://")
    if not url:
        return None
    for entry in entry_points(group="limner.stores", name=scheme):
        return entry.load()
    raise MissingError(f"{place}: a library at a URL needs the extra 'scale': pip install \"limner[scale]\"")


VARIABLE = "LIMNER_LIBRARY"
"""Environment variable with the path or URL of the library."""


def library_to_index(named: Path | None = None) -> Path:
    """Library to index into: the named one, else that of the environment, else the default one."""
    if named is not None:
        return named
    place = os.environ.get(VARIABLE)
    return Path(place).expanduser() if place else data_folder() / "library"


def library_to_search(
    named: Path | None = None, note: Callable[[str], None] = lambda line: None, *, make: bool = False
) -> Path:
    """Path of the library to search: the named one, else that of the environment, the one used last, or the
    default one.

    Args:
        named: path or URL given by the user, or None.
        note: function that receives a line if the library is the one used last.
        make: whether to create the default one, empty, if needed.
    Raises:
        MissingError: no library is named, and none exists.
    """
    place = library_to_index(named)
    if named is not None or os.environ.get(VARIABLE):
        return place
    last = last_library()
    if last is not None and last != place:
        if _is_url(last) or _exists(last):
            note(f"library: {_written(last)}, the one used last")
            return last
        note(f"library: {place}, because the one used last no longer exists: {last}")
    if make:
        open_store(place, make=True)
    elif not _exists(place):
        raise MissingError(
            f"{place}: no picture library yet; create it with 'limner index PICTURES', or name another with"
            " --library"
        )
    return place


def last_library() -> Path | None:
    """Library used last, or None."""
    try:
        raw = _last_library_file().read_bytes().removesuffix(b"\n")
    except OSError:
        return None
    return Path(os.fsdecode(raw)) if raw and b"\0" not in raw else None


def remember_last_library(place: Path) -> None:
    """Remember the library used last, if the user's data folder can be written."""
    written = _written(place) if _is_url(place) else str(place.absolute())
    if Path(written) != last_library():
        with suppress(OSError, LimnerError):
            make_folder(_last_library_file().parent)
            write_bytes(_last_library_file(), os.fsencode(written) + b"\n")


def _last_library_file() -> Path:
    """File with one line: the path or URL of the library used last."""
    return data_folder() / "last-library"


def _is_url(place: Path) -> bool:
    return re.match(r"\w+:/", str(place)) is not None


def _written(place: Path) -> str:
    """A path, or a URL, in which a `Path` joins the two slashes, as it is written."""
    return re.sub(r"^(\w+):/+", r"\1://", str(place))


def _exists(place: Path) -> bool:
    """Whether there is a library at a path or URL."""
    package = _package_of(_written(place))
    return exists(place) if package is None else bool(package.exists(_written(place)))


def as_path(value: object, where: str) -> Path:
    """Check a path that a caller gave, and expand its ``~``."""
    if not isinstance(value, str | os.PathLike) or not os.fspath(value):
        raise wrong_type(where, value, "a path")
    try:
        return Path(value).expanduser()
    except RuntimeError:  # no such user: the path cannot exist
        return Path(value)


def _values(options: AnyPath | Mapping[str, object] | None) -> tuple[dict[str, Any], str]:
    """Settings, and where they are stated, for messages."""
    if options is None or isinstance(options, Mapping):
        return dict(options or {}), "options"
    from limner.config import read_toml

    return read_toml(as_path(options, "options")), str(options)


def named_paths(sources: Sequence[Path]) -> tuple[str, ...] | None:
    """Paths of folders and pictures, as in `Picture.paths`; of a list of pictures, those that it lists.

    Returns:
        None if there are none.
    """
    from limner.pictures.find import FoundFile, is_list, source_path, walk

    found: list[str] = []
    for source in sources:
        path = source_path(source)
        if is_list(path):
            found += [display(entry.path) for entry in walk([path]) if isinstance(entry, FoundFile)]
        else:
            found.append(display(path))
    return tuple(found) or None


def several(values: Sequence[One]) -> Sequence[One]:
    """A sequence of values; a single value, such as a string, becomes a sequence of length one."""
    return values if isinstance(values, list | tuple) else (values,)


def wrong_type(where: str, found: object, due: str) -> ConfigError:
    """Error for a value of a wrong type."""
    return ConfigError(f"{where}: {found!r:.60} is of type {type(found).__name__}; expected {due}")


def in_library(library: Store) -> InLibrary:
    """Function from a file to the file of the same picture in a library, by content.

    A text may show these pictures wherever they are.
    """
    from limner.pictures.decode import read_file

    def same(path: Path) -> Path | None:
        try:
            return Path(library.pictures([read_file(os.fsencode(path)).sha256])[0].path)
        except LimnerError:
            return None

    return same


def _conditions(
    folder: AnyPath | None, after: date | str | None, before: date | str | None, orientation: Shape | None
) -> Only:
    """Check the conditions of a search.

    Raises:
        ConfigError: a day is not a date, or the orientation is unknown.
    """
    from limner.store import Only, Shape

    days: list[date | None] = []
    for name, day in (("after", after), ("before", before)):
        try:
            days.append(date.fromisoformat(day) if isinstance(day, str) else day)
        except ValueError as error:
            raise ConfigError(f"search: {name} is {day!r}; expected a day such as 2024-07-31") from error
    if orientation not in (None, *get_args(Shape)):
        raise ConfigError("search: " + unknown("orientation", str(orientation), get_args(Shape)))
    inside = "" if folder is None else display(os.fsencode(os.path.abspath(as_path(folder, "folder"))))  # noqa: PTH100
    return Only(folder=inside, after=days[0], before=days[1], shape=orientation)


def _board(keep: object) -> Board:
    """The earlier storyboard, as given or read from a file."""
    if isinstance(keep, Board):
        return keep
    from limner.export.storyboard_json import load

    return load(as_path(keep, "keep"))


def _chosen(board: Board, options: BoardOptions, library: Store) -> Iterator[str]:
    """Lines on the row, the cover and the places that stay blank."""
    if board.row is not None:
        yield board.row.summary(library.pictures([one.picture for one in board.row.photographs]))
    if board.cover is not None and options.cover is None:
        yield f"cover: {Path(board.cover.path).name}, which no step shows (--cover none leaves it out)"
    if line := board.wanted_line():
        yield line


def _pinned_twice(pins: Mapping[int, str | None], library: Store) -> list[str]:
    """A line for every picture that is pinned to several steps."""
    steps: dict[str, list[int]] = {}
    for step, picture in sorted(pins.items()):
        if picture is not None:
            steps.setdefault(picture, []).append(step + 1)
    twice = {picture: places for picture, places in steps.items() if len(places) > 1}
    return [
        f"{Path(picture.path).name} is pinned to steps {', '.join(map(str, twice[picture.id]))}, and shown at"
        " each"
        for picture in library.pictures(list(twice))
    ]


def _run(one: AnyRun | None) -> Path | TrainedRun | None:
    """Trained run, or the path of its folder."""
    return as_path(one, "model") if isinstance(one, str | PathLike) else one


def _pins(pins: object) -> dict[int, str | None]:
    """Check pins; by step, the name of the picture."""
    if not isinstance(pins, Mapping | None):
        raise wrong_type("pins", pins, "a dict of steps, from 1, and pictures, such as {3: 'cake.jpg'}")
    found: dict[int, str | None] = {}
    for step, picture in (pins or {}).items():
        if isinstance(step, bool) or not isinstance(step, int):
            raise wrong_type("pins", step, "the number of a step, from 1")
        found[step] = None if picture is None else _named(picture, "pins")
    return found


def _named(picture: object, where: str) -> str:
    """Name, path or id of a picture."""
    return picture.id if isinstance(picture, Picture) else str(as_path(picture, where))


def _ocr_engine() -> OcrEngine | None:
    """Reader of the text in pictures, if the extra ``ocr`` is installed."""
    if find_spec("rapidocr") is None:
        return None
    from limner.pictures.ocr import rapid_ocr

    return rapid_ocr()
