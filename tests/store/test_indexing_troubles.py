"""Indexing in trouble: bad files, failing encoders, interrupts; and that nothing of the user's changes."""

import errno
import os
import shutil
import subprocess
import sys
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from fakes import FakeImages, FakeTexts, content, noise_picture

from limner.errors import ConfigError, DataError, NumericsError, ShapeError
from limner.store import index as indexing
from limner.store.database import Database
from limner.store.index import index
from limner.store.vectors import VectorFile

pytestmark = pytest.mark.slow


@pytest.fixture
def pictures(tmp_path):
    folder = tmp_path / "pictures"
    folder.mkdir()
    for number in range(6):
        noise_picture(number).save(folder / f"p{number}.png")
    return folder


@pytest.fixture
def library(tmp_path):
    return Database(tmp_path / "lib")


def run(sources, library, images=None, texts=None, **options):
    images = FakeImages() if images is None else images
    return index([sources], library, image_encoders=[images], text_encoder=texts or FakeTexts(), **options)


def counts(report):
    return {
        name: getattr(report, name)
        for name in ("new", "changed", "unchanged", "completed", "deleted")
        if getattr(report, name)
    }


def bad_files(folder):
    (folder / "zero.jpg").touch()
    (folder / "text.png").write_text("not a picture at all, only words")
    data = (folder / "p0.png").read_bytes()
    (folder / "short.png").write_bytes(data[: len(data) // 2])
    (folder / "broken.jpg").symlink_to(folder / "gone.jpg")
    (folder / "loop.jpg").symlink_to(folder / "loop.jpg")
    (folder / "phone.heic").write_bytes(b"\0\0\0\x18ftypheic\0\0\0\0mif1heic")
    os.mkfifo(folder / "pipe.jpg")
    return 7


def test_what_is_skipped_is_told_of_the_folders_of_a_run_alone(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "bad.png").write_bytes(b"")
    library = Database(tmp_path / "lib")
    for name in ("one", "two", "one"):
        report = run(tmp_path / name, library)
        assert [one.path for one in report.skipped] == [str(tmp_path / name / "bad.png")]
        assert report.unusable == report.found == 1
    assert len(library.skipped()) == 2


def test_bad_files_are_skipped_with_a_reason(pictures, library):
    bad = bad_files(pictures)
    shutil.copy(pictures / "p0.png", os.fsencode(pictures) + b"/gr\xfc\xdfe.JPG")
    bad += 1
    report = run(pictures, library)
    reasons = {Path(one.path).name: one.reason for one in report.skipped}
    assert len(reasons) == bad
    assert reasons["zero.jpg"] == "the file is empty"
    assert "not a picture" in reasons["text.png"]
    assert "truncated" in reasons["short.png"] or "damaged" in reasons["short.png"]
    assert reasons["broken.jpg"] == "broken link"
    assert "damaged HEIF" in reasons["phone.heic"]
    assert "pipe" in reasons["pipe.jpg"]
    assert report.pictures == 6
    assert "not UTF-8" in reasons["gr\\xfc\\xdfe.JPG"]
    assert len(library.find("p0.png").paths) == 1
    assert {(one.path, one.reason) for one in library.skipped()} == {
        (one.path, one.reason) for one in report.skipped
    }


def test_a_name_cannot_break_the_lines_of_the_report(pictures, library):
    (pictures / "a\nb\x1b[31m.jpg").touch()
    (line,) = (line for line in run(pictures, library).lines() if line.startswith("skipped"))
    assert line.endswith(r"a\nb\x1b[31m.jpg: the file is empty")


def test_bad_content_is_not_read_again_until_it_changes(pictures, library, monkeypatch):
    bad_files(pictures)
    run(pictures, library)
    read = []
    real = indexing.read_file
    monkeypatch.setattr(indexing, "read_file", lambda path: read.append(path) or real(path))
    again = run(pictures, library)
    assert (len(again.skipped), again.new, again.unusable, again.found) == (7, 0, 7, 13)
    assert read == []
    noise_picture(70).save(pictures / "zero.jpg")
    report = run(pictures, library)
    assert (len(read), report.pictures, len(report.skipped)) == (1, 7, 6)
    # Another Pillow may open what this one refused.
    library.save(reader="pillow-0")
    run(pictures, library)
    assert len(read) == 1 + 3


def test_a_file_without_permission_is_tried_again(pictures, library, monkeypatch):
    path = os.fsencode(pictures / "p0.png")
    real = os.open

    def refuse(name, *rest):
        if name == path:
            raise PermissionError(13, "Permission denied", name)
        return real(name, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse)
        report = run(pictures, library)
    assert "Permission denied" in report.skipped[0].reason
    assert run(pictures, library).pictures == 6


@pytest.mark.parametrize("call", ["open", "stat"])
def test_pictures_stay_when_their_drive_fails_during_a_run(pictures, library, monkeypatch, call):
    run(pictures, library)
    real, folder = getattr(os, call), os.fsencode(pictures) + b"/"

    def fail(name, *rest, **options):
        if isinstance(name, bytes) and name.startswith(folder):
            raise OSError(errno.EIO, "Input/output error", name)
        return real(name, *rest, **options)

    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        patch.setattr(os, "lstat", fail if call == "stat" else os.lstat)
        for path in pictures.glob("*.png"):
            path.chmod(0o600)
        report = run(pictures, library)
    assert (report.pictures, report.unusable, report.found, report.deleted) == (6, 6, 6, 0)
    assert len(report.skipped) == 6
    assert "stays in the library" in report.skipped[0].reason
    again = run(pictures, library)
    assert (again.unchanged, again.skipped) == (6, ())


def test_damaged_metadata_is_a_warning(pictures, library):
    (pictures / "p1.json").write_text("{broken")
    noise_picture(50).save(pictures / "exif.jpg", exif=b"Exif\0\0MM\0*\xff\xff\xff\xff garbage")
    report = run(pictures, library)
    assert {Path(one.path).name for one in report.warnings} == {"p1.png", "exif.jpg"}
    assert (report.pictures, report.skipped) == (7, ())


def test_pictures_are_never_modified(pictures, library):
    (pictures / "p1.txt").write_text("a goat")
    bad_files(pictures)

    def state():
        return {
            path.name: (
                path.lstat().st_mtime_ns,
                path.lstat().st_mode,
                path.read_bytes() if path.is_file() else b"",
            )
            for path in pictures.iterdir()
            if path.name != "loop.jpg"
        }

    before = state()
    run(pictures, library)
    run(pictures, library, FakeImages(fingerprint="grid-2"))
    assert state() == before


def test_an_encoder_that_fails_leaves_a_library_that_goes_on(pictures, library, monkeypatch):
    class Breaking(FakeImages):
        def encode_pixels(self, batch):
            if self.encoded >= 2:
                raise RuntimeError("power cut")
            return super().encode_pixels(batch)

    monkeypatch.setattr(indexing, "BATCH_PICTURES", 2)
    monkeypatch.setattr(indexing, "COMMIT_FILES", 2)
    with pytest.raises(RuntimeError, match="power cut"):
        run(pictures, library, Breaking())
    kept = library.vectors()["visual"]
    encoder = FakeImages()
    report = run(pictures, library, encoder)
    assert 0 < kept < 6
    assert encoder.encoded == 6 - kept
    assert (report.pictures, report.incomplete) == (6, {})


def test_vectors_that_are_no_numbers_or_too_wide_are_refused(pictures, library):
    class NotNumbers(FakeImages):
        def encode_pixels(self, batch):
            made = super().encode_pixels(batch)
            made.spaces[self.space][0, 0] = np.nan
            return made

    with pytest.raises(NumericsError, match=r"grid .*not finite"):
        run(pictures, library, NotNumbers())
    wide = FakeImages()
    wide.spaces = {"visual": 50}
    with pytest.raises(ShapeError, match="48"):
        run(pictures, library, wide)


def test_two_encoders_for_one_space(pictures, library):
    with pytest.raises(ConfigError, match="both make the space 'visual'"):
        index([pictures], library, image_encoders=[FakeImages(), FakeImages("twin")])


def test_a_second_run_waits_and_can_be_ended(pictures, library):
    watch, asked = Watch(), []
    with library.indexing(lambda: True), pytest.raises(DataError, match="another 'limner index' is running"):
        run(pictures, library, progress=watch, stop=lambda: asked.append(1) or len(asked) > 2)
    assert len(watch.lines) == 1
    assert "this one waits" in watch.lines[0]


class Watch:
    def __init__(self):
        self.lines, self.stages, self.done = [], [], 0

    def stage(self, name, total):
        self.stages.append(name)

    def total(self, total):
        pass

    def advance(self, count):
        self.done += count

    def note(self, line):
        self.lines.append(line)


INTERRUPTED = """
import signal, sys
from fakes import FakeImages, FakeTexts
from limner.store import index as ingest
from limner.store.database import Database

ingest.BATCH_PICTURES = ingest.COMMIT_FILES = 2

class Interrupting(FakeImages):
    def encode_pixels(self, batch):
        if not self.encoded:
            signal.raise_signal(signal.SIGINT)
        return super().encode_pixels(batch)

class Watch:
    stage = total = advance = lambda self, *_: None
    note = lambda self, line: print(line)

pictures, folder = sys.argv[1:]
images, watch, before = Interrupting(), Watch(), signal.getsignal(signal.SIGINT)
report = ingest.index(
    [pictures], Database(folder), image_encoders=[images], text_encoder=FakeTexts(), progress=watch
)
print(report.interrupted, report.found, report.new, images.encoded, signal.getsignal(signal.SIGINT) is before)
"""


def test_ctrl_c_ends_after_the_batch_and_counts_what_was_read(pictures, library):
    """In a process of its own: an interrupt that goes astray would end the tests."""
    command = [sys.executable, "-X", "faulthandler", "-c", INTERRUPTED, pictures, library.folder]
    places = (str(Path(__file__).parents[1] / "support"), os.environ.get("PYTHONPATH", ""))
    beside = os.environ | {"PYTHONPATH": os.pathsep.join(places)}
    done = subprocess.run(command, env=beside, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["True 2 2 2 True"]  # what was read, and nothing else
    assert library.vectors()["visual"] == 2
    second = FakeImages()
    assert run(pictures, library, second).pictures == 6
    assert second.encoded == 4


def test_progress_hears_of_every_file(pictures, library):
    bad = bad_files(pictures)
    (pictures / "p1.txt").write_text("a goat")
    watch = Watch()
    run(pictures, library, progress=watch)
    assert watch.stages == ["pictures", "captions"]
    assert watch.done == 6 + bad + 1


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("step", ["vectors", "pictures", "commit"])
def test_a_cut_between_any_two_writes_is_mended(pictures, tmp_path, monkeypatch, step, after):
    """As if killed right before or after a part of the second batch was written."""
    (pictures / "p1.txt").write_text("a goat")
    shutil.copy(pictures / "p0.png", pictures / "white-goat.png")
    monkeypatch.setattr(indexing, "COMMIT_FILES", 3)

    def fill(folder):
        index([pictures], folder, image_encoders=[FakeImages()], text_encoder=FakeTexts())
        return content(Database(folder))

    due = fill(tmp_path / "undisturbed")
    place, name = {
        "vectors": (VectorFile, "write"),
        "pictures": (Database, "_refresh"),
        "commit": (Database, "add"),
    }[step]
    real, passed = getattr(place, name), count()

    def cut(*given):
        second = next(passed) == 1
        if second and not after:
            raise KeyboardInterrupt
        real(*given)
        if second:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(place, name, cut)
        patch.setattr(indexing, "BATCH_PICTURES", 2)
        with pytest.raises(KeyboardInterrupt):
            index([pictures], tmp_path / "cut", image_encoders=[FakeImages()])
    assert fill(tmp_path / "cut") == due
