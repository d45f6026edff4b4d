"""Dispatch by suffix, and what no export may do to files that are there."""

import hashlib
import os
from pathlib import Path

import pytest
from PIL import Image

from limner.errors import ConfigError, DataError, MissingError
from limner.export import SUFFIXES, Plan, check, export
from limner.records import Between, Board, PictureRef
from limner.text.document import checked, deny_outside_files

BINARY = {
    ".pdf": b"%PDF",
    ".pptx": b"PK",
    ".docx": b"PK",
    ".epub": b"PK",
    ".html": b"<!doctype html>",
    ".json": b"{",
    ".md": b"---\nauthor",
}


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_each_suffix_writes_its_format(board: Board, tmp_path: Path, suffix: str) -> None:
    done = export(board, tmp_path / f"out{suffix.upper()}")
    assert done.path.read_bytes().startswith(BINARY[suffix])
    assert done.warnings == ()
    assert len(done.pictures) == (5 if suffix == ".md" else 0)


@pytest.mark.parametrize("name", ["out.htm", "out", "out.odt"])
def test_unknown_suffix(board: Board, tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match=r"unknown output format .* choices: \.docx"):
        export(board, tmp_path / name)
    with pytest.raises(ConfigError):
        check(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_failure_leaves_what_was_there(make_board, pictures, tmp_path: Path, suffix: str) -> None:
    gone = pictures["turned"].model_copy(update={"paths": (str(tmp_path / "gone.jpg"),)})
    broken = make_board(swap=gone)
    if suffix == ".json":
        broken = broken.model_copy(update={"threshold": float("nan")})
    out = tmp_path / f"out{suffix}"
    out.write_text("before")
    with pytest.raises((DataError, ValueError)) as caught:
        export(broken, out, overwrite=True)
    if suffix != ".json":
        assert "step 1" in str(caught.value)
        assert "gone.jpg" in str(caught.value)
    assert out.read_text() == "before"
    assert [path.name for path in tmp_path.iterdir()] == [out.name]


@pytest.mark.parametrize("suffix", [".html", ".pdf", ".pptx", ".docx", ".epub", ".md"])
def test_an_unreadable_picture_is_named(make_board, pictures, tmp_path: Path, suffix: str) -> None:
    (tmp_path / "bad.jpg").write_bytes(b"not a picture")
    bad = pictures["turned"].model_copy(update={"paths": (str(tmp_path / "bad.jpg"),)})
    with pytest.raises(DataError, match=r"step 1.*bad\.jpg"):
        export(make_board(swap=bad), tmp_path / f"out{suffix}")


@pytest.mark.parametrize("originals", [False, True], ids=["copies", "originals"])
@pytest.mark.parametrize("suffix", [".html", ".pdf", ".pptx", ".docx", ".epub", ".md"])
def test_nothing_of_a_file_that_is_not_the_picture_indexed_is_exported(
    make_board, pictures, tmp_path: Path, suffix: str, originals: bool
) -> None:
    Image.new("RGB", (30, 20)).save(tmp_path / "secret.png")
    other = pictures["turned"].model_copy(update={"paths": (str(tmp_path / "secret.png"),)})
    before = sorted(tmp_path.iterdir())
    with pytest.raises(DataError, match=r"step 1.*secret\.png has changed"):
        export(make_board(swap=other), tmp_path / f"out{suffix}", plan=Plan(originals=originals))
    assert sorted(tmp_path.iterdir()) == before
    paths = (str(tmp_path / "secret.png"), *pictures["turned"].paths)
    sound = pictures["turned"].model_copy(update={"paths": paths})
    export(make_board(swap=sound), tmp_path / f"out{suffix}", plan=Plan(originals=originals))


def test_what_is_no_picture_is_not_exported_whatever_its_record_says(make_board, pictures, tmp_path: Path):
    secret = tmp_path / "secret.png"
    secret.write_text("a key")
    named = {"paths": (str(secret),), "id": hashlib.sha256(b"a key").hexdigest()}
    board = make_board(swap=pictures["turned"].model_copy(update=named))
    with pytest.raises(DataError, match=r"secret\.png"):
        export(board, tmp_path / "out.md", plan=Plan(originals=True))
    assert not (tmp_path / "out_pictures").exists()


@pytest.mark.parametrize("suffix", [".html", ".pdf", ".pptx", ".docx", ".epub", ".md"])
def test_a_picture_between_the_steps_is_the_one_that_was_there_when_the_text_was_read(
    board: Board, tmp_path: Path, suffix: str
) -> None:
    Image.new("RGB", (30, 20)).save(tmp_path / "own.png")
    named = PictureRef(target="own.png", path=str(tmp_path / "own.png"))
    for number, due in enumerate((0, 1)):
        between = (Between(kind="paragraph", before=0, pictures=(named,)),)
        story = board.story.model_copy(update={"between": between})
        if not due:  # as read, and not as a storyboard from elsewhere says
            story = checked(story, tmp_path, deny_outside_files)
        done = export(board.model_copy(update={"story": story}), tmp_path / f"out{number}{suffix}")
        assert len([line for line in done.warnings if "own.png of the text is left out" in line]) == due


def test_existing_file_needs_leave(board: Board, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    out.write_text("mine")
    with pytest.raises(DataError, match="exists already"):
        export(board, out)
    assert out.read_text() == "mine"
    export(board, out, overwrite=True)
    assert out.read_text().startswith("{")


def test_folders_are_refused(board: Board, tmp_path: Path) -> None:
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
        export(make_board(swap=mine), out, overwrite=True)
    assert original.read_bytes() == before


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_originals_are_untouched(board: Board, pictures, tmp_path: Path, suffix: str) -> None:
    def state() -> list[tuple[bytes, int, int]]:
        files = [Path(picture.path) for picture in pictures.values()]
        return [(file.read_bytes(), file.stat().st_mtime_ns, file.stat().st_mode) for file in files]

    before = state()
    export(board, tmp_path / f"out{suffix}")
    assert state() == before


def test_steps_must_be_those_of_the_story(board: Board, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"expected \[0, 1, 2, 3, 4, 5\]"):
        export(board.model_copy(update={"steps": board.steps[1:]}), tmp_path / "out.html")


def test_umask_decides_who_may_read(board: Board, tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        export(board, tmp_path / "out.json")
    finally:
        os.umask(old)
    assert (tmp_path / "out.json").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("suffix", ["md", "pptx"])
def test_predictions_of_a_model_are_told_in_every_text(model_board, tmp_path: Path, suffix: str) -> None:
    out = export(model_board, tmp_path / f"out.{suffix}", plan=Plan(with_reasons=True)).path
    if suffix == "md":
        text = out.read_text(encoding="utf-8")
    else:
        from pptx import Presentation

        text = "\n".join(slide.notes_slide.notes_text_frame.text for slide in Presentation(str(out)).slides)
    assert text.count("The picture shows the result of this step (81 %).") == 5
    assert text.count("Words with the most attention: ") == 6
