"""From a story and a gallery to a storyboard: search, decode, explain.

Every step's candidates come from one search; pictures the text already shows and the user's pins
are fixed; blanks have a calibrated price. It writes no files and draws no pages.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from limner.errors import ConfigError, DataError
from limner.library.channels import Channel, EncodedChannel, Evidence
from limner.library.gallery import Gallery
from limner.library.search import Hits, Index, Scored
from limner.records import Picture, Record, Story, Storyboard, limner_version
from limner.storyboard.calibration import UNAVOIDABLE, Chances, Found, Suitability
from limner.storyboard.coherence import Coherence, CosinePull, Reading, read
from limner.storyboard.decode import Decoder, decode, pulls
from limner.storyboard.explain import Considered, explain
from limner.storyboard.lattice import BLANK, Float64Array, IntArray, NoPull, PairTerm, lattice

CANDIDATES = 200
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
        flat = self.model_dump(exclude={"pins", "bans", "pair_evidence"}) | {"candidates": self.considered}
        flat |= {f"pair_{name}": number for name, number in self.pair_evidence.model_dump().items()}
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
    gallery: Gallery | Index,
    channels: Sequence[Channel],
    pictures: Pictures,
    options: BoardOptions | None = None,
    *,
    suitability: Suitability | None = None,
    coherence: Coherence | None = None,
    given: Mapping[int, str] | None = None,
    languages: Sequence[str] | None = None,
    library: str = "",
) -> Storyboard:
    """Choose a picture for every step of a story and say why.

    Args:
        story: the text.
        gallery: the pictures; pass an `Index` to keep what it has computed for the next story.
        channels: ways to compare a step with a picture.
        pictures: ids → records in the same order, for those that end up on the board.
        options: how; None for the defaults.
        suitability: calibration of blanks; None leaves a step blank only when nothing is left.
        coherence: calibration of how much context and agreement count; None takes both in full.
        given: 0-based step → id of the picture the text itself shows there; a pin goes first.
        languages: ISO 639 code of each step; a step in one that no channel reads is left blank, where no
            picture is fixed elsewhere that others may be like. None takes all for readable.
        library: name to note on the board.
    Raises:
        ConfigError: min_probability without a calibration.
        DataError: a pin or ban the gallery does not hold, or a picture both fixed and banned.
        LimnerError: as `Index.search` and `decode`.
    """
    options = options or BoardOptions()
    if options.min_probability is not None and suitability is None:
        raise ConfigError("min_probability is set, but there is no calibration of suitability to apply it to")
    index = gallery if isinstance(gallery, Index) else Index(gallery)
    fixed = _fixed(story, index.gallery, options, given or {})
    texts = step_texts(story)
    encoded = [EncodedChannel.encode(channel, texts, languages) for channel in channels]
    encoded = [one for one in encoded if one.texts.any()] or encoded
    barred = np.zeros(len(index.gallery), dtype=bool)
    barred[_rows(index.gallery, options.bans, "ban")] = True
    readings = [one.both_readings() for one in encoded]
    hits = index.search(readings, options.considered, exclude=barred)
    pool = pool_of(index, readings, hits, fixed=fixed, options=options, barred=barred)
    available = int(np.count_nonzero(~barred))
    reading = read(pool.unary, pool.items, pool.groups, pool.pair, available)
    context, weight = _weights(
        reading, options, coherence, pinned=any(row is not None for row in fixed.values())
    )
    pool = pool.weighing(context, weight)
    chances = None
    prices: Float64Array = np.full(len(texts), UNAVOIDABLE)
    unary = pool.unary
    if suitability is not None:
        searched = Found(hits.evidence[: len(texts)], pool.unary, available, weight)
        chances = Chances(suitability, searched, threshold=options.min_probability)
        columns = {step: pool.column(step, row) for step, row in fixed.items() if row is not None}
        admitted = chances.admitted(pool.support([row for row in fixed.values() if row is not None]))
        admitted[list(columns), list(columns.values())] = True
        unary = np.where(admitted, pool.unary, -np.inf)
        neighbours = 2 if options.decoder in ("chain", "greedy", "beam") else 1
        prices = chances.blank_prices(neighbours * pool.pair.lowest)
    problem = lattice(
        unary,
        pool.groups,
        pool.pair,
        items=pool.items,
        blank=prices,
        locks={step: None if row is None else pool.column(step, row) for step, row in fixed.items()},
        allow_repeats=options.allow_repeats,
    )
    choice = decode(problem, options.decoder, beam_width=options.beam_width)
    blanks = (choice.columns == BLANK) & (problem.blank == UNAVOIDABLE)
    considered = Considered(
        story=story,
        texts=texts,
        ids=[index.gallery.ids[row] for row in pool.rows],
        groups=pool.groups,
        items=pool.items,
        unary=pool.unary,
        pull=pulls(problem, options.decoder, choice),
        scored=pool.scored,
        columns=choice.columns,
        chances=chances,
        ruled_out=_ruled_out(index, readings, np.flatnonzero(barred), context, chances),
        pinned=frozenset(options.pins),
        given=frozenset(given or {}) - frozenset(options.pins),
        allow_repeats=options.allow_repeats,
        runners_up=options.runners_up,
    )
    return Storyboard(
        story=story,
        steps=explain(considered, pictures),
        decoder=options.decoder,
        anchor=None if choice.anchor is None else index.gallery.ids[pool.rows[choice.anchor]],
        library=library,
        channels=tuple(one.name for one in encoded),
        settings=options.settings()
        | {"context": context, "pair_weight": weight}
        | {f"text_{name}": value for name, value in reading.model_dump().items()}
        | ({"gap": round(choice.gap, 3)} if 0 < choice.gap < np.inf else {}),
        objective=choice.objective - UNAVOIDABLE * int(blanks.sum()),
        version=limner_version(),
    )


@dataclass(frozen=True)
class Pool:
    """All candidates of all steps.

    Attributes:
        rows: (C,) gallery rows, ascending.
        groups: (C,) near-duplicate groups.
        items: (S, K) candidate numbers of each step; filled up with 0 where `unary` is −inf.
        unary: (S, K) nats.
        scored: exact scores of all candidates: (S, C) of the steps, or (2S, C) of both readings of them.
        pair: what candidates say for each other.
    """

    rows: IntArray
    groups: IntArray
    items: IntArray
    unary: Float64Array
    scored: Scored
    pair: PairTerm

    def column(self, step: int, row: int) -> int:
        """Where a gallery row stands in a step's list."""
        number = int(np.searchsorted(self.rows, row))
        return int(np.flatnonzero((self.items[step] == number) & (self.unary[step] > -np.inf))[0])

    def support(self, pinned: Sequence[int]) -> Float64Array:
        """(S, K) mean nats that fixed pictures, given as gallery rows, add to each candidate."""
        if not pinned:
            return np.zeros(self.unary.shape)
        fixed = np.searchsorted(self.rows, np.unique(pinned))
        mean = self.pair.block(np.arange(len(self.rows)), fixed).mean(axis=1)
        return np.asarray(mean[self.items], dtype=np.float64)

    def weighing(self, context: float, weight: float) -> "Pool":
        """The steps read alone and in context, mixed, and pictures agreeing with a weight.

        Args:
            context: share of the reading in context, 0 to 1.
            weight: times the evidence of two pictures for each other.
        """
        steps = len(self.unary)
        scored = self.scored.mixed(steps, context)
        unary = np.take_along_axis(scored.scores.astype(np.float64), self.items, axis=1)
        pair = self.pair.weighing(weight) if isinstance(self.pair, CosinePull) and weight > 0 else NoPull()
        return replace(self, unary=np.where(self.unary > -np.inf, unary, -np.inf), scored=scored, pair=pair)


def _ruled_out(
    index: Index,
    readings: Sequence[EncodedChannel],
    banned: IntArray,
    context: float,
    chances: Chances | None,
) -> NDArray[np.bool_]:
    """(S,) whether a banned picture would have been likely enough to be shown; any, without a calibration."""
    steps = len(readings[0].texts) // 2
    if not len(banned):
        return np.zeros(steps, dtype=bool)
    if chances is None:
        return np.ones(steps, dtype=bool)
    best = index.score(readings, banned).mixed(steps, context).scores.max(axis=1)
    return chances.admits(best.astype(np.float64))


def _weights(
    reading: Reading, options: BoardOptions, coherence: Coherence | None, *, pinned: bool
) -> tuple[float, float]:
    """Share of context and weight of pictures for each other: as asked, else inferred from the text."""
    context, weight = (1.0, 1.0) if coherence is None else coherence.weights(reading)
    if pinned and coherence is not None:
        weight = max(weight, options.pinned_weight)
    if options.context is not None:
        context = options.context
    if options.decoder == "off":
        weight = 0.0
    elif options.pair_weight is not None:
        weight = options.pair_weight
    return context, weight


def pool_of(
    index: Index,
    readings: Sequence[EncodedChannel],
    hits: Hits,
    *,
    fixed: Mapping[int, int | None],
    options: BoardOptions,
    barred: NDArray[np.bool_],
) -> Pool:
    """Each step's list: what either reading found, the fixed pictures, and what looks most like them."""
    steps = len(hits.rows) // 2
    pinned = np.unique(np.array([row for row in fixed.values() if row is not None], dtype=np.int64))
    pulling = options.decoder != "off" and options.pair_weight != 0
    extra = pinned
    if pulling and len(pinned):
        space = index.gallery.space(options.pair_space)
        seen = pinned[space.present[pinned]]
        if len(seen):
            vectors = np.asarray(space.matrix[seen], dtype=np.float32)
            look = EncodedChannel("look", options.pair_space, options.pair_evidence, vectors)
            alike = index.search([look], options.considered, exclude=barred).rows
            extra = np.union1d(extra, alike.ravel())
    lists = [np.unique(np.concatenate([hits.rows[s], hits.rows[steps + s], extra])) for s in range(steps)]
    rows = np.unique(np.concatenate(lists)) if lists else np.zeros(0, dtype=np.int64)
    items = np.zeros((steps, max((len(own) for own in lists), default=0)), dtype=np.int64)
    unary = np.full(items.shape, -np.inf)
    scored = index.score(readings, rows)
    for s, own in enumerate(lists):
        items[s, : len(own)] = np.searchsorted(rows, own)
        unary[s, : len(own)] = scored.scores[s, items[s, : len(own)]]
    if not pinned.size:  # a picture that no channel knows is never chosen for want of a better one
        known = np.zeros((steps, len(rows)), dtype=bool)
        for channel in readings:
            known |= np.outer(channel.texts[:steps].any(axis=1), scored.present[channel.name])
        unary[~np.take_along_axis(known, items, axis=1)] = -np.inf
    names = np.array([index.gallery.groups[row] for row in rows.tolist()], dtype=str)
    groups = np.unique(names, return_inverse=True)[1] if len(names) else np.zeros(0, dtype=np.int64)
    pair: PairTerm = NoPull()
    if pulling:
        pair = CosinePull.of(index, options.pair_space, rows, options.pair_evidence, 1.0)
    return Pool(rows, np.asarray(groups, dtype=np.int64), items, unary, scored, pair)


def _fixed(
    story: Story, gallery: Gallery, options: BoardOptions, given: Mapping[int, str]
) -> dict[int, int | None]:
    """Step → gallery row that is not up for choice, or None for a blank the user wants."""
    fixed: dict[int, int | None] = {}
    steps = len(story.steps)
    for step, picture in {**given, **options.pins}.items():
        if not 0 <= step < steps:
            raise DataError(f"pin of step {step + 1}: the story has {steps} step{'' if steps == 1 else 's'}")
        if picture is None:
            fixed[step] = None
        elif picture in options.bans:
            raise DataError(f"step {step + 1}: picture {picture} is fixed and banned; drop one of the two")
        else:
            fixed[step] = int(_rows(gallery, [picture], f"pin of step {step + 1}")[0])
    return fixed


def _rows(gallery: Gallery, ids: Sequence[str], where: str) -> IntArray:
    """Gallery rows of picture ids."""
    if not ids:
        return np.zeros(0, dtype=np.int64)
    place = {picture: row for row, picture in enumerate(gallery.ids)}
    absent = [picture for picture in ids if picture not in place]
    if absent:
        raise DataError(f"{where}: picture {absent[0]} is not in the library; index its folder first")
    return np.array([place[picture] for picture in ids], dtype=np.int64)
