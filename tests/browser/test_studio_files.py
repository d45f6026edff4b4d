"""The studio's pages as files: nothing from elsewhere, no words put in as HTML, every name resolved."""

import re
from pathlib import Path

import limner.studio

STATIC = Path(limner.studio.__file__).parent / "static"
FILES = sorted(STATIC.iterdir())
TEXTS = {file.name: file.read_text(encoding="utf-8") for file in FILES}


def test_nothing_comes_from_elsewhere() -> None:
    for name, text in TEXTS.items():
        found = set(
            re.findall(r"(?:https?:)?//[\w.-]+\.[a-z]{2,}[^\s\"'`)]*", re.sub(r"(?m)^\s*//.*$", "", text))
        )
        assert found <= {"http://www.w3.org/2000/svg"}, name


def test_no_text_can_become_markup() -> None:
    ways = r"(inner|outer|insertAdjacent|set)HTML|document\.write|DOMParser|srcdoc|\beval\(|new Function"
    for name, text in TEXTS.items():
        if name.endswith(".js"):
            assert not re.search(ways, text), name


def test_pages_hold_no_script_or_style_of_their_own() -> None:
    for name, text in TEXTS.items():
        if name.endswith(".html"):
            assert not re.search(r"<style|\sstyle=|\son\w+=|javascript:", text), name
            assert all("src=" in tag for tag in re.findall(r"<script[^>]*>", text)), name


def test_files_that_are_named_exist() -> None:
    for name, text in TEXTS.items():
        named = re.findall(r"[\"'(](?:/static/|\./)([\w.-]+\.(?:js|css|svg))", text)
        named += re.findall(r"url\(\"([\w.-]+)\"\)", text)
        assert set(named) <= set(TEXTS), name


def test_icons_that_are_named_are_drawn() -> None:
    drawn = set(re.findall(r"<symbol id=\"([\w-]+)\"", TEXTS["icons.svg"]))
    for name, text in TEXTS.items():
        named = set(re.findall(r"icons\.svg#([\w-]+)", text)) | set(re.findall(r"look: \"([\w-]+)\"", text))
        assert named <= drawn, name


def test_colours_are_in_one_place() -> None:
    for name, text in TEXTS.items():
        if name.endswith(".css") and name != "base.css":
            assert not re.search(
                r"#[0-9a-f]{3,8}\b(?!\")", re.sub(r"#[\w-]+(?=[\s:,.>\[{][^;]*\{)", "", text)
            ), name
