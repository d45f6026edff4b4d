"""Whatever the size of a block, and wherever it was made: what is measured is that of the whole table."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up_scores import tabled
from made_up_sequences import story_pairs

from limner.errors import NumericsError
from limner.research.datasets.pairs import Pair
from limner.research.evaluation import choice, ranking, sequences, stories
from limner.research.evaluation.choice import answer, draw_choices, measure_choices
from limner.research.evaluation.ranking import leading, rank, rank_blocks
from limner.research.evaluation.results import About
from limner.research.evaluation.retrieval import measure
from limner.research.evaluation.sequences import measure_sequences
from limner.research.evaluation.stories import same_document
from limner.research.runs import train
from limner.research.runs.train import mean_hinge
from limner.research.training.corpus import drawn_sample

ABOUT = About(system="made", data="made", split="grouped")


def small_blocks(patch, cells):
    """Few scores a block, everywhere."""
    for module in (ranking, sequences, stories, train):
        patch.setattr(module, "BLOCK_CELLS", cells)
    patch.setattr(choice, "_QUESTIONS", 3)


def counted(score, seen):
    """The same, noting the shape of every block."""

    def block(rows, columns):
        found = score(rows, columns)
        seen.append(tuple(found.shape))
        return found

    return block


tied = st.integers(0, 3).map(float)  # few values, many ties


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_ranks_and_the_best_equal_counting_one_by_one(data):
    rows, size = data.draw(st.integers(1, 7)), data.draw(st.integers(1, 6))
    cells = data.draw(st.lists(tied, min_size=rows * size, max_size=rows * size))
    table = np.array(cells, np.float32).reshape(rows, size)
    columns = st.lists(st.integers(0, size - 1), min_size=1, max_size=3)
    relevant = data.draw(st.lists(columns, min_size=rows, max_size=rows))
    block, count = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 7))
    for tensors in (False, True):
        score = tabled(table, tensors=tensors)
        found = rank_blocks(
            lambda start, stop: score(slice(start, stop), slice(None)),  # noqa: B023
            (rows, size),
            relevant,
            block=block,
        )
        places, values = leading(score(slice(None), slice(None)), count)
        for row, right in enumerate(relevant):
            best = max(table[row, right])
            wrong = [table[row, column] for column in range(size) if column not in right]
            assert found.better[row] == sum(value > best for value in wrong)
            assert found.equal[row] == sum(value == best for value in wrong)
            assert found.tied[row] == sum(table[row, column] == best for column in set(right))
            order = sorted(range(size), key=lambda column: (-table[row, column], column))[:count]
            assert places[row].tolist() == order
            assert values[row].tolist() == table[row, order].tolist()
    assert leading(table[:0], 3)[0].shape == (0, min(3, size))


def test_a_tensor_that_is_not_finite_is_named_by_its_query():
    table = torch.zeros(4, 3)
    table[2, 1] = torch.nan
    with pytest.raises(NumericsError, match="query 2 and picture 1 is nan"):
        rank_blocks(lambda start, stop: table[start:stop], (4, 3), [[0]] * 4, block=1)
    with pytest.raises(NumericsError, match="query 2 and picture 1 is nan"):
        rank_blocks(lambda start, stop: table[start:stop], (4, 3), [[0]] * 4)
    with pytest.raises(NumericsError, match="query 7 and picture 0 is inf"):
        rank(np.full((1, 2), np.inf), [[0]], first=7)


def rows_of(count, seed=0):
    """Pairs of which some repeat and some share a picture."""
    rng = np.random.default_rng(seed)
    texts, pictures = rng.integers(0, count, count), rng.integers(0, count - 4, count)
    return [
        Pair(id=str(n), text=f"t{t}", image=f"i{p}", group=f"g{p}", labels={"a": n % 2})
        for n, (t, p) in enumerate(zip(texts.tolist(), pictures.tolist(), strict=True))
    ]


def reference_ranks(result, pairs, table):
    """The full pool of a result, by sorting."""
    names = list(dict.fromkeys(pair.image_id for pair in pairs))
    for query, rank_found in zip(result.full.queries, result.full.plain, strict=True):
        own = table[query, names.index(pairs[query].image_id)]
        assert rank_found == 1 + (table[query] > own).sum() + ((table[query] == own).sum() - 1) / 2
    firsts = [next(pair.id for pair in pairs if pair.image_id == name) for name in names]
    for row, top in enumerate(result.top):
        order = np.argsort(-table[row], kind="stable")[:5]
        assert list(top) == [firsts[column] for column in order]


@pytest.mark.parametrize("tensors", [False, True])
@pytest.mark.parametrize("cells", [1, 37, 1 << 24])
def test_measuring_is_the_same_in_blocks(monkeypatch, tmp_path, cells, tensors):
    pairs = rows_of(40)
    size = len({pair.image_id for pair in pairs})
    table = np.random.default_rng(1).integers(0, 6, (40, size)).astype(np.float32) / 8

    def refine(plain, rows, columns):
        np.testing.assert_array_equal(plain, table[np.ix_(rows, columns)])
        return plain * (1 + (columns % 3))

    def found(score):
        return (
            measure(ABOUT, pairs, ("a",), score=score, refine=refine, pool_size=9, pool_count=2),
            measure_choices(ABOUT, pairs, score, 4, distractors=tmp_path),
        )

    whole = found(tabled(table))
    reference_ranks(whole[0], pairs, table)
    seen = []
    small_blocks(monkeypatch, cells)
    assert found(counted(tabled(table, tensors=tensors), seen)) == whole
    # c-way questions ask for three questions of at most four options each, ranks for at most `cells`
    assert max(rows * columns for rows, columns in seen) <= max(cells, size, 3 * 12)


@pytest.mark.parametrize("tensors", [False, True])
def test_stories_are_the_same_in_blocks(monkeypatch, tensors):
    pairs = story_pairs(5, 4)
    table = np.random.default_rng(2).integers(0, 5, (20, 20)).astype(np.float32)
    whole = measure_sequences(ABOUT, pairs, tabled(table))
    assert whole.found["steps"] != whole.found["distinct"]
    for cells in (1, 3 * 4 * 20, 7 * 4 * 20):  # blocks end inside of stories
        small_blocks(monkeypatch, cells)
        seen = []
        assert measure_sequences(ABOUT, pairs, counted(tabled(table, tensors=tensors), seen)) == whole
        assert max(rows for rows, _ in seen) == max(1, cells // 80)


@settings(max_examples=40, deadline=None)
@given(st.integers(5, 30), st.integers(2, 4), st.integers(0, 9))
def test_answers_equal_one_question_at_a_time(count, c, seed):
    rng = np.random.default_rng(seed)
    table = rng.integers(0, 3, (count + 2, count)).astype(np.float32)
    rows = rng.permutation(count + 2)[:count]
    columns = np.arange(count)
    choices = draw_choices([f"t{n}" for n in range(count)], [f"i{n}" for n in range(count)], c, seed)
    found = answer(tabled(table, tensors=bool(seed % 2)), rows, columns, choices)
    for n in range(count):
        own = table[rows[n], n]
        texts, pictures = table[rows[choices.texts[n]], n], table[rows[n], choices.pictures[n]]
        for credit, others in ((found.picture_to_text[n], texts), (found.text_to_picture[n], pictures)):
            assert credit == (0 if (others > own).any() else 1 / (1 + (others == own).sum()))


@pytest.mark.parametrize("tensors", [False, True])
def test_the_hinge_is_the_same_in_blocks(monkeypatch, tensors):
    rng = np.random.default_rng(3)
    table = rng.standard_normal((30, 8)).astype(np.float32)
    columns = np.concatenate([np.arange(8), rng.integers(8, size=22)])
    whole = mean_hinge(tabled(table), 8, columns, 0.2)
    for cells in (1, 3 * 4 * 8, 7 * 4 * 8):
        small_blocks(monkeypatch, cells)
        assert mean_hinge(tabled(table, tensors=tensors), 8, columns, 0.2) == whole


def grouped(sizes):
    return [
        Pair(id=f"{group}-{n}", text=f"t{group}-{n}", image=f"i{group}-{n}", group=f"g{group}")
        for group, size in enumerate(sizes)
        for n in range(size)
    ]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 6), min_size=1, max_size=30), st.integers(1, 60))
def test_a_sample_is_of_whole_groups_in_order_and_always_the_same(sizes, size):
    pairs = grouped(sizes)
    found = drawn_sample(pairs, size)
    assert found == drawn_sample(pairs, size)
    assert [pair.id for pair in found] == [pair.id for pair in pairs if pair in found]
    assert 0 < len(found) <= size
    if len(pairs) <= size:
        assert list(found) == pairs
    elif min(sizes) <= size:
        kept = {pair.group for pair in found}
        assert len(found) == sum(own for group, own in enumerate(sizes) if f"g{group}" in kept)
        assert size - len(found) < min(own for group, own in enumerate(sizes) if f"g{group}" not in kept)


def test_a_sample_is_drawn_and_not_the_beginning():
    places = [int(pair.group[1:]) for pair in drawn_sample(grouped([1] * 1000), 100)]
    assert 400 < np.mean(places) < 600


def pictures_one_by_one(table, owners):
    """R@1 and mAP of a picture's own stories, by counting every other picture."""
    first, precision = [], []
    for row, own in enumerate(owners):
        others = [column for column in range(len(owners)) if column != row]
        right = [column for column in others if own & owners[column]]
        if not right:
            continue
        best = [column for column in others if table[row, column] == max(table[row, others])]
        first.append(sum(column in right for column in best) / len(best))
        gained = 0.0
        for column in right:
            above = [one for one in others if table[row, one] >= table[row, column]]
            gained += sum(one in right for one in above) / len(above)
        precision.append(gained / len(right))
    return {"R@1": np.mean(first), "mAP": np.mean(precision)} if first else None


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(st.data())
def test_pictures_of_one_story_equal_counting_one_by_one(data):
    size = data.draw(st.integers(2, 7))
    cells = data.draw(st.lists(tied, min_size=size * size, max_size=size * size))
    table = np.array(cells, np.float32).reshape(size, size)
    owner = st.frozensets(st.sampled_from("abc"), min_size=1, max_size=2)
    owners = data.draw(st.lists(owner, min_size=size, max_size=size))
    due, seen = pictures_one_by_one(table, owners), []
    if due is None:
        return
    with pytest.MonkeyPatch.context() as patch:
        small_blocks(patch, data.draw(st.integers(1, 3)) * size)
        step = stories.BLOCK_CELLS // size
        for tensors in (False, True):
            found = same_document(counted(tabled(table, tensors=tensors), seen), owners)
            assert found == pytest.approx(due)
    assert all(rows <= step and columns == size for rows, columns in seen)
