"""Libraries of earlier formats: read as they are, brought up to date by one command, and indexed further."""

import json
import shutil
import zipfile

import lance
import pyarrow as pa
import pytest
from fakes import FakeImages, FakeTexts, noise_picture

from limner.cli.main import run as limner
from limner.errors import DataError
from limner.library import migrate as module
from limner.library.backup import backup, restore
from limner.library.ingest import index
from limner.library.library import Library
from limner.library.migrate import upgrade
from limner.library.store import FILES, FORMAT

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


def run(folder, *sources, images=None, **options):
    images = images or FakeImages()
    return index(list(sources), folder, image_encoders=[images], text_encoder=FakeTexts(), **options)


def columns(folder):
    return lance.dataset(folder / "tables" / "files.lance").schema


def test_every_format_up_to_this_one_has_its_step():
    assert sorted(module.STEPS) == sorted(module.CHANGED) == list(range(1, FORMAT))


def test_an_earlier_library_is_read_as_it_is(first):
    library = Library.open(first)
    assert len(library) == 4
    assert len(library.gallery(["visual"])) == 4
    assert library.find("p1.png").path.endswith("p1.png")
    assert library.settings.format == 1


def test_indexing_says_what_to_run(first, pictures):
    with pytest.raises(DataError, match=rf"library format 1.*limner library migrate {first}"):
        run(first, pictures)
    assert columns(first).equals(FILES_1)


def test_the_command_keeps_what_it_changes_and_brings_all_up_to_date(first, pictures, capsys):
    before = Library.open(first).summary()
    assert limner(["library", "migrate", str(first)]) == 0
    assert f"format 1 → {FORMAT}; what was changed is kept in" in capsys.readouterr().out
    library = Library.open(first)
    assert (library.settings.format, library.summary()) == (FORMAT, before)
    with zipfile.ZipFile(first / f"before-format-{FORMAT}.zip") as kept:
        assert json.loads(kept.read("library.json"))["format"] == 1
        assert [one for one in kept.namelist() if one.startswith("tables/files.lance/")]
    images = FakeImages()
    report = run(first, pictures, images=images)
    assert (report.unchanged, report.changed, report.rehashed, images.encoded) == (4, 0, 0, 0)
    # From now on other content of the same size and time is noticed.
    stamps = {stamp for (stamp,) in library.store.rows(FILES, ["stamp"])}
    assert "" not in stamps
    assert limner(["library", "migrate", str(first)]) == 0
    assert "already" in capsys.readouterr().out


def test_what_was_kept_is_the_library_as_it_was(first, tmp_path):
    """The files that were kept, put back into the folder, make the earlier library."""
    assert limner(["library", "migrate", str(first)]) == 0
    for place in (first / "tables" / "files.lance").rglob("*"):
        if place.is_file():
            place.unlink()
    with zipfile.ZipFile(first / f"before-format-{FORMAT}.zip") as kept:
        kept.extractall(first)
    assert Library.open(first).settings.format == 1
    assert columns(first).equals(FILES_1)
    assert len(Library.open(first)) == 4


@pytest.mark.parametrize("step", ["before", "after"])
def test_a_kill_on_the_way_is_completed_by_the_next_call(first, step, monkeypatch):
    real = module.STEPS[1]

    def killed(store):
        if step == "after":
            real(store)
        raise KeyboardInterrupt

    monkeypatch.setitem(module.STEPS, 1, killed)
    with pytest.raises(KeyboardInterrupt):
        upgrade(first)
    assert Library.open(first).settings.format == 1
    assert len(Library.open(first)) == 4
    monkeypatch.undo()
    assert upgrade(first) == 1
    assert Library.open(first).settings.format == FORMAT


def test_a_newer_library_is_refused_in_one_line(first, capsys):
    settings = json.loads((first / "library.json").read_text())
    (first / "library.json").write_text(json.dumps(settings | {"format": FORMAT + 1, "more": 1}))
    assert limner(["library", "migrate", str(first)]) == 1
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert "install a newer limner" in told


def test_a_backup_of_an_earlier_library_is_restored_up_to_date(first, pictures, tmp_path):
    backup(first, tmp_path / "lib.zip")
    assert Library.open(first).settings.format == 1
    restore(tmp_path / "lib.zip", tmp_path / "new")
    assert Library.open(tmp_path / "new").settings.format == FORMAT
    assert run(tmp_path / "new", pictures).unchanged == 4


def test_damaged_projects_are_named(first, capsys):
    project = first / "projects" / "0123456789abcdef"
    project.mkdir(parents=True)
    (project / "project.json").write_text('{"schema_version": 2}')
    assert limner(["library", "migrate", str(first)]) == 0
    assert "project.json: schema_version" in capsys.readouterr().err
