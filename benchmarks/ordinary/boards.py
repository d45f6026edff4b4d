"""Jobs illustrated as limner does it, and each step alone by plain search.

A job's gallery stands in for a library on disk; everything else is the `Illustrator` of the command and the
studio, with its channels, calibration, blanks and default options. Plain search is that of commit d8479d2, by
`plain.json`: every change is held against the same yardstick.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, islice
from pathlib import Path

import numpy as np
from embeddings import save

from limner.arrays import FloatArray, TextEncoder
from limner.encoders.catalogue import MULTILINGUAL
from limner.match.encoder_setup import channels_of
from limner.match.illustrate import query_texts, step_texts
from limner.match.illustrator import Illustrator, locked_cached_property
from limner.match.languages import language_of_query, languages_of_story, unread
from limner.pictures.places import places
from limner.records import BoardStep, Picture
from limner.store import CAPTION_SPACES, Settings, SpaceInfo, Store, Taken
from limner.store.search import Channel, EncodedChannel, Evidence, Index
from limner.store.vectors import Gallery
from ordinary.jobs import Job
from ordinary.pictures import Encoders

Coordinates = dict[str, tuple[float, float]]
"""Latitude and longitude of some pictures, by id."""


PLAIN = json.loads(Path(__file__).with_name("plain.json").read_text(encoding="utf-8"))
"""Evidence of the channels of plain search, and what they count beside others."""


@dataclass(frozen=True)
class Outcome:
    """What a step was given.

    Attributes:
        text: id of the text it belongs to.
        chosen: id of its picture on the board; None for a blank.
        alone: id of the picture that plain search gives it.
        stated: what the board states, see `stated`.
        own, fits: as in `Job`.
        lack: as in `Job`.
    """

    text: str
    chosen: str | None
    alone: str | None
    stated: float | None
    own: frozenset[str]
    fits: frozenset[str]
    lack: str


def stated(step: BoardStep) -> float | None:
    """The probability that a step states: the one place that says which number is judged."""
    return step.probability


class Memory:
    """A text encoder that encodes every text once, in large batches, and keeps them in a folder."""

    def __init__(self, encoder: TextEncoder, folder: Path) -> None:
        self.encoder = encoder
        self.name, self.dim, self.fingerprint = encoder.name, encoder.dim, encoder.fingerprint
        self._folder = folder / "texts" / f"{encoder.name}-{encoder.fingerprint[:12]}"
        self._folder.mkdir(parents=True, exist_ok=True)
        self._read: set[Path] = set()
        self._known: dict[str, FloatArray] = {}

    def learn(self, texts: Sequence[str]) -> None:
        """Encode what neither this process nor another has encoded."""
        if all(text in self._known for text in texts):
            return
        for path in sorted(self._folder.glob("*.npy")):
            if path not in self._read:
                listed = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
                self._known |= zip(listed, np.load(path, allow_pickle=False), strict=True)
                self._read.add(path)
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        if new:
            vectors = self.encoder.encode_text(new)
            self._known |= zip(new, vectors, strict=True)
            written = json.dumps(new)
            path = self._folder / f"{hashlib.sha256(written.encode()).hexdigest()[:24]}.npy"
            path.with_suffix(".json").write_text(written, encoding="utf-8")
            save(path, vectors)  # last, so that whoever sees it finds its texts
            self._read.add(path)

    def encode_text(self, texts: Sequence[str]) -> FloatArray:
        """(N, D) unit rows."""
        self.learn(texts)
        return np.stack([self._known[text] for text in texts])


class JobPictures(Store):
    """The pictures of a job where a library is expected."""

    def __init__(self, pictures: Sequence[Picture], coordinates: Coordinates) -> None:
        days = [int(f"{one.taken:%Y%m%d}") if one.taken else 0 for one in pictures]
        near = places().near(list(coordinates.values())) if coordinates else []
        number = {one.id: row for row, one in enumerate(pictures)}
        rows = [number[one] for one in coordinates]
        self._taken = Taken(
            number,
            np.array(days, dtype=np.int64),
            np.repeat(np.array(rows, dtype=np.int64), [len(one) for one in near]),
            np.array([number for one in near for number in one], dtype=np.int64),
        )
        self._known = {one.id: one for one in pictures}
        folders = [str(Path(one.path).parent) for one in pictures]
        self._number = {name: number for number, name in enumerate(dict.fromkeys(folders))}
        self._folder = {one.id: self._number[name] for one, name in zip(pictures, folders, strict=True)}
        self._inside: dict[int, list[Picture]] = {}
        for one in pictures:
            self._inside.setdefault(self._folder[one.id], []).append(one)
        self._sizes = np.array([len(self._inside[number]) for number in range(len(self._number))])

    def under(self, places: Sequence[str]) -> list[Picture]:
        """Pictures below folders."""
        folders = tuple(f"{place}/" for place in places)
        return [one for one in self._known.values() if one.path.startswith(folders)]

    def taken(self) -> Taken:
        """When and where they were taken."""
        return self._taken

    def words(self) -> Iterator[tuple[str, str]]:
        """Id and each file name and caption of every picture."""
        for one in self._known.values():
            lines = [Path(one.path).name, *(said.text for said in one.captions)]
            yield from ((one.id, line) for line in lines)

    def folders_of(self, ids: Iterable[str]) -> np.ndarray:
        """Number of each picture's folder."""
        return np.array([self._folder[one] for one in ids], dtype=np.int64)

    @property
    def folder_sizes(self) -> np.ndarray:
        """Number of pictures of each folder."""
        return self._sizes

    def folder_name(self, number: int) -> str:
        """Name of a folder."""
        return Path(next(name for name, one in self._number.items() if one == number)).name

    def in_folder(self, number: int) -> list[str]:
        """Ids of the pictures of a folder, in order of time and path."""
        inside = self._inside[number]
        return [one.id for one in sorted(inside, key=lambda one: (str(one.taken or "9"), one.path))]

    def __len__(self) -> int:
        return len(self._known)

    def __contains__(self, picture: object) -> bool:
        return picture in self._known

    def pictures(self, ids: Iterable[str]) -> list[Picture]:
        """Records by id, in that order."""
        return [self._known[one] for one in ids]


class JobLibrary(JobPictures):
    """A gallery of a job where a library is expected."""

    def __init__(self, job: Job, encoders: Encoders, coordinates: Coordinates | None = None) -> None:
        text, eyes = encoders
        info = {"captions": SpaceInfo(encoder=text.name, fingerprint=text.fingerprint, dim=text.dim)}
        for eye in eyes:
            for space, dim in eye.spaces.items():
                info[space] = SpaceInfo(encoder=eye.name, fingerprint=eye.fingerprint, dim=dim)
        gallery = job.gallery
        if "multilingual" in gallery.spaces:
            space = gallery.space("multilingual")
            info["multilingual"] = SpaceInfo(
                encoder=MULTILINGUAL, fingerprint=space.fingerprint, dim=space.matrix.shape[1]
            )
        if not gallery.space("captions").present.any():
            for name in CAPTION_SPACES:  # a library without words has no such space
                info.pop(name, None)
        super().__init__(job.records(gallery.ids), coordinates or {})
        self.name = self.place = f"{job.kind}-{job.words}-{job.size}"
        self.folder = Path(self.place)
        self._settings, self._gallery = Settings(spaces=info), gallery

    @property
    def settings(self) -> Settings:
        """Its spaces."""
        return self._settings

    def index(self, spaces: Sequence[str]) -> Index:
        """The vectors asked for."""
        held = self._gallery
        return Index(Gallery(held.ids, held.groups, {name: held.space(name) for name in spaces}))

    def words_shown(self, ids: Iterable[str]) -> dict[str, str]:
        """No text in pictures was read."""
        return {}

    def vectors(self) -> dict[str, int]:
        """Number of vectors by vector space."""
        return {name: int(self._gallery.space(name).present.sum()) for name in self.settings.spaces}


class Desk:
    """Illustrates jobs; encoders and their vectors are kept from library to library."""

    def __init__(
        self,
        encoders: Encoders,
        folder: Path,
        overrides: Sequence[str] = (),
        *,
        pinned: bool = False,
    ) -> None:
        self.encoders, self.folder, self.overrides = encoders, folder, tuple(overrides)
        self.pinned = pinned
        self._channels: dict[tuple[str, ...], tuple[Channel, ...]] = {}
        self._memory: dict[str, Memory] = {}

    def channels(self, library: JobLibrary) -> tuple[Channel, ...]:
        """Those that limner takes for a library with these spaces, their encoders with a memory."""
        held = tuple(name for name, count in library.vectors().items() if count)
        if held not in self._channels:
            found = channels_of(library, ())
            self._channels[held] = tuple(replace(one, encoder=self._kept(one.encoder)) for one in found)
        return self._channels[held]

    def _kept(self, encoder: TextEncoder) -> Memory:
        if encoder.fingerprint not in self._memory:
            self._memory[encoder.fingerprint] = Memory(encoder, self.folder)
        return self._memory[encoder.fingerprint]

    def outcomes(self, jobs: Sequence[Job]) -> Iterator[list[Outcome]]:
        """Per job what its steps were given, in the order of the jobs."""
        self.learn(jobs)
        for _, told in groupby(jobs, key=lambda job: id(job.gallery)):
            together = list(told)
            illustrator = JobIllustrator(together[0], self)
            alone = iter(illustrator.alone([text for job in together for text in step_texts(job.story)]))
            for job in together:
                yield illustrator.outcome(job, list(islice(alone, len(job.own))))

    def learn(self, jobs: Sequence[Job]) -> None:
        """Encode the texts of jobs of one kind, all at once."""
        if not jobs:
            return
        illustrator = JobIllustrator(jobs[0], self)
        for channel in illustrator.channels:
            assert isinstance(channel.encoder, Memory)
            told = [text for job in jobs for text in step_texts(job.story)]
            for job in jobs:
                codes = [one.code for one in languages_of_story(job.story).each]
                for portion in query_texts(job.story, codes)[1].portions(channel):
                    told += portion
            channel.encoder.learn(told)


class JobIllustrator(Illustrator):
    """The illustrator of a job's library."""

    def __init__(self, job: Job, desk: Desk, coordinates: Coordinates | None = None) -> None:
        super().__init__(JobLibrary(job, desk.encoders, coordinates))
        self._desk = desk
        self._options = self.options(overrides=desk.overrides)

    @locked_cached_property
    def channels(self) -> tuple[Channel, ...]:
        """As `Illustrator.channels`, with the desk's encoders."""
        assert isinstance(self.library, JobLibrary)
        return self._desk.channels(self.library)

    def outcome(self, job: Job, alone: Sequence[str | None]) -> list[Outcome]:
        """What the steps of a job are given, beside what plain search gives them.

        With a pin, the first step that has a picture shows it, and the others alone are judged.
        """
        pins = {}
        if self._desk.pinned:
            pins = next(({s: min(own)} for s, own in enumerate(job.own) if own), {})
        board = self.board(job.story, self._options.model_copy(update={"pins": pins}))
        return [
            Outcome(
                job.story.id,
                None if step.chosen is None else step.chosen.picture.id,
                alone[s],
                stated(step),
                job.own[s],
                job.fits[s],
                job.lacks[s],
            )
            for s, step in enumerate(board.steps)
            if s not in pins
        ]

    def alone(self, texts: Sequence[str]) -> list[str | None]:
        """What plain search found first for each text by itself, in one search."""
        codes = [language_of_query(text, self.library.settings) for text in texts]
        known = [one for one in self.channels if one.name in PLAIN["channels"]]  # plain search had no other
        plain = [
            Channel(
                one.name, one.encoder, one.name, Evidence(**PLAIN["channels"][one.name]), beside, one.reads
            )
            for one in known
            for beside in [PLAIN["beside"].get(one.name, 1.0)]
        ]
        encoded = [EncodedChannel.encode(one, list(texts), codes) for one in plain]
        part = self.index.among([(encoded, 1)])
        rows = part.search(encoded, 1).rows
        dark = set(unread(codes, plain))
        return [
            None if place in dark or not len(row) else part.gallery.ids[row[0]]
            for place, row in enumerate(rows)
        ]
