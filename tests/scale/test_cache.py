"""Files beside a library's tables: made again when damaged or out of date, and nothing else is touched."""

import errno
import os
import random
import sys
import warnings
from io import IOBase
from itertools import count
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from fakes import FakeImages, noise_picture

from limner.errors import DataError, LimnerWarning, NumericsError
from limner.files import DRAFT_SUFFIX
from limner.scale.cache import Cache, is_whole
from limner.scale.ingest import index
from limner.scale.library import PictureStore
from limner.scale.store import vectors_name
from limner.scale.write import vector_table

KEY, OTHER = "0" * 32, "1" * 32


@pytest.fixture
def library(tmp_path):
    """Seven pictures."""
    folder = tmp_path / "pictures"
    folder.mkdir()
    for number in range(7):
        noise_picture(number).save(folder / f"{number}.png")
    index([folder], tmp_path / "lib", image_encoders=[FakeImages()])
    return tmp_path / "lib"


def everything(folder):
    """All that a search takes from the cache, of a library that is opened for it."""
    library = PictureStore.open(folder)
    gallery, catalogue = library.gallery(["visual"]), library.catalogue()
    space = gallery.space("visual")
    arrays = [space.matrix, space.present, space.moments.mean, space.moments.covariance, gallery.groups]
    return [one.tolist() for one in arrays], list(gallery.ids), catalogue.page(0, 9)


def files(folder):
    return sorted(path for path in (folder / "cache").iterdir() if path.name != ".lock")


def path_of(folder, ending):
    return next(path for path in files(folder) if path.name.endswith(ending))


def rot(path, number, bit):
    """Flip a bit as a disk does: in place, and the file looks untouched."""
    times = path.stat()
    with path.open("r+b") as file:
        file.seek(number)
        byte = file.read(1)[0]
        file.seek(number)
        file.write(bytes([byte ^ (1 << bit)]))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


ENDINGS = (".vectors", ".arrow")


@pytest.mark.slow
@pytest.mark.parametrize("ending", ENDINGS)
def test_a_flipped_bit_changes_no_answer_and_is_mended(library, ending):
    due = everything(library)
    before = {path: path.read_bytes() for path in files(library)}
    draw, path = random.Random(0), path_of(library, ending)
    size = path.stat().st_size
    for number in [0, *draw.sample(range(size), 10), size - 1]:
        rot(path, number, draw.randrange(8))
        assert not is_whole(path)
        with pytest.warns(LimnerWarning, match="damaged; it is built again"):
            assert everything(library) == due
    assert {path: path.read_bytes() for path in files(library)} == before
    assert everything(library) == due  # without a warning


@pytest.mark.parametrize("size", [0, 1, 33, 200])
@pytest.mark.parametrize("ending", ENDINGS)
def test_a_file_that_was_cut_short_is_made_again(library, ending, size):
    due, path = everything(library), path_of(library, ending)
    whole = path.read_bytes()
    os.truncate(path, size)
    with pytest.warns(LimnerWarning, match="damaged; it is built again"):
        assert everything(library) == due
    assert path.read_bytes() == whole


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("number", [errno.EROFS, errno.ENOSPC, errno.EACCES])
def test_damage_that_cannot_be_written_again_is_read_around(library, monkeypatch, ending, number):
    due, path = everything(library), path_of(library, ending)
    rot(path, path.stat().st_size // 3, 2)
    before = {one: one.read_bytes() for one in files(library)}
    monkeypatch.setattr(Path, "open", refusing(Path.open, number))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert everything(library) == due
    told = [str(one.message) for one in said]
    assert sum("built again" in one for one in told) == 1
    assert sum("cannot be written" in one for one in told) == 1
    assert {one: one.read_bytes() for one in files(library)} == before


def refusing(opened, number):
    """A disk of which no file is opened for writing."""

    def opening(path, mode="r", *rest, **more):
        if set(mode) & set("wxa+"):
            raise OSError(number, os.strerror(number), str(path))
        return opened(path, mode, *rest, **more)

    return opening


def test_a_cache_that_can_be_read_and_not_written_is_used(library, monkeypatch):
    due = everything(library)
    monkeypatch.setattr(Path, "mkdir", None)
    monkeypatch.setattr(Path, "open", refusing(Path.open, errno.EROFS))
    monkeypatch.setattr("limner.scale.vectors.sums", None)
    assert everything(library) == due  # without a warning


def test_a_cache_of_a_read_only_library_is_in_memory_and_said_so_once(library, monkeypatch):
    due = everything(library)
    for path in files(library):
        path.unlink()
    monkeypatch.setattr(Path, "open", refusing(Path.open, errno.EROFS))
    opened = PictureStore.open(library)
    with pytest.warns(LimnerWarning, match=r"cache: cannot be written; .*\(Read-only file system"):
        opened.gallery(["visual"])
    opened.gallery(["visual"])  # without a warning
    with pytest.warns(LimnerWarning, match="cannot be written"):
        assert everything(library) == due
    assert files(library) == []


def test_what_is_cached_is_read_without_lance(library, tmp_path, monkeypatch):
    """To import it takes longer than the rest of a search, and a hundred megabytes."""

    def read():
        opened = PictureStore.open(library)
        return everything(library), opened.vectors(), opened.version()

    due = read()
    monkeypatch.setitem(sys.modules, "lance", None)
    assert read() == due
    rot(min((library / "tables/pictures.lance/_versions").glob("*.manifest")), 50, 3)
    with pytest.raises(DataError, match="damaged"):
        read()


def test_vectors_are_counted_anew_after_every_change(library, tmp_path):
    assert PictureStore.open(library).vectors() == {"visual": 7}
    noise_picture(30).save(tmp_path / "pictures" / "new.png")
    index([tmp_path / "pictures"], library, image_encoders=[FakeImages()])
    opened = PictureStore.open(library)
    assert opened.vectors() == {"visual": 8}
    opened.store.delete(vectors_name("visual"), opened.catalogue().ids[:2])
    assert opened.vectors() == {"visual": 6}
    assert len(opened.catalogue()) == 8


def outside(folder, *names):
    """A folder of other things."""
    folder.mkdir()
    for name in names:
        (folder / name).write_text("mine")
    return {path: path.read_text() for path in folder.iterdir()}


def test_a_cache_that_is_a_link_is_not_followed_and_nothing_behind_it_goes(library, tmp_path):
    due = everything(library)
    (library / "cache").rename(tmp_path / "before")
    mine = outside(
        tmp_path / "mine",
        "letter.txt",
        ".lock",
        f"visual-{KEY}.vectors",
        "state.safetensors",
        f".1{DRAFT_SUFFIX}",
    )
    (library / "cache").symlink_to(tmp_path / "mine")
    with pytest.warns(LimnerWarning, match="cannot be written.*a link; links in a library's folder"):
        assert everything(library) == due
    assert {path: path.read_text() for path in (tmp_path / "mine").iterdir()} == mine


@pytest.mark.parametrize("name", [".lock", ".arrow", ".vectors"])
def test_a_link_in_the_cache_is_not_followed(library, tmp_path, name):
    due = everything(library)
    path = library / "cache" / name if name == ".lock" else path_of(library, name)
    (tmp_path / "mine").write_text("mine")
    path.unlink(missing_ok=True)
    path.symlink_to(tmp_path / "mine")
    if name == ".lock":
        for one in files(library):
            one.unlink()
        with pytest.warns(LimnerWarning, match="a link"):
            assert everything(library) == due
    else:
        assert everything(library) == due
        assert not path.is_symlink()
    assert (tmp_path / "mine").read_text() == "mine"


def test_only_files_of_limners_own_names_go(library, tmp_path):
    everything(library)
    cache = library / "cache"
    earlier = [
        "state.safetensors",
        f"ledger-{'a' * 16}.safetensors",
        "ids-01234567.rows",
        "visual-01234567.moments",
    ]
    gone = [*earlier, f"visual-{KEY}.vectors", f"pictures-{KEY}.arrow", f".12{DRAFT_SUFFIX}"]
    stays = ["letter.txt", "visual-1.vectors", f"other-{KEY}.vectors", f"pictures-{KEY}.arrow.bak"]
    for name in (*gone, *stays):
        (cache / name).write_text("x")
    (cache / "pictures").mkdir()
    (cache / "pictures" / f"{KEY}-{OTHER}.arrow").write_text("x")
    (cache / "pictures" / "list.arrow").write_text("x")
    (cache / f"visual-{OTHER}.vectors").symlink_to(tmp_path / "pictures")
    noise_picture(30).save(tmp_path / "pictures" / "new.png")
    index([tmp_path / "pictures"], library, image_encoders=[FakeImages()])
    everything(library)
    names = {path.name for path in cache.iterdir()}
    assert names.isdisjoint(gone)
    assert names >= {*stays, "pictures", f"visual-{OTHER}.vectors"}
    assert [path.name for path in (cache / "pictures").iterdir()] == ["list.arrow"]
    assert len(names) == len(stays) + 5  # the two files, the lock, the folder, the link


def test_what_is_kept_is_made_once(tmp_path):
    made = []

    def write(file):
        made.append(1)
        file.write(b"some")
        file.write(b"thing")

    cache = Cache(tmp_path / "cache")
    for _ in range(2):
        assert cache.kept("a", KEY, ".x", write).tobytes() == b"something"
    assert len(made) == 1
    assert cache.kept("a", OTHER, ".x", write).tobytes() == b"something"
    assert sorted(path.name for path in (tmp_path / "cache").iterdir()) == [".lock", f"a-{OTHER}.x"]
    assert cache.kept("none", KEY, ".x", lambda file: None).tobytes() == b""
    assert (cache.kept("none", KEY, ".x", write).tobytes(), cache.refused) == (b"", None)


def test_a_map_outlives_the_file_that_takes_its_place(library, tmp_path):
    opened = PictureStore.open(library)
    space = opened.gallery(["visual"]).space("visual")
    before = space.matrix.tolist()
    noise_picture(30).save(tmp_path / "pictures" / "new.png")
    index([tmp_path / "pictures"], library, image_encoders=[FakeImages()])
    assert len(everything(library)[1]) == 8
    assert space.matrix.tolist() == before


class KilledError(BaseException):
    """The process is gone: nothing that catches errors sees it, and nothing is changed any more."""


def dying(patch, at):
    """Let the process be gone from the at-th moment before or after a change of a file."""
    moments = count(1)

    def of(change):
        def call(*rest, **named):
            if next(moments) >= at:
                raise KilledError
            done = change(*rest, **named)
            if next(moments) >= at:
                if isinstance(done, IOBase):
                    done.close()
                raise KilledError
            return done

        return call

    for name in ("open", "replace", "unlink"):
        patch.setattr(Path, name, of(getattr(Path, name)))


@pytest.mark.slow
def test_a_kill_while_files_are_made_leaves_what_the_next_process_completes(library, tmp_path):
    killed = 0
    for at in (1, 3, 4, 5, 6, 7, 9, 12):
        noise_picture(30 + at).save(tmp_path / "pictures" / f"new{at}.png")
        index([tmp_path / "pictures"], library, image_encoders=[FakeImages()])
        with pytest.MonkeyPatch.context() as patch:
            dying(patch, at)
            try:
                PictureStore.open(library).gallery(["visual"])
            except KilledError:
                killed += 1
        found = everything(library)
        for path in files(library):
            path.unlink()
        assert everything(library) == found
        assert len(files(library)) == 2
    assert killed >= 6


@pytest.mark.parametrize("value", [np.nan, np.inf, 0])
def test_a_vector_that_says_nothing_is_refused_and_its_picture_named(library, value):
    everything(library)
    opened = PictureStore.open(library)
    ids = opened.catalogue().ids
    rows = np.array(opened.gallery(["visual"]).space("visual").matrix[:2], np.float32)
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
    opened.store.upsert(vectors_name("visual"), table)
    with pytest.raises(NumericsError, match=f"picture {ids[1][:12]} is not finite or all zeros"):
        opened.gallery(["visual"])
