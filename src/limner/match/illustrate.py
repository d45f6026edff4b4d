"""Computes a storyboard: encodes the steps, scores the pictures, assigns them and explains the choice.

Pictures that the text already shows and the user's pins are fixed; a step for which nothing fits stays blank.
It writes no files and draws no pages.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, field_validator

from limner.config import Record
from limner.errors import DataError, counted
from limner.language import ENGLISH
from limner.match.board import BLANK, assign
from limner.match.calibration import Calibration, Pin, load
from limner.match.candidates import (
    RELATION,
    ChannelSimilarity,
    EncodedSteps,
    ExpectedSimilarity,
    Float64Array,
    IntArray,
    Pool,
    QueryTexts,
    pool_of,
)
from limner.match.cast import Cast, cast_of
from limner.match.explain import Considered, Written, explain, no_words
from limner.match.probabilities import agreement, doubt, evidence, log_sum_exp, probabilities
from limner.match.rows import (
    Folders,
    LibraryRow,
    NamedRow,
    Placed,
    likely_rows,
    place_in_library,
    place_named,
)
from limner.match.spread import picture_count, spared_steps
from limner.match.when_where import WhenWhere
from limner.progress import Progress
from limner.records import (
    WEAK,
    Arrangement,
    Board,
    BoardStep,
    Candidate,
    Picture,
    RowPhotograph,
    Show,
    Story,
    TextRow,
    limner_version,
)
from limner.store.search import COSINE, Channel, EncodedChannel, Index, SimilarityQuery
from limner.store.vectors import BoolArray, Gallery
from limner.text.blocks import text_of

CANDIDATES = 200
"""Default number of candidates per step and channel."""
SPACES = {"captions": "captions", "looks": "looks"}
"""Gallery space in which two pictures are compared, by kind of comparison."""
Pictures = Callable[[Sequence[str]], list[Picture]]


class BoardOptions(Record):
    """Options of a storyboard.

    Attributes:
        show: when to show a picture: ``cautious``, ``usual``, or ``always``.
        min_probability: probability below which a step stays blank; overrides `show`.
        count: number of pictures, or ``all`` for one for each step; None for ``all``, or in prose for one for
            about 200 words.
        candidates: number of candidates per step and channel.
        allow_repeats: whether a picture, or a near-duplicate of it, may be shown more than once.
        pins: picture id, or None to keep the step blank, by index of the step, from 0.
        bans: picture ids that must not be shown.
        named: folders and pictures that are this text's pictures; all others are left out. Empty for all
            pictures.
        order: order of the named pictures: that in which they were ``taken``, that of their ``name``, or
            ``any``.
        shared: whether the named pictures are those of several texts.
        fill: whether steps to which no named picture belongs get one from the rest of the library.
        cover: id of the picture that stands for the text, or ``none``; None for the one that the text names,
            or that the row of named pictures has for its title.
        runners_up: number of other candidates listed per step.
    """

    show: Show = "usual"
    min_probability: float | None = Field(default=None, ge=0, lt=1)
    count: Annotated[int, Field(ge=1)] | Literal["all"] | None = None
    candidates: int = Field(default=CANDIDATES, ge=1)
    allow_repeats: bool = False
    pins: dict[int, str | None] = Field(default_factory=dict)
    bans: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    order: Arrangement = "taken"
    shared: bool = False
    fill: bool = False
    cover: str | None = None
    runners_up: int = Field(default=3, ge=0)

    @field_validator("count", mode="before")
    @classmethod
    def _is_count(cls, value: Any) -> Any:  # noqa: ANN401  (before it is checked)
        if value in (None, "all") or (type(value) is int and value >= 1):
            return value
        raise ValueError("expected a number of pictures from 1, or 'all'")

    def settings(self) -> dict[str, str | int | float | bool | None]:
        """Options as a flat table."""
        flat = self.model_dump(exclude={"pins", "bans", "named"})
        pins = (f"{step + 1}={picture or 'none'}" for step, picture in sorted(self.pins.items()))
        return flat | {"pins": " ".join(pins), "bans": " ".join(self.bans), "named": "\n".join(self.named)}


def step_texts(story: Story) -> list[str]:
    """Query text of each step: its heading, unless all share one, and its words.

    Tables and code are left out if the step has other words or a heading.
    """
    titles = {step.title for step in story.steps}
    is_telling = len(titles) > 1 or len(story.steps) == 1
    texts = []
    for step in story.steps:
        words = step.text
        blocks = story.blocks[slice(*step.run)]
        spoken = [block for block in blocks if block.kind not in ("code", "table")]
        if len(spoken) < len(blocks):
            words = text_of(spoken[1:] if spoken and spoken[0].kind == "heading" else spoken)
        heading = step.title if is_telling else ""
        words = words if any(map(str.isalnum, words)) else "" if heading else step.text
        texts.append(". ".join(filter(None, (heading, words))))
    return texts


def query_texts(
    story: Story, languages: Sequence[str] | None = None, rewritten: Sequence[str] = ()
) -> tuple[Cast, QueryTexts]:
    """Find the cast of a story and the texts of its steps that are compared with pictures.

    Args:
        story: the text.
        languages: ISO 639 code of each step; None means that all are English.
        rewritten: per step, a model's description of its picture, which is compared in addition to the step's
            own words; "" for none.
    """
    texts = step_texts(story)
    english = [True] * len(texts) if languages is None else [code == ENGLISH for code in languages]
    supplied = any(block.role == "supplies" for block in story.blocks)
    spoken = [text for text, one in zip(texts, english, strict=True) if one]
    cast = cast_of(spoken, story.title, is_guide=supplied)
    spelled = [cast.spelled(text) if one else text for text, one in zip(texts, english, strict=True)]
    readings = QueryTexts.of(spelled, story.title, languages, texts)
    if any(rewritten):
        parts = [[*own, more] if more else own for own, more in zip(readings.parts, rewritten, strict=True)]
        written = [f"{own} {more}".strip() for own, more in zip(texts, rewritten, strict=True)]
        readings = QueryTexts(parts, readings.titled, languages, written)
    return cast, readings


@dataclass(frozen=True)
class BoardScores:
    """Scores of the candidates of every step of a text, before the choice; S steps, K candidates.

    Attributes:
        story: the text.
        cast, words: see `query_texts`.
        index: index of the pictures.
        calibration: the calibration.
        calibrated: see `score_board`.
        options: options, of which pins, bans and candidates count here.
        given: id of the picture that the text itself shows, by index of the step, from 0.
        wanted: fixed picture, or None for a blank, by index of the step, from 0.
        fixed: column of the fixed picture, or `BLANK`, by index of the step, from 0.
        staying: steps that keep their picture without being fixed by the user.
        asked: the steps as encoded by the channels.
        looks: space of visual similarity; None without one.
        nearby: gallery rows that are visually most similar to fixed pictures.
        extra_rows: `nearby` and the pictures already shown, which are candidates of every step.
        banned: gallery rows of banned pictures.
        guides: gallery rows of fixed pictures that influence others.
        pool: the candidates.
        own: (S, K) evidence; −inf where a picture cannot be shown.
        found: (S, K) evidence of pictures that were retrieved for the step itself.
        could: (S, K) the same, but banned pictures have their evidence too.
        freely: (S, K) log-odds with agreement, as if nothing were fixed.
        alone: (S, K) probabilities from `freely`.
        odds: (S, K) log-odds with agreement and fixed pictures.
        likes: similarity of candidates to the pictures expected at other steps, by space.
        row: the pictures that are named beside the text; None for the whole library.
        placed: what the order of photographs says about the candidates; None if it says nothing.
        stated: see `score_board`.
    """

    story: Story
    cast: Cast
    words: QueryTexts
    index: Index
    calibration: Calibration
    calibrated: bool
    options: BoardOptions
    given: Mapping[int, str]
    wanted: Mapping[int, str | None]
    fixed: Mapping[int, int]
    staying: frozenset[int]
    asked: Sequence[EncodedSteps]
    looks: str | None
    nearby: Collection[int]
    extra_rows: Collection[int]
    banned: IntArray
    guides: Sequence[int]
    pool: Pool
    own: Float64Array
    found: Float64Array
    could: Float64Array
    freely: Float64Array
    alone: Float64Array
    odds: Float64Array
    likes: Mapping[str, ExpectedSimilarity]
    row: NamedRow | None
    placed: Placed | None
    stated: WhenWhere | None

    def answers(self, words: QueryTexts, options: BoardOptions) -> bool:
        """Whether these candidates can be reused for given texts and options; fixed pictures may differ."""
        own, other = (
            (one.bans, one.candidates, one.named, one.order, one.shared) for one in (self.options, options)
        )
        return self.words is words and own == other

    def reason(self, step: int, picture: str) -> str:
        """Reason of time and place for a picture at a step; "" if there is none."""
        return self.stated.reason(step, picture) if self.stated else ""

    def column(self, step: int, picture: str) -> int:
        """Column of a picture among the candidates of a step; `BLANK` if it is not one."""
        row = self.index.gallery.rows([picture])[0]
        found = np.flatnonzero((self.pool.rows[self.pool.items[step]] == row) & self.pool.there[step])
        return int(found[0]) if len(found) else BLANK

    def serves(
        self, words: QueryTexts, options: BoardOptions, shown: Mapping[int, str | None], step: int
    ) -> bool:
        """Whether the candidates of a step can be computed from this, with all other steps unchanged.

        The picture of the step itself is only one more candidate for the other steps, which have enough
        others.
        """
        pins = {one: picture for one, picture in self.wanted.items() if one != step}
        return (
            self.answers(words, options)
            and not self.given
            and self.options.pins == options.pins
            and pins == {one: picture for one, picture in shown.items() if one != step}
        )


def score_board(  # noqa: PLR0915  (it shares many arrays)
    story: Story,
    gallery: Gallery | Index,
    channels: Sequence[Channel],
    options: BoardOptions | None = None,
    *,
    calibration: Calibration | None = None,
    compared: str = SPACES["looks"],
    given: Mapping[int, str] | None = None,
    held: Mapping[int, str | None] | None = None,
    readings: tuple[Cast, QueryTexts] | None = None,
    calibrated: bool = True,
    row: NamedRow | None = None,
    folders: Folders | None = None,
    stated: WhenWhere | None = None,
    known: BoardScores | None = None,
    progress: Progress | None = None,
) -> BoardScores:
    """Score the pictures for the steps, for `choose_pictures` and `step_candidates`.

    Args:
        story: the text.
        gallery: the pictures, or an index of them.
        channels: channels that compare a step with a picture.
        options: options; None for the defaults.
        calibration: calibration; None for the one that comes with limner.
        compared: gallery space of visual similarity.
        given: id of the picture that the text shows, by index of the step, from 0; a pin has priority.
        held: picture id, or None for a blank, by index of the step, of steps that stay while the others are
            chosen; unlike a pin, it does not influence others, and is explained as if chosen. A pin has
            priority.
        readings: see `query_texts`; None computes them. A step that no channel can read is left blank, unless
            pictures are fixed at other steps; a step of only symbols, such as emoji, always.
        calibrated: whether probabilities are valid for the channels; if not, none is stated and no step is
            left blank.
        row: the pictures that are named beside the text, and no others are used; None for the whole library.
        folders: the folders of the library, whose photographs may lie along the steps in their order; None
            leaves them out.
        stated: what the text says of when and where, compared with the pictures that are searched.
        known: earlier scores for the same channels and gallery; if the text is the same, everything that
            does not depend on fixed pictures is reused.
        progress: receiver of the progress; an error that it raises ends the work.
    Raises:
        DataError: a pinned or banned picture is not in the gallery, or a picture is both fixed and banned.
        LimnerError: see `Index.search`.
    """
    progress = progress or Progress()
    options, calibration = options or BoardOptions(), calibration or load()
    every = Index(gallery) if isinstance(gallery, Gallery) else gallery
    cast, words = readings or query_texts(story)
    ordered = row is not None and row.follows(len(story.steps))
    given, held = given or {}, _staying(words, given or {}, held or {}, options, ordered=ordered)
    again = known is not None and known.answers(words, options)
    asked = (
        known.asked
        if known is not None and again
        else [EncodedSteps.by(channel, words) for channel in channels]
    )
    asked = [one for one in asked if one.reads.any()] or asked
    wanted = {**given, **held, **options.pins}
    index = _among(every, asked, options, wanted, compared, row)
    progress.advance(0)
    fits = _Evidence(asked, channels, words, calibration, options.candidates, stated)
    before, rows = (
        known.pool if known is not None and again and known.index is index else None,
        list[LibraryRow](),
    )
    if folders is not None and not ordered and len(story.steps) > 1:
        index, before, rows = fits.with_rows(every, index, row, options, folders, story, before, wanted)
    fixed, banned = _fixed(story, index.gallery, options, {**given, **held})
    shown = {step: row for step, row in fixed.items() if row is not None}
    staying = {step for step, one in held.items() if one is None or given.get(step) != one}
    guides = sorted({row for step, row in shown.items() if step not in staying})
    barred = _barred(index, row, options.bans)
    spaces = _spaces(index, compared)
    nearby = set(most_similar_rows(index, guides, spaces.get("looks"), options.candidates, barred))
    extra, members = {*shown.values(), *nearby}, _rows_of(index, rows if row is None else [row, *rows])
    pool, plain = fits.pool(index, [*extra, *banned.tolist(), *members], barred, before)
    own = plain + (stated.evidence(pool, calibration) if stated else 0.0)
    if row is not None and ordered:
        pool = replace(pool, groups=_groups_of(pool, row))
    banned_cells = np.isin(pool.rows, banned)[pool.items] & pool.there
    could = np.where(pool.found | banned_cells, own, -np.inf)  # without the bans
    own = np.where(banned_cells, -np.inf, own)
    likes = _resemblances(pool, spaces, known) if len(own) > 1 else {}
    columns = {step: pool.column(step, row) for step, row in shown.items()}
    progress.advance(0)
    # probabilities without the fixed pictures, which must not make other pictures less likely
    found = np.where(pool.found, own, -np.inf)
    freely, alone = _alone(pool, found, calibration, likes, known if again else None)
    progress.advance(0)
    # A picture without vectors counts where it is shown, and next to fixed pictures to which it may be
    # similar.
    counts = pool.there & ~banned_cells if guides else np.zeros(own.shape, dtype=bool)
    counts[list(columns), list(columns.values())] = True
    own = np.where(counts & ~np.isfinite(own), 0.0, own)
    sure = {step: column for step, column in columns.items() if step not in staying}
    odds = agreement(pool, own, calibration, likes, sure) if extra or len(banned) else freely
    progress.advance(0)
    placed = None
    if row is not None and ordered:
        usable = np.isin(pool.rows, members)[pool.items] & pool.there & ~banned_cells
        likely = np.where(usable, np.where(np.isfinite(plain), plain, 0.0), -np.inf)
        title = fits.of_title(story, index, members, pool)
        placed = place_named(pool, likely, row, fixed, calibration, title, stated)
    elif rows and folders is not None:
        likely = np.where(np.isfinite(own), np.where(np.isfinite(plain), plain, 0.0), -np.inf)
        placed = place_in_library(pool, likely, alone, freely, rows, folders, fixed, stated)
    return BoardScores(
        story=story,
        cast=cast,
        words=words,
        index=index,
        calibration=calibration,
        calibrated=calibrated,
        options=options,
        given=given,
        wanted={**given, **held, **options.pins},
        fixed={step: columns.get(step, BLANK) for step in fixed},
        staying=frozenset(staying),
        asked=asked,
        looks=spaces.get("looks"),
        nearby=nearby,
        extra_rows=extra,
        banned=banned,
        guides=guides,
        pool=pool,
        own=own,
        found=found,
        could=could,
        freely=freely,
        alone=alone,
        odds=odds,
        likes=likes,
        row=row,
        placed=placed,
        stated=stated,
    )


@dataclass(frozen=True)
class _Evidence:
    """How candidates are retrieved and compared with a text."""

    asked: Sequence[EncodedSteps]
    channels: Sequence[Channel]
    words: QueryTexts
    calibration: Calibration
    count: int
    stated: WhenWhere | None

    @property
    def requests(self) -> list[tuple[list[EncodedChannel], int]]:
        """Searches for the candidates."""
        return [([one.search()], self.count) for one in self.asked if one.reads.any()]

    def with_rows(  # noqa: PLR0917
        self,
        every: Index,
        index: Index,
        row: NamedRow | None,
        options: BoardOptions,
        folders: Folders,
        story: Story,
        known: Pool | None,
        wanted: Mapping[int, str | None],
    ) -> tuple[Index, Pool | None, list[LibraryRow]]:
        """The rows that the candidates speak for; an index with their photographs, and candidates of it."""
        pool, own = self.pool(index, (), _barred(index, row, options.bans), known)
        among = None if row is None else frozenset(row.pictures)
        rows = likely_rows(pool, own, folders, story, among, self.stated)
        more = [picture for one in rows for place in one.places for picture in place]
        wider = every.among(self.requests, [*_named(wanted, options), *more]) if rows else index
        return wider, pool if wider is index else None, rows

    def of_title(self, story: Story, index: Index, members: Sequence[int], pool: Pool) -> Float64Array:
        """Evidence (C,) of candidates for the title of the text; 0 for all but some gallery rows."""
        words = QueryTexts([[story.title]], (), None if self.words.languages is None else [story.language])
        every = self.channels if words.worded.any() else ()
        asked = [EncodedSteps.by(one, words) for one in every if one.name != RELATION]
        if not any(one.reads.any() for one in asked):
            return np.zeros(len(pool.rows))
        barred = np.zeros(len(index.gallery), dtype=bool)
        own = pool_of(index, asked, self.calibration, count=1, extra=members, barred=barred)
        found = dict(zip(own.rows[own.items[0]].tolist(), evidence(own, self.calibration)[0], strict=True))
        return np.array([found.get(row, 0.0) for row in pool.rows.tolist()])

    def pool(
        self, index: Index, extra: Sequence[int], barred: BoolArray, known: Pool | None
    ) -> tuple[Pool, Float64Array]:
        """Candidates, and their evidence (S, K); −inf where there is none."""
        pool = pool_of(
            index,
            self.asked,
            self.calibration,
            count=self.count,
            extra=sorted(set(extra)),
            barred=barred,
            known=known,
            fitting=self.stated.fitting(index.gallery.ids) if self.stated and known is None else (),
        )
        own = np.where(self.words.worded[:, None], evidence(pool, self.calibration), -np.inf)
        for channel in self.channels:
            if channel.name == RELATION:
                own = own + channel.evidence.slope * pool.channels[RELATION].cosine
        return pool, own


def _spaces(index: Index, looks: str) -> dict[str, str]:
    """Spaces that have vectors, by kind of comparison."""
    held = {name for name in index.gallery.spaces if index.held(name)}
    return {name: space for name, space in {**SPACES, "looks": looks}.items() if space in held}


def _barred(index: Index, row: NamedRow | None, bans: Sequence[str]) -> BoolArray:
    """(M,) pictures that must not be shown: those that are banned or not named."""
    barred = np.full(len(index.gallery), row is not None)
    if row is not None:
        barred[_rows_of(index, [row])] = False
    rows = index.gallery.rows(bans)
    barred[rows[rows >= 0]] = True
    return barred


def _rows_of(index: Index, rows: Sequence[LibraryRow | NamedRow]) -> list[int]:
    """Gallery rows of the photographs of some rows, as far as they are there."""
    ids = [picture for row in rows for place in row.places for picture in place]
    return [row for row in index.gallery.rows(ids).tolist() if row >= 0] if ids else []


def _alone(
    pool: Pool,
    found: Float64Array,
    calibration: Calibration,
    likes: Mapping[str, ExpectedSimilarity],
    known: BoardScores | None,
) -> tuple[Float64Array, Float64Array]:
    """Log-odds and probabilities (S, K) as if nothing were fixed; known ones are those of the same text."""
    if known is None:
        freely = agreement(pool, found, calibration, likes)
        return freely, probabilities(pool, found, freely, calibration)
    freely, alone = np.full(found.shape, -np.inf), np.zeros(found.shape)
    freely[pool.found] = known.freely[known.pool.found]
    alone[pool.found] = known.alone[known.pool.found]
    return freely, alone


def _groups_of(pool: Pool, row: NamedRow) -> IntArray:
    """Groups (C,) of the candidates: a place of the row is one, so that its shots are not shown twice."""
    place = {one: number for number, shots in enumerate(row.places) for one in shots}
    first = int(pool.groups.max(initial=0)) + 1
    ids = (pool.gallery.ids[gallery_row] for gallery_row in pool.rows.tolist())
    groups = [
        first + place[one] if one in place else int(group)
        for one, group in zip(ids, pool.groups, strict=True)
    ]
    return np.array(groups, dtype=np.int64)


def _resemblances(
    pool: Pool, spaces: Mapping[str, str], known: BoardScores | None
) -> dict[str, ExpectedSimilarity]:
    """Similarities of the candidates by space, reused from earlier scores if the gallery is the same."""
    same = known is not None and known.pool.gallery is pool.gallery and known.looks == spaces.get("looks")
    if known is not None and same and known.likes and np.array_equal(known.pool.rows, pool.rows):
        return {name: one.over(pool) for name, one in known.likes.items()}
    return {name: ExpectedSimilarity(pool, space) for name, space in spaces.items()}


def choose_pictures(
    scored: BoardScores,
    pictures: Pictures,
    *,
    library: str = "",
    written: Written = no_words,
    as_it_is: Mapping[int, BoardStep] | None = None,
    outside: Collection[int] = (),
) -> Board:
    """Choose a picture for every step by its scores, and explain the choice.

    Args:
        scored: scores of the pictures.
        pictures: function from ids to records in the same order, called for the pictures of the board.
        library: name of the library, stored in the board.
        written: function from ids to the text in those pictures that show any.
        as_it_is: steps of the earlier storyboard that keep their explanation, by index.
        outside: steps at which the text shows a picture that is not in the library.
    """
    options, calibration, pool, own = scored.options, scored.calibration, scored.pool, scored.own
    whole, worth, pinned, chance = _worth(scored, scored.fixed)
    limit = _limit(options, calibration) if scored.calibrated else 0.0
    groups = pool.groups[pool.items]
    fits = (chance >= limit) & (worth > -np.inf)
    chosen = _assigned(worth, fits, groups, scored.fixed, allow_repeats=options.allow_repeats)
    texts = step_texts(scored.story)
    every = scored.row is not None and scored.row.follows(len(texts))
    count = picture_count(scored.story, texts, options.count or ("all" if every else None))
    marked = {place for place in scored.story.places if chosen[place] != BLANK}
    count += len(marked) if options.count is None else 0
    spared = spared_steps(chosen, chance, fits, count, scored.fixed, marked.union(outside))
    if spared:
        fixed = {**scored.fixed, **dict.fromkeys(spared, BLANK)}
        chosen = _assigned(worth, fits, groups, fixed, allow_repeats=options.allow_repeats)
    ruled_out: BoolArray = np.zeros(len(chosen), dtype=bool)
    if len(scored.banned):
        could = scored.could
        would = probabilities(pool, could, agreement(pool, could, calibration, scored.likes), calibration)
        banned_cells = np.isin(pool.rows, scored.banned)[pool.items] & pool.there
        ruled_out = np.asarray((banned_cells & (would >= (limit or WEAK))).any(axis=1))
    considered = Considered(
        texts=texts,
        worded=scored.words.worded,
        cast=scored.cast,
        ids=scored.index.gallery.ids,
        pool=pool,
        score=own,
        agreement=np.where(np.isfinite(whole), whole - np.where(np.isfinite(own), own, 0.0), 0.0),
        pinned_by=pinned,
        columns=chosen,
        chance=chance if scored.calibrated else None,
        limit=limit,
        ruled_out=ruled_out,
        spared=frozenset(spared),
        pinned=frozenset(options.pins),
        given=frozenset(scored.given) - frozenset(options.pins) - scored.staying,
        held=scored.staying,
        allow_repeats=options.allow_repeats,
        runners_up=options.runners_up,
        written=written,
        placed=scored.placed,
        named_row="" if scored.row is None else scored.row.name,
        when_where=scored.reason,
    )
    steps, row = explain(considered, pictures, as_it_is or {}), None
    if scored.row is not None:
        belongs = {} if scored.placed is None else scored.placed.steps
        row = text_row(scored.row, options.named, steps, belongs)
    return Board(
        story=scored.story,
        steps=steps,
        row=row,
        library=library,
        channels=tuple(one.name for one in scored.asked),
        threshold=limit,
        settings=options.settings(),
        version=limner_version(),
    )


def step_candidates(
    scored: BoardScores, step: int, pictures: Pictures, options: BoardOptions, *, written: Written = no_words
) -> list[Candidate]:
    """Candidates of one step, with all others unchanged; best first.

    Args:
        scored: the text with all steps fixed; that step, if it has a picture, as a kept one.
        step: index of the step, from 0.
        pictures: see `choose_pictures`.
        options: options; `runners_up` is the number of candidates.
        written: see `choose_pictures`.
    """
    found = _of_step(scored, step, pictures, options, written)
    return [*(() if found.chosen is None else (found.chosen,)), *found.runners_up]


def explained_step(
    scored: BoardScores,
    step: int,
    picture: str | None,
    pictures: Pictures,
    options: BoardOptions,
    *,
    pinned: bool,
    written: Written = no_words,
) -> BoardStep:
    """One step with a picture chosen by the user among those of `step_candidates`, with their scores.

    Args:
        scored: see `step_candidates`; the picture is a candidate of the step, see `BoardScores.column`.
        step: index of the step, from 0.
        picture: its picture, or None for a blank.
        pictures: see `choose_pictures`.
        options: see `step_candidates`.
        pinned: whether the user fixed it; otherwise it is only kept.
        written: see `choose_pictures`.
    """
    column = BLANK if picture is None else scored.column(step, picture)
    return _of_step(scored, step, pictures, options, written, fixed=column, pinned=pinned)


def _of_step(
    scored: BoardScores,
    step: int,
    pictures: Pictures,
    options: BoardOptions,
    written: Written,
    *,
    fixed: int | None = None,
    pinned: bool = False,
) -> BoardStep:
    """One step, with all others unchanged; with a column or `BLANK`, as if fixed."""
    pool, cells, column = scored.pool, slice(step, step + 1), scored.fixed.get(step, BLANK)
    others = [(one, own) for one, own in scored.fixed.items() if one != step and own != BLANK]
    shown = {int(pool.rows[pool.items[one, own]]) for one, own in others}
    there = pool.there[cells].copy()
    if column not in (BLANK, fixed) and int(pool.rows[pool.items[step, column]]) not in {
        *shown,
        *scored.nearby,
        *scored.banned.tolist(),
    }:
        # the step's own picture must have been retrieved to be a candidate; being shown is not enough
        there[0, column] = pool.found[step, column]
    extra_rows = shown.union(scored.nearby)
    odds = scored.odds if extra_rows or len(scored.banned) else scored.freely
    row = replace(
        scored,
        pool=_part(pool, cells, there),
        own=np.where(there, scored.own[cells], -np.inf),
        found=np.where(there, scored.found[cells], -np.inf),
        freely=np.where(there, scored.freely[cells], -np.inf),
        odds=np.where(there, odds[cells], -np.inf),
    )
    alone = probabilities(row.pool, row.found, row.freely, row.calibration)
    worded = scored.words.worded
    placed = None if scored.placed is None else scored.placed.part(cells)
    whole, worth, guided, chance = _worth(
        replace(row, alone=alone, extra_rows=extra_rows, placed=placed), () if worded[step] else (0,)
    )
    groups = pool.groups[row.pool.items]
    if not options.allow_repeats:
        used = np.isin(groups, [pool.groups[pool.items[one, own]] for one, own in others])
        used[0, [] if fixed is None else [fixed]] = False
        whole, worth = np.where(used, -np.inf, whole), np.where(used, -np.inf, worth)
    limit = _limit(options, scored.calibration) if scored.calibrated else 0.0
    stays = {0: fixed} if fixed is not None else {} if worded[step] else {0: BLANK}
    score = np.where(np.isfinite(whole), row.own, -np.inf)
    considered = Considered(
        texts=[step_texts(scored.story)[step]],
        worded=worded[cells],
        cast=scored.cast,
        ids=scored.index.gallery.ids,
        pool=row.pool,
        score=score,
        agreement=np.where(np.isfinite(whole), whole - np.where(np.isfinite(score), score, 0.0), 0.0),
        pinned_by=guided,
        columns=_assigned(worth, chance >= limit, groups, stays, allow_repeats=options.allow_repeats),
        chance=chance if scored.calibrated else None,
        limit=limit,
        ruled_out=np.zeros(1, dtype=bool),
        spared=frozenset(),
        pinned=frozenset({0} if pinned else ()),
        given=frozenset(),
        held=frozenset(() if pinned or fixed is None else {0}),
        allow_repeats=options.allow_repeats,
        runners_up=options.runners_up,
        written=written,
        placed=placed,
        named_row="" if scored.row is None else scored.row.name,
        when_where=lambda _, picture: scored.reason(step, picture),
    )
    return explain(considered, pictures)[0].model_copy(update={"position": step})


def _part(pool: Pool, cells: slice, there: BoolArray) -> Pool:
    """A pool with some of the steps, and without some of the candidates."""

    def of(one: ChannelSimilarity) -> ChannelSimilarity:
        present = one.present[cells] & there
        rest = (one.cosine, one.z, one.titled, one.trust)
        return ChannelSimilarity(present, *(np.where(present, values[cells], 0.0) for values in rest))

    channels = {name: of(one) for name, one in pool.channels.items()}
    found = pool.found[cells] & there
    return replace(pool, items=pool.items[cells], there=there, channels=channels, found=found)


def _worth(
    scored: BoardScores, fixed: Collection[int]
) -> tuple[Float64Array, Float64Array, Float64Array, Float64Array]:
    """(S, K) each: log-odds with the fixed pictures, values for the assignment (at least 0), the part of the
    log-odds that the fixed pictures add, and probabilities.
    """
    pool, calibration = scored.pool, scored.calibration
    # trained runs are not calibrated: their steps count as uncertain
    doubted = doubt(pool, scored.found, calibration, fixed) if scored.calibrated else 1.0
    pinned = doubted * pin_odds(pool, scored.guides, scored.looks, calibration.pin)
    chance = scored.alone
    if scored.extra_rows:
        also = probabilities(pool, scored.own, scored.odds + np.maximum(pinned, 0.0), calibration)
        chance = np.maximum(chance, also)
    whole = scored.odds + pinned
    if scored.placed is not None:
        value = np.where(pool.there, scored.placed.value, -np.inf)
        sure = np.clip(value, 1e-9, 1 - 1e-9)
        whole = np.where(np.isfinite(value), np.log(sure / (1 - sure)), -np.inf)
        return whole, value, pinned, np.where(pool.there, scored.placed.chance, 0.0)
    return whole, whole - whole.min(where=np.isfinite(whole), initial=0.0), pinned, chance


def text_row(
    row: NamedRow, named: Sequence[str], steps: Sequence[BoardStep], belongs: Mapping[str, int]
) -> TextRow:
    """The named pictures with the steps to which they belong.

    Args:
        row: the pictures.
        named: what was named.
        steps: the storyboard.
        belongs: step of pictures that may not be shown, by id; it counts if the step shows another of them.
    """
    order = row.order if row.follows(len(steps)) else "any"
    shows = {step.chosen.picture.id: step.position for step in reversed(steps) if step.chosen is not None}
    illustrated = {shows[picture] for picture in row.pictures if picture in shows}
    lies = {picture: step for picture, step in belongs.items() if step in illustrated} | shows
    return TextRow(
        named=tuple(named),
        name=row.name,
        order=order,
        photographs=tuple(
            RowPhotograph(picture=one, place=None if order == "any" else place, step=lies.get(one))
            for place, shots in enumerate(row.places)
            for one in shots
        ),
    )


def _staying(
    words: QueryTexts,
    given: Mapping[int, str],
    held: Mapping[int, str | None],
    options: BoardOptions,
    *,
    ordered: bool,
) -> dict[int, str | None]:
    """Steps to keep: those that the caller holds, and blanks at steps without words, which only the order of
    photographs can illustrate.
    """
    blank = [] if ordered else np.flatnonzero(~words.worded).tolist()
    staying = {**{step: None for step in blank if step not in given}, **held}
    return {step: one for step, one in staying.items() if step not in options.pins}


def _assigned(
    worth: Float64Array, fits: BoolArray, groups: IntArray, fixed: Mapping[int, int], *, allow_repeats: bool
) -> IntArray:
    """Assign pictures, and leave out those that do not fit well enough.

    Steps that lose their picture are assigned again, among the remaining pictures that fit well enough.
    """
    chosen = assign(worth, groups, fixed, allow_repeats=allow_repeats)
    kept = {
        step: column
        for step, column in enumerate(chosen.tolist())
        if step in fixed or (column != BLANK and fits[step, column])
    }
    if len(kept) == len(chosen):
        return chosen
    return assign(np.where(fits, worth, -np.inf), groups, kept, allow_repeats=allow_repeats)


def _limit(options: BoardOptions, calibration: Calibration) -> float:
    """Probability below which a step stays blank."""
    if options.min_probability is not None:
        return options.min_probability
    return calibration.thresholds.get(options.show, 0.0)


def _among(  # noqa: PLR0917
    every: Index,
    asked: Sequence[EncodedSteps],
    options: BoardOptions,
    wanted: Mapping[int, str | None],
    compared: str,
    row: NamedRow | None,
) -> Index:
    """Index to choose from: all pictures, or in a large library those that are named, or those that are
    similar to the texts or to fixed pictures.
    """
    fixed = sorted({one for one in wanted.values() if one is not None})
    like = SimilarityQuery(fixed, compared, COSINE, options.candidates) if fixed else None
    if row is not None:
        return every.among((), [*_named(wanted, options), *row.pictures])
    requests = [([one.search()], options.candidates) for one in asked if one.reads.any()]
    return every.among(requests, _named(wanted, options), like)


def _named(wanted: Mapping[int, str | None], options: BoardOptions) -> list[str]:
    """Ids of the pictures that are fixed or banned."""
    return [*sorted({one for one in wanted.values() if one is not None}), *options.bans]


def most_similar_rows(
    index: Index, guides: Sequence[int], space: str | None, count: int, barred: BoolArray
) -> list[int]:
    """Gallery rows that are visually most similar to others."""
    if space is None or not guides:
        return []
    held = index.gallery.space(space)
    seen = [row for row in guides if held.present[row]]
    if not seen:
        return []
    vectors = held.vectors(np.array(seen))
    asked = EncodedSteps("looks", space, vectors, [vectors[:0]] * len(seen), None)
    found = index.search([asked.search()], count, exclude=barred | ~np.asarray(held.present))
    return [int(row) for row in np.unique(found.rows)]


def pin_odds(pool: Pool, guides: Sequence[int], space: str | None, pin: Pin) -> Float64Array:
    """Log-odds (S, K) that the user's fixed pictures add to each candidate, before scaling by the doubt of
    the steps.

    weight · ln(floor + (1 − floor) e^q), q = looks · cosine less its log-mean-exp over the candidates of the
    step; the mean over several fixed pictures.
    """
    found = np.zeros(pool.items.shape)
    if space is None or not guides:
        return found
    held = pool.gallery.space(space)
    present = np.asarray(held.present)[pool.rows]
    vectors = held.vectors(pool.rows)
    fixed = [int(np.searchsorted(pool.rows, row)) for row in guides if held.present[row]]
    for number in fixed:
        q = pin.looks * (vectors @ vectors[number])[pool.items]
        usable = pool.there & present[pool.items]
        count = np.maximum(usable.sum(axis=1, keepdims=True), 1)
        mean = log_sum_exp(np.where(usable, q, -np.inf)) - np.log(count)
        term = pin.weight * np.log(
            pin.floor + (1 - pin.floor) * np.exp(q - np.where(np.isfinite(mean), mean, 0.0))
        )
        found += np.where(usable & (pool.items != number), term, 0.0) / len(fixed)
    return found


def _fixed(
    story: Story, gallery: Gallery, options: BoardOptions, given: Mapping[int, str | None]
) -> tuple[dict[int, int | None], IntArray]:
    """Fixed gallery row, or None for a blank, by step; and the banned rows."""
    wanted, steps = {**given, **options.pins}, len(story.steps)
    named = [one for one in (*wanted.values(), *options.bans) if one is not None]
    rows: list[int] = gallery.rows(named).tolist() if named else []
    place = dict(zip(named, rows, strict=True))

    def row_of(picture: str, where: str) -> int:
        if place[picture] < 0:
            raise DataError(f"{where}: picture {picture} is not in the library; index its folder first")
        return place[picture]

    fixed: dict[int, int | None] = {}
    for step, picture in wanted.items():
        where = f"pin of step {step + 1}"
        if not 0 <= step < steps:
            raise DataError(f"{where}: no such step; the text has {counted(steps, 'step')}")
        if picture in options.bans:
            raise DataError(f"step {step + 1}: picture {picture} is fixed and banned; remove one of the two")
        fixed[step] = None if picture is None else row_of(picture, where)
    return fixed, np.array([row_of(picture, "ban") for picture in options.bans], dtype=np.int64)
