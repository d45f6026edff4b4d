"""Indexing by Ray: the rows of the local engine, whoever dies meanwhile."""

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from fakes import FakeImages, FakeTexts, noise_picture
from lance_tables import content
from pyarrow.fs import copy_files

import limner
from limner.errors import DataError, LimnerError
from limner.locations import file_system, location
from limner.scale import cluster as cluster_module
from limner.scale.cluster import FOLDER
from limner.scale.ingest import index
from limner.scale.library import SETTINGS, PictureStore
from limner.scale.store import FILES

pytestmark = pytest.mark.skipif(find_spec("ray") is None, reason="needs the extra 'scale'")
SUPPORT = Path(__file__).parents[1] / "support"
JOBS = [sys.executable, str(SUPPORT / "cluster_jobs.py")]
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join((str(Path(limner.__file__).parents[1]), str(SUPPORT))),
    "RAY_AUTH_TOKEN": secrets.token_hex(32),
    "RAY_AUTH_MODE": "token",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
}


@pytest.fixture(scope="module")
def cluster(object_store):
    """Address of a cluster of this machine, whose workers reach the object store."""
    environment = ENVIRONMENT | object_store
    with subprocess.Popen(
        [*JOBS, "stand"], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process.stdout.readline().strip()
        process.stdin.close()
        assert process.wait(60) == 0


def fill(*words, **variables):
    command = [*JOBS, "fill", *map(str, words)]
    environment = ENVIRONMENT | variables
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """Good, broken, equal and captioned ones."""
    folder = tmp_path_factory.mktemp("sources") / "pictures"
    (folder / "below").mkdir(parents=True)
    for number in range(150):
        noise_picture(number).save(folder / f"red-barn-{number}.png")
    for number in range(0, 150, 10):
        shutil.copy(folder / f"red-barn-{number}.png", folder / "below" / f"white goat {number}.png")
        (folder / f"red-barn-{number}.txt").write_text(f"a goat, the {number}th of many")
    (folder / "below" / "metadata.jsonl").write_text(
        json.dumps({"file_name": "white goat 20.png", "text": "a goat of a table", "credit": "Ann"})
    )
    (folder / "zero.jpg").touch()
    (folder / "text.jpg").write_text("no picture")
    (folder / "broken.jpg").symlink_to(folder / "gone.jpg")
    return folder


@pytest.fixture(scope="module")
def local(pictures, tmp_path_factory):
    """Library and report of the local engine."""
    library = PictureStore(tmp_path_factory.mktemp("local") / "lib")
    report = index([pictures], library, image_encoders=[FakeImages()], text_encoder=FakeTexts())
    return content(library), json.loads(report.model_dump_json())


def without_times(report):
    return {name: value for name, value in report.items() if not name.endswith(("_per_s", "seconds"))}


@pytest.mark.slow
def test_the_rows_and_the_report_are_those_of_the_local_engine(cluster, pictures, local, tmp_path):
    report = fill(pictures, tmp_path / "lib", cluster)
    rows, due = local
    assert content(PictureStore.open(tmp_path / "lib")) == rows
    assert without_times(report) == without_times(due)
    assert (report["new"], report["encoded"], len(report["skipped"])) == (165, {"grid": 150}, 3)
    known = {"image_encoders": [FakeImages()], "text_encoder": FakeTexts()}
    nowhere = cluster_module.ClusterEngine(lambda: [FakeImages()], "nowhere:1")
    again = index([pictures], tmp_path / "lib", engine=nowhere, **known)
    assert (again.new, again.unchanged) == (0, 165)  # nothing is new: no cluster is asked for


@pytest.mark.soak
def test_pictures_on_object_storage_give_the_rows_of_the_local_engine_too(
    cluster, pictures, object_store, bucket, tmp_path
):
    place = location(f"{bucket}/photos")
    copy_files(str(pictures / "below"), place.path, destination_filesystem=file_system(place))
    library = PictureStore(tmp_path / "here")
    index([str(place)], library, image_encoders=[FakeImages()], text_encoder=FakeTexts())
    report = fill(place, tmp_path / "there", cluster, **object_store)
    assert (report["new"], report["skipped"]) == (15, [])
    assert content(PictureStore.open(tmp_path / "there")) == content(library)


@pytest.mark.soak
def test_what_a_worker_was_given_that_died_is_done_by_another(cluster, pictures, local, tmp_path):
    mark = tmp_path / "died"
    report = fill(pictures, tmp_path / "lib", cluster, "dying", mark)
    assert mark.exists()
    assert report["new"] == 165
    assert content(PictureStore.open(tmp_path / "lib")) == local[0]


def written(library):
    """Number of files that an index has committed so far."""
    with suppress(LimnerError):
        return PictureStore.open(library).store.count(FILES, "status = 'ok'")
    return 0  # there is no library yet


@pytest.mark.soak
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL on this system")
@pytest.mark.parametrize("place", ["folder", "object storage"])
def test_after_kill_9_the_same_command_does_the_rest(
    place, *, pictures, local, object_store, bucket, tmp_path, monkeypatch
):
    """The cluster of this machine ends with its process, and its folder is not missed."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    library = f"{bucket}/lib" if place == "object storage" else str(tmp_path / "lib")
    environment = ENVIRONMENT | object_store | {"XDG_DATA_HOME": str(tmp_path / "data")}
    command = [*JOBS, "fill", str(pictures), library, "", "slow", "0.4"]
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as process:
        while process.poll() is None and not written(library):
            time.sleep(0.05)
        process.kill()
    assert 0 < written(library) < 165
    report = fill(pictures, library, "", **environment)
    assert 0 < report["unchanged"] < 165
    assert report["new"] + report["unchanged"] == 165
    found = content(PictureStore.open(library))
    found.pop(SETTINGS, None)  # in a folder they are in a file
    assert found == local[0]


@pytest.mark.soak
@pytest.mark.parametrize(
    ("number", "starting"), [(signal.SIGTERM, False), (signal.SIGHUP, True)], ids=["TERM", "HUP at the start"]
)
def test_an_index_that_is_ended_leaves_no_folder_of_its_cluster(number, starting, pictures, tmp_path):
    library = str(tmp_path / "lib")
    command = [*JOBS, "fill", str(pictures), library, "", "slow", "0.4"]

    def own():
        """Folders of the process's cluster."""
        return list(Path("/tmp").glob(f"{FOLDER}{process.pid}-*"))  # noqa: S108

    with subprocess.Popen(command, env=ENVIRONMENT, stderr=subprocess.DEVNULL) as process:
        while process.poll() is None and not (own() and (starting or written(library))):
            time.sleep(0.05)
        assert process.poll() is None
        process.send_signal(number)
        assert process.wait(120) == 128 + number
    assert not own()


@pytest.mark.slow
def test_a_signal_to_end_is_an_exception_until_the_work_is_done():
    run = subprocess.run([sys.executable, "-c", SIGNALLED], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["143", "before", "129", "before"]


SIGNALLED = """
import signal
from limner.scale import cluster
for number in (signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, lambda *_: print("before"))
    try:
        with cluster._at_the_end(cluster._exit):
            signal.raise_signal(number)
    except SystemExit as ended:
        print(ended.code)
    signal.raise_signal(number)
"""


def test_what_a_killed_process_left_is_cleared_away_by_the_next(tmp_path):
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    gone, here = (tmp_path / f"{FOLDER}{owner}-x" for owner in (process.pid, os.getpid()))
    for folder in (gone, here):
        (folder / "session").mkdir(parents=True)
    cluster_module._clear_away(tmp_path)
    assert not gone.exists()
    assert here.exists()


@pytest.mark.soak
def test_a_network_gives_the_vectors_of_the_local_engine_to_half_a_thousandth(cluster, tmp_path):
    """Its batches may be others, which moves sums by a rounding; stored vectors have eleven bits."""
    (tmp_path / "pictures").mkdir()
    for number in range(6):
        noise_picture(number, (300, 200)).save(tmp_path / "pictures" / f"{number}.jpg")
    command = [sys.executable, "-m", "limner", "index", "pictures", "--precision", "float32", "--library"]
    for library, words in {"here": [], "there": ["--engine", "ray", "--address", cluster]}.items():
        done = subprocess.run(
            [*command, library, *words],
            cwd=tmp_path,
            env=ENVIRONMENT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert "6 new" in done.stdout
        assert done.stdout.count("\n") == 4  # the report and nothing else
    here, there = (content(PictureStore.open(tmp_path / name)) for name in ("here", "there"))
    assert here["files"] == there["files"]
    for space in ("vectors_base", "vectors_looks"):
        assert [row["id"] for row in here[space]] == [row["id"] for row in there[space]]
        one, other = (np.array([row["vector"] for row in rows[space]]) for rows in (here, there))
        assert np.abs(one - other).max() < 5e-4
        assert np.any(one)


@pytest.mark.slow
def test_what_a_worker_says_is_wrong_is_what_is_raised():
    from ray.exceptions import RayError, RayTaskError

    own = DataError("a.jpg: broken")
    task = RayTaskError("encode", "Traceback", own)
    around = RuntimeError("user code")
    around.__cause__ = task
    assert cluster_module._plain(task) is cluster_module._plain(around) is own
    lost = cluster_module._plain(RayError("a node is gone"))
    assert isinstance(lost, DataError)
    assert "a node is gone" in str(lost)
