"""A library as loaded at one time: its catalogue, and what is needed to ask it, kept warm between requests.

Commands load all this for one storyboard; the studio loads it once. It never changes: after indexing, another
one takes its place.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from pydantic import Field

from limner.apps.equipment import PAIR_SPACES, channels_of
from limner.apps.illustration import LOOKS, options_from
from limner.apps.run_channels import check_vectors, predicted, run_channels
from limner.apps.studio.catalogue import Catalogue
from limner.apps.studio.relations import relation_channel
from limner.apps.studio.remembering import Remembering
from limner.apps.trained import DOCUMENT, MODEL, TrainedRun
from limner.data.records import Record, Story
from limner.data.storyboards import Candidate, Storyboard
from limner.errors import ConfigError, DataError, LimnerError
from limner.retrieval import calibration
from limner.retrieval.channels import Channel, EncodedChannel
from limner.retrieval.decoding import Decoder
from limner.retrieval.index import Index
from limner.retrieval.library import Library, SkippedFile
from limner.retrieval.storyboard import BoardOptions, illustrate
from limner.retrieval.suitability import Suitability
from limner.retrieval.words import matched


class Options(Record):
    """How to illustrate, as far as a project sets it; see `limner.retrieval.storyboard.BoardOptions`.

    Attributes:
        decoder: off, greedy, beam, chain or anchor.
        allow_repeats: whether a picture may be shown twice.
        min_probability: a step is left blank below it; None for the calibrated threshold, 0 for never.
        pair_weight: times the evidence of two pictures for each other; None for the calibrated one.
        candidates: pictures considered per step; None for 200, and for fewer where a text has more than
            20 steps, so that a long one is not waited for.
        runners_up: other candidates named per step.
    """

    decoder: Decoder = "anchor"
    allow_repeats: bool = False
    min_probability: float | None = Field(default=None, ge=0, lt=1)
    pair_weight: float | None = Field(default=None, ge=0, le=100)
    candidates: int | None = Field(default=None, ge=1, le=2000)
    runners_up: int = Field(default=3, ge=0, le=200)


@dataclass(frozen=True)
class Wishes:
    """What a user fixed on a storyboard.

    Attributes:
        pins: 0-based step → picture id, or None to keep it blank.
        relations: 0-based step → relation that its picture should have.
        bans: pictures that must not be shown.
        given: 0-based step → picture of the library that the text itself shows there.
    """

    pins: Mapping[int, str | None]
    relations: Mapping[int, str]
    bans: Sequence[str] = ()
    given: Mapping[int, str] | None = None


NOTHING = Wishes({}, {})
# The work of decoding grows with the square of steps times candidates.
CANDIDATES, FEWEST, CANDIDATES_IN_ALL = 200, 20, 4_000


@dataclass(frozen=True)
class Asking:
    """What a search of a library needs."""

    index: Index
    channels: tuple[Channel, ...]
    suitability: Suitability | None


def considered(steps: int) -> int:
    """Pictures considered per step of a text of so many."""
    return min(CANDIDATES, max(FEWEST, CANDIDATES_IN_ALL // steps))


class Snapshot:
    """One state of a library, ready to be asked; thread-safe, since nothing of it changes."""

    def __init__(
        self, library: Library, model: TrainedRun | None = None, metric: TrainedRun | None = None
    ) -> None:
        """Read the catalogue; vectors and encoders are loaded on first use.

        Args:
            library: the pictures.
            model: a trained run in place of all channels, as of ``limner illustrate --model``.
            metric: a same-document metric by which pictures pull each other.
        Raises:
            DataError: a table of the library is damaged.
        """
        self.library, self.model, self.metric = library, model, metric
        self.name = library.folder.resolve().name
        self.catalogue = Catalogue.read(library.store)
        self._lock = threading.RLock()
        self._options: dict[Options, BoardOptions] = {}

    @property
    def relations(self) -> tuple[str, ...]:
        """Relations that can be asked for; none without a trained run that knows some."""
        return () if self.model is None else self.model.relations

    @cached_property
    def left_out(self) -> tuple[SkippedFile, ...]:
        """Files that could not be used, by path, with the reasons."""
        return tuple(self.library.skipped())

    @cached_property
    def channel_names(self) -> tuple[str, ...]:
        """Ways in which words find pictures; none in an empty library, or where nothing answers words."""
        try:
            return tuple(channel.name for channel in self.asking.channels)
        except LimnerError:
            return ()

    @property
    def asking(self) -> Asking:
        """Index and channels.

        Raises:
            DataError: the library is empty, or nothing in it answers words.
            CheckpointError: it was indexed with another run or encoder.
        """
        with self._lock:
            return self._asking

    @cached_property
    def _asking(self) -> Asking:
        if not len(self.catalogue):
            raise DataError(f"{self.name}: the library holds no picture yet; add a folder of pictures first")
        calibrated = calibration.load()
        if self.model is None:
            channels = channels_of(self.library, (), calibrated)
        else:
            channels = run_channels(self.model, self.library)
        if self.metric is not None:
            check_vectors(self.metric, self.library)
        held = self.library.settings.spaces
        spaces = {channel.space for channel in channels} | {one for one in PAIR_SPACES if one in held}
        if self.metric is not None:
            spaces.add(DOCUMENT)
        gallery = self.library.gallery(sorted(spaces))
        suitability = None
        if self.model is None:
            telling = [one.name for one in channels if gallery.space(one.space).present.any()]
            suitability = calibrated.suitable(telling or [one.name for one in channels])
        remembering = {one.encoder: Remembering(one.encoder) for one in channels}
        kept = tuple(replace(one, encoder=remembering[one.encoder]) for one in channels)
        return Asking(Index(gallery), kept, suitability)

    def board_options(self, options: Options) -> BoardOptions:
        """The options of a storyboard, with what the calibration says where a project says nothing.

        Raises:
            ConfigError: a threshold with a trained run, for which there is no calibration of blanks.
        """
        with self._lock:
            if options not in self._options:
                if options.min_probability is not None and self.model is not None:
                    raise ConfigError(
                        "min_probability is calibrated for other channels and does not go with a trained run;"
                        " leave it out"
                    )
                values = options.model_dump(exclude_none=True)
                channels = () if self.model is None else (MODEL,)
                self._options[options] = options_from(
                    self.library, values, channels=channels, metric=self.metric
                )
            return self._options[options]

    def board(self, story: Story, options: Options, wishes: Wishes = NOTHING) -> Storyboard:
        """Illustrate a story.

        Args:
            story: the text.
            options: how.
            wishes: what is fixed.
        Raises:
            LimnerError: as `limner.retrieval.storyboard.illustrate`; a relation that the run does not know.
        """
        asking = self.asking
        chosen = self.board_options(options).model_copy(
            update={
                "candidates": options.candidates or considered(len(story.steps)),
                "pins": dict(wishes.pins),
                "bans": tuple(one for one in dict.fromkeys(wishes.bans) if one in self.catalogue),
            }
        )
        channels = [*asking.channels, *self._relation(len(story.steps), wishes.relations)]
        given = {
            step: one
            for step, one in (wishes.given or {}).items()
            if one in self.catalogue and one not in chosen.bans
        }
        with self._lock:  # torch runs on all cores as it is; two boards at once would only wait longer
            board = illustrate(
                story,
                asking.index,
                channels,
                self.catalogue.pictures,
                chosen,
                suitability=asking.suitability,
                given=given,
                library=self.name,
            )
            if self.model is None:
                return board
            named = f"{self.model.folder.resolve().name} {self.model.fingerprint[:12]}"
            settings = board.settings | {"model": named}
            board = board.model_copy(update={"settings": settings})
            return predicted(board, self.model, asking.index.gallery)

    def strip(
        self, board: Storyboard, options: Options, wishes: Wishes, step: int, limit: int
    ) -> list[Candidate]:
        """Candidates for one step, all others staying as they are; the one it would show first.

        Args:
            board: as it is.
            options: of the project.
            wishes: of the project; its relation for this step counts.
            step: 0-based.
            limit: candidates at most.
        Raises:
            LimnerError: as `board`.
        """
        pins = {
            one.position: None if one.chosen is None else one.chosen.picture.id
            for one in board.steps
            if one.position != step and (one.chosen is None or one.chosen.picture.id in self.catalogue)
        }
        bans = [one for one in wishes.bans if one not in pins.values()]
        # What looks like the other steps' pictures comes on top, so a long text needs no more of its own.
        usual = considered(len(board.steps))
        candidates = max(options.candidates or usual, min(limit, usual))
        wider = options.model_copy(update={"runners_up": limit, "candidates": candidates})
        found = self.board(board.story, wider, Wishes(pins, wishes.relations, bans)).steps[step]
        chosen = () if found.chosen is None else (found.chosen,)
        return [*chosen, *found.runners_up][:limit]

    def search(self, text: str, limit: int, relation: str | None = None) -> list[Candidate]:
        """Pictures for words, best first.

        Args:
            text: what to look for, one line or a whole text.
            limit: pictures at most.
            relation: that they should have, where a trained run knows some.
        Raises:
            LimnerError: as `asking`, or an unknown relation.
        """
        asking = self.asking
        channels = [*asking.channels, *self._relation(1, {} if relation is None else {0: relation})]
        with self._lock:
            encoded = [EncodedChannel.encode(one, [text]) for one in channels]
        return self._found(encoded, limit, text=text)

    def like(self, picture: str, limit: int) -> list[Candidate]:
        """Pictures like another one, best first: by all ways in which two pictures are compared.

        Args:
            picture: id; it is not among the pictures found.
            limit: pictures at most.
        Raises:
            LimnerError: as `asking`; there is no such picture, or no vector of it.
        """
        self.catalogue.pictures([picture])
        index, calibrated = self.asking.index, calibration.load()
        row = index.gallery.ids.index(picture)
        looks = []
        for name in PAIR_SPACES:
            space = index.gallery.spaces.get(name)
            if space is not None and space.present[row]:
                vector = np.asarray(space.matrix[row : row + 1], dtype=np.float32)
                looks.append(EncodedChannel(name, name, calibrated.pull(name).evidence, vector))
        if self.metric is not None and index.gallery.space(DOCUMENT).present[row]:
            vector = np.asarray(index.gallery.space(DOCUMENT).matrix[row : row + 1], dtype=np.float32)
            looks.append(EncodedChannel(DOCUMENT, DOCUMENT, calibrated.pull(LOOKS).evidence, vector))
        if not looks:
            raise DataError(
                f"picture {picture[:12]}: nothing is known to compare it by; index with an encoder"
            )
        return self._found(looks, limit, without=row)

    def _found(
        self,
        encoded: Sequence[EncodedChannel],
        limit: int,
        *,
        text: str = "",
        without: int | None = None,
    ) -> list[Candidate]:
        index = self.asking.index
        exclude = np.zeros(len(index.gallery), dtype=bool)
        if without is not None:
            exclude[without] = True
        with self._lock:
            hits = index.search(encoded, limit, exclude=exclude)
        pictures = self.catalogue.pictures([index.gallery.ids[row] for row in hits.rows[0]])
        found = []
        for place, picture in enumerate(pictures):
            shares = {
                name: float(share[0, place])
                for name, share in hits.shares.items()
                if hits.present[name][0, place]
            }
            words = matched(text, [one.text for one in picture.captions]) if text else ()
            found.append(
                Candidate(picture=picture, score=float(hits.scores[0, place]), channels=shares, matched=words)
            )
        return found

    def _relation(self, steps: int, relations: Mapping[int, str]) -> list[Channel]:
        if not relations:
            return []
        if self.model is None:
            raise ConfigError(
                "relation: only a trained run knows relations; start the studio with --model RUN"
            )
        return [relation_channel(self.model, [relations.get(step) for step in range(steps)])]
