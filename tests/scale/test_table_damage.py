"""A flipped bit in any file of a library's tables is found, or changes nothing that is read."""

import random
import shutil

import pytest
from fakes import FakeImages, FakeTexts, noise_picture
from lance_tables import content

from limner.errors import DataError, LimnerError
from limner.scale.ingest import index
from limner.scale.library import PictureStore
from limner.scale.tables import NOTES


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    (folder / "pictures").mkdir()
    for number in range(5):
        noise_picture(number).save(folder / "pictures" / f"red barn {number}.png")
    index([folder / "pictures"], folder / "lib", image_encoders=[FakeImages()], text_encoder=FakeTexts())
    noise_picture(9).save(folder / "pictures" / "goat.png")
    index([folder / "pictures"], folder / "lib", image_encoders=[FakeImages()], text_encoder=FakeTexts())
    return folder / "lib"


def flip(path, number, bit):
    data = bytearray(path.read_bytes())
    data[number] ^= 1 << bit
    path.write_bytes(data)


def read(folder):
    library = PictureStore.open(folder)
    return library.settings, content(library)


def refusal(folder, due):
    """The line that refuses a library; "" where all that is read is as it was."""
    try:
        same = read(folder) == due
    except LimnerError as error:
        return str(error)
    return "" if same else "read wrongly\n"


@pytest.mark.slow
def test_a_flipped_bit_of_the_tables_or_settings_is_found(whole, tmp_path):
    due, draw, found = read(whole), random.Random(0), 0
    copy = tmp_path / "lib"
    shutil.copytree(whole, copy)
    files = [path for path in sorted(copy.rglob("*")) if path.is_file() and path.parent.name != "cache"]
    for path in files:
        size = path.stat().st_size
        for number in draw.sample(range(size), min(size, 6)):
            bit = draw.randrange(8)
            flip(path, number, bit)
            told = refusal(copy, due)
            found += bool(told)
            assert not told or (str(copy) in told and "\n" not in told), (path, number, bit)
            flip(path, number, bit)
    assert found > 60
    assert read(copy) == due


def test_every_byte_of_a_file_of_vectors_counts(whole, tmp_path):
    copy = tmp_path / "lib"
    shutil.copytree(whole, copy)
    version = PictureStore.open(copy).store.version("vectors_visual")
    manifest = (copy / f"tables/vectors_visual.lance/_versions/{2**64 - 1 - version}.manifest").read_bytes()
    data = (copy / "tables/vectors_visual.lance/data").iterdir()
    path = next(one for one in data if one.name.encode() in manifest)
    for number in range(0, path.stat().st_size, 41):
        flip(path, number, number % 8)
        with pytest.raises(DataError, match=r"damaged .* 'limner verify"):
            list(PictureStore.open(copy).store.scan("vectors_visual", ["id"]))
        flip(path, number, number % 8)


def test_a_library_of_an_older_version_opens_and_gets_its_checksums(whole, tmp_path):
    copy = tmp_path / "lib"
    shutil.copytree(whole, copy)
    for notes in (copy / "tables").rglob(NOTES):
        notes.unlink()
    due = read(whole)
    assert read(copy) == due
    library = PictureStore.open(copy)
    assert {state for name in library.store.names() for _, state in library.store.files(name).states()} == {
        None
    }
    library.store.compact()
    assert {state for name in library.store.names() for _, state in library.store.files(name).states()} == {
        True
    }
    assert read(copy)[1] == due[1]


def states(library):
    store = library.store
    return {state for name in store.names() for _, state in store.files(name).states()}
