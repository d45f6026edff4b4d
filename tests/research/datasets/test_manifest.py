"""Picture files are read and decoded once, and again when they change."""

import hashlib
import os
import warnings
from pathlib import Path

import pytest
from test_presence import picture

from limner.errors import DataError, LimnerWarning
from limner.research.datasets import missing
from limner.research.datasets.missing import MANIFEST, PictureHashes
from limner.research.training.corpus import open_corpus
from limner.research.training.settings import DataConfig

OLD_NS = 1_600_000_000_000_000_000


@pytest.fixture
def decoded(monkeypatch):
    """How many files were decoded since the list was last cleared."""
    seen = []
    whole = missing.decode

    def counted(data, *rest):
        seen.append(len(data))
        return whole(data, *rest)

    monkeypatch.setattr(missing, "decode", counted)
    return seen


def files(folder, count, mtime_ns=OLD_NS):
    """Pictures that were written long ago."""
    found = []
    for number in range(count):
        path = folder / f"{number}.jpg"
        path.write_bytes(picture())
        os.utime(path, ns=(mtime_ns, mtime_ns))
        found.append(path)
    return found


def look(folder, paths):
    with PictureHashes(folder) as known:
        return [known.look(path) for path in paths]


def test_a_file_is_decoded_again_only_when_it_changed(tmp_path, decoded):
    paths = files(tmp_path, 6)
    first = look(tmp_path / "features", paths)
    assert [one.sha256 for one in first] == [hashlib.sha256(p.read_bytes()).hexdigest() for p in paths]
    assert len(decoded) == 6
    decoded.clear()
    assert look(tmp_path / "features", paths) == first
    assert decoded == []
    paths[0].write_bytes(picture())  # another content
    os.utime(paths[1], ns=(OLD_NS + 1, OLD_NS + 1))  # another time
    paths[2].write_bytes(paths[2].read_bytes() + b" ")  # another size, the time put back
    os.utime(paths[2], ns=(OLD_NS, OLD_NS))
    again = look(tmp_path / "features", paths)
    assert len(decoded) == 3
    assert [one.sha256 for one in again] == [hashlib.sha256(p.read_bytes()).hexdigest() for p in paths]


def test_a_faulty_file_and_one_written_just_now_are_looked_at_each_time(tmp_path, decoded):
    (old,) = files(tmp_path, 1)
    old.write_bytes(picture()[:700])
    os.utime(old, ns=(OLD_NS, OLD_NS))
    new = tmp_path / "new.jpg"
    new.write_bytes(picture())
    for _ in range(2):
        broken, whole = look(tmp_path / "features", [old, new])
        assert "truncated" in broken.fault
        assert whole.fault == ""
    assert len(decoded) == 4
    assert not (tmp_path / "features").exists()  # nothing to keep, nothing made


def test_what_was_written_before_a_kill_is_kept(tmp_path, decoded, monkeypatch):
    monkeypatch.setattr(missing, "_WRITTEN_TOGETHER", 4)
    paths = files(tmp_path, 6)
    killed = PictureHashes(tmp_path)
    for path in paths:
        killed.look(path)
    decoded.clear()
    look(tmp_path, paths)  # no end of the first context
    assert len(decoded) == 2


def test_two_at_a_time(tmp_path):
    paths = files(tmp_path, 4)
    with PictureHashes(tmp_path) as one, PictureHashes(tmp_path) as other:
        assert [one.look(path) for path in paths] == [other.look(path) for path in paths]
    with PictureHashes(tmp_path) as third:
        assert third.look(paths[0]).fault == ""


def test_a_flipped_bit_gives_no_picture_another_hash(tmp_path):
    paths = files(tmp_path, 4)
    due = look(tmp_path / "features", paths)
    file = tmp_path / "features" / MANIFEST
    whole, found = file.read_bytes(), []
    for place in [place for place, byte in enumerate(whole) if byte][::11]:
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << place % 8]) + whole[place + 1 :])
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always", LimnerWarning)
            try:
                assert look(tmp_path / "features", paths) == due
            except DataError as error:
                found.append(str(error))
        found += [str(one.message) for one in said]
    assert any("is damaged; the picture is read again" in line for line in found)


def test_a_damaged_manifest_is_refused(tmp_path):
    (tmp_path / MANIFEST).write_bytes(b"no data base" * 100)
    with pytest.raises(DataError, match=r"pictures.sqlite: cannot be used as a manifest .*remove it"):
        PictureHashes(tmp_path)
    with PictureHashes(None) as none, pytest.raises(OSError, match="No such file"):
        none.look(tmp_path / "nowhere.jpg")


def test_a_second_run_decodes_no_picture(tmp_path, decoded):
    for path in files(tmp_path, 12):
        assert path.exists()
    lines = [f'{{"id": "{n}", "text": "text {n} of its own", "image": "{n}.jpg"}}' for n in range(12)]
    table = tmp_path / "mine.jsonl"
    table.write_text("\n".join(lines))
    config = DataConfig(
        set="pairs", annotations=str(table), pictures=str(tmp_path), features=str(tmp_path / "features")
    )
    first, _ = open_corpus(config, files=True)
    assert len(decoded) == 12
    decoded.clear()
    second, _ = open_corpus(config, files=True)
    assert decoded == []
    assert second == first
    path = Path(first.pairs[0].image)
    path.write_bytes(picture())
    third, _ = open_corpus(config, files=True)
    assert len(decoded) == 1
    changed = [n for n in range(12) if first.pairs[n].image_hash != third.pairs[n].image_hash]
    assert len(changed) == 1
