"""What a release needs beside the code: metadata, licences, citation, templates, a container that serves."""

import json
import re
import shlex
import tomllib
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

import pytest
import yaml
from cyclopts import CycloptsError
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import limner
from limner.cli.main import build_app
from limner.encoders.base_file import read_card

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PLACEHOLDER = "https://example.org/fill-in/limner"
PACKAGE = ROOT / "src" / "limner"
NOTICE = (ROOT / "NOTICE").read_text(encoding="utf-8")
OURS = {".css", ".html", ".js", ".json", ".md", ".py", ".svg", ".toml", ".typ", ".typed"}
"""Suffixes of what was written for limner; all else came from elsewhere, or was learned from such data."""


def test_every_file_that_is_no_source_of_ours_is_in_the_notice():
    files = [path for path in PACKAGE.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    foreign = [path for path in files if path.suffix not in OURS and path.name != "LICENSE"]
    assert {path.suffix for path in foreign} >= {".gz", ".jpg", ".safetensors", ".ttf"}
    missing = [str(path.relative_to(PACKAGE)) for path in foreign if path.name not in NOTICE]
    assert not missing, f"say in NOTICE where these come from and under what terms: {missing}"


def test_whatever_the_notice_names_is_there():
    named = re.findall(r"^((?:\w+/)+[\w-]+\.\w+|[\w-]+\.txt\.gz)", NOTICE, re.MULTILINE)
    assert len(named) >= 8
    assert [one for one in named if not (PACKAGE / one).is_file()] == []


LICENCES = re.compile(
    r"\bMIT\b|Apache-2\.0|CC BY|\bCC0\b|(?i:public domain)|Bitstream Vera|RESEARCH AND EDUCATION ONLY"
)


def entry_of(name):
    """What NOTICE says of a file: the paragraph that names it."""
    return next((part for part in NOTICE.split("\n\n") if name in part), "")


def test_weights_fonts_and_pictures_are_in_the_notice_with_their_licence():
    kinds = {".gz", ".jpg", ".safetensors", ".ttf"}
    files = [path for path in PACKAGE.rglob("*") if path.suffix in kinds]
    assert {path.suffix for path in files} == kinds
    assert [path.name for path in files if not LICENCES.search(entry_of(path.name))] == []


def test_a_font_is_under_the_licence_that_the_notice_states():
    """A font file states its licence itself."""
    told = (PACKAGE / "export" / "fonts" / "LICENSE").read_text(encoding="utf-8")
    fonts = list(PACKAGE.rglob("*.ttf"))
    assert fonts
    for path in fonts:
        font = path.read_bytes()
        start = font.index("Permission is hereby granted".encode("utf-16-be"))
        grant = font[start : start + 1600].decode("utf-16-be")
        assert "Bitstream Vera" in entry_of(path.name)
        assert " ".join(grant.split())[:700] in " ".join(told.split()), path


def test_weights_may_be_used_as_the_notice_states():
    """A file of weights carries what may be done with it."""
    for name, words in (("base", "RESEARCH AND EDUCATION ONLY"), ("base-free", "May be used for anything")):
        terms = read_card(PACKAGE / "encoders" / f"{name}.safetensors").terms
        assert words in entry_of(f"{name}.safetensors")
        assert terms.startswith("research and education only" if name == "base" else "free to use"), terms


LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")
PIN = re.compile(r"^([\w.-]+)==([^\s;\\]+)", re.MULTILINE)


def pinned(text):
    """Package → version that a file of requirements pins."""
    return {canonicalize_name(name): version for name, version in PIN.findall(text)}


def test_the_lock_pins_every_dependency_and_what_it_needs():
    locked = pinned(LOCK)
    for line in PROJECT["dependencies"]:
        wanted = Requirement(line)
        assert wanted.specifier.contains(locked[canonicalize_name(wanted.name)]), line
    for name in locked:
        try:
            needs = [Requirement(line) for line in requires(name) or ()]
        except PackageNotFoundError:  # of another system
            continue
        for need in needs:
            if need.marker is None or need.marker.evaluate({"extra": ""}):
                assert canonicalize_name(need.name) in locked, f"{name} needs {need}"


def test_every_line_of_the_lock_has_hashes_and_no_host():
    parts = re.split(r"^(?=[\w.-]+==)", LOCK, flags=re.MULTILINE)[1:]
    assert len(parts) == len(PIN.findall(LOCK)) > len(PROJECT["dependencies"])
    assert [part[:40] for part in parts if not re.search(r"--hash=sha256:[0-9a-f]{64}\b", part)] == []
    assert re.findall(r"https?:|file:|--[a-z-]*index|--find-[a-z]+| @ ", LOCK) == []


def test_lock_and_constraints_agree():
    locked = pinned(LOCK)
    tested = pinned((ROOT / "constraints.txt").read_text(encoding="utf-8"))
    common = locked.keys() & tested.keys()
    assert len(common) > 50
    assert {name: (locked[name], tested[name]) for name in common if locked[name] != tested[name]} == {}


def test_vendored_scripts_are_in_the_notice():
    """A script that states a copyright or a licence of its own was not written here."""
    for path in PACKAGE.rglob("*.js"):
        head = path.read_text(encoding="utf-8")[:2000]
        if re.search(r"(?i)copyright|@license|SPDX|licensed under", head):
            assert path.name in NOTICE, path


def test_the_metadata_name_who_and_where():
    assert PROJECT["authors"] == [{"name": "limner contributors"}]
    assert {"Homepage", "Documentation", "Source", "Issues", "Changelog"} <= PROJECT["urls"].keys()
    assert all(address.startswith(PLACEHOLDER) for address in PROJECT["urls"].values())
    for name in PROJECT["license-files"]:
        assert (ROOT / name).is_file()
    assert not [one for one in PROJECT["classifiers"] if one.startswith("License ::")], (
        "license is an expression"
    )


def test_every_classifier_is_one_of_pypi():
    known = pytest.importorskip("trove_classifiers").classifiers
    assert [one for one in PROJECT["classifiers"] if one not in known] == []


def test_the_citation_agrees_with_the_package():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert {"cff-version", "message", "title", "authors"} <= cited.keys()
    assert (cited["version"], cited["license"]) == (PROJECT["version"], PROJECT["license"])
    assert cited["authors"] == PROJECT["authors"]
    assert cited["repository-code"] == PROJECT["urls"]["Source"]


def test_the_changelog_knows_the_version():
    titles = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert titles[0] == "Unreleased" or titles[0].startswith(PROJECT["version"])
    assert any(title.startswith(PROJECT["version"]) for title in titles)


def test_issue_templates_are_forms():
    forms = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
    assert [path.name for path in forms] == ["bug.yml", "config.yml", "idea.yml"]
    for path in forms:
        form = yaml.safe_load(path.read_text(encoding="utf-8"))
        if path.name == "config.yml":
            continue
        assert {"name", "description", "body"} <= form.keys()
        ids = [field["id"] for field in form["body"] if field["type"] != "markdown"]
        assert len(ids) == len(set(ids))
        assert all(field["attributes"]["label"] for field in form["body"] if field["type"] != "markdown")


def test_contributing_and_reliability_name_what_is_there():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert set(re.findall(r"\bmake (\w+)`?", text)) - {"test"} <= set(targets)
    assert "make test" in text
    text += (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
    named = re.findall(r"`((?:docs|tests|src)/[\w./-]+)`", text)
    assert len(named) > 10
    assert [name for name in named if not (ROOT / name).exists()] == []


def instructions():
    """Name and rest of every instruction of the container file, in order."""
    text = (ROOT / "Containerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [tuple(line.split(maxsplit=1)) for line in lines]


def check(words):
    """Parse a command of limner without running it."""
    assert words[0] == "limner", words
    try:
        build_app(words[1:]).parse_args(words[1:], exit_on_error=False, print_error=False)
    except CycloptsError as error:
        pytest.fail(f"{words}: {error}")


def test_the_container_serves_the_studio_to_those_who_have_the_token():
    found = dict(instructions())
    words = [*json.loads(found["ENTRYPOINT"]), *json.loads(found["CMD"])]
    check(words)
    assert words[1] == "studio"
    options = dict(zip(words[2::2], words[3::2], strict=False))
    assert options["--library"] == found["VOLUME"]
    assert options["--port"] == found["EXPOSE"]
    # Other than loopback: reachable through a published port, and `limner.server.serving` asks for a token.
    assert options["--host"] == "0.0.0.0"  # noqa: S104
    assert "--no-browser" in words


def test_the_container_runs_as_a_user_without_rights_whose_volume_is_its_own():
    order = instructions()
    names = [name for name, _ in order]
    found = dict(order)
    assert found["USER"] not in ("root", "0")
    assert names.index("USER") < names.index("ENTRYPOINT")
    made = next(rest for name, rest in order if name == "RUN" and "useradd" in rest)
    assert f"chown {found['USER']} {found['VOLUME']}" in made
    assert names.index("USER") < names.index("VOLUME"), "a volume keeps the owner that the folder has"
    assert any(rest.endswith("rm -rf /source") for _, rest in order)
    assert not any("torch" in rest for _, rest in order), "the studio needs none"
    base = re.fullmatch(r"docker\.io/library/python:(3\.\d+)-slim", found["FROM"])[1]
    assert f"Programming Language :: Python :: {base}" in PROJECT["classifiers"]


def test_the_commands_of_the_container_page_exist():
    text = (ROOT / "docs" / "studio.md").read_text(encoding="utf-8").partition("## In a container")[2]
    runs = [shlex.split(line) for line in text.splitlines() if line.startswith("podman run")]
    assert len(runs) == 2
    for words in runs:
        place = words.index("limner")
        rest = words[place + 1 :] or json.loads(dict(instructions())["CMD"])
        check(["limner", *rest])
        mounts = {
            one.split(":")[1] for one in words[:place] if ":" in one and one.count(":") < 3 and "/" in one
        }
        assert rest[rest.index("--library") + 1] in mounts


def test_versions_agree():
    assert limner.__version__ == PROJECT["version"]
