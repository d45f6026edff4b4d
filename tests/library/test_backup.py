"""Backups of libraries: whole, checked, restored elsewhere; and what is left of a damaged library."""

import json
import shutil
import struct
import zipfile

import pytest
from fakes import FakeImages, FakeTexts, noise_picture

from limner.cli.main import run as limner
from limner.errors import DataError
from limner.files import DRAFT_SUFFIX
from limner.library import backup as module
from limner.library.backup import LIST, backup, restore
from limner.library.ingest import index
from limner.library.library import Library
from limner.library.words import Described, words_of, write_words

PROJECT = "0123456789abcdef"


@pytest.fixture
def library(tmp_path):
    """Pictures of a folder and one of its own, written words, a project, a cache."""
    pictures, folder = tmp_path / "pictures", tmp_path / "lib"
    pictures.mkdir()
    for number in range(3):
        noise_picture(number).save(pictures / f"p{number}.png")
    run(folder, pictures)
    own = folder / "pictures" / "20260101-000000-abcdef" / "own.png"
    own.parent.mkdir(parents=True)
    noise_picture(9).save(own)
    run(folder, folder / "pictures")
    library = Library.open(folder)
    library.gallery(["visual"])
    write_words(library, library.find("p1.png").id, Described(captions=("A goat.",)), encoders())
    project = folder / "projects" / PROJECT
    (project / "parts").mkdir(parents=True)
    (project / "project.json").write_text('{"id": "x"}')
    (project / "parts" / "a.txt").write_text("Words.")
    assert (folder / "cache").is_dir()
    return library


def encoders():
    return {"captions": (FakeTexts(), None)}


def run(folder, *sources, images=None):
    images = images or FakeImages()
    return index(list(sources), folder, image_encoders=[images], text_encoder=FakeTexts())


def test_a_backup_holds_all_but_caches_and_comes_back(library, tmp_path):
    made = backup(library.folder, tmp_path / "lib.zip")
    assert made.projects == 1
    assert not [name for name in made.files if name.startswith("cache") or name == "lock"]
    for name in ("library.json", f"projects/{PROJECT}/project.json", f"projects/{PROJECT}/parts/a.txt"):
        assert name in made.files
    kept = library.folder.rename(tmp_path / "kept")
    restore(tmp_path / "lib.zip", tmp_path / "lib")
    again = Library.open(tmp_path / "lib")
    assert again.summary() == Library.open(kept).summary()
    assert words_of(again, again.find("p1.png").id).now.captions == ("A goat.",)
    assert (tmp_path / "lib" / "projects" / PROJECT / "parts" / "a.txt").read_text() == "Words."
    images = FakeImages()
    report = run(tmp_path / "lib", images=images)
    assert (report.unchanged, report.changed, report.new, report.deleted, images.encoded) == (4, 0, 0, 0, 0)
    assert list(tmp_path.glob(f".*{DRAFT_SUFFIX}")) == []


def test_in_another_place_it_has_its_own_pictures_there(library, tmp_path):
    backup(library.folder, tmp_path / "lib.zip")
    shutil.rmtree(library.folder)
    restore(tmp_path / "lib.zip", tmp_path / "disk" / "other")
    again = Library.open(tmp_path / "disk" / "other")
    own = tmp_path / "disk" / "other" / "pictures" / "20260101-000000-abcdef" / "own.png"
    assert again.find("own.png").paths == (str(own),)
    assert again.file_of(again.find("own.png").id) == own
    assert again.settings.sources == (str(tmp_path / "pictures"), str(own.parents[1]))
    images = FakeImages()
    report = run(again.folder, images=images)
    assert (report.unchanged, report.pictures, report.deleted, images.encoded) == (4, 4, 0, 0)


def test_it_says_that_the_library_is_in_use(library, tmp_path):
    with library.writing(), pytest.raises(DataError, match="in use, another process is indexing"):
        backup(library.folder, tmp_path / "lib.zip")
    assert not (tmp_path / "lib.zip").exists()


def test_a_project_changed_meanwhile_is_whole(library, tmp_path, monkeypatch):
    """A studio that runs: a project moves to the trash, another appears, when copying has begun."""
    projects = library.folder / "projects"
    real, moved = module._add, []

    def add(archive, home, path, files):
        if not moved:
            moved.append((projects / "trash").mkdir())
            (projects / PROJECT).rename(projects / "trash" / PROJECT)
            late = projects / "fedcba9876543210"
            late.mkdir()
            (late / "project.json").write_text("{}")
        real(archive, home, path, files)

    monkeypatch.setattr(module, "_add", add)
    made = backup(library.folder, tmp_path / "lib.zip")
    assert f"projects/trash/{PROJECT}/parts/a.txt" in made.files
    assert "projects/fedcba9876543210/project.json" in made.files


def test_what_cannot_be_read_back_is_not_left(library, tmp_path, monkeypatch):
    real = module._opened

    def on_a_bad_disk(file, *rest):
        data = bytearray(file.read_bytes())
        data[data.index(b"\x89PNG") + 100] ^= 1
        file.write_bytes(data)
        return real(file, *rest)

    monkeypatch.setattr(module, "_opened", on_a_bad_disk)
    with pytest.raises(DataError, match=r"lib\.zip.*damaged"):
        backup(library.folder, tmp_path / "lib.zip")
    assert not (tmp_path / "lib.zip").exists()
    assert list(tmp_path.glob(f".*{DRAFT_SUFFIX}")) == []


def test_it_is_not_written_over_anything_nor_into_the_library(library, tmp_path):
    (tmp_path / "lib.zip").write_text("mine")
    with pytest.raises(DataError, match="there already"):
        backup(library.folder, tmp_path / "lib.zip")
    with pytest.raises(DataError, match="in the library itself"):
        backup(library.folder, library.folder / "new.zip")
    backup(library.folder, tmp_path / "new.zip")
    with pytest.raises(DataError, match="holds something already"):
        restore(tmp_path / "new.zip", library.folder)
    with pytest.raises(DataError, match="holds something already"):
        restore(tmp_path / "new.zip", tmp_path / "lib.zip")
    assert (tmp_path / "lib.zip").read_text() == "mine"


def rewritten(source, target, change):
    """An archive with another list, and further files."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        held = json.loads(old.read(LIST))
        contents = {one: old.read(one) for one in held["files"]}
        change(held, contents)
        for name, content in contents.items():
            new.writestr(name, content)
        new.writestr(LIST, json.dumps(held))


@pytest.mark.parametrize(
    "name", ["../evil", "/evil", "a/../../evil", "C:/evil", "a\\..\\evil", "a//evil", "./evil", "ev\nil"]
)
def test_names_that_lead_outside_are_refused(library, tmp_path, name):
    backup(library.folder, tmp_path / "lib.zip")

    def evil(held, contents):
        held["files"][name] = held["files"]["library.json"]
        contents[name] = contents["library.json"]

    rewritten(tmp_path / "lib.zip", tmp_path / "evil.zip", evil)
    (tmp_path / "new").mkdir()
    with pytest.raises(DataError, match="outside the library"):
        restore(tmp_path / "evil.zip", tmp_path / "new" / "deep")
    assert list((tmp_path / "new").iterdir()) == []


@pytest.mark.parametrize("place", [0.0, 0.3, 0.6, 0.99])
def test_a_damaged_archive_is_refused_and_leaves_nothing(library, tmp_path, place):
    backup(library.folder, tmp_path / "lib.zip")
    data = bytearray((tmp_path / "lib.zip").read_bytes())
    with zipfile.ZipFile(tmp_path / "lib.zip") as archive:
        entries = [one for one in archive.infolist() if one.compress_size]
    entry = entries[int(len(entries) * place)]
    # After its header of 30 bytes and two lengths, of which its dates and versions say nothing.
    name, extra = struct.unpack_from("<HH", data, entry.header_offset + 26)
    data[entry.header_offset + 30 + name + extra + entry.compress_size // 2] ^= 1
    (tmp_path / "bad.zip").write_bytes(data)
    with pytest.raises(DataError, match=r"bad\.zip"):
        restore(tmp_path / "bad.zip", tmp_path / "new")
    assert not (tmp_path / "new").exists()
    assert list(tmp_path.glob(f".*{DRAFT_SUFFIX}")) == []


@pytest.mark.slow
def test_a_flip_in_an_archives_directory_is_refused_or_changes_nothing(library, tmp_path):
    def held(folder):  # own pictures are named anew in the tables of each place
        places = (path for path in folder.rglob("*") if path.is_file() and "tables" not in path.parts)
        again = Library.open(folder)
        words = words_of(again, again.find("p1.png").id)
        return {path.relative_to(folder): path.read_bytes() for path in places}, again.summary(), words

    backup(library.folder, tmp_path / "lib.zip")
    with zipfile.ZipFile(tmp_path / "lib.zip") as archive:
        start = archive.start_dir
    data = (tmp_path / "lib.zip").read_bytes()
    restored = tmp_path / "new"
    restore(tmp_path / "lib.zip", restored)
    due = held(restored)
    shutil.rmtree(restored)
    refused = 0
    for place in range(start, len(data), 41):
        bad = bytearray(data)
        bad[place] ^= 1
        (tmp_path / "bad.zip").write_bytes(bad)
        try:
            restore(tmp_path / "bad.zip", restored)
        except DataError:
            refused += 1
            assert not restored.exists(), place
        else:  # such as a stated time, of which nothing is made
            assert held(restored) == due, place
            shutil.rmtree(restored)
    assert refused


def test_a_directory_that_leads_before_the_archive_is_damage(library, tmp_path):
    backup(library.folder, tmp_path / "lib.zip")
    data = bytearray((tmp_path / "lib.zip").read_bytes())
    data[-3] ^= 1  # of the directory's stated offset, 16 MiB further on
    (tmp_path / "lib.zip").write_bytes(data)
    with pytest.raises(DataError, match="its directory leads outside it"):
        restore(tmp_path / "lib.zip", tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x05\x06" + b"\0" * 18])
def test_other_files_are_no_backups(tmp_path, content):
    (tmp_path / "x.zip").write_bytes(content)
    with pytest.raises(DataError, match="no backup"):
        restore(tmp_path / "x.zip", tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_backup_of_a_newer_limner_is_refused(library, tmp_path):
    backup(library.folder, tmp_path / "lib.zip")
    rewritten(tmp_path / "lib.zip", tmp_path / "new.zip", lambda held, _: held.update(library_format=99))
    with pytest.raises(DataError, match="install a newer limner"):
        restore(tmp_path / "new.zip", tmp_path / "new")


def test_the_commands(library, tmp_path, capsys):
    assert limner(["library", "backup", str(library.folder), str(tmp_path / "b.zip")]) == 0
    assert "1 project" in capsys.readouterr().out
    assert limner(["library", "restore", str(tmp_path / "b.zip"), str(tmp_path / "new")]) == 0
    assert capsys.readouterr().out.startswith(f"restored: {tmp_path / 'new'} (")
    assert limner(["library", "restore", str(tmp_path / "none.zip"), str(tmp_path / "n")]) == 1
    assert "limner library backup" in capsys.readouterr().err


def test_a_library_mended_as_the_messages_say_keeps_projects_and_own_pictures(library, tmp_path):
    """Settings and tables are moved away, nothing else, and the pictures are indexed again."""
    folder = library.folder
    (folder / "library.json").write_text("{damaged")
    with pytest.raises(DataError, match=r"move library\.json and tables, and nothing else"):
        Library.open(folder)
    (folder / "library.json").unlink()
    (folder / "tables").rename(tmp_path / "tables")
    images = FakeImages()
    report = run(folder, tmp_path / "pictures", images=images)
    assert (report.pictures, images.encoded) == (4, 4)
    assert Library.open(folder).find("own.png")
    assert (folder / "projects" / PROJECT / "parts" / "a.txt").read_text() == "Words."


def test_vectors_of_an_unknown_encoder_are_not_taken_over(library, tmp_path):
    """The settings are gone, the tables are not: nobody knows who made the vectors."""
    (library.folder / "library.json").unlink()
    images = FakeImages(fingerprint="grid-2")
    run(library.folder, tmp_path / "pictures", images=images)
    assert images.encoded >= 3
