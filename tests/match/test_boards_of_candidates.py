"""Storyboards of a library beyond memory are those of the exact search, pins, bans and likeness included."""

import numpy as np
import pytest
from boards import chosen_board
from vector_library import drawn, vector_library

from limner.match.illustrate import BoardOptions
from limner.progress import Progress
from limner.records import Picture, Step, Story
from limner.store import vector_index
from limner.store.approximate import ApproximateIndex
from limner.store.search import COSINE, Channel, Index

COUNT, STEPS = 3_000, 5


class Texts:
    """Gives every text a vector near that of some picture."""

    name, fingerprint = "drawn", "drawn"

    def __init__(self, width, seed):
        self.dim = width
        self.rows = vector_index.around(drawn(COUNT, width, seed)[:200], np.random.default_rng(seed))

    def encode_text(self, texts):
        return self.rows[[int(text.split()[-1]) % 200 for text in texts]]


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """The same library searched exactly and by candidates, and its channels."""
    folder = tmp_path_factory.mktemp("boards") / "lib"
    library = vector_library(folder, COUNT, {"base": (64, 1), "looks": (48, 1)})
    library.save(approximate_from=0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vector_index, "QUERIES", 32)
        assert vector_index.prepare(library, Progress())
    # Lance draws its parts by chance: all are looked into, so that candidates do not depend on them.
    whole = {
        space: one.model_copy(update={"probes": one.partitions, "candidates": vector_index.CANDIDATES[-2]})
        for space, one in library.settings.searches.items()
    }
    library.save(searches=whole)
    channels = [Channel("base", Texts(64, 0), "base", COSINE)]
    return Index(library.gallery(["base", "looks"])), ApproximateIndex(library, ["base", "looks"]), channels


def pictures(ids):
    common = {"width_px": 4, "height_px": 3, "format": "PNG", "size_bytes": 1, "phash": ""}
    return [Picture(id=one, paths=(f"/p/{one}",), group=one, **common) for one in ids]


def boards(both, options, texts=range(4)):
    """The boards of some texts by either search."""
    exact, approximate, channels = both
    for text in texts:
        numbers = range(20 * text, 20 * text + STEPS)
        story = Story(id="t", title="t", steps=tuple(Step(text=f"step {number}") for number in numbers))
        yield tuple(chosen_board(story, one, channels, pictures, options) for one in (exact, approximate))


def shown(board):
    return [None if one.chosen is None else one.chosen.picture.id for one in board.steps]


@pytest.mark.parametrize("show", ["usual", "always"])
def test_every_step_shows_the_same_picture(both, show):
    for one, other in boards(both, BoardOptions(show=show, candidates=100)):
        assert shown(one) == shown(other)
        assert any(shown(one))
        chances = [[step.probability for step in board.steps] for board in (one, other)]
        np.testing.assert_allclose(*chances, atol=1e-4)
        # a share of the mean of those probabilities, hence as near
        assert one.threshold == pytest.approx(other.threshold, abs=4e-5)


def test_a_picture_that_no_word_finds_is_pinned_and_banned_ones_are_gone(both):
    exact, approximate, _ = both
    first, _ = next(boards(both, BoardOptions(candidates=100), [1]))
    pinned = next(one for one in reversed(exact.gallery.ids) if one not in shown(first))
    banned = tuple(one for one in shown(first)[1:] if one is not None)
    options = BoardOptions(candidates=100, pins={0: pinned}, bans=banned)
    one, other = next(boards(both, options, [1]))
    assert shown(one) == shown(other)
    assert shown(other)[0] == pinned
    assert not set(banned) & set(shown(other))
    assert approximate.pictures == COUNT


@pytest.mark.slow
def test_a_library_whose_pictures_cannot_be_compared_takes_a_pin_all_the_same(both):
    """Nothing is like a fixed picture where no space of looks was made."""
    exact, approximate, channels = both
    story = Story(id="t", steps=(Step(text="step 1"), Step(text="step 2")))
    options = BoardOptions(candidates=100, pins={0: exact.gallery.ids[5]})
    for index in (exact, approximate):
        board = chosen_board(story, index, channels, pictures, options, compared="clip")
        assert shown(board)[0] == exact.gallery.ids[5]
