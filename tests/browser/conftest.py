"""A small collection, the studio over it as its own process, and Debian's Chromium to look at it."""

import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
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


PROGRAMS = Path(__file__).parents[1] / "support"


@contextmanager
def serving(library: Path, projects: Path, *options: str, held: bool = False) -> Iterator[str]:
    """``limner studio``, which reads texts itself: its address without the last slash and the token.

    ``held`` lets no text be read to its end, however fast the machine is.
    """
    log = projects.with_name(f"{projects.name}.log")
    port = () if "--port" in options else ("--port", "0")
    program = PROGRAMS / ("held_studio.py" if held else "quick_studio.py")
    command = [sys.executable, program, "studio", "--library", library, "--projects", projects]
    with log.open("w") as told:
        process = subprocess.Popen([*command, "--no-browser", *port, *options], stdout=told, stderr=told)
    try:
        while not (found := re.search(r"(http://[\d.]+:\d+)/\?(token=\S+)\n", log.read_text())):
            if process.poll() is not None:
                pytest.fail(f"limner studio did not start: {log.read_text()}")
            time.sleep(0.1)
        QUERIES[found[1]] = found[2]
        yield found[1]
    finally:
        process.terminate()
        process.wait(60)
    assert "Traceback" not in log.read_text(), log.read_text()


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


@pytest.fixture
def visit(browser, studio: str) -> Iterator[Callable]:
    """Open a page of the studio, by its token; in the end nothing may have gone wrong or left the machine.

    ``visit.close()`` closes its pages before a studio ends: nothing is asked of one that has ended.
    """
    contexts, wrong, away = [], [], []

    def opened(
        path: str = "/",
        *,
        width: int = 1280,
        height: int = 900,
        scheme: str = "light",
        at: str = studio,
        **more,
    ):
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, accept_downloads=True, **more
        )
        contexts.append(context)
        context.set_default_timeout(PATIENCE_MS)  # of its pages, and of what they ask by `request`
        page = context.new_page()
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
            contexts.pop().close()

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
def model_studio(tmp_path_factory, collection: Path) -> Iterator[str]:
    """Address of a studio whose pictures are chosen by a tiny trained run that knows relations."""
    import torch

    from limner.research.cli.train import train

    run = tmp_path_factory.mktemp("runs") / "cmcm"
    config = Path(__file__).parents[2] / "configs" / "cmcm" / "cmcm.toml"
    small = ("data.vectors=random", "data.picture_px=32")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with redirect_stdout(StringIO()):
            train(config, to=run, data="picturebook", set_=small, smoke=True)
        library = indexed(collection / "shore", tmp_path_factory.mktemp("model") / "library", model=run)
    finally:
        torch.set_num_threads(threads)
    with serving(library, tmp_path_factory.mktemp("projects"), "--model", run) as address:
        yield address
