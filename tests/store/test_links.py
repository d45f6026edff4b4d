"""Nothing in the folder of a library is followed where it is a link."""

import pytest
from fakes import FakeImages, noise_picture

from limner.cli.main import run
from limner.errors import DataError
from limner.store.database import Database
from limner.store.index import index


@pytest.fixture
def library(tmp_path):
    """One picture."""
    (tmp_path / "pictures").mkdir()
    noise_picture(1).save(tmp_path / "pictures" / "1.png")
    index([tmp_path / "pictures"], tmp_path / "lib", image_encoders=[FakeImages()])
    return tmp_path / "lib"


def moved(path, place):
    """Put a link in the place of a file or folder of a library."""
    if path.exists():
        path.rename(place)
    path.symlink_to(place)


@pytest.mark.parametrize(
    "name",
    ["library.sqlite", "yours.sqlite", "vectors"],
)
def test_a_link_is_told_and_what_it_leads_to_stays(library, tmp_path, name, capsys):
    place = tmp_path / "elsewhere"
    moved(library / name, place)
    before = sorted(path.stat().st_mtime_ns for path in (place, *place.rglob("*")) if path.exists())
    with pytest.raises(DataError, match=f"{name}: a link; put the file"):
        Database(library)
    for command in (["index", str(tmp_path / "pictures")], ["search", "a dog"]):
        assert run([*command, "--library", str(library)]) == 1
        assert f"{name}: a link; put the file" in capsys.readouterr().err
    assert sorted(path.stat().st_mtime_ns for path in (place, *place.rglob("*")) if path.exists()) == before
    assert (library / name).is_symlink()


def test_the_folder_itself_may_be_a_link(library, tmp_path):
    (tmp_path / "short").symlink_to(library)
    assert len(Database(tmp_path / "short")) == 1
