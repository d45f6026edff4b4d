"""Storyboards of a library beyond memory are those of the exact search, pins, bans and likeness included."""

import numpy as np
import pytest
from boards import TableEncoder, chosen_board, story_of
from vector_library import drawn, vector_library

from limner.match.illustrate import BoardOptions
from limner.match.illustrator import Illustrator
from limner.progress import Progress
from limner.records import Picture
from limner.store import vector_index
from limner.store.approximate import ApproximateIndex
from limner.store.catalogue import Catalogue, Only
from limner.store.library import PictureStore
from limner.store.search import COSINE, Channel, Index

COUNT = 3_000


ROWS = vector_index.around(drawn(COUNT, 64, 0)[:200], np.random.default_rng(0))
TEXTS = TableEncoder({f"step {number}": row for number, row in enumerate(ROWS)})  # each near some picture
CHANNELS = (Channel("base", TEXTS, "base", COSINE),)


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """The same library searched exactly and by candidates."""
    spaces = {"base": (64, 1), "looks": (48, 1)}
    library = vector_library(tmp_path_factory.mktemp("boards") / "lib", COUNT, spaces)
    library.save(approximate_from=0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vector_index, "QUERIES", 32)
        assert vector_index.prepare(library, Progress())
    # Lance draws its parts by chance: all are looked into, so that candidates do not depend on them.
    made, most = library.settings.searches, {"candidates": vector_index.CANDIDATES[-2]}
    whole = {name: one.model_copy(update=most | {"probes": one.partitions}) for name, one in made.items()}
    library.save(searches=whole)
    return Index(library.gallery([*spaces])), ApproximateIndex(library, [*spaces]), library


def pictures(ids):
    common = {"width_px": 4, "height_px": 3, "format": "PNG", "size_bytes": 1, "phash": ""}
    return [Picture(id=one, paths=(f"/p/{one}",), group=one, **common) for one in ids]


def boards(both, text, **options):
    """The boards of a text by either search."""
    story = story_of([f"step {20 * text + number}" for number in range(5)])
    compared = options.pop("compared", "looks")
    options = BoardOptions(candidates=100, **options)
    return [chosen_board(story, one, CHANNELS, pictures, options, compared=compared) for one in both[:2]]


@pytest.mark.parametrize("show", ["usual", "always"])
@pytest.mark.parametrize("text", range(4))
def test_every_step_shows_the_same_picture(both, text, show):
    one, other = boards(both, text, show=show)
    assert one.shown == other.shown
    assert any(one.shown.values())
    chances = [[step.probability for step in board.steps] for board in (one, other)]
    np.testing.assert_allclose(*chances, atol=1e-4)


@pytest.mark.parametrize("compared", ["looks", "clip"])  # nothing is like a pin in a space that was not made
def test_a_picture_that_no_word_finds_is_pinned_and_banned_ones_are_gone(both, compared):
    before = set(boards(both, 1)[0].shown.values())
    pinned = next(one for one in reversed(both[0].gallery.ids) if one not in before)
    banned = tuple(before - {None})[:4]
    one, other = boards(both, 1, pins={0: pinned}, bans=banned, compared=compared)
    assert one.shown == other.shown
    assert one.shown[0] == pinned
    assert not set(banned) & set(one.shown.values())


@pytest.mark.slow
@pytest.mark.parametrize("whole", [200_000, 10])
def test_conditions_hold_beyond_memory_too(both, monkeypatch, whole):
    """As of the exact search, whether all that pass are compared or candidates are."""
    monkeypatch.setattr("limner.match.illustrator.READ_WHOLE", whole)
    monkeypatch.setattr(Catalogue, "pictures", lambda _, some: pictures(some))
    answers, library = [], both[2]
    for size in (10**6, 0):
        library.save(approximate_from=size)
        asked = Illustrator(PictureStore.open(library.folder))
        monkeypatch.setitem(asked.__dict__, "channels", CHANNELS)
        some = set(asked.catalogue.passing(Only())[::20])
        answers.append(asked.search("step 7", 5, only=Only(used=True), used=some))
        assert {one.picture.id for one in answers[-1]} <= some
    one, other = ([hit.picture.id for hit in found] for found in answers)
    assert one == other
    assert [found.searched for found in answers] == [150, 150]
