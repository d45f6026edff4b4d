"""Search against a plain float scan of everything."""

from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
from boards import space, unit
from hypothesis import given, settings
from hypothesis import strategies as st

from limner.arrays import scores
from limner.errors import ConfigError, DataError, NumericsError, ShapeError
from limner.scale import search as searching
from limner.scale.search import EncodedChannel, Evidence, Index
from limner.scale.vectors import Gallery, Space


def search(gallery, channels, k, *, exclude=None, block_rows=searching.BLOCK_ROWS):
    with patch.object(searching, "BLOCK_ROWS", block_rows):
        return Index(gallery).search(channels, k, exclude=exclude)


def gallery_of(**spaces):
    count = len(next(iter(spaces.values())).matrix)
    ids = [str(row) for row in range(count)]
    return Gallery(ids, ids, spaces)


def plain(gallery, channels, exclude=None):
    """(N, M) float64 totals by the definition, channel by channel, and the shares."""
    total, shares = 0.0, {}
    for channel in channels:
        stored = gallery.spaces[channel.space]
        cosines = channel.texts.astype(np.float64) @ stored.matrix.astype(np.float64).T
        seen = cosines[:, stored.present]
        std = seen.std(axis=1) if seen.shape[1] else np.zeros(len(cosines))
        mean = seen.mean(axis=1) if seen.shape[1] else np.zeros(len(cosines))
        z = (cosines - mean[:, None]) / std[:, None] if (std > 1e-6).all() else np.zeros_like(cosines)
        e = channel.evidence
        share = np.where(stored.present, e.slope * cosines + e.z_slope * z + e.offset, 0.0)
        shares[channel.name] = share
        total = total + share
    return (total if exclude is None else np.where(exclude, -np.inf, total)), shares


def world(seed, count, width=24, texts=4, clusters=5):
    """Clustered vectors, a tenth of the pictures without captions, two channels."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(clusters, width))
    labels = centres[rng.integers(0, clusters, count)] + 0.4 * rng.normal(size=(count, width))
    captions = rng.normal(size=(count, width)) + 1.0
    gallery = gallery_of(labels=space(labels), captions=space(captions, rng.random(count) > 0.1))
    channels = [
        EncodedChannel("labels", "labels", Evidence(slope=8, z_slope=0.7, offset=-1), unit(centres[:texts])),
        EncodedChannel(
            "captions",
            "captions",
            Evidence(slope=3, z_slope=1.2, offset=-2),
            unit(rng.normal(size=(texts, width)) + 0.5),
        ),
    ]
    return gallery, channels


@pytest.mark.parametrize(
    ("count", "k", "block"), [(3000, 20, 512), (3000, 20, 100_000), (7, 20, 3), (1, 1, 1)]
)
def test_equals_a_scan_of_everything(count, k, block):
    gallery, channels = world(1, count)
    hits = search(gallery, channels, k, block_rows=block)
    total, shares = plain(gallery, channels)
    width = min(k, count)
    order = np.argsort(-total, axis=1, kind="stable")[:, :width]
    assert hits.rows.shape == (4, width)
    assert hits.rows.dtype == np.int64
    assert hits.scores.dtype == np.float32
    assert (hits.rows == order).all()
    assert hits.scores == pytest.approx(np.take_along_axis(total, order, axis=1), abs=1e-3)
    for name, share in shares.items():
        assert hits.shares[name] == pytest.approx(np.take_along_axis(share, order, axis=1), abs=1e-3)
        assert (hits.present[name] == gallery.spaces[name].present[order]).all()
    assert sum(hits.shares.values()) == pytest.approx(hits.scores, abs=1e-5)
    due = np.log(np.exp(total).mean(axis=1))
    assert hits.evidence == pytest.approx(due, abs=1e-4 if width == count else 0.02)


@pytest.mark.slow
@given(seed=st.integers(0, 10**6), count=st.integers(1, 300), k=st.integers(1, 40), block=st.integers(1, 400))
@settings(deadline=None, max_examples=25)
def test_nothing_is_lost_whatever_the_blocks(seed, count, k, block):
    gallery, channels = world(seed, count, width=6)
    rng = np.random.default_rng(seed)
    exclude = rng.random(count) < 0.2
    hits = search(gallery, channels, k, block_rows=block, exclude=exclude)
    total, _ = plain(gallery, channels, exclude)
    width = min(k, int((~exclude).sum()))
    assert hits.rows.shape == (4, width)
    due = -np.sort(-total, axis=1)[:, :width]
    assert hits.scores == pytest.approx(due, abs=2e-3)
    assert not exclude[hits.rows].any()
    assert all(len(set(row)) == width for row in hits.rows)


def test_rounding_that_hides_the_best_is_found_out():
    """Rows that differ by less than a thousandth."""
    rng = np.random.default_rng(0)
    base = rng.normal(size=64)
    vectors = unit(base + 0.004 * rng.normal(size=(4000, 64)))
    gallery = gallery_of(visual=space(vectors))
    channel = EncodedChannel("visual", "visual", Evidence(slope=1, z_slope=0, offset=0), unit(base)[None])
    hits = search(gallery, [channel], 5, block_rows=500)
    exact = scores(channel.texts, gallery.spaces["visual"].matrix.astype(np.float32))
    assert hits.scores[0] == pytest.approx(-np.sort(-exact[0])[:5], abs=1e-7)


@pytest.mark.parametrize("block", [searching.BLOCK_ROWS, 3])
@pytest.mark.parametrize("beside", [False, True])
def test_the_best_is_found_where_rows_nearly_tie(beside, block):
    """By hand: bytes would round the better row down wherever they can, and the other one up."""
    text, rows = np.zeros((1, 65), np.float32), np.zeros((2, 65), np.float16)
    text[0, :64] = 1 / 8
    rows[:, 64] = 0.999
    step = float(rows[0, 64]) / 127
    rows[0, :40], rows[1, :39] = 0.49 * step, 0.502 * step
    exact = rows.astype(np.float64) @ text[0]
    assert 0 < exact[0] - exact[1] < 1e-4
    gallery = gallery_of(
        visual=Space(rows[[1, 1, 0, 1]], np.ones(4, dtype=bool)), label=space(np.ones((4, 65)))
    )
    channels = [EncodedChannel("visual", "visual", Evidence(slope=1, z_slope=0, offset=0), text)]
    if beside:  # one that knows its scores exactly, and comes first
        channels.insert(0, EncodedChannel("label", "label", Evidence(slope=0, z_slope=0, offset=0), text))
    assert search(gallery, channels, 1, block_rows=block).rows.tolist() == [[2]]


@pytest.mark.slow
@given(
    seed=st.integers(0, 10**6),
    count=st.integers(1, 400),
    k=st.integers(1, 40),
    block=st.integers(1, 500),
    gathered=st.integers(1, 300),
    offset=st.sampled_from([0.0, -7.5]),
)
@settings(deadline=None, max_examples=60)
def test_rows_and_scores_are_those_of_a_float32_scan_ties_included(
    seed, count, k, block, *, gathered, offset
):
    """Of numbers whose sums no order rounds, and of which many are equal."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(-3, 4, (max(count // 3, 1), 24))[rng.integers(0, max(count // 3, 1), count)] / 16
    texts = (rng.integers(-3, 4, (3, 24)) / 16).astype(np.float32)
    there = rng.random(count) < 0.9
    stored = Space((rows * there[:, None]).astype(np.float16), there)
    channel = EncodedChannel("visual", "visual", Evidence(slope=4, z_slope=0, offset=offset), texts)
    with patch("limner.scale.search.GATHERED_ROWS", gathered):
        hits = search(gallery_of(visual=stored), [channel], k, block_rows=block)
    table = texts @ stored.matrix.astype(np.float32).T
    exact = np.where(there, np.float32(4) * table + np.float32(offset), np.float32(0))
    order = np.argsort(-exact, axis=1, kind="stable")[:, :k]
    assert np.array_equal(hits.rows, order)
    assert np.array_equal(hits.scores, np.take_along_axis(exact, order, axis=1))


def test_equal_scores_come_in_order_of_row():
    vectors = np.tile(unit(np.random.default_rng(2).normal(size=(3, 16))), (50, 1))
    gallery = gallery_of(visual=space(vectors))
    channel = EncodedChannel("visual", "visual", Evidence(slope=4, z_slope=1, offset=0), unit(vectors[:3]))
    hits = search(gallery, [channel], 10, block_rows=40)
    assert hits.rows.tolist() == [list(range(start, 150, 3))[:10] for start in range(3)]


@pytest.mark.parametrize("slope", [0.0, 1e-3])
def test_scores_that_only_the_last_digit_tells_apart_are_those_of_a_full_scan(slope):
    """Beside an offset of 1,000 a float32 has steps of 6e-5: more than these cosines are worth."""
    rng = np.random.default_rng(7)
    gallery = gallery_of(visual=space(rng.normal(size=(2000, 32))))
    texts = unit(rng.normal(size=(3, 32)))
    channel = EncodedChannel("visual", "visual", Evidence(slope=slope, z_slope=0, offset=1000), texts)
    hits = search(gallery, [channel], 20, block_rows=300)
    cosines = scores(texts, gallery.spaces["visual"].matrix.astype(np.float32))
    exact = (slope * cosines.astype(np.float64) + 1000).astype(np.float32)
    assert hits.rows.tolist() == np.argsort(-exact, axis=1, kind="stable")[:, :20].tolist()


@pytest.mark.parametrize("block", [searching.BLOCK_ROWS, 100])
def test_evidence_counts_what_is_returned_exactly(block):
    """One picture outweighs all others, by a cosine that bytes would round."""
    rng = np.random.default_rng(8)
    base = unit(rng.normal(size=(6, 48)))
    gallery = gallery_of(visual=space(np.concatenate([base, rng.normal(size=(200, 48))])))
    channel = EncodedChannel("visual", "visual", Evidence(slope=40, z_slope=0, offset=-20), base)
    total, _ = plain(gallery, [channel])
    due = np.log(np.exp(total).mean(axis=1))
    for k in (1, 5, 206):
        assert search(gallery, [channel], k, block_rows=block).evidence == pytest.approx(due, abs=2e-5)


def test_absent_channel_neither_helps_nor_hurts():
    vectors = np.eye(3)
    gallery = gallery_of(captions=space(vectors, [True, True, False]))
    channel = EncodedChannel(
        "captions", "captions", Evidence(slope=10, z_slope=0, offset=-5), np.eye(3, dtype=np.float32)[:1]
    )
    hits = search(gallery, [channel], 3)
    assert hits.rows.tolist() == [[0, 2, 1]]
    assert hits.scores[0] == pytest.approx([5, 0, -5])
    assert hits.present["captions"].tolist() == [[True, False, True]]
    assert hits.evidence == pytest.approx(np.log(np.mean(np.exp([5, 0, -5]))), abs=1e-3)


def test_no_spread_switches_the_standardised_part_off():
    gallery = gallery_of(visual=space(np.ones((20, 4))))
    channel = EncodedChannel("v", "visual", Evidence(slope=1, z_slope=100, offset=0), unit([[1.0, 0, 0, 0]]))
    assert search(gallery, [channel], 2).scores == pytest.approx(0.5, abs=1e-3)


def test_empty_and_fully_excluded_galleries_return_nothing():
    channel = EncodedChannel("v", "v", Evidence(slope=1, z_slope=1, offset=0), np.eye(2, dtype=np.float32))
    for gallery, exclude in (
        (gallery_of(v=space(np.zeros((0, 2)))), None),
        (gallery_of(v=space(np.eye(2))), np.ones(2, dtype=bool)),
    ):
        hits = search(gallery, [channel], 5, exclude=exclude)
        assert hits.rows.shape == (2, 0)
        assert np.isneginf(hits.evidence).all()


def test_given_rows_score_as_in_the_search():
    gallery, channels = world(4, 200)
    index = Index(gallery)
    hits = index.search(channels, 10)
    scored = index.score(channels, hits.rows[2])
    assert scored.scores[2] == pytest.approx(hits.scores[2], abs=1e-5)
    assert scored.present["captions"].tolist() == hits.present["captions"][2].tolist()


def test_read_only_memory_map_gives_the_same(tmp_path):
    gallery, channels = world(5, 400)
    mapped = {}
    for name, stored in gallery.spaces.items():
        np.save(tmp_path / f"{name}.npy", stored.matrix)
        mapped[name] = Space(np.load(tmp_path / f"{name}.npy", mmap_mode="r"), stored.present)
    found = search(Gallery(gallery.ids, gallery.groups, mapped), channels, 15, block_rows=64)
    due = search(gallery, channels, 15)
    assert (found.rows == due.rows).all()
    assert found.scores == pytest.approx(due.scores, abs=1e-5)


def test_wrong_input_is_named():
    gallery, channels = world(6, 30)
    with pytest.raises(ConfigError, match=r"^index.search: k is 0, expected at least 1$"):
        search(gallery, channels, 0)
    with pytest.raises(ConfigError, match=r"^index: channels are \[\], expected at least one and no name"):
        search(gallery, [], 3)
    with pytest.raises(ConfigError, match=r"^index: channels are \['labels', 'labels'\], .* no name twice$"):
        search(gallery, [channels[0], channels[0]], 3)
    with pytest.raises(ShapeError, match=r"^index.search: exclude has shape"):
        search(gallery, channels, 3, exclude=np.zeros(4, dtype=bool))
    even = Evidence(slope=1, z_slope=0, offset=0)
    with pytest.raises(DataError, match="did you mean 'labels'"):
        search(gallery, [EncodedChannel("x", "label", even, channels[0].texts)], 3)
    with pytest.raises(ShapeError, match="texts"):
        search(gallery, [channels[0], EncodedChannel("x", "captions", even, channels[1].texts[:2])], 3)
    with pytest.raises(ShapeError, match="matrix"):
        search(gallery, [EncodedChannel("x", "labels", even, np.zeros((4, 3), np.float32))], 3)
    with pytest.raises(NumericsError, match=r"^index channel x: a text vector is not finite$"):
        search(gallery, [EncodedChannel("x", "labels", even, np.full((4, 24), np.nan, np.float32))], 3)
    with pytest.raises(NumericsError, match=r"^index channel x: its calibration is not finite$"):
        search(gallery, [EncodedChannel("x", "labels", Evidence(slope=np.inf, z_slope=0, offset=0),
                                        channels[0].texts)], 3)  # fmt: skip
    spoilt = gallery.spaces["labels"].matrix.copy()
    spoilt[12, 3] = np.nan
    bad = gallery_of(labels=Space(spoilt, np.ones(30, dtype=bool)))
    for z_slope in (0.0, 1.0):
        channel = EncodedChannel(
            "x", "labels", Evidence(slope=1, z_slope=z_slope, offset=0), channels[0].texts
        )
        for block, rows in ((searching.BLOCK_ROWS, "0 to 29"), (8, r"\d+ to \d+")):
            with pytest.raises(
                NumericsError, match=rf"^space: a row from {rows} is not finite; index its pictures again$"
            ):
                search(bad, [channel], 3, block_rows=block)
    with (
        patch.object(searching, "BLOCK_ROWS", 8),
        pytest.raises(NumericsError, match=r"^space: a cosine is not finite; check the vectors$"),
    ):
        Index(bad).score([EncodedChannel("x", "labels", even, channels[0].texts)], np.array([3, 12]))


def test_what_any_earlier_channel_judges_counts_in_part_for_all_later_ones():
    """The second channel knows only one picture: the third still stands beside the first for all it knows."""
    eye, text = np.eye(3, dtype=np.float32), np.full((1, 3), 3**-0.5, dtype=np.float32)
    known = {"one": [True, True, False], "two": [True, False, False], "three": [True, True, True]}
    gallery = gallery_of(**{name: space(eye, present) for name, present in known.items()})
    channels = [
        EncodedChannel(name, name, Evidence(slope=0, z_slope=0, offset=1), text, beside=0.25)
        for name in known
    ]
    scored = Index(gallery).score(channels, np.arange(3))
    assert scored.shares["three"].tolist() == [[0.25, 0.25, 1.0]]
    assert scored.scores.tolist() == [[1.5, 1.25, 1.0]]


def test_a_sum_of_channels_that_no_float32_holds_is_refused():
    gallery = gallery_of(visual=space(np.eye(3)))
    text, huge = np.eye(3, dtype=np.float32)[:1], Evidence(slope=3e38, z_slope=0, offset=0)
    channels = [EncodedChannel(name, "visual", huge, text, beside=1.0) for name in ("one", "two")]
    with np.errstate(over="ignore"), pytest.raises(NumericsError, match="check the channels' calibration"):
        Index(gallery).score(channels, np.arange(3))


@given(seed=st.integers(0, 10**6), count=st.integers(1, 60), cone=st.sampled_from([0.0, 1.0, 30.0]))
@settings(deadline=None, max_examples=25)
def test_moments_equal_those_of_the_cosines(seed, count, cone):
    rng = np.random.default_rng(seed)
    present = rng.random(count) < 0.8
    stored = space(rng.normal(size=(count, 5)) + cone, present)
    texts = unit(rng.normal(size=(3, 5)))
    with patch("limner.scale.vectors.BLOCK_ROWS", int(rng.integers(1, 80))):
        mean, std = stored.moments.of_cosines(texts)
    assert (stored.moments.mean.dtype, stored.moments.covariance.dtype) == (np.float64, np.float64)
    cosines = texts.astype(np.float64) @ stored.matrix[present].astype(np.float64).T
    if not present.any():
        assert (mean == 0).all()
        assert (std == 0).all()
        return
    # Rows are rounded to 2⁻¹⁸: of few rows that shows in the mean, by half a unit for each number at most.
    rounded = np.rint(stored.matrix[present].astype(np.float64) * 2**18) / 2**18
    assert mean == pytest.approx(texts.astype(np.float64) @ rounded.mean(axis=0), abs=1e-12)
    assert (np.abs(mean - cosines.mean(axis=1)) <= np.abs(texts).sum(axis=1) / 2**19).all()
    assert std == pytest.approx(cosines.std(axis=1), rel=1e-4, abs=2e-6)


@pytest.mark.parametrize("pictures", [0, 7])
def test_no_text_finds_nothing(pictures):
    gallery, channels = world(1, pictures, texts=0)
    hits = search(gallery, channels, 5, block_rows=3)
    assert len(hits.rows) == len(hits.scores) == len(hits.evidence) == 0


@pytest.mark.parametrize("large", [False, True])
def test_rows_just_found_are_scored_alike_without_scoring_them_again(monkeypatch, large):
    way = "Float16Cosines" if large else "Float32Cosines"
    if large:
        monkeypatch.setattr(searching, "BLOCK_ROWS", 100)
    rng = np.random.default_rng(3)
    stored = space(unit(rng.normal(size=(300, 8))))
    names = [str(row) for row in range(300)]
    index = Index(Gallery(names, names, {"a": stored}))
    channel = EncodedChannel(
        "a", "a", Evidence(slope=2.0, z_slope=1.0, offset=-1.0), unit(rng.normal(size=(3, 8)))
    )
    rows = np.unique(index.search([channel], 20).rows)
    due = Index(index.gallery).score([channel], rows)
    every = Index(index.gallery).score([channel], np.arange(300))
    again = index.score([channel], np.arange(300))
    np.testing.assert_allclose(again.scores, every.scores, atol=1e-6)
    monkeypatch.setattr(f"limner.scale.search.{way}.exact", None)
    found = index.score([channel], rows)
    np.testing.assert_allclose(found.scores, due.scores, atol=1e-6)
    np.testing.assert_array_equal(found.present["a"], due.present["a"])
    np.testing.assert_allclose(found.shares["a"], due.shares["a"], atol=1e-6)
    with pytest.raises(TypeError):
        index.score([replace(channel)], rows)


@pytest.mark.parametrize("block", [searching.BLOCK_ROWS, 500])
def test_few_pictures_are_scored_exactly_beyond_those_that_are_wanted(block):
    gallery, channels = world(9, 3000)
    seen = []

    def noted(index, plans, rows):
        seen.append(len(rows))
        return score(index, plans, rows)

    score = Index._score
    with patch.object(Index, "_score", noted):
        search(gallery, channels, 20, block_rows=block)
    # 20 pictures of each of four texts, and what rounding leaves undecided
    assert 20 <= sum(seen) <= 160
