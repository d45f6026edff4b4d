"""From a story and a gallery to a storyboard: search, decode, explain.

Every step's candidates come from one search; pictures the text already shows and the user's pins
are fixed; blanks have a calibrated price. It writes no files and draws no pages.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from limner.data.records import Picture, Record, Story
from limner.data.storyboards import Storyboard
from limner.errors import ConfigError, DataError
from limner.retrieval.channels import Channel, EncodedChannel, Evidence
from limner.retrieval.decoding import Decoder, decode, pulls
from limner.retrieval.explanation import Considered, explain
from limner.retrieval.gallery import Gallery
from limner.retrieval.index import Hits, Index, Scored
from limner.retrieval.lattice import BLANK, Float64Array, IntArray, NoPull, PairTerm, lattice
from limner.retrieval.pull import CosinePull
from limner.retrieval.suitability import UNAVOIDABLE, Suitability

Pictures = Callable[[Sequence[str]], list[Picture]]


class BoardOptions(Record):
    """How to illustrate.

    Attributes:
        decoder: off, greedy, beam, chain or anchor.
        candidates: pictures considered per step.
        pair_weight: times the evidence of two pictures for each other; 0 switches it off.
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
    candidates: int = Field(default=200, ge=1)
    pair_weight: float = Field(default=1.0, ge=0, allow_inf_nan=False)
    pair_space: str = "visual"
    pair_evidence: Evidence = Evidence(slope=0.0, z_slope=0.5, offset=0.0)
    allow_repeats: bool = False
    pins: dict[int, str | None] = Field(default_factory=dict)
    bans: tuple[str, ...] = ()
    min_probability: float | None = Field(default=None, ge=0, lt=1)
    beam_width: int = Field(default=8, ge=1)
    runners_up: int = Field(default=3, ge=0)

    def settings(self) -> dict[str, str | int | float | bool | None]:
        """The options as one flat table."""
        flat = self.model_dump(exclude={"pins", "bans", "pair_evidence"})
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


def illustrate(
    story: Story,
    gallery: Gallery | Index,
    channels: Sequence[Channel],
    pictures: Pictures,
    options: BoardOptions | None = None,
    *,
    suitability: Suitability | None = None,
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
        given: 0-based step → id of the picture the text itself shows there; a pin goes first.
        languages: ISO 639 code of each step; a step in one that no channel reads is left blank, where no
            picture is fixed elsewhere that others may be like. None takes all for readable.
        library: name to note on the board.
    Raises:
        ConfigError: min_probability without a calibration.
        DataError: a pin or ban the gallery does not hold, or a picture both fixed and banned.
        LimnerError: as `Index.search` and `decode`.
    """
    from limner import __version__

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
    hits = index.search(encoded, options.candidates, exclude=barred)
    pool = _pool(index, encoded, hits, fixed=fixed, options=options, barred=barred)

    prices = _prices(hits, suitability, options)
    problem = lattice(
        pool.unary,
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
        probability=None if suitability is None else suitability.probability(hits.evidence),
        threshold=_threshold(suitability, options),
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
        settings=options.settings() | ({"gap": round(choice.gap, 3)} if 0 < choice.gap < np.inf else {}),
        objective=choice.objective - UNAVOIDABLE * int(blanks.sum()),
        version=__version__,
    )


@dataclass(frozen=True)
class _Pool:
    """All candidates of all steps.

    Attributes:
        rows: (C,) gallery rows, ascending.
        groups: (C,) near-duplicate groups.
        items: (S, K) candidate numbers of each step; filled up with 0 where `unary` is −inf.
        unary: (S, K) nats.
        scored: exact scores of all candidates for all steps.
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


def _pool(
    index: Index,
    encoded: Sequence[EncodedChannel],
    hits: Hits,
    *,
    fixed: Mapping[int, int | None],
    options: BoardOptions,
    barred: NDArray[np.bool_],
) -> _Pool:
    """Each step's list: what the search found, the fixed pictures, and what looks most like them."""
    steps = len(hits.rows)
    pinned = np.unique(np.array([row for row in fixed.values() if row is not None], dtype=np.int64))
    pulling = options.decoder != "off" and options.pair_weight > 0
    extra = pinned
    if pulling and len(pinned):
        space = index.gallery.space(options.pair_space)
        seen = pinned[space.present[pinned]]
        if len(seen):
            vectors = np.asarray(space.matrix[seen], dtype=np.float32)
            look = EncodedChannel("look", options.pair_space, options.pair_evidence, vectors)
            alike = index.search([look], options.candidates, exclude=barred).rows
            extra = np.union1d(extra, alike.ravel())
    lists = [np.union1d(row, extra) for row in hits.rows]
    rows = np.unique(np.concatenate(lists))
    items = np.zeros((steps, max(len(own) for own in lists)), dtype=np.int64)
    unary = np.full(items.shape, -np.inf)
    scored = index.score(encoded, rows)
    for s, own in enumerate(lists):
        items[s, : len(own)] = np.searchsorted(rows, own)
        unary[s, : len(own)] = scored.scores[s, items[s, : len(own)]]
    if not pinned.size:  # a picture that no channel knows is never chosen for want of a better one
        known = np.zeros(scored.scores.shape, dtype=bool)
        for channel in encoded:
            known |= np.outer(channel.texts.any(axis=1), scored.present[channel.name])
        unary[~np.take_along_axis(known, items, axis=1)] = -np.inf
    names = np.array([index.gallery.groups[row] for row in rows], dtype=str)
    groups = np.unique(names, return_inverse=True)[1] if len(names) else np.zeros(0, dtype=np.int64)
    pair: PairTerm = NoPull()
    if pulling:
        pair = CosinePull.of(index, options.pair_space, rows, options.pair_evidence, options.pair_weight)
    return _Pool(rows, np.asarray(groups, dtype=np.int64), items, unary, scored, pair)


def _fixed(
    story: Story, gallery: Gallery, options: BoardOptions, given: Mapping[int, str]
) -> dict[int, int | None]:
    """Step → gallery row that is not up for choice, or None for a blank the user wants."""
    fixed: dict[int, int | None] = {}
    for step, picture in {**given, **options.pins}.items():
        if not 0 <= step < len(story.steps):
            raise DataError(f"pin of step {step + 1}: the story has {len(story.steps)} steps")
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


def _prices(hits: Hits, suitability: Suitability | None, options: BoardOptions) -> Float64Array:
    """(S,) nats of a blank."""
    if suitability is None:
        return np.full(len(hits.rows), UNAVOIDABLE)
    best = hits.scores[:, 0].astype(np.float64) if hits.rows.shape[1] else np.full(len(hits.rows), -np.inf)
    return suitability.blank_price(hits.evidence, best, threshold=options.min_probability)


def _threshold(suitability: Suitability | None, options: BoardOptions) -> float:
    """Probability below which a step is left blank; 0 without a calibration."""
    if suitability is None:
        return 0.0
    return suitability.threshold if options.min_probability is None else options.min_probability
