"""An open library, ready to illustrate any number of texts; used by the commands, the studio and Python.

Everything that does not depend on a text is loaded once: settings, records, vectors and their moments,
encoders, the calibration, a trained run. `limner.match.illustrate` chooses the pictures.
"""

from __future__ import annotations

import hashlib
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import cached_property
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from limner.arrays import FloatArray, ImageEncoder
from limner.devices import one_core_products
from limner.encoders.text_cache import RecentTextCache
from limner.errors import ConfigError, DataError, LimnerError, counted
from limner.language import direction, language_name, matched
from limner.match.calibration import load
from limner.match.candidates import EncodedSteps, Float64Array, IntArray, Pool, QueryTexts, pool_of
from limner.match.encoder_setup import PAIR_SPACES, channels_of, image_encoders_of, vectors_of_file
from limner.match.languages import (
    language_of_query,
    languages_of_story,
    negation_note,
    unread,
    unread_note,
    unreadable,
)
from limner.match.probabilities import OCR, PIXELS, WORDS, agreement, evidence, first_of, probabilities
from limner.match.when_where import WhenWhere
from limner.records import NO_COVER, Board, BoardStep, Candidate, Picture, Story
from limner.store import Only, Store
from limner.store.search import Channel, EncodedChannel, Evidence, Index, Request
from limner.store.vectors import FEW_TEXTS, BoolArray
from limner.text.dates import Said, said_by, said_in

if TYPE_CHECKING:
    from limner.encoders.trained import TrainedRun
    from limner.match.cast import Cast
    from limner.match.given_pictures import GivenPictures
    from limner.match.illustrate import BoardOptions, BoardScores
    from limner.match.rows import Placed
    from limner.progress import Progress

NONE = "none"
LOOKS = ("looks", "visual", "clip", "colour")
"""Spaces of visual similarity; the first that a library has counts."""
LIKENESS = Evidence(slope=0.0, z_slope=1.0, offset=0.0)
READING, CHOOSING = "text", "choosing"
TEXTS_KEPT = 2
"""Number of cached texts, and of storyboards whose scores are cached."""
CONSIDERED = 50
"""Minimum number of pictures that a search scores per channel."""
RERANKED = 1000
"""The same for a search with wanted or unwanted words in addition."""
READ_WHOLE = 200_000
"""Up to this many pictures that meet the conditions, all are compared, however large the library is."""
COVERS = 0.4
"""A photograph that stands for the whole text with a lower probability is not its cover."""
OUTSIDE = "The text shows this picture itself. It is not in the library and does not influence other steps."
Value = TypeVar("Value")


class locked_cached_property(cached_property[Value]):  # noqa: N801  (used as a decorator)
    """Cached property of an `Illustrator`, computed once even with several threads."""

    def __get__(self, instance: Any, owner: type[Any] | None = None) -> Any:  # noqa: ANN401
        if instance is None:
            return self
        with instance.lock:
            return super().__get__(instance, owner)


class Matches(list[Candidate]):
    """Result of a search, best first.

    Attributes:
        searched: number of pictures that were searched, namely those that meet the conditions.
        below: number of the best pictures that were left out because their probability is below
            `min_probability`.
    """

    def __init__(self, found: Sequence[Candidate] = (), *, searched: int, below: int = 0) -> None:
        """Wrap a result."""
        super().__init__(found)
        self.searched, self.below = searched, below

    def notes(self) -> list[str]:
        """Notes on the result, one line each."""
        lines = []
        if not self.searched:
            lines.append("no picture meets the conditions; search with fewer or wider ones")
        if self.below:
            left_out = counted(self.below, "picture")
            nothing = "" if self else "nothing similar found: "
            lines.append(f"{nothing}left out {left_out} with a probability below --min-probability")
        return lines


class Illustrator:
    """An open library, prepared for searches; thread-safe.

    It does not see pictures that come later: after indexing, create another one. Vectors and encoders are
    loaded when they are first used.

    Attributes:
        library, model, metric: as given.
        name: name of the library.
        lock: lock for loading and computing.
    """

    def __init__(
        self,
        library: Store,
        *,
        model: TrainedRun | None = None,
        metric: TrainedRun | None = None,
        channels: Sequence[str] = (),
        weights: Sequence[str] = (),
        device: str = "cpu",
    ) -> None:
        """Prepare an open library.

        Args:
            library: the pictures.
            model: a trained run with which the library was indexed; it replaces all channels, and predicts
                relations and attention. It is not calibrated, so no step is left blank.
            metric: a trained same-document metric, used instead of all other ways of comparing pictures.
            channels: channels to use; None for all that the library has.
            weights: weights of clip, ``NAME=FILE`` or folders to look in; empty for the default folders.
            device: device for comparing pictures from outside the library; runs stay on theirs.
        Raises:
            ConfigError: channels are given in addition to a run.
            DataError: a table of the library is damaged.
        """
        if model is not None and channels:
            raise ConfigError("--channel: a trained run replaces all channels; drop --channel or --model")
        self.library, self.model, self.metric = library, model, metric
        self.name = library.name
        self._named, self._weights, self._device = tuple(channels), tuple(weights), device
        self.lock = threading.RLock()
        self._read: deque[Any] = deque(maxlen=TEXTS_KEPT)
        self._recent_scores: deque[BoardScores] = deque(maxlen=TEXTS_KEPT)

    @locked_cached_property
    def index(self) -> Index:
        """Index of all vectors.

        Raises:
            DataError: the library is empty, or lacks the vectors of the run.
            CheckpointError: it was indexed with another run.
        """
        held = self.library.settings.spaces
        for run in self._runs:
            self._check(run)
        spaces = {channel.space for channel in self.channels}
        spaces |= {one for one in PAIR_SPACES if one in held} | {run.space for run in self._runs}
        return self.library.index(sorted(spaces))

    @locked_cached_property
    def channels(self) -> tuple[Channel, ...]:
        """Channels that compare words with pictures; their encoders cache the last texts.

        Raises:
            DataError: the library is empty, has no vectors for comparing words, or none of the run.
            CheckpointError: it was indexed with another run or encoder.
        """
        if not len(self.library):
            raise DataError(f"{self.name}: the library holds no picture yet; add a folder of pictures first")
        if self.model is None:
            return tuple(channels_of(self.library, self._named, self._weights))
        from limner.match.trained import run_channel

        own = run_channel(self.model, self.library)
        return (replace(own, encoder=RecentTextCache(own.encoder, together=own.whole)),)

    @property
    def channel_names(self) -> tuple[str, ...]:
        """Names of the channels; empty for an empty library, or if none reads words."""
        try:
            return tuple(one.name for one in self.channels)
        except LimnerError:
            return ()

    @property
    def calibrated(self) -> bool:
        """Whether probabilities are available: with all channels except a trained run."""
        return self.model is None

    @property
    def relations(self) -> tuple[str, ...]:
        """Relations that can be requested; empty without a trained run that predicts some."""
        return () if self.model is None else self.model.model.relations

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on the library, one line each.

        Raises:
            LimnerError: see `index`.
        """
        index, found = self.index, []
        for run in self._runs:
            from limner.match.trained import without_vectors

            found.append(without_vectors(run, index.held(run.space), index.pictures, self.library))
        return tuple(line for line in found if line)

    def options(
        self,
        values: Mapping[str, Any] | None = None,
        overrides: Sequence[str] = (),
        *,
        pins: Mapping[int, str | None] | None = None,
        bans: Sequence[str] = (),
        where: str = "options",
    ) -> BoardOptions:
        """Parse options of a storyboard.

        Args:
            values: settings of a file or of command-line options, with `pins` and `bans` as users write them:
                steps from 1, pictures by path, name or id, or ``none``.
            overrides: ``key=value`` words.
            pins: step, from 1 → path, name or id of a picture, or None or ``none`` to keep it blank.
            bans: pictures by path, name or id.
            where: name for messages.
        Raises:
            ConfigError: a setting is unknown, a step is below 1, or a threshold is given with a trained run,
                which is not calibrated.
            DataError: a picture is not in the library.
        """
        from limner.config import build
        from limner.match.illustrate import BoardOptions

        chosen = build(BoardOptions, dict(values or {}), where, overrides)
        if chosen.min_probability is not None and self.model is not None:
            raise ConfigError(
                f"{where}: --min-probability is calibrated for other channels and cannot be used"
                " with a trained run; drop one of the two"
            )
        named = chosen.pins | dict(pins or {})
        if min(named, default=1) < 1:
            raise ConfigError(f"{where}: pins: step {min(named)}; steps count from 1")
        by_name = named or bans or chosen.bans or chosen.cover
        inside = self.library.under(chosen.named) if chosen.named and by_name else []

        def found(name: str) -> str:
            """Id of a picture; if several have the name, that of the named pictures."""
            own = {one.id for one in inside if any(Path(path).name == name for path in one.paths)}
            return own.pop() if len(own) == 1 else self.library.find(name).id

        if chosen.cover not in (None, NO_COVER):
            chosen = chosen.model_copy(update={"cover": found(chosen.cover)})
        fixed = {
            step - 1: None if name is None or name == NONE else found(name) for step, name in named.items()
        }
        banned = {found(name): name for name in (*chosen.bans, *bans)}
        for step, picture in fixed.items():
            if picture in banned:
                raise DataError(
                    f"{where}: {banned[picture]} is pinned to step {step + 1} and banned; drop one of the two"
                )
        return chosen.model_copy(update={"pins": fixed, "bans": tuple(banned)})

    def board(
        self,
        story: Story,
        options: BoardOptions | None = None,
        *,
        shown: GivenPictures | None = None,
        held: Mapping[int, str | None] | None = None,
        as_it_is: Mapping[int, BoardStep] | None = None,
        relations: str | Mapping[int, str] | None = None,
        rewritten: Sequence[str] = (),
        progress: Progress | None = None,
    ) -> Board:
        """Illustrate a story.

        The text is encoded first, in batches, so that other requests can be answered in between. With
        `BoardOptions.fill`, steps that none of the named pictures illustrates are illustrated from the whole
        library in a second pass.

        Args:
            story: the text.
            options: options, see `options`; None for the defaults.
            shown: pictures that the text shows and that are kept, see `match_given_pictures`; None: none.
            held: picture id, or None for a blank, by index of the step, of steps that stay as they are, see
                `score_board`.
            as_it_is: kept steps that are not explained again, by index.
            relations: relations that the pictures should have, in the form of `limner.match.trained.asked`:
                one for all steps, or by index of the step.
            rewritten: per step, a model's description of its picture, see `limner.describe.steps`; "" for
                none. It is compared in addition to the step and never shown.
            progress: receiver of the number of encoded characters; an error that it raises ends the work.
        Raises:
            ConfigError: a relation is given without a trained run, or the run does not know it.
            LimnerError: see `index`, `channels` and `limner.match.illustrate.score_board`.
        """
        options = self.options() if options is None else options
        if options.named and options.fill:
            board = self.board(
                story,
                options.model_copy(update={"fill": False}),
                shown=shown,
                held=held,
                as_it_is=as_it_is,
                relations=relations,
                rewritten=rewritten,
                progress=progress,
            )
            settled = {
                step.position: step
                for step in board.steps
                if step.picture is not None or step.blank in ("asked for", "missing", "no words")
            }
            filled = self.board(
                story,
                options.model_copy(update={"named": (), "fill": False}),
                shown=shown,
                held={
                    place: None if step.picture is None else step.picture.id
                    for place, step in settled.items()
                },
                as_it_is=settled,
                relations=relations,
                rewritten=rewritten,
                progress=progress,
            )
            settings = board.settings | {"fill": True}
            return filled.model_copy(update={"row": board.row, "cover": board.cover, "settings": settings})
        from limner.match.illustrate import choose_pictures
        from limner.progress import Progress

        progress = progress or Progress()
        given = {} if shown is None else shown.inside
        told = self._told(story, options, {*given, *(held or {})})
        held = {**told, **(held or {})}
        outside = {} if shown is None else {**shown.outside}
        missing = {} if shown is None else {**shown.missing}
        for step in options.pins:
            outside.pop(step, None)
            missing.pop(step, None)
        pins = {**options.pins, **dict.fromkeys([*outside, *missing])}
        others = () if shown is None or options.allow_repeats else shown.others
        bans = (*options.bans, *(one for one in others if one not in {*pins.values(), *options.bans}))
        blanked = options.model_copy(update={"pins": pins, "bans": bans})
        asked = self._question(story, relations, rewritten, progress)
        story, codes, channels, _ = asked
        with self._computing(story):  # torch uses all cores; two storyboards at once would not be faster
            scored = self._score(asked, blanked, given, held, progress)
            board = choose_pictures(
                scored,
                self.library.pictures,
                library=self.name,
                written=self.library.words_shown,
                as_it_is=as_it_is,
                outside=outside,
            )
            found = list(board.steps)
            for step in unread(codes, channels):
                if found[step].origin == "blank" and step not in (as_it_is or {}):
                    reason = f"No installed encoder reads {language_name(codes[step])}."
                    found[step] = found[step].model_copy(update={"reason": reason, "probability": None})
            for step, picture in outside.items():
                chosen = {
                    "chosen": Candidate(picture=picture, score=0.0),
                    "origin": "given",
                    "reason": OUTSIDE,
                    "blank": None,
                }
                found[step] = found[step].model_copy(update=chosen)
            for step, why in missing.items():
                reason = f"The text itself shows a picture here, {why}."
                found[step] = found[step].model_copy(update={"blank": "missing", "reason": reason})
            for step, named in told.items():
                there = found[step].picture
                if there is not None and there.id == named:
                    why = f"The text names this picture: {Path(there.path).name}."
                    found[step] = found[step].model_copy(update={"reason": why, "probability": None})
            stated = options.settings()
            settings = board.settings | {"pins": stated["pins"], "bans": stated["bans"]}
            if self.model is not None:
                named = f"{self.model.folder.resolve().name} {self.model.fingerprint[:12]}"
                settings |= {"model": named, "relation": _written(relations)}
            cover = self._cover(board, options, scored.placed)
            board = board.model_copy(update={"steps": tuple(found), "settings": settings, "cover": cover})
            if self.model is None:
                return board
            ids = [step.chosen.picture.id for step in found if step.chosen is not None]
            own = [one for one in ids if one in self.library]
            from limner.match.trained import predicted

            return predicted(board, self.model, self.index.among((), own).gallery)

    def _told(self, story: Story, options: BoardOptions, others: Collection[int]) -> dict[int, str]:
        """Id of the picture that each step names; of named pictures first, then of the library."""
        from limner.match.named_pictures import named_pictures

        inside = {one.id for one in self.library.under(options.named)} if options.named else ()
        own = named_pictures(story, (pair for pair in self.library.words() if pair[0] in inside))
        told = {**named_pictures(story, self.library.words()), **own}
        used = {*options.bans, *options.pins.values()}
        free = {
            one: step
            for step, one in sorted(told.items(), reverse=True)
            if step not in {*others, *options.pins}
        }
        return {step: one for one, step in free.items() if one not in used}

    def _cover(self, board: Board, options: BoardOptions, placed: Placed | None) -> Picture | None:
        """The picture that stands for the text: what a person named, or what the row has for its title."""
        if options.cover is not None:
            return None if options.cover == NO_COVER else self.library.pictures([options.cover])[0]
        story, shown = board.story, {step.picture.id for step in board.steps if step.picture is not None}
        is_stated = story.cover or story.blocks[0].pictures or story.blocks[0].kind == "wanted"
        if is_stated or placed is None or not story.title.strip() or self.model:
            return None
        free = [one for one, chance in placed.cover.items() if chance >= COVERS and one not in shown]
        return self.library.pictures([max(free, key=placed.cover.__getitem__)])[0] if free else None

    def offers(
        self,
        story: Story,
        options: BoardOptions,
        shown: Mapping[int, str | None],
        step: int,
        *,
        relations: Mapping[int, str] | None = None,
        progress: Progress | None = None,
    ) -> list[Candidate]:
        """Candidates of one step, with all others unchanged; best first.

        They are those of `board` with all other steps held. Scores are cached, so that lists for further
        steps of the same storyboard are fast.

        Args:
            story: the text.
            options: see `options`; `runners_up` is the number of candidates after the first.
            shown: picture of each step, or None, by index.
            step: index of the step, from 0.
            relations: requested relation by index of the step, from 0.
            progress: see `board`.
        Raises:
            LimnerError: see `board`.
        """
        if self.model is not None:
            held = {one: picture for one, picture in shown.items() if one != step}
            board = self.board(story, options, held=held, relations=relations, progress=progress)
            found = board.steps[step]
            return [*(() if found.chosen is None else (found.chosen,)), *found.runners_up]
        from limner.match.illustrate import step_candidates

        with self._scored_for(story, options, shown, step, relations, progress) as scored:
            return step_candidates(
                scored, step, self.library.pictures, options, written=self.library.words_shown
            )

    def explained(
        self,
        story: Story,
        options: BoardOptions,
        shown: Mapping[int, str | None],
        step: int,
        *,
        pinned: bool,
        progress: Progress | None = None,
    ) -> BoardStep:
        """One step explained with a given picture, with the scores that `step_candidates` gave it.

        No other step is changed, and it takes as long as one list of candidates.

        Args:
            story: the text.
            options: see `step_candidates`.
            shown: picture of each step, or None, by index.
            step: index of the step, from 0.
            pinned: whether the user fixed it; otherwise it is only kept.
            progress: see `board`.
        Raises:
            ConfigError: there is a trained run, which cannot score a single step.
            LimnerError: see `board`.
        """
        if self.model is not None:
            raise ConfigError("a trained run scores all steps together")
        from limner.match.illustrate import explained_step

        with self._scored_for(story, options, shown, step, None, progress, there=shown[step]) as scored:
            return explained_step(
                scored,
                step,
                shown[step],
                self.library.pictures,
                options,
                pinned=pinned,
                written=self.library.words_shown,
            )

    @contextmanager
    def _scored_for(  # noqa: PLR0917
        self,
        story: Story,
        options: BoardOptions,
        shown: Mapping[int, str | None],
        step: int,
        relations: Mapping[int, str] | None,
        progress: Progress | None,
        *,
        there: str | None = None,
    ) -> Iterator[BoardScores]:
        """Scores of the pictures for a step, given those of all others; see `step_candidates`.

        A required picture is included among the candidates.
        """
        from limner.match.board import BLANK
        from limner.progress import Progress

        progress = progress or Progress()
        asked = self._question(story, relations, (), progress)
        with self._computing(story):
            words = asked[3][1]
            serving = (one for one in self._recent_scores if one.serves(words, options, shown, step))
            kept = next((one for one in serving if there is None or one.column(step, there) != BLANK), None)
            yield kept or self._score(asked, options, {}, shown, progress)

    @contextmanager
    def _computing(self, story: Story | None = None) -> Iterator[None]:
        """Context of the lock; products of few texts run on one core.

        After a small product, the threads of the linear algebra library keep spinning for longer than the
        product took, and occupy the cores that other work needs.
        """
        few = story is None or len(story.steps) <= FEW_TEXTS
        with self.lock, one_core_products() if few else nullcontext():
            yield

    def _question(
        self,
        story: Story,
        relations: str | Mapping[int, str] | None,
        rewritten: Sequence[str],
        progress: Progress,
    ) -> tuple[Story, list[str], list[Channel], tuple[Cast, QueryTexts]]:
        """Prepare a story: its language, the languages of its steps, its channels, and its texts."""
        from limner.match.illustrate import query_texts

        steps = range(len(story.steps))
        each = dict.fromkeys(steps, relations) if isinstance(relations, str) else dict(relations or {})
        # errors of the request are raised before anything is loaded
        wanted = self._relation([each.get(step) for step in steps])
        channels = [*self.channels, *wanted]
        key = (story, tuple(rewritten))
        with self.lock:
            kept = next((known for one, known in self._read if one == key), None)
        if kept is None:
            languages = languages_of_story(story)
            codes = [one.code for one in languages.each]
            if not story.language:
                side = story.direction if story.direction == "rtl" else direction(languages.main)
                story = story.model_copy(update={"language": languages.main, "direction": side})
            kept = story, codes, query_texts(story, codes, rewritten)
            with self.lock:
                self._read.appendleft((key, kept))
        story, codes, readings = kept
        _encode(channels, readings[1], progress)
        progress.stage(CHOOSING, None)
        return story, codes, channels, readings

    def _score(
        self,
        asked: tuple[Story, list[str], list[Channel], tuple[Cast, QueryTexts]],
        options: BoardOptions,
        given: Mapping[int, str],
        held: Mapping[int, str | None] | None,
        progress: Progress,
    ) -> BoardScores:
        """Score the pictures for a text, with a cache for requests about its steps."""
        from limner.match.illustrate import score_board
        from limner.match.rows import named_row

        story, codes, channels, readings = asked
        progress.advance(0)  # after waiting for other threads
        row = None
        if options.named:
            row = named_row(self.library, options.named, story, options.order, shared=options.shared)
        scored = score_board(
            story,
            self.index,
            channels,
            options,
            compared=self._compared,
            given=given,
            held=held,
            readings=readings,
            calibrated=self.calibrated,
            row=row,
            folders=self.library if self.model is None and options.order != "any" else None,
            stated=self._stated(said_in(story, codes), None if row is None else row.pictures),
            known=next((one for one in self._recent_scores if one.words is readings[1]), None),
            progress=progress,
        )
        if self.model is None:
            self._recent_scores.appendleft(scored)
        return scored

    def _stated(self, said: Sequence[Sequence[Said]], among: Iterable[str] | None) -> WhenWhere | None:
        """What a text says of when and where, compared with some pictures; None if it says nothing."""
        if self.model is not None or not any(one != Said() for each in said for one in each):
            return None
        return WhenWhere(said, self.library.taken(), among) or None

    def language_note(self, text: Story | str) -> str | None:
        """Note on a text that is wholly or partly in a language that no encoder reads; otherwise None.

        Args:
            text: a story, or words to search for.
        Raises:
            LimnerError: see `channels`.
        """
        if isinstance(text, str):
            codes = [language_of_query(text, self.library.settings)]
        else:
            codes = [one.code for one in languages_of_story(text).each]
        return unread_note(codes, self.channels)

    def query_note(self, text: str, option: str = "--without") -> str | None:
        """Note on a query that no encoder reads or that has a negation; otherwise None.

        Args:
            text: the words.
            option: name of the option for unwanted things.
        Raises:
            LimnerError: see `channels`.
        """
        found = unreadable(text, self.channels) or self.language_note(text)
        return found or negation_note(text, language_of_query(text, self.library.settings), option)

    def search(
        self,
        text: str,
        limit: int,
        relation: str | None = None,
        *,
        without: Sequence[str] = (),
        only: Only = Only(),  # noqa: B008  (it cannot be changed)
        used: Collection[str] = frozenset(),
        min_probability: float | None = None,
    ) -> Matches:
        """Find pictures by words, best first.

        Unwanted things count as much as wanted ones: a picture's score is the log-odds for the words minus
        those for the unwanted things, each against another picture of the library. With unwanted things, only
        the `RERANKED` pictures that fit the words best in each channel are scored.

        Args:
            text: the query, one line or a whole text.
            limit: maximum number of pictures.
            relation: relation that they should have, if a trained run predicts it.
            without: words for things that they should not show.
            only: conditions that they must meet.
            used: ids of the pictures that count as used in these.
            min_probability: probability, 0 to 1, below which they are left out; None for no limit.
        Raises:
            ConfigError: a limit is given with a trained run, which has no probabilities.
            DataError: no encoder reads the words of `without`.
            LimnerError: see `index` and `channels`; or the relation is unknown.
        Returns:
            The pictures; empty if no encoder reads the words, see `query_note`.
        """
        if min_probability is not None and not self.calibrated:
            raise ConfigError("--min-probability: a trained run gives no probabilities; drop one of the two")
        relations = self._relation([relation])
        channels = [*self.channels, *relations]
        code = language_of_query(text, self.library.settings)
        asked = [EncodedSteps.by(one, QueryTexts([[text]], (), [code])) for one in channels]
        asked = [one for one in asked if one.reads.any()]
        if not asked or unreadable(text, channels):
            return Matches(searched=len(self.library))
        unwanted = self._asked(without, "--without")
        numbers = load()
        said = [[said_by(text[:1].upper() + text[1:], code, heading=True)]]
        with self._computing():
            count = max(limit, RERANKED if without else CONSIDERED)
            requests = [([one.search()], count if without else limit) for one in asked]
            stated = self._stated(said, None if only == Only() else self.library.passing(only, used))
            index, barred, searched = self._among(requests, only, used)
            if not searched:
                return Matches(searched=0)
            fitting = stated.fitting(index.gallery.ids) if stated else ()
            pool = pool_of(index, asked, numbers, count=count, barred=barred, fitting=fitting)
            pool = replace(pool, available=searched)
            own = evidence(pool, numbers) + (stated.evidence(pool, numbers) if stated else 0.0)
            for one in unwanted:
                against = _scored(index, one, pool.rows, barred, lambda pool: evidence(pool, numbers))
                own -= against[pool.items]
            odds = agreement(pool, own, numbers, {})
            for channel in relations:
                odds = odds + channel.evidence.slope * pool.channels[channel.name].cosine
            chance = probabilities(pool, own, odds, numbers)[0]
        order = np.argsort(-odds[0], kind="stable")[:limit]
        best = [column for column in order if np.isfinite(odds[0, column])]
        kept = best if min_probability is None else [one for one in best if chance[one] >= min_probability]
        ids = [index.gallery.ids[pool.rows[pool.items[0, column]]] for column in kept]
        shown = self.library.words_shown(ids) if OCR in pool.channels else {}
        found = [
            Candidate(
                picture=picture,
                score=float(odds[0, column]),
                channels={
                    name: round(float(one.z[0, column]), 4)
                    for name, one in pool.channels.items()
                    if one.present[0, column]
                },
                probability=float(chance[column]) if self.calibrated else None,
                matched=matched(text, [*(one.text for one in picture.captions), shown.get(picture.id, "")]),
            )
            for column, picture in zip(kept, self.library.pictures(ids), strict=True)
        ]
        return Matches(found, searched=searched, below=len(best) - len(kept))

    def look_at(self, data: bytes, where: str, suffix: str = "") -> str | dict[str, FloatArray]:
        """Convert a picture file to a query: its id if it is in the library, otherwise its vectors.

        Args:
            data: the whole file.
            where: its name, for messages.
            suffix: extension of its name, lower case.
        Raises:
            LimnerError: see `limner.match.encoder_setup.vectors_of_file` and `image_encoders_of`.
        """
        digest = hashlib.sha256(data).hexdigest()
        if digest in self.library:
            return digest
        with self.lock:
            return vectors_of_file(self._eyes, data, where, suffix)

    def like(
        self,
        picture: str | Mapping[str, FloatArray],
        limit: int,
        *,
        added: Sequence[str] = (),
        without: Sequence[str] = (),
        only: Only = Only(),  # noqa: B008  (it cannot be changed)
        used: Collection[str] = frozenset(),
    ) -> Matches:
        """Find pictures similar to another one, best first, in all spaces that compare pictures.

        A picture's score is the sum of its standardised similarities to the given picture over the n spaces
        in which pictures are compared. Words count as much as the picture: n · d is added for each wanted
        text and subtracted for each unwanted one, where d is the standardised similarity of text and picture.
        With words, only the `RERANKED` pictures most similar to the given picture, and as many for each
        wanted text, are scored.

        Args:
            picture: id, which is not in the result, or the result of `look_at`.
            limit: maximum number of pictures.
            added: words for things that they should show too.
            without: words for things that they should not show.
            only: conditions that they must meet.
            used: ids of the pictures that count as used in these.
        Raises:
            DataError: no encoder reads the words.
            LimnerError: see `index`; or the picture does not exist, or has no vector.
        """
        own = [picture] if isinstance(picture, str) else []
        self.library.pictures(own)
        wanted, unwanted = self._asked(added, "--with"), self._asked(without, "--without")
        with self._computing():
            looks = self._looks(picture)
            count = max(limit, RERANKED) if added or without else limit
            requests = [(looks, count), *(([one.search()], count) for some in wanted for one in some)]
            index, barred, searched = self._among(requests, only, used, own)
            inside = index.gallery.rows(own)
            searched -= int(np.count_nonzero(~barred[inside]))
            barred[inside] = True
            if not searched:
                return Matches(searched=0)
            near = [index.search(looks, count, exclude=barred).rows[0]]
            for one in (one for some in wanted for one in some):
                missing = ~np.asarray(index.gallery.space(one.space).present)
                near.append(index.search([one.search()], count, exclude=barred | missing).rows[0])
            rows = np.unique(np.concatenate(near))
            scored = index.score(looks, rows)
            total = scored.scores[0].astype(np.float64)
            for sign, texts in ((1, wanted), (-1, unwanted)):
                for asked in texts:
                    total += sign * len(looks) * _scored(index, asked, rows, barred, _deviations)
            best = np.argsort(-total, kind="stable")[:limit]
        pictures = self.library.pictures([index.gallery.ids[rows[place]] for place in best])
        found = [
            Candidate(
                picture=one,
                score=float(total[place]),
                channels={
                    name: float(share[0, place])
                    for name, share in scored.shares.items()
                    if scored.present[name][place]
                },
            )
            for place, one in zip(best, pictures, strict=True)
        ]
        return Matches(found, searched=searched)

    def _looks(self, picture: str | Mapping[str, FloatArray]) -> list[EncodedChannel]:
        """Queries that compare a picture with others.

        Raises:
            DataError: the picture has no vectors.
        """
        names = PAIR_SPACES if self.metric is None else (*PAIR_SPACES, self.metric.space)
        if isinstance(picture, str):
            gallery = self.index.among((), [picture]).gallery
            row = int(gallery.rows([picture])[0])
            held = {name: gallery.spaces[name] for name in names if name in gallery.spaces}
            vectors = {name: one.vectors([row]) for name, one in held.items() if one.present[row]}
            where = f"picture {picture[:12]}"
        else:
            vectors, where = {name: picture[name] for name in names if name in picture}, "that picture"
        if not vectors:
            raise DataError(f"{where}: has no vectors to compare; index with an encoder")
        return [EncodedChannel(name, name, LIKENESS, rows) for name, rows in vectors.items()]

    def _among(
        self,
        requests: Sequence[Request],
        only: Only,
        used: Collection[str],
        ids: Sequence[str] = (),
    ) -> tuple[Index, BoolArray, int]:
        """Index with the results of some searches among the pictures that meet conditions.

        Returns:
            The index, (M,) mask of its pictures that do not meet the conditions, and the number of pictures
            of the library that do.
        """
        if only == Only():
            index = self.index.among(requests, ids)
            return index, np.zeros(len(index.gallery), dtype=bool), index.pictures
        passing = self.library.passing(only, used)
        if len(passing) <= READ_WHOLE:
            index = self.index.among((), [*ids, *passing])
        else:
            spare = 4 * self.index.pictures / len(passing)
            index = self.index.among([(asked, int(k * spare)) for asked, k in requests], ids)
        rows = index.gallery.rows(passing)
        barred = np.ones(len(index.gallery), dtype=bool)
        barred[rows[rows >= 0]] = False
        return index, barred, len(passing)

    def _asked(self, texts: Sequence[str], option: str) -> list[list[EncodedSteps]]:
        """Encode words with each channel.

        Raises:
            DataError: no channel reads one of the texts.
        """
        found = []
        for text in texts:
            code = language_of_query(text, self.library.settings)
            note = unreadable(text, self.channels) or unread_note([code], self.channels)
            if note is not None:
                raise DataError(f"{option} {text[:40]!r}: {note}")
            asked = [EncodedSteps.by(one, QueryTexts([[text]], (), [code])) for one in self.channels]
            found.append([one for one in asked if one.reads.any()])
        return found

    @property
    def _runs(self) -> tuple[TrainedRun, ...]:
        return tuple(run for run in (self.model, self.metric) if run is not None)

    @locked_cached_property
    def _eyes(self) -> list[ImageEncoder]:
        """Image encoders of the library, for pictures that are not in it."""
        runs = () if self.metric is None else (self.metric,)
        return image_encoders_of(self.library, weights=self._weights, device=self._device, runs=runs)

    @locked_cached_property
    def _compared(self) -> str:
        """Space of visual similarity."""
        if self.metric is not None:
            self._check(self.metric)
            return self.metric.space
        held = self.library.vectors()
        return next((space for space in LOOKS if held.get(space, 0)), LOOKS[0])

    def _relation(self, relations: Sequence[str | None]) -> list[Channel]:
        """Channel of the requested relations, if there are any."""
        if all(one is None for one in relations):
            return []
        if self.model is None:
            raise ConfigError("--relation: only a trained run knows relations; give one with --model")
        from limner.match.trained import relation_channel

        return [relation_channel(self.model, relations)]

    def _check(self, run: TrainedRun) -> None:
        from limner.match.trained import check_run

        check_run(run, self.library)


def _scored(
    index: Index,
    asked: Sequence[EncodedSteps],
    rows: IntArray,
    barred: BoolArray,
    form: Callable[[Pool], Float64Array],
) -> Float64Array:
    """Scores (R,) of pictures for one text by a function of the channels; 0 for pictures without any channel.

    Args:
        index: index with the pictures.
        asked: the text, as encoded by each channel.
        rows: (R,) of the gallery, ascending.
        barred: mask of pictures that are not shown.
        form: function from candidates to (1, K) scores.
    """
    pool = pool_of(index, asked, load(), count=1, extra=rows.tolist(), barred=barred)
    values = np.zeros(len(pool.rows))
    values[pool.items[0]] = form(pool)[0]
    found = values[np.searchsorted(pool.rows, rows)]
    return np.where(np.isfinite(found), found, 0.0)


def _deviations(pool: Pool) -> Float64Array:
    """Mean (S, K) of the standardised cosines in the caption channel and the pixel channel, as far as a
    picture has them.
    """
    parts = [first_of(pool, WORDS), first_of(pool, PIXELS)]
    known = np.sum([one.present for one in parts], axis=0)
    return np.asarray(np.sum([one.z for one in parts], axis=0) / np.maximum(known, 1))


def _encode(channels: Sequence[Channel], readings: QueryTexts, progress: Progress) -> None:
    """Encode a text with all encoders, which cache it.

    Each batch is encoded by all encoders before the next one, because some encoders share vectors; this keeps
    the progress even.
    """
    portions = [[(one.encoder, part) for part in readings.portions(one)] for one in channels]
    letters = sum(len(text) for own in portions for _, part in own for text in part)
    progress.stage(READING, letters)
    for row in zip_longest(*portions):
        for encoder, part in filter(None, row):
            encoder.encode_text(part)
            progress.advance(sum(map(len, part)))


def _written(relations: str | Mapping[int, str] | None) -> str | None:
    """Format relations as one setting: ``story``, or ``1=story 3=action`` with steps from 1."""
    if relations is None or isinstance(relations, str):
        return relations
    return " ".join(f"{step + 1}={name}" for step, name in sorted(relations.items())) or None
