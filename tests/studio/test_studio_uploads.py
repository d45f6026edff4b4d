"""Pictures brought in a browser: kept in the library's folder, indexed, taken back; and folders to choose."""

import io
import os
import shutil

import numpy as np
import pytest
from made_up_pictures import ids_of
from PIL import Image
from starlette.testclient import TestClient

from limner.cli.main import run as limner
from limner.server.security import Guard, Guarded
from limner.store import ModelWords
from limner.store.database import Database
from limner.store.index import encode_captions, index
from limner.studio import uploads
from limner.studio.app import create_app
from limner.studio.engine import Engine
from limner.studio.routes import Studio
from limner.studio.uploads import safe_parts

pytestmark = pytest.mark.slow


@pytest.fixture
def studio(drawn_library, tmp_path):
    """A studio over a library of the test's own."""
    shutil.copytree(drawn_library, tmp_path / "lib")
    return Studio(Engine(tmp_path / "lib"), tmp_path / "projects", tmp_path / "thumbnails")


@pytest.fixture
def client(studio):
    with TestClient(create_app(studio)) as client:
        yield client


def photograph(number, kind="PNG", size=64):
    out = io.BytesIO()
    pixels = np.random.default_rng(number + 500).integers(0, 255, (6, 6, 3), dtype=np.uint8)
    Image.fromarray(pixels).resize((size, size)).save(out, kind)
    return out.getvalue()


def begun(client):
    answer = client.post("/api/library/batches")
    assert answer.status_code == 201
    return answer.json()["batch"]


def bring(client, batch, name, data, status=201):
    answer = client.post(
        f"/api/library/batches/{batch}/files",
        params={"name": name},
        content=data,
        headers={"content-type": "application/octet-stream"},
    )
    assert answer.status_code == status, answer.text
    return answer.json()


def ended(client, studio, answer):
    assert answer.status_code == 202, answer.text
    job = answer.json()["job"]
    studio.jobs.get(job).thread.join(120)
    status = client.get(f"/api/jobs/{job}").json()
    assert status["state"] == "done", status
    return status


def test_pictures_are_brought_found_and_taken_back(client, studio, tmp_path):
    before = client.get("/api/library").json()
    batch = begun(client)
    kept = bring(client, batch, "Holiday/Day 1/kite.png", photograph(1))
    assert (kept["state"], kept["name"]) == ("kept", "kite.png")
    assert bring(client, batch, "Holiday/Day 1/kite.png", photograph(2))["name"] == "kite (2).png"
    assert bring(client, batch, "copy.png", photograph(1)) == {**kept, "state": "known", "name": ""}
    known = client.get("/api/library/pictures").json()["items"][0]["id"]
    data = client.get(f"/api/pictures/{known}/file").content
    assert bring(client, batch, "again.jpg", data) == {"picture": known, "name": "", "state": "known"}
    place = tmp_path / "lib" / "uploads" / batch
    there = sorted(file.relative_to(place).as_posix() for file in place.rglob("[!.]*.*"))
    assert there == ["Holiday/Day 1/kite (2).png", "Holiday/Day 1/kite.png"]
    status = ended(client, studio, client.post(f"/api/library/batches/{batch}/finish"))
    assert status["message"].startswith("2 new")
    after = client.get("/api/library").json()
    assert after["pictures"] == before["pictures"] + 2
    found = client.get("/api/library/pictures", params={"folder": str(place)}).json()
    assert {one["name"] for one in found["items"]} == {"kite.png", "kite (2).png"}
    (told,) = client.get("/api/library/batches").json()
    assert (told["batch"], told["files"]) == (batch, 2)
    assert bring(client, begun(client), "third.png", photograph(2))["state"] == "known"

    status = ended(client, studio, client.delete(f"/api/library/batches/{batch}"))
    assert status["message"].startswith("2 files were removed")
    assert client.get("/api/library").json()["pictures"] == before["pictures"]
    (only_known,) = client.get("/api/library/batches").json()
    assert only_known["files"] == 0
    (moved,) = (tmp_path / "lib" / "trash").iterdir()
    assert (moved / "Holiday/Day 1/kite.png").read_bytes() == photograph(1)
    # What was taken back can be brought again.
    again = begun(client)
    assert bring(client, again, "kite.png", photograph(1))["state"] == "kept"
    ended(client, studio, client.post(f"/api/library/batches/{again}/finish"))
    assert client.get("/api/library").json()["pictures"] == before["pictures"] + 1


def test_all_pictures_of_a_batch_can_be_named_as_those_of_a_text(client, studio, tmp_path):
    known = client.get("/api/library/pictures").json()["items"][0]["id"]
    data, batch = client.get(f"/api/pictures/{known}/file").content, begun(client)
    for _ in range(2):
        assert bring(client, batch, "known.png", data)["state"] == "known"
    ended(client, studio, client.post(f"/api/library/batches/{batch}/finish"))
    again = Studio(Engine(tmp_path / "lib"), tmp_path / "projects", tmp_path / "thumbnails")
    with TestClient(create_app(again)) as restarted:
        assert bring(restarted, batch, "known.png", data)["state"] == "known"
        added = bring(restarted, batch, "new.png", photograph(1))["picture"]
        ended(restarted, again, restarted.post(f"/api/library/batches/{batch}/finish"))
        (told,) = restarted.get("/api/library/batches").json()
        assert (told["files"], len(told["named"])) == (1, 2)
        made = restarted.post(
            "/api/documents",
            params={"name": "a.md", "named": told["named"], "order": "any", "fill": True},
            content=b"One.\n\nTwo.",
            headers={"content-type": "application/octet-stream"},
        ).json()
        assert {one["picture"] for one in made["row"]["photographs"]} == {known, added}
        assert made["options"]["named"] == told["named"]
        assert (made["row"]["order"], made["options"]["fill"]) == ("any", True)


def test_a_batch_goes_on_after_a_restart_unless_it_was_taken_back(client, studio, tmp_path):
    batch = begun(client)
    bring(client, batch, "kite.png", photograph(1))
    again = Studio(Engine(tmp_path / "lib"), tmp_path / "projects", tmp_path / "thumbnails")
    with TestClient(create_app(again)) as restarted:
        assert bring(restarted, batch, "kite.png", photograph(1))["state"] == "known"  # its answer was lost
        assert bring(restarted, batch, "kite.png", photograph(2))["name"] == "kite (2).png"
        (told,) = restarted.get("/api/library/batches").json()
        assert (told["batch"], told["files"]) == (batch, 2)
        ended(restarted, again, restarted.post(f"/api/library/batches/{batch}/finish"))
        ended(restarted, again, restarted.delete(f"/api/library/batches/{batch}"))
        assert "undone" in bring(restarted, batch, "third.png", photograph(3), status=404)["detail"]


def test_indexing_later_does_not_lose_them(tmp_path):
    pictures = tmp_path / "album"
    pictures.mkdir()
    for number in (1, 2):
        (pictures / f"{number}.png").write_bytes(photograph(number))
    home = pictures / "lib"  # the library lies among the pictures
    assert limner(["index", str(pictures), "--library", str(home), "--encoder", "colour"]) == 0
    studio = Studio(Engine(home), tmp_path / "projects", tmp_path / "thumbnails")
    with TestClient(create_app(studio)) as client:
        batch = begun(client)
        bring(client, batch, "third.png", photograph(3))
        ended(client, studio, client.post(f"/api/library/batches/{batch}/finish"))
    library = Database(home)
    assert len(library) == 3
    for sources in ([pictures], []):
        report = index(sources, library)
        assert (report.pictures, report.deleted) == (3, 0), sources
    (home / "uploads" / batch / "third.png").unlink()
    assert index([home / "uploads"], library, forget=True).deleted == 1


def test_what_is_no_picture_is_not_kept(client, tmp_path):
    for name, data, why in (
        ("page.png", b"<html>no picture</html>", "page.png"),
        ("cut.png", photograph(1)[:200], "cut.png"),
        ("notes.txt", photograph(1), "not the name of a picture"),
        ("picture", photograph(1), "not the name of a picture"),
        ("../..", photograph(1), "not the name of a file"),
        ("folder/", photograph(1), "not the name of a file"),
    ):
        batch = begun(client)
        assert why in bring(client, batch, name, data, status=422)["detail"], name
        assert not (tmp_path / "lib" / "pictures").exists(), name
        assert client.post(f"/api/library/batches/{batch}/finish").status_code == 404, name


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("../../../etc/a.png", ["etc", "a.png"]),
        ("/etc/a.png", ["etc", "a.png"]),
        ("C:\\photos\\..\\a.png", ["C_", "photos", "a.png"]),
        (".hidden/.a.png", ["hidden", "a.png"]),
        ("a\0b\n<c>:*?.png", ["a_b__c____.png"]),
        ("CON.png", ["_CON.png"]),
        ("Été à l’été/снег 1.JPG", ["Été à l’été", "снег 1.JPG"]),
        ("\ud800.png", None),
        ("/".join("abcdefghij") + ".png", ["e", "f", "g", "h", "i", "j.png"]),
    ],
)
def test_names_from_outside_lead_nowhere(name, parts):
    made = safe_parts(name)
    assert parts is None or made == parts
    for part in made:
        assert part not in (".", "..")
        assert not set(part) & set('/\\:*?"<>|\0')
        assert not part.startswith(".")
        part.encode()


def test_long_names_are_cut_and_keep_their_suffix():
    (made,) = safe_parts("ü" * 500 + ".jpeg")
    assert made.endswith(".jpeg")
    assert 100 < len(made.encode()) <= 120
    assert len(safe_parts("x" * 500 + "/a.png")[0]) == 120


def test_too_much_is_refused(client, monkeypatch, tmp_path):
    batch = begun(client)
    monkeypatch.setattr(uploads, "BATCH_FILES", 1)
    bring(client, batch, "a.png", photograph(1))
    assert "at a time" in bring(client, batch, "b.png", photograph(2), status=422)["detail"]
    monkeypatch.setattr(uploads, "FILE_BYTES", 100)
    assert "at most 100" in bring(client, batch, "c.png", photograph(3), status=422)["detail"]
    monkeypatch.undo()
    batch = begun(client)
    monkeypatch.setattr(uploads, "BATCH_BYTES", 100)
    assert "at a time" in bring(client, batch, "b.png", photograph(2), status=422)["detail"]
    monkeypatch.undo()
    monkeypatch.setattr(uploads, "SPARE_BYTES", 2**62)
    assert "disk space left" in bring(client, batch, "b.png", photograph(2), status=422)["detail"]


def test_only_files_of_a_batch_may_be_large(studio):
    guard = Guard(larger={"/api/library/batches/": 9 * 2**20})
    with TestClient(Guarded(create_app(studio), guard), base_url="http://127.0.0.1") as client:
        batch, big = begun(client), photograph(1) + bytes(9 * 2**20 - 1000 - len(photograph(1)))
        assert len(big) > guard.body_bytes
        assert bring(client, batch, "big.png", big)["state"] == "kept"
        bring(client, batch, "big.png", big + bytes(2000), status=413)
        assert client.post("/api/search", content=big).status_code == 413


def test_batches_that_are_none(client):
    for batch in ("20260101-000000-abcdef", "..", "%2e%2e", "pictures"):
        bring(client, batch, "a.png", photograph(1), status=404)
        assert client.post(f"/api/library/batches/{batch}/finish").status_code == 404
        assert client.delete(f"/api/library/batches/{batch}").status_code in (404, 405)


def test_a_second_job_waits_and_a_batch_is_kept(client, studio, drawn):
    batch = begun(client)
    bring(client, batch, "a.png", photograph(1))
    job = studio.jobs.add_folder(drawn)
    answer = client.post(f"/api/library/batches/{batch}/finish")
    assert answer.status_code == 422 or job.status.state != "running"
    job.thread.join(120)
    if answer.status_code == 422:
        ended(client, studio, client.post(f"/api/library/batches/{batch}/finish"))
    assert client.get("/api/library/pictures", params={"q": "a.png"}).json()["total"] >= 1


def test_folders_to_choose_from(client, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    album = tmp_path / "album"
    for name in ("beach", "Alps", ".hidden"):
        (album / name).mkdir(parents=True)
    (album / "a.jpg").write_bytes(b"x")
    (album / "notes.txt").write_bytes(b"x")
    (album / os.fsdecode(b"od\xff")).mkdir()
    home = client.get("/api/folders").json()
    assert home["path"] == str(tmp_path)
    assert {"name": "album", "path": str(album)} in home["folders"]
    told = client.get("/api/folders", params={"path": str(album)}).json()
    assert [one["name"] for one in told["folders"]] == ["Alps", "beach"]
    assert (told["parent"], told["pictures"], told["name"]) == (str(tmp_path), 1, "album")
    assert client.get("/api/folders", params={"path": "/"}).json()["parent"] is None
    assert client.get("/api/folders", params={"path": f"{album}/.."}).json()["path"] == str(tmp_path)
    for wrong, status in (
        ("album", 422),
        ("~nobody-here/x", 422),
        ("\0", 422),
        (str(album / "a.jpg"), 422),
        (str(tmp_path / "no"), 422),
    ):
        assert client.get("/api/folders", params={"path": wrong}).status_code == status, wrong


def test_beyond_this_machine_nothing_is_brought_or_listed(drawn_engine, tmp_path):
    studio = Studio(drawn_engine, tmp_path / "projects", tmp_path / "cache", writable=False)
    picture = ids_of(drawn_engine.illustrator().library)[0]
    with TestClient(create_app(studio)) as client:
        for method, path in (
            ("POST", "library/batches"),
            ("POST", "library/batches/x/finish"),
            ("DELETE", "library/batches/x"),
            ("GET", "folders"),
            ("DELETE", f"pictures/{picture}/words"),
        ):
            answer = client.request(method, f"/api/{path}")
            assert (answer.status_code, answer.json()["type"]) == (403, "urn:limner:not-local"), path
        bring(client, "x", "a.png", photograph(1), status=403)
        assert client.put(f"/api/pictures/{picture}/words", json={}).status_code == 403
        assert client.get(f"/api/pictures/{picture}/words").status_code == 200


# Words


def test_words_are_written_found_and_forgotten(client, studio, tmp_path):
    picture = client.get("/api/library/pictures", params={"q": "fox"}).json()["items"][0]
    url = f"/api/pictures/{picture['id']}/words"
    before = client.get(url).json()
    assert before["edited"] is False
    assert before["now"] == before["stated"]
    body = {"captions": ["A zeppelin over Lisbon"], "keywords": ["airship"]}
    told = client.put(url, json=body).json()
    assert (told["edited"], told["now"], told["stated"]) == (True, body, before["stated"])
    record = client.get(f"/api/pictures/{picture['id']}").json()
    assert record["captions"] == ["A zeppelin over Lisbon", "airship"]
    found = client.post("/api/search", json={"text": "a zeppelin", "limit": 1}).json()["items"]
    assert found[0]["picture"]["id"] == picture["id"]
    assert found[0]["matched"] == ["zeppelin"]
    assert client.delete(url).json() == before
    assert client.get(f"/api/pictures/{picture['id']}").json()["captions"] == picture["captions"]
    assert client.put(f"/api/pictures/{'0' * 64}/words", json=body).status_code == 404
    assert client.put(url, json={"captions": "x"}).status_code == 422


def test_words_by_a_model_are_told_apart_and_become_the_users(client, studio, tmp_path):
    picture = client.get("/api/library/pictures", params={"q": "fox"}).json()["items"][0]
    url = f"/api/pictures/{picture['id']}/words"
    stated, library = client.get(url).json()["stated"], Database(tmp_path / "lib")
    by_model = ModelWords(model="seer:7b", captions=("A zeppelin over Lisbon",), keywords=("airship",))
    library.write_descriptions({picture["id"]: by_model})
    encode_captions(library)
    told = client.get(url).json()
    assert (told["edited"], told["stated"], told["described"]) == (
        False,
        stated,
        by_model.model_dump(mode="json"),
    )
    assert told["now"]["captions"] == [*stated["captions"], "A zeppelin over Lisbon"]
    found = client.post("/api/search", json={"text": "a zeppelin", "limit": 1}).json()["items"]
    assert found[0]["picture"]["id"] == picture["id"]
    edited = client.put(url, json={"captions": ["A balloon"], "keywords": []}).json()
    assert (edited["edited"], edited["now"]["captions"]) == (True, ["A balloon"])
    assert client.delete(url).json() == told


def test_chosen_by_use_words_and_occasion(client, studio):
    whole = client.get("/api/library/pictures", params={"limit": 1000}).json()
    facets = client.get("/api/library/facets").json()
    assert facets["used"] == 0
    assert facets["uncaptioned"] == whole["total"] - client.get("/api/library").json()["captioned"]
    text = "A fox looks out.\n\nThe rabbit bakes a cake."
    made = client.post(
        "/api/projects", json={"text": text, "format": "plain", "options": {"min_probability": 0}}
    ).json()
    shown = {step["chosen"]["picture"]["id"] for step in made["board"]["steps"]}
    used = client.get("/api/library/pictures", params={"used": True}).json()
    assert {one["id"] for one in used["items"]} == shown
    assert client.get("/api/library/facets").json()["used"] == len(shown) == 2
    free = client.get("/api/library/pictures", params={"used": False}).json()
    assert free["total"] == whole["total"] - 2
    client.delete(f"/api/projects/{made['id']}")
    assert client.get("/api/library/pictures", params={"used": True}).json()["total"] == 0
    one = whole["items"][0]["id"]
    same = client.get("/api/library/pictures", params={"occasion": one, "limit": 1000}).json()
    day = client.post("/api/search", json={"occasion": one, "limit": 500}).json()["items"]
    assert {found["picture"]["id"] for found in day} == {found["id"] for found in same["items"]} - {one}
    for wrong in ({"shape": "round"}, {"after": "yesterday"}, {"used": "maybe"}):
        assert client.get("/api/library/pictures", params=wrong).status_code == 422
    assert client.post("/api/search", json={"occasion": one, "text": "a fox"}).status_code == 422
