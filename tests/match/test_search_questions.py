"""Questions to a library: conditions, pictures from elsewhere, words added and taken away, and a cut-off."""

import io
from pathlib import Path

import pytest
from PIL import Image

from limner.cli.main import run
from limner.errors import CheckpointError, ConfigError, DataError
from limner.match.encoder_setup import image_encoders_of
from limner.match.illustrator import Illustrator
from limner.match.languages import negation_note, unreadable
from limner.research.worlds import PictureBook
from limner.research.worlds.book_files import write
from limner.store.catalogue import Only
from limner.store.library import PictureStore
from limner.store.search import COSINE, Channel

FOX, RABBIT = "a fox in the forest", "a rabbit"
NOWHERE = Only(folder="/nowhere")


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    """A library of three folders of drawings with captions."""
    folder = tmp_path_factory.mktemp("questions")
    for number in range(3):
        story = PictureBook(5 + number).stories(1, pages=(6, 6))
        write(folder / "drawn" / str(number), story, size_px=64, captions="metadata")
    assert run(["index", str(folder / "drawn"), "--library", str(folder / "lib"), "--encoder", "colour"]) == 0
    return Illustrator(PictureStore.open(folder / "lib"))


def ids(found):
    return [one.picture.id for one in found]


def scores(found):
    return {one.picture.id: one.score for one in found}


def test_the_best_of_those_that_meet_the_conditions_are_found(opened):
    everything = opened.search(FOX, len(opened.catalogue))
    last = Path(everything[-1].picture.path).parent
    inside = [one for one in everything if Path(one.picture.path).parent == last]
    found = opened.search(FOX, 3, only=Only(folder=str(last)))
    assert ids(found) == ids(inside)[:3] != ids(everything)[:3]
    assert (found.searched, found.notes()) == (len(inside), [])
    like = opened.like(inside[0].picture.id, 100, only=Only(folder=str(last)))
    assert set(ids(like)) == set(ids(inside)[1:])
    assert like.searched == len(inside) - 1
    nothing = opened.search(FOX, 3, only=NOWHERE)
    assert (nothing, nothing.searched) == ([], 0)
    assert "no picture meets the conditions" in nothing.notes()[0]
    assert opened.like(inside[0].picture.id, 3, only=NOWHERE) == []


def test_unwanted_words_are_subtracted_and_wanted_ones_count_as_much_as_the_picture(opened):
    count = len(opened.catalogue)
    fox, rabbit = (scores(opened.search(text, count)) for text in (FOX, RABBIT))
    found = opened.search(FOX, count, without=[RABBIT])
    assert scores(found) == pytest.approx({one: fox[one] - rabbit[one] for one in fox}, abs=1e-5)
    chances = [one.probability for one in found]
    assert chances == sorted(chances, reverse=True)
    assert list(scores(found).values()) == sorted(scores(found).values(), reverse=True)
    z = [
        {one.picture.id: one.channels["captions"] for one in opened.search(text, 500)}
        for text in (FOX, RABBIT)
    ]
    first = max(rabbit, key=rabbit.__getitem__)
    like = opened.like(first, count)
    ways = len(like[0].channels)
    assert ways == 2
    due = {one: score + ways * (z[0][one] - z[1][one]) for one, score in scores(like).items()}
    assert scores(opened.like(first, count, added=[FOX], without=[RABBIT])) == pytest.approx(due, abs=1e-3)


def test_a_picture_from_elsewhere_is_compared_and_not_added(opened):
    picture, before = opened.search(FOX, 1)[0].picture, len(opened.catalogue)
    assert opened.look_at(Path(picture.path).read_bytes(), "same.png") == picture.id
    copy = io.BytesIO()
    Image.open(picture.path).save(copy, "BMP")
    seen = opened.look_at(copy.getvalue(), "copy.bmp", ".bmp")
    assert ids(opened.like(seen, 1)) == [picture.id]
    assert len(PictureStore.open(opened.library.folder)) == before
    with pytest.raises(DataError, match=r"notes\.txt: cannot be read as a picture"):
        opened.look_at(b"no picture", "notes.txt", ".txt")


def test_a_library_of_another_encoder_is_not_compared(opened, monkeypatch):
    made = opened.library.settings
    other = made.spaces["colour"].model_copy(update={"fingerprint": "0" * 64})
    spaces = {**made.spaces, "colour": other}
    monkeypatch.setattr(opened.library, "settings", made.model_copy(update={"spaces": spaces}))
    with pytest.raises(CheckpointError, match="another version of colour; index again"):
        image_encoders_of(opened.library)


def test_a_cut_off_leaves_out_and_says_how_many(opened, monkeypatch):
    every = opened.search(FOX, 6)
    found, none = (opened.search(FOX, 6, min_probability=cut) for cut in (every[2].probability, 1))
    assert (ids(found), found.below) == (ids(every)[:3], 3)
    assert found.notes() == ["left out 3 pictures with a probability below --min-probability"]
    assert none == []
    assert none.notes()[0].startswith("nothing similar found: left out 6 pictures")
    monkeypatch.setattr(Illustrator, "calibrated", False)
    with pytest.raises(ConfigError, match="gives no probabilities"):
        opened.search(FOX, 3, min_probability=0.5)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("no dog", "dog"),
        ("A beach with no people on it", "people"),
        ("a street without any cars, at night", "cars"),
        ("not a cat", "cat"),
        ("nobody on the beach", "people"),
        ("the dog isn't in the water", "water"),
        ('a room with no 12" ruler', ""),
        *(
            (text, None)
            for text in ("a dog", "a note on the wall", "knots in a rope", "snow in november", "")
        ),
    ],
)
def test_a_negation_is_told_to_use_without(text, named):
    note = negation_note(text, "en")
    assert note is None if named is None else note.endswith(f'--without "{named}"' if named else "--without")
    assert negation_note(text, "de") is None


def test_signs_and_unknown_letters_find_nothing_and_say_so(opened):
    signs, script = "no letters or digits", "a script that no installed encoder knows"
    for text, words in {"🐶": signs, "?!…": signs, "ᏣᎳᎩ": script, "𝔡𝔬𝔤": script}.items():
        assert opened.search(text, 3) == []
        assert words in opened.query_note(text)
        with pytest.raises(DataError, match=f"--without '.+{words}"):
            opened.search(FOX, 3, without=[text])
    for text in ("🐶 dog", "12", "犬", "собака", "ｄｏｇ"):
        assert unreadable(text, opened.channels) is None
    anything = [Channel("any", opened.channels[0].encoder, "captions", COSINE)]
    assert unreadable("ᏣᎳᎩ", anything) is None
    assert unreadable("🐶", anything) is not None
