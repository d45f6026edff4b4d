"""The library over HTTP: what is in it, long lists, search, folders added and watched."""

import base64
import io
import json
import shutil
import threading
import time

import numpy as np
import pytest
from PIL import Image
from starlette.testclient import TestClient

from limner.cli.main import run as limner
from limner.export import LAYOUTS
from limner.store.database import Database
from limner.store.index import IndexReport
from limner.studio import jobs as jobs_module
from limner.studio.app import create_app
from limner.studio.engine import Engine
from limner.studio.jobs import FolderJob, Jobs, report_line
from limner.studio.routes import Studio

pytestmark = pytest.mark.slow


def test_what_the_library_holds(guarded, drawn_library, drawn):
    told = guarded.get("/api/library").json()
    summary = Database(drawn_library).counts()
    assert told["name"] == "lib"
    assert told["pictures"] == summary.pictures > 12
    assert told["files"] == summary.files == summary.pictures + 1
    assert told["captioned"] == summary.captioned
    assert told["channels"] == ["captions", "multilingual"]
    assert sorted(told["spaces"]) == ["captions", "colour", "multilingual"]
    assert (told["relations"], told["model"], told["metric"]) == ([], None, None)
    assert told["sources"] == [str(drawn)]
    assert told["left_out_count"] == 1
    (broken,) = told["left_out"]
    assert broken["path"] == str(drawn / "broken.jpg")
    assert broken["reason"]
    assert told["writable"] is True
    assert told["wording"]["channels"]["captions"] == "words of the picture"
    assert told["wording"]["layouts"].keys() == {suffix.removeprefix(".") for suffix in LAYOUTS}
    assert set(told["wording"]["paged"]) < told["wording"]["layouts"].keys()
    again = [one for one in told["duplicates"] if any(picture["paths"] == 2 for picture in one["pictures"])]
    assert len(again) == 1
    assert told["duplicate_groups"] == len(told["duplicates"])
    page = guarded.get("/api/library/duplicates?offset=0&limit=1").json()
    assert page["items"] == told["duplicates"][:1]
    assert page["total"] == told["duplicate_groups"]
    left = guarded.get("/api/library/left-out").json()
    assert left == {"total": 1, "items": told["left_out"]}
    assert guarded.get("/api/library/left-out?offset=1").json()["items"] == []


def test_the_list_in_pages_is_the_whole_list(guarded):
    url = "/api/library/pictures"
    whole = guarded.get(url, params={"limit": 1000}).json()
    assert whole["total"] == len(whole["items"])
    pages = []
    for offset in range(0, whole["total"] + 5, 5):
        page = guarded.get(url, params={"offset": offset, "limit": 5}).json()
        assert page["total"] == whole["total"]
        pages += page["items"]
    assert pages == whole["items"]
    assert guarded.get(f"/api/pictures/{pages[3]['id']}").json() == pages[3]
    for wrong in ({"offset": -1}, {"limit": 0}, {"limit": 1001}, {"q": "x" * 501}):
        assert guarded.get(url, params=wrong).status_code == 422


def test_the_list_is_looked_through_by_names_and_captions(guarded):
    whole = guarded.get("/api/library/pictures", params={"limit": 1000}).json()["items"]
    for words in ("rabbit", "RABBIT", "  fox ", ".JPG", "img_000", "again", "no such words"):
        due = [
            one["id"]
            for one in whole
            if any(words.strip().lower() in text.lower() for text in (one["name"], *one["captions"]))
        ]
        found = guarded.get("/api/library/pictures", params={"q": words, "limit": 1000}).json()
        # A picture may have a second file whose name matches.
        extra = [one for one in found["items"] if one["id"] not in due]
        assert all(one["paths"] > 1 for one in extra)
        assert [one["id"] for one in found["items"] if one not in extra] == due
        assert found["total"] == len(found["items"])
    assert guarded.get("/api/library/pictures", params={"q": "again"}).json()["total"] == 1


def test_words_find_pictures_and_a_picture_finds_others(guarded):
    found = guarded.post("/api/search", json={"text": "a rabbit", "limit": 5}).json()["items"]
    assert len(found) == 5
    scores = [one["score"] for one in found]
    assert scores == sorted(scores, reverse=True)
    assert found[0]["matched"] == ["rabbit"]
    assert set(found[0]["channels"]) == {"captions"}
    chances = [one["probability"] for one in found]
    assert 1 > chances[0] > 0
    assert chances == sorted(chances, reverse=True)
    picture = found[0]["picture"]["id"]
    alike = guarded.post("/api/search", json={"picture": picture, "limit": 500}).json()["items"]
    ids = [one["picture"]["id"] for one in alike]
    assert picture not in ids
    assert len(ids) == guarded.get("/api/library").json()["pictures"] - 1
    assert set(alike[0]["channels"]) == {"captions", "colour"}
    assert {one["probability"] for one in alike} == {None}  # likeness is no chance


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ({}, 422),
        ({"text": "  "}, 422),
        ({"text": "a", "picture": "0" * 64}, 422),
        ({"picture": "0" * 64}, 422),
        ({"picture": "etc/passwd"}, 422),
        ({"text": "a", "limit": 0}, 422),
        ({"text": "a", "limit": 501}, 422),
        ({"text": "a" * 20_001}, 422),
        ({"text": "a", "relation": "action"}, 400),
        ({"text": "a", "more": 1}, 422),
        ({"text": "a", "added": ["b"]}, 422),
        ({"text": "a", "without": [" "]}, 422),
        ({"text": "a", "without": ["🐶"]}, 422),
        ({"text": "a", "min_probability": 2}, 422),
        ({"picture": "0" * 64, "min_probability": 0.5}, 422),
        ({"occasion": "0" * 64, "without": ["b"]}, 422),
        ({"text": "a", "only": {"foldr": "/p"}}, 422),
        ({"image": "bm8gcGljdHVyZQ=="}, 422),
        ({"image": "%"}, 422),
    ],
    ids=str,
)
def test_questions_that_cannot_be_answered(guarded, asked, status):
    answer = guarded.post("/api/search", json=asked)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"


def test_a_search_takes_conditions_an_image_and_words_to_leave_out(guarded, project):
    def ask(**asked):
        return guarded.post("/api/search", json=asked).json()

    pictures = guarded.get("/api/library").json()["pictures"]
    plain = ask(text="a rabbit", limit=500)
    assert (plain["searched"], plain["below"], plain["note"]) == (pictures, 0, "")
    days = {"after": "1990-01-01"}
    assert ask(text="a rabbit", only=days)["searched"] == 0

    assert project["board"]["steps"][1]["chosen"] is not None
    found = ask(text="a rabbit", limit=500, only={"used": True, "shape": "square"})
    listed = guarded.get("/api/library/pictures", params={"used": True, "shape": "square"}).json()
    assert 0 < found["searched"] == listed["total"] < pictures
    ids = {one["id"] for one in listed["items"]}
    assert {one["picture"]["id"] for one in found["items"]} <= ids
    less = ask(text="a rabbit", without=["a rabbit"], limit=1)["items"][0]
    assert less["score"] == pytest.approx(0, abs=1e-6)
    assert ask(text="no rabbit")["note"].endswith('the field "without": "rabbit"')
    cut = ask(text="a rabbit", min_probability=1, limit=4)
    assert (cut["items"], cut["below"]) == ([], 4)
    best = plain["items"][0]["picture"]["id"]
    with Image.open(io.BytesIO(guarded.get(f"/api/pictures/{best}/file").content)) as image:
        copy = io.BytesIO()
        image.save(copy, "BMP")
    like = ask(image=base64.b64encode(copy.getvalue()).decode(), limit=1)
    assert like["items"][0]["picture"]["id"] == best
    assert guarded.get("/api/library").json()["pictures"] == pictures
    more = ask(picture=best, added=["a boat"], without=["snow"], only={"used": False}, limit=500)
    assert len(more["items"]) == more["searched"]
    assert not {one["picture"]["id"] for one in more["items"]} & ids


def test_texts_are_bounded(guarded):
    long = guarded.post("/api/illustrate", json={"text": "x" * 3_000_001, "format": "plain"})
    assert long.status_code == 422
    many = guarded.post(
        "/api/illustrate", json={"text": "A fox. " * 301, "format": "plain", "by": "sentence"}
    )
    assert many.status_code == 422
    assert "301 steps" in many.json()["detail"]
    huge = guarded.post("/api/illustrate", content=b" " * (8 * 2**20 + 1))
    assert huge.status_code == 413
    for wrong in ({"text": "", "format": "plain"}, {"text": "a"}, {"text": "a", "format": "json"}):
        assert guarded.post("/api/illustrate", json=wrong).status_code == 422


# Adding folders


def photographs(folder, count, first=0):
    folder.mkdir(exist_ok=True)
    rng = np.random.default_rng(first + 1)
    for number in range(first, first + count):
        pixels = rng.integers(0, 255, (6, 6, 3), dtype=np.uint8)
        Image.fromarray(pixels).resize((64, 64)).save(folder / f"shot_{number}.png")
    return folder


@pytest.fixture
def growing(drawn_library, tmp_path):
    """A studio over a library of the test's own."""
    shutil.copytree(drawn_library, tmp_path / "lib")
    studio = Studio(Engine(tmp_path / "lib"), tmp_path / "projects", tmp_path / "thumbnails")
    with TestClient(create_app(studio)) as client:
        client.studio = studio
        yield client


def ended(client, job):
    for _ in range(1200):
        status = client.get(f"/api/jobs/{job}").json()
        if status["state"] != "running":
            return status
        time.sleep(0.05)
    raise AssertionError(f"still running: {status}")


def test_a_folder_is_added_and_found_at_once(growing, drawn_library, tmp_path):
    before = growing.get("/api/library").json()
    folder = photographs(tmp_path / "new", 5)
    (folder / "bad.png").write_bytes(b"x")
    answer = growing.post("/api/library/folders", json={"path": str(folder)})
    assert answer.status_code == 202
    status = ended(growing, answer.json()["job"])
    assert status["state"] == "done", status
    assert status["message"].startswith("5 new and 0 changed files")
    assert status["left_out"] == 1
    after = growing.get("/api/library").json()
    assert after["pictures"] == before["pictures"] + 5
    assert after["left_out_count"] == before["left_out_count"] + 1
    assert after["spaces"] == before["spaces"]
    assert str(folder) in after["sources"]
    assert Database(tmp_path / "lib").settings.spaces == Database(drawn_library).settings.spaces
    found = growing.get("/api/library/pictures", params={"q": "shot_4"}).json()
    assert found["total"] == 1
    alike = growing.post("/api/search", json={"picture": found["items"][0]["id"]})
    assert alike.status_code == 200


def test_the_events_end_with_the_job(growing, tmp_path):
    folder = photographs(tmp_path / "new", 4, first=20)
    job = growing.post("/api/library/folders", json={"path": str(folder)}).json()["job"]
    with growing.stream("GET", f"/api/jobs/{job}/events") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = [line for line in answer.iter_lines() if line]
    assert all(line.startswith("data: ") for line in lines)
    told = [json.loads(line.removeprefix("data: ")) for line in lines]
    assert told[-1]["state"] == "done"
    assert told[-1] == growing.get(f"/api/jobs/{job}").json()
    assert {one["job"] for one in told} == {job}


def test_a_job_can_be_cancelled_and_keeps_what_it_read(growing, tmp_path, monkeypatch):
    folder = photographs(tmp_path / "new", 6, first=40)
    reached, go = threading.Event(), threading.Event()

    class Slow(FolderJob):
        def stage(self, name, total):
            super().stage(name, total)
            reached.set()
            go.wait(30)

    monkeypatch.setattr(jobs_module, "FolderJob", Slow)
    job = growing.post("/api/library/folders", json={"path": str(folder)}).json()["job"]
    assert reached.wait(30)
    assert growing.get("/api/library").json()["job"] == job
    busy = growing.post("/api/library/folders", json={"path": str(folder)})
    assert busy.status_code == 422
    assert "wait for it" in busy.json()["detail"]
    growing.post(f"/api/jobs/{job}/cancel")
    go.set()
    status = ended(growing, job)
    assert status["state"] == "cancelled"
    assert status["message"].startswith("stopped; pictures already indexed stay")
    again = growing.post("/api/library/folders", json={"path": str(folder)}).json()["job"]
    assert ended(growing, again)["state"] == "done"
    assert growing.get("/api/library/pictures", params={"q": "shot_45"}).json()["total"] == 1
    assert growing.get("/api/library").json()["job"] is None


def test_a_job_waits_for_another_writer_and_says_so(growing, tmp_path):
    folder = photographs(tmp_path / "new", 2, first=60)
    with growing.studio.engine.store.indexing(lambda: True):
        job = growing.post("/api/library/folders", json={"path": str(folder)}).json()["job"]
        started = time.monotonic()
        while "this one waits" not in (said := growing.get(f"/api/jobs/{job}").json()["message"]):
            assert time.monotonic() - started < 30, said
            time.sleep(0.05)
    assert ended(growing, job)["state"] == "done"


def test_vectors_of_other_weights_are_not_made_anew(growing, tmp_path):
    library = growing.studio.engine.illustrator().library
    spaces = dict(library.settings.spaces)
    library.save(spaces={**spaces, "colour": spaces["colour"].model_copy(update={"fingerprint": "0"})})
    folder = photographs(tmp_path / "new", 2, first=80)
    job = growing.post("/api/library/folders", json={"path": str(folder)}).json()["job"]
    status = ended(growing, job)
    assert status["state"] == "failed"
    assert "made by other weights of colour" in status["message"]


@pytest.mark.parametrize(
    "path", ["nowhere", "/no/such/folder", "", "~/no/such/folder", "~nobody-here/x", "\0"]
)
def test_folders_that_are_none(growing, path):
    answer = growing.post("/api/library/folders", json={"path": path})
    assert answer.status_code == 422
    assert growing.get("/api/library").json()["job"] is None


def test_the_library_is_no_folder_of_pictures(growing, tmp_path):
    for place in (tmp_path / "lib", tmp_path / "lib" / "tables"):
        assert growing.post("/api/library/folders", json={"path": str(place)}).status_code == 422


def test_beyond_this_machine_nobody_adds_folders(drawn_engine, tmp_path):
    studio = Studio(drawn_engine, tmp_path / "projects", tmp_path / "cache", writable=False)
    with TestClient(create_app(studio)) as client:
        answer = client.post("/api/library/folders", json={"path": str(tmp_path)})
        assert answer.status_code == 403
        assert answer.json()["type"] == "urn:limner:not-local"
        assert client.get("/api/library").json()["writable"] is False


def test_coordinates_are_told_on_this_machine_alone(growing, tmp_path):
    folder = photographs(tmp_path / "new", 1)
    (folder / "shot_0.png.json").write_text('{"geoData": {"latitude": 30.5, "longitude": -104.25}}')
    ended(growing, growing.post("/api/library/folders", json={"path": str(folder)}).json()["job"])
    picture = growing.get("/api/library/pictures", params={"q": "shot_0"}).json()["items"][0]["id"]
    for writable, due in ((True, ([30.5, -104.25], "Texas")), (False, (None, ""))):
        studio = Studio(Engine(tmp_path / "lib"), tmp_path / "others", tmp_path / "cache", writable=writable)
        with TestClient(create_app(studio)) as client:
            told = client.get(f"/api/pictures/{picture}/words").json()
            assert (told["coordinates"], told["place"].rpartition(",")[0]) == due


def test_jobs_that_are_none(guarded):
    for method, path in (("GET", ""), ("GET", "/events"), ("POST", "/cancel")):
        answer = guarded.request(method, f"/api/jobs/0123{path}")
        assert answer.status_code == 404
        assert answer.json()["type"] == "urn:limner:unknown-job"


def test_the_rest_is_estimated_once_there_is_something_to_go_by(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(jobs_module.time, "monotonic", lambda: now[0])
    job = FolderJob(tmp_path)
    job.stage("pictures", None)
    job.advance(10)
    now[0] = 10.0
    assert job.status.seconds_left is None
    job.total(50)
    assert job.status.seconds_left == pytest.approx(40.0)
    job.end("done", "all")
    assert job.status.seconds_left is None
    assert report_line(IndexReport(new=3, pictures=9)) == (
        "3 new and 0 changed files, 0 unchanged, 0 skipped; 9 pictures in the library"
    )


def test_an_empty_library_says_so_and_takes_its_first_folder(tmp_path):
    Database(tmp_path / "lib")
    studio = Studio(Engine(tmp_path / "lib"), tmp_path / "projects", tmp_path / "cache")
    with TestClient(create_app(studio)) as client:
        held = client.get("/api/library").json()
        assert (held["pictures"], held["channels"], held["duplicates"]) == (0, [], [])
        assert client.get("/api/library/pictures").json() == {"total": 0, "items": [], "months": {}}
        refused = client.post("/api/search", json={"text": "a fox"})
        assert refused.status_code == 422
        assert "holds no picture yet" in refused.json()["detail"]
        folder = photographs(tmp_path / "new", 3)
        (folder / "shot_0.txt").write_text("A fox in the snow.")
        job = client.post("/api/library/folders", json={"path": str(folder)}).json()["job"]
        status = ended(client, job)
        assert status["state"] == "done"
        assert "'limner models get clip'" in status["message"]  # what would look better, once
        job = client.post("/api/library/folders", json={"path": str(folder)}).json()["job"]
        assert "limner models" not in ended(client, job)["message"]
        found = client.post("/api/search", json={"text": "a fox"}).json()["items"]
        assert found[0]["picture"]["captions"] == ["A fox in the snow."]


def test_jobs_of_a_studio_that_ends_are_stopped(drawn_library, tmp_path):
    shutil.copytree(drawn_library, tmp_path / "lib")
    jobs = Jobs(Engine(tmp_path / "lib"))
    job = jobs.add_folder(photographs(tmp_path / "new", 3, first=90))
    jobs.stop(60)
    assert not job.thread.is_alive()
    assert job.status.state in ("done", "cancelled")
    jobs.stop()


def test_a_library_of_another_precision_than_the_usual_takes_folders(tmp_path):
    words = ["index", str(photographs(tmp_path / "old", 2)), "--library", str(tmp_path / "lib")]
    assert limner([*words, "--precision", "float32", "--no-captions"]) == 0
    before = Database(tmp_path / "lib").settings.spaces
    job = Jobs(Engine(tmp_path / "lib")).add_folder(photographs(tmp_path / "new", 3, first=90))
    job.thread.join(60)
    assert (job.status.state, job.status.message.partition(" ")[0]) == ("done", "3"), job.status.message
    assert Database(tmp_path / "lib").settings.spaces == before


def test_a_language_that_nothing_reads_is_said(guarded):
    hebrew = "כלב חום רץ על החוף.\n\nרכבת אדומה חוצה גשר.\n"
    found = guarded.post("/api/search", json={"text": hebrew, "limit": 5}).json()
    assert found["items"] == []
    assert "no installed encoder reads: Hebrew (he)" in found["note"]
    project = guarded.post("/api/projects", json={"text": hebrew, "format": "plain"}).json()
    assert any("no installed encoder reads: Hebrew (he)" in note for note in project["notes"])
    assert [step["chosen"] for step in project["board"]["steps"]] == [None, None]
    assert project["board"]["story"]["language"] == "he"
    assert guarded.post("/api/search", json={"text": "a rabbit", "limit": 5}).json()["note"] == ""


def test_pictures_of_an_emptied_folder_are_forgotten_only_on_request(growing, tmp_path):
    folder = photographs(tmp_path / "drive", 2, first=80)

    def read(**more):
        answer = growing.post("/api/library/folders", json={"path": str(folder), **more})
        return ended(growing, answer.json()["job"])

    assert read()["missing"] == 0
    before = growing.get("/api/library").json()["pictures"]
    for path in folder.iterdir():
        path.unlink()
    status = read()
    assert (status["missing"], growing.get("/api/library").json()["pictures"]) == (2, before)
    assert "2 of 2 pictures" in status["message"]
    folder.rmdir()
    assert growing.post("/api/library/folders", json={"path": str(folder)}).status_code == 422
    assert read(forget=True)["missing"] == 0
    assert growing.get("/api/library").json()["pictures"] == before - 2
