"""Every segment has exactly one picture, and every word and picture is somewhere."""

from hypothesis import given
from hypothesis import strategies as st

from limner.records import Block, PictureRef
from limner.research.datasets.recipes.saved_pages import SavedPiece, one_picture_each, pieces_of_blocks


def piece(text, *names):
    return SavedPiece(text, tuple(PictureRef(target=name) for name in names))


def merged(*pieces):
    segments, removed = one_picture_each(pieces)
    lost = [(one.rule, "".join(one.pictures)) for one in removed]
    return [(one.text, one.picture.target) for one in segments], lost


def test_a_piece_without_picture_goes_to_the_next_and_a_trailing_one_to_the_previous():
    found, removed = merged(piece("a"), piece("b", "1"), piece("c", "2"), piece("d"), piece("e"))
    assert found == [("a\n\nb", "1"), ("c\n\nd\n\ne", "2")]
    assert removed == []


def test_the_first_of_several_pictures_is_kept_and_one_without_words_dropped():
    found, removed = merged(piece("", "0"), piece("a", "1", "2"), piece("  ", "3"))
    assert found == [("a", "1")]
    assert removed == [
        ("picture without words", "0"),
        ("further picture of a step", "2"),
        ("picture without words", "3"),
    ]


def test_words_without_any_picture_are_listed():
    assert merged(piece("a"), piece("b")) == ([], [("words without any picture", "")])


def test_a_picture_closes_what_stands_since_the_one_before():
    one, two = PictureRef(target="1"), PictureRef(target="2")
    blocks = [
        Block(kind="heading", text="Soup", level=1),
        Block(text="Chop."),
        Block(kind="picture", pictures=(one,)),
        Block(kind="break"),
        Block(text="Stir.", pictures=(two,)),
        Block(text="Eat."),
    ]
    found = pieces_of_blocks(blocks)
    assert [(one.text, len(one.pictures)) for one in found] == [
        ("Soup\n\nChop.", 1),
        ("Stir.", 1),
        ("Eat.", 0),
    ]


@given(st.lists(st.tuples(st.sampled_from(["", "w"]), st.integers(0, 3)), max_size=12))
def test_nothing_is_lost(shape):
    pieces = [
        piece(f"{text}{n}" if text else "", *[f"{n}/{m}" for m in range(k)])
        for n, (text, k) in enumerate(shape)
    ]
    found, removed = one_picture_each(pieces)
    words = [word for one in [*found, *removed] for word in one.text.split()]
    assert sorted(words) == sorted(one.text for one in pieces if one.text)
    pictures = [one.picture.target for one in found] + [name for one in removed for name in one.pictures]
    assert sorted(pictures) == sorted(ref.target for one in pieces for ref in one.pictures)
    assert all(one.text for one in found)
