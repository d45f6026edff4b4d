import threading
import warnings

import numpy as np
import pytest

from limner.encoders import text_cache
from limner.encoders.text_cache import FairLock, RecentTextCache, TextCacheFile, ValidationTextCache
from limner.errors import LimnerWarning, NumericsError


class Counting:
    """A text encoder that counts."""

    name, fingerprint, dim = "counting", "1", 2

    def __init__(self):
        self.calls = []

    def encode_text(self, texts):
        self.calls.append(list(texts))
        return np.ones((len(texts), 2), dtype=np.float32)


def test_texts_are_encoded_once_and_the_oldest_forgotten(monkeypatch):
    monkeypatch.setattr(text_cache, "ROWS", 4)
    counting = Counting()
    encoder = RecentTextCache(counting)
    assert (encoder.name, encoder.fingerprint, encoder.dim) == ("counting", "1", 2)
    first = encoder.encode_text(["a", "b"])
    assert encoder.encode_text(["a", "b"]) is first
    assert not first.flags.writeable
    encoder.encode_text(["c", "d"])
    encoder.encode_text(["a", "b"])  # now the other one is older
    encoder.encode_text(["e"])
    encoder.encode_text(["a", "b"])
    assert counting.calls == [["a", "b"], ["c", "d"], ["e"]]
    encoder.encode_text(["c", "d"])
    assert counting.calls[3:] == [["c", "d"]]


def test_of_a_portion_that_has_changed_the_new_texts_alone_are_encoded():
    class Spelling(Counting):
        """Tells texts by their letter."""

        def encode_text(self, texts):
            return super().encode_text(texts) * [[ord(text)] for text in texts]

    counting = Spelling()
    encoder = RecentTextCache(counting)
    encoder.encode_text(list("abc"))
    assert encoder.encode_text(list("caxb"))[:, 0].tolist() == [ord(text) for text in "caxb"]
    assert counting.calls == [["a", "b", "c"], ["x"]]
    whole = RecentTextCache(counting, together=True)
    whole.encode_text(list("ab"))
    whole.encode_text(list("ba"))
    assert counting.calls[2:] == [["a", "b"], ["b", "a"]]


def test_however_long_a_text_is_it_is_encoded_once(monkeypatch):
    monkeypatch.setattr(text_cache, "ROWS", 2)
    counting = Counting()
    encoder = RecentTextCache(counting)
    for texts in (["x" * 1_000_000], list("abcde")):
        assert encoder.encode_text(texts) is encoder.encode_text(texts)
    assert len(counting.calls) == 2


def test_a_short_text_has_its_turn_between_the_portions_of_a_long_one():
    order, turns = [], FairLock()
    begun, asked = threading.Event(), threading.Event()

    def long():
        for number in range(3):
            with turns:
                order.append(f"long {number}")
                begun.set()
                asked.wait(10)

    def short():
        with turns:
            order.append("short")

    threads = [threading.Thread(target=long), threading.Thread(target=short)]
    threads[0].start()
    begun.wait(10)
    threads[1].start()
    while len(turns) < 2:
        threads[1].join(0.001)
    asked.set()
    for thread in threads:
        thread.join(10)
    assert order == ["long 0", "short", "long 1", "long 2"]


def test_texts_of_validation_are_kept_in_their_portions_and_no_others():
    counting = Counting()
    encoder = ValidationTextCache(counting, ["a", "b", "b", "c"])
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
    rows = TextCacheFile(first, tmp_path / "new").encode_text(["long text", "b", "b"])
    assert rows.shape == (3, 2)
    assert first.calls == [["b", "long text"]]
    again = Counting()
    np.testing.assert_array_equal(TextCacheFile(again, tmp_path / "new").encode_text(["b"]), rows[1:2])
    assert again.calls == []
    (file,) = (tmp_path / "new").iterdir()
    file.write_bytes(b"PK")
    with pytest.warns(LimnerWarning, match="damaged .* its texts are encoded again"):
        mended = TextCacheFile(again, tmp_path / "new")
    np.testing.assert_array_equal(mended.encode_text(["b"]), rows[1:2])
    assert again.calls == [["b"]]
    np.testing.assert_array_equal(TextCacheFile(Counting(), tmp_path / "new").encode_text(["b"]), rows[1:2])


class Drawn(Counting):
    """Different vectors for different texts."""

    def encode_text(self, texts):
        self.calls.append(list(texts))
        return np.array([[len(text), -1 / len(text)] for text in texts], np.float32)


def test_a_flipped_bit_of_the_file_changes_no_vector(tmp_path):
    texts = ["a", "bb", "cccc"]
    due = TextCacheFile(Drawn(), tmp_path).encode_text(texts)
    (file,) = tmp_path.iterdir()
    whole = file.read_bytes()
    for number in (*range(0, len(whole), 9), *range(len(whole) - 30, len(whole))):
        data = bytearray(whole)
        data[number] ^= 1 << number % 8
        file.write_bytes(data)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LimnerWarning)
            np.testing.assert_array_equal(TextCacheFile(Drawn(), tmp_path).encode_text(texts), due)


@pytest.mark.parametrize("value", [np.nan, np.inf, 0])
def test_a_vector_that_says_nothing_is_neither_kept_nor_believed(tmp_path, value):
    class Broken(Counting):
        def encode_text(self, texts):
            return np.full((len(texts), 2), value, np.float32)

    with pytest.raises(NumericsError, match="the vector of 'b' is not finite or all zeros"):
        TextCacheFile(Broken(), tmp_path).encode_text(["b"])
    assert list(tmp_path.iterdir()) == []
    TextCacheFile(Counting(), tmp_path).encode_text(["b"])
    (file,) = tmp_path.iterdir()
    with np.load(file) as held:
        ids = held["ids"]
    np.savez(file, ids=ids, vectors=np.full((1, 2), value, np.float32))  # as an older version kept it
    with pytest.warns(LimnerWarning, match="encoded again"):
        assert TextCacheFile(Counting(), tmp_path).encode_text(["b"]).tolist() == [[1, 1]]


def test_a_file_of_an_older_version_is_read(tmp_path):
    TextCacheFile(Drawn(), tmp_path).encode_text(["b"])
    (file,) = tmp_path.iterdir()
    with np.load(file) as held:
        np.savez(file, ids=held["ids"], vectors=held["vectors"])
    again = Drawn()
    assert len(TextCacheFile(again, tmp_path).encode_text(["b"])) == 1
    assert again.calls == []
