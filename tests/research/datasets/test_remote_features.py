"""Features on object storage: rows of the disk by shards, checked, kept within a bound, fetched again."""

import numpy as np
import pytest

from limner.errors import CheckpointError, ConfigError, LimnerWarning, MissingError
from limner.locations import file_system, location
from limner.research.datasets import remote_features
from limner.research.datasets.features import DONE, ROWS, FeatureKey, extract
from limner.research.datasets.remote_features import open_remote
from limner.research.training.corpus import _elsewhere
from limner.research.training.settings import DataConfig

KEY = FeatureKey(data="made", backbone="tiny", weights_sha256="0" * 64, transform="squash 4 float32")
COUNT, WIDTH = 30, 8
PLACES = np.array([3, 29, 3, 11, 0])


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A store of thirty rows on a disk, and the names of its pictures."""
    from PIL import Image

    folder = tmp_path_factory.mktemp("store")
    pictures = {}
    for number in range(COUNT):
        pictures[str(number)] = folder / f"{number}.png"
        Image.new("RGB", (4, 4), (number, 2 * number, 0)).save(pictures[str(number)])
    features = extract(
        folder / "features",
        KEY,
        pictures,
        prepare=np.asarray,
        forward=lambda batch: np.random.default_rng(batch[:, 0, 0, 0].astype(int)).random(
            (len(batch), WIDTH)
        ),
        side_px=None,
    )
    return folder / "features", features, list(pictures)


@pytest.fixture
def there(store, bucket, monkeypatch):
    """The store copied to object storage, where shards are of four rows, and the file system."""
    monkeypatch.setattr(remote_features, "SHARD_BYTES", 4 * 2 * WIDTH)
    at = location(f"{bucket}/features")
    system = file_system(at)
    for path in (store[0] / KEY.folder).iterdir():
        write(system, f"{at.path}/{KEY.folder}/{path.name}", path.read_bytes())
    return at, system


def write(system, path, data):
    with system.open_output_stream(path) as stream:
        stream.write(data)


def shards(cache):
    return sorted(int(path.stem) for path in (cache / f"{KEY.folder}.shards").glob("*.f16"))


@pytest.mark.slow
def test_rows_are_those_of_the_disk_and_only_their_shards_are_fetched(store, there, tmp_path):
    _, plain, ids = store
    at, system = there
    found = open_remote(at, KEY, ids, tmp_path, most_gb=1)
    assert shards(tmp_path) == []
    np.testing.assert_array_equal(found.take(PLACES), plain.take(PLACES))
    assert shards(tmp_path) == [0, 2, 7]
    # another process of the machine reads the cached shards, and downloads a corrupt one again
    kept = tmp_path / f"{KEY.folder}.shards"
    (kept / "0.f16").write_bytes(b"\0" * (kept / "0.f16").stat().st_size)
    system.delete_file(f"{at.path}/{KEY.folder}/{ROWS}")
    other = open_remote(at, KEY, ids, tmp_path, most_gb=1)
    np.testing.assert_array_equal(other.take(np.array([29, 11])), plain.take(np.array([29, 11])))
    with (
        pytest.warns(LimnerWarning, match=r"0\.f16: corrupt; downloaded again"),
        pytest.raises(FileNotFoundError),
    ):
        other.take(np.array([1]))
    data = bytearray((store[0] / KEY.folder / ROWS).read_bytes())
    data[5 * 2 * WIDTH] ^= 1
    write(system, f"{at.path}/{KEY.folder}/{ROWS}", bytes(data))
    (kept / "0.f16").unlink()
    np.testing.assert_array_equal(other.take(np.array([1])), plain.take(np.array([1])))
    with pytest.raises(CheckpointError, match="features of picture '5' are corrupt; upload the store"):
        other.take(np.array([4]))


def test_shards_used_longest_ago_go_beyond_the_bound(store, there, tmp_path):
    _, plain, ids = store
    with pytest.warns(
        LimnerWarning, match="cache limit data.features_cache_gb=1.3e-07; shards are downloaded"
    ):
        found = open_remote(there[0], KEY, ids, tmp_path, most_gb=130e-9)  # two shards of 64 bytes
    for number in (0, 5, 1, 7, 6, 0):
        np.testing.assert_array_equal(found.take(np.array([4 * number])), plain.take(np.array([4 * number])))
        assert len(shards(tmp_path)) <= 2
    assert 6 in shards(tmp_path)


def test_what_is_not_whole_there_is_refused(store, there, tmp_path):
    _, _, ids = store
    at, system = there
    with pytest.raises(
        MissingError, match=r"key\.json: does not exist; extract the features on a disk, then upload"
    ):
        open_remote(at / "none", KEY, ids, tmp_path, most_gb=1)
    with pytest.raises(CheckpointError, match="made for 30 pictures, not for these 29"):
        open_remote(at, KEY, ids[1:], tmp_path, most_gb=1)
    write(system, f"{at.path}/{KEY.folder}/{DONE}", b'{"rows": 20, "shape": [8]}')
    with pytest.raises(CheckpointError, match="20 of 30 rows are done"):
        open_remote(at, KEY, ids, tmp_path, most_gb=1)
    with pytest.raises(ConfigError, match="expected an address such as s3://BUCKET/FOLDER"):
        _elsewhere(DataConfig(set="pairs", features_from="folder"))
    assert _elsewhere(DataConfig(set="pairs")) is None
