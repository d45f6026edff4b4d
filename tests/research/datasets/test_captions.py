"""The reader of captioned pictures."""

import json
from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from limner.errors import DataError, MissingError
from limner.research.datasets.sets.captions import read_captions


def write(folder, rows, pictures=()):
    folder.mkdir(parents=True, exist_ok=True)
    lines = [row if isinstance(row, str) else json.dumps(row, ensure_ascii=False) for row in rows]
    (folder / "captions.jsonl").write_text("\n".join(lines), encoding="utf-8")
    for name in pictures:
        (folder / name).write_bytes(b"not opened")
    return folder


def test_pictures_keep_their_captions_and_missing_ones_are_listed(tmp_path):
    rows = [
        {"file_name": "a.jpg", "split": "train", "captions": [" A dog .", "Ein Hund."]},
        {"file_name": "b.jpg", "split": "train", "captions": ["A cat."]},
    ]
    found = read_captions(write(tmp_path, rows, ["a.jpg"]))
    assert found[0].captions == ("A dog .", "Ein Hund.")
    assert found[0].path == tmp_path / "a.jpg"
    assert found[1].path is None


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("nope", "captions.jsonl:1: not JSON"),
        ({"file_name": "a", "captions": []}, "captions: "),
        ({"file_name": "a", "captions": ["x", " "]}, "captions.1: .*empty caption"),
        ({"file_name": "../a", "captions": ["x"]}, "outside the folder"),
        ({"file_name": "/a", "captions": ["x"]}, "outside the folder"),
        ({"file_name": "a\0", "captions": ["x"]}, "outside the folder"),
        ({"file_name": "a", "captions": ["x"], "more": 1}, "more"),
    ],
)
def test_a_wrong_line_is_one_clear_error(tmp_path, row, message):
    with pytest.raises(DataError, match=message) as caught:
        read_captions(write(tmp_path, [row]))
    assert "\n" not in str(caught.value)


def test_names_must_differ_and_the_file_must_be_there(tmp_path):
    with pytest.raises(DataError, match="occurs twice"):
        read_captions(write(tmp_path / "twice", [{"file_name": "a", "captions": ["x"]}] * 2))
    with pytest.raises(MissingError, match="does not exist"):
        read_captions(tmp_path / "nowhere")
    (tmp_path / "captions.jsonl").write_bytes(b"\xff")
    with pytest.raises(DataError, match="not UTF-8"):
        read_captions(tmp_path)


captions = st.lists(
    st.text(st.characters(codec="utf-8"), min_size=1, max_size=15).filter(str.strip), min_size=1, max_size=5
)


@given(st.lists(captions, max_size=5))
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_nothing_is_lost_or_invented(tmp_path, sets):
    rows = [{"file_name": f"{number}.jpg", "captions": texts} for number, texts in enumerate(sets)]
    found = read_captions(write(tmp_path, rows, ["1.jpg"]))
    assert [picture.captions for picture in found] == [tuple(t.strip() for t in s) for s in sets]
    assert sum(one.path is None for one in found) == len(sets) - (len(sets) > 1)


@pytest.mark.shared
def test_the_flickr8k_set(shared_data):
    found = read_captions(shared_data / "flickr8k")
    assert Counter(one.split for one in found) == {"train": 3000, "val": 1000, "test": 1000}
    assert all(one.path for one in found)
