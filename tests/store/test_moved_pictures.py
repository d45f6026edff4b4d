"""Pictures that lie elsewhere now are known by their content; those of an absent drive are not forgotten."""

import shutil

import pytest
from fakes import FakeImages, FakeTexts, noise_picture

from limner.errors import MissingError
from limner.store import Described, Only
from limner.store import index as ingest
from limner.store.database import Database
from limner.store.index import index

pytestmark = pytest.mark.slow


def fill(folder, numbers):
    folder.mkdir(parents=True, exist_ok=True)
    for number in numbers:
        noise_picture(number).save(folder / f"red-barn-{number}.png")
    return folder


@pytest.fixture
def album(tmp_path):
    return fill(tmp_path / "disk" / "album", range(4))


@pytest.fixture
def library(album, tmp_path):
    made = Database(tmp_path / "lib")
    run([album], made)
    return made


def run(sources, library, **options):
    """A run of indexing, and how many pictures and captions it encoded."""
    images, texts = FakeImages(), FakeTexts()
    report = index(sources, library, image_encoders=[images], text_encoder=texts, **options)
    return report, images.encoded, len(texts.encoded)


def counts(report):
    names = ("new", "changed", "unchanged", "moved", "deleted", "exact_duplicates", "pictures")
    return {name: getattr(report, name) for name in names if getattr(report, name)}


def paths(library):
    return sorted(path for picture in library.pictures(library.passing(Only())) for path in picture.paths)


def test_a_folder_that_moved_is_told_as_moved_and_nothing_is_computed_again(album, library, tmp_path):
    mine = library.find("red-barn-1.png").id
    library.write_words(mine, Described(captions=("my own words",)))
    run([album], library)  # their vector
    there = album.rename(tmp_path / "elsewhere")
    report, *encoded = run([there], library)
    assert (counts(report), encoded) == ({"moved": 4, "pictures": 4}, [0, 0])
    (moved,) = report.moved_folders
    assert (moved.before, moved.now, moved.files) == (str(album), str(there), 4)
    assert any(line.startswith("moved: 4 files from") for line in report.lines())
    assert paths(library) == [str(there / f"red-barn-{number}.png") for number in range(4)]
    assert [one.text for one in library.pictures([mine])[0].captions] == ["my own words"]
    assert library.settings.sources == (str(there),)
    assert counts(run([], library)[0]) == {"unchanged": 4, "pictures": 4}


def test_a_part_of_a_folder_that_moved(album, library, tmp_path):
    there = fill(tmp_path / "elsewhere", ())
    for number in (0, 1):
        shutil.move(album / f"red-barn-{number}.png", there)
    report, *encoded = run([there], library)
    assert (counts(report), encoded) == ({"moved": 2, "pictures": 4}, [0, 0])
    assert counts(run([album, there], library)[0]) == {"unchanged": 4, "pictures": 4}


def test_a_copy_is_new_and_not_moved(album, library, tmp_path):
    there = shutil.copytree(album, tmp_path / "copy")
    assert counts(run([there], library)[0]) == {"new": 4, "exact_duplicates": 4, "pictures": 4}
    assert str(album) in library.settings.sources


def test_of_two_copies_that_are_gone_one_has_moved(album, library):
    shutil.copy(album / "red-barn-0.png", album / "again.png")
    run([album], library)
    (album / "again.png").unlink()
    (album / "red-barn-0.png").rename(album / "renamed.png")
    assert counts(run([album], library)[0]) == {"unchanged": 3, "moved": 1, "deleted": 1, "pictures": 4}


def test_a_run_that_ended_before_the_old_paths_were_taken_out(album, library, tmp_path, monkeypatch):
    there = album.rename(tmp_path / "elsewhere")
    with monkeypatch.context() as patched:
        patched.setattr(ingest._IndexRun, "_move", lambda run, gone: pytest.fail("killed"))
        with pytest.raises(pytest.fail.Exception):
            run([there], library)
    report, *encoded = run([there], library)
    assert (counts(report), encoded) == ({"moved": 4, "pictures": 4}, [0, 0])
    assert all(path.startswith(str(there)) for path in paths(library))


def test_a_library_that_moved_in_one_piece_with_its_pictures(tmp_path):
    before = tmp_path / "before"
    album = fill(before / "album", range(3))
    library = Database(before / "lib")
    run([album], library)
    fill(before / "lib" / "uploads" / "batch", (7,))  # as the studio brings them
    run([before / "lib" / "uploads"], library)
    ids = library.passing(Only())
    now = before.rename(tmp_path / "now")
    moved = Database(now / "lib")
    report, *encoded = run([now / "album"], moved)
    assert (counts(report), encoded) == ({"moved": 4, "pictures": 4}, [0, 0])
    assert moved.passing(Only()) == ids
    assert all(path.startswith(str(now)) for path in paths(moved))
    assert set(moved.settings.sources) == {str(now / "album"), str(now / "lib" / "uploads")}


def test_pictures_of_an_empty_folder_stay_until_somebody_says_that_they_are_gone(album, library):
    for path in album.iterdir():
        path.unlink()
    report, *_ = run([album], library)
    (folder,) = report.missing
    assert (folder.path, folder.missing, folder.known) == (str(album), 4, 4)
    assert (counts(report), len(library)) == ({"pictures": 4}, 4)
    assert any("4 of 4 pictures missing" in line and "--forget" in line for line in report.lines())
    assert counts(run([album], library, forget=True)[0]) == {"deleted": 4}


@pytest.mark.parametrize(("many", "kept"), [(3, True), (4, False)])
def test_more_than_half_of_a_folder_and_many(album, library, monkeypatch, many, kept):
    monkeypatch.setattr(ingest, "MANY", many)
    for number in range(3):
        (album / f"red-barn-{number}.png").unlink()
    report, *_ = run([album], library)
    assert (len(library), bool(report.missing)) == ((4, True) if kept else (1, False))


def test_a_folder_is_not_missing_where_others_took_the_place_of_its_pictures(album, library):
    for path in album.iterdir():
        path.unlink()
    fill(album, (8, 9))
    assert counts(run([album], library)[0]) == {"new": 2, "deleted": 4, "pictures": 2}


def test_a_folder_that_is_not_there(album, library, tmp_path):
    other = fill(tmp_path / "other", (9,))
    shutil.move(album, tmp_path / "away")
    with pytest.raises(MissingError, match=r"stay in the library; .* --forget"):
        run([album], library)
    report, *_ = run([album, other], library)
    assert (counts(report), [one.path for one in report.missing]) == ({"new": 1, "pictures": 5}, [str(album)])
    assert run([], library)[0].missing == report.missing
    # A folder of a name that was never given is a mistake, whatever else is there.
    with pytest.raises(MissingError, match="no such folder"):
        run([tmp_path / "albun", other], library, forget=True)
    assert counts(run([album], library, forget=True)[0]) == {"deleted": 4, "pictures": 1}
    assert library.settings.sources == (str(other),)


def test_what_moved_is_not_missing(album, library, tmp_path):
    there = fill(tmp_path / "elsewhere", ())
    for path in list(album.iterdir()):
        shutil.move(path, there)
    report, *_ = run([album, there], library)
    assert (counts(report), report.missing) == ({"moved": 4, "pictures": 4}, ())
