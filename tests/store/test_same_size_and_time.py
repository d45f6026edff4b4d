"""Files of the same size and time: other content is noticed, and the same content is not encoded again."""

import os
import shutil

import pytest
from fakes import FakeImages, FakeTexts, noise_picture

from limner.store import index as indexing
from limner.store.database import Database
from limner.store.index import index


@pytest.fixture
def pictures(tmp_path):
    """Bitmaps, which all have one size."""
    folder = tmp_path / "pictures"
    folder.mkdir()
    for number in range(4):
        noise_picture(number).save(folder / f"p{number}.bmp")
    return folder


@pytest.fixture
def library(pictures, tmp_path):
    run(pictures, tmp_path / "lib")
    return Database(tmp_path / "lib")


def run(pictures, library, images=None, **options):
    images = images or FakeImages()
    return index([pictures], library, image_encoders=[images], text_encoder=FakeTexts(), **options)


def counts(report):
    names = ("new", "changed", "unchanged", "deleted")
    return {name: getattr(report, name) for name in names if getattr(report, name)}


def overwrite(path, number, *, in_place):
    """Another picture in a file, whose size and time of modification stay."""
    status = path.stat()
    other = path.with_name("other.tmp")
    noise_picture(number).save(other, "BMP")
    if in_place:
        path.write_bytes(other.read_bytes())
        other.unlink()
    else:
        other.replace(path)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (status.st_size, status.st_mtime_ns)


@pytest.mark.parametrize("in_place", [False, True])
def test_other_content_of_the_same_size_and_time_is_noticed(pictures, library, in_place):
    before = library.find("p1.bmp").id
    overwrite(pictures / "p1.bmp", 70, in_place=in_place)
    assert counts(run(pictures, library)) == {"changed": 1, "unchanged": 3}
    assert Database(library.folder).find("p1.bmp").id != before


def test_copies_on_another_disk_are_read_and_not_encoded(pictures, library, monkeypatch):
    for path in list(pictures.iterdir()):
        copy = path.with_name("copy.tmp")
        shutil.copy2(path, copy)
        copy.replace(path)
    images = FakeImages()
    with monkeypatch.context() as patch:
        patch.setattr(indexing, "decode", None)
        report = run(pictures, library, images)
    assert counts(report) == {"unchanged": 4}
    assert images.encoded == 0
    monkeypatch.setattr(indexing, "read_file", None)
    assert counts(run(pictures, library)) == {"unchanged": 4}


@pytest.mark.slow
def test_words_beside_a_copy_are_read_with_it(pictures, library):
    (pictures / "p0.txt").write_text("A goat in the snow.")
    assert counts(run(pictures, library)) == {"changed": 1, "unchanged": 3}
    (pictures / "p0.bmp").chmod(0o600)
    assert counts(run(pictures, library)) == {"unchanged": 4}
    assert library.find("p0.bmp").captions[0].text == "A goat in the snow."
