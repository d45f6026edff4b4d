"""A small collection, the studio over it, and Debian's Chromium to look at it."""

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from functools import cache
from io import StringIO
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
import quick_studio
from PIL import Image

expect = pytest.importorskip("playwright.sync_api").expect
PATIENCE_MS = 60_000  # A busy machine is slow, not wrong.
expect.set_options(timeout=PATIENCE_MS)

HOSTILE = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"
STORY = """A little fox stepped out of his door and said good morning to a bluebird.

On the hill he tied the line to his kite and waited for the wind.

Up it went, and he ran below it over the grass.

A gust blew it into a tree, and there it hung.

At night he sat by the fire in the woods, and later he fell asleep in his bed."""


@pytest.fixture(scope="session")
def collection(tmp_path_factory, demonstration: Path) -> Path:
    """The drawn collection of `limner demo`, with a hostile caption, a copy and a broken file."""
    pictures = tmp_path_factory.mktemp("demo") / "pictures"
    shutil.copytree(demonstration / "pictures", pictures)
    odd = pictures / "odd"
    odd.mkdir()
    Image.linear_gradient("L").convert("RGB").save(odd / "hostile.png")
    (odd / "hostile.txt").write_text(f"a zeppelin {HOSTILE} in the sky")
    (odd / "broken.jpg").write_bytes(b"\xff\xd8\xff\xe0 this is no picture")
    first = min((pictures / "kite").glob("*.jpg"))
    shutil.copy(first, odd / "again.jpg")
    return pictures


def indexed(pictures: Path, folder: Path, **options: object) -> Path:
    """Index pictures quietly, compared by colour so that no weights are needed."""
    from limner.cli.index import index

    with redirect_stdout(StringIO()):
        index(pictures, library=folder, encoder=("colour",), **options)
    return folder


@pytest.fixture(scope="session")
def library(tmp_path_factory, collection: Path) -> Path:
    """The collection, indexed by its captions."""
    return indexed(collection, tmp_path_factory.mktemp("library") / "picture book")


QUERIES: dict[str, str] = {}
"""Address of a studio → the query of the address that it printed: its token."""


@contextmanager
def serving(library: Path, projects: Path, **how: object) -> Iterator[str]:
    """`quick_studio.serving`: its address, whose token is remembered."""
    with quick_studio.serving(library, projects, **how) as (at, query):
        QUERIES[at] = query
        yield at


@pytest.fixture(scope="session")
def printed():
    """Address of a studio → the address that it printed, with its token."""
    return lambda at: f"{at}/?{QUERIES[at]}"


@pytest.fixture(scope="session")
def serve_studio():
    """`serving`, for test files: a conftest cannot be imported."""
    return serving


@pytest.fixture(scope="session")
def studio(tmp_path_factory, library: Path) -> Iterator[str]:
    """Address of a studio over the collection."""
    with serving(library, tmp_path_factory.mktemp("projects")) as address:
        yield address


@pytest.fixture(scope="module")
def context_of(browser) -> Callable:
    """A context of the browser for all tests of a module: to begin one costs a third of a page."""

    @cache
    def made(**traits: bool):
        context = browser.new_context(viewport={"width": 1280, "height": 900}, **traits)
        context.set_default_timeout(PATIENCE_MS)  # of its pages, and of what they ask by `request`
        return context

    return made


@pytest.fixture
def visit(context_of, studio: str) -> Iterator[Callable]:
    """Open a page of the studio, by its token; in the end nothing may have gone wrong or left the machine.

    The browser remembers nothing of earlier tests. ``visit.close()`` closes its pages before a studio ends:
    nothing is asked of one that has ended.
    """
    contexts, known, wrong, away = [], set(), [], []

    def opened(
        path: str = "/",
        *,
        width: int = 1280,
        height: int = 900,
        scheme: str = "light",
        at: str = studio,
        reduced_motion: str = "no-preference",
        **traits: bool,
    ):
        context = context_of(**traits)
        contexts.append(context)
        page = context.new_page()
        if (context, at) not in known:
            known.add((context, at))
            session = context.new_cdp_session(page)
            session.send("Storage.clearDataForOrigin", {"origin": at, "storageTypes": "all"})
            session.detach()
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme=scheme, reduced_motion=reduced_motion)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on(
            "console", lambda said: wrong.append(said.text) if said.type in ("error", "warning") else None
        )
        page.on("request", lambda made: None if _near(made.url, at) else away.append(made.url))
        page.goto(f"{at}{path}{'&' if '?' in path else '?'}{QUERIES[at]}")
        assert page.url == f"{at}{path}"
        return page

    def close() -> None:
        while contexts:
            for page in contexts.pop().pages:
                page.close()

    opened.wrong, opened.close = wrong, close
    yield opened
    close()
    assert away == []
    assert wrong == []


def _near(url: str, at: str) -> bool:
    return url.startswith((f"{at}/", "data:", f"blob:{at}/"))


@pytest.fixture
def storyboard(visit, studio: str) -> Callable:
    """Illustrate a text by the API and open its storyboard."""

    def opened(
        text: str = STORY,
        *,
        at: str = studio,
        title: str = "A windy day",
        options: dict | None = None,
        **look,
    ):
        body = {"title": title, "text": text, "format": "plain", "options": options}
        token = QUERIES[at].removeprefix("token=")
        known = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
        made = Request(f"{at}/api/projects", json.dumps(body).encode(), known)  # noqa: S310
        with urlopen(made) as answer:  # noqa: S310
            project = json.load(answer)["id"]
        page = visit(f"/projects/{project}", at=at, **look)
        ready(page)
        return page

    return opened


def ready(page) -> None:
    """Wait until the board and the first pictures offered are there."""
    page.wait_for_selector("#board:not([aria-busy])")
    page.wait_for_selector("#panel .offer", state="attached")


@pytest.fixture(scope="session")
def story() -> str:
    """A story of five steps that the collection can illustrate."""
    return STORY


@pytest.fixture(scope="session")
def model_studio(tmp_path_factory, collection: Path, drawings_run: Path) -> Iterator[str]:
    """Address of a studio whose pictures are chosen by a tiny trained run that knows relations."""
    library = indexed(collection / "shore", tmp_path_factory.mktemp("model") / "library", model=drawings_run)
    with serving(library, tmp_path_factory.mktemp("projects"), model=drawings_run) as address:
        yield address
