"""Builds a set of stories from pages: one picture per step, filtered, split, and every loss on a list.

The order of the pipeline stands here and nowhere else: read, judge pictures, merge, filter, split, write.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from limner.datasets.fetch import FetchProgress
from limner.datasets.recipes.filters import Judged, boilerplate, fault_of, is_english, judge, repeated
from limner.datasets.recipes.pages import Page, Piece, Removed, Segment, one_picture_each, read_page
from limner.datasets.recipes.web import Robots, bring, find_sources
from limner.datasets.sets.stories import FILE_NAME
from limner.datasets.splits import SplitName, text_id
from limner.errors import ConfigError, DataError
from limner.files import write_bytes, write_lines
from limner.records import PictureRef, Record
from limner.transfer import FetchSettings

AuthorSplit = Literal["stratified", "disjoint"]
TEST_SHARE = 0.1
VAL_SHARE = 0.1


def author_key(author: str, source: str, story_id: str) -> Hashable:
    """Who a recipe is by: its author, else its site, else itself.

    Source: docs/methods/data.md §3.4.
    """
    for kind, name in (("author", author), ("source", source)):
        if plain := " ".join(name.casefold().split()):
            return kind, plain
    return "story", story_id


def split_by_author(
    ids: Sequence[str], authors: Sequence[Hashable], kind: AuthorSplit = "stratified", seed: int = 0
) -> list[SplitName]:
    """A split 90/10 into train and test, then a tenth of train for validation.

    Stratified: of every author with two or more recipes a tenth, at least one, goes to test; the single
    recipes of the others are dealt as one pool. Validation takes every tenth of the remaining ones, author
    by author, but never an author's last. Disjoint: whole authors, largest first, fill train, validation and
    test to 81, 9 and 10 %.

    Args:
        ids: of the recipes (N,), all different.
        authors: (N,) as `author_key` gives them.
        kind: which.
        seed: of the order inside authors and among them.
    Returns:
        (N,) train, val or test.
    Raises:
        DataError: disjoint, with fewer than three authors.
    Source: VRSS 2020, Section 5; docs/methods/data.md §3.4.
    """
    groups: dict[Hashable, list[int]] = defaultdict(list)
    for number, author in enumerate(authors):
        groups[author].append(number)
    for members in groups.values():
        members.sort(key=lambda number: _shuffled(ids[number], seed))
    order = sorted(groups, key=lambda author: _shuffled(repr(author), seed))
    if kind == "disjoint":
        return _disjoint([groups[author] for author in order], len(ids))
    return _stratified([groups[author] for author in order], len(ids))


def _stratified(groups: list[list[int]], count: int) -> list[SplitName]:
    result: list[SplitName] = ["train"] * count
    pool = [group[0] for group in groups if len(group) == 1]
    several = [group for group in groups if len(group) > 1]
    rest: list[list[int]] = []
    for group in [*several, pool]:
        number = round(TEST_SHARE * len(group))
        number = max(1, number) if len(group) > 1 else 0
        for one in group[:number]:
            result[one] = "test"
        rest.append(group[number:])
    # never an author's last, or validation would hold an author that train has not
    free = [one for group in rest[:-1] for one in group[1:]] + rest[-1][1:]
    wanted = round(VAL_SHARE * sum(map(len, rest)))
    wanted = max(1, wanted) if len(free) > 1 else 0
    step = len(free) / wanted if wanted else 1.0
    for place in range(min(wanted, len(free))):
        result[free[int(place * step)]] = "val"
    return result


def _disjoint(groups: list[list[int]], count: int) -> list[SplitName]:
    if len(groups) < 3:
        raise DataError(
            f"recipes: {len(groups)} authors, expected three or more for a split that keeps authors apart;"
            " add pages or use --split stratified"
        )
    result: list[SplitName] = ["train"] * count
    wanted: dict[SplitName, float] = {
        "test": TEST_SHARE * count,
        "val": VAL_SHARE * (1 - TEST_SHARE) * count,
    }
    wanted["train"] = count - wanted["test"] - wanted["val"]
    names: list[SplitName] = ["train", "test", "val"]
    filled = dict.fromkeys(names, 0)
    ordered = sorted(groups, key=len, reverse=True)
    for place, group in enumerate(ordered):
        left = len(ordered) - place
        empty = [name for name in names if not filled[name]]
        # the last authors go to the parts that are still empty
        choices = empty if len(empty) >= left else names
        best = max(choices, key=lambda name: (wanted[name] - filled[name]) / wanted[name])
        filled[best] += len(group)
        for one in group:
            result[one] = best
    return result


def _shuffled(name: str, seed: int) -> str:
    """A key that orders names at random, but alike on every machine and whatever else is there."""
    return hashlib.sha256(f"{seed}\0{name}".encode("utf-8", "surrogatepass")).hexdigest()


DROPPED_NAME, PAGES_NAME = "dropped.jsonl", "pages.jsonl"


@dataclass
class Draft:
    """A page on its way into the set.

    Attributes:
        page: as read.
        root: folder that its saved pictures must lie below; None for a page off the web.
        segments: what is left of it.
        removed: what is not.
        page_sha256: of its bytes.
    """

    page: Page
    root: Path | None = None
    page_sha256: str = ""
    segments: list[Segment] = field(default_factory=list)
    removed: list[Removed] = field(default_factory=list)
    stripped: int = 0
    english: bool = True


def story_id(draft: Draft) -> str:
    """A name that stays the same when the page is read again, wherever the set is built."""
    return (
        "p" + hashlib.sha256((draft.page.url or draft.page.where).encode("utf-8", "replace")).hexdigest()[:16]
    )


def picture_key(picture: PictureRef) -> str:
    """What a picture is known by: its file, or its address."""
    return picture.path or picture.target


def row_of_set(
    draft: Draft, key: str, part: SplitName, judged: Mapping[str, Judged], to: Path
) -> dict[str, Any]:
    """A line of the set; its pictures are copied as they are."""
    page = draft.page
    pages = []
    for one in draft.segments:
        found = judged[picture_key(one.picture)]
        name = f"images/{found.sha256}{found.suffix}"
        _copy(Path(found.path), to / name, found.sha256)
        pages.append({"text": one.text, "image": name, "sha256": found.sha256})
    credits_ = {"title": page.title, "source": page.source, "license": page.license}
    return {
        "story_id": key,
        **credits_,
        "author": page.author,
        "url": page.url,
        "split": part,
        "pages": pages,
    }


def _copy(path: Path, to: Path, digest: str) -> None:
    try:
        to.parent.mkdir(parents=True, exist_ok=True)
        if to.is_file() and hashlib.sha256(to.read_bytes()).hexdigest() == digest:
            return
        data = path.read_bytes()
        if hashlib.sha256(data).hexdigest() != digest:
            raise DataError(f"{path}: changed while the set was built; run the same command again")
        write_bytes(to, data)
    except OSError as error:
        raise DataError(f"{to}: {error.strerror or error}; make room or choose another folder") from error


def write_lists(to: Path, drafts: Sequence[Draft], failed: Mapping[str, str]) -> None:
    """What was lost, and where every page came from."""
    lost: list[dict[str, Any]] = [
        {"page": name, "rule": f"page: {kind_of(reason)}", "detail": reason}
        for name, reason in failed.items()
    ]
    pages: list[dict[str, Any]] = [
        {"page": name, "state": "not read", "reason": reason} for name, reason in failed.items()
    ]
    for draft in drafts:
        page = draft.page
        lost += [
            {"page": page.where, "rule": one.rule, "text": one.text, "picture": one.picture}
            for one in draft.removed
        ]
        # words around the steps are cut by the readers, each with its reason
        lost += [
            {
                "page": page.where,
                "rule": f"read: {one.reason}",
                "text": one.text,
                "picture": " ".join(one.pictures),
            }
            for one in page.left_out
        ]
        stated = {
            name: getattr(page, name) for name in ("url", "source", "title", "author", "license", "reader")
        }
        pages.append(
            {
                "page": page.where,
                "story_id": story_id(draft),
                **stated,
                "language": page.language,
                "sha256": draft.page_sha256,
                "pieces": len(page.pieces),
                "segments": len(draft.segments),
                "state": "in the set" if draft.segments else "dropped",
            }
        )
    write_rows(to / DROPPED_NAME, lost)
    write_rows(to / PAGES_NAME, pages)


def write_rows(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Lines of JSON in a file that appears whole or not at all."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        texts = (json.dumps(row, ensure_ascii=False) for row in rows)
        write_lines(path, (text.encode("utf-8", "backslashreplace").decode() for text in texts))
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error}; make room or choose another folder") from error


def kind_of(reason: str) -> str:
    """A reason without what is particular to one page, for counting."""
    return reason.rpartition(": ")[2].partition(";")[0] if ": " in reason else reason


REPORT_NAME = "report.json"
MIN_SEGMENTS = 2


class BuildReport(Record):
    """What a build made and lost.

    Attributes:
        pages: given.
        recipes, segments: in the set.
        splits: name → recipes.
        readers: how pages were read → how many.
        dropped: rule → how many parts, pictures or pages it removed.
        stripped: boiler-plate phrases taken off.
        boilerplate_version: of the list.
        noun_rule_off: pages that the noun rule did not judge, not being English.
        without_license: recipes whose page states none.
    """

    pages: int
    recipes: int
    segments: int
    splits: dict[str, int]
    readers: dict[str, int]
    dropped: dict[str, int]
    stripped: int
    boilerplate_version: int
    noun_rule_off: int
    without_license: int


def build(
    drafts: Sequence[Draft],
    failed: Mapping[str, str],
    to: Path,
    *,
    bring_pictures: Callable[[list[str]], Mapping[str, Path | str]],
    split: AuthorSplit = "stratified",
    seed: int = 0,
) -> BuildReport:
    """Write the set.

    Args:
        drafts: pages as read, in order.
        failed: page → reason, for those that could not be read.
        to: folder; holds nothing, or an earlier build, which is replaced.
        bring_pictures: URLs → their files, or why there is none.
        split: how authors are parted.
        seed: of the split.
    Raises:
        ConfigError: the folder holds a set that is no earlier build.
        DataError: no recipe is left, too few authors, or the folder cannot be written.
    """
    check_folder(to)
    drafts, twice = _once(drafts)
    failed = {**failed, **twice}
    judged = _pictures(drafts, bring_pictures)
    again = repeated([_targets(draft) for draft in drafts], judged)
    for number, draft in enumerate(drafts):
        used: set[str] = set()
        refused = {key: judged[key].rule or again.get((number, key), "") for key in _targets(draft)}
        pieces = [_usable(piece, refused, used, draft) for piece in draft.page.pieces]
        segments, removed = one_picture_each(pieces)
        draft.removed += removed
        filter_segments(draft, segments)
    kept = _recipes(drafts)
    dropped = Counter(one.rule for draft in drafts for one in draft.removed)
    dropped.update(f"page: {kind_of(reason)}" for reason in failed.values())
    if not kept:
        lost = "; ".join(f"{rule}: {number}" for rule, number in dropped.most_common(3)) or "no page given"
        write_lists(to, drafts, failed)
        raise DataError(
            f"{to}: no recipe left of {len(drafts) + len(failed)} pages ({lost}); see {DROPPED_NAME}"
        )
    ids = [story_id(draft) for draft in kept]
    authors = [author_key(one.page.author, one.page.source, key) for one, key in zip(kept, ids, strict=True)]
    parts = split_by_author(ids, authors, split, seed)
    report = BuildReport(
        pages=len(drafts) + len(failed),
        recipes=len(kept),
        segments=sum(len(draft.segments) for draft in kept),
        splits=dict(Counter(parts).most_common()),
        readers=dict(Counter(draft.page.reader for draft in drafts).most_common()),
        dropped=dict(dropped.most_common()),
        stripped=sum(draft.stripped for draft in drafts),
        boilerplate_version=boilerplate().version,
        noun_rule_off=sum(not draft.english for draft in drafts),
        without_license=sum(not draft.page.license for draft in kept),
    )
    rows = [
        row_of_set(draft, key, part, judged, to) for draft, key, part in zip(kept, ids, parts, strict=True)
    ]
    write_lists(to, drafts, failed)
    write_rows(to / REPORT_NAME, [report.model_dump()])
    write_rows(to / FILE_NAME, rows)
    return report


def check_folder(to: Path) -> None:
    """Refuse to write over a set that is no earlier build.

    Raises:
        ConfigError: there is one, or a file is in the way.
    """
    if to.exists() and not to.is_dir():
        raise ConfigError(f"{to}: a file; expected a folder for the set; choose another name")
    if (to / FILE_NAME).exists() and not (to / REPORT_NAME).exists():
        raise ConfigError(f"{to}: holds a {FILE_NAME} that was not built here; choose another folder")


def filter_segments(draft: Draft, segments: Iterable[Segment]) -> None:
    """Strip and judge the words of a page's segments; fills `segments`, `removed` and `stripped`."""
    shorn = []
    for one in segments:
        text, count = boilerplate().strip(one.text)
        draft.stripped += count
        shorn.append(Segment(text, one.picture))
    draft.english = is_english([one.text for one in shorn], draft.page.language)
    for one in shorn:
        rule = fault_of(one.text, english=draft.english)
        if rule:
            draft.removed.append(Removed(rule, one.text, one.picture.target))
        else:
            draft.segments.append(one)


def _once(drafts: Sequence[Draft]) -> tuple[list[Draft], dict[str, str]]:
    """Each page once; copies of one would take each other's pictures for decoration."""
    first: dict[str, str] = {}
    kept: list[Draft] = []
    twice: dict[str, str] = {}
    for draft in drafts:
        earlier = first.get(story_id(draft)) or first.get(draft.page_sha256 or "no bytes")
        if earlier is not None:
            twice[draft.page.where] = f"{earlier}: page that is there already"
            continue
        first[story_id(draft)] = draft.page.where
        if draft.page_sha256:
            first[draft.page_sha256] = draft.page.where
        kept.append(draft)
    return kept, twice


def _recipes(drafts: Sequence[Draft]) -> list[Draft]:
    """Drafts with enough segments, each text once."""
    kept: list[Draft] = []
    seen: set[str] = set()
    for draft in drafts:
        words = text_id("\n".join(one.text for one in draft.segments))
        rule = ""
        if len(draft.segments) < MIN_SEGMENTS:
            rule = f"recipe with fewer than {MIN_SEGMENTS} segments"
        elif words in seen:
            rule = "recipe that is there already"
        if rule:
            draft.removed.append(Removed(rule, "\n\n".join(one.text for one in draft.segments)))
            draft.segments = []
        else:
            seen.add(words)
            kept.append(draft)
    return kept


def _targets(draft: Draft) -> list[str]:
    return [picture_key(one) for piece in draft.page.pieces for one in piece.pictures]


def _pictures(
    drafts: Sequence[Draft], bring_pictures: Callable[[list[str]], Mapping[str, Path | str]]
) -> dict[str, Judged]:
    """Every picture of the pages, opened and judged once."""
    judged: dict[str, Judged] = {}
    remote: dict[str, None] = {}
    for draft in drafts:
        for picture in (one for piece in draft.page.pieces for one in piece.pictures):
            key = picture_key(picture)
            if picture.path is None:
                if picture.target.lower().startswith(("http://", "https://")):
                    remote[key] = None
                else:
                    judged[key] = Judged("", "picture not there")
            elif draft.root is None or not Path(picture.path).is_relative_to(draft.root):
                # a page by a stranger must not carry the reader's own files into a set
                judged[key] = Judged("", "picture outside the folder of its page")
            elif key not in judged:
                judged[key] = judge(key)
    for url, found in bring_pictures(list(remote)).items():
        judged[url] = judge(str(found)) if isinstance(found, Path) else Judged("", found)
    return judged


def _usable(piece: Piece, refused: Mapping[str, str], used: set[str], draft: Draft) -> Piece:
    """The piece with those of its pictures that may be used; the others are put on the draft's list."""
    kept: list[PictureRef] = []
    for picture in piece.pictures:
        key = picture_key(picture)
        rule = refused.get(key, "") or ("near-duplicate picture" if key in used else "")
        if rule:
            draft.removed.append(Removed(rule, picture=picture.target))
        else:
            used.add(key)
            kept.append(picture)
    return Piece(piece.text, tuple(kept))


NOT_FETCHED = "picture on the web, not asked for"


def build_recipes(
    given: Sequence[str],
    to: Path,
    settings: FetchSettings,
    *,
    split: AuthorSplit = "stratified",
    seed: int = 0,
    fetch: bool = False,
    again: bool = False,
    progress: Callable[[FetchProgress], None] | None = None,
) -> BuildReport:
    """Read pages and build a set of stories of them.

    Args:
        given: saved pages, folders of them, URLs.
        to: folder of the set; pages and pictures off the web are kept below it in ``fetched``.
        settings: bounds of what is fetched.
        split: how authors are parted.
        seed: of the split.
        fetch: bring the pictures of saved pages, too, that lie on the web; those of URLs always come.
        again: ask again for what was refused for good.
        progress: called after every answer.
    Raises:
        ConfigError, DataError, MissingError: see `builder.build` and `find_sources`.
    """
    sources = find_sources(given)
    check_folder(to)
    robots = Robots(settings)
    urls = [source.url for source in sources if source.path is None]
    came = bring(urls, to / "fetched" / "pages", settings, robots, pages=True, again=again, progress=progress)
    drafts: list[Draft] = []
    failed: dict[str, str] = {}
    for source in sources:
        one = came.get(source.url)
        if source.path is None and (one is None or one.state == "dead"):
            failed[source.name] = one.reason if one else "no room left; raise --max-total-gb"
            continue
        path = source.path or to / "fetched" / "pages" / (one.name if one else "")
        url = (one.final_url or one.url) if one and source.path is None else ""
        try:
            data = path.read_bytes()
            page = read_page(data, source.name, path.parent if source.path else None, url)
        except OSError as error:
            failed[source.name] = error.strerror or type(error).__name__
        except DataError as error:
            failed[source.name] = str(error)
        else:
            drafts.append(Draft(page, source.root, hashlib.sha256(data).hexdigest()))
    online = {
        picture.target
        for draft in drafts
        if fetch or draft.root is None
        for piece in draft.page.pieces
        for picture in piece.pictures
    }

    def bring_pictures(wanted: list[str]) -> Mapping[str, Path | str]:
        place = to / "fetched" / "pictures"
        asked = [url for url in wanted if url in online]
        found = bring(asked, place, settings, robots, pages=False, again=again, progress=progress)
        result: dict[str, Path | str] = dict.fromkeys(wanted, NOT_FETCHED)
        for url in asked:
            one = found.get(url)
            if one is None:
                result[url] = "picture left for want of room"
            elif one.state == "done":
                result[url] = place / one.name
            else:
                result[url] = f"picture did not come: {one.reason.partition(':')[0]}"
        return result

    return build(drafts, failed, to, bring_pictures=bring_pictures, split=split, seed=seed)


def summary(report: BuildReport, to: Path) -> list[str]:
    """The report as lines."""
    parts = ", ".join(f"{number:,} {name}" for name, number in report.splits.items())
    lines = [
        f"{report.recipes:,} recipes with {report.segments:,} steps from {report.pages:,} pages in {to}",
        f"  {parts}",
        *(f"  {number:>6,}  read by: {reader}" for reader, number in report.readers.items()),
        *(f"  {number:>6,}  dropped: {rule}" for rule, number in report.dropped.items()),
        f"  {report.stripped:>6,}  boiler-plate phrases stripped (list {report.boilerplate_version})",
    ]
    if report.noun_rule_off:
        lines.append(f"  {report.noun_rule_off:>6,}  pages not judged by the noun rule, not being English")
    if report.without_license:
        lines.append(
            f"{report.without_license:,} recipes state no licence: theirs to use privately, not to pass on"
        )
    if NOT_FETCHED in report.dropped:
        lines.append("pictures of saved pages that lie on the web were left; --fetch brings them")
    lines.append(f"what was dropped stands in {to / 'dropped.jsonl'}, the pages in {to / 'pages.jsonl'}")
    return lines
