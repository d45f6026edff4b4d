"""Picture books as pairs: what is known of a page is what its pair says."""

import numpy as np
import pytest

from limner.errors import ConfigError
from limner.research.datasets.pairs import shuffle_relations
from limner.research.worlds.book import (
    RELATIONS,
    PictureBook,
    drawings,
    picture_book,
    picture_book_pairs,
    world_graphs,
)

SHELF = PictureBook(5).stories(10)


def test_every_page_is_a_pair_with_its_truth():
    data = picture_book_pairs(SHELF)
    pages = [(story, number) for story in SHELF for number in range(len(story.pages))]
    assert len(data.pairs) == len(pages)
    assert data.relations == RELATIONS
    for pair, (story, number) in zip(data.pairs, pages, strict=True):
        page = story.pages[number]
        assert (pair.text, pair.split, pair.seq, pair.pos) == (
            page.text.text,
            story.story.split,
            story.story.id,
            number,
        )
        assert {name: bool(value) for name, value in pair.labels.items()} == page.relations
    assert {pair.split for pair in data.pairs} == {"train", "val", "test"}
    assert len({pair.image_id for pair in data.pairs}) == len(pages)
    assert len({pair.group for pair in data.pairs}) == len(SHELF)


def test_drawings_follow_the_pairs():
    some = drawings(SHELF[:2], 32)
    assert some.shape == (len(SHELF[0].pages) + len(SHELF[1].pages), 32, 32, 3)
    assert some.dtype == np.uint8
    np.testing.assert_array_equal(some[len(SHELF[0].pages)], np.asarray(SHELF[1].picture(0, 32)))
    assert drawings([], 32).shape == (0, 32, 32, 3)


def test_the_control_keeps_counts_and_splits_and_breaks_the_pairing():
    data = picture_book_pairs(SHELF)
    control = shuffle_relations(data, 0)
    assert control == shuffle_relations(data, 0)
    assert control != shuffle_relations(data, 1)
    for split in ("train", "val", "test"):
        rows = [
            sorted(tuple(pair.labels.values()) for pair in one.pairs if pair.split == split)
            for one in (data, control)
        ]
        assert rows[0] == rows[1]
    moved = sum(a.labels != b.labels for a, b in zip(data.pairs, control.pairs, strict=True))
    assert moved > len(data.pairs) / 3
    assert [pair.text for pair in control.pairs] == [pair.text for pair in data.pairs]


def test_too_few_stories_to_split_are_refused():
    with pytest.raises(ConfigError, match="at least 10"):
        picture_book(9, 0)


@pytest.mark.slow
def test_shuffled_graphs_stay_in_their_split():
    true, dealt = world_graphs(12, 0), world_graphs(12, 0, shuffled=3)
    splits = {pair.image_id: pair.split for pair in picture_book_pairs(PictureBook(0).stories(12)).pairs}
    content = {name: (graph.objects, graph.relations) for name, graph in true.items()}
    assert list(dealt) == list(true)
    for split in ("train", "val", "test"):
        mine = [name for name in true if splits[name] == split]
        assert sorted(map(repr, (content[name] for name in mine))) == sorted(
            repr((dealt[name].objects, dealt[name].relations)) for name in mine
        )
    assert sum(content[name] == (dealt[name].objects, dealt[name].relations) for name in true) < len(true) / 4
    assert world_graphs(12, 0, shuffled=3) == dealt


@pytest.mark.slow
def test_pairs_alone_cost_no_drawing_and_pictures_are_the_callers_own():
    pairs, none = picture_book(10, 3, 0)
    assert none.shape == (0, 0, 0, 3)
    again, pixels = picture_book(10, 3, 16)
    assert again == pairs
    assert pixels.shape == (len(pairs.pairs), 16, 16, 3)
    pixels[:] = 0
    assert picture_book(10, 3, 16)[1].any()
