"""A flipped bit anywhere in a library's cache is found and mended, with one line that says so."""

import os
import random
import warnings
from fnmatch import fnmatch
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from fakes import FakeImages, noise_picture

from limner.errors import CheckpointError, LimnerWarning, NumericsError
from limner.files import DRAFT_SUFFIX
from limner.store import blocks
from limner.store.ingest import index
from limner.store.library import Library
from limner.store.store import vectors_name
from limner.store.write import vector_table


@pytest.fixture
def library(tmp_path, monkeypatch):
    """Seven pictures, two in a block of the cache."""
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 200)
    folder = tmp_path / "pictures"
    folder.mkdir()
    for number in range(7):
        noise_picture(number).save(folder / f"{number}.png")
    index([folder], tmp_path / "lib", image_encoders=[FakeImages()])
    return Library.open(tmp_path / "lib")


def everything(library):
    """All that a search takes from the cache."""
    space = library.gallery(["visual"]).space("visual")
    space.check(range(len(space.matrix)))
    return [np.array(space.matrix), space.present, space.moments.mean, space.moments.covariance]


def files(library):
    return sorted(path for path in (library.folder / "cache").iterdir() if path.name != ".lock")


def rot(path, number, bit):
    """Flip a bit as a disk does: in place, and the file looks untouched."""
    times = path.stat()
    with path.open("r+b") as file:
        file.seek(number)
        byte = file.read(1)[0]
        file.seek(number)
        file.write(bytes([byte ^ (1 << bit)]))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


FILES = ("visual-????????.rows", "ids-????????.rows", "*.moments", "*.sums", "state.*")


@pytest.mark.parametrize("ending", FILES)
def test_a_flipped_bit_changes_no_answer_and_is_mended(library, ending):
    due = everything(library)
    draw = random.Random(0)
    size = path_of(library, ending).stat().st_size
    first = size // 2 if ending.startswith("state") else 0  # its head is JSON, where spaces say nothing
    for number in [first, *draw.sample(range(first, size), 30), size - 1]:
        rot(path_of(library, ending), number, draw.randrange(8))
        with pytest.warns(LimnerWarning, match=r"damaged.* made again"):
            found = everything(library)
        for one, other in zip(found, due, strict=True):
            np.testing.assert_array_equal(one, other)
    everything(library)  # without a warning


def path_of(library, ending):
    """A file of the cache."""
    return next(one for one in files(library) if fnmatch(one.name, ending))


def test_one_damaged_block_is_written_again_alone(library):
    due = everything(library)
    before = {path: (path.stat().st_ino, path.read_bytes()) for path in files(library)}
    rot(path_of(library, FILES[0]), 4 * 96, 3)
    with pytest.warns(LimnerWarning, match="rows 4 to 5 are damaged; they were made again"):
        found = everything(library)
    assert np.array_equal(found[0], due[0])
    assert {path: (path.stat().st_ino, path.read_bytes()) for path in files(library)} == before


def test_a_block_is_checked_when_it_is_read_and_not_before(library):
    everything(library)
    rot(path_of(library, FILES[0]), 4 * 96, 3)
    assert library.gallery(["visual"]).space("visual").vectors([0, 6]).any(axis=1).all()
    with pytest.warns(LimnerWarning, match="rows 4 to 5"):
        assert library.gallery(["visual"], [library.gallery([]).ids[4]]).space("visual").matrix.any()


@pytest.mark.parametrize("ending", FILES)
def test_damage_that_cannot_be_written_again_is_read_around(library, monkeypatch, ending):
    due = [np.array(one) for one in everything(library)]
    path = path_of(library, ending)
    rot(path, path.stat().st_size // 3, 2)
    before = {one: one.read_bytes() for one in files(library)}
    access = os.access
    monkeypatch.setattr(os, "access", lambda place, mode: not mode & os.W_OK and access(place, mode))
    monkeypatch.setattr(Path, "open", refuse(Path.open))
    monkeypatch.setattr(Path, "mkdir", denied)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = everything(library)
    assert len([one for one in said if "made again" in str(one.message)]) == 1
    for one, other in zip(found, due, strict=True):
        np.testing.assert_array_equal(one, other)
    assert {one: one.read_bytes() for one in files(library)} == before


def denied(path, *_, **__):
    raise PermissionError(13, "read-only", str(path))


def test_what_cannot_be_mended_is_told(library, monkeypatch):
    everything(library)
    rot(path_of(library, FILES[0]), 0, 0)
    monkeypatch.setattr(Path, "open", refuse(Path.open))
    with pytest.raises(CheckpointError, match="rows 0 to 1 are damaged and cannot be written again"):
        everything(library)


def refuse(opened):
    def opening(path, mode="r", *rest, **more):
        if "+" in mode:
            raise PermissionError(13, "read-only", str(path))
        return opened(path, mode, *rest, **more)

    return opening


def test_a_cache_of_an_older_version_goes(library):
    old = library.folder / "cache" / "visual"
    old.mkdir(parents=True)
    for name in ("8-9.npy", "8-9.present.npy"):
        (old / name).write_bytes(bytes(200))
    everything(library)
    assert not old.exists()


def test_leftovers_of_killed_builds_go_with_the_next_build(library):
    cache = path_of_cache(library)
    cache.mkdir(parents=True)
    (cache / f".0123{DRAFT_SUFFIX}").write_bytes(bytes(100))
    everything(library)
    assert list(cache.glob(f".*{DRAFT_SUFFIX}")) == []


def path_of_cache(library):
    return library.folder / "cache"


@pytest.mark.parametrize("value", [np.nan, np.inf, 0])
def test_a_vector_that_says_nothing_is_refused_and_its_picture_named(library, value):
    everything(library)
    ids = library.gallery([]).ids
    rows = np.array(library.gallery(["visual"]).space("visual").matrix[:2], np.float32)
    rows[1] = value
    with pytest.raises(NumericsError, match=ids[1][:12]):
        vector_table(ids[:2], ["x", "x"], rows)
    table = pa.table(
        {
            "id": pa.array(ids[:2]),
            "input_hash": pa.array(["x", "x"]),
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(rows.astype(np.float16).ravel()), 48),
        }
    )
    if np.isnan(value):
        return  # the tables take none
    library.store.upsert(vectors_name("visual"), table)
    with pytest.raises(NumericsError, match=f"picture {ids[1][:12]} is not finite or all zeros"):
        library.gallery(["visual"])
