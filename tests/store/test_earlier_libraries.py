"""Libraries of earlier formats, and what is left of a damaged one."""

import json
import shutil

import lance
import pyarrow as pa
import pytest
from fakes import FakeImages, FakeTexts, noise_picture

from limner.cli.main import run as limner
from limner.errors import DataError
from limner.store.ingest import index
from limner.store.library import PictureStore
from limner.store.store import FILES, FORMAT

CAPTIONS = pa.list_(pa.struct([("text", pa.string()), ("source", pa.string())]))
FILES_1 = pa.schema(
    [
        ("key", pa.string()),
        ("path", pa.string()),
        ("path_bytes", pa.binary()),
        ("source", pa.binary()),
        ("size", pa.int64()),
        ("mtime_ns", pa.int64()),
        ("sha256", pa.string()),
        ("status", pa.string()),
        ("reason", pa.string()),
        ("words_key", pa.string()),
        ("captions", CAPTIONS),
        ("credit", pa.string()),
        ("license", pa.string()),
        ("taken", pa.string()),
    ]
)
"""Columns of `files` as limner 0.1.0 made them."""
SETTINGS_1 = ("format", "spaces", "sources", "reader", "grouped", "languages")


@pytest.fixture
def pictures(tmp_path):
    folder = tmp_path / "pictures"
    folder.mkdir()
    for number in range(4):
        noise_picture(number).save(folder / f"p{number}.png")
    (folder / "zero.jpg").touch()
    return folder


@pytest.fixture
def first(pictures, tmp_path):
    """The folder of a library of format 1, as limner 0.1.0 wrote it."""
    run(tmp_path / "lib", pictures)
    folder = tmp_path / "lib"
    table = folder / "tables" / "files.lance"
    rows = lance.dataset(table).to_table(FILES_1.names)
    shutil.rmtree(table)
    lance.write_dataset(rows, table, schema=FILES_1)
    settings = json.loads((folder / "library.json").read_text())
    written = {name: settings[name] for name in SETTINGS_1} | {"format": 1}
    (folder / "library.json").write_text(json.dumps(written, indent=1, sort_keys=True))
    return folder


def run(folder, *sources, images=None):
    images = images or FakeImages()
    return index(list(sources), folder, image_encoders=[images], text_encoder=FakeTexts())


def test_an_earlier_library_is_read_as_it_is(first):
    library = PictureStore.open(first)
    assert len(library) == 4
    assert len(library.gallery(["visual"])) == 4
    assert library.find("p1.png").path.endswith("p1.png")
    assert library.settings.format == 1
    assert lance.dataset(first / "tables" / "files.lance").schema.equals(FILES_1)


def test_indexing_brings_an_earlier_library_up_to_date(first, pictures):
    images = FakeImages()
    report = run(first, pictures, images=images)
    assert (report.unchanged, report.changed, report.rehashed, images.encoded) == (4, 0, 0, 0)
    library = PictureStore.open(first)
    assert (library.settings.format, len(library)) == (FORMAT, 4)
    # From now on other content of the same size and time is noticed.
    assert "" not in {stamp for (stamp,) in library.store.rows(FILES, ["stamp"])}


@pytest.mark.parametrize("name", ["add_texts", "save"])
def test_a_kill_on_the_way_is_completed_by_the_next_call(first, pictures, name, monkeypatch):
    def killed(*_, **__):
        raise KeyboardInterrupt

    library = PictureStore.open(first)
    with monkeypatch.context() as patched:
        patched.setattr(library.store if name == "add_texts" else library, name, killed)
        with pytest.raises(KeyboardInterrupt):
            index([pictures], library, image_encoders=[FakeImages()], text_encoder=FakeTexts())
    assert PictureStore.open(first).settings.format == 1
    assert len(PictureStore.open(first)) == 4
    assert run(first, pictures).unchanged == 4
    assert PictureStore.open(first).settings.format == FORMAT


def test_a_newer_library_is_refused_in_one_line(first, pictures, capsys):
    settings = json.loads((first / "library.json").read_text())
    (first / "library.json").write_text(json.dumps(settings | {"format": FORMAT + 1, "more": 1}))
    assert limner(["index", str(pictures), "--library", str(first)]) == 1
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert "install a newer limner" in told


@pytest.fixture
def own(pictures, tmp_path):
    """The folder of a library with a picture that was brought in the studio."""
    folder = tmp_path / "lib"
    run(folder, pictures)
    brought = folder / "pictures" / "20260101-000000-abcdef" / "own.png"
    brought.parent.mkdir(parents=True)
    noise_picture(9).save(brought)
    run(folder, folder / "pictures")
    return folder


def test_a_library_mended_as_the_messages_say_keeps_projects_and_own_pictures(own, pictures, tmp_path):
    """Settings and tables are moved away, nothing else, and the pictures are indexed again."""
    part = own / "projects" / "0123456789abcdef" / "parts" / "a.txt"
    part.parent.mkdir(parents=True)
    part.write_text("Words.")
    (own / "library.json").write_text("{damaged")
    with pytest.raises(DataError, match=r"move library\.json and tables, and nothing else"):
        PictureStore.open(own)
    (own / "library.json").unlink()
    (own / "tables").rename(tmp_path / "tables")
    images = FakeImages()
    report = run(own, pictures, images=images)
    assert (report.pictures, images.encoded) == (5, 5)
    assert PictureStore.open(own).find("own.png")
    assert part.read_text() == "Words."


def test_vectors_of_an_unknown_encoder_are_not_taken_over(own, pictures):
    """The settings are gone, the tables are not: nobody knows who made the vectors."""
    (own / "library.json").unlink()
    images = FakeImages(fingerprint="grid-2")
    run(own, pictures, images=images)
    assert images.encoded >= 3


@pytest.mark.slow
def test_a_copy_of_the_folder_is_the_library(own, tmp_path):
    shutil.copytree(own, tmp_path / "copy")
    shutil.rmtree(own)
    copy = tmp_path / "copy"
    assert len(PictureStore.open(copy)) == 5
    images = FakeImages()
    assert run(copy, copy / "pictures", images=images).pictures == 5
    assert images.encoded == 0
    brought = copy / "pictures" / "20260101-000000-abcdef" / "own.png"
    assert str(brought) in PictureStore.open(copy).find("own.png").paths
