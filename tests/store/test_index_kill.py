"""Killed at any moment and started again, indexing ends with the tables of an undisturbed run."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fakes import FakeImages, FakeTexts, content, noise_picture

import limner
from limner.store import index as indexing
from limner.store.database import Database
from limner.store.index import index

HERE = Path(__file__).parents[1] / "support"

BATCH, COMMIT, WORKERS = 4, 8, 2
PROGRAM = """
import sys
from pathlib import Path
sys.path[:0] = [{source!r}, {here!r}]
from fakes import FakeImages, FakeTexts
from limner.store import index as ingest
ingest.BATCH_PICTURES, ingest.COMMIT_FILES = {batch}, {commit}
folder, library, log, started = sys.argv[1:]
Path(started).touch()
ingest.index([folder], library, image_encoders=[FakeImages(delay_s=0.12, log=Path(log))],
             text_encoder=FakeTexts(), workers={workers})
"""


def make_pictures(folder, count):
    folder.mkdir()
    for number in range(count):
        name = f"red-barn-{number}.jpg" if number % 3 else f"IMG_{number:04}.png"
        noise_picture(number, (48, 36)).save(folder / name)
        if number % 10 == 0:
            (folder / name).with_suffix(".txt").write_text(f"a goat, the {number}th of many")
    for number in range(0, 40, 10):
        shutil.copy(folder / f"IMG_{3 * number:04}.png", folder / f"white goat copy {number}.png")
        noise_picture(number, (48, 36)).resize((40, 30)).save(folder / f"small-{number}.jpg", quality=95)
    (folder / "zero.jpg").touch()
    (folder / "text.jpg").write_text("no picture")
    (folder / "broken.jpg").symlink_to(folder / "gone.jpg")


def start(folder, library, log):
    program = PROGRAM.format(
        source=str(Path(limner.__file__).parents[1]),
        here=str(HERE),
        batch=BATCH,
        commit=COMMIT,
        workers=WORKERS,
    )
    started = log.with_suffix(".started")
    started.unlink(missing_ok=True)
    arguments = [sys.executable, "-c", program, folder, library, log, started]
    process = subprocess.Popen(
        [str(one) for one in arguments], stderr=subprocess.PIPE, start_new_session=True
    )
    while not started.exists() and process.poll() is None:
        time.sleep(0.005)
    return process


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL on this system")
@pytest.mark.parametrize(
    ("times", "pictures"), [(3, 100), pytest.param(10, 150, marks=pytest.mark.soak)], ids=["3", "10"]
)
def test_kills_change_nothing(times, pictures, tmp_path, monkeypatch):
    folder, library, log = tmp_path / "pictures", tmp_path / "killed", tmp_path / "log"
    make_pictures(folder, pictures)
    for name, size in (("BATCH_PICTURES", BATCH), ("COMMIT_FILES", COMMIT)):
        monkeypatch.setattr(indexing, name, size)

    def undisturbed(library, log):
        images = [FakeImages(log=log)]
        index([folder], library, image_encoders=images, text_encoder=FakeTexts(), workers=WORKERS)

    def committed_files():
        return Database(library).counts().files

    undisturbed(tmp_path / "undisturbed", tmp_path / "log0")
    due = content(Database(tmp_path / "undisturbed"))
    distinct = len(due[0])
    assert len((tmp_path / "log0").read_text().split()) == distinct

    chance = random.Random(7)
    kills, committed = 0, [0]
    while kills < times:
        process = start(folder, library, log)
        # Long enough to begin, too short to end: the imports alone take a second or two.
        encoded = len(log.read_text().split()) if log.exists() else 0
        wait_until = time.monotonic() + 60
        while time.monotonic() < wait_until and process.poll() is None:
            if log.exists() and len(log.read_text().split()) > encoded and (kills < 2 or committed_files()):
                break
            time.sleep(0.01)
        time.sleep(chance.uniform(0.0, 1.0))
        assert process.poll() is None, f"it ended before kill {kills + 1}: {process.stderr.read().decode()}"
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        kills += 1
        committed.append(committed_files())
    assert committed == sorted(committed), "a committed file was lost"
    assert committed[-1] > 0

    undisturbed(library, log)
    assert content(Database(library)) == due

    encodings = log.read_text().split()
    assert len(set(encodings)) == distinct
    # A kill may lose what is encoded and not yet written: less than a commit and one more batch.
    assert len(encodings) <= distinct + times * (COMMIT + BATCH)
    idle = FakeImages()
    assert index([folder], library, image_encoders=[idle], text_encoder=FakeTexts()).near_groups > 0
    assert idle.encoded == 0
