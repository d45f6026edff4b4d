"""Judgements and topics: read what is written, refuse what is not of the form."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limner.errors import DataError, LimnerError, MissingError
from limner.research.evaluation.judged import read_qrels, read_topics
from limner.studio.preferences import qrels_lines, topic_lines

NAME = st.text(st.characters(exclude_categories=["Z", "C"]), min_size=1, max_size=8)
WORDS = st.text(max_size=40).filter(str.strip)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("judgements") / "file"


@pytest.mark.slow
@given(judged=st.dictionaries(NAME, st.dictionaries(NAME, st.integers(-2, 9), min_size=1), min_size=1))
def test_judgements_are_read_as_written(place, judged):
    place.write_bytes(qrels_lines(judged).encode("utf-8"))
    assert read_qrels(place) == judged


@given(topics=st.dictionaries(NAME, WORDS))
def test_topics_are_read_as_written_but_for_white_space(place, topics):
    place.write_bytes(topic_lines(topics).encode("utf-8"))
    assert read_topics(place) == {name: " ".join(words.split()) for name, words in topics.items()}


@given(st.binary(max_size=200))
def test_whatever_a_file_holds_ends_in_rows_or_one_line(place, content):
    place.write_bytes(content)
    said = []
    for read in (read_qrels, read_topics):
        try:
            read(place)
        except LimnerError as error:
            said.append(str(error))
    assert not any("\n" in line for line in said)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "no judgement"),
        ("q 0 d", "expected: topic 0 document relevance"),
        ("q 0 d 1.5", "expected: topic 0 document relevance"),
        ("q 0 d 1 x", "expected: topic 0 document relevance"),
        ("q 0 d 1\nq 0 d 0", "file:2: 'd' is judged twice"),
    ],
)
def test_wrong_judgements(place, text, told):
    place.write_text(text)
    with pytest.raises(DataError, match=told):
        read_qrels(place)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a words", "a tab"),
        ("\twords", "a tab"),
        ("a\t ", "a tab"),
        ("a\tx\na\ty", "file:2: topic 'a' is repeated"),
    ],
)
def test_wrong_topics(place, text, told):
    place.write_text(text)
    with pytest.raises(DataError, match=told):
        read_topics(place)


def test_absent_files(tmp_path):
    for read in (read_qrels, read_topics):
        with pytest.raises(MissingError, match="limner study preferences"):
            read(tmp_path / "none")
