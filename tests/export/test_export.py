"""Dispatch by suffix, and what no export may do to files that are there."""

import hashlib
import os
from pathlib import Path

import pytest
from exports import FORMATS
from PIL import Image

from limner.errors import ConfigError, DataError, MissingError
from limner.export import export
from limner.records import Board

BEGINNINGS = {".html": b"<!doctype html>", ".pdf": b"%PDF", ".json": b"{"}
"""First bytes of a file; those of the others are of a ZIP."""


@pytest.mark.parametrize("suffix", [*FORMATS, ".json"])
def test_each_suffix_writes_its_format_and_touches_no_picture(
    board: Board, pictures, tmp_path: Path, suffix: str
) -> None:
    def state() -> list[tuple[bytes, int, int]]:
        files = [Path(picture.path) for picture in pictures.values()]
        return [(file.read_bytes(), file.stat().st_mtime_ns, file.stat().st_mode) for file in files]

    before, umask = state(), os.umask(0o027)
    try:
        done = export(board, tmp_path / f"out{suffix.upper()}")
    finally:
        os.umask(umask)
    assert done.path.read_bytes().startswith(BEGINNINGS.get(suffix, b"PK"))
    assert (done.pictures, done.warnings) == ((), ())
    assert done.path.stat().st_mode & 0o777 == 0o640
    assert state() == before


@pytest.mark.parametrize("suffix", FORMATS)
def test_only_the_picture_indexed_is_exported_and_a_failure_leaves_what_was_there(
    make_board, pictures, tmp_path: Path, suffix: str
) -> None:
    bad, secret, gone = (str(tmp_path / name) for name in ("bad.jpg", "secret.png", "gone.jpg"))
    Path(bad).write_bytes(b"a key")
    Image.new("RGB", (30, 20)).save(secret)
    out = tmp_path / f"out{suffix}"
    out.write_text("before")
    for change, message in (
        ({"paths": (bad,)}, r"step 1.*bad\.jpg has changed"),
        ({"paths": (secret,)}, r"step 1.*secret\.png has changed"),
        ({"paths": (bad,), "id": hashlib.sha256(b"a key").hexdigest()}, r"step 1.*bad\.jpg"),
        ({"paths": (gone,)}, r"step 1.*gone\.jpg does not exist"),
        ({"paths": ()}, "has no file"),
    ):
        board = make_board(["One step."], swap=pictures["turned"].model_copy(update=change))
        with pytest.raises(DataError, match=message):
            export(board, out, overwrite=True)
    assert out.read_text() == "before"
    assert {path.name for path in tmp_path.iterdir()} == {"bad.jpg", "secret.png", out.name}
    paths = (secret, *pictures["turned"].paths)
    board = make_board(["One step."], swap=pictures["turned"].model_copy(update={"paths": paths}))
    export(board, out, overwrite=True)


def test_what_is_no_target(board: Board, tmp_path: Path) -> None:
    for name in ("out.htm", "out", "out.odt"):
        with pytest.raises(ConfigError, match=r"unknown output format .* choices: \.docx"):
            export(board, tmp_path / name)
    with pytest.raises(DataError, match=r"expected \[0, 1, 2, 3, 4, 5\]"):
        export(board.model_copy(update={"steps": board.steps[1:]}), tmp_path / "out.html")
    assert list(tmp_path.iterdir()) == []
    out = tmp_path / "out.json"
    out.write_text("mine")
    with pytest.raises(DataError, match="exists already"):
        export(board, out)
    assert out.read_text() == "mine"
    export(board, out, overwrite=True)
    assert out.read_text().startswith("{")
    (tmp_path / "out.html").mkdir()
    with pytest.raises(DataError, match="is a folder"):
        export(board, tmp_path / "out.html", overwrite=True)
    with pytest.raises(MissingError, match="does not exist"):
        export(board, tmp_path / "no" / "out.html")


@pytest.mark.parametrize("link", ["same", "symbolic", "hard"])
def test_never_onto_a_picture(make_board, pictures, tmp_path: Path, link: str) -> None:
    original = tmp_path / ("out.html" if link == "same" else "original.png")
    Image.new("RGB", (8, 8)).save(original, "PNG")
    before = original.read_bytes()
    out = tmp_path / "out.html"
    if link == "symbolic":
        out.symlink_to(original)
    elif link == "hard":
        os.link(original, out)
    mine = pictures["turned"].model_copy(update={"paths": (pictures["turned"].path, str(original))})
    with pytest.raises(DataError, match="of the collection"):
        export(make_board(["One step."], swap=mine), out, overwrite=True)
    assert original.read_bytes() == before
