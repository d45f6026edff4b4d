"""An object store that fails now and then, or goes away, while a library on it is written."""

import random
from contextlib import nullcontext

import pytest
from fakes import FakeImages, FakeTexts, noise_picture
from faulty_store import Fault, faulty
from lance_tables import content
from object_store import new_bucket

from limner.errors import MissingError
from limner.scale import batches, ingest
from limner.scale.library import SETTINGS, PictureStore

pytestmark = pytest.mark.slow


@pytest.fixture
def store(object_store, tmp_path, monkeypatch):
    """A store behind a proxy that can let requests fail; the environment names the proxy."""
    for name, value in object_store.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    for name, size in (("BATCH_PICTURES", 4), ("COMMIT_FILES", 4), ("COMPACT_COMMITS", 2)):
        monkeypatch.setattr(batches, name, size)
    with faulty(object_store["AWS_ENDPOINT_URL"]) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.address)
        proxy.new_bucket = lambda: new_bucket(object_store)
        yield proxy


@pytest.fixture(scope="module")
def fill(tmp_path_factory):
    """Index the same eight pictures into a library."""
    pictures = tmp_path_factory.mktemp("pictures")
    for number in range(8):
        noise_picture(number).save(pictures / f"{number}.png")
        (pictures / f"{number}.txt").write_text(f"goat {number}")

    def run(library):
        ingest.index([pictures], library, image_encoders=[FakeImages()], text_encoder=FakeTexts())

    return run


def left(library):
    """All rows but the settings, which a library in a folder keeps in a file, and these."""
    found = PictureStore(library)
    return {name: rows for name, rows in content(found).items() if name != SETTINGS}, found.settings


@pytest.fixture(scope="module")
def due(fill, tmp_path_factory):
    """What an undisturbed run leaves; made once."""
    library = tmp_path_factory.mktemp("undisturbed") / "lib"
    fill(library)
    return left(library)


FEWEST = 40


@pytest.fixture
def moments(store, fill, request):
    """Numbers of writing requests of a run, from 0: one of the first, or in the long tests all."""
    if request.param == "some":
        return [random.Random(request.node.name).randrange(FEWEST)]
    before = store.writes
    fill(f"{store.new_bucket()}/lib")
    asked = range(store.writes - before)
    assert len(asked) > FEWEST
    return asked


# A request that was carried out and whose answer was lost is the hardest to take.
some = pytest.mark.parametrize(
    ("fault", "moments"),
    [(Fault.LOST, "some"), *(pytest.param(fault, "every", marks=pytest.mark.soak) for fault in Fault)],
    indirect=["moments"],
)


@some
def test_one_request_that_fails_changes_nothing(store, fill, due, fault, moments):
    """Also where it was carried out and only its answer was lost: what is asked again is not done twice."""
    for moment in moments:
        library, begun = f"{store.new_bucket()}/lib", store.writes
        store.fault = lambda number, at=begun + moment: fault if number == at else None
        fill(library)
        assert store.writes > begun + moment
        assert left(library) == due, moment


GONE = r"^s3://.*: the object store at .* does not respond; check"


@some
def test_a_store_that_goes_away_is_one_line_and_the_same_again_does_the_rest(
    store, fill, due, fault, moments
):
    for moment in moments:
        library, begun = f"{store.new_bucket()}/lib", store.writes
        store.fault = lambda number, at=begun + moment: fault if number >= at else None
        # of the last request only the answer is lost: reading shows that it was carried out
        is_done = fault is Fault.LOST and moment == len(moments) - 1 >= FEWEST
        with nullcontext() if is_done else pytest.raises(MissingError, match=GONE):
            fill(library)
        store.fault = lambda number: None
        fill(library)
        assert left(library) == due, moment
