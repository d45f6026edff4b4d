"""The feature store: rows equal a plain loop, a kill costs little, and nothing wrong is opened."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from limner.errors import CheckpointError, DataError, MissingError, NumericsError, ShapeError
from limner.research.datasets import features
from limner.research.datasets.features import DONE, IDS, KEY, ROWS, FeatureKey, extract, open_features

SHA = "ab" * 32
SETTINGS = FeatureKey(data="made-up", backbone="mean", weights_sha256=SHA, transform="squash 8")


def prepare(picture):
    return np.asarray(picture.resize((8, 8)))


def forward(batch):
    """Mean colour and its square: (B, 6)."""
    means = batch.reshape(len(batch), -1, 3).mean(axis=1, dtype=np.float32) / 255
    return np.concatenate([means, means**2], axis=1)


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch):
    monkeypatch.setattr(features, "BATCH", 4)


@pytest.fixture
def pictures(tmp_path):
    rng = np.random.default_rng(0)
    folder = tmp_path / "pictures"
    folder.mkdir()
    found = {}
    for number in range(21):
        path = folder / f"{number}.png"
        Image.fromarray(rng.integers(0, 256, (10, 12, 3), dtype=np.uint8)).save(path)
        found[f"picture {number}"] = path
    return found


def run(root, pictures, *, key=SETTINGS, forward=forward, **options):
    return extract(root, key, pictures, prepare=prepare, forward=forward, side_px=8, **options)


def test_rows_equal_a_plain_loop_in_half_precision(tmp_path, pictures):
    found = run(tmp_path / "store", pictures)
    plain = [forward(prepare(Image.open(path))[None])[0].astype(np.float16) for path in pictures.values()]
    assert found.stored.dtype == np.float16
    assert np.array_equal(found.stored, np.stack(plain))
    assert found.stored.shape == (21, 6)


def test_pairs_may_share_a_picture_and_rows_come_as_float32(tmp_path, pictures):
    found = run(tmp_path / "store", pictures)
    places = found.places(["picture 3", "picture 0", "picture 3"])
    assert places.tolist() == [3, 0, 3]
    rows = found.take(places)
    assert rows.dtype == np.float32
    assert np.array_equal(rows[0], rows[2])
    with pytest.raises(DataError, match="picture 'nobody' has no features"):
        found.places(["picture 1", "nobody"])


def test_the_rows_are_mapped_and_cannot_be_written(tmp_path, pictures):
    found = run(tmp_path / "store", pictures)
    assert isinstance(found.stored, np.memmap)
    with pytest.raises(ValueError, match="read-only"):
        found.stored[0] = 0


def test_a_second_run_computes_nothing(tmp_path, pictures):
    first = run(tmp_path / "store", pictures)

    def refuse(batch):
        raise AssertionError("computed again")

    again = run(tmp_path / "store", pictures, forward=refuse)
    assert np.array_equal(again.stored, first.stored)


def test_grids_keep_their_shape(tmp_path, pictures):
    found = run(
        tmp_path / "store", pictures, forward=lambda b: b[:, :2].astype(np.float32).reshape(-1, 16, 3)
    )
    assert found.stored.shape == (21, 16, 3)
    assert open_features(tmp_path / "store", SETTINGS).stored.shape == (21, 16, 3)


def test_progress_counts_to_the_end(tmp_path, pictures):
    seen = []
    run(tmp_path / "store", pictures, report=lambda done, total: seen.append((done, total)))
    assert seen == [(0, 21), (4, 21), (8, 21), (12, 21), (16, 21), (20, 21), (21, 21)]


KILLED = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, {tests!r})
import test_features as t
from limner.research.datasets import features
features.BATCH, features.SAVE_EVERY_BATCHES = 4, 2
calls = 0
def forward(batch):
    global calls
    calls += 1
    if calls == 4:
        # a torn write, as a kill in the middle of one leaves it
        with open({rows!r}, "ab") as file:
            file.write(b"torn")
        os.kill(os.getpid(), signal.SIGKILL)
    return t.forward(batch)
pictures = {{f"picture {{n}}": Path({folder!r}) / f"{{n}}.png" for n in range(21)}}
t.run({root!r}, pictures, forward=forward)
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="SIGKILL is of Unix")
def test_a_killed_run_goes_on_and_ends_with_the_same_bytes(tmp_path, pictures):
    whole = run(tmp_path / "whole", pictures)
    root = tmp_path / "killed"
    folder = root / SETTINGS.folder
    code = KILLED.format(
        tests=str(Path(__file__).parent),
        rows=str(folder / ROWS),
        folder=str(tmp_path / "pictures"),
        root=str(root),
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert json.loads((folder / DONE).read_text())["rows"] == 8
    with pytest.raises(CheckpointError, match="8 of 21 rows are done"):
        open_features(root, SETTINGS)
    calls = []
    resumed = run(root, pictures, forward=lambda batch: (calls.append(len(batch)), forward(batch))[1])
    assert sum(calls) == 13
    assert (folder / ROWS).read_bytes() == (tmp_path / "whole" / SETTINGS.folder / ROWS).read_bytes()
    assert np.array_equal(resumed.stored, whole.stored)


def test_a_broken_picture_is_named_and_the_rows_before_it_stay(tmp_path, pictures):
    pictures["picture 9"].write_bytes(b"no picture")
    with pytest.raises(DataError, match=r"made-up: picture 'picture 9' .*--set data.missing=drop"):
        run(tmp_path / "store", pictures)
    folder = tmp_path / "store" / SETTINGS.folder
    assert json.loads((folder / DONE).read_text())["rows"] == 8
    Image.new("RGB", (9, 9), "red").save(pictures["picture 9"])
    assert len(run(tmp_path / "store", pictures).ids) == 21


def test_decoding_runs_ahead_by_a_bound(tmp_path, pictures):
    lock, state = threading.Lock(), {"begun": 0, "most": 0, "taken": 0}

    def counted(picture):
        with lock:
            state["begun"] += 1
            state["most"] = max(state["most"], state["begun"] - state["taken"])
        return prepare(picture)

    def slow(batch):
        threading.Event().wait(0.02)
        with lock:
            state["taken"] += len(batch)
        return forward(batch)

    extract(tmp_path / "s", SETTINGS, pictures, prepare=counted, forward=slow, side_px=8)
    assert state["begun"] == 21
    assert state["most"] <= 3 * 4


@pytest.mark.parametrize("field", ["data", "backbone", "weights_sha256", "transform"])
def test_every_part_of_the_key_has_its_own_store_and_a_wrong_key_is_refused(tmp_path, pictures, field):
    run(tmp_path / "store", pictures)
    other = SETTINGS.model_copy(update={field: "cd" * 32})
    assert other.folder != SETTINGS.folder
    with pytest.raises(MissingError, match="extract them first"):
        open_features(tmp_path / "store", other)
    # even where a store was moved to the place of another
    (tmp_path / "store" / SETTINGS.folder).rename(tmp_path / "store" / other.folder)
    with pytest.raises(CheckpointError, match=f"features with {field} .*, expected 'cdcd"):
        open_features(tmp_path / "store", other)
    with pytest.raises(CheckpointError, match=f"features with {field}"):
        run(tmp_path / "store", pictures, key=other)


def test_other_pictures_are_refused(tmp_path, pictures):
    run(tmp_path / "store", pictures)
    fewer = dict(list(pictures.items())[:-1])
    with pytest.raises(CheckpointError, match="made for 21 pictures, not for these 20"):
        run(tmp_path / "store", fewer)
    with pytest.raises(CheckpointError, match="made for 21 pictures"):
        open_features(tmp_path / "store", SETTINGS, list(reversed(pictures)))


@pytest.mark.parametrize(
    ("name", "content", "line"),
    [
        (KEY, b"{}", "not a feature store"),
        (IDS, b"[1, 2", "not a feature store"),
        (IDS, b'["another"]', "list of pictures is damaged"),
        (DONE, b'{"rows": -1}', "counter of rows is damaged"),
        (ROWS, b"short", "5 bytes, expected 252"),
    ],
)
def test_a_damaged_store_is_refused_in_one_line(tmp_path, pictures, name, content, line):
    run(tmp_path / "store", pictures)
    (tmp_path / "store" / SETTINGS.folder / name).write_bytes(content)
    with pytest.raises(CheckpointError, match=line) as caught:
        open_features(tmp_path / "store", SETTINGS)
    assert "\n" not in str(caught.value)
    with pytest.raises(CheckpointError, match=line):
        run(tmp_path / "store", pictures)


def test_two_writers_are_kept_apart(tmp_path, pictures):
    refused = []

    def nested(batch):
        if not refused:
            with pytest.raises(CheckpointError, match="another process is extracting") as caught:
                run(tmp_path / "store", pictures)
            refused.append(caught)
        return forward(batch)

    assert len(run(tmp_path / "store", pictures, forward=nested).ids) == 21
    assert refused


@pytest.mark.parametrize(
    ("wrong", "error", "line"),
    [
        (lambda b: np.full((len(b), 2), 1e6, np.float32), NumericsError, "'picture 0' are not finite"),
        (lambda b: np.full((len(b), 2), np.nan, np.float32), NumericsError, "'picture 0' are not finite"),
        (lambda b: np.zeros((1, 2), np.float32), ShapeError, r"shape \(1, 2\), expected \(4, …\)"),
        (lambda b: np.zeros(len(b), np.float32), ShapeError, "expected"),
    ],
)
def test_wrong_features_are_refused(tmp_path, pictures, wrong, error, line):
    with pytest.raises(error, match=line):
        run(tmp_path / "store", pictures, forward=wrong)


def test_rows_may_not_change_their_shape(tmp_path, pictures):
    widths = iter([2, 3])
    with pytest.raises(ShapeError, match=r"shape \(3,\), those before \(2,\)"):
        run(
            tmp_path / "store",
            pictures,
            forward=lambda b: np.zeros((len(b), next(widths)), np.float32),
        )


def test_no_pictures_make_an_empty_store(tmp_path):
    assert len(run(tmp_path / "store", {}).ids) == 0
    assert features.open_features(tmp_path / "store", SETTINGS).ids == ()


def test_a_flipped_bit_of_any_row_is_found_and_its_picture_named(tmp_path, pictures):
    found = run(tmp_path / "store", pictures)
    path = tmp_path / "store" / SETTINGS.folder / ROWS
    whole, every = path.read_bytes(), np.arange(21)
    for number in range(len(whole)):
        data = bytearray(whole)
        data[number] ^= 1 << number % 8
        path.write_bytes(data)
        with pytest.raises(CheckpointError, match=f"'picture {number // 12}' are damaged"):
            open_features(tmp_path / "store", SETTINGS).take(every)
    path.write_bytes(whole)
    assert np.array_equal(open_features(tmp_path / "store", SETTINGS).take(every), found.take(every))
