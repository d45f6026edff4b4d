"""A human study as records: what is registered, what raters see, the key, and the votes.

The page of raters, the analysis and the exports share them; `limner.data.study_files` keeps them in a folder.
They draw no sample, serve no page and compute no statistic.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Literal

from pydantic import AwareDatetime, Field, model_validator

from limner.data.records import Record
from limner.errors import DataError

Protocol = Literal["pairwise", "tick-all"]
PairAnswer = Literal["first", "second", "same", "neither"]
PAIR_ANSWERS: tuple[PairAnswer, ...] = ("first", "second", "same", "neither")
PAIR_WORDS: Mapping[PairAnswer, str] = {
    "first": "This picture",
    "second": "This picture",
    "same": "Both pictures are exactly the same",
    "neither": "Neither picture fits",
}
"""What the answers are called for raters; attention checks ask for them in these words."""
Answer = PairAnswer | tuple[str, ...]
"""Pairwise: one of `PAIR_ANSWERS`. Tick-all: ids of ticked candidates in canonical order, possibly none."""

ItemId = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$")]
Letter = Annotated[str, Field(pattern=r"^[A-Z]$")]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
PictureName = Annotated[str, Field(pattern=r"^[0-9a-f]{64}\.[a-z0-9]{2,5}$")]


class Candidate(Record):
    """A picture that raters judge.

    Attributes:
        id: ``first`` or ``second`` in a pair, else a letter that says nothing; unique in its item.
        picture: name of the file in the folder of pictures: SHA-256 of its bytes, and an ending.
    """

    id: ItemId
    picture: PictureName


class Item(Record):
    """One thing to judge, as raters may see it. Nothing in it tells a system or an attention check.

    Attributes:
        id: opaque.
        text: the words to which the pictures belong.
        context: all texts of the story around it in order, `text` among them at `position`; empty where
            there is none, and in tick-all, where the items of a sequence are shown together.
        candidates: in canonical order, which was drawn; the page shows them in an order of its own.
        stratum: what the report counts apart, such as a relation; not for the page.
        sequence: tick-all: items with this name are shown on one page, in the order of `position`.
        position: 0-based step of the story.
        prefilled: the answer where nobody is asked, since both pictures have the same content.
    """

    id: ItemId
    text: str = Field(min_length=1)
    context: tuple[str, ...] = ()
    candidates: tuple[Candidate, ...] = Field(min_length=1, max_length=26)
    stratum: str = "all"
    sequence: str = ""
    position: int = Field(default=0, ge=0)
    prefilled: Literal["same"] | None = None

    @model_validator(mode="after")
    def _fit(self) -> "Item":
        if len({one.id for one in self.candidates}) != len(self.candidates):
            raise ValueError("candidates of an item need different ids")
        if self.context and not self.position < len(self.context):
            raise ValueError(f"position {self.position} is outside a context of {len(self.context)} texts")
        pictures = [one.picture for one in self.candidates]
        if self.prefilled and (len(pictures) != 2 or pictures[0] != pictures[1]):
            raise ValueError("only a pair of one and the same picture is pre-filled")
        return self

    @property
    def ids(self) -> tuple[str, ...]:
        """Ids of the candidates in canonical order."""
        return tuple(one.id for one in self.candidates)


class Stratum(Record):
    """How many there were to draw from, and how many were drawn."""

    population: int = Field(ge=1)
    drawn: int = Field(ge=1)


class Sample(Record):
    """How the items were chosen.

    Attributes:
        method: always a simple random sample without replacement, within each stratum.
        unit: what was drawn: an item (text) or a whole sequence.
        seed: of the draw and of the canonical orders.
        strata: name → its sizes.
    """

    method: Literal["simple random sample"] = "simple random sample"
    unit: Literal["item", "sequence"] = "item"
    seed: int = Field(ge=0)
    strata: Mapping[str, Stratum] = Field(min_length=1)


class Study(Record):
    """The registration: everything decided before the first vote.

    Attributes:
        format: of the file.
        protocol: pairwise or tick-all.
        title: shown to raters.
        question: what raters are asked.
        consent: what raters agree to before they begin.
        hypotheses: one sentence each, by the letters of the systems.
        systems: letters; the key says what they stand for. In pairs A is the tested system and B the control;
            in tick-all A is the true picture, B the model with context and C the one without.
        items: to be shown to raters, attention checks among them.
        prefilled: pairs of equal pictures, which nobody is shown.
        checks: attention checks among the items.
        check_share: wished share of checks among the items that are no check.
        raters_per_item: votes wanted per item.
        sample: how the items were chosen.
        level: of the tests.
        power: of the sensitivity.
        analysis: the planned analysis, one sentence each.
        created: when.
        version: of limner.
        items_sha256, key_sha256, population_sha256: of the files beside it.
        sha256: of this record without this field, as canonical JSON.
    """

    format: Literal["limner-study-1"] = "limner-study-1"
    protocol: Protocol
    title: str = Field(min_length=1)
    question: str = Field(min_length=1)
    consent: str = Field(min_length=1)
    hypotheses: tuple[str, ...] = ()
    systems: tuple[Letter, ...] = Field(min_length=2)
    items: int = Field(ge=0)
    prefilled: int = Field(default=0, ge=0)
    checks: int = Field(default=0, ge=0)
    check_share: float = Field(default=0.1, ge=0, le=1)
    raters_per_item: int = Field(default=3, ge=1)
    sample: Sample
    level: float = Field(default=0.05, gt=0, lt=1)
    power: float = Field(default=0.95, gt=0, lt=1)
    analysis: tuple[str, ...] = ()
    created: AwareDatetime
    version: str = ""
    items_sha256: Sha256
    key_sha256: Sha256
    population_sha256: Sha256
    sha256: Sha256


class KeyEntry(Record):
    """What raters must not know about an item.

    Attributes:
        systems: candidate → letters of the systems whose picture it is; empty for an attention check.
        right: the answer due, of an attention check; None of any other item.
        source: id of the item in the data it comes from.
        cluster: items of one cluster are not independent, such as the steps of a story.
    """

    systems: Mapping[str, tuple[Letter, ...]] = Field(default_factory=dict)
    right: Answer | None = None
    source: str = ""
    cluster: str = ""


class Key(Record):
    """Which picture is whose.

    Attributes:
        format: of the file.
        systems: stratum → letter → name of the system.
        items: item → its entry; all items have one.
    """

    format: Literal["limner-study-key-1"] = "limner-study-key-1"
    systems: Mapping[str, Mapping[Letter, str]]
    items: Mapping[ItemId, KeyEntry]


class Drawn(Record):
    """A stratum with the ids of all that could be drawn, and of those drawn, in the order of the draw."""

    population: tuple[str, ...]
    drawn: tuple[str, ...]


class Population(Record):
    """Everything the sample was drawn from, so that anybody can draw it again.

    Attributes:
        format: of the file.
        seed: of the draw.
        strata: name → ids.
    """

    format: Literal["limner-study-population-1"] = "limner-study-population-1"
    seed: int = Field(ge=0)
    strata: Mapping[str, Drawn]


class Vote(Record):
    """What one rater answered about one item; one per rater and item.

    Attributes:
        item: its id.
        rater: random id.
        answer: in canonical terms, whatever the order on the page.
        shown_order: ids of the candidates as shown, from left to right.
        seconds: from showing to answering.
        time: of the answer.
    """

    item: ItemId
    rater: str = Field(min_length=1, max_length=128)
    answer: Answer
    shown_order: tuple[str, ...] = ()
    seconds: float = Field(ge=0, allow_inf_nan=False)
    time: AwareDatetime


class StudyFiles(Record):
    """A whole study as read from its folder, without its votes."""

    study: Study
    items: tuple[Item, ...]
    key: Key
    population: Population


def check_vote(vote: Vote, item: Item, protocol: Protocol) -> None:
    """Refuse an answer that the item does not allow.

    Raises:
        DataError: another item, an answer of the other protocol, unknown or repeated candidates, a pre-filled
            item, or an order that is not one of its candidates.
    """
    where = f"vote of {vote.rater[:12]!r} on {vote.item!r}"
    if vote.item != item.id or item.prefilled:
        raise DataError(f"{where}: expected a vote on {item.id!r}, one that raters are shown")
    if vote.shown_order and sorted(vote.shown_order) != sorted(item.ids):
        raise DataError(f"{where}: shown order {vote.shown_order}, expected each of {item.ids} once")
    if protocol == "pairwise":
        if vote.answer not in PAIR_ANSWERS:
            raise DataError(f"{where}: answer {vote.answer!r}, expected one of {', '.join(PAIR_ANSWERS)}")
    elif isinstance(vote.answer, str) or vote.answer != tuple(i for i in item.ids if i in vote.answer):
        raise DataError(f"{where}: answer {vote.answer!r}, expected some of {item.ids} in this order")


def check_votes(votes: Iterable[Vote], items: Sequence[Item], protocol: Protocol) -> list[Vote]:
    """All votes, once each is known to fit its item.

    Raises:
        DataError: a vote on an unknown item, a wrong answer, or a second vote of a rater on an item.
    """
    known = {item.id: item for item in items}
    seen: set[tuple[str, str]] = set()
    found = list(votes)
    for vote in found:
        if vote.item not in known:
            raise DataError(f"vote of {vote.rater[:12]!r} on {vote.item!r}: the study has no such item")
        check_vote(vote, known[vote.item], protocol)
        if (vote.item, vote.rater) in seen:
            raise DataError(f"vote of {vote.rater[:12]!r} on {vote.item!r}: there are two; keep the first")
        seen.add((vote.item, vote.rater))
    return found
