"""Records and files of a human study: registration, items, key, population and votes.

The sample depends only on ids and a seed: choosing items by the systems' results would bias the comparison.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import AwareDatetime, Field, ValidationError, model_validator

from limner.config import Record
from limner.errors import DataError, LimnerError, MissingError
from limner.files import first_fault, json_rows

Protocol = Literal["pairwise", "tick-all"]
PairAnswer = Literal["first", "second", "same", "neither"]
PAIR_ANSWERS: tuple[PairAnswer, ...] = ("first", "second", "same", "neither")
PAIR_WORDS: Mapping[PairAnswer, str] = {
    "first": "This picture",
    "second": "This picture",
    "same": "Both pictures are exactly the same",
    "neither": "Neither picture fits",
}
"""Labels of the answers for raters, also used in attention checks."""
Answer = PairAnswer | tuple[str, ...]
"""Pairwise: one of `PAIR_ANSWERS`. Tick-all: ids of ticked candidates in canonical order, possibly none."""

ItemId = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$")]
Letter = Annotated[str, Field(pattern=r"^[A-Z]$")]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
PictureName = Annotated[str, Field(pattern=r"^[0-9a-f]{64}\.[a-z0-9]{2,5}$")]


class RatedPicture(Record):
    """A picture that raters judge.

    Attributes:
        id: ``first`` or ``second`` in a pair, else an arbitrary letter; unique in its item.
        picture: file name in the folder of pictures: SHA-256 of its bytes, and a suffix; None if the system
            shows no picture.
    """

    id: ItemId
    picture: PictureName | None


class Item(Record):
    """One item as raters see it. It reveals neither systems nor attention checks.

    Attributes:
        id: opaque.
        text: the text to illustrate.
        context: all texts of its story in order, with `text` at `position`; empty if there is no story, and
            in tick-all, where the items of a sequence share a page.
        candidates: in canonical (pseudorandom) order; the page shows them in an order per rater.
        stratum: group that the report treats separately, such as a relation; not shown to raters.
        sequence: tick-all: items with this name share one page, in the order of `position`.
        position: position in the story, from 0.
        prefilled: the answer if both pictures have the same content, so that no rater is asked.
    """

    id: ItemId
    text: str = Field(min_length=1)
    context: tuple[str, ...] = ()
    candidates: tuple[RatedPicture, ...] = Field(min_length=1, max_length=26)
    stratum: str = "all"
    sequence: str = ""
    position: int = Field(default=0, ge=0)
    prefilled: Literal["same"] | None = None

    @model_validator(mode="after")
    def _fit(self) -> "Item":
        if len({candidate.id for candidate in self.candidates}) != len(self.candidates):
            raise ValueError("candidates of an item need different ids")
        if self.context and not self.position < len(self.context):
            raise ValueError(f"position {self.position} is outside a context of {len(self.context)} texts")
        pictures = [candidate.picture for candidate in self.candidates]
        if self.prefilled and (len(pictures) != 2 or pictures[0] != pictures[1]):
            raise ValueError("only a pair with two identical pictures is pre-filled")
        return self

    @property
    def ids(self) -> tuple[str, ...]:
        """Ids of the candidates in canonical order."""
        return tuple(candidate.id for candidate in self.candidates)


class Stratum(Record):
    """Population and sample size of a stratum."""

    population: int = Field(ge=1)
    drawn: int = Field(ge=1)


class Sample(Record):
    """How the items were sampled.

    Attributes:
        method: always a simple random sample without replacement, within each stratum.
        unit: sampling unit: an item (text) or a whole sequence.
        seed: seed of the sample and of the canonical orders.
        strata: name → its sizes.
    """

    method: Literal["simple random sample"] = "simple random sample"
    unit: Literal["item", "sequence"] = "item"
    seed: int = Field(ge=0)
    strata: Mapping[str, Stratum] = Field(min_length=1)


class Notice(Record):
    """Information about the study for raters before they consent.

    Attributes:
        contact: whom to write to.
        purpose: what the answers are for.
        retention: how long they are kept, and where.
    """

    contact: str = Field(min_length=1)
    purpose: str = Field(min_length=1)
    retention: str = Field(min_length=1)


class Study(Record):
    """The registration: everything decided before the first vote.

    Attributes:
        format: format of the file.
        protocol: pairwise or tick-all.
        title: shown to raters.
        question: what raters are asked.
        consent: what raters agree to before they begin.
        notice: contact, purpose and retention; None if all raters use this machine.
        hypotheses: one sentence each, with the letters of the systems.
        systems: letters; the key names the systems. In pairs A is the tested system and B the control; in
            tick-all A is the true picture, B the model with context and C the one without.
        items: number of items to show, including attention checks.
        prefilled: number of pairs with equal pictures, which are not shown.
        checks: number of attention checks.
        check_share: attention checks requested per other item.
        raters_per_item: votes wanted per item.
        sample: how the items were chosen.
        level: level of the tests.
        power: power for the sensitivity analysis.
        analysis: the planned analysis, one sentence each.
        created: time of registration.
        version: version of limner.
        items_sha256, key_sha256, population_sha256: hashes of the other files.
        sha256: SHA-256 of this record without this field, as canonical JSON.
    """

    format: Literal["limner-study-1"] = "limner-study-1"
    protocol: Protocol
    title: str = Field(min_length=1)
    question: str = Field(min_length=1)
    consent: str = Field(min_length=1)
    notice: Notice | None = None
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
    """Facts about an item that raters do not see.

    Attributes:
        systems: candidate → letters of the systems that chose it; empty for an attention check.
        right: correct answer of an attention check; None for any other item.
        source: id of the text in the source data.
        cluster: group of dependent items, such as the steps of a story.
    """

    systems: Mapping[str, tuple[Letter, ...]] = Field(default_factory=dict)
    right: Answer | None = None
    source: str = ""
    cluster: str = ""


class Key(Record):
    """The key: which system chose each picture.

    Attributes:
        format: format of the file.
        systems: stratum → letter → name of the system.
        items: item → its entry, for every item.
    """

    format: Literal["limner-study-key-1"] = "limner-study-key-1"
    systems: Mapping[str, Mapping[Letter, str]]
    items: Mapping[ItemId, KeyEntry]

    @cached_property
    def checks(self) -> Mapping[str, Answer]:
        """Attention check → correct answer."""
        return {name: entry.right for name, entry in self.items.items() if entry.right is not None}


class SampleDraw(Record):
    """Ids of a stratum's population, and of its sample in the order drawn."""

    population: tuple[str, ...]
    drawn: tuple[str, ...]


class Population(Record):
    """The population from which the sample was drawn, so that the draw can be repeated.

    Attributes:
        format: format of the file.
        seed: seed of the sample.
        strata: name → ids.
    """

    format: Literal["limner-study-population-1"] = "limner-study-population-1"
    seed: int = Field(ge=0)
    strata: Mapping[str, SampleDraw]


def draw(strata: Mapping[str, Iterable[str]], size: int | None, seed: int) -> Population:
    """Draw a simple random sample without replacement from every stratum.

    Ids are sorted by the SHA-256 of seed, stratum and id, and the first `size` are taken. The sample
    therefore does not depend on the order of `strata` or on library versions, and a larger sample contains a
    smaller one.

    Args:
        strata: name → ids of the population; repeated ids count once.
        size: sample size per stratum, at least 1 (a smaller stratum is taken whole); None takes all.
        seed: at least 0.
    Returns:
        The sorted population of each stratum, and its sample in the order drawn.
    Raises:
        DataError: no stratum, or one without ids.
    Source: docs/methods/evaluation.md §9.1. Departs: the release of CMCM 2022 keeps items that the tested
        system ranks better; here nothing is filtered by outcome.
    """
    if not strata:
        raise DataError("study: nothing to draw from; name runs, storyboards or an items file")
    drawn = {}
    for name, ids in strata.items():
        population = tuple(sorted(set(ids)))
        if not population:
            raise DataError(f"study: stratum {name!r} has no item to draw; leave it out")
        drawn[name] = SampleDraw(population=population, drawn=shuffled(population, seed, "draw", name)[:size])
    return Population(seed=seed, strata=drawn)


def shuffled(ids: Iterable[str], *salt: object) -> tuple[str, ...]:
    """Sort ids pseudorandomly; the order depends only on the ids and the salt.

    Args:
        ids: unique ids.
        salt: values that identify the order, such as seed and purpose.
    """
    return tuple(sorted(ids, key=lambda name: (_digest(*salt, name), name)))


def redrawn(population: Population) -> bool:
    """Whether the stored population and seed reproduce the stored sample."""
    return all(
        stratum.drawn == shuffled(stratum.population, population.seed, "draw", name)[: len(stratum.drawn)]
        for name, stratum in population.strata.items()
    )


def _digest(*parts: object) -> bytes:
    # Lengths distinguish ("a", "bc") from ("ab", "c").
    words = [str(part).encode("utf-8", "surrogatepass") for part in parts]
    return hashlib.sha256(b"".join(b"%d:%b" % (len(word), word) for word in words)).digest()


class Vote(Record):
    """Answer of one rater on one item; one per rater and item.

    Attributes:
        item: id of the item.
        rater: public id of the rater.
        answer: in canonical terms, independent of the order on the page; None once the rater has withdrawn.
        shown_order: ids of the candidates as shown, from left to right.
        seconds: time from showing the page to the answer.
        time: time of the answer.
    """

    item: ItemId
    rater: str = Field(min_length=1, max_length=128)
    answer: Answer | None
    shown_order: tuple[str, ...] = ()
    seconds: float = Field(ge=0, allow_inf_nan=False)
    time: AwareDatetime


class StudyFiles(Record):
    """A study as read from its folder, without votes."""

    study: Study
    items: tuple[Item, ...]
    key: Key
    population: Population


def _check_vote(vote: Vote, item: Item, protocol: Protocol, where: str) -> None:
    if item.prefilled:
        raise DataError(f"{where}: the item is pre-filled; expected a vote on an item that raters are shown")
    if vote.shown_order and sorted(vote.shown_order) != sorted(item.ids):
        raise DataError(f"{where}: shown order {vote.shown_order}, expected each of {item.ids} once")
    if vote.answer is None:
        return
    if protocol == "pairwise":
        if vote.answer not in PAIR_ANSWERS:
            raise DataError(f"{where}: answer {vote.answer!r}, expected one of {', '.join(PAIR_ANSWERS)}")
    elif isinstance(vote.answer, str) or vote.answer != tuple(i for i in item.ids if i in vote.answer):
        raise DataError(f"{where}: answer {vote.answer!r}, expected some of {item.ids} in this order")


def check_votes(votes: Iterable[Vote], items: Sequence[Item], protocol: Protocol) -> list[Vote]:
    """Check that each vote is valid for its item, and return all.

    Raises:
        DataError: a vote on an unknown or pre-filled item, an answer of the other protocol, unknown or
            repeated candidates, an invalid order, or a second vote of one rater on an item.
    """
    known = {item.id: item for item in items}
    seen: set[tuple[str, str]] = set()
    checked = list(votes)
    for vote in checked:
        where = f"vote of {vote.rater[:12]!r} on {vote.item!r}"
        if vote.item not in known:
            raise DataError(f"{where}: the study has no such item")
        _check_vote(vote, known[vote.item], protocol, where)
        if (vote.item, vote.rater) in seen:
            raise DataError(f"{where}: appears twice; keep the first")
        seen.add((vote.item, vote.rater))
    return checked


STUDY, ITEMS, KEY, POPULATION = "study.json", "items.jsonl", "key.json", "population.json"
HASHED = (ITEMS, KEY, POPULATION)
PICTURES = "pictures"
Form = TypeVar("Form", bound=Record)


def write_study(
    folder: Path, values: Mapping[str, object], items: Iterable[Item], key: Key, population: Population
) -> Study:
    """Register a study: write all its files except the pictures.

    Args:
        folder: an existing folder.
        values: fields of `Study` without the hashes.
        items: items to judge.
        key: which system chose each picture.
        population: population of the sample.
    Returns:
        The registration, with the hashes of its files and of itself.
    """
    files = {
        ITEMS: "".join(item.model_dump_json() + "\n" for item in items).encode("utf-8"),
        KEY: key.model_dump_json(indent=1).encode("utf-8"),
        POPULATION: population.model_dump_json(indent=1).encode("utf-8"),
    }
    for name, data in files.items():
        (folder / name).write_bytes(data)
    hashes = {f"{Path(name).stem}_sha256": _sha256(files[name]) for name in HASHED}
    draft = Study.model_validate({**values, **hashes, "sha256": "0" * 64})
    study = draft.model_copy(update={"sha256": fingerprint(draft)})
    text = study.model_dump_json(indent=2, exclude_none=True)
    (folder / STUDY).write_text(text + "\n", encoding="utf-8")
    return study


def fingerprint(study: Study) -> str:
    """SHA-256 of the registration without its own hash, as JSON with sorted keys and no spaces.

    Fields that are None are left out, so that fields added by later versions do not change older studies.
    """
    plain = study.model_dump(mode="json", exclude={"sha256"}, exclude_none=True)
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return _sha256(text.encode("utf-8"))


def read_study(folder: Path | str, *, pictures: bool = True) -> StudyFiles:
    """Read a study and check it against its registration.

    Args:
        folder: folder of the study.
        pictures: also check that every picture exists and is unaltered.
    Raises:
        MissingError: a file does not exist.
        DataError: a file is invalid, or was altered after registration.
    """
    home = Path(folder)
    study = _read(home / STUDY, Study)
    if fingerprint(study) != study.sha256:
        raise DataError(_altered(home, STUDY))
    for name, due in zip(
        HASHED, (study.items_sha256, study.key_sha256, study.population_sha256), strict=True
    ):
        if _sha256(_bytes(home / name)) != due:
            raise DataError(_altered(home, name))
    files = StudyFiles(
        study=study,
        items=tuple(
            row
            for _, row in json_rows(home / ITEMS, Item, holds="a study", one="item", see="docs/studies.md")
        ),
        key=_read(home / KEY, Key),
        population=_read(home / POPULATION, Population),
    )
    ids = [item.id for item in files.items]
    if len(set(ids)) != len(ids) or set(ids) != set(files.key.items):
        raise DataError(f"{home}: the items of {ITEMS} differ from those of {KEY}; create the study again")
    if pictures:
        for name in sorted(
            {candidate.picture for item in files.items for candidate in item.candidates if candidate.picture}
        ):
            if _sha256(_bytes(home / PICTURES / name)) != name.partition(".")[0]:
                raise DataError(_altered(home, f"{PICTURES}/{name}"))
    return files


def checked_files(folder: Path) -> Iterator[tuple[Path, Study | LimnerError | None]]:
    """Yield each file of a study with its error or None; for an intact registration, with the `Study`.

    Args:
        folder: folder of the study. If the registration is damaged, only the pictures can be checked, by
            their names.
    """
    names = {one.name for one in (folder / PICTURES).glob("*.*")}
    try:
        study = _read(folder / STUDY, Study)
        if fingerprint(study) != study.sha256:
            raise DataError(_altered(folder, STUDY))
        yield folder / STUDY, study
        dues = (study.items_sha256, study.key_sha256, study.population_sha256)
        for name, due in zip(HASHED, dues, strict=True):
            path = folder / name
            try:
                data = _bytes(path)
                if _sha256(data) != due:
                    raise DataError(_altered(folder, name))
                if name == ITEMS:
                    rows = json_rows(path, Item, holds="a study", one="item", see="docs/studies.md")
                    shown = {one.picture for _, item in rows for one in item.candidates}
                    names |= {picture for picture in shown if picture}
                yield path, None
            except LimnerError as error:
                yield path, error
    except LimnerError as error:
        yield folder / STUDY, error
    for name in sorted(names):
        path = folder / PICTURES / name
        try:
            if _sha256(_bytes(path)) != name.partition(".")[0]:
                raise DataError(_altered(folder, f"{PICTURES}/{name}"))
            yield path, None
        except LimnerError as error:
            yield path, error


def read_votes(path: Path | str) -> list[Vote]:
    """Read votes from an exported JSON Lines file.

    Raises:
        MissingError: the file does not exist.
        DataError: a line is not a valid vote.
    """
    rows = json_rows(
        Path(path),
        Vote,
        holds="'limner study export' writes such files",
        one="vote",
        see="docs/studies.md",
    )
    return [row for _, row in rows]


def vote_lines(votes: Iterable[Vote]) -> str:
    """Votes as JSON Lines, for `read_votes`."""
    return "".join(vote.model_dump_json() + "\n" for vote in votes)


def _read(path: Path, form: type[Form]) -> Form:
    try:
        return form.model_validate_json(_bytes(path))
    except ValidationError as error:
        raise DataError(f"{path}: {first_fault(error)}; create the study again") from error


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise MissingError(f"{path}: does not exist; name a folder that 'limner study create' made") from None
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error}; expected a file that can be read") from error


def _altered(folder: Path, name: str) -> str:
    return (
        f"{folder}/{name}: altered after the study was registered (its hash differs);"
        " put the registered file back, or create a new study"
    )


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
