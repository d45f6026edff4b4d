"""Indexing: what is read, what is left alone, what is marked, and that nothing of the user's changes."""

import hashlib
import json
import os
import shutil
import time
from pathlib import Path

import numpy as np
import pytest
from fakes import FakeImages, FakeTexts, noise_picture
from PIL import Image

from limner.errors import DataError, MissingError
from limner.pictures.hashes import phash
from limner.records import Problem
from limner.store import Only
from limner.store.database import Database
from limner.store.index import IndexReport, MovedFolder, index


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
        for name in ("new", "changed", "unchanged", "completed", "moved", "deleted")
        if getattr(report, name)
    }


def test_a_first_run_and_an_idle_one(pictures, library):
    encoder = FakeImages()
    (pictures / "notes.docx").write_text("no picture")
    report = run(pictures, library, encoder)
    assert counts(report) == {"new": 6}
    assert (report.pictures, report.found, report.other_files, encoder.encoded) == (6, 6, 1, 6)
    assert report.encoded == {"grid": 6}
    assert report.incomplete == {}
    assert IndexReport.model_validate_json(report.model_dump_json()) == report
    files = {
        path: path.read_bytes()
        for path in (library.folder / "library.sqlite", *library.folder.glob("vectors/*"))
    }
    assert len(files) >= 2
    assert counts(run(pictures, library, encoder)) == {"unchanged": 6}
    assert encoder.encoded == 6
    assert {path: path.read_bytes() for path in files} == files


@pytest.mark.slow
def test_rates_are_those_of_the_whole_run(pictures, library):
    """Encoding captions comes after reading pictures, and counts."""

    class SlowTexts(FakeTexts):
        def encode_text(self, texts):
            time.sleep(0.5)
            return super().encode_text(texts)

    (pictures / "p1.txt").write_text("a goat on a roof")
    start = time.monotonic()
    report = run(pictures, library, texts=SlowTexts())
    assert 0.5 <= report.seconds <= time.monotonic() - start
    assert report.pictures_per_s == pytest.approx(6 / report.seconds)


def test_pictures_are_stored_as_they_are(pictures, library):
    exif = Image.Exif()
    exif[0x0112], exif[0x010E], exif[0x8298], exif[0x0110] = 6, "A goat on a roof", "CC0", "iPhone 13"
    exif.get_ifd(0x8769).update({0x9003: "2019:07:21 14:03:55", 0x9291: "48", 0x9011: "+02:00"})
    noise_picture(50, (60, 40)).save(pictures / "IMG_1.jpg", exif=exif)
    run(pictures, library)
    picture = library.find("IMG_1.jpg")
    data = (pictures / "IMG_1.jpg").read_bytes()
    assert picture.id == hashlib.sha256(data).hexdigest()
    assert (picture.width_px, picture.height_px, picture.format) == (40, 60, "JPEG")
    assert picture.size_bytes == len(data)
    assert picture.paths == (str(pictures / "IMG_1.jpg"),)
    assert picture.taken.isoformat() == "2019-07-21T14:03:55.480000+02:00"
    assert (picture.taken_from, picture.camera) == ("camera", "iPhone 13")
    assert [(one.text, one.source) for one in picture.captions] == [("A goat on a roof", "exif")]
    assert picture.license == "CC0"
    assert picture.group == picture.id


def test_vectors_are_those_of_the_encoder(pictures, library):
    encoder = FakeImages()
    run(pictures, library, encoder)
    gallery = library.index(["visual"]).gallery
    for row, one in enumerate(gallery.ids):
        with Image.open(library.pictures([one])[0].path) as image:
            due = encoder.encode_pixels(encoder.prepare(image.convert("RGB"))[None]).spaces["visual"][0]
        assert np.allclose(gallery.space("visual").vectors([row])[0], due, atol=1e-6)


def test_only_changed_files_are_read(pictures, library):
    encoder = FakeImages()
    run(pictures, library, encoder)
    noise_picture(40).save(pictures / "p0.png")
    os.utime(pictures / "p1.png")
    report = run(pictures, library, encoder)
    assert counts(report) == {"changed": 2, "unchanged": 4}
    # The touched file has its old content, so that only the other one is encoded.
    assert encoder.encoded == 7
    assert len(library) == 6


@pytest.mark.slow
def test_deleted_files_are_marked_and_come_back_without_encoding(pictures, library, tmp_path):
    encoder = FakeImages()
    run(pictures, library, encoder)
    gone = library.find("p3.png").id
    shutil.move(pictures / "p3.png", tmp_path / "away.png")
    assert counts(run(pictures, library, encoder)) == {"deleted": 1, "unchanged": 5}
    assert len(library) == 5
    assert gone not in library.passing(Only())
    with pytest.raises(DataError, match="deleted"):
        library.pictures([gone])
    assert counts(run(pictures, library, encoder)) == {"unchanged": 5}
    shutil.move(tmp_path / "away.png", pictures / "p3.png")
    assert counts(run(pictures, library, encoder)) == {"new": 1, "unchanged": 5}
    assert gone in library.passing(Only())
    assert encoder.encoded == 6


def test_a_moved_picture_is_not_encoded_again(pictures, library):
    encoder = FakeImages()
    run(pictures, library, encoder)
    one = library.find("p2.png").id
    (pictures / "sub").mkdir()
    (pictures / "p2.png").rename(pictures / "sub" / "red-barn.png")
    assert counts(run(pictures, library, encoder)) == {"moved": 1, "unchanged": 5}
    assert encoder.encoded == 6
    picture = library.pictures([one])[0]
    assert picture.paths == (str(pictures / "sub" / "red-barn.png"),)
    assert [caption.text for caption in picture.captions] == ["red barn"]


@pytest.mark.slow
def test_exact_duplicates_are_one_picture(pictures, library):
    encoder = FakeImages()
    shutil.copy(pictures / "p0.png", pictures / "white-goat-roof.png")
    shutil.copy(pictures / "p0.png", pictures / "a second copy.png")
    report = run(pictures, library, encoder)
    assert (report.pictures, report.exact_duplicates, encoder.encoded) == (6, 2, 6)
    picture = library.find("p0.png")
    assert [Path(path).name for path in picture.paths] == [
        "a second copy.png",
        "p0.png",
        "white-goat-roof.png",
    ]
    assert [caption.text for caption in picture.captions] == ["a second copy", "white goat roof"]
    (pictures / "a second copy.png").unlink()
    run(pictures, library, encoder)
    assert [caption.text for caption in library.find("p0.png").captions] == ["white goat roof"]


def test_near_duplicates_are_linked_and_unlinked(pictures, library):
    noise_picture(0).resize((30, 22)).save(pictures / "small.png")
    report = run(pictures, library)
    assert (report.near_groups, report.near_pictures) == (1, 2)
    one, other = library.find("p0.png"), library.find("small.png")
    assert one.group == other.group == one.id
    (pictures / "p0.png").unlink()
    report = run(pictures, library)
    assert report.near_groups == 0
    assert library.find("small.png").group == other.id


@pytest.mark.parametrize(
    ("times", "same"),
    [(("10:11:07", "10:11:08"), True), (("00:00:00", "00:00:00"), False)],
    ids=["a second apart", "a day without a time"],
)
def test_pictures_of_a_burst_are_linked_by_their_times(pictures, library, times, same):
    picture = noise_picture(40).resize((6, 5)).resize((120, 100))
    one, other = picture.crop((0, 0, 100, 80)), picture.crop((3, 2, 103, 82))
    for name, image, time_of_day in (("one", one, times[0]), ("two", other, times[1])):
        exif = Image.Exif()
        exif.get_ifd(0x8769)[0x9003] = f"2024:05:04 {time_of_day}"
        image.save(pictures / f"{name}.jpg", exif=exif)
    other.save(pictures / "undated.png")
    assert 4 < _bits(one, other) <= 16
    run(pictures, library)
    first, second, undated = (library.find(name) for name in ("one.jpg", "two.jpg", "undated.png"))
    assert (first.group == second.group) == same
    assert second.group == undated.group  # as a copy


@pytest.mark.parametrize(
    ("names", "made", "same"),
    [
        pytest.param(("DSC_1_9", "DSC_1_10", "DSC_1_11"), (2, 0, ""), True, id="6 bits"),
        pytest.param(("DSC_1_9", "DSC_1_10", "DSC_1_11"), (2, 0, "00:00:00"), True, id="a day"),
        pytest.param(("DSC_1_9", "DSC_1_10", "DSC_1_11"), (2, 0, "10:{}:12"), False, id="times"),
        pytest.param(("DSC_1_9", "DSC_1_10", "DSC_1_11"), (3, 1, ""), False, id="8 bits"),
        pytest.param(("DSC_1_9", "DSC_1_10", "DSC_1_12"), (2, 0, ""), False, id="only two follow"),
        pytest.param(("page-1", "page-2", "page-3"), (2, 0, ""), False, id="no camera"),
    ],
)
def test_frames_without_times_are_linked_by_their_camera_s_numbers(pictures, library, names, made, same):
    picture = noise_picture(40).resize((6, 5)).resize((120, 100))
    for number, name in enumerate(names):
        left, top = number * made[0], number * made[1]
        exif = Image.Exif()
        exif[0x0110] = "D750"
        exif.get_ifd(0x8769)[0x9003] = "2024:05:04 " + made[2].format(10 + number)
        picture.crop((left, top, left + 100, top + 80)).save(pictures / f"{name}.png", exif=exif)
    run(pictures, library)
    groups = {library.find(f"{name}.png").group for name in names}
    assert (len(groups) == 1) == same


def _bits(one, other):
    return (phash(one) ^ phash(other)).bit_count()


@pytest.mark.slow
def test_a_sidecar_is_noticed_though_the_picture_is_the_same(pictures, library):
    images, texts = FakeImages(), FakeTexts()
    run(pictures, library, images, texts)
    assert texts.encoded == []
    (pictures / "p1.txt").write_text("a goat on a roof")
    report = run(pictures, library, images, texts)
    assert (counts(report), report.captions_encoded) == ({"changed": 1, "unchanged": 5}, 1)
    (pictures / "p1.txt").write_text("a hen in a tree, seen from below")
    run(pictures, library, images, texts)
    assert texts.encoded == ["a goat on a roof", "a hen in a tree, seen from below"]
    assert library.index(["captions"]).gallery.space("captions").present.sum() == 1
    (pictures / "p1.txt").unlink()
    run(pictures, library, images, texts)
    assert library.find("p1.png").captions == ()
    assert library.index(["captions"]).gallery.space("captions").present.sum() == 0
    assert images.encoded == 6


def test_a_changed_row_of_a_table_is_noticed(pictures, library):
    table = pictures / "metadata.jsonl"
    table.write_text(json.dumps({"file_name": "p1.png", "text": "a goat"}))
    run(pictures, library)
    table.write_text(json.dumps({"file_name": "p1.png", "text": "a hen", "credit": "Ada"}))
    assert counts(run(pictures, library)) == {"changed": 1, "unchanged": 5}
    picture = library.find("p1.png")
    assert ([one.text for one in picture.captions], picture.credit) == (["a hen"], "Ada")


@pytest.mark.slow
def test_captions_in_the_folder_are_read(pictures, library):
    folder = pictures / "captions.jsonl"
    folder.write_text(
        json.dumps({"file_name": "p1.png", "captions": ["a goat"]})
        + "\n"
        + json.dumps({"file_name": "nobody.png", "captions": ["gone"]})
    )
    report = run(pictures, library)
    assert report.tables == (f"{folder}: read for 1 picture; 1 line names a missing file",)
    assert report.tables[0] in report.lines()
    assert [one.path for one in report.skipped] == [str(pictures / "nobody.png")]
    assert [one.text for one in library.find("p1.png").captions] == ["a goat"]


def test_several_captions_are_one_mean_vector(pictures, library):
    (pictures / "p1.json").write_text(json.dumps({"captions": ["goat", "roof hill"]}))
    run(pictures, library)
    texts = FakeTexts()
    due = texts.encode_text(["goat", "roof hill"]).sum(axis=0)
    gallery = library.index(["captions"]).gallery.of([library.find("p1.png").id])
    assert np.allclose(gallery.space("captions").matrix[0], due / np.linalg.norm(due), atol=1e-3)


@pytest.mark.slow
def test_captions_can_be_hidden(pictures, library):
    noise_picture(50).save(pictures / "white-goat.png")
    (pictures / "white-goat.txt").write_text("a sidecar")
    sources = {}
    for choice in (True, False, True):
        run(pictures, library, captions=choice)
        sources[choice] = [one.source for one in library.find("white-goat.png").captions]
        assert ("captions" in library.settings.spaces) is choice
    assert sources == {True: ["sidecar", "filename"], False: []}


def test_a_second_encoder_runs_alone(pictures, library):
    first, second = FakeImages(), FakeImages("other", "clip", labels=False)
    run(pictures, library, first)
    before = library.index(["visual"]).gallery.space("visual").matrix.tobytes()
    report = index([pictures], library, image_encoders=[first, second])
    assert (first.encoded, second.encoded, counts(report)) == (6, 6, {"completed": 6})
    assert library.index(["visual"]).gallery.space("visual").matrix.tobytes() == before
    assert library.vectors() == {"visual": 6, "captions": 0, "clip": 6}


def test_another_fingerprint_empties_only_its_space(pictures, library):
    first, second = FakeImages(), FakeImages("other", "clip", labels=False)
    index([pictures], library, image_encoders=[first, second])
    changed = FakeImages(fingerprint="grid-2")
    report = index([pictures], library, image_encoders=[changed, second])
    assert (changed.encoded, second.encoded) == (6, 6)
    assert report.incomplete == {}
    assert library.index(["visual"]).gallery.space("visual").fingerprint == "grid-2"


def test_another_text_encoder_reads_no_picture(pictures, library, monkeypatch):
    (pictures / "p1.txt").write_text("a goat")
    images = FakeImages()
    run(pictures, library, images)
    monkeypatch.setattr("limner.store.index.read_file", lambda path: pytest.fail("read"))
    report = run(pictures, library, images, FakeTexts("bag-2"))
    assert report.captions_encoded == 1


@pytest.mark.slow
def test_two_folders_are_told_apart(pictures, library, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    noise_picture(60).save(other / "o.png")
    run(pictures, library)
    run(other, library)
    (other / "o.png").unlink()
    (pictures / "p0.png").unlink()
    # Only what lies under the folder named may be missed.
    assert counts(run(other, library, forget=True)) == {"deleted": 1}
    assert counts(run(pictures, library)) == {"deleted": 1, "unchanged": 5}
    assert counts(index([], library)) == {"unchanged": 5}
    assert library.counts().sources == (str(pictures), str(other))


@pytest.mark.slow
def test_a_folder_does_not_speak_for_one_whose_name_begins_with_its_own(pictures, library):
    other = pictures.with_name(f"{pictures.name}2")
    other.mkdir()
    noise_picture(60).save(other / "o.png")
    index([pictures, other], library, image_encoders=[FakeImages()])
    (other / "o.png").unlink()
    (pictures / "p0.png").unlink()
    assert counts(run(pictures, library)) == {"deleted": 1, "unchanged": 5}
    assert counts(run(other, library, forget=True)) == {"deleted": 1}


def test_a_folder_that_cannot_be_listed_speaks_for_itself_alone(pictures, library, monkeypatch):
    for number, name in enumerate(("sub", "sub2")):
        (pictures / name).mkdir()
        noise_picture(60 + number).save(pictures / name / "s.png")
    run(pictures, library)
    (pictures / "sub2" / "s.png").unlink()
    real = os.scandir

    def refuse(path):
        if os.fsencode(path).endswith(b"/sub"):
            raise PermissionError(13, "Permission denied", path)
        return real(path)

    monkeypatch.setattr(os, "scandir", refuse)
    assert counts(run(pictures, library)) == {"deleted": 1, "unchanged": 6}


@pytest.mark.slow
def test_another_encoder_sees_all_pictures_wherever_they_are(pictures, library, tmp_path):
    run(pictures, library)
    other = tmp_path / "other"
    other.mkdir()
    noise_picture(60).save(other / "o.png")
    report = run(other, library, FakeImages(fingerprint="grid-2"))
    assert (report.incomplete, report.encoded) == ({}, {"grid": 7})


def test_a_file_of_two_sources_counts_once(pictures, library):
    (pictures / "sub").mkdir()
    noise_picture(60).save(pictures / "sub" / "s.png")
    report = index([pictures, pictures / "sub"], library, image_encoders=[FakeImages()])
    assert (report.found, report.pictures) == (7, 7)


def test_a_source_or_folder_that_cannot_be_seen_deletes_nothing(pictures, library, monkeypatch):
    (pictures / "sub").mkdir()
    noise_picture(60).save(pictures / "sub" / "s.png")
    run(pictures, library)
    real = os.scandir

    def refuse(path):
        if os.fsencode(path).endswith(b"/sub"):
            raise PermissionError(13, "Permission denied", path)
        return real(path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", refuse)
        report = run(pictures, library)
        assert counts(report) == {"unchanged": 6}
        assert "Permission denied" in report.skipped[0].reason
    assert counts(run(pictures, library)) == {"unchanged": 7}
    assert library.skipped() == []
    pictures.rename(pictures.parent / "elsewhere")
    with pytest.raises(MissingError, match="no such folder"):
        run(pictures, library)
    assert len(library) == 7


def test_what_a_report_does_not_list_it_counts():
    some = ("a", "b", "c")
    report = IndexReport(
        moved_folders=tuple(MovedFolder(before=one, now="n", files=1) for one in some),
        tables=some,
        skipped=tuple(Problem(path=one, reason=f"empty {one}") for one in some),
    )
    cut = [line for line in report.lines(1) if " more" in line]
    assert [[word for word in line.split() if word.isdigit()] for line in cut] == [["2"]] * 3
    assert len(report.lines(3)) == len(report.lines(1)) + 3
    assert not any(" more" in line for line in report.lines(3))


def test_coordinates_are_kept_apart_from_the_picture(pictures, library):
    """In no record of a picture, which exports contain; those of a file that states none any more go."""
    block = Image.Exif()
    block[0x010F] = "a camera"
    block.get_ifd(0x8825).update({1: "S", 2: (33.5, 0.0, 0.0), 3: "E", 4: (151.25, 0.0, 0.0)})
    noise_picture(0).save(pictures / "p0.png", exif=block)
    sidecar = pictures / "p1.png.json"
    sidecar.write_text('{"geoData": {"latitude": 30.5, "longitude": 104.25}}')
    run(pictures, library)
    ids = {name: library.find(name).id for name in ("p0.png", "p1.png", "p2.png")}
    due = {ids["p0.png"]: (-33.5, 151.25), ids["p1.png"]: (30.5, 104.25)}
    assert library.coordinates(ids.values()) == due
    assert "151.25" not in "".join(one.model_dump_json() for one in library.pictures(ids.values()))
    sidecar.write_text('{"geoData": {"latitude": 0.0, "longitude": 0.0}}')
    run(pictures, library)
    assert library.coordinates(ids.values()) == {ids["p0.png"]: (-33.5, 151.25)}


def test_files_skipped_for_one_reason_are_one_line_and_others_are_named(pictures, library):
    for number in range(30):
        (pictures / f"empty-{number:02}.jpg").touch()
    (pictures / "words.png").write_text("not a picture at all, only words")
    lines = [line for line in run(pictures, library).lines() if line.startswith("skipped")]
    assert len(lines) == 2
    assert lines[0].startswith(f"skipped: {pictures / 'words.png'}: ")
    assert lines[1] == f"skipped: {pictures / 'empty-00.jpg'} and 29 more files: the file is empty"


def test_a_video_is_counted_and_not_used(pictures, library):
    (pictures / "IMG_1.MOV").write_bytes(b"a live photo")
    report = run(pictures, library)
    assert (report.videos, report.found, report.skipped) == (1, 6, ())
    assert "1 video: not used" in report.lines()


def test_pictures_are_found_by_the_names_of_their_place(pictures, library):
    sidecar = pictures / "p1.png.json"
    sidecar.write_text('{"geoData": {"latitude": 43.77, "longitude": 11.25}}')
    run(pictures, library)
    picture = library.find("p1.png")
    for name in ("Florence", "FIRENZE", "florenz", "Tuscany", "Italien"):
        assert library.page(0, 9, name) == (1, [picture])
    assert library.page(0, 9, "lorence")[0] == 0
    assert "Florence" not in picture.model_dump_json()
    taken = library.taken()
    assert set(taken.rows.tolist()) == {taken.numbers[picture.id]}
    sidecar.write_text('{"geoData": {"latitude": 43.318, "longitude": 11.331}}')
    run(pictures, library)
    found = [library.page(0, 9, name)[0] for name in ("Florence", "Siena")]
    assert found == [0, 1]
