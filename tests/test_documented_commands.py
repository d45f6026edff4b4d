"""Every documented command that trains resolves its settings, and trains where its data can be drawn."""

import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest
from cyclopts import App

from limner.research.cli.sweep import sweep
from limner.research.cli.train import train
from limner.research.paper.comparison import by_system
from limner.research.systems import read_config

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "src/limner/encoders/base.md", *sorted((ROOT / "docs").rglob("*.md"))]
RESULTS = sorted((ROOT / "docs" / "results").glob("*.md"))
# what a block of a page may call; limner itself only writes its words down
TOOLS = ("basename", "ls", "grep")
RECORD = """
limner() { printf '%s\\037' "$@" >> "$RECORDED"; printf '\\n' >> "$RECORDED"; }
torchrun() { while [ "$1" != limner ]; do shift; done; shift; limner "$@"; }
python() { :; }
"""
COMMANDS = {"train": train, "sweep": sweep}


def recorded(folder: Path, block: str) -> list[list[str]]:
    """Words of every command of limner in a block, its loops and variables expanded by the shell."""
    out = folder / "commands"
    out.write_text("")
    for name in TOOLS:
        if not (folder / name).exists():
            (folder / name).symlink_to(str(shutil.which(name)))
    environment = {"PATH": str(folder), "LIMNER_DATA": "data", "RECORDED": str(out), "HOME": str(folder)}
    bash = str(shutil.which("bash"))
    subprocess.run([bash, "-c", RECORD + block], cwd=ROOT, env=environment, capture_output=True, check=False)
    return [line.split("\037")[:-1] for line in out.read_text().splitlines()]


@pytest.fixture(scope="module")
def documented(tmp_path_factory):
    """Words after ``limner`` → pages, of all commands that train, but for the seed."""
    folder = tmp_path_factory.mktemp("bin")
    found = {}
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        blocks = re.findall(r"^```(?:sh|bash|console)?\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
        blocks += re.findall(r"`(limner (?:train|sweep) configs[^`]*)`", text)
        blocks += re.findall(r"^Example: (limner (?:train|sweep) .*)$", text, re.MULTILINE)
        for block in blocks:
            for words in (
                recorded(folder, block) if "limner train" in block or "limner sweep" in block else ()
            ):
                if words and words[0] in COMMANDS and "--to" in words:
                    plain = (
                        re.sub(r"^(loop\.seed=|(?:keys_run=)?runs/.*-)\d+$", r"\g<1>0", one) for one in words
                    )
                    found.setdefault(tuple(plain), set()).add(page.name)
    return found


def bound(words):
    """The arguments that the command line gives its function."""
    app = App(default_command=COMMANDS[words[0]], result_action="return_value")
    _, given, _ = app.parse_args(list(words[1:]), exit_on_error=False, print_error=False)
    return given.arguments


@cache
def settings_of(words):
    """Resolved settings of a command line, a tuple of words."""
    given = bound(words)
    return read_config(ROOT / given["config"], given.get("set_", ()), given.get("data", ""))


def test_every_documented_command_resolves_its_settings(documented):
    assert len(documented) > 100
    rows = {settings_of(words).row for words in documented}
    assert {"CMCA", "COMBINED-VAL", "GSDA", "VRSS", "same document", "base"} <= rows


@pytest.mark.slow
def test_commands_on_drawn_books_train(documented, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    known = set()
    for words in documented:
        settings = settings_of(words)
        drawn = settings.data.set == "picturebook" and words[0] == "train"
        key = (settings.system, settings.row)
        if not drawn or key in known or "graphs.jsonl" in " ".join(words):
            continue
        known.add(key)
        given = bound(words)
        small = (*given.get("set_", ()), "data.vectors=random", "data.picture_px=32")
        options = {"to": tmp_path / str(len(known)), "set_": small, "data": given.get("data", "")}
        train(given["config"], smoke=True, **options)
        assert (options["to"] / "model.safetensors").is_file(), words
    assert len(known) > 8


# bold words before a table of docs/results → folder of the runs that it is of
FOLDERS = {
    "Picture books": "storybook",
    "How-to guides": "howto",
    "Recipes": "recipes",
    "Drawn worlds": "drawn",
    "Headings and their pictures": "headers",
    "Photographs and their captions": "captions",
    "Pages of picture books": "stories",
}


@pytest.mark.parametrize("page", ["scene-graphs", "stories", "complementary"])
def test_rows_of_the_results_are_named_as_the_tables_name_them(documented, page):
    trained = {}
    for words, pages in documented.items():
        to = words[words.index("--to") + 1].split("/")
        if words[0] == "train" and to[0] == "runs" and pages & {path.name for path in RESULTS}:
            settings = settings_of(words)
            about = SimpleNamespace(system=settings.row or settings.system, preset=settings.preset)
            trained.setdefault(to[1], []).append(SimpleNamespace(about=about))
    printed = {folder: set(by_system(runs)) for folder, runs in trained.items()}
    known = {run.about.system for runs in trained.values() for run in runs}
    folder, found = "", {}
    for line in (ROOT / "docs" / "results" / f"{page}.md").read_text("utf-8").splitlines():
        if line.startswith("**"):
            folder = FOLDERS.get(line[2:].partition("**")[0], "")
        cell = line.split("|")[1].strip() if line.startswith("| ") else ""
        if folder and cell.partition(" [")[0] in known:
            found.setdefault(folder, set()).add(cell)
    assert len(found) == 3
    for folder, rows in found.items():
        assert len(rows) > 5
        assert rows <= printed[folder], folder
