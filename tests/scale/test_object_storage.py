"""Libraries on object storage: rows as in a folder, several writers, kills, and what cannot be reached."""

import random
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pyarrow as pa
import pytest
from fakes import FakeImages, FakeTexts, noise_picture
from lance_tables import content
from object_store import SECRET, credentials_checked
from starlette.testclient import TestClient

import limner
from limner.cli.main import run
from limner.errors import DataError
from limner.locations import location
from limner.scale import batches
from limner.scale.ingest import index
from limner.scale.library import SETTINGS, PictureStore
from limner.scale.store import STATISTICS, STATISTICS_SCHEMA, TableStore
from limner.server.security import Guard, Guarded
from limner.studio.app import create_app
from limner.studio.engine import Engine
from limner.studio.projects import projects_folder
from limner.studio.routes import Studio

SUPPORT = Path(__file__).parents[1] / "support"
SIZES = {"BATCH_PICTURES": 4, "COMMIT_FILES": 4, "COMPACT_COMMITS": 3}
WRITER = f"""
import sys
sys.path[:0] = [{str(Path(limner.__file__).parents[1])!r}, {str(SUPPORT)!r}]
from fakes import FakeImages, FakeTexts
from limner.scale import batches, ingest
vars(batches).update({SIZES})
library, *folders = sys.argv[1:]
print("ready", flush=True)
sys.stdin.readline()
ingest.index(folders, library, image_encoders=[FakeImages()], text_encoder=FakeTexts())
"""


@pytest.fixture(autouse=True)
def own_data(tmp_path, monkeypatch):
    """What such a library keeps on this machine goes into a folder of the test."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


def draw(folder, numbers):
    folder.mkdir(parents=True)
    for number in numbers:
        noise_picture(number).save(folder / f"goat {number}.png")
        (folder / f"goat {number}.txt").write_text(f"a goat, the {number}th of many")
    return folder


def start(library, *folders):
    """A process that has imported what it needs, and begins when it is told."""
    command = [sys.executable, "-c", WRITER, str(library), *map(str, folders)]
    pipe = subprocess.PIPE
    writer = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
    assert writer.stdout.readline() == "ready\n"
    return writer


def begin(writer):
    writer.stdin.write("\n")
    writer.stdin.flush()


def ended(writer):
    said = writer.communicate(timeout=300)[1]
    assert writer.returncode == 0, said


def filled(library, *folders):
    index(folders, library, image_encoders=[FakeImages()], text_encoder=FakeTexts())
    return PictureStore.open(library)


def rows(library):
    """All but settings, which a library in a folder keeps in a file."""
    return {name: some for name, some in content(library).items() if name != SETTINGS}


@pytest.mark.slow
def test_the_rows_are_those_of_a_library_in_a_folder(bucket, tmp_path):
    one, two = draw(tmp_path / "one", range(6)), draw(tmp_path / "two", range(4, 9))
    local, far = filled(tmp_path / "lib", one, two), filled(f"{bucket}/lib", one, two)
    assert rows(far) == rows(local)
    assert (far.settings, far.summary()) == (local.settings, local.summary())
    (one / "goat 1.png").unlink()
    (one / "goat 2.txt").write_text("a sheep")
    assert rows(filled(f"{bucket}/lib", one)) == rows(filled(tmp_path / "lib", one))
    assert far.version() != local.version()
    assert PictureStore.open(Path(f"{bucket}/lib")).settings == PictureStore.open(tmp_path / "lib").settings

    found = far.gallery(["visual"]).space("visual")
    assert len([*(tmp_path / "data").rglob("visual-*.vectors")]) == 1
    here = local.gallery(["visual"]).space("visual")
    assert (found.vectors(range(8)) == here.vectors(range(8))).all()
    with pytest.raises(DataError, match=r"^s3://.*: not a library but contains 'lib'; name an address below"):
        PictureStore(bucket)


@pytest.mark.slow
def test_writers_change_different_settings_at_once(bucket, tmp_path):
    PictureStore(bucket)
    one, two = PictureStore.open(bucket), PictureStore.open(bucket)
    one.save(sources=("/photos/a", "/photos/b\udcff"))
    two.save(sources=("/photos/c",), reader="2")
    one.save(languages={"en": 0.75, "de": 0.25})
    one.home.keep("calibration.json", '{"schema_version": 1}')
    found = PictureStore.open(bucket)
    assert set(found.settings.sources) == {"/photos/a", "/photos/b\udcff", "/photos/c"}
    assert (found.settings.reader, found.settings.languages) == ("2", {"en": 0.75, "de": 0.25})
    assert list(found.settings.languages) == ["en", "de"]
    assert found.home.text("calibration.json") == b'{"schema_version": 1}'
    assert found.home.text("another.json") is None
    found.save(sources=("/photos/c",))
    assert PictureStore.open(bucket).settings.sources == ("/photos/c",)


@pytest.mark.slow
def test_a_key_that_several_writers_insert_at_once_is_one_row(bucket):
    """The first table too is made once: none of them replaces that of another."""
    stores, start = [TableStore(location(bucket)) for _ in range(2)], Barrier(2)

    def insert(store):
        for batch in range(3):
            start.wait()
            store.ensure(STATISTICS, STATISTICS_SCHEMA)
            rows = [{"id": f"{batch:04x}{row:04x}", "data": b"x"} for row in range(8)]
            store.upsert(STATISTICS, pa.Table.from_pylist(rows, schema=STATISTICS_SCHEMA))

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(insert, stores))
    ids = [one for (one,) in stores[0].rows(STATISTICS, ["id"])]
    assert sorted(ids) == [f"{batch:04x}{row:04x}" for batch in range(3) for row in range(8)]


@pytest.mark.slow
def test_two_writers_at_once_lose_and_double_nothing(bucket, tmp_path, monkeypatch):
    """Their folders overlap, and pictures of equal content lie in both."""
    for name, size in SIZES.items():
        monkeypatch.setattr(batches, name, size)
    both = draw(tmp_path / "both", range(100, 106))
    one, two = draw(tmp_path / "one", range(6)), draw(tmp_path / "two", range(4, 10))
    at_once = filled(tmp_path / "lib", one, both, two)
    writer = start(bucket, both, two)
    begin(writer)
    filled(bucket, one, both)
    ended(writer)
    far = PictureStore.open(bucket)
    assert rows(far) == rows(at_once)
    assert set(far.settings.sources) == set(at_once.settings.sources)
    assert far.settings.spaces == at_once.settings.spaces


@pytest.mark.soak
def test_a_killed_writer_leaves_what_the_next_run_completes(bucket, tmp_path):
    folder = draw(tmp_path / "pictures", range(24))
    undisturbed = filled(tmp_path / "lib", folder)
    chance, stored = random.Random(7), []
    for _ in range(4):
        writer = start(bucket, folder)
        begin(writer)
        time.sleep(chance.uniform(0.1, 2))
        writer.kill()
        writer.communicate()
        stored.append(PictureStore(bucket).store.count("files"))
    assert stored[0] < 24
    last = start(bucket, folder)
    begin(last)
    ended(last)
    assert rows(PictureStore.open(bucket)) == rows(undisturbed)


@pytest.mark.slow
def test_what_cannot_be_reached_is_one_line_of_a_command(bucket, object_store, tmp_path, capsys, monkeypatch):
    pictures = draw(tmp_path / "pictures", range(2))

    def said(*words, status=1):
        begun = time.monotonic()
        assert run([str(one) for one in words]) == status
        assert time.monotonic() - begun < 30
        out, line = capsys.readouterr()
        assert SECRET not in out + line
        assert line.count("\n") == 1, line
        return line

    lib = ("--library", f"{bucket}/lib")
    assert f"{bucket}/lib: no picture library here; make one with" in said("search", "goat", *lib)
    assert "the URL contains a name" in said("index", pictures, "--library", "s3://me:pass@b", status=2)
    colour = ("index", pictures, "--encoder", "colour")
    assert "there is no bucket 'absent'" in said(*colour, "--library", "s3://absent/lib")
    with credentials_checked(object_store):
        assert "refuses the credentials" in said(*colour, *lib)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free.getsockname()[1]}")
        assert "does not respond; check the network" in said("search", "goat", *lib)


@pytest.mark.slow
def test_commands_and_the_studio_work_over_it(bucket, tmp_path, capsys):
    pictures = draw(tmp_path / "pictures", range(4))
    lib = f"{bucket}/lib"
    text = tmp_path / "text.md"
    text.write_text("A goat.\n\n---\n\nThe second of many.")
    assert run(["index", str(pictures), "--library", lib, "--encoder", "colour"]) == 0
    assert "4 new" in capsys.readouterr().out
    assert run(["search", "a goat", "--library", lib, "--json"]) == 0
    assert capsys.readouterr().out.count("goat 1.png") == 1
    page = tmp_path / "out.html"
    assert run(["illustrate", str(text), "--library", lib, "-o", str(page), "--min-probability", "0"]) == 0
    assert "goat" in page.read_text()
    capsys.readouterr()
    ids = PictureStore.open(lib).find("goat 1.png").id
    (tmp_path / "qrels").write_text(f"1 0 {ids} 1\n")
    (tmp_path / "topics").write_text("1\ta goat, the 1th of many\n")
    judged = ["--qrels", str(tmp_path / "qrels"), "--topics", str(tmp_path / "topics")]
    assert run(["evaluate", *judged, "--library", lib]) == 0
    assert "gallery 4, topics 1" in capsys.readouterr().out

    engine, notes = Engine(Path(lib)), []
    projects = projects_folder(engine.folder, notes.append)
    assert projects.is_relative_to(tmp_path / "data")
    assert not notes
    app = create_app(Studio(engine, projects, tmp_path / "thumbnails"))
    with TestClient(Guarded(app, Guard(port=8420)), base_url="http://127.0.0.1:8420") as client:
        assert client.get("/api/library").json()["pictures"] == 4
        made = client.post("/api/projects", json={"text": text.read_text(), "format": "markdown"}).json()
        edit = {"kind": "choose", "step": 0, "picture": ids}
        changed = client.post(
            f"/api/projects/{made['id']}/edits", json={"revision": made["revision"], "edit": edit}
        )
        assert changed.status_code == 200, changed.text
        shown = client.get(f"/api/projects/{made['id']}").json()["board"]["steps"][0]["chosen"]
        assert shown["picture"]["id"] == ids
        assert client.get(f"/api/pictures/{ids}/thumbnail").status_code == 200
        words = {"captions": ["a sheep"], "keywords": []}
        assert client.put(f"/api/pictures/{ids}/words", json=words).status_code == 200
        assert PictureStore.open(lib).picture(ids).captions[0].text == "a sheep"
        listed = client.get("/api/library/pictures", params={"q": "SHEEP"}).json()
        assert [one["id"] for one in listed["items"]] == [ids]
        refused = client.post("/api/library/batches")
        assert "on object storage, where the studio keeps no pictures" in refused.text
