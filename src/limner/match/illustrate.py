"""From a story and a gallery to a storyboard: read the steps, weigh the pictures, assign, explain.

Pictures the text already shows and the user's pins are fixed; a step stays blank where nothing fits it. It
writes no files and draws no pages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from pydantic import Field

from limner.counts import counted
from limner.errors import DataError
from limner.language import ENGLISH
from limner.match.board import BLANK, assign
from limner.match.calibration import Calibration, Pin, load
from limner.match.candidates import (
    RELATION,
    Asked,
    Float64Array,
    IntArray,
    Pool,
    Readings,
    Resemblance,
    pool_of,
)
from limner.match.cast import Cast, cast_of
from limner.match.chances import agreement, chances, doubt, evidence, log_sum_exp
from limner.match.explain import Considered, Written, explain, no_words
from limner.records import WEAK, Board, Picture, Record, Show, Story, limner_version
from limner.store.catalogue import BoolArray
from limner.store.channels import COSINE, Channel
from limner.store.search import Index, Likeness
from limner.store.vectors import Gallery

if TYPE_CHECKING:
    from limner.store.beyond import Approximate

CANDIDATES = 200
"""Pictures considered per step and channel."""
SPACES = {"captions": "captions", "looks": "looks"}
"""How two pictures are compared → the gallery space that holds the vectors."""
Pictures = Callable[[Sequence[str]], list[Picture]]


class BoardOptions(Record):
    """How to illustrate.

    Attributes:
        show: how readily a picture is shown: ``cautious``, ``usual``, or ``always``.
        min_probability: chance below which a step stays blank, in place of what `show` says.
        candidates: pictures considered per step and channel.
        allow_repeats: whether a picture, or a near-duplicate of it, may be shown twice.
        pins: 0-based step → picture id, or None to keep the step blank.
        bans: picture ids that must not be shown.
        runners_up: other candidates named per step.
    """

    show: Show = "usual"
    min_probability: float | None = Field(default=None, ge=0, lt=1)
    candidates: int = Field(default=CANDIDATES, ge=1)
    allow_repeats: bool = False
    pins: dict[int, str | None] = Field(default_factory=dict)
    bans: tuple[str, ...] = ()
    runners_up: int = Field(default=3, ge=0)

    def settings(self) -> dict[str, str | int | float | bool | None]:
        """The options as one flat table."""
        flat = self.model_dump(exclude={"pins", "bans"})
        pins = (f"{step + 1}={picture or 'none'}" for step, picture in sorted(self.pins.items()))
        return flat | {"pins": " ".join(pins), "bans": " ".join(self.bans)}


def step_texts(story: Story) -> list[str]:
    """What is searched for each step: its heading, unless all share one, and its words."""
    titles = {step.title for step in story.steps}
    telling = len(titles) > 1 or len(story.steps) == 1
    return [f"{step.title}. {step.text}" if step.title and telling else step.text for step in story.steps]


def readings_of(
    story: Story, languages: Sequence[str] | None = None, rewritten: Sequence[str] = ()
) -> tuple[Cast, Readings]:
    """Who a story is about, and the words of its steps that are compared with pictures.

    Args:
        story: the text.
        languages: ISO 639 code of each step; None takes all for English.
        rewritten: per step what a model says that its picture would show, read beside its own words; "" for
            nothing.
    """
    texts = step_texts(story)
    english = [True] * len(texts) if languages is None else [code == ENGLISH for code in languages]
    cast = cast_of([text for text, one in zip(texts, english, strict=True) if one], story.title)
    spelled = [cast.spelled(text) if one else text for text, one in zip(texts, english, strict=True)]
    readings = Readings.of(spelled, story.title, languages, texts)
    if any(rewritten):
        parts = [[*own, more] if more else own for own, more in zip(readings.parts, rewritten, strict=True)]
        written = [f"{own} {more}".strip() for own, more in zip(texts, rewritten, strict=True)]
        readings = Readings(parts, readings.titled, languages, written)
    return cast, readings


def choose_pictures(
    story: Story,
    gallery: Gallery | Index | Approximate,
    channels: Sequence[Channel],
    pictures: Pictures,
    options: BoardOptions | None = None,
    *,
    calibration: Calibration | None = None,
    compared: str = SPACES["looks"],
    given: Mapping[int, str] | None = None,
    held: Mapping[int, str | None] | None = None,
    readings: tuple[Cast, Readings] | None = None,
    calibrated: bool = True,
    library: str = "",
    written: Written = no_words,
) -> Board:
    """Choose a picture for every step of a story and say why.

    Args:
        story: the text.
        gallery: the pictures; pass an `Index` to keep what it has computed for the next story, or what
            finds candidates in a library larger than memory.
        channels: ways to compare a step with a picture.
        pictures: ids → records in the same order, for those that end up on the board.
        options: how; None for the defaults.
        calibration: the numbers; None for those that come with limner.
        compared: gallery space in which two pictures are compared by their looks.
        given: 0-based step → id of the picture the text itself shows there; a pin goes first.
        held: 0-based step → picture id, or None for a blank, that stays as it is while the other steps are
            chosen for; unlike a pin it is no wish, guides nothing, and is explained as if chosen. A pin goes
            first.
        readings: who the text is about and what is compared, as of `readings_of`; None makes them. A step
            that no channel reads is left blank, where no picture is fixed elsewhere that others may be like;
            one of signs alone, such as emoji, in any case.
        calibrated: whether chances hold for the channels; where not, none is stated and no step left blank.
        library: name to note on the board.
        written: ids → what is written in those of these pictures that show words.
    Raises:
        DataError: a pin or ban the gallery does not hold, or a picture both fixed and banned.
        LimnerError: as `Index.search`.
    """
    options, calibration = options or BoardOptions(), calibration or load()
    every = Index(gallery) if isinstance(gallery, Gallery) else gallery
    cast, words = readings or readings_of(story)
    given, held = given or {}, _staying(words, given or {}, held or {}, options)
    asked = [Asked.by(channel, words) for channel in channels]
    asked = [one for one in asked if one.reads.any()] or asked
    index = _among(every, asked, options, {**given, **held, **options.pins}, compared)
    fixed, banned = _fixed(story, index.gallery, options, {**given, **held})
    shown = {step: row for step, row in fixed.items() if row is not None}
    staying = {step for step, one in held.items() if one is None or given.get(step) != one}
    guides = sorted({row for step, row in shown.items() if step not in staying})
    barred = np.zeros(len(index.gallery), dtype=bool)
    barred[banned] = True
    spaces = {**SPACES, "looks": compared}
    spaces = {
        name: space for name, space in spaces.items() if space in index.gallery.spaces and index.held(space)
    }
    extra = {*shown.values(), *alike(index, guides, spaces.get("looks"), options.candidates, barred)}
    beside = sorted(extra.union(banned.tolist()))
    pool = pool_of(index, asked, calibration, count=options.candidates, extra=beside, barred=barred)
    own = np.where(words.worded[:, None], evidence(pool, calibration), -np.inf)
    for channel in channels:
        if channel.name == RELATION:
            own = own + channel.evidence.slope * pool.channels[RELATION].cosine
    banned_cells = np.isin(pool.rows, banned)[pool.items] & pool.there
    could = np.where(pool.found | banned_cells, own, -np.inf)  # what there would be without the bans
    own = np.where(banned_cells, -np.inf, own)
    likes = {name: Resemblance(pool, space) for name, space in spaces.items()} if len(own) > 1 else {}
    columns = {step: pool.column(step, row) for step, row in shown.items()}
    # Chances as without what is fixed, which adds candidates, and must make no other picture less likely.
    found = np.where(pool.found, own, -np.inf)
    freely = agreement(pool, found, calibration, likes)
    alone = chances(pool, found, freely, calibration)
    # What no channel knows counts where it is shown, and beside fixed pictures, which it may be like.
    counts = pool.there & ~banned_cells if guides else np.zeros(own.shape, dtype=bool)
    counts[list(columns), list(columns.values())] = True
    own = np.where(counts & ~np.isfinite(own), 0.0, own)
    sure = {step: column for step, column in columns.items() if step not in staying}
    odds = agreement(pool, own, calibration, likes, sure) if beside else freely
    # How sure a trained run is, nobody has measured: it is taken to be in doubt.
    pinned = (doubt(pool, found, calibration, fixed) if calibrated else 1.0) * pin_odds(
        pool, guides, spaces.get("looks"), calibration.pin
    )
    whole = odds + pinned
    worth = whole - whole.min(where=np.isfinite(whole), initial=0.0)
    chance = alone
    if extra:
        chance = np.maximum(alone, chances(pool, own, odds + np.maximum(pinned, 0.0), calibration))
    limit = _limit(options, calibration, alone[words.worded]) if calibrated else 0.0
    fixed_columns = {step: columns.get(step, BLANK) for step in fixed}
    groups = pool.groups[pool.items]
    chosen = _assigned(worth, chance >= limit, groups, fixed_columns, allow_repeats=options.allow_repeats)
    ruled_out: BoolArray = np.zeros(len(chosen), dtype=bool)
    if len(banned):
        would = chances(pool, could, agreement(pool, could, calibration, likes), calibration)
        ruled_out = np.asarray((banned_cells & (would >= (limit or WEAK))).any(axis=1))
    considered = Considered(
        texts=step_texts(story),
        worded=words.worded,
        cast=cast,
        ids=[index.gallery.ids[row] for row in pool.rows],
        pool=pool,
        score=own,
        agreement=np.where(np.isfinite(whole), whole - np.where(np.isfinite(own), own, 0.0), 0.0),
        pinned_by=pinned,
        columns=chosen,
        chance=chance if calibrated else None,
        limit=limit,
        ruled_out=ruled_out,
        pinned=frozenset(options.pins),
        given=frozenset(given) - frozenset(options.pins) - staying,
        held=frozenset(staying),
        allow_repeats=options.allow_repeats,
        runners_up=options.runners_up,
        written=written,
    )
    return Board(
        story=story,
        steps=explain(considered, pictures),
        library=library,
        channels=tuple(one.name for one in asked),
        threshold=limit,
        settings=options.settings(),
        version=limner_version(),
    )


def _staying(
    words: Readings, given: Mapping[int, str], held: Mapping[int, str | None], options: BoardOptions
) -> dict[int, str | None]:
    """What stays as it is: what the caller says, and no picture at a step without words."""
    blank = dict.fromkeys(np.flatnonzero(~words.worded).tolist())
    staying = {**{step: None for step in blank if step not in given}, **held}
    return {step: one for step, one in staying.items() if step not in options.pins}


def _assigned(
    worth: Float64Array, fits: BoolArray, groups: IntArray, fixed: Mapping[int, int], *, allow_repeats: bool
) -> IntArray:
    """The assignment, without the pictures that do not fit well enough.

    They leave room: steps without a picture choose again from what fits them and is left.
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


def _limit(options: BoardOptions, calibration: Calibration, chance: Float64Array) -> float:
    """The chance below which a step stays blank."""
    if options.min_probability is not None:
        return options.min_probability
    threshold = calibration.thresholds.get(options.show)
    if threshold is None or not chance.size:
        return 0.0
    return min(threshold.least, threshold.share * float(chance.max(axis=1).mean()))


def _among(
    every: Index | Approximate,
    asked: Sequence[Asked],
    options: BoardOptions,
    wanted: Mapping[int, str | None],
    compared: str,
) -> Index:
    """What the steps choose from: all pictures, or candidates, by words and by likeness to fixed ones."""
    fixed = sorted({one for one in wanted.values() if one is not None})
    like = Likeness(fixed, compared, COSINE, options.candidates) if fixed else None
    requests = [([one.search()], options.candidates) for one in asked if one.reads.any()]
    return every.among(requests, [*fixed, *options.bans], like)


def alike(index: Index, guides: Sequence[int], space: str | None, count: int, barred: BoolArray) -> list[int]:
    """Gallery rows that look most like some."""
    if space is None or not guides:
        return []
    held = index.gallery.space(space)
    seen = [row for row in guides if held.present[row]]
    if not seen:
        return []
    vectors = held.vectors(np.array(seen))
    asked = Asked("looks", space, vectors, [vectors[:0]] * len(seen), None)
    found = index.search([asked.search()], count, exclude=barred | ~np.asarray(held.present))
    return [int(row) for row in np.unique(found.rows)]


def pin_odds(pool: Pool, guides: Sequence[int], space: str | None, pin: Pin) -> Float64Array:
    """(S, K) log-odds that pictures the user fixed add to each candidate, where all steps are in doubt.

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
    """Step → gallery row that is not up for choice, or None for a blank the user wants; and banned rows."""
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
            raise DataError(f"{where}: not there; the text has {counted(steps, 'step')}")
        if picture in options.bans:
            raise DataError(f"step {step + 1}: picture {picture} is fixed and banned; drop one of the two")
        fixed[step] = None if picture is None else row_of(picture, where)
    return fixed, np.array([row_of(picture, "ban") for picture in options.bans], dtype=np.int64)
