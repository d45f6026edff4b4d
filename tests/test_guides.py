"""Every guide works as it stands: its files, commands and Python, in order, print what it shows."""

import doctest
import logging
import os
import re
import shlex
import shutil
import sys
from contextlib import redirect_stderr
from importlib import import_module
from pathlib import Path

import pytest

import limner
from limner.cli.main import run
from limner.devices import usual_precision

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
GUIDES = [ROOT / "README.md", *sorted([*(DOCS / "tutorial").glob("*.md"), *(DOCS / "how-to").glob("*.md")])]
BLOCK = re.compile(r"^```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)^```$", re.DOTALL | re.MULTILINE)
CHECKED = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
TIMED = re.compile(r"[\d,.]+ s, [\d,.]+ pictures/s|^\w+: \d+( of \d+.*)?$", re.MULTILINE)
# made once for all guides, below
ALREADY_THERE = {"limner demo"}


@pytest.fixture(scope="module")
def demo(tmp_path_factory, demonstration):
    folder = tmp_path_factory.mktemp("guides")
    (folder / "demo").symlink_to(demonstration)
    assert run(["index", str(demonstration / "pictures"), "--library", str(folder / "lib")]) == 0
    return folder


@pytest.fixture
def here(demo, drawings_are_encoded_once, tmp_path, monkeypatch):
    """A folder as the guides expect it: the demonstration, its drawings and their library."""
    (tmp_path / "demo").symlink_to(demo / "demo")
    (tmp_path / "pictures").symlink_to(demo / "demo" / "pictures")
    shutil.copytree(demo / "lib", tmp_path / "lib")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path


def commands(block: str) -> list[tuple[str, str]]:
    """Command lines of a console block, each with the lines that the page shows below it."""
    parts = re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    return [(part.partition("\n")[0], part.partition("\n")[2]) for part in parts]


@pytest.mark.slow
@pytest.mark.skipif(
    usual_precision("cpu") != "bfloat16",
    reason="scores are those of processors that multiply in bfloat16",
)
@pytest.mark.parametrize("guide", GUIDES, ids=lambda one: one.stem)
def test_a_guide_runs_as_it_stands(guide, *, here, capsys):
    ran, names = 0, {"__name__": guide.stem}
    if re.search(r"limner index .* --library lib$", guide.read_text(encoding="utf-8"), re.MULTILINE):
        shutil.rmtree(here / "lib")  # the guide makes its own
    for language, title, block in BLOCK.findall(guide.read_text(encoding="utf-8")):
        if title:
            (here / title).write_text(block, encoding="utf-8")
        if language == "python":
            exec(compile(block, str(guide), "exec"), names)  # noqa: S102
            ran += 1
        for line, shown in commands(block) if language == "console" else ():
            if line in ALREADY_THERE:
                continue
            capsys.readouterr()
            words = shlex.split(line)
            assert words[0] == "limner", line
            with redirect_stderr(sys.stdout):  # the page shows what a terminal does
                status = run(words[1:])
            said = capsys.readouterr().out
            assert status == 0, f"{line}\n{said}"
            ran += 1
            # paths are relative to the folder
            for folder in (here, here.resolve(), (here / "demo").resolve().parent):
                said = said.replace(f"{folder}{os.sep}", "")
            said, wanted = (TIMED.sub("", one) for one in (said, shown.replace("…", "...")))
            assert not wanted.strip() or doctest.OutputChecker().check_output(wanted, said, CHECKED), (
                f"{line}\nthe page shows:\n{shown}\nit prints:\n{said}"
            )
    assert ran or guide.stem == "own-model"  # whose commands train: tests/test_documented_commands.py


@pytest.mark.slow
@pytest.mark.parametrize(
    "module",
    [
        "limner",
        "limner.library",
        "limner.records",
        "limner.errors",
        "limner.research.api",
        "limner.research.datasets",
        "limner.research.paper.published",
    ],
    ids=lambda name: name.rpartition(".")[2],
)
def test_the_examples_of_the_public_api_run(module, here):
    (here / "configs").symlink_to(ROOT / "configs")
    report = doctest.testmod(import_module(module), extraglobs={"limner": limner}, optionflags=CHECKED)
    assert report.attempted > report.failed == 0


@pytest.mark.slow
def test_the_flask_application_answers(here):
    pytest.importorskip("flask")
    page = (DOCS / "how-to" / "flask.md").read_text(encoding="utf-8")
    ((_, _, source),) = BLOCK.findall(page)
    names = {"__name__": "app"}
    exec(source, names)  # noqa: S102
    asked = names["app"].test_client()
    answer = asked.post("/illustrate", data="A girl sails a boat.\n\nA bear cooks supper.")
    assert answer.status_code == 200
    pictures = [one["picture"] for one in answer.get_json()]
    assert len(pictures) == 2
    with asked.get(f"/pictures/{pictures[0]}") as got:
        assert got.status_code == 200
        assert got.mimetype.startswith("image/")
    assert asked.get("/pictures/nobody.jpg").status_code == 404
    assert asked.post("/illustrate", data="").status_code == 422


@pytest.mark.slow
def test_the_site_builds_and_every_link_leads_somewhere(tmp_path, monkeypatch):
    """Broken links, anchors and pages outside the navigation are warnings, which the strict build refuses."""
    build = pytest.importorskip("mkdocs.commands.build")
    from mkdocs.config import load_config

    monkeypatch.setenv("NO_MKDOCS_2_WARNING", "1")
    monkeypatch.chdir(ROOT)
    seen = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: seen.append(record.getMessage())
    logging.getLogger("mkdocs").addHandler(handler)
    try:
        build.build(load_config(str(ROOT / "mkdocs.yml"), site_dir=str(tmp_path), strict=True))
    except SystemExit:
        pass
    finally:
        logging.getLogger("mkdocs").removeHandler(handler)
    assert not seen, "\n".join(seen)
    page = (tmp_path / "python.html").read_text(encoding="utf-8")
    assert "Choose a picture for every step of a text" in page
    for page in tmp_path.rglob("*.html"):
        fetched = re.findall(
            r"<(?:script|img|link|iframe)[^>]*(?:src|href)=\"?(https?://[^\" >]*)",
            page.read_text(encoding="utf-8"),
        )
        assert not fetched, f"{page.name} loads {fetched}"
