"""Builds a set of stories from pages: one picture per step, filtered, split, and every loss on a list.

The order of the pipeline stands here and nowhere else: read, judge pictures, merge, filter, split, write.
It fetches nothing; pictures that lie on the web are asked of the caller.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from limner.data.recipes.drafts import (
    DROPPED_NAME,
    Draft,
    kind_of,
    picture_key,
    row_of_set,
    story_id,
    write_lines,
    write_lists,
)
from limner.data.recipes.filters import boilerplate, fault_of, is_english
from limner.data.recipes.pictures import Judged, judge, repeated
from limner.data.recipes.segmentation import Piece, Removed, Segment, one_picture_each
from limner.data.recipes.splits import AuthorSplit, author_key, split_by_author
from limner.data.records import PictureRef, Record
from limner.data.splits import text_id
from limner.data.stories import FILE_NAME
from limner.errors import ConfigError, DataError

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
    write_lines(to / REPORT_NAME, [report.model_dump()])
    write_lines(to / FILE_NAME, rows)
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
