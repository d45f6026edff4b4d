"""A fetch survives every server, keeps its bounds, and goes on after a kill."""

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from hostile_server import jpeg

from limner.errors import ConfigError, DataError
from limner.files import DRAFT_SUFFIX
from limner.research.datasets import fetch as fetch_module
from limner.research.datasets.fetch import FILE_NAME, LOCK_NAME, fetch_pictures, open_manifest
from limner.transfer import Fetched, FetchSettings

QUICK = FetchSettings(
    parallel=8,
    per_host=8,
    host_pause_s=0,
    connect_s=2,
    read_s=2,
    total_s=5,
    max_bytes=100_000,
    retries=0,
    allow_private=True,
)


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch):
    monkeypatch.setattr(fetch_module, "_BACKOFF_S", 0.01)


def lines(folder):
    return {one["url"]: one for one in map(json.loads, (folder / FILE_NAME).read_text().splitlines())}


def one(server, folder, path, **settings):
    """Fetch one path; its line of the manifest."""
    url = server.url(path)
    fetch_pictures({url: "0.jpg"}, folder, replace(QUICK, **settings))
    (found,) = lines(folder).values()
    assert (folder / "0.jpg").exists() == (found["state"] == "done")
    assert sorted(file.name for file in folder.iterdir()) == sorted(
        [LOCK_NAME, FILE_NAME] + ["0.jpg"] * (found["state"] == "done")
    )
    return found


def test_pictures_come_as_they_are_with_a_line_each(server, tmp_path):
    wanted = {server.url(f"ok/{n}"): f"{n}.jpg" for n in range(6)}
    seen = []
    report = fetch_pictures(wanted, tmp_path / "new" / "folder", QUICK, progress=seen.append)
    folder = tmp_path / "new" / "folder"
    for number in range(6):
        assert (folder / f"{number}.jpg").read_bytes() == jpeg(number)
    line = lines(folder)[server.url("ok/3")]
    assert (line["state"], line["name"], line["status"], line["attempts"]) == ("done", "3.jpg", 200, 1)
    assert line["sha256"] == hashlib.sha256(jpeg(3)).hexdigest()
    assert line["size_bytes"] == len(jpeg(3))
    assert (report.wanted, report.done, report.dead, report.left, report.requests) == (6, 6, 0, 0, 6)
    assert [now.done for now in seen] == [1, 2, 3, 4, 5, 6]
    assert seen[-1].left_s == 0
    assert "limner" in server.headers["/ok/0"]["User-Agent"]


@pytest.mark.parametrize("path", ["opaque/1", "untyped/1", "redirect/5"])
def test_unusual_but_sound_answers_are_taken(server, tmp_path, path):
    found = one(server, tmp_path, path)
    assert found["state"] == "done"
    assert found.get("final_url", "") == (server.url("ok/5") if path == "redirect/5" else "")


@pytest.mark.parametrize(
    ("path", "reason", "lasting"),
    [
        ("gone/1", "HTTP 404", True),
        ("html/1", "content type text/html", True),
        ("disguised/1", "not a usable picture: not a picture", True),
        ("script/1", "not a usable picture: not a picture", True),
        ("type/1", "content type text/plain", True),
        ("gzip/1", "content encoding gzip", True),
        ("loop/1", "too many redirects: more than 5", True),
        ("away/file", "address refused: .*scheme 'file'", True),
        ("away/none", "address refused: .*scheme 'gopher'", True),
        ("away/bad", "redirected to an invalid URL|address refused", True),
        ("nowhere/1", "HTTP 302", True),
        ("declared/1", "too large: 5,368,709,120 bytes", True),
        ("streamed/1", "too large: more than 100,000 bytes", True),
        ("truncated/1", "connection failed", False),
        ("cut/1", "not a usable picture: truncated", True),
        ("reset/1", "connection failed", False),
        ("nonsense/1", "connection failed", False),
        ("broken/1", "HTTP 503", False),
    ],
)
def test_everything_else_dies_with_a_reason(server, tmp_path, path, reason, lasting):
    found = one(server, tmp_path, path)
    assert found["state"] == "dead"
    assert re.match(reason, found["reason"]), found["reason"]
    assert found.get("lasting", False) == lasting
    assert server.poured < 20_000_000
    assert server.asked[f"/{path}"] == (6 if path.startswith("loop") else 1)


@pytest.mark.slow
@pytest.mark.parametrize("path", ["drip/1", "dripping_head/1", "silent/1"])
def test_a_slow_server_is_left(server, tmp_path, path):
    found = one(server, tmp_path, path, total_s=0.4)
    assert found["reason"].startswith("too slow")
    assert not found.get("lasting", False)


def test_a_silent_server_is_left_before_the_whole_time_is_up(server, tmp_path):
    found = one(server, tmp_path, "silent/1", read_s=0.2, total_s=60)
    assert found["reason"] == "too slow: ReadTimeout"


def test_private_addresses_are_refused_by_default(server, tmp_path):
    hosts = ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "2130706433"]
    wanted = {f"http://{host}:{server.server_port}/ok/1": f"{n}.jpg" for n, host in enumerate(hosts)}
    wanted["file:///etc/passwd"] = "4.jpg"
    report = fetch_pictures(wanted, tmp_path, replace(QUICK, allow_private=False))
    assert (report.done, report.dead) == (0, 5)
    found = lines(tmp_path).values()
    assert all(line["reason"].startswith(("address refused", "connection failed")) for line in found)
    assert sum("not public" in line["reason"] for line in found) >= 2
    assert not server.asked


def test_a_host_that_is_not_there_is_no_end(tmp_path):
    wanted = {
        "http://127.0.0.1:1/a": "0.jpg",
        "http://a.invalid/b": "1.jpg",
        "http://[bad": "2.jpg",
        "": "3.jpg",
    }
    report = fetch_pictures(wanted, tmp_path, QUICK)
    assert report.reasons == {"connection failed": 2, "address refused": 2}


def test_what_may_pass_is_tried_again(server, tmp_path):
    found = one(server, tmp_path, "busy/2", retries=2)
    assert (found["state"], found["attempts"]) == ("done", 3)
    assert server.asked["/busy/2"] == 3


@pytest.mark.slow
def test_retry_after_is_kept_and_bounded(server, tmp_path):
    begun = time.monotonic()
    found = one(server, tmp_path / "a", "busy/1/1", retries=1)
    assert found["state"] == "done"
    assert time.monotonic() - begun >= 1
    found = one(server, tmp_path / "b", "busy/1/9999", retries=5)
    assert (found["reason"], found["attempts"]) == ("HTTP 429", 1)


def test_lasting_deaths_are_not_asked_again_and_passing_ones_are(server, tmp_path):
    wanted = {server.url(path): f"{n}.jpg" for n, path in enumerate(["gone/1", "busy/1", "ok/1"])}
    assert fetch_pictures(wanted, tmp_path, QUICK).dead == 2
    report = fetch_pictures(wanted, tmp_path, QUICK)
    assert (report.done, report.dead, report.requests) == (2, 1, 1)
    assert dict(server.asked) == {"/gone/1": 1, "/busy/1": 2, "/ok/1": 1}
    assert fetch_pictures(wanted, tmp_path, QUICK, again=True).requests == 1
    assert server.asked["/gone/1"] == 2


def test_a_removed_file_is_fetched_anew_and_a_damaged_one_told(server, tmp_path):
    wanted = {server.url(f"ok/{n}"): f"{n}.jpg" for n in range(3)}
    fetch_pictures(wanted, tmp_path, QUICK)
    (tmp_path / "1.jpg").unlink()
    assert fetch_pictures(wanted, tmp_path, QUICK).requests == 1
    assert (tmp_path / "1.jpg").read_bytes() == jpeg(1)
    (tmp_path / "2.jpg").write_bytes(jpeg(2)[:-400])
    assert fetch_pictures(wanted, tmp_path, QUICK).reasons == {"file in the way": 1}
    (tmp_path / "2.jpg").unlink()
    assert fetch_pictures(wanted, tmp_path, QUICK).done == 3


def test_a_file_takes_its_name_only_when_it_is_on_disk(server, tmp_path, monkeypatch):
    seen = []

    def fsync(descriptor):
        seen.append(sorted(file.name for file in tmp_path.glob("*.jpg")))

    monkeypatch.setattr(os, "fsync", fsync)
    fetch_pictures({server.url("ok/0"): "0.jpg"}, tmp_path, QUICK)
    # first the picture under another name, then its folder with the name, then the line of the manifest
    assert seen == [[], ["0.jpg"], ["0.jpg"]]


def test_a_picture_in_place_is_kept_and_a_foreign_file_never_overwritten(server, tmp_path):
    (tmp_path / "0.jpg").write_bytes(jpeg(9))
    (tmp_path / "1.jpg").write_bytes(b"my notes")
    report = fetch_pictures({server.url(f"ok/{n}"): f"{n}.jpg" for n in range(2)}, tmp_path, QUICK)
    assert (report.done, report.dead, report.requests) == (1, 1, 0)
    assert report.reasons == {"file in the way": 1}
    assert (tmp_path / "0.jpg").read_bytes() == jpeg(9)
    assert (tmp_path / "1.jpg").read_bytes() == b"my notes"


@pytest.mark.slow
def test_one_host_is_asked_politely(server, tmp_path):
    server.pause_s = 0.05
    wanted = {server.url(f"ok/{n}"): f"{n}.jpg" for n in range(12)}
    fetch_pictures(wanted, tmp_path / "a", replace(QUICK, per_host=3))
    assert 1 < server.most_at_once <= 3
    server.starts.clear()
    server.pause_s = 0
    fetch_pictures(wanted, tmp_path / "b", replace(QUICK, host_pause_s=0.05))
    assert server.starts[-1] - server.starts[0] >= 0.05 * 11 * 0.9


@pytest.mark.slow
def test_requests_at_once_are_bounded_over_all_hosts(server, tmp_path):
    server.pause_s = 0.05
    hosts = ["127.0.0.1", "localhost"]
    wanted = {f"http://{hosts[n % 2]}:{server.server_port}/ok/{n}": f"{n}.jpg" for n in range(12)}
    report = fetch_pictures(wanted, tmp_path, replace(QUICK, parallel=2))
    assert report.done == 12
    assert server.most_at_once <= 2


@pytest.mark.slow
def test_the_folder_is_bounded_and_the_rest_comes_later(server, tmp_path):
    wanted = {server.url(f"ok/{n}"): f"{n}.jpg" for n in range(10)}
    room = sum(len(jpeg(n)) for n in range(4))
    tight = replace(QUICK, parallel=1, per_host=1, max_total_bytes=room)
    report = fetch_pictures(wanted, tmp_path, tight)
    assert (report.done, report.left) == (4, 6)
    assert report.size_bytes <= room
    report = fetch_pictures(wanted, tmp_path, QUICK)
    assert (report.done, report.left) == (10, 0)
    assert all(server.asked[f"/ok/{n}"] == 1 for n in range(4))


def test_the_same_bytes_for_many_addresses_are_told(server, tmp_path):
    wanted = {server.url(f"ok/1?{n}"): f"{n}.jpg" for n in range(3)} | {server.url("ok/2"): "9.jpg"}
    assert fetch_pictures(wanted, tmp_path, QUICK).same_bytes == 3


def test_wrong_settings_are_refused(server, tmp_path):
    for name in ("../a.jpg", "/a", "", "..", FILE_NAME, "a\0", "a/b", "a\\b", "b.jpg"):
        with pytest.raises(ConfigError, match="fetch: "):
            fetch_pictures({"http://a": name, "http://b": "b.jpg"}, tmp_path / "x", QUICK)
    with pytest.raises(ConfigError, match="parallel 0, expected more than 0"):
        replace(QUICK, parallel=0)
    with pytest.raises(ConfigError, match="retries -1, expected 0 or more"):
        replace(QUICK, retries=-1)
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="choose another folder"):
        fetch_pictures({server.url("ok/1"): "a"}, tmp_path / "file", QUICK)


def test_a_full_disk_is_one_clear_error(server, tmp_path, monkeypatch):
    def full(path, data):
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(fetch_module, "write_bytes", full)
    with pytest.raises(DataError, match=r"No space left on device .*0\.jpg.*then run the same command again"):
        fetch_pictures({server.url("ok/0"): "0.jpg"}, tmp_path, QUICK)
    monkeypatch.undo()
    assert fetch_pictures({server.url("ok/0"): "0.jpg"}, tmp_path, QUICK).done == 1


def test_the_manifest_survives_a_torn_line_and_one_process_owns_it(tmp_path):
    with open_manifest(tmp_path) as manifest:
        manifest.add(Fetched(url="http://a", name="a", state="done"))
        with pytest.raises(DataError, match="another fetch is writing here"), open_manifest(tmp_path):
            pass
    with (tmp_path / FILE_NAME).open("ab") as file:
        file.write(b'{"url": "http://b", "na')
    with open_manifest(tmp_path) as manifest:
        assert list(manifest.known) == ["http://a"]
        manifest.add(Fetched(url="http://c", name="c", state="dead", reason="HTTP 404"))
        manifest.add(Fetched(url="http://a", name="a", state="dead"))
    with open_manifest(tmp_path) as manifest:
        assert list(manifest.known) == ["http://a", "http://c"]
        assert manifest.known["http://a"].state == "dead"
    with (tmp_path / FILE_NAME).open("ab") as file:
        file.write(b"nonsense\n")
    with (
        pytest.raises(DataError, match=r"manifest.jsonl:4: not a line of a manifest"),
        open_manifest(tmp_path),
    ):
        pass


SCRIPT = """
import json, sys
from limner.research.datasets.fetch import fetch_pictures
from limner.transfer import FetchSettings
wanted = json.loads(sys.argv[1])
settings = FetchSettings(parallel=4, per_host=4, host_pause_s=0, retries=0, allow_private=True)
fetch_pictures(wanted, sys.argv[2], settings)
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_after_a_kill_nothing_comes_twice_and_nothing_is_lost(server, tmp_path, how):
    server.pause_s = 0.05
    wanted = {server.url(f"ok/{n}"): f"{n}.jpg" for n in range(40)}
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, json.dumps(wanted), str(tmp_path)], stderr=subprocess.DEVNULL
    )
    manifest = tmp_path / FILE_NAME
    for _ in range(1000):
        if manifest.exists() and manifest.read_bytes().count(b"\n") >= 8:
            break
        time.sleep(0.02)
    os.kill(process.pid, how)
    assert process.wait(20) != 0
    whole = {file.name for file in tmp_path.glob("[0-9]*.jpg")}
    noted = {Fetched.model_validate_json(line).name for line in manifest.read_bytes().split(b"\n")[:-1]}
    assert 8 <= len(noted) < 40
    assert noted <= whole
    for name in whole:
        assert (tmp_path / name).read_bytes() == jpeg(int(name.removesuffix(".jpg")))
    before = dict(server.asked)

    report = fetch_pictures(wanted, tmp_path, QUICK)
    assert report.done == 40
    assert len(lines(tmp_path)) == manifest.read_bytes().count(b"\n") == 40
    for number in range(40):
        assert (tmp_path / f"{number}.jpg").read_bytes() == jpeg(number)
        path = f"/ok/{number}"
        # a whole file is not asked for again; what was under way, at most four, is
        assert server.asked[path] == (1 if f"{number}.jpg" in whole else before.get(path, 0) + 1)
    assert sum(server.asked.values()) <= 44
    assert not list(tmp_path.glob(f".*{DRAFT_SUFFIX}"))
