"""The library itself: opening, finding, galleries and their cache."""

import json
import os
import unicodedata

import numpy as np
import pytest
from fakes import FakeImages, FakeTexts, noise_picture

from limner.errors import DataError, MissingError
from limner.files import DRAFT_SUFFIX
from limner.scale.ingest import index
from limner.scale.known import DigestSet
from limner.scale.library import PictureStore
from limner.scale.store import FORMAT, TableSettings
from limner.store import Only


@pytest.fixture
def pictures(tmp_path):
    folder = tmp_path / "pictures"
    for number, name in enumerate(("red-barn.png", "white-goat.png", "a/IMG_1.png", "b/IMG_1.png")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        noise_picture(number).save(folder / name)
    return folder


@pytest.fixture
def library(pictures, tmp_path):
    index([pictures], tmp_path / "lib", image_encoders=[FakeImages()], text_encoder=FakeTexts())
    return PictureStore.open(tmp_path / "lib")


def test_no_library_is_one_clear_line(tmp_path):
    with pytest.raises(MissingError, match="limner index PICTURES --library"):
        PictureStore.open(tmp_path / "nothing")


def test_a_newer_format_is_refused(library):
    path = library.folder / "library.json"
    values = json.loads(path.read_text())
    path.write_text(json.dumps({**values, "format": FORMAT + 1, "future": True}))
    with pytest.raises(DataError, match="install a newer limner"):
        PictureStore.open(library.folder)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"format": "x"}', '{"format": 1, "spaces": 3}'])
def test_damaged_settings_are_refused(library, content):
    (library.folder / "library.json").write_text(content)
    with pytest.raises(DataError, match="damaged"):
        PictureStore.open(library.folder)


def test_a_folder_of_pictures_does_not_become_a_library(pictures):
    with pytest.raises(DataError, match="not a library"):
        PictureStore(pictures)
    assert not (pictures / "library.json").exists()


def test_creating_twice_opens_and_half_made_is_completed(library, tmp_path):
    assert len(PictureStore(library.folder)) == 4
    (library.folder / "library.json").unlink()
    assert PictureStore(library.folder).settings == TableSettings()


def test_settings_survive_odd_names_and_half_written_files(library):
    (library.folder / f".0123{DRAFT_SUFFIX}").write_text("{half")
    library.save(sources=(os.fsdecode(b"/pictures/gr\xfc\xdfe"),))
    assert os.fsencode(PictureStore.open(library.folder).settings.sources[0]) == b"/pictures/gr\xfc\xdfe"


def test_find_by_all_a_person_would_type(library, pictures, monkeypatch):
    barn = library.find(pictures / "red-barn.png")
    for name in ("red-barn.png", str(pictures / "red-barn.png"), barn.id, barn.id[:8], barn.id[:8].upper()):
        assert library.find(name) == barn
    assert library.find("a/IMG_1.png").path.endswith("a/IMG_1.png")
    monkeypatch.chdir(pictures / "b")
    # From within a folder the relative path is meant, though another picture has the same name.
    assert library.find("IMG_1.png").path.endswith("b/IMG_1.png")


def test_find_names_the_nearest_or_the_ambiguity(library, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=r"near: red-barn\.png"):
        library.find("red-bam.png")
    with pytest.raises(DataError, match="2 different pictures"):
        library.find("IMG_1.png")
    with pytest.raises(DataError, match="no picture"):
        library.find("%")


def test_pictures_come_in_the_order_asked(library):
    ids = library.gallery([]).ids
    asked = [ids[2], ids[0], ids[2]]
    assert [picture.id for picture in library.pictures(asked)] == asked
    with pytest.raises(DataError, match="no picture ffff"):
        library.picture("f" * 64)
    with pytest.raises(DataError, match="hexadecimal"):
        library.picture("' OR 1=1")


def test_gallery_rows_are_of_their_pictures(library):
    gallery = library.gallery(["visual", "captions"])
    assert list(gallery.ids) == sorted(gallery.ids)
    captions = gallery.space("captions")
    named = {library.find(name).id for name in ("red-barn.png", "white-goat.png")}
    assert {one for one, there in zip(gallery.ids, captions.present, strict=True) if there} == named
    assert not captions.matrix[~captions.present].any()
    assert gallery.space("visual").matrix.dtype == np.float16
    norms = np.linalg.norm(gallery.space("visual").matrix.astype(float), axis=1)
    assert np.allclose(norms, 1, atol=2e-3)
    some = [gallery.ids[3], gallery.ids[1]]
    part = library.gallery(["visual"], some)
    assert list(part.ids) == some
    assert np.array_equal(part.space("visual").matrix, gallery.space("visual").matrix[[3, 1]])


def test_unknown_spaces_and_pictures(library):
    with pytest.raises(DataError, match="did you mean 'visual'"):
        library.gallery(["visuel"])
    with pytest.raises(DataError, match="no picture"):
        library.gallery(["visual"], ["0" * 64])


def test_the_cache_is_used_and_renewed(library, pictures):
    first = library.gallery(["visual"]).space("visual").matrix
    assert not first.flags.writeable
    files = {path: path.stat().st_mtime_ns for path in (library.folder / "cache").rglob("*")}
    library.gallery(["visual"])
    assert {path: path.stat().st_mtime_ns for path in (library.folder / "cache").rglob("*")} == files
    noise_picture(30).save(pictures / "new.png")
    index([pictures], library, image_encoders=[FakeImages()])
    assert len(library.gallery(["visual"])) == 5
    assert len(list((library.folder / "cache").glob("*.vectors"))) == 1
    assert len(list((library.folder / "cache").glob("*.arrow"))) == 1
    assert list((library.folder / "cache").rglob(f"*{DRAFT_SUFFIX}")) == []


def test_a_reader_sees_what_another_process_writes(library, pictures):
    assert len(library.gallery(["visual"])) == 4
    noise_picture(30).save(pictures / "new.png")
    index([pictures], library.folder, image_encoders=[FakeImages()])
    assert len(library) == len(library.gallery(["visual"])) == 5


def test_an_empty_library_has_an_empty_gallery(tmp_path):
    folder = tmp_path / "none"
    folder.mkdir()
    report = index([folder], tmp_path / "lib", image_encoders=[FakeImages()], text_encoder=FakeTexts())
    assert report.pictures == 0
    gallery = PictureStore.open(tmp_path / "lib").gallery(["visual", "captions"])
    assert (len(gallery), gallery.space("visual").matrix.shape) == (0, (0, 48))


def test_many_rows_are_compacted_and_indexed(library, monkeypatch):
    monkeypatch.setattr("limner.scale.store._INDEX_FROM_ROWS", 1)
    library.store.compact()
    library.store.compact()
    ids = library.gallery([]).ids
    assert [picture.id for picture in library.pictures(ids)] == list(ids)
    assert library.summary().pictures == 4


def test_digest_sets_hold_what_was_added():
    known = [f"{number:064x}" for number in (1, 256, 2**255)]
    digests = DigestSet(np.array(known[:1], dtype="S64"))
    assert known[1] not in digests
    digests.update(known[1:])
    assert all(one in digests for one in known)
    assert f"{0:064x}" not in digests


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_a_name_is_found_however_its_accents_are_written(tmp_path, form):
    other = {"NFC": "NFD", "NFD": "NFC"}[form]
    folder = tmp_path / unicodedata.normalize(form, "Kärnten")
    folder.mkdir()
    noise_picture(1).save(folder / unicodedata.normalize(form, "Müller.png"))
    library = PictureStore(tmp_path / "lib")
    index([folder], library, image_encoders=[FakeImages()], text_encoder=FakeTexts())
    named = unicodedata.normalize(other, str(folder / "Müller.png"))
    for name in (named, unicodedata.normalize(other, "Müller.png")):
        assert library.find(name).paths == (str(folder / unicodedata.normalize(form, "Müller.png")),)
    listed = library.catalogue().page(0, 9, words=unicodedata.normalize(other, "mülle"))
    assert listed[0] == 1
    inside = Only(folder=unicodedata.normalize(other, str(folder)))
    assert len(library.catalogue().passing(inside)) == 1
