"""Documented commands: those that train resolve their settings; options, extras and quoted messages exist."""

import re
import shutil
import subprocess
import tomllib
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest
from cyclopts import App

from limner.research.cli.sweep import sweep
from limner.research.cli.train import train
from limner.research.paper.comparison import by_system
from limner.research.runs.train import read_config

pytestmark = pytest.mark.slow

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
GENERAL = {"--help", "--help-all", "--version", "--debug"}
# options of other programs that pages name by themselves
FOREIGN = {"--nnodes", "--env"}


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


@pytest.mark.soak  # their settings resolve, above; such runs fill the tables of `limner table --smoke`
def test_a_command_of_every_system_trains_on_drawn_books(documented, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    known = set()
    for words in documented:
        settings = settings_of(words)
        drawn = settings.data.set == "picturebook" and words[0] == "train"
        if not drawn or settings.system in known or "graphs.jsonl" in " ".join(words):
            continue
        known.add(settings.system)
        given = bound(words)
        small = (*given.get("set_", ()), "data.vectors=random", "data.picture_px=32")
        options = {"to": tmp_path / str(len(known)), "set_": small, "data": given.get("data", "")}
        train(given["config"], smoke=True, **options)
        assert (options["to"] / "model.safetensors").is_file(), words
    assert {"cmcm", "cnsi", "gsda", "vse"} <= known


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


@pytest.fixture(scope="module")
def options():
    """Words of every command → its options, from the reference that a test compares with ``--help``."""
    text = (ROOT / "docs" / "commands.md").read_text("utf-8")
    found = {}
    for section in text.split("\n## limner")[1:]:
        rows = re.findall(r"^│[ *]+(?:[A-Z]+ )?(-[^A-Z│]*)", section, re.MULTILINE)
        words = tuple(section.partition("\n")[0].split())
        found[words] = {option for row in rows for option in re.findall(r"(?<!\S)--?[a-z][\w-]*", row)}
    return found


def wrong_options(code: str, options: dict[tuple[str, ...], set[str]]) -> list[str]:
    """What a command in the text of a page names that is not there: the command itself, or options."""
    words = code.split()[1:]
    command = next(part for part in (tuple(words[:n]) for n in (2, 1, 0)) if part in options)
    groups = {name[0] for name in options if len(name) > 1}
    if len(command) < 1 + (words[0] in groups and len(words) > 1) and words[0] not in GENERAL:
        return [code]
    given = {word.partition("=")[0] for word in words if word.startswith("--")}
    return sorted(given - options[command] - GENERAL)


def test_commands_and_options_in_the_text_of_pages_exist(options):
    known = GENERAL | FOREIGN | set().union(*options.values())
    wrong, checked = {}, 0
    for page in PAGES:
        text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
        scripts = {ROOT / name for name in re.findall(r"\bbenchmarks/\w+\.py", page.read_text("utf-8"))}
        own = known | {
            option
            for script in scripts
            for option in re.findall(r"\"(--[a-z][\w-]*)\"", script.read_text("utf-8"))
        }
        for code in re.findall(r"`([^`\n]+)`", text):
            found = wrong_options(code, options) if code.startswith("limner ") else []
            option = re.match(r"--[a-z][\w-]*", code)
            if option and option[0] not in own:
                found.append(code)
            checked += bool(option) or code.startswith("limner ")
            if found:
                wrong.setdefault(str(page.relative_to(ROOT)), []).extend(found)
    assert wrong == {}
    assert checked > 300


def test_a_wrong_option_in_the_text_is_found(options):
    assert wrong_options("limner data audit captions --set data.annotations=FOLDER", options) == ["--set"]
    assert wrong_options("limner data examine captions", options) == ["limner data examine captions"]
    assert wrong_options("limner index FOLDER --no-ocr", options) == []


def test_extras_that_pages_name_exist():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    for page in PAGES:
        text = page.read_text("utf-8")
        named = re.findall(r"(?:limner|\"\.|'\.)\[([a-z,]+)\]", text)
        named += re.findall(r"extras?(?:\]\([^)]*\))? `([a-z]+)`", text)
        assert {name for group in named for name in group.split(",")} <= set(extras), page


def test_messages_that_troubleshooting_quotes_are_printed():
    """The words between the numbers of each quoted message stand in the source."""
    source = "".join(
        re.sub(r"\"\s+f?\"", "", path.read_text("utf-8"))
        for path in sorted((ROOT / "src" / "limner").rglob("*.py"))
    )
    page = (ROOT / "docs" / "troubleshooting.md").read_text("utf-8")
    quoted = re.findall(r"^\*\*\"([^\"]+)\"", page, re.MULTILINE)
    assert len(quoted) > 2
    for message in quoted:
        for part in re.split(r"[\d,]+(?: pictures)?", message):
            assert part.strip() in source, message
