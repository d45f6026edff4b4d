import numpy as np
import pytest

from limner.encoders.text_cache import LETTERS, STORIES, KeptTexts, RecentTexts, StoredTexts
from limner.errors import CheckpointError


class Counting:
    """A text encoder that counts."""

    name, fingerprint, dim = "counting", "1", 2

    def __init__(self):
        self.calls = []

    def encode_text(self, texts):
        self.calls.append(list(texts))
        return np.ones((len(texts), 2), dtype=np.float32)


def test_texts_are_encoded_once_and_the_oldest_forgotten():
    counting = Counting()
    encoder = RecentTexts(counting)
    assert (encoder.name, encoder.fingerprint, encoder.dim) == ("counting", "1", 2)
    first = encoder.encode_text(["a", "b"])
    assert encoder.encode_text(["a", "b"]) is first
    assert not first.flags.writeable
    encoder.encode_text(["b", "a"])  # another story
    assert counting.calls == [["a", "b"], ["b", "a"]]
    for number in range(STORIES - 1):
        encoder.encode_text([str(number)])
    encoder.encode_text(["b", "a"])
    assert len(counting.calls) == STORIES + 1
    encoder.encode_text(["a", "b"])
    assert counting.calls[-1] == ["a", "b"]
    for _ in range(2):
        encoder.encode_text(["x" * (LETTERS + 1)])
    assert [len(one[0]) for one in counting.calls[-2:]] == [LETTERS + 1] * 2


def test_texts_of_validation_are_kept_in_their_portions_and_no_others():
    counting = Counting()
    encoder = KeptTexts(counting, ["a", "b", "b", "c"])
    assert (encoder.name, encoder.fingerprint, encoder.dim) == ("counting", "1", 2)
    for texts in (["a", "b"], ["b", "c"]):
        first = encoder.encode_text(texts)
        first += 1  # whoever asked may write to it
        assert encoder.encode_text(texts).tolist() == [[1, 1], [1, 1]]
    assert counting.calls == [["a", "b"], ["b", "c"]]
    for _ in range(2):
        encoder.encode_text(["a", "x"])
        encoder.encode_text(["a", "b", "c", "a", "b"])  # more rows than there are texts
    assert len(counting.calls) == 6
    encoder.encode_text(["c"])  # the oldest portion makes room
    for texts in (["b", "c"], ["c"]):
        encoder.encode_text(texts)
    assert len(counting.calls) == 7
    encoder.encode_text(["a", "b"])
    assert len(counting.calls) == 8


def test_texts_of_a_run_are_encoded_once_and_come_back_from_the_file(tmp_path):
    first = Counting()
    rows = StoredTexts(first, tmp_path / "new").encode_text(["long text", "b", "b"])
    assert rows.shape == (3, 2)
    assert first.calls == [["b", "long text"]]
    again = Counting()
    np.testing.assert_array_equal(StoredTexts(again, tmp_path / "new").encode_text(["b"]), rows[1:2])
    assert again.calls == []
    (file,) = (tmp_path / "new").iterdir()
    file.write_bytes(b"PK")
    with pytest.raises(CheckpointError, match="damaged"):
        StoredTexts(again, tmp_path / "new")
