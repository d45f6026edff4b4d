"""Builds a set of recipes for the command line: finds pages, brings what lies on the web, tells the losses.

The pipeline is `limner.data.recipes.builder`; this puts sources, network and report together.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from limner.errors import DataError

if TYPE_CHECKING:
    from limner.data.fetch import FetchProgress
    from limner.data.recipes.builder import BuildReport
    from limner.data.recipes.splits import AuthorSplit
    from limner.data.transfer import FetchSettings

UNASKED = "picture on the web, not asked for"


def build_recipes(
    given: Sequence[str],
    to: Path,
    settings: "FetchSettings",
    *,
    split: "AuthorSplit" = "stratified",
    seed: int = 0,
    fetch: bool = False,
    again: bool = False,
    progress: "Callable[[FetchProgress], None] | None" = None,
) -> "BuildReport":
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
    from limner.data.recipes.builder import build, check_folder
    from limner.data.recipes.drafts import Draft
    from limner.data.recipes.pages import read_page
    from limner.data.recipes.robots import Robots
    from limner.data.recipes.sources import find_sources
    from limner.data.recipes.web import bring

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
        result: dict[str, Path | str] = dict.fromkeys(wanted, UNASKED)
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


def told(report: "BuildReport", to: Path) -> list[str]:
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
    if UNASKED in report.dropped:
        lines.append("pictures of saved pages that lie on the web were left; --fetch brings them")
    lines.append(f"what was dropped stands in {to / 'dropped.jsonl'}, the pages in {to / 'pages.jsonl'}")
    return lines
