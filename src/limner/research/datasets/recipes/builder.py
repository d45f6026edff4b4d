"""Builds a set of stories from pages: one picture per step, filtered, split, and every loss on a list.

The order of the pipeline stands here and nowhere else: read, judge pictures, merge, filter, split, write.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from filecmp import cmp
from hashlib import sha256
from pathlib import Path
from typing import Any

from limner.config import Record
from limner.errors import ConfigError, DataError, counted
from limner.files import write_bytes, write_lines
from limner.records import PictureRef
from limner.research.datasets.fetch import FetchProgress
from limner.research.datasets.pairs import Source, SplitName, text_id
from limner.research.datasets.recipes.authors import AuthorSplit, author_key, split_by_author
from limner.research.datasets.recipes.filters import Judged, boilerplate, filtered, judge, repeated
from limner.research.datasets.recipes.saved_pages import (
    SavedPage,
    SavedPiece,
    Segment,
    one_picture_each,
    read_page,
)
from limner.research.datasets.recipes.web import PageSource, Robots, bring, find_sources
from limner.research.datasets.sets.recipeqa import read_recipes
from limner.research.datasets.sets.stories import FILE_NAME
from limner.research.datasets.splits import is_short
from limner.text.document import LeftOut
from limner.text.html import letters_of
from limner.transfer import Fetched, FetchSettings

DROPPED_NAME, PAGES_NAME, REPORT_NAME = "dropped.jsonl", "pages.jsonl", "report.json"
MIN_SEGMENTS = 2
NOT_FETCHED = "picture on the web, not asked for"
Bring = Callable[[Iterable[str], str], Mapping[str, Fetched]]
"""URLs and the folder they go to, below ``fetched`` → what became of them."""


@dataclass
class Draft:
    """A page on its way into the set.

    Attributes:
        page: as read.
        root: folder that its saved pictures must lie below; None for a page off the web.
        page_sha256: SHA-256 of its bytes.
        segments: what is left of it.
        removed: what is not.
        stripped: boiler-plate phrases taken off.
        english: whether the noun rule judged it.
    """

    page: SavedPage
    root: Path | None
    page_sha256: str
    segments: list[Segment] = field(default_factory=list)
    removed: list[LeftOut] = field(default_factory=list)
    stripped: int = 0
    english: bool = True

    @property
    def id(self) -> str:
        """A name that stays the same when the page is read again, wherever the set is built."""
        name = self.page.url or self.page.where
        return "p" + sha256(name.encode("utf-8", "replace")).hexdigest()[:16]

    @property
    def pictures(self) -> list[PictureRef]:
        """All pictures of the page, in order."""
        return [one for piece in self.page.pieces for one in piece.pictures]


class BuildReport(Record):
    """Result of a build, with its losses.

    Attributes:
        pages: given, recipes of RecipeQA among them.
        recipes, segments: in the set.
        splits: name → recipes.
        readers: how pages were read → how many.
        orders: where pictures stand, after or before their words or beside them in cards → how many pages.
        dropped: rule → how many parts, pictures or pages it removed.
        stripped: boiler-plate phrases taken off.
        boilerplate_version: version of the list.
        noun_rule_off: pages that the noun rule did not judge, not being English.
        without_license: recipes whose page states none.
    """

    pages: int
    recipes: int
    segments: int
    splits: dict[str, int]
    readers: dict[str, int]
    orders: dict[str, int]
    dropped: dict[str, int]
    stripped: int
    boilerplate_version: int
    noun_rule_off: int
    without_license: int


def build_recipes(
    given: Sequence[str],
    to: Path,
    settings: FetchSettings,
    *,
    split: AuthorSplit = "stratified",
    seed: int = 0,
    fetch: bool = False,
    again: bool = False,
    recipeqa: Source | None = None,
    progress: Callable[[FetchProgress], None] | None = None,
) -> BuildReport:
    """Read pages and build a set of stories of them.

    Args:
        given: saved pages, folders of them, URLs.
        to: folder of the set, which holds nothing, or an earlier build, which is replaced; pages and pictures
            off the web are kept below it in ``fetched``.
        settings: bounds of what is fetched.
        split: how authors are parted.
        seed: seed of the split.
        fetch: bring the pictures of saved pages, too, that lie on the web; those of URLs always come.
        again: ask again for what was refused for good.
        recipeqa: files and pictures of RecipeQA, whose recipes come after the pages under the same rules.
        progress: called after every answer.
    Raises:
        ConfigError: the folder holds a set that is no earlier build, or a file is in the way.
        DataError: no recipe is left, too few authors, or the folder cannot be written.
        MissingError: no such page, or a package is not installed.
    """
    sources = find_sources(given)
    if to.exists() and not to.is_dir():
        raise ConfigError(f"{to}: a file; expected a folder for the set; choose another name")
    if (to / FILE_NAME).exists() and not (to / REPORT_NAME).exists():
        raise ConfigError(f"{to}: holds a {FILE_NAME} that was not built here; choose another folder")
    robots = Robots(settings)

    def brought(urls: Iterable[str], name: str) -> Mapping[str, Fetched]:
        place, pages = to / "fetched" / name, name == "pages"
        return bring(urls, place, settings, robots, pages=pages, again=again, progress=progress)

    drafts, failed = _read(sources, to, brought)
    passed_over: Counter[str] = Counter()
    if recipeqa is not None:
        drafts += _from_recipeqa(recipeqa, passed_over)
    online = {one.target for draft in drafts if fetch or draft.root is None for one in draft.pictures}
    drafts, twice = _once(drafts)
    failed |= twice
    judged = _judged(drafts, online, to, brought)
    again_there = repeated([[picture_key(one) for one in draft.pictures] for draft in drafts], judged)
    for number, draft in enumerate(drafts):
        keys = map(picture_key, draft.pictures)
        _fill(draft, {key: judged[key].rule or again_there.get((number, key), "") for key in keys})
    kept = _recipes(drafts)
    _write_lists(to, drafts, failed)
    dropped = Counter(one.reason for draft in drafts for one in draft.removed)
    dropped.update(f"page: {kind_of(reason)}" for reason in failed.values())
    dropped.update({f"recipeqa: {kind}": number for kind, number in passed_over.items() if number})
    if not kept:
        lost = "; ".join(f"{rule}: {number}" for rule, number in dropped.most_common(3)) or "no page given"
        raise DataError(
            f"{to}: no recipe left of {counted(len(drafts) + len(failed), 'page')}"
            f" ({lost}); see {DROPPED_NAME}"
        )
    ids = [draft.id for draft in kept]
    authors = [author_key(one.page.author, one.page.source, one.id) for one in kept]
    parts = split_by_author(ids, authors, split, seed)
    report = BuildReport(
        pages=len(drafts) + len(failed),
        recipes=len(kept),
        segments=sum(len(draft.segments) for draft in kept),
        splits=dict(Counter(parts).most_common()),
        readers=dict(Counter(draft.page.reader for draft in drafts).most_common()),
        orders=dict(Counter(draft.page.order for draft in drafts).most_common()),
        dropped=dict(dropped.most_common()),
        stripped=sum(draft.stripped for draft in drafts),
        boilerplate_version=boilerplate().version,
        noun_rule_off=sum(not draft.english for draft in drafts),
        without_license=sum(not draft.page.license for draft in kept),
    )
    rows = [_row(draft, part, judged, to) for draft, part in zip(kept, parts, strict=True)]
    _write_rows(to / REPORT_NAME, [report.model_dump()])
    _write_rows(to / FILE_NAME, rows)
    return report


def _read(sources: Iterable[PageSource], to: Path, brought: Bring) -> tuple[list[Draft], dict[str, str]]:
    """Pages as read, in order, and why others were not: page → reason."""
    came = brought([source.name for source in sources if source.path is None], "pages")
    drafts: list[Draft] = []
    failed: dict[str, str] = {}
    for source in sources:
        path, url = source.path, ""
        if path is None:
            one = came.get(source.name)
            if one is None or one.state == "dead":
                failed[source.name] = one.reason if one else "no room left; raise --max-total-gb"
                continue
            path, url = to / "fetched" / "pages" / one.name, one.final_url or one.url
        try:
            data = path.read_bytes()
            page = read_page(data, source.name, path.parent if source.path else None, url)
        except OSError as error:
            failed[source.name] = error.strerror or type(error).__name__
        except DataError as error:
            failed[source.name] = str(error)
        else:
            drafts.append(Draft(page, source.root, sha256(data).hexdigest()))
    return drafts, failed


def _from_recipeqa(source: Source, passed_over: Counter[str]) -> list[Draft]:
    """The recipes of RecipeQA as if each were a page; what holds none is counted.

    A name is looked for in the folders of the recipe's own split first. Copies count as one picture; of
    different pictures none is taken, and all are listed.
    """
    root = (source.pictures or source.place).resolve()
    files: defaultdict[str, list[Path]] = defaultdict(list)
    for path in sorted(root.rglob("*")):
        if path.is_file():
            files[path.name].append(path)
    drafts = []
    for key, split, steps in read_recipes(source, passed_over):
        where = f"recipeqa/{key}"
        pieces, removed = [], []
        for step in steps:
            found = [path for one in step.pictures for path in files[Path(one.target).name]]
            own = [path for path in found if split in path.relative_to(root).parts] or found
            if any(not cmp(own[0], other, shallow=False) for other in own[1:]):
                removed.append(LeftOut("different pictures of one name", pictures=tuple(map(str, own))))
                pieces.append(SavedPiece(step.text))
                continue
            passed_over["further copies of a picture"] += len(own[1:])
            file = str(own[0]) if own else None
            refs = tuple(one.model_copy(update={"path": file}) for one in step.pictures)
            pieces.append(SavedPiece(step.text, refs))
        page = SavedPage(where, "", "", "", "", "", "en", "recipeqa", "beside", tuple(pieces))
        digest = text_id("\n".join(piece.text for piece in pieces))
        drafts.append(Draft(page, root, digest, removed=removed))
    return drafts


def _once(drafts: Sequence[Draft]) -> tuple[list[Draft], dict[str, str]]:
    """Each page once; copies of one would take each other's pictures for decoration."""
    first: dict[str, str] = {}
    words: dict[str, str] = {}
    kept: list[Draft] = []
    twice: dict[str, str] = {}
    for draft in drafts:
        where = draft.page.where
        earlier = first.get(draft.id) or first.get(draft.page_sha256)
        steps = {letters_of(one.text.lower()) for one in draft.page.pieces if not is_short(one.text)}
        shared = Counter(words[one] for one in steps if one in words)
        # the same recipe from another place: half of its longer steps word for word
        if earlier is None and shared and 2 * shared.most_common(1)[0][1] >= len(steps):
            earlier = shared.most_common(1)[0][0]
        if earlier is not None:
            twice[where] = f"{earlier}: page that is there already"
        else:
            first |= {draft.id: where, draft.page_sha256: where}
            words |= dict.fromkeys(steps - words.keys(), where)
            kept.append(draft)
    return kept, twice


def picture_key(picture: PictureRef) -> str:
    """Key of a picture: its file, or its URL."""
    return picture.path or picture.target


def _judged(drafts: Sequence[Draft], online: Container[str], to: Path, brought: Bring) -> dict[str, Judged]:
    """All pictures of the pages, each opened and checked once.

    Args:
        drafts: whose pictures they are.
        online: addresses of those that may be brought.
        to: folder of the set.
        brought: brings them.
    """
    judged: dict[str, Judged] = {}
    remote: dict[str, None] = {}
    for draft in drafts:
        for picture in draft.pictures:
            key = picture_key(picture)
            if picture.path is None:
                if key.lower().startswith(("http://", "https://")):
                    remote[key] = None
                else:
                    judged[key] = Judged("", "picture not there")
            elif draft.root is None or not Path(picture.path).is_relative_to(draft.root):
                # a page by a stranger must not carry the reader's own files into a set
                judged[key] = Judged("", "picture outside the folder of its page")
            elif key not in judged:
                judged[key] = judge(key)
    came = brought([url for url in remote if url in online], "pictures")
    for url in remote:
        one = came.get(url)
        if one is None:
            rule = "picture left for want of room" if url in online else NOT_FETCHED
            judged[url] = Judged("", rule)
        elif one.state == "done":
            judged[url] = judge(str(to / "fetched" / "pictures" / one.name))
        else:
            judged[url] = Judged("", f"picture did not come: {one.reason.partition(':')[0]}")
    return judged


def _fill(draft: Draft, refused: Mapping[str, str]) -> None:
    """Copy the usable parts of a page, and list the others.

    Args:
        draft: gets its segments.
        refused: picture → why it must not be used, or "".
    """
    pieces = []
    used: set[str] = set()
    for piece in draft.page.pieces:
        kept: list[PictureRef] = []
        for picture in piece.pictures:
            key = picture_key(picture)
            rule = refused[key] or ("near-duplicate picture" if key in used else "")
            if rule:
                draft.removed.append(LeftOut(rule, pictures=(picture.target,)))
            else:
                used.add(key)
                kept.append(picture)
        pieces.append(SavedPiece(piece.text, tuple(kept)))
    segments, removed = one_picture_each(pieces)
    found = filtered(segments, draft.page.language)
    draft.segments, draft.stripped, draft.english = found.segments, found.stripped, found.english
    draft.removed += removed + found.removed


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
            draft.removed.append(LeftOut(rule, "\n\n".join(one.text for one in draft.segments)))
            draft.segments = []
        else:
            seen.add(words)
            kept.append(draft)
    return kept


def _row(draft: Draft, part: SplitName, judged: Mapping[str, Judged], to: Path) -> dict[str, Any]:
    """A line of the set; its pictures are copied as they are."""
    page, pages = draft.page, []
    for one in draft.segments:
        found = judged[picture_key(one.picture)]
        name = f"images/{found.sha256}{found.suffix}"
        _copy(Path(found.path), to / name, found.sha256)
        pages.append({"text": one.text, "image": name, "sha256": found.sha256})
    stated = {name: getattr(page, name) for name in ("title", "source", "license", "author", "url")}
    return {"story_id": draft.id, **stated, "split": part, "pages": pages}


def _copy(path: Path, to: Path, digest: str) -> None:
    with _writing(to):
        if to.is_file() and sha256(to.read_bytes()).hexdigest() == digest:
            return
        data = path.read_bytes()
        if sha256(data).hexdigest() != digest:
            raise DataError(f"{path}: changed while the set was built; run the same command again")
        write_bytes(to, data)


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Makes the folder of a file, and says what is wrong where it cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error}; make room or choose another folder") from error


def _write_lists(to: Path, drafts: Sequence[Draft], failed: Mapping[str, str]) -> None:
    """Losses, and the origin of every page."""
    lost: list[dict[str, Any]] = []
    pages: list[dict[str, Any]] = []
    for name, reason in failed.items():
        lost.append({"page": name, "rule": f"page: {kind_of(reason)}", "detail": reason})
        pages.append({"page": name, "state": "not read", "reason": reason})
    for draft in drafts:
        page = draft.page
        removed = [(one.reason, one) for one in draft.removed]
        # words around the steps are cut by the readers, each with its reason
        removed += [(f"read: {one.reason}", one) for one in page.left_out]
        for rule, one in removed:
            about = {"page": page.where, "rule": rule}
            lost.append({**about, "text": one.text, "picture": " ".join(one.pictures)})
        stated = ("url", "source", "title", "author", "license", "reader", "order", "language")
        pages.append(
            {
                "page": page.where,
                "story_id": draft.id,
                **{name: getattr(page, name) for name in stated},
                "sha256": draft.page_sha256,
                "pieces": len(page.pieces),
                "segments": len(draft.segments),
                "state": "in the set" if draft.segments else "dropped",
            }
        )
    _write_rows(to / DROPPED_NAME, lost)
    _write_rows(to / PAGES_NAME, pages)


def _write_rows(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Lines of JSON in a file that appears whole or not at all."""
    texts = (json.dumps(row, ensure_ascii=False) for row in rows)
    with _writing(path):
        write_lines(path, (text.encode("utf-8", "backslashreplace").decode() for text in texts))


def kind_of(reason: str) -> str:
    """A reason without what is particular to one page, for counting."""
    return reason.rpartition(": ")[2].partition(";")[0] if ": " in reason else reason


def summary(report: BuildReport, to: Path) -> list[str]:
    """The report as lines."""
    parts = ", ".join(f"{number:,} {name}" for name, number in report.splits.items())
    lines = [
        f"{counted(report.recipes, 'recipe')} with {counted(report.segments, 'step')} from"
        f" {counted(report.pages, 'page')} in {to}",
        f"  {parts}",
        *(f"  {number:>6,}  read by: {reader}" for reader, number in report.readers.items()),
        *(f"  {number:>6,}  pictures stand {order} their words" for order, number in report.orders.items()),
        *(f"  {number:>6,}  dropped: {rule}" for rule, number in report.dropped.items()),
        f"  {report.stripped:>6,}  boiler-plate phrases stripped (list {report.boilerplate_version})",
    ]
    if report.noun_rule_off:
        lines.append(f"  {report.noun_rule_off:>6,}  pages not judged by the noun rule, not being English")
    if report.without_license:
        lines.append(
            f"{counted(report.without_license, 'recipe')} without a licence: theirs to use"
            " privately, not to pass on"
        )
    if NOT_FETCHED in report.dropped:
        lines.append("pictures of saved pages that lie on the web were left; --fetch brings them")
    lines.append(f"what was dropped stands in {to / 'dropped.jsonl'}, the pages in {to / 'pages.jsonl'}")
    return lines
