"""A pickle or rubbish in place of any file limner reads back ends in one line, and nothing of it ever runs.

Checkpoints, stored questions, word vectors and pretrained weights have the same test beside their own.
"""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from limner.errors import CheckpointError, DataError, LimnerError
from limner.research.datasets.features import DONE, IDS, KEY, ROWS, FeatureKey, extract, open_features
from limner.research.evaluation.refinement import REFINEMENT, Refinement, read_refinement, write_refinement
from limner.research.evaluation.results import Result
from limner.research.runs.run import Run
from limner.research.training.checkpoint import BEST
from limner.store import Described
from limner.store.database import Database, check
from limner.store.index import index

sys.path += [str(Path(__file__).parent / name) for name in ("evaluation", "retrieval")]
from fakes import FakeImages, FakeTexts, noise_picture
from made_up_results import result

FEATURES = FeatureKey(data="made-up", backbone="mean", weights_sha256="ab" * 32, transform="none")


@pytest.fixture(params=["pickle", "protocol", "zip", "nothing", "rubbish", "deep"])
def hostile(request, tmp_path, executable_payload):
    """Bytes that are none of limner's; those that would run make a file, which must never be there."""
    proof = tmp_path / "proof"
    payload = executable_payload(proof)
    yield {
        "pickle": payload,
        "protocol": b"\x80\x04" + payload,
        "zip": b"PK\x03\x04" + payload,
        "nothing": b"",
        "deep": b'{"format": ' + b"[" * 200_000,
        "rubbish": bytes(range(256)) * 3,
    }[request.param]
    assert not proof.exists()


def refused(read, kind=LimnerError):
    with pytest.raises(kind) as told:
        read()
    assert "\n" not in str(told.value)
    return str(told.value)


@pytest.fixture
def store(tmp_path):
    """A store of four rows."""
    paths = {}
    for number in range(4):
        paths[str(number)] = tmp_path / f"{number}.png"
        Image.new("RGB", (8, 8), (60 * number, 0, 0)).save(paths[str(number)])

    def open_or_make(make=True):
        if not make:
            return open_features(tmp_path / "store", FEATURES)
        return extract(
            tmp_path / "store",
            FEATURES,
            paths,
            prepare=lambda image: np.asarray(image, np.uint8),
            forward=lambda batch: batch.mean((1, 2), dtype=np.float32),
            side_px=8,
        )

    open_or_make()
    return tmp_path / "store" / FEATURES.folder, open_or_make


@pytest.mark.parametrize("name", [KEY, IDS, DONE])
def test_the_feature_store_refuses_hostile_files(store, hostile, name):
    folder, open_or_make = store
    (folder / name).write_bytes(hostile)
    for make in (False, True):
        assert str(folder) in refused(lambda make=make: open_or_make(make), CheckpointError)


def test_rows_of_the_feature_store_are_numbers_whatever_they_hold(store, hostile):
    folder, open_or_make = store
    (folder / ROWS).write_bytes(hostile[:23])
    assert "bytes, expected 24" in refused(lambda: open_or_make(make=False), CheckpointError)
    (folder / ROWS).write_bytes((hostile + bytes(24))[:24])
    assert open_or_make(make=False).stored.dtype == np.float16


@pytest.fixture(scope="module")
def whole_library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "pictures").mkdir()
    for number in range(4):
        noise_picture(number).save(folder / "pictures" / f"red barn {number}.png")
    index([folder / "pictures"], folder / "lib", image_encoders=[FakeImages()], text_encoder=FakeTexts())
    use(folder / "lib")
    return folder / "lib"


def use(folder):
    """All that a search reads of a library."""
    library = Database(folder, make=False)
    gallery = library.index(sorted(library.settings.spaces)).gallery
    rows = np.arange(len(gallery))
    vectors = {name: one.vectors(rows) for name, one in gallery.spaces.items()}
    return library.pictures(gallery.ids), library.words_of(gallery.ids[0]), vectors


@pytest.mark.slow
def test_every_file_of_a_library_is_refused_in_one_line(whole_library, hostile, tmp_path):
    Database(whole_library).write_words(use(whole_library)[0][0].id, Described(captions=("mine",)))
    files = [path.relative_to(whole_library) for path in whole_library.rglob("*.*")]
    assert {file.name for file in files} >= {"library.sqlite", "yours.sqlite"}
    for file in files:
        if file.suffix not in (".sqlite", ".f32") or file.name == "indexing.sqlite":
            continue
        if not hostile and file.name == "yours.sqlite":
            continue  # to SQLite an empty database, in which nothing was written
        copy = tmp_path / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(whole_library, copy, ignore=shutil.ignore_patterns("*-wal", "*-shm"))
        (copy / file).write_bytes(hostile[:100])
        line = refused(lambda copy=copy: use(copy), LimnerError)
        assert str(copy) in line
        assert [one.path for one in check(copy)] == [str(copy / file)], file


def test_result_files_fail_closed(tmp_path, hostile):
    result("CMCM", 1.0).write(tmp_path).write_bytes(hostile)
    assert "expected a result file" in refused(lambda: Result.read_all(tmp_path), DataError)


def test_the_refinement_fails_closed(tmp_path, hostile):
    write_refinement(tmp_path, Refinement(0.1, 0.2, "multiply"))
    (tmp_path / REFINEMENT).write_bytes(hostile)
    assert REFINEMENT in refused(lambda: read_refinement(tmp_path), CheckpointError)


@pytest.mark.parametrize(
    "change",
    [
        {"form": "divide"},
        {"form": ["multiply"]},
        {"strength": "nan"},
        {"strength": None},
        {"threshold": "-1"},
    ],
)
def test_a_refinement_with_impossible_values_fails_closed(tmp_path, change):
    write_refinement(tmp_path, Refinement(0.1, 0.2, "multiply"))
    stored = json.loads((tmp_path / REFINEMENT).read_text())
    (tmp_path / REFINEMENT).write_text(json.dumps(stored | change))
    refused(lambda: read_refinement(tmp_path))


def test_a_run_whose_weights_are_hostile_is_never_opened(tmp_path, hostile):
    (tmp_path / BEST).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / BEST).write_bytes(hostile)
    refused(lambda: Run.for_library(tmp_path), CheckpointError)
