"""Authors stand on both sides or on one; the recipes alone decide, not their order."""

from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limner.errors import DataError
from limner.research.datasets.recipes.authors import author_key, split_by_author

sizes = st.lists(st.integers(1, 40), min_size=3, max_size=12)


def made(counts):
    authors = [f"a{n}" for n, count in enumerate(counts) for _ in range(count)]
    return [str(n) for n in range(len(authors))], authors


def sides(authors, parts):
    found = defaultdict(list)
    for author, part in zip(authors, parts, strict=True):
        found[author].append(part)
    return found


@given(sizes, st.integers(0, 3))
def test_stratified_puts_every_author_of_two_on_both_sides(counts, seed):
    ids, authors = made(counts)
    parts = split_by_author(ids, authors, "stratified", seed)
    for own in sides(authors, parts).values():
        if len(own) > 1:
            assert own.count("test") == max(1, round(0.1 * len(own)))
            assert "train" in own


@given(sizes, st.integers(0, 3))
def test_disjoint_parts_no_author(counts, seed):
    ids, authors = made(counts)
    parts = split_by_author(ids, authors, "disjoint", seed)
    assert all(len(set(own)) == 1 for own in sides(authors, parts).values())
    assert set(parts) == {"train", "val", "test"}


@pytest.mark.parametrize("kind", ["stratified", "disjoint"])
def test_shares_and_order(kind):
    ids, authors = made([10] * 100)
    parts = split_by_author(ids, authors, kind, 1)
    assert parts.count("test") == 100
    assert parts.count("val") == 90
    back = split_by_author(ids[::-1], authors[::-1], kind, 1)
    assert back[::-1] == parts
    assert split_by_author(ids, authors, kind, 2) != parts


def test_single_recipes_are_one_pool():
    ids, authors = made([1] * 200)
    parts = split_by_author(ids, authors)
    assert (parts.count("test"), parts.count("val")) == (20, 18)


def test_two_authors_cannot_be_kept_apart():
    with pytest.raises(DataError, match="2 authors, expected three or more"):
        split_by_author(["1", "2", "3"], ["a", "b", "b"], "disjoint")


def test_an_unknown_author_is_the_site_then_the_recipe():
    assert author_key(" Ada  Cook", "x", "1") == author_key("ada cook", "y", "2")
    assert author_key("", "x.org", "1") == ("source", "x.org")
    assert author_key("", "", "1") == ("story", "1")
