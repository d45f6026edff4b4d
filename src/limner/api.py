"""What `import limner` offers: one `Library` that is filled, searched and illustrated from, and its answers.

The commands call the same methods, so that a command line and a few lines of Python give the same storyboard.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from pydantic import Field

from limner import records
from limner.config import read_toml
from limner.errors import ConfigError
from limner.export import Exported, export, load
from limner.export.fragment import board_fragment, hits_fragment
from limner.library import library
from limner.library.ingest import RESUME
from limner.library.known import IndexReport
from limner.library.store import read_settings
from limner.progress import Progress, index_progress
from limner.records import Candidate, Picture, Segmentation, Step, Story
from limner.storyboard.decode import Decoder
from limner.storyboard.equipment import AUTO, add_pictures
from limner.storyboard.illustrator import Illustrator
from limner.storyboard.trained import TrainedRun
from limner.text.read import Format, reading_of

if TYPE_CHECKING:
    from limner.runs.run import Run
    from limner.runs.train import Note, Reading
    from limner.training.loop import Event
    from limner.training.settings import RunConfig

AnyPath = str | os.PathLike[str]
AnyRun = AnyPath | TrainedRun
One = TypeVar("One")


class Storyboard(records.Storyboard):
    """A storyboard that can be saved, and that a notebook shows.

    Attributes:
        notes: what a person should know of how the text was read and its pictures chosen, a line each.
    """

    notes: tuple[str, ...] = Field(default=(), exclude=True)

    @classmethod
    def load(cls, path: AnyPath) -> Storyboard:
        """A storyboard that was saved as JSON.

        Raises:
            MissingError: there is no such file.
            DataError: it holds no storyboard.
        """
        return cls(**dict(load(_path(path, "load"))))

    def save(self, out: AnyPath, *, overwrite: bool = False) -> Exported:
        """Write the storyboard, whole or not at all.

        Args:
            out: a file; its suffix says what is written: .html (one page), .md (with copies of the pictures),
                .json, .pptx or .pdf.
            overwrite: whether a file that is there may be replaced.
        Returns:
            What was written, with what the reader of the file should know.
        Raises:
            ConfigError: an unknown suffix.
            LimnerError: as `limner.export.export`.
        """
        return export(records.Storyboard(**self._fields()), _path(out, "save"), overwrite=overwrite)

    def _fields(self) -> dict[str, Any]:
        return {name: value for name, value in self if name != "notes"}

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return board_fragment(self, self.notes)


class Hits(list[Candidate]):
    """Pictures that were found, best first; a notebook shows them.

    Attributes:
        channels: ways in which they were compared.
        notes: what a person should know of them, a line each.
    """

    def __init__(self, found: Sequence[Candidate], channels: Sequence[str], notes: Sequence[str]) -> None:
        """Take what was found."""
        super().__init__(found)
        self.channels, self.notes = tuple(channels), tuple(notes)

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return hits_fragment(self, self.notes)


class Library(library.Library):
    """Pictures of yours, and all that is done with them.

    Args:
        folder: of the library; an empty one is made where there is none. Pictures stay where they are.

    Example:
        >>> lib = limner.Library("lib")
        >>> lib.add("~/Pictures")
        >>> board = lib.illustrate("recipe.md", pins={3: "cake.jpg"})
        >>> board.save("recipe.html")
    """

    def __init__(self, folder: AnyPath) -> None:
        super().__init__(_path(folder, "Library"))
        self._opened: dict[tuple[object, ...], Illustrator] = {}
        self._version = self.version()

    def __repr__(self) -> str:
        """Folder and number of pictures."""
        return f"Library({str(self.folder)!r}): {len(self):,} pictures"

    def add(
        self,
        *sources: AnyPath,
        model: AnyRun | None = None,
        metric: AnyRun | None = None,
        encoders: Sequence[str] = (AUTO,),
        weights: Sequence[str] = (),
        precision: Literal["bfloat16", "float32"] = "bfloat16",
        engine: Literal["torch", "openvino"] = "torch",
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
            weights: ``NAME=FILE``, or folders to look in.
            precision: of the backbone.
            engine: what runs the backbone; openvino needs the extra ``fast``.
            captions: whether to use words that come with pictures.
            sentences: folder or name of a sentence-transformers model, in place of the multilingual encoder.
            follow_links: enter linked folders as well.
            workers: threads that decode; one per core unless given.
        Returns:
            What is new, changed and unchanged, and what was skipped and why.
        Raises:
            MissingError: a source is not there.
            KeyboardInterrupt: after Ctrl-C; what was read is kept, and the same call continues.
            LimnerError: as `limner.storyboard.equipment.add_pictures`.
        """
        places = [_path(source, "add") for source in sources]
        runs = [run for run in self._runs(model, metric) if run is not None]
        try:
            with index_progress() as progress:
                report = add_pictures(
                    self,
                    places,
                    encoders=_several(encoders),
                    weights=_several(weights),
                    runs=runs,
                    precision=precision,
                    engine=engine,
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
        query: str | Picture | os.PathLike[str],
        k: int = 10,
        *,
        relation: str | None = None,
        model: AnyRun | None = None,
        metric: AnyRun | None = None,
        channels: Sequence[str] = (),
    ) -> Hits:
        """Find pictures by words, or by a picture.

        Args:
            query: words; or a picture of the library, as a `Picture` or a path.
            k: pictures at most.
            relation: with words and a trained run, a relation that the pictures should have.
            model: as of `illustrate`.
            metric: as of `illustrate`.
            channels: as of `illustrate`.
        Returns:
            Pictures with the strength of the match and its reasons, best first; none where nothing reads the
            language of the words, which `notes` says.
        Raises:
            LimnerError: as `limner.storyboard.illustrator.Illustrator.search` and `like`.
        """
        if isinstance(k, bool) or not isinstance(k, int) or k < 1:
            raise ConfigError(f"search: k is {k!r}, expected a number of pictures, 1 or more")
        if not isinstance(query, str | Picture | os.PathLike):
            raise _wrong("search", query, "words, a Picture of the library or the Path of one")
        if isinstance(query, str) and not query.strip():
            raise ConfigError("search: no words; expected some, such as 'a boat on the sea'")
        opened = self._illustrator(model, metric, channels)
        if isinstance(query, str):
            found, note = opened.search(query, k, relation), opened.language_note(query)
        else:
            picture = query if isinstance(query, Picture) else self.find(query)
            found, note = opened.like(picture.id, k), None
        return Hits(found, opened.channel_names, (*opened.notes, *([note] if note else [])))

    def illustrate(
        self,
        text: AnyPath | Story | Sequence[str | Step | Mapping[str, object]],
        *,
        by: Segmentation | None = None,
        format: Format | None = None,  # noqa: A002
        pins: Mapping[int, AnyPath | Picture | None] | None = None,
        bans: Sequence[AnyPath | Picture] = (),
        decoder: Decoder | None = None,
        min_probability: float | None = None,
        allow_repeats: bool | None = None,
        keep_given: bool = True,
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
            decoder: how the pictures are made to agree: anchor, chain, beam, greedy or off.
            min_probability: leave a step blank where no picture fits with this probability, 0 to 1; a
                calibrated value unless given; 0 never leaves one blank.
            allow_repeats: let a picture, or one nearly the same, appear twice.
            keep_given: keep pictures that the text shows itself.
            relation: of the trained run, such as ``action``, that the pictures should have.
            model: a trained run, or its folder, in place of all channels; add it to the library first.
            metric: a trained same-document metric by which pictures are compared; likewise.
            channels: captions, base, labels or clip; all that the library has unless given.
            options: more options, see `limner.storyboard.illustrate.BoardOptions`, or a TOML file of them.
            overrides: ``key=value`` words, which go before all other options.
        Raises:
            ConfigError: something that is no text, an unknown option, or a pin below step 1.
            MissingError: no such file.
            DataError: a text without words, a picture that the library does not hold or that several files
                are called, or a step that the text does not have.
            LimnerError: as `limner.storyboard.illustrator.Illustrator.board`.
        """
        reading = reading_of(text, by=by, format=format)
        values: dict[str, Any] = {}
        where = "options"
        if isinstance(options, Mapping):
            values = dict(options)
        elif options is not None:
            where = str(options)
            values = read_toml(_path(options, "options"))
        now = {"decoder": decoder, "min_probability": min_probability, "allow_repeats": allow_repeats}
        values |= {name: value for name, value in now.items() if value is not None}
        opened = self._illustrator(model, metric, channels)
        chosen = opened.options(
            values,
            overrides,
            pins=_pins(pins),
            bans=[_named(picture, "bans") for picture in _several(bans)],
            where=where,
        )
        shown = opened.shown_by(reading.story) if keep_given else None
        board = opened.board(reading.story, chosen, shown=shown, relations=relation)
        notes = [*reading.summary(), *(shown.notes if shown else ())]
        about = [*opened.notes, opened.language_note(reading.story)]
        if "gap" in board.settings:
            about.append(f"the choice is proven to be within {board.settings['gap']} nats of the best one")
        return Storyboard(**dict(board), notes=(*notes, *(line for line in about if line)))

    def _illustrator(
        self, model: AnyRun | None, metric: AnyRun | None, channels: Sequence[str]
    ) -> Illustrator:
        """The library ready to be asked; kept until it changes, whoever changes it."""
        version = self.version()
        if version != self._version:
            self.settings, self._version = read_settings(self.folder), version
            self._opened.clear()
        channels = _several(channels)
        key = (_run(model), _run(metric), *channels)
        if key not in self._opened:
            asked, compared = self._runs(model, metric)
            self._opened[key] = Illustrator(self, model=asked, metric=compared, channels=channels)
        return self._opened[key]

    @staticmethod
    def _runs(model: AnyRun | None, metric: AnyRun | None) -> tuple[TrainedRun | None, TrainedRun | None]:
        """Both runs opened, each of its kind."""
        if model is None and metric is None:
            return None, None
        from limner.runs.run import library_runs  # loads torch, which few libraries of pictures need

        return library_runs(_run(model), _run(metric))


def train(
    config: AnyPath | RunConfig,
    *,
    to: AnyPath,
    data: AnyPath = "",
    overrides: Mapping[str, object] | Sequence[str] = (),
    smoke: bool = False,
    weights: AnyPath | None = None,
    device: str = "cpu",
) -> Run:
    """Train a system as its settings say; a folder that holds a stopped run goes on.

    Args:
        config: a settings file, TOML, or settings.
        to: folder of the run; made if absent.
        data: what is laid over the file: a name such as ``clue``, or a TOML file.
        overrides: what replaces settings of a file, such as ``{"loop.lr": 2e-4}``, or ``key=value`` words.
        smoke: shrink everything to a run of seconds, to see that it works.
        weights: of the backbone: a file, or a folder to look in.
        device: torch device that trains.
    Returns:
        The run, with its best weights on validation.
    Raises:
        LimnerError: as `limner.runs.train.train`.
    """
    from limner.runs.train import train as run_of
    from limner.training.settings import RunConfig

    words = overrides if isinstance(overrides, Mapping) else _several(overrides)
    if not all(isinstance(word, str) for word in words):
        raise _wrong("overrides", overrides, "a table such as {'loop.lr': 2e-4}, or key=value words")
    with index_progress() as bar:
        return run_of(
            config if isinstance(config, RunConfig) else _path(config, "train"),
            to=_path(to, "to"),
            data=str(_path(data, "data")) if data else "",
            overrides=words,
            smoke=smoke,
            weights=None if weights is None else _path(weights, "weights"),
            device=device,
            progress=_Training(bar),
        )


class _Training:
    """Shows what a training tells: pictures read, steps of an epoch, and a line for each epoch."""

    def __init__(self, bar: Progress) -> None:
        self._bar, self._stage, self._done = bar, "", 0

    def __call__(self, news: Note | Reading | Event) -> None:
        """Show it."""
        from limner.runs.train import Note, Reading

        if isinstance(news, Note):
            self._bar.note(news.text)
        elif isinstance(news, Reading):
            self._until("pictures", news.done, news.total)
        elif news.kind == "step":
            self._until(f"epoch {news.position.epoch + 1} of {news.epochs}", news.position.step, news.steps)
        else:
            values = "  ".join(f"{name} {value:.3f}" for name, value in news.values.items())
            self._bar.note(f"epoch {news.position.epoch} of {news.epochs}: {values}")

    def _until(self, stage: str, done: int, total: int) -> None:
        if stage != self._stage:
            self._bar.stage(stage, total)
            self._stage, self._done = stage, 0
        self._bar.advance(done - self._done)
        self._done = done


def _run(one: AnyRun | None) -> Path | Run | None:
    """A run as it is, and its folder as a path."""
    if one is None or isinstance(one, str | os.PathLike):
        return None if one is None else _path(one, "model")
    from limner.runs.run import Run

    if not isinstance(one, Run):
        raise _wrong("model", one, "a run, or the path of its folder")
    return one


def _path(value: object, where: str) -> Path:
    """A path that somebody gave, with ``~`` expanded."""
    if not isinstance(value, str | os.PathLike) or not os.fspath(value):
        raise _wrong(where, value, "a path")
    return Path(value).expanduser()


def _several(values: Sequence[One]) -> Sequence[One]:
    """Several values, where somebody may have given one alone: a string is no list of its letters."""
    return values if isinstance(values, list | tuple) else (values,)


def _pins(pins: object) -> dict[int, str | None]:
    """Pins by the names of their pictures."""
    if not isinstance(pins, Mapping | None):
        raise _wrong("pins", pins, "a table of steps, from 1, and pictures, such as {3: 'cake.jpg'}")
    found: dict[int, str | None] = {}
    for step, picture in (pins or {}).items():
        if isinstance(step, bool) or not isinstance(step, int):
            raise _wrong("pins", step, "the number of a step, from 1")
        found[step] = None if picture is None else _named(picture, "pins")
    return found


def _named(picture: object, where: str) -> str:
    """What a picture is found by."""
    return picture.id if isinstance(picture, Picture) else str(_path(picture, where))


def _wrong(where: str, found: object, due: str) -> ConfigError:
    """An error on a value of a wrong type."""
    return ConfigError(f"{where}: {found!r:.60} is of type {type(found).__name__}; expected {due}")
