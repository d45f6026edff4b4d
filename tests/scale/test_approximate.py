"""Search beyond memory: the same answers as the exact search, in libraries made to take the other way."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from fakes import FakeImages, FakeTexts, noise_picture
from vector_library import add, drawn, vector_library

from limner.errors import DataError
from limner.progress import Progress
from limner.scale import approximate, vector_index
from limner.scale.approximate import ApproximateIndex
from limner.scale.ingest import index
from limner.scale.library import PictureStore
from limner.scale.search import TableIndex
from limner.scale.store import PICTURES, PICTURES_SCHEMA, vectors_name
from limner.store.search import EncodedChannel, Evidence, SimilarityQuery

pytestmark = pytest.mark.slow

COUNT, STEPS, K = 5_000, 6, 40
SPACES = {"base": (64, 1), "captions": (48, 2), "looks": (32, 1)}
WIDE = {"base": (128, 1), "captions": (128, 2), "looks": (128, 1)}
EVIDENCE = Evidence(slope=3.0, z_slope=1.2, offset=-2.0, typical_std=0.1, typical_count=5.0)


def channels(widths=SPACES, seed=1):
    return [
        EncodedChannel(
            space,
            space,
            EVIDENCE,
            vector_index.around(drawn(STEPS, widths[space][0], seed), np.random.default_rng(seed)),
        )
        for space in ("captions", "base")
    ]


def prepared(folder, spaces):
    """A library of some thousand pictures with search indices, and its settings."""
    library = vector_library(folder, COUNT, spaces)
    library.save(approximate_from=0)
    assert vector_index.due(library)
    assert vector_index.prepare(library, Progress())
    return library


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return prepared(tmp_path_factory.mktemp("large") / "lib", SPACES)


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    """One whose candidates are sure to hold what is nearest.

    An index keeps a bit per axis, turned at random: of 32 bits, it ranks one of the 25 nearest beyond the
    1,000th place of 5,000 now and then; of 128 bits, none beyond the 130th.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vector_index, "QUERIES", 32)
        return prepared(tmp_path_factory.mktemp("wide") / "lib", WIDE)


@pytest.fixture
def quickly(monkeypatch):
    """Parameters are chosen by few queries: most of the time of `prepare` goes into measuring."""
    monkeypatch.setattr(vector_index, "QUERIES", 32)


@pytest.fixture
def exact(made):
    return TableIndex(made.gallery(sorted(SPACES)))


def opened(library, candidates):
    """It with so many candidates per text."""
    searches = {
        space: one.model_copy(update={"candidates": candidates, "probes": one.partitions})
        for space, one in library.settings.searches.items()
    }
    other = PictureStore.open(library.folder)
    other.settings = other.settings.model_copy(update={"searches": searches})
    return ApproximateIndex(other, sorted(SPACES))


def ids(searched, rows):
    return np.array(searched.gallery.ids)[rows]


@pytest.mark.parametrize(
    ("rows", "parts"),
    [(0, 0), (255, 0), (256, 1), (5_000, 16), (100_000, 19), (1_000_000, 62), (10**9, 1_976)],
)
def test_parts_grow_with_the_root_of_the_vectors(rows, parts):
    assert vector_index.parts_of(rows) == parts


def test_recall_that_is_stored_is_what_measuring_finds_and_reaches_the_target(made):
    for space, known in made.settings.searches.items():
        table = vector_index.VectorTable(made.store, space)
        queries = vector_index.queries_of(table)[1::2]
        everything = [(rows, vectors) for rows, _, vectors in table.batches()]
        rows = np.concatenate([some for some, _ in everything])
        cosines = queries @ np.concatenate([some for _, some in everything]).astype(np.float32).T
        best = rows[np.argsort(-cosines, axis=1)[:, :50]]
        found = table.nearest(queries, known.candidates, known.probes)
        recall = np.mean([np.isin(one, some).mean() for one, some in zip(best, found, strict=True)])
        assert known.recall == pytest.approx(recall, abs=2e-3)  # pictures as near as the 50th count as it
        assert known.low <= known.recall <= known.high
        assert known.recall >= vector_index.RECALL
        assert known.partitions > 1
        assert known.queries == len(queries)


def test_everything_found_equals_the_exact_search(wide):
    asked, exact = channels(WIDE), TableIndex(wide.gallery(sorted(WIDE)))
    part = opened(wide, 2_000).among([(asked, K)])
    one, other = exact.search(asked, K), part.search(asked, K)
    assert len(part.gallery) < COUNT / 2
    assert part.pictures == exact.pictures == COUNT
    assert (ids(exact, one.rows) == ids(part, other.rows)).all()
    np.testing.assert_allclose(one.scores, other.scores, atol=1e-4)
    for name in one.shares:
        np.testing.assert_allclose(one.shares[name], other.shares[name], atol=1e-4)
        assert (one.present[name] == other.present[name]).all()
    # The sample of so small a library is all of it.
    np.testing.assert_allclose(one.evidence, other.evidence, atol=1e-4)


def test_evidence_of_all_is_estimated_within_the_bound_that_is_stated(made, exact, monkeypatch):
    sample = vector_index.sample_ids(made.store, COUNT, 600)
    assert abs(len(sample) - 600) < 4 * np.sqrt(600)
    read = approximate.read_statistics

    def fewer(store, spaces):
        _, statistics = read(store, spaces)
        kept = {}
        for space, one in statistics.items():
            own = np.isin(one.ids, sample)
            kept[space] = approximate.Statistics(one.moments, one.held, one.ids[own], one.vectors[own])
        return sample, kept

    monkeypatch.setattr(approximate, "read_statistics", fewer)
    asked, errors = channels(), []
    part = opened(made, 200).among([(asked, K)])
    one, other = exact.search(asked, K), part.search(asked, K)
    scores = exact.score(asked, np.arange(COUNT)).scores.astype(np.float64)
    outside = ~np.isin(exact.gallery.ids, part._seen.gallery.ids)
    for step in range(STEPS):
        left = np.exp(scores[step, outside])
        spread = left.std() * outside.sum() / np.sqrt(len(sample) * outside.mean())
        errors.append((other.evidence[step] - one.evidence[step]) / (spread / np.exp(scores[step]).sum()))
    assert np.abs(errors).max() < 4, errors
    assert np.abs(other.evidence - one.evidence).max() < 0.2


def test_pins_bans_and_what_looks_like_them_are_there_whatever_the_words_say(wide):
    asked, exact = channels(WIDE), TableIndex(wide.gallery(sorted(WIDE)))
    scores = exact.score(asked, np.arange(COUNT)).scores.max(axis=0)
    worst = [exact.gallery.ids[row] for row in np.argsort(scores)[:3]]
    found = opened(wide, 1_000)
    look = Evidence(slope=1.0, z_slope=0.0, offset=0.0)
    part = found.among([(asked, K)], worst, SimilarityQuery(worst[:1], "looks", look, 25))
    assert set(worst) <= set(part.gallery.ids)
    space = exact.gallery.space("looks")
    row = exact.gallery.ids.index(worst[0])
    near = np.argsort(-(space.vectors(range(COUNT)) @ space.vectors([row])[0]))[:25]
    assert set(ids(exact, near)) <= set(part.gallery.ids)
    assert set(worst[1:]).isdisjoint(ids(exact, near))
    barred = np.isin(part.gallery.ids, worst)
    whole = exact.search(asked, K, exclude=np.isin(exact.gallery.ids, worst))
    hits = part.search(asked, K, exclude=barred)
    assert not set(worst) & set(ids(part, hits.rows).ravel())
    np.testing.assert_allclose(whole.evidence, hits.evidence, atol=1e-4)
    assert "00" * 32 not in found.among([(asked, K)], ["00" * 32]).gallery.ids


def test_pictures_that_came_after_the_index_are_found_and_deleted_ones_are_not(quickly, tmp_path):
    library = vector_library(tmp_path / "lib", 2_000, {"base": (64, 1)})
    library.save(approximate_from=0)
    assert vector_index.prepare(library, Progress())
    asked = [EncodedChannel("base", "base", EVIDENCE, drawn(30, 64, 9)[10:14])]
    # Of these the first 10 of the seed are new pictures; of the others, the best is deleted.
    new = add(library, range(5_000, 5_010), {"base": (64, 1)}, seed=9)
    assert not vector_index.due(library), "10 of 2,000 are within the drift"
    own = EncodedChannel("base", "base", EVIDENCE, drawn(10, 64, 9))
    found = ApproximateIndex(library, ["base"]).among([([own], 1)])
    assert ids(found, found.search([own], 1).rows[:, 0]).tolist() == new
    part = ApproximateIndex(library, ["base"]).among([(asked, 1)])
    best = ids(part, part.search(asked, 1).rows[:, 0])[0]
    rows = [row | {"paths": []} for row in library.store.lookup(PICTURES, "id", [str(best)])]
    library.store.upsert(PICTURES, pa.Table.from_pylist(rows, schema=PICTURES_SCHEMA))
    after = ApproximateIndex(library, ["base"])
    part = after.among([(asked, 1)])
    assert after.pictures == 2_009
    assert best not in part.gallery.ids
    exact = TableIndex(library.gallery(["base"]))
    assert ids(part, part.search(asked, 1).rows[:, 0])[0] == ids(exact, exact.search(asked, 1).rows[:, 0])[0]
    library.store.compact()
    add(library, range(6_000, 6_100), {"base": (64, 1)}, seed=3)
    assert vector_index.due(library)
    assert vector_index.prepare(library, Progress())
    assert not vector_index.due(library)
    assert library.settings.searches["base"].rows == 2_110


def test_below_the_size_nothing_is_built_and_stopping_keeps_what_was(quickly, tmp_path):
    library = vector_library(tmp_path / "lib", 600, {"base": (16, 1), "looks": (16, 1)})
    assert not vector_index.due(library)
    assert not ApproximateIndex.usable(library, ["base"])
    library.save(approximate_from=600)
    assert vector_index.due(library)
    asked = iter((False, True))
    assert not vector_index.prepare(library, Progress(), lambda: next(asked))
    assert not ApproximateIndex.usable(library, ["base"])
    assert vector_index.VectorTable(library.store, "base").indexed() == 600
    assert not vector_index.VectorTable(library.store, "looks").indexed()
    assert vector_index.due(library)
    assert vector_index.prepare(library, Progress())
    assert ApproximateIndex.usable(library, ["base", "looks"])


def test_a_build_that_is_killed_leaves_a_library_that_is_searched_as_before(quickly, tmp_path):
    library = vector_library(tmp_path / "lib", 3_000, {"base": (64, 1)})
    library.save(approximate_from=0)
    code = (
        "import os, sys, threading\n"
        "from limner.scale.library import PictureStore\n"
        "from limner.scale import vector_index\n"
        "from limner.progress import Progress\n"
        "library = PictureStore.open(sys.argv[1])\n"
        "threading.Timer(float(sys.argv[2]), os._exit, (9,)).start()\n"
        "print('building', flush=True)\n"
        "vector_index.prepare(library, Progress())\n"
        "os._exit(0)\n"
    )
    for seconds in (0.05, 0.4):
        command = [sys.executable, "-c", code, str(library.folder), str(seconds)]
        ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert ended.returncode in (0, 9), ended.stderr
        again = PictureStore.open(library.folder)
        exact = TableIndex(again.gallery(["base"]))
        own = EncodedChannel("base", "base", EVIDENCE, exact.gallery.space("base").vectors([7, 70]))
        assert exact.search([own], 1).rows[:, 0].tolist() == [7, 70]
    if vector_index.due(again):
        assert vector_index.prepare(again, Progress())
    found = ApproximateIndex(again, ["base"]).among([([own], 1)])
    assert ids(found, found.search([own], 1).rows[:, 0]).tolist() == [
        exact.gallery.ids[row] for row in (7, 70)
    ]


def test_damage_of_index_or_statistics_is_one_line(quickly, tmp_path):
    library = vector_library(tmp_path / "lib", 600, {"base": (16, 1)})
    library.save(approximate_from=0)
    assert vector_index.prepare(library, Progress())
    for table, part in ((vectors_name("base"), "_indices"), ("statistics", "data")):
        folder = library.folder / "tables" / f"{table}.lance" / part
        path = max((one for one in folder.rglob("*") if one.is_file()), key=lambda one: one.stat().st_size)
        before = path.read_bytes()
        path.write_bytes(before[: len(before) // 2] + bytes(8) + before[len(before) // 2 + 8 :])
        again = PictureStore.open(library.folder)
        own = EncodedChannel("base", "base", EVIDENCE, drawn(2, 16, 5))
        with pytest.raises(DataError, match="damaged") as caught:
            ApproximateIndex(again, ["base"]).among([([own], 5)])
        assert "\n" not in str(caught.value)
        path.write_bytes(before)
    assert ApproximateIndex(PictureStore.open(library.folder), ["base"]).pictures == 600


def test_a_library_that_cannot_be_written_is_searched(made):
    folders = [Path(made.folder), *(one for one in Path(made.folder).rglob("*"))]
    modes = {one: one.stat().st_mode for one in folders}
    try:
        for one in folders:
            one.chmod(modes[one] & ~0o222)
        asked = channels()
        part = ApproximateIndex(PictureStore.open(made.folder), sorted(SPACES)).among([(asked, K)])
        assert part.search(asked, K).rows.shape == (STEPS, K)
    finally:
        for one, mode in modes.items():
            one.chmod(mode)


def test_indexing_prepares_a_library_beyond_the_size_and_says_how_much_is_found(tmp_path):
    (tmp_path / "pictures").mkdir()
    for number in range(3):
        noise_picture(number).save(tmp_path / "pictures" / f"{number}.png")
    made = {"image_encoders": [FakeImages()], "text_encoder": FakeTexts()}
    below = index([tmp_path / "pictures"], tmp_path / "lib", **made)
    assert not below.searches
    beyond = index([tmp_path / "pictures"], tmp_path / "lib", approximate_from=2, **made)
    library = PictureStore.open(tmp_path / "lib")
    assert set(beyond.searches) == set(library.settings.spaces)
    assert any("all 3 vectors are compared" in line for line in beyond.lines())
    assert ApproximateIndex.usable(library, library.settings.spaces)
    state = library.store.version("statistics")
    again = index([tmp_path / "pictures"], tmp_path / "lib", **made)
    assert again.searches == beyond.searches, "the library keeps to it"
    assert library.store.version("statistics") == state, "nothing new is not measured again"


def test_a_text_that_no_channel_reads_finds_nothing_and_no_error(made):
    silent = [EncodedChannel("base", "base", EVIDENCE, np.zeros((2, SPACES["base"][0]), np.float32))]
    part = ApproximateIndex(made, ["base"]).among([(silent, K)])
    hits = part.search(silent, K)
    assert hits.rows.shape == (2, 0)
    np.testing.assert_allclose(hits.evidence, 0.0, atol=1e-6)
    assert not part.gallery.ids
