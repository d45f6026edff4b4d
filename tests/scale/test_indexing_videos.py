"""Videos in a folder: their frames are pictures of the library, come and go with them, and are drawn once."""

import json
import sys
from pathlib import Path

import pytest
from fakes import FakeImages, noise_picture
from video_files import BLACK, GREEN, SUNNY, write_video

from limner.cli.main import run as limner
from limner.pictures import decode as images
from limner.pictures import videos
from limner.scale.ingest import index
from limner.scale.library import PictureStore

pytestmark = pytest.mark.slow


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "pictures"
    folder.mkdir()
    noise_picture(1).save(folder / "p1.png")
    write_video(folder / "IMG_0001.mp4", SUNNY, GREEN, title="Grandma bakes bread")
    return folder


@pytest.fixture
def library(tmp_path):
    return PictureStore(tmp_path / "lib")


def run(folder, library, **options):
    return index([folder], library, image_encoders=[FakeImages()], **options)


def counts(report):
    names = ("videos", "found", "new", "changed", "unchanged", "deleted", "pictures")
    return {name: getattr(report, name) for name in names if getattr(report, name)}


def frame_files(library):
    return sorted(path.name for path in library.folder.rglob("*.jpg"))


def test_frames_become_pictures_with_words_and_their_origin(folder, library):
    before = (folder / "IMG_0001.mp4").read_bytes()
    report = run(folder, library)
    assert counts(report) == {"videos": 1, "found": 3, "new": 3, "pictures": 3}
    assert "frames of 1 video are among the pictures" in str(report)
    frame = library.find("000003.0s.jpg")
    assert [one.text for one in frame.captions] == ["Grandma bakes bread"]
    assert frame.credit == "IMG_0001.mp4 at 3.0 s"
    assert (frame.format, frame.width_px) == ("JPEG", 96)
    assert library.file_of(frame.id).is_relative_to(library.folder.resolve())
    assert len(library.gallery(["visual"]).ids) == 3
    assert (folder / "IMG_0001.mp4").read_bytes() == before


def test_an_unchanged_video_is_not_decoded_again(folder, library, monkeypatch):
    run(folder, library)
    monkeypatch.setattr(videos, "_draw", lambda *_: pytest.fail("decoded again"))
    assert counts(run(folder, library)) == {"videos": 1, "found": 3, "unchanged": 3, "pictures": 3}


def test_a_changed_video_takes_its_former_frames_along(folder, library):
    run(folder, library)
    write_video(folder / "IMG_0001.mp4", GREEN, BLACK, SUNNY)
    report = run(folder, library)
    assert counts(report) == {
        **{"videos": 1, "found": 3, "new": 1, "changed": 1, "unchanged": 1},
        **{"deleted": 1, "pictures": 3},
    }
    assert frame_files(library) == ["000000.0s.jpg", "000006.0s.jpg"]


def test_a_deleted_video_and_one_that_comes_back(folder, library, tmp_path):
    run(folder, library)
    away = (folder / "IMG_0001.mp4").rename(tmp_path / "away.mp4")
    assert counts(run(folder, library)) == {"found": 1, "unchanged": 1, "deleted": 2, "pictures": 1}
    assert frame_files(library) == []
    away.rename(folder / "IMG_0001.mp4")
    assert counts(run(folder, library)) == {"videos": 1, "found": 3, "new": 2, "unchanged": 1, "pictures": 3}


def test_a_run_over_another_folder_leaves_the_frames(folder, library, tmp_path):
    run(folder, library)
    other = tmp_path / "other"
    other.mkdir()
    noise_picture(2).save(other / "p2.png")
    assert counts(run(other, library)) == {"found": 1, "new": 1, "pictures": 4}
    assert len(frame_files(library)) == 2


def test_a_video_that_breaks_is_listed_and_tried_again_when_it_changes(folder, library, monkeypatch):
    run(folder, library)
    video = folder / "IMG_0001.mp4"
    data = video.read_bytes()
    video.write_bytes(data[: len(data) // 2])
    report = run(folder, library)
    assert counts(report) == {"found": 2, "unchanged": 1, "deleted": 2, "pictures": 1}
    (problem,) = report.skipped
    assert problem.path == str(video)
    assert "damaged or unknown video" in problem.reason
    with monkeypatch.context() as patched:
        patched.setattr(videos, "frames", lambda *_: pytest.fail("tried again"))
        assert run(folder, library).skipped == report.skipped
    video.write_bytes(data)
    assert (run(folder, library).pictures, library.skipped()) == (3, [])


def test_without_the_extra_it_is_counted_and_listed_and_read_once_that_is_installed(
    folder, library, monkeypatch
):
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "av", None)
        real = images.version
        without.setattr(images, "version", lambda name: "0" if name == "av" else real(name))
        report = run(folder, library)
    assert counts(report) == {"found": 2, "new": 1, "pictures": 1}
    assert [one.reason for one in report.skipped] == [
        "frames of videos (.mp4) need av, which is not installed; run: pip install 'limner[video]'"
    ]
    again = run(folder, library)
    assert (again.pictures, again.skipped) == (3, ())


def test_cancel_between_frames_and_go_on(folder, library, monkeypatch):
    drawing = []
    real = videos._upright
    monkeypatch.setattr(videos, "_upright", lambda *frame: drawing.append(1) or real(*frame))
    report = run(folder, library, stop=lambda: len(drawing) > 0)
    assert (report.interrupted, len(drawing), frame_files(library)) == (True, 1, [])
    assert run(folder, library).pictures == 3


def test_a_video_in_a_list_and_in_the_folder_beside_it_counts_once(folder, library):
    table = folder.parent / "list.jsonl"
    row = {"file_name": "pictures/IMG_0001.mp4", "text": "Bread in the oven"}
    table.write_text(json.dumps(row))
    report = index([table, folder], library)
    assert counts(report) == {"videos": 1, "found": 3, "new": 3, "pictures": 3}
    assert library.find("000000.0s.jpg").captions[0].text == "Bread in the oven"
    (folder / "IMG_0001.mp4").unlink()
    table.write_text(json.dumps({"file_name": "pictures/p1.png", "text": "Noise"}))
    assert index([table, folder], library).pictures == 1


def test_two_copies_have_frames_of_their_own(folder, library):
    copy = folder / "copy"
    copy.mkdir()
    (copy / "IMG_0001.mp4").write_bytes((folder / "IMG_0001.mp4").read_bytes())
    report = run(folder, library)
    assert (report.videos, report.exact_duplicates, report.pictures) == (2, 2, 3)
    (copy / "IMG_0001.mp4").unlink()
    assert (run(folder, library).pictures, len(frame_files(library))) == (3, 2)


def test_a_frame_stands_in_a_document_like_any_picture(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("text.md").write_text("# Bread\n\nGrandma bakes bread in her kitchen.\n", "utf-8")
    assert limner(["index", str(folder), "--library", "books", "--encoder", "colour"]) == 0
    assert limner(["illustrate", "text.md", "--library", "books", "-o", "page.html"]) == 0
    assert "IMG_0001.mp4 at" in Path("page.html").read_text("utf-8")
