"""From a story and a gallery to a storyboard: search, decode, explain.

Every step's candidates come from one search; pictures the text already shows and the user's pins
are fixed; blanks have a calibrated price. It writes no files and draws no pages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from limner.errors import ConfigError, DataError
from limner.library.channels import Channel, EncodedChannel, Evidence
from limner.library.gallery import Gallery
from limner.library.scan import BoolArray
from limner.library.search import Index, Likeness
from limner.records import Picture, Record, Story, Storyboard, limner_version
from limner.storyboard.calibration import UNAVOIDABLE, Chances, Found, Suitability
from limner.storyboard.candidates import pool_of
from limner.storyboard.coherence import Coherence, Reading, Walk, read
from limner.storyboard.decoding import Decoder, decode, pairwise_terms
from limner.storyboard.explain import Considered, explain
from limner.storyboard.lattice import BLANK, Float64Array, IntArray, lattice

if TYPE_CHECKING:
    from limner.library.approximate import Approximate

CANDIDATES, OF_OCCASION = 200, 20
"""Pictures considered per step and reading, and of the occasion of a fixed picture as well."""
Pictures = Callable[[Sequence[str]], list[Picture]]


class BoardOptions(Record):
    """How to illustrate.

    Attributes:
        decoder: off, greedy, beam, chain or anchor.
        candidates: pictures considered per step and reading; None for 200, see `considered`.
        context: share of reading each step with the whole text, against reading it alone; None infers it
            from the text where a calibration of coherence is given, and takes 1 without.
        pair_weight: times the evidence of two pictures for each other; 0 switches it off; None infers it
            likewise, and takes 1 without a calibration.
        pinned_weight: in place of an inferred pair weight that is smaller, where a picture is fixed.
        pair_space: gallery space in which pictures are compared.
        pair_evidence: how their cosine becomes nats.
        pair_walk: how likeness to a fixed picture spreads over pictures that look alike; None takes the
            cosine with it alone.
        occasion_weight: nats for a picture that was taken on the same occasion as one that is fixed.
        allow_repeats: whether a picture, or a near-duplicate of it, may be shown twice.
        pins: 0-based step → picture id, or None to keep the step blank.
        bans: picture ids that must not be shown.
        min_probability: in place of the calibrated threshold; needs a calibration.
        beam_width: beginnings kept by the beam decoder.
        runners_up: other candidates named per step.
    """

    decoder: Decoder = "anchor"
    candidates: int | None = Field(default=None, ge=1)
    context: float | None = Field(default=None, ge=0, le=1)
    pair_weight: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    pinned_weight: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    pair_space: str = "visual"
    pair_evidence: Evidence = Evidence(slope=0.0, z_slope=0.5, offset=0.0)
    pair_walk: Walk | None = None
    occasion_weight: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    allow_repeats: bool = False
    pins: dict[int, str | None] = Field(default_factory=dict)
    bans: tuple[str, ...] = ()
    min_probability: float | None = Field(default=None, ge=0, lt=1)
    beam_width: int = Field(default=8, ge=1)
    runners_up: int = Field(default=3, ge=0)

    @property
    def considered(self) -> int:
        """Pictures considered per step and reading."""
        return CANDIDATES if self.candidates is None else self.candidates

    def settings(self) -> dict[str, str | int | float | bool | None]:
        """The options as one flat table."""
        flat = self.model_dump(exclude={"pins", "bans", "pair_evidence", "pair_walk"})
        flat |= {"candidates": self.considered}
        flat |= {f"pair_{name}": number for name, number in self.pair_evidence.model_dump().items()}
        walk = {} if self.pair_walk is None else self.pair_walk.model_dump()
        flat |= {f"pair_walk_{name}": number for name, number in walk.items()}
        flat["pins"] = " ".join(
            f"{step + 1}={picture or 'none'}" for step, picture in sorted(self.pins.items())
        )
        flat["bans"] = " ".join(self.bans)
        return flat


def step_texts(story: Story) -> list[str]:
    """What is searched for each step: its heading, unless all share one, and its words."""
    titles = {step.title for step in story.steps}
    telling = len(titles) > 1 or len(story.steps) == 1
    return [f"{step.title}. {step.text}" if step.title and telling else step.text for step in story.steps]


def choose_pictures(
    story: Story,
    gallery: Gallery | Index | Approximate,
    channels: Sequence[Channel],
    pictures: Pictures,
    options: BoardOptions | None = None,
    *,
    suitability: Suitability | None = None,
    coherence: Coherence | None = None,
    given: Mapping[int, str] | None = None,
    held: Mapping[int, str | None] | None = None,
    languages: Sequence[str] | None = None,
    occasions: Callable[[Sequence[str]], Sequence[str]] | None = None,
    library: str = "",
) -> Storyboard:
    """Choose a picture for every step of a story and say why.

    Args:
        story: the text.
        gallery: the pictures; pass an `Index` to keep what it has computed for the next story, or what
            finds candidates in a library larger than memory.
        channels: ways to compare a step with a picture.
        pictures: ids → records in the same order, for those that end up on the board.
        options: how; None for the defaults.
        suitability: calibration of blanks; None leaves a step blank only when nothing is left.
        coherence: calibration of how much context and agreement count; None takes both in full.
        given: 0-based step → id of the picture the text itself shows there; a pin goes first.
        held: 0-based step → picture id, or None for a blank, that stays as it is while the other steps are
            chosen for; unlike a pin it is no wish, guides nothing, and is explained as if chosen. A pin goes
            first.
        languages: ISO 639 code of each step; a step in one that no channel reads is left blank, where no
            picture is fixed elsewhere that others may be like. None takes all for readable.
        occasions: ids → those of all pictures of their occasions; None where no occasion is known.
        library: name to note on the board.
    Raises:
        ConfigError: min_probability without a calibration.
        DataError: a pin or ban the gallery does not hold, or a picture both fixed and banned.
        LimnerError: as `Index.search` and `decode`.
    """
    options = options or BoardOptions()
    if options.min_probability is not None and suitability is None:
        raise ConfigError(
            "--min-score (min_probability) needs a calibration of suitability, and there is none"
        )
    every = Index(gallery) if isinstance(gallery, Gallery) else gallery
    given, held = given or {}, {step: one for step, one in (held or {}).items() if step not in options.pins}
    texts = step_texts(story)
    encoded = [EncodedChannel.encode(channel, texts, languages) for channel in channels]
    encoded = [one for one in encoded if one.texts.any()] or encoded
    readings = [one.both_readings() for one in encoded]
    pair_space = options.pair_space if options.decoder != "off" and options.pair_weight != 0 else None
    index = _among(every, readings, options, {**given, **held, **options.pins}, pair_space)
    fixed, banned = _fixed(story, index.gallery, options, {**given, **held})
    shown = {step: row for step, row in fixed.items() if row is not None}
    staying = {step for step, one in held.items() if one is None or given.get(step) != one}
    guides = [row for step, row in shown.items() if step not in staying]
    barred = np.zeros(len(index.gallery), dtype=bool)
    barred[banned] = True
    hits = index.search(readings, options.considered, exclude=barred)
    related = _related(index, guides, options, occasions)
    near = index.search(readings, OF_OCCASION, exclude=barred | ~related).rows if related.any() else None
    pool = pool_of(
        index,
        readings,
        hits,
        near=near,
        fixed=shown,
        guided=bool(guides),
        pair_space=pair_space,
        pair_evidence=options.pair_evidence,
        count=options.considered,
        barred=barred,
    )
    available = index.pictures - int(np.count_nonzero(barred))
    reading = read(pool.unary, pool.items, pool.groups, pool.pair, available)
    context, weight = _weights(reading, options, coherence, pinned=bool(guides))
    pool = pool.weighing(context, weight).walking(guides, options.pair_walk)
    columns = {step: pool.column(step, row) for step, row in shown.items()}
    bonus = options.occasion_weight * related[pool.rows][pool.items].astype(np.float64)
    bonus[list(fixed)] = 0.0
    chances = None
    prices: Float64Array = np.full(len(texts), UNAVOIDABLE)
    unary = pool.unary
    if suitability is not None:
        searched = Found(hits.evidence[: len(texts)], pool.unary, available, weight)
        chances = Chances(suitability, searched, threshold=options.min_probability)
        admitted = chances.admitted(pool.support(guides) + bonus)
        admitted[list(columns), list(columns.values())] = True
        unary = np.where(admitted, pool.unary, -np.inf)
        neighbours = 2 if options.decoder in ("chain", "greedy", "beam") else 1
        prices = chances.blank_prices(neighbours * pool.pair.lowest)
    problem = lattice(
        unary + bonus,
        pool.groups,
        pool.pair,
        items=pool.items,
        blank=prices,
        locks={step: columns.get(step) for step in fixed},
        held=staying,
        allow_repeats=options.allow_repeats,
    )
    choice = decode(problem, options.decoder, beam_width=options.beam_width)
    blanks = (choice.columns == BLANK) & (problem.blank == UNAVOIDABLE)
    considered = Considered(
        texts=texts,
        ids=[index.gallery.ids[row] for row in pool.rows],
        pool=pool,
        pairwise=pairwise_terms(problem, options.decoder, choice) + bonus,
        columns=choice.columns,
        chances=chances,
        ruled_out=_ruled_out(index, readings, banned, context, chances),
        pinned=frozenset(options.pins),
        given=frozenset(given) - frozenset(options.pins) - staying,
        held=frozenset(staying),
        allow_repeats=options.allow_repeats,
        runners_up=options.runners_up,
    )
    return Storyboard(
        story=story,
        steps=explain(considered, pictures),
        decoder=options.decoder,
        anchor=None if choice.anchor is None else considered.ids[choice.anchor],
        library=library,
        channels=tuple(one.name for one in encoded),
        settings=options.settings()
        | {"context": context, "pair_weight": weight}
        | {f"text_{name}": value for name, value in reading.model_dump().items()}
        | ({"gap": round(choice.gap, 3)} if 0 < choice.gap < np.inf else {}),
        objective=choice.objective - UNAVOIDABLE * int(blanks.sum()),
        version=limner_version(),
    )


def _among(
    every: Index | Approximate,
    readings: Sequence[EncodedChannel],
    options: BoardOptions,
    wanted: Mapping[int, str | None],
    pair_space: str | None,
) -> Index:
    """What the steps choose from: all pictures, or candidates, by words and by likeness to fixed ones."""
    fixed = sorted({one for one in wanted.values() if one is not None})
    like = None
    if pair_space is not None and fixed:
        like = Likeness(fixed, pair_space, options.pair_evidence, options.considered)
    return every.among([(readings, options.considered)], [*fixed, *options.bans], like)


def _related(
    index: Index,
    guides: Sequence[int],
    options: BoardOptions,
    occasions: Callable[[Sequence[str]], Sequence[str]] | None,
) -> BoolArray:
    """(M,) pictures of the occasion of one that is fixed, where that counts."""
    related = np.zeros(len(index.gallery), dtype=bool)
    if options.occasion_weight and occasions is not None and guides:
        rows = index.gallery.rows(occasions([index.gallery.ids[row] for row in guides]))
        related[rows[rows >= 0]] = True
    return related


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
            raise DataError(f"{where}: the story has {steps} step{'' if steps == 1 else 's'}")
        if picture in options.bans:
            raise DataError(f"step {step + 1}: picture {picture} is fixed and banned; drop one of the two")
        fixed[step] = None if picture is None else row_of(picture, where)
    return fixed, np.array([row_of(picture, "ban") for picture in options.bans], dtype=np.int64)


def _ruled_out(
    index: Index,
    readings: Sequence[EncodedChannel],
    banned: IntArray,
    context: float,
    chances: Chances | None,
) -> NDArray[np.bool_]:
    """(S,) whether a banned picture would have been likely enough to be shown; any, without a calibration."""
    steps = len(readings[0].texts) // 2
    if not len(banned) or chances is None:
        return np.full(steps, bool(len(banned)))
    scored = index.score(readings, np.unique(banned)).mixed(steps, context)
    return chances.admits(scored.scores.max(axis=1).astype(np.float64))


def _weights(
    reading: Reading, options: BoardOptions, coherence: Coherence | None, *, pinned: bool
) -> tuple[float, float]:
    """Share of context and weight of pictures for each other: as asked, else inferred from the text."""
    context, weight = (1.0, 1.0) if coherence is None else coherence.weights(reading)
    if pinned and coherence is not None:
        weight = max(weight, options.pinned_weight)
    context = context if options.context is None else options.context
    weight = weight if options.pair_weight is None else options.pair_weight
    return context, 0.0 if options.decoder == "off" else weight
