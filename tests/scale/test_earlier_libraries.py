"""Libraries of other formats, and what is left of a damaged one."""

import json
import shutil

import pytest
from fakes import FakeImages, FakeTexts, noise_picture

from limner.cli.main import run as limner
from limner.errors import DataError
from limner.scale.ingest import index
from limner.scale.library import PictureStore
from limner.scale.store import FORMAT


@pytest.fixture
def pictures(tmp_path):
    folder = tmp_path / "pictures"
    folder.mkdir()
    for number in range(4):
        noise_picture(number).save(folder / f"p{number}.png")
    (folder / "zero.jpg").touch()
    return folder


def run(folder, *sources, images=None):
    images = images or FakeImages()
    return index(list(sources), folder, image_encoders=[images], text_encoder=FakeTexts())


@pytest.mark.parametrize(("other", "advice"), [(1, "install a newer limner"), (-1, "index again")])
def test_a_library_of_another_format_is_refused_in_one_line(pictures, tmp_path, capsys, other, advice):
    run(tmp_path / "lib", pictures)
    settings = json.loads((tmp_path / "lib" / "library.json").read_text())
    (tmp_path / "lib" / "library.json").write_text(
        json.dumps(settings | {"format": FORMAT + other, "more": 1})
    )
    assert limner(["index", str(pictures), "--library", str(tmp_path / "lib")]) == 1
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert advice in told


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
