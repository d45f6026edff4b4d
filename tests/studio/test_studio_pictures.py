"""Pictures over HTTP: only those of the library, only their very content, thumbnails never beside them."""

import hashlib
import io
import os
import shutil
import warnings
import zipfile
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pillow_heif
import pytest
from PIL import Image
from starlette.testclient import TestClient

from limner.checksums import seal_bytes, unseal_bytes
from limner.cli.main import run as limner
from limner.errors import LimnerWarning
from limner.store import Only
from limner.store.database import Database
from limner.store.index import index
from limner.studio.app import create_app
from limner.studio.engine import Engine
from limner.studio.pictures import SIDES, Thumbnails, cache_folder, side_for
from limner.studio.routes import Studio

pytestmark = pytest.mark.slow


def files_in(folder):
    return {
        one: (one.stat().st_mtime_ns, one.stat().st_size)
        for one in sorted(folder.rglob("*"))
        if one.is_file()
    }


@pytest.fixture
def album(tmp_path):
    """A few pictures of a test's own, among them one on its side and one that is no square."""
    folder = tmp_path / "album"
    folder.mkdir()
    rng = np.random.default_rng(3)
    for number, size in enumerate([(600, 300), (300, 900), (40, 40)]):
        pixels = rng.integers(0, 255, (6, 6, 3), dtype=np.uint8)
        Image.fromarray(pixels).resize(size, Image.Resampling.BICUBIC).save(folder / f"IMG_{number}.png")
    turned = Image.new("RGB", (80, 40), "red")
    exif = turned.getexif()
    exif[0x0112] = 6
    exif[0x010E] = "a secret place"
    turned.save(folder / "turned.jpg", exif=exif)
    return folder


@pytest.fixture
def asking(album, tmp_path):
    """A studio over the album, without the guard."""
    index([album], tmp_path / "lib")
    with TestClient(
        create_app(Studio(Engine(tmp_path / "lib"), tmp_path / "projects", tmp_path / "cache"))
    ) as client:
        yield client


def ids(asking):
    return {one["name"]: one["id"] for one in asking.get("/api/library/pictures").json()["items"]}


def test_the_file_is_the_picture_itself(asking, album):
    for name, picture in ids(asking).items():
        answer = asking.get(f"/api/pictures/{picture}/file")
        assert answer.content == (album / name).read_bytes()
        assert answer.headers["content-type"] == ("image/jpeg" if name.endswith("jpg") else "image/png")
        assert "sandbox" in answer.headers["content-security-policy"]
        assert answer.headers["content-disposition"].startswith("inline;")
        again = asking.get(f"/api/pictures/{picture}/file", headers={"if-none-match": answer.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")


def test_what_no_browser_shows_comes_as_a_copy_that_it_does(tmp_path):
    album = tmp_path / "phone"
    album.mkdir()
    image = Image.new("RGB", (640, 320), "red")
    exif = Image.Exif()
    exif[0x0112], exif[0x010E] = 6, "a secret place"
    pillow_heif.from_pillow(image).save(album / "IMG_1.heic", exif=exif.tobytes())
    image.save(album / "scan.tif")
    before = files_in(album)
    index([album], tmp_path / "lib")
    studio = Studio(Engine(tmp_path / "lib"), tmp_path / "projects", tmp_path / "cache")
    with TestClient(create_app(studio)) as client:
        for name, size in {"IMG_1.heic": (320, 640), "scan.tif": (640, 320)}.items():
            address = f"/api/pictures/{ids(client)[name]}"
            for shown in (client.get(f"{address}/file"), client.get(f"{address}/thumbnail?side=1024")):
                assert shown.headers["content-type"] == "image/webp"
                with Image.open(io.BytesIO(shown.content)) as copy:
                    assert (copy.format, copy.size) == ("WEBP", size)
                assert b"secret" not in shown.content
            assert client.get(f"{address}/file").headers["content-disposition"].endswith('.webp"')
    assert files_in(album) == before


def test_a_thumbnail_is_upright_small_without_metadata_and_made_once(asking, album, tmp_path):
    before = files_in(album)
    found = ids(asking)
    due = {"IMG_0.png": (256, 128), "IMG_1.png": (85, 256), "IMG_2.png": (40, 40), "turned.jpg": (40, 80)}
    for name, size in due.items():
        answer = asking.get(f"/api/pictures/{found[name]}/thumbnail?side=250")
        assert answer.headers["content-type"] == "image/webp"
        assert "immutable" in answer.headers["cache-control"]
        assert "private" in answer.headers["cache-control"]
        with Image.open(io.BytesIO(answer.content)) as image:
            assert image.format == "WEBP"
            assert np.abs(np.array(image.size) - size).max() <= 1
            assert not image.getexif()
        assert b"secret" not in answer.content
        kept = tmp_path / "cache" / found[name][:2] / f"{found[name]}-256.webp"
        assert unseal_bytes(kept.read_bytes()) == answer.content
        kept.write_bytes(seal_bytes(b"kept"))
        assert asking.get(f"/api/pictures/{found[name]}/thumbnail?side=256").content == b"kept"
        tag = {"if-none-match": answer.headers["etag"]}
        assert asking.get(f"/api/pictures/{found[name]}/thumbnail?side=256", headers=tag).status_code == 304
    assert files_in(album) == before
    for side in (0, 1601, -5):
        assert asking.get(f"/api/pictures/{found['IMG_0.png']}/thumbnail?side={side}").status_code == 422


def test_a_damaged_copy_is_made_again_and_that_is_said_once(album, tmp_path):
    index([album], tmp_path / "lib")
    held, library = Thumbnails(tmp_path / "cache"), Database(tmp_path / "lib")
    one, other = library.pictures(library.passing(Only())[:2])
    due = [held.get(picture, 96) for picture in (one, other)]
    files = sorted((tmp_path / "cache").rglob("*.webp"))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", LimnerWarning)
        for place in range(0, files[0].stat().st_size, 11):
            for file in files:
                data = bytearray(file.read_bytes())
                data[place % len(data)] ^= 1 << place % 8
                file.write_bytes(data)
            assert [held.get(picture, 96) for picture in (one, other)] == due
    assert ["webp: damaged, or of an older version; it is created" in str(one.message) for one in said] == [
        True
    ]
    assert [unseal_bytes(file.read_bytes()) in due for file in files] == [True, True]


def test_few_different_sides_are_made():
    assert {side_for(asked) for asked in range(1, 1601)} == set(SIDES)
    assert all(side_for(asked) >= asked for asked in range(1, 1601))


def test_a_cache_that_cannot_be_written_costs_no_picture(asking, tmp_path):
    (tmp_path / "cache").write_text("a file is in the way")
    picture = next(iter(ids(asking).values()))
    answer = asking.get(f"/api/pictures/{picture}/thumbnail")
    assert answer.status_code == 200
    assert answer.content[:4] == b"RIFF"


def test_no_path_leads_out(asking):
    for name in (
        "0" * 64,
        "..",
        "../../../etc/passwd",
        "..%2f..%2f..%2fetc%2fpasswd",
        "%2e%2e/%2e%2e/etc/passwd",
        "/etc/passwd",
        "%2fetc%2fpasswd",
        "IMG_0.png",
        "0" * 63,
        "0" * 65,
        "0" * 64 + "%00",
        "0" * 64 + "%0a",
        "' OR 1=1 --",
        "F" * 64,
    ):
        for what in ("", "/file", "/thumbnail"):
            answer = asking.get(f"/api/pictures/{name}{what}")
            assert answer.status_code == 404, name
            assert answer.headers["content-type"] == "application/problem+json", name
            assert b"root:" not in answer.content, name


def test_static_files_are_those_of_the_studio_alone(asking):
    for path in ("/static/../app.py", "/static/..%2f..%2fcli.py", "/static/%2e%2e/%2e%2e/cli.py"):
        answer = asking.get(f"/static{path}")
        assert answer.status_code == 404, path
        assert b"import" not in answer.content, path


def test_what_took_the_place_of_a_picture_is_never_handed_out(asking, album, tmp_path):
    found = ids(asking)
    secret = tmp_path / "secret.png"
    Image.new("RGB", (9, 9), "black").save(secret)
    (album / "IMG_0.png").unlink()
    (album / "IMG_0.png").symlink_to(secret)
    (album / "IMG_1.png").write_bytes(secret.read_bytes())
    (album / "IMG_2.png").unlink()
    os.mkfifo(album / "IMG_2.png")
    for name in ("IMG_0.png", "IMG_1.png", "IMG_2.png"):
        for what in ("file", "thumbnail"):
            answer = asking.get(f"/api/pictures/{found[name]}/{what}")
            assert answer.status_code == 422
            assert answer.headers["content-type"] == "application/problem+json"
            detail = answer.json()["detail"]
            assert "changed since it was indexed" in detail or "does not exist" in detail
    assert not list((tmp_path / "cache").rglob("*.webp"))


def test_a_second_copy_serves_where_the_first_is_gone(album, tmp_path):
    (album / "copy").mkdir()
    shutil.copy(album / "IMG_0.png", album / "copy" / "IMG_0.png")
    index([album], tmp_path / "lib")
    (album / "IMG_0.png").unlink()
    with TestClient(
        create_app(Studio(Engine(tmp_path / "lib"), tmp_path / "projects", tmp_path / "cache"))
    ) as asking:
        picture = hashlib.sha256((album / "copy" / "IMG_0.png").read_bytes()).hexdigest()
        assert asking.get(f"/api/pictures/{picture}/file").status_code == 200
        assert asking.get(f"/api/pictures/{picture}").json()["paths"] == 2


def test_the_cache_is_never_among_the_pictures(album, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    index([album], tmp_path / "lib")
    assert cache_folder(Database(tmp_path / "lib")) == tmp_path / "lib" / "thumbnails"
    index([album], album / "lib")
    inside = Database(album / "lib")
    place = cache_folder(inside)
    assert place.is_relative_to(tmp_path / "caches" / "limner")
    assert not place.is_relative_to(album)
    (tmp_path / "link").symlink_to(album)
    index([tmp_path / "link"], album / "lib2")
    assert not cache_folder(Database(album / "lib2")).is_relative_to(album)


@pytest.fixture
def moving(drawn, tmp_path):
    """A project over pictures that can be moved away, and the folder they are in."""
    shutil.copytree(drawn, tmp_path / "pictures")
    words = ["index", str(tmp_path / "pictures"), "--library", str(tmp_path / "lib"), "--encoder", "colour"]
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        assert limner(words) == 0
    studio = Studio(Engine(tmp_path / "lib"), tmp_path / "projects", tmp_path / "thumbnails")
    with TestClient(create_app(studio)) as client:
        body = {"text": "A fox.\n\nA boat.", "format": "plain", "options": {"min_probability": 0}}
        yield client, client.post("/api/projects", json=body).json()


def test_a_missing_file_is_told_and_blocks_no_export(moving):
    client, project = moving
    assert project["missing"] == []
    picture = project["board"]["steps"][1]["chosen"]["picture"]
    for path in picture["paths"]:
        Path(path).unlink()
    assert client.get(f"/api/projects/{project['id']}").json()["missing"] == [1]
    assert client.get(f"/api/pictures/{picture['id']}").json()["missing"] is True
    listed = client.get("/api/library/pictures").json()["items"]
    assert [one["id"] for one in listed if one["missing"]] == [picture["id"]]
    for kind in ("html", "md", "pptx", "pdf", "docx", "epub", "json"):
        answer = client.get(f"/api/projects/{project['id']}/export", params={"format": kind})
        assert answer.status_code == 200, answer.text
        notes = unquote(answer.headers["limner-notes"]).split("\n")
        assert f"step 2: the file {picture['paths'][0]} is missing; its picture is left out" in notes, kind
        if kind in ("docx", "epub"):
            with zipfile.ZipFile(io.BytesIO(answer.content)) as made:
                names = [name for name in made.namelist() if "media/" in name or "/pictures/" in name]
            assert len(names) == 1, kind
    edited = {"revision": 1, "edit": {"kind": "lock", "step": 1}}
    assert client.post(f"/api/projects/{project['id']}/edits", json=edited).status_code == 200
