"""Fixtures of the whole suite."""

import ctypes
import gc
import os
import signal
import sys
import tomllib
from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import sha256
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from browsing import chromium_here
from hypothesis import Phase, settings

pytest_plugins = ["benchmark_modules", "object_store", "tiny_clip", "trained_runs"]

# One thread in each of several processes, and little memory: threads that wait for each other on busy cores
# cost a fifth of the time.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MALLOC_ARENA_MAX", "2")

# For `make mutants`: a test that fails need not fail by its smallest example, and must fail each time.
settings.register_profile(
    "mutants", phases=(Phase.explicit, Phase.generate), derandomize=True, database=None, deadline=None
)

# Machines are noisy: how long an example takes says nothing of whether it is right. Every run draws
# others, so that half of the usual hundred find the same in two.
settings.register_profile("timeless", deadline=None, max_examples=50)
settings.load_profile("timeless")

# Tests that load OpenVINO themselves report that to nobody, see `limner.devices.openvino`.
sys.modules.setdefault("openvino_telemetry", None)

# What modules define is no garbage: to look for some among it is a third of the time to collect the tests.
gc.disable()

# A shell's job in the background begins with Ctrl-C ignored, and so would all that the tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """All cores for a bare pytest; for named files none, whose tests begin sooner in this process."""
    return len(os.sched_getaffinity(0)) if config.args_source is config.ArgsSource.TESTPATHS else 0


def pytest_collection_finish() -> None:
    """Take this folder off the path: "datasets" in it would pass for the package of Hugging Face."""
    sys.path[:] = [place for place in sys.path if place != str(Path(__file__).parent)]
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def _the_user_is_left_alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep tests, and the processes that they start, out of the data of the person who runs them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("user-data")))
        patch.delenv("LIMNER_LIBRARY", raising=False)
        yield


@pytest.fixture(scope="session", autouse=True)
def _nothing_waits_for_the_disk() -> Iterator[None]:
    """What tests write need not outlive the machine, and training saves thousands of times.

    Tests of what is on the disk when, such as those of tests/test_files.py, put their own in its place.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: os.fstat(handle) and None)
        yield


@pytest.fixture(scope="session", autouse=True)
def _stores_are_registered() -> Iterator[None]:
    """Libraries at URLs are opened by the extra, also where limner was installed before it did."""
    import limner.library as module

    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8"))["project"]
    declared = project["entry-points"]["limner.stores"]

    def entries(group: str, name: str) -> list[EntryPoint]:
        return [EntryPoint(name, declared[name], group)] if name in declared else []

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "entry_points", entries)
        yield


@pytest.fixture(scope="module", autouse=True)
def _memory_goes_back() -> Iterator[None]:
    """Give what tests have freed back to the system: glibc keeps it, and a worker would only grow."""
    yield
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


@pytest.fixture(scope="session", autouse=True)
def _books_are_drawn_once() -> Iterator[None]:
    """The same few drawn books are trained on by many tests, at two sizes."""
    from functools import lru_cache

    import limner.research.worlds.book as module

    with pytest.MonkeyPatch.context() as patch:
        for name in ("_drawn", "_true_graphs"):
            patch.setattr(module, name, lru_cache(maxsize=16)(getattr(module, name).__wrapped__))
        yield


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The data sets beside the project; a test that needs them is skipped where they are absent."""
    place = Path(os.environ.get("LIMNER_DATA", Path(__file__).parents[2] / "shared")) / "data"
    if not place.is_dir():
        pytest.skip(f"no data sets at {place}; set LIMNER_DATA to the folder that holds data/")
    return place


@pytest.fixture(scope="session")
def demonstration(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `limner demo` draws, once for all workers: its folder is not to be changed."""
    from filelock import FileLock

    from limner.research.worlds.demo import demo_collection

    base = tmp_path_factory.getbasetemp()
    shared = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "of-all-workers"
    shared.mkdir(exist_ok=True)
    with FileLock(shared / "lock"):
        if not (shared / "demo").is_dir():
            demo_collection(shared / "new").pictures.parent.rename(shared / "demo")
    return shared / "demo"


@pytest.fixture(scope="session")
def _rows_of_pictures() -> dict[bytes, tuple[object, object]]:
    """What `base` has made of a picture so far, for `drawings_are_encoded_once`."""
    return {}


@pytest.fixture
def drawings_are_encoded_once(
    _rows_of_pictures: dict[bytes, tuple[object, object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The demonstration is indexed by many documented samples: `base` sees each of its pictures once."""
    import numpy as np

    from limner.arrays import ImageVectors
    from limner.encoders.base_encoder import BASE, LOOKS, BaseImageEncoder

    rows, encode = _rows_of_pictures, BaseImageEncoder.encode_pixels

    def encode_pixels(encoder: BaseImageEncoder, batch: np.ndarray) -> ImageVectors:
        keys = [sha256(encoder.fingerprint.encode() + picture.tobytes()).digest() for picture in batch]
        if new := [place for place, key in enumerate(keys) if key not in rows]:
            made = encode(encoder, batch[new])
            for number, place in enumerate(new):
                rows[keys[place]] = made.spaces[BASE][number], made.spaces[LOOKS][number]
        return ImageVectors(
            {name: np.stack([rows[key][side] for key in keys]) for side, name in enumerate((BASE, LOOKS))}
        )

    monkeypatch.setattr(BaseImageEncoder, "encode_pixels", encode_pixels)


@pytest.fixture(scope="session")
def executable_payload() -> Callable[[Path], bytes]:
    """Bytes of a pickle that opens a file for writing when it is loaded, as ``{"weight": open(proof, "w")}``.

    Written by hand, opcode by opcode, so that nothing here imports what must never run.
    """
    return lambda proof: f"(dVweight\ncbuiltins\nopen\n(V{proof}\nVw\ntRs.".encode()


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    """Debian's Chromium, driven by Playwright, for one module of tests.

    Of a module and not of the session: its driver keeps an event loop running in this thread, beside which
    neither a second driver nor `asyncio.run` works.
    """
    playwright = pytest.importorskip("playwright.sync_api")
    if (chromium := chromium_here()) is None:
        pytest.skip("no chromium on this machine")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(
            executable_path=chromium,
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--in-process-gpu"],
        )
        yield opened
        opened.close()
