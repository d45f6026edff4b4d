"""Builds a set of stories from web pages, with one picture per step, and lists everything left out.

The pipeline: read, check pictures, merge, filter, split, write.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from filecmp import cmp
from hashlib import sha256
from pathlib import Path
from typing import Any

from limner.config import Record
from limner.errors import ConfigError, DataError, MissingError, counted
from limner.files import write_bytes, write_lines
from limner.records import PictureRef
from limner.research.datasets.pairs import Source, SplitName, text_id
from limner.research.datasets.recipes.authors import AuthorSplit, author_key, split_by_author
from limner.research.datasets.recipes.filters import Judged, boilerplate, filtered, judge, repeated
from limner.research.datasets.recipes.saved_pages import (
    Removed,
    SavedPage,
    SavedPiece,
    Segment,
    one_picture_each,
    read_page,
)
from limner.research.datasets.sets.recipeqa import read_recipes
from limner.research.datasets.sets.stories import FILE_NAME
from limner.research.datasets.splits import is_short
from limner.text.blocks import letters
from limner.text.picture_files import OUTSIDE

DROPPED_NAME, PAGES_NAME, REPORT_NAME = "dropped.jsonl", "pages.jsonl", "report.json"
MIN_SEGMENTS = 2
ON_THE_WEB, OUTSIDE_FOLDER = "picture on the web", "picture outside the folder of its page"


SUFFIXES = (".html", ".htm", ".xhtml", ".md", ".markdown")


@dataclass(frozen=True)
class PageSource:
    """One page to read.

    Attributes:
        name: name for messages: the path below the given folder.
        path: its file.
        root: folder that must contain its pictures.
    """

    name: str
    path: Path
    root: Path


def find_sources(given: Sequence[str]) -> list[PageSource]:
    """List the saved pages named by paths.

    Args:
        given: files, and folders (with subfolders, without following links).
    Returns:
        Each page once, in the given order; pages of a folder by name.
    Raises:
        MissingError: a file or folder does not exist.
        ConfigError: an entry is a URL.
        DataError: a folder has no page, or a file has another suffix.
    """
    sources: dict[str, PageSource] = {}
    for entry in given:
        if entry.lower().startswith(("http://", "https://")):
            raise ConfigError(f"{entry}: is on the web; save the page with its pictures, and give the file")
        place = Path(entry)
        with suppress(RuntimeError):  # no such user's home
            place = place.expanduser()
        for source in _local(place):
            sources.setdefault(str(source.path), source)
    return list(sources.values())


def _local(place: Path) -> Iterable[PageSource]:
    if "\0" in str(place) or not place.exists():
        raise MissingError(f"{place}: does not exist; give saved pages or folders of them")
    if place.is_file():
        if place.suffix.lower() not in SUFFIXES:
            raise DataError(f"{place}: {place.suffix or 'no suffix'}, expected {', '.join(SUFFIXES)}")
        path = place.resolve()
        return [PageSource(path.name, path, path.parent)]
    root = place.resolve()
    # broken links are included, so that they are reported as unreadable pages
    pages = [page for page in root.rglob("*") if page.suffix.lower() in SUFFIXES]
    pages = sorted(page for page in pages if page.is_file() or page.is_symlink())
    if not pages:
        raise DataError(f"{place}: no saved page in it; expected files ending in {', '.join(SUFFIXES)}")
    return [PageSource(str(path.relative_to(root)), path, root) for path in pages]


@dataclass
class Draft:
    """A page being processed.

    Attributes:
        page: the page as read.
        root: folder that must contain its pictures.
        page_sha256: SHA-256 of its bytes.
        segments: remaining segments.
        removed: removed parts.
        stripped: number of boilerplate phrases removed.
        english: whether the noun rule was applied.
    """

    page: SavedPage
    root: Path
    page_sha256: str
    segments: list[Segment] = field(default_factory=list)
    removed: list[Removed] = field(default_factory=list)
    stripped: int = 0
    english: bool = True

    @property
    def id(self) -> str:
        """Id derived from the page's URL or name, the same in every build."""
        name = self.page.url or self.page.where
        return "p" + sha256(name.encode("utf-8", "replace")).hexdigest()[:16]

    @property
    def pictures(self) -> list[PictureRef]:
        """All pictures of the page, in order."""
        return [picture for piece in self.page.pieces for picture in piece.pictures]


class BuildReport(Record):
    """Result of a build, with counts of what was left out.

    Attributes:
        pages: number of pages given, including recipes of RecipeQA.
        recipes, segments: numbers of recipes and segments in the set.
        splits: name → number of recipes.
        readers: method of reading → number of pages.
        dropped: rule → number of parts, pictures or pages that it removed.
        stripped: number of boilerplate phrases removed.
        boilerplate_version: version of the list of phrases.
        noun_rule_off: number of pages to which the noun rule was not applied, because they are not English.
        without_license: number of recipes whose page states no licence.
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


def build_recipes(
    given: Sequence[str],
    to: Path,
    *,
    split: AuthorSplit = "stratified",
    seed: int = 0,
    recipeqa: Source | None = None,
) -> BuildReport:
    """Build a set of stories from saved pages.

    Args:
        given: saved pages, folders of them.
        to: folder of the set; an earlier build there is replaced.
        split: kind of split by author.
        seed: seed of the split.
        recipeqa: files and pictures of RecipeQA, whose recipes are added under the same rules.
    Raises:
        ConfigError: the folder holds a set that limner did not build, or `to` is a file.
        DataError: no recipe is left, there are too few authors, or the folder cannot be written.
        MissingError: a page does not exist, or a package is not installed.
    """
    sources = find_sources(given)
    if to.exists() and not to.is_dir():
        raise ConfigError(f"{to}: is a file; expected a folder for the set, so choose another name")
    if (to / FILE_NAME).exists() and not (to / REPORT_NAME).exists():
        raise ConfigError(f"{to}: holds a {FILE_NAME} that limner did not build; choose another folder")
    drafts, failed = _read(sources)
    passed_over: Counter[str] = Counter()
    if recipeqa is not None:
        drafts += _from_recipeqa(recipeqa, passed_over)
    drafts, twice = _once(drafts)
    failed |= twice
    judged = _judged(drafts)
    again_there = repeated([[picture_key(item) for item in draft.pictures] for draft in drafts], judged)
    for number, draft in enumerate(drafts):
        keys = map(picture_key, draft.pictures)
        _fill(draft, {key: judged[key].rule or again_there.get((number, key), "") for key in keys})
    recipes = _recipes(drafts)
    _write_lists(to, drafts, failed)
    dropped = Counter(item.rule for draft in drafts for item in draft.removed)
    dropped.update(f"page: {kind_of(reason)}" for reason in failed.values())
    dropped.update({f"recipeqa: {kind}": number for kind, number in passed_over.items() if number})
    if not recipes:
        lost = "; ".join(f"{rule}: {number}" for rule, number in dropped.most_common(3)) or "no page given"
        raise DataError(
            f"{to}: no recipe left of {counted(len(drafts) + len(failed), 'page')}"
            f" ({lost}); see {DROPPED_NAME}"
        )
    ids = [draft.id for draft in recipes]
    authors = [author_key(item.page.author, item.page.source, item.id) for item in recipes]
    parts = split_by_author(ids, authors, split, seed)
    report = BuildReport(
        pages=len(drafts) + len(failed),
        recipes=len(recipes),
        segments=sum(len(draft.segments) for draft in recipes),
        splits=dict(Counter(parts).most_common()),
        readers=dict(Counter(draft.page.reader for draft in drafts).most_common()),
        dropped=dict(dropped.most_common()),
        stripped=sum(draft.stripped for draft in drafts),
        boilerplate_version=boilerplate().version,
        noun_rule_off=sum(not draft.english for draft in drafts),
        without_license=sum(not draft.page.license for draft in recipes),
    )
    rows = [_row(draft, part, judged, to) for draft, part in zip(recipes, parts, strict=True)]
    _write_rows(to / REPORT_NAME, [report.model_dump()])
    _write_rows(to / FILE_NAME, rows)
    return report


def _read(sources: Iterable[PageSource]) -> tuple[list[Draft], dict[str, str]]:
    """The pages read, in order; and page → reason for those that could not be read."""
    drafts: list[Draft] = []
    failed: dict[str, str] = {}
    for source in sources:
        try:
            data = source.path.read_bytes()
            page = read_page(data, source.name, source.path.parent, "")
        except OSError as error:
            failed[source.name] = error.strerror or type(error).__name__
        except DataError as error:
            failed[source.name] = str(error)
        else:
            drafts.append(Draft(page, source.root, sha256(data).hexdigest()))
    return drafts, failed


def _from_recipeqa(source: Source, passed_over: Counter[str]) -> list[Draft]:
    """The recipes of RecipeQA as drafts; entries without a recipe are counted.

    Picture files are searched for by name, first in the folders of the recipe's split. Identical files count
    as one picture; different files with one name are listed, not used.
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
            paths = [path for picture in step.pictures for path in files[Path(picture.target).name]]
            candidates = [path for path in paths if split in path.relative_to(root).parts] or paths
            if any(not cmp(candidates[0], other, shallow=False) for other in candidates[1:]):
                removed.append(
                    Removed("different pictures of one name", pictures=tuple(map(str, candidates)))
                )
                pieces.append(SavedPiece(step.text))
                continue
            passed_over["further copies of a picture"] += len(candidates[1:])
            file = str(candidates[0]) if candidates else None
            refs = tuple(picture.model_copy(update={"path": file}) for picture in step.pictures)
            pieces.append(SavedPiece(step.text, refs))
        page = SavedPage(where, "", "", "", "", "", "en", "recipeqa", tuple(pieces))
        digest = text_id("\n".join(piece.text for piece in pieces))
        drafts.append(Draft(page, root, digest, removed=removed))
    return drafts


def _once(drafts: Sequence[Draft]) -> tuple[list[Draft], dict[str, str]]:
    """Remove repeated pages; otherwise their pictures would be dropped as decoration."""
    first: dict[str, str] = {}
    words: dict[str, str] = {}
    unique: list[Draft] = []
    twice: dict[str, str] = {}
    for draft in drafts:
        where = draft.page.where
        earlier = first.get(draft.id) or first.get(draft.page_sha256)
        steps = {letters(text.text) for text in draft.page.pieces if not is_short(text.text)}
        shared = Counter(words[text] for text in steps if text in words)
        # the same recipe from another site: half of its longer steps are identical
        if earlier is None and shared and 2 * shared.most_common(1)[0][1] >= len(steps):
            earlier = shared.most_common(1)[0][0]
        if earlier is not None:
            twice[where] = f"{earlier}: duplicate page"
        else:
            first |= {draft.id: where, draft.page_sha256: where}
            words |= dict.fromkeys(steps - words.keys(), where)
            unique.append(draft)
    return unique, twice


def picture_key(picture: PictureRef) -> str:
    """Key of a picture: its file, or its URL."""
    return picture.path or picture.target


def _judged(drafts: Sequence[Draft]) -> dict[str, Judged]:
    """Check each picture of the pages once."""
    judged: dict[str, Judged] = {}
    for draft in drafts:
        for picture in draft.pictures:
            key = picture_key(picture)
            if picture.path is None:
                web = key.lower().startswith(("http://", "https://"))
                rule = OUTSIDE_FOLDER if picture.problem == OUTSIDE else "picture not there"
                judged[key] = Judged("", ON_THE_WEB if web else rule)
            elif not Path(picture.path).is_relative_to(draft.root):
                # an untrusted page must not put the user's other files into a set
                judged[key] = Judged("", OUTSIDE_FOLDER)
            elif key not in judged:
                judged[key] = judge(key)
    return judged


def _fill(draft: Draft, refused: Mapping[str, str]) -> None:
    """Find the segments of a draft, and list the removed parts.

    Args:
        draft: the draft, changed in place.
        refused: picture → rule that excludes it, or "".
    """
    pieces = []
    used: set[str] = set()
    for piece in draft.page.pieces:
        usable: list[PictureRef] = []
        for picture in piece.pictures:
            key = picture_key(picture)
            rule = refused[key] or ("near-duplicate picture" if key in used else "")
            if rule:
                draft.removed.append(Removed(rule, pictures=(picture.target,)))
            else:
                used.add(key)
                usable.append(picture)
        pieces.append(SavedPiece(piece.text, tuple(usable)))
    segments, removed = one_picture_each(pieces)
    result = filtered(segments, draft.page.language)
    draft.segments, draft.stripped, draft.english = result.segments, result.stripped, result.english
    draft.removed += removed + result.removed


def _recipes(drafts: Sequence[Draft]) -> list[Draft]:
    """The drafts that have enough segments and do not repeat an earlier text."""
    recipes: list[Draft] = []
    seen: set[str] = set()
    for draft in drafts:
        words = text_id("\n".join(segment.text for segment in draft.segments))
        rule = ""
        if len(draft.segments) < MIN_SEGMENTS:
            rule = f"recipe with fewer than {MIN_SEGMENTS} segments"
        elif words in seen:
            rule = "duplicate recipe"
        if rule:
            draft.removed.append(Removed(rule, "\n\n".join(segment.text for segment in draft.segments)))
            draft.segments = []
        else:
            seen.add(words)
            recipes.append(draft)
    return recipes


def _row(draft: Draft, part: SplitName, judged: Mapping[str, Judged], to: Path) -> dict[str, Any]:
    """One line of the set; copies its pictures unchanged."""
    page, pages = draft.page, []
    for segment in draft.segments:
        picture = judged[picture_key(segment.picture)]
        name = f"images/{picture.sha256}{picture.suffix}"
        _copy(Path(picture.path), to / name, picture.sha256)
        pages.append({"text": segment.text, "image": name, "sha256": picture.sha256})
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
    """Create the folder of a file, and convert write errors to DataError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error}; make room or choose another folder") from error


def _write_lists(to: Path, drafts: Sequence[Draft], failed: Mapping[str, str]) -> None:
    """Write the lists of removed parts and of pages."""
    lost: list[dict[str, Any]] = []
    pages: list[dict[str, Any]] = []
    for name, reason in failed.items():
        lost.append({"page": name, "rule": f"page: {kind_of(reason)}", "detail": reason})
        pages.append({"page": name, "state": "not read", "reason": reason})
    for draft in drafts:
        page = draft.page
        removed = [(part.rule, part) for part in draft.removed]
        # parts removed while reading, each with its reason
        removed += [(f"read: {part.rule}", part) for part in page.left_out]
        for rule, part in removed:
            about = {"page": page.where, "rule": rule}
            lost.append({**about, "text": part.text, "picture": " ".join(part.pictures)})
        stated = ("url", "source", "title", "author", "license", "reader", "language")
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
    """Write a JSON Lines file, atomically."""
    texts = (json.dumps(row, ensure_ascii=False) for row in rows)
    with _writing(path):
        write_lines(path, (text.encode("utf-8", "backslashreplace").decode() for text in texts))


def kind_of(reason: str) -> str:
    """A reason without the details of one page, for counting."""
    return reason.rpartition(": ")[2].partition(";")[0] if ": " in reason else reason


def summary(report: BuildReport, to: Path) -> list[str]:
    """The report as lines for the terminal."""
    parts = ", ".join(f"{number:,} {name}" for name, number in report.splits.items())
    lines = [
        f"{counted(report.recipes, 'recipe')} with {counted(report.segments, 'step')} from"
        f" {counted(report.pages, 'page')} in {to}",
        f"  {parts}",
        *(f"  {number:>6,}  read by: {reader}" for reader, number in report.readers.items()),
        *(f"  {number:>6,}  dropped: {rule}" for rule, number in report.dropped.items()),
        f"  {report.stripped:>6,}  boilerplate phrases removed (list {report.boilerplate_version})",
    ]
    if report.noun_rule_off:
        lines.append(
            f"  {report.noun_rule_off:>6,}  pages that are not English, so the noun rule was not applied"
        )
    if report.without_license:
        lines.append(
            f"{counted(report.without_license, 'recipe')} without a licence: for private use"
            " only, do not redistribute"
        )
    if ON_THE_WEB in report.dropped:
        lines.append("some pages lack their pictures; save them again with a browser, as a complete page")
    lines.append(f"removed parts are listed in {to / 'dropped.jsonl'}, the pages in {to / 'pages.jsonl'}")
    return lines
