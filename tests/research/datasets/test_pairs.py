"""The canonical pair record: JSON lines, and one row per repeated pair."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from limner.errors import DataError, MissingError
from limner.research.datasets.pairs import Pair, one_row_per_pair
from limner.research.datasets.sets.pairs import read_pairs

words = st.text(st.characters(codec="utf-8"), max_size=12)
pairs = st.builds(
    Pair,
    id=words.filter(bool),
    text=words,
    image=words,
    image_hash=st.sampled_from(["", "a" * 64]),
    group=words,
    split=st.sampled_from(["", "train", "val", "test"]),
    labels=st.dictionaries(words, st.integers(0, 1), max_size=3),
    seq=words,
    pos=st.none() | st.integers(0, 9),
    meta=st.dictionaries(words, st.one_of(words, st.integers(-9, 9), st.booleans(), st.none()), max_size=3),
)


def write_pairs(found, path):
    path.write_bytes(b"".join(pair.model_dump_json(exclude_defaults=True).encode() + b"\n" for pair in found))


@pytest.mark.slow
@given(st.lists(pairs, max_size=5, unique_by=lambda pair: pair.id))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_json_lines_are_read(tmp_path, found):
    write_pairs(found, tmp_path / "pairs.jsonl")
    assert read_pairs(tmp_path / "pairs.jsonl") == tuple(found)


def test_a_line_separator_inside_a_text_ends_no_line(tmp_path):
    pair = Pair(id="1", text="one\u2028two\x85three\nfour\r", image="a")
    write_pairs([pair], tmp_path / "p")
    assert read_pairs(tmp_path / "p") == (pair,)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("nope", r"p:1: not JSON"),
        ('{"id": "1", "text": "x"}', "image: Field required"),
        ('{"id": "1", "text": "x", "image": "a", "labels": {"Meta": 2}}', "labels.Meta"),
        ('{"id": "1", "text": "x", "image": "a", "split": "dev"}', "split"),
        ('{"id": "1", "text": "x", "image": "a", "colour": 1}', "colour: Extra"),
        ('{"id": "1", "text": "x", "image": "a"}\n{"id": "1", "text": "y", "image": "a"}', "p:2: id '1'"),
        (b"\xff", "byte 0 is not UTF-8"),
    ],
)
def test_a_wrong_line_is_one_clear_error(tmp_path, line, message):
    (tmp_path / "p").write_bytes(line if isinstance(line, bytes) else line.encode())
    with pytest.raises(DataError, match=message) as caught:
        read_pairs(tmp_path / "p")
    assert "\n" not in str(caught.value)


def test_the_file_must_be_there(tmp_path):
    with pytest.raises(MissingError, match="does not exist"):
        read_pairs(tmp_path / "nowhere")


def test_a_hash_is_64_hex_digits():
    with pytest.raises(ValidationError):
        Pair(id="1", text="x", image="a", image_hash="a" * 64 + "\n")


def test_a_picture_is_known_by_hash_then_url_then_name():
    pair = Pair(id="1", text="x", image="a.jpg")
    assert pair.image_id == "a.jpg"
    assert pair.model_copy(update={"meta": {"url": "http://a"}}).image_id == "http://a"
    assert pair.model_copy(update={"meta": {"url": "http://a"}, "image_hash": "f" * 64}).image_id == "f" * 64


def test_repeated_pairs_become_one_row_with_majority_labels():
    def row(number, *bits, text="Stir.", image="a", split="train"):
        labels = dict(zip(("one", "two", "three"), bits, strict=True))
        return Pair(id=str(number), text=text, image=image, split=split, labels=labels)

    found = one_row_per_pair(
        [
            row(0, 1, 0, 0),
            row(1, 1, 1, 0, text=" STIR."),
            row(2, 0, 1, 0),
            row(3, 0, 0, 1, image="b"),
            row(4, 1, 0, 0, image="b"),
            row(5, 0, 0, 0, split="test"),
        ]
    )
    assert [pair.id for pair in found] == ["0", "3", "5"]
    # majority of three; both of two is a tie, which is 1; the copy in test is another row
    assert [tuple(pair.labels.values()) for pair in found] == [(1, 1, 0), (1, 0, 1), (0, 0, 0)]
    assert [pair.meta["copies"] for pair in found] == [3, 2, 1]
