"""Questions to a library: conditions, pictures from elsewhere, words added and taken away, and a cut-off."""

import io
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from itertools import pairwise
from pathlib import Path

import pytest
from PIL import Image
from vector_library import vector_library

from limner.cli.index import index
from limner.errors import CheckpointError, ConfigError, DataError
from limner.match.encoder_setup import image_encoders_of
from limner.match.illustrator import Illustrator
from limner.match.languages import negation_note, unreadable
from limner.progress import Progress
from limner.records import Picture
from limner.research.worlds import PictureBook
from limner.research.worlds.book_files import write
from limner.store import vector_index
from limner.store.catalogue import Catalogue, Only
from limner.store.library import PictureStore
from limner.store.search import COSINE, Channel

FOX, RABBIT = "a fox in the forest", "a rabbit"


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A library of three folders of drawings with captions."""
    folder = tmp_path_factory.mktemp("questions")
    for number in range(3):
        story = PictureBook(5 + number).stories(1, pages=(6, 6))
        write(folder / "drawn" / str(number), story, size_px=64, captions="metadata")
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        index(folder / "drawn", library=folder / "lib", encoder=("colour",))
    return folder


@pytest.fixture(scope="module")
def opened(home):
    return Illustrator(PictureStore.open(home / "lib"))


def ids(found):
    return [one.picture.id for one in found]


def scores(found):
    return {one.picture.id: one.score for one in found}


def z_of(opened, text):
    return {one.picture.id: one.channels["captions"] for one in opened.search(text, 500)}


def test_the_best_of_those_that_meet_the_conditions_are_found(home, opened):
    everything = opened.search(FOX, len(opened.catalogue))
    last = Path(everything[-1].picture.path).parent
    only = Only(folder=str(last))
    inside = [one for one in everything if Path(one.picture.path).parent == last]
    found = opened.search(FOX, 3, only=only)
    assert ids(found) == ids(inside)[:3] != ids(everything)[:3]
    assert (found.searched, found.notes()) == (len(inside), [])
    one = inside[0].picture.id
    like = opened.like(one, 100, only=only)
    assert set(ids(like)) == set(ids(inside)) - {one}
    assert like.searched == len(inside) - 1
    nothing = opened.search(FOX, 3, only=Only(folder="/nowhere"))
    assert (nothing, nothing.searched) == ([], 0)
    assert "no picture meets the conditions" in nothing.notes()[0]
    assert opened.like(one, 3, only=Only(folder="/nowhere")) == []


def pictures(some):
    common = {"width_px": 4, "height_px": 3, "format": "PNG", "size_bytes": 1, "phash": ""}
    return [Picture(id=one, paths=(f"/p/{one}",), group=one, **common) for one in some]


class Texts:
    """Every text has the vector of one picture of the library."""

    name, fingerprint = "drawn", "drawn"

    def __init__(self, row):
        self.row, self.dim = row, len(row)

    def encode_text(self, texts):
        return self.row[None].repeat(len(texts), 0)


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A library with search indices of which all parts are searched."""
    spaces = {"base": (128, 1), "looks": (128, 1)}
    library = vector_library(tmp_path_factory.mktemp("large") / "lib", 2000, spaces)
    library.save(approximate_from=0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vector_index, "QUERIES", 32)
        assert vector_index.prepare(library, Progress())
    searches = {
        space: one.model_copy(update={"probes": one.partitions})
        for space, one in library.settings.searches.items()
    }
    library.save(searches=searches)
    return library


@pytest.mark.slow
@pytest.mark.parametrize("whole", [200_000, 10])
def test_conditions_hold_beyond_memory_too(large, monkeypatch, whole):
    """As of the exact search, whether all that pass are compared or candidates are."""
    monkeypatch.setattr("limner.match.illustrator.READ_WHOLE", whole)
    monkeypatch.setattr(Catalogue, "pictures", lambda _, some: pictures(some))
    row = large.gallery(["base"]).space("base").vectors([700])[0]
    answers = []
    for size in (10**6, 0):
        large.save(approximate_from=size)
        asked = Illustrator(PictureStore.open(large.folder))
        monkeypatch.setitem(asked.__dict__, "channels", (Channel("base", Texts(row), "base", COSINE),))
        chosen = set(asked.catalogue.passing(Only())[::20])
        answers.append(asked.search("a dog", 5, only=Only(used=True), used=chosen))
        assert set(ids(answers[-1])) <= chosen
    one, other = answers
    assert ids(one) == ids(other)
    assert (len(one), one.searched, other.searched) == (5, 100, 100)


def test_unwanted_words_are_subtracted_in_log_odds(opened):
    count = len(opened.catalogue)
    fox, rabbit = scores(opened.search(FOX, count)), scores(opened.search(RABBIT, count))
    found = opened.search(FOX, count, without=[RABBIT])
    assert ids(found) == sorted(fox, key=lambda one: rabbit[one] - fox[one])
    for one in found:
        assert one.score == pytest.approx(fox[one.picture.id] - rabbit[one.picture.id], abs=1e-5)
    assert all(one.probability >= other.probability for one, other in pairwise(found))


def test_words_count_as_much_as_the_picture_they_are_added_to(opened):
    count = len(opened.catalogue)
    first = opened.search(RABBIT, 1)[0].picture.id
    plain = opened.like(first, count)
    ways = len(plain[0].channels)
    assert ways == 2
    found = opened.like(first, count, added=[FOX], without=[RABBIT])
    fox, rabbit, like = z_of(opened, FOX), z_of(opened, RABBIT), scores(plain)
    assert set(ids(found)) == set(like)
    for one in found:
        at = one.picture.id
        assert one.score == pytest.approx(like[at] + ways * (fox[at] - rabbit[at]), abs=1e-3)
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)


def test_a_picture_from_elsewhere_is_compared_and_not_added(home, opened):
    picture = opened.search(FOX, 1)[0].picture
    data = Path(picture.path).read_bytes()
    assert opened.look_at(data, "same.png") == picture.id
    with Image.open(picture.path) as image:
        copy = io.BytesIO()
        image.save(copy, "BMP")
    seen = opened.look_at(copy.getvalue(), "copy.bmp", ".bmp")
    assert set(seen) == {"colour"}
    before = len(PictureStore.open(home / "lib"))
    assert ids(opened.like(seen, 1)) == [picture.id]
    assert len(PictureStore.open(home / "lib")) == before
    with pytest.raises(DataError, match=r"notes\.txt: cannot be read as a picture"):
        opened.look_at(b"no picture", "notes.txt", ".txt")


def test_a_library_of_another_encoder_is_not_compared(opened, monkeypatch):
    made = opened.library.settings.spaces
    other = {"colour": made["colour"].model_copy(update={"fingerprint": "0" * 64})}
    settings = opened.library.settings.model_copy(update={"spaces": {**made, **other}})
    monkeypatch.setattr(opened.library, "settings", settings)
    with pytest.raises(CheckpointError, match="another version of colour; index again"):
        image_encoders_of(opened.library)


@pytest.mark.slow
def test_a_cut_off_leaves_out_and_says_how_many(opened):
    every = opened.search(FOX, 6)
    cut = every[2].probability
    found = opened.search(FOX, 6, min_probability=cut)
    assert ids(found) == ids(every)[:3]
    assert found.below == 3
    assert found.notes() == ["left out 3 pictures with a probability below --min-probability"]
    none = opened.search(FOX, 6, min_probability=1)
    assert none == []
    assert none.notes() == [
        "nothing similar found: left out 6 pictures with a probability below --min-probability"
    ]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("no dog", "dog"),
        ("A beach with no people on it", "people"),
        ("a street without any cars, at night", "cars"),
        ("not a cat", "cat"),
        ("nobody on the beach", "people"),
        ("the dog isn't in the water", "water"),
        ('a room with no 12" ruler', None),
    ],
)
def test_a_negation_is_told_to_use_without(text, named):
    note = negation_note(text, "en")
    assert "does not understand" in note
    assert note.endswith(f'--without "{named}"' if named else "--without")
    assert negation_note(text, "de") is None


@pytest.mark.parametrize("text", ["a dog", "a note on the wall", "knots in a rope", "snow in november", ""])
def test_other_words_are_no_negation(text):
    assert negation_note(text, "en") is None


def test_signs_and_unknown_letters_find_nothing_and_say_so(opened):
    for text, words in {
        "🐶": "no letters or digits",
        "?!…": "no letters or digits",
        "ᏣᎳᎩ": "a script that no installed encoder knows",
        "𝔡𝔬𝔤": "a script that no installed encoder knows",
    }.items():
        assert opened.search(text, 3) == []
        assert words in opened.query_note(text)
        with pytest.raises(DataError, match=f"--without '.+{words}"):
            opened.search(FOX, 3, without=[text])
    for text in ("🐶 dog", "12", "犬", "собака", "ｄｏｇ"):
        assert unreadable(text, opened.channels) is None
    anything = [Channel("any", opened.channels[0].encoder, "captions", COSINE)]
    assert unreadable("ᏣᎳᎩ", anything) is None
    assert unreadable("🐶", anything) is not None
    assert opened.query_note(FOX) is None


def test_a_cut_off_does_not_go_with_a_run(opened, monkeypatch):
    monkeypatch.setattr(Illustrator, "calibrated", False)
    with pytest.raises(ConfigError, match="gives no probabilities"):
        opened.search(FOX, 3, min_probability=0.5)
