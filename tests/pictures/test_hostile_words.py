"""Tables, sidecars and packets made to keep a reader busy or to break it: read, or refused in one line."""

import json
import os
import sys

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from limner.errors import DataError
from limner.pictures import tables
from limner.pictures.find import UnusableFile, walk
from limner.pictures.metadata import MAX_CAPTIONS, Words, captions, merge, read_sidecars, read_xmp
from limner.pictures.tables import joined_rows, list_rows


def written(folder, name, content):
    """Path of a file, as the readers take it."""
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return os.fsencode(path)


@pytest.mark.parametrize(
    ("name", "content", "bound"),
    [
        ("a.csv", f"path,{','.join(map(str, range(50_000)))}\n" + "a.png\n" * 50_000, "has 50,001 columns"),
        ("a.csv", "path,text\na.png" + ",x" * 600_000, "a line is longer than 1,000,000 letters"),
        ("a.csv", 'path,text\na.png,"' + "x\n" * 100_000, "field larger than field limit"),
        ("a.csv", "path,text\na.png" + ',"\n"' * 300_000, "a line is longer than 1,000,000 letters"),
        ("a.jsonl", json.dumps({"path": "a.png", "captions": ["x y"] * 200_000}), "a line is longer than"),
    ],
    ids=["columns", "cells", "open quote", "quoted ends of lines", "captions"],
)
def test_a_table_that_would_take_long_is_refused_in_one_line(tmp_path, name, content, bound):
    with pytest.raises(DataError, match=bound) as caught:
        list(list_rows(written(tmp_path, name, content)))
    assert "\n" not in str(caught.value)


def test_a_parquet_table_of_very_many_columns_is_refused(tmp_path):
    parquet.write_table(pa.table({f"c{number}": ["x"] for number in range(1_001)}), tmp_path / "a.parquet")
    with pytest.raises(DataError, match="has 1,001 columns; expected at most 1,000"):
        list(list_rows(os.fsencode(tmp_path / "a.parquet")))


@pytest.mark.parametrize("nested", ["text", "list", "struct"])
def test_a_long_text_that_very_many_lines_share_is_refused_before_memory_is_full(tmp_path, nested):
    caption = {"text": "x" * 900_000, "list": ["x" * 900_000], "struct": {"text": "x" * 900_000}}[nested]
    rows = pa.DictionaryArray.from_arrays(pa.array([0] * 4_000, pa.int32()), pa.array(["x" * 900_000]))
    if nested == "list":
        rows = pa.ListArray.from_arrays(pa.array(range(4_001), pa.int32()), rows)
    elif nested == "struct":
        rows = pa.StructArray.from_arrays([rows], ["text"])
    path = tmp_path / "metadata.parquet"
    parquet.write_table(pa.table({"file_name": ["a.png"] * 4_000, "caption": rows}), path)
    assert path.stat().st_size < 2_000_000
    with pytest.raises(DataError, match="3,600,020,000 bytes in lines 1 to 4,000; expected at most 268"):
        next(list_rows(os.fsencode(path)))
    few = pa.table({"file_name": ["a.png"], "caption": [caption]})
    parquet.write_table(few, path)
    (row,) = list_rows(os.fsencode(path))
    assert row.key == next(list_rows(written(tmp_path, "a.jsonl", json.dumps(few.to_pylist()[0])))).key


def test_a_parquet_row_group_of_very_many_bytes_is_refused(tmp_path, monkeypatch):
    parquet.write_table(pa.table({"path": ["a.png"] * 3}), tmp_path / "a.parquet")
    assert len(list(list_rows(os.fsencode(tmp_path / "a.parquet")))) == 3
    monkeypatch.setattr(tables, "MAX_GROUP_BYTES", 10)
    with pytest.raises(DataError, match="bytes in a row group; expected at most 10; keep the columns"):
        list(list_rows(os.fsencode(tmp_path / "a.parquet")))


@pytest.mark.parametrize("kind", [pa.duration("s"), pa.timestamp("us"), pa.timestamp("us", "Nowhere/City")])
def test_values_that_python_cannot_hold_are_one_line(tmp_path, kind):
    table = pa.table({"path": ["a.png"], "date": pa.array([2**62], kind)})
    parquet.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(DataError, match="not parquet"):
        list(list_rows(os.fsencode(tmp_path / "a.parquet")))


@pytest.mark.parametrize(
    "said",
    [
        *({"photoTakenTime": {"timestamp": stamp}} for stamp in ("9" * 30, "²", "9" * 5_000, 10**30)),
        *({"geoData": {"latitude": far, "longitude": 1}} for far in (10**400, float("nan"), True, "x")),
    ],
    ids=lambda said: repr(said)[:40],
)
def test_times_and_places_that_are_none_leave_the_caption(tmp_path, said):
    line = {"path": "a.png", "caption": "a goat", **said}
    (row,) = list_rows(written(tmp_path, "a.jsonl", json.dumps(line)))
    assert ([one.text for one in row.words.captions], row.words.taken) == (["a goat"], None)


@pytest.fixture
def _usual_depth():
    """Python's own: other tests of a process may have raised it."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(1_000)
    yield
    sys.setrecursionlimit(before)


@pytest.mark.usefixtures("_usual_depth")
def test_lines_that_name_no_path_or_are_too_deep_are_named_and_the_rest_is_read(tmp_path):
    deep = '{"path": "a.png", "caption": ' + "[" * 800 + "]" * 800 + "}"
    zero = json.dumps({"path": "a\0b.png", "caption": "a hen"})
    (tmp_path / "b.png").touch()
    table = written(tmp_path, "a.jsonl", f'{deep}\n{zero}\n{{"path": "b.png"}}\n')
    first, second, found = walk([table])
    assert isinstance(first, UnusableFile)
    assert "line 1: path is not a path, or the line is nested too deeply" in first.reason
    assert "line 2: path is 'a\\x00b.png'; expected a path" in second.reason
    assert found.path.endswith(b"b.png")


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from(["9" * 20, "a goat"]),
    lambda one: st.lists(one, max_size=4) | st.dictionaries(st.sampled_from(["timestamp", "latitude"]), one),
    max_leaves=8,
)
NAMES = st.sampled_from(
    ["path", "caption", "captions", "tags", "credit", "date", "photoTakenTime", "geoData"]
)
LINES = st.dictionaries(NAMES, ANYTHING).map(json.dumps) | st.text(max_size=30)
together = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.slow
@given(st.lists(LINES, max_size=5).map(lambda lines: "\n".join(lines).encode("utf-8", "replace")))
@together
def test_any_lines_are_rows_or_named(tmp_path, content):
    _check_rows(written(tmp_path, "any.jsonl", b'{"path": "first.png"}\n' + content), b"first.png")


@given(st.binary(max_size=200) | st.text('a,"\n\r;\0é', max_size=60).map(str.encode))
@together
def test_any_bytes_are_a_table_or_one_line(tmp_path, content):
    _check_rows(written(tmp_path, "any.csv", b"path,caption\nfirst.png,a goat\n" + content), b"first.png")


def _check_rows(table, first):
    found = []
    try:
        found.extend(list_rows(table))
    except DataError as error:
        assert "\n" not in str(error)  # noqa: PT017
    assert all(os.path.isabs(one.path) for one in found if not isinstance(one, str))  # noqa: PTH117
    if found:
        assert found[0].path.endswith(first)


@pytest.mark.parametrize("read", [lambda table: list(joined_rows(table)), lambda table: [*_in_folder(table)]])
def test_many_lines_for_one_picture_are_joined_once(tmp_path, monkeypatch, read):
    lines = [json.dumps({"path": "a.png", "caption": f"goat {number}"}) for number in range(300)]
    looked = []

    def counting(parts):
        parts = list(parts)
        looked.extend(caption for part in parts for caption in part.captions)
        return merge(parts)

    monkeypatch.setattr(tables, "merge", counting)
    (row,) = read(written(tmp_path, "a.jsonl", "\n".join(lines)))
    assert len(row.words.captions) == len(looked) == 300


def _in_folder(table):
    rows, problems = tables.folder_rows([table])
    assert not problems
    return rows.values()


def test_a_picture_keeps_so_many_captions_and_says_that_there_were_more():
    many = Words(captions=captions((f"goat {number}" for number in range(5_000)), "sidecar"))
    words = merge([many, Words(warnings=("damaged EXIF",))])
    assert words.captions == many.captions[:MAX_CAPTIONS]
    assert words.warnings == ("damaged EXIF", "5,000 captions; the first 100 are kept")


def test_a_list_in_a_packet_belongs_to_its_own_property_alone():
    packet = (
        b'<x xmlns:r="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:d="http://purl.org/dc/elements/1.1/">'
        b"<r:Description><d:creator><r:Description><d:subject><r:Bag><r:li>bread</r:li></r:Bag></d:subject>"
        b"</r:Description></d:creator></r:Description></x>"
    )
    words = read_xmp(packet)
    assert ([one.text for one in words.captions], words.credit) == (["bread"], "")


@pytest.mark.skipif(os.name == "nt", reason="its devices are no files")
def test_what_is_no_regular_file_is_not_waited_for(tmp_path):
    for name in ("a.txt", "metadata.csv"):
        (tmp_path / name).symlink_to(os.devnull)
    assert "not a regular file" in read_sidecars([os.fsencode(tmp_path / "a.txt")]).warnings[0]
    with pytest.raises(DataError, match="not a regular file"):
        list(list_rows(os.fsencode(tmp_path / "metadata.csv")))
