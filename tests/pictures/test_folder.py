"""What the walk finds, and what it refuses to enter or wait for."""

import json
import os

import pyarrow as pa
import pytest
from pyarrow import parquet

from limner.errors import DataError, MissingError
from limner.pictures.find import (
    FoundFile,
    OtherFile,
    TablesRead,
    UnusableFile,
    VideoFile,
    count_files,
    source_path,
    walk,
)
from limner.pictures.tables import list_rows


def entries(*sources, **options):
    return list(walk([source_path(source) for source in sources], **options))


def found(*sources, **options):
    return {
        os.path.basename(one.path).decode("utf-8", "backslashreplace"): one  # noqa: PTH119
        for one in entries(*sources, **options)
        if isinstance(one, FoundFile)
    }


def unusable(*sources, **options):
    return {
        os.path.basename(one.path).decode(): one.reason  # noqa: PTH119
        for one in entries(*sources, **options)
        if isinstance(one, UnusableFile)
    }


def touch(folder, *names):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")


def test_suffixes_in_any_case_and_other_files(tmp_path):
    touch(
        tmp_path, "a.jpg", "B.JPeG", "c.TIF", "notes.docx", "film.mp4", "sub/deep/d.webp", "._a.jpg", "noend"
    )
    assert set(found(tmp_path)) == {"a.jpg", "B.JPeG", "c.TIF", "d.webp", "film.mp4"}
    assert [one.path[-8:] for one in entries(tmp_path) if isinstance(one, VideoFile)] == [b"film.mp4"]
    assert sum(isinstance(one, OtherFile) for one in entries(tmp_path)) == 3
    assert count_files([source_path(tmp_path)]) >= 4


def test_order_is_fixed_and_hidden_folders_and_libraries_are_passed_by(tmp_path):
    touch(tmp_path, "b.jpg", "a.jpg", "z/c.jpg", "m/d.jpg", ".thumbnails/e.jpg")
    touch(tmp_path, "lib/library.sqlite", "lib/f.jpg")
    assert list(found(tmp_path)) == ["a.jpg", "b.jpg", "d.jpg", "c.jpg"]


def test_names_that_are_no_utf8(tmp_path):
    raw = os.fsencode(tmp_path) + b"/gr\xfc\xdfe.jpg"
    with open(raw, "wb") as stream:  # noqa: PTH123
        stream.write(b"x")
    assert list(found(tmp_path)) == ["gr\\xfc\\xdfe.jpg"]
    assert next(iter(found(tmp_path).values())).path == raw


def test_links_pipes_and_loops(tmp_path):
    touch(tmp_path, "real/a.jpg")
    (tmp_path / "link.jpg").symlink_to(tmp_path / "real" / "a.jpg")
    (tmp_path / "broken.jpg").symlink_to(tmp_path / "gone.jpg")
    (tmp_path / "loop.jpg").symlink_to(tmp_path / "loop.jpg")
    (tmp_path / "dir.jpg").mkdir()
    (tmp_path / "real" / "up").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "pipe.jpg")
    assert set(found(tmp_path)) == {"a.jpg", "link.jpg"}
    reasons = unusable(tmp_path)
    assert reasons["broken.jpg"] == "broken link"
    assert "cannot be reached" in reasons["loop.jpg"]
    assert "pipe" in reasons["pipe.jpg"]
    assert "linked folder" in reasons["up"]
    assert set(found(tmp_path, follow_links=True)) == {"a.jpg", "link.jpg"}
    assert "up" not in unusable(tmp_path, follow_links=True)


def test_followed_links_reach_each_folder_once(tmp_path):
    touch(tmp_path, "outside/a.jpg", "in/b.jpg")
    (tmp_path / "in" / "one").symlink_to(tmp_path / "outside")
    (tmp_path / "in" / "two").symlink_to(tmp_path / "outside")
    assert [type(one).__name__ for one in entries(tmp_path / "in", follow_links=True)] == ["FoundFile"] * 2


def test_a_folder_that_cannot_be_listed(tmp_path, monkeypatch):
    touch(tmp_path, "a.jpg", "secret/b.jpg")
    real = os.scandir

    def refuse(path):
        if os.fsencode(path).endswith(b"secret"):
            raise PermissionError(13, "Permission denied", path)
        return real(path)

    monkeypatch.setattr(os, "scandir", refuse)
    last = entries(tmp_path)[-1]
    assert isinstance(last, UnusableFile)
    assert last.folder
    assert "Permission denied" in last.reason


def test_a_source_that_is_not_there():
    with pytest.raises(MissingError, match="no such folder"):
        source_path("/nowhere/at/all")


@pytest.mark.parametrize("source", ["photos.lance", "shards/000.TAR", "s3://bucket/photos.lance/"])
def test_pictures_inside_a_table_are_refused(source):
    with pytest.raises(DataError, match="pictures inside a table are not read; expected a folder"):
        source_path(source)


@pytest.mark.parametrize("held", [b"x", {"bytes": b"x", "path": None}])
def test_pictures_inside_a_parquet_file_are_refused_once(tmp_path, held):
    parquet.write_table(
        pa.table({"image": [held] * 3, "caption": ["a goat"] * 3}), tmp_path / "photos.parquet"
    )
    with pytest.raises(DataError, match="line 1: image holds a picture; pictures inside a table"):
        entries(tmp_path / "photos.parquet")


def test_sidecars_and_what_changes_their_key(tmp_path):
    touch(tmp_path, "a.jpg", "a.txt", "a.jpg.json", "b.jpg", "b.docx")
    one = found(tmp_path)
    assert [os.path.basename(path) for path in one["a.jpg"].sidecars] == [b"a.txt", b"a.jpg.json"]  # noqa: PTH119
    assert one["b.jpg"].sidecars == ()
    assert one["b.jpg"].words_key == ""
    (tmp_path / "a.txt").write_text("longer")
    other = found(tmp_path)
    assert other["a.jpg"].words_key != one["a.jpg"].words_key
    assert other["b.jpg"].words_key == ""


ROWS = [
    {"file_name": "a.jpg", "text": "a goat", "license": "CC0"},
    {"file_name": "sub/b.jpg", "text": "a hen"},
    {"file_name": "gone.jpg", "text": "nothing"},
]


def write_table(path, rows):
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif path.suffix == ".parquet":
        parquet.write_table(pa.Table.from_pylist(rows), path)
    else:
        names = list(rows[0])
        lines = [",".join(names), *(",".join(str(row.get(name, "")) for name in names) for row in rows)]
        path.write_text("\n".join(lines))


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".parquet"])
def test_an_image_folder_with_a_table(tmp_path, suffix):
    touch(tmp_path, "a.jpg", "sub/b.jpg", "c.jpg")
    write_table(tmp_path / f"metadata{suffix}", ROWS)
    files = found(tmp_path)
    assert set(files) == {"a.jpg", "b.jpg", "c.jpg"}
    assert [caption.text for caption in files["a.jpg"].words.captions] == ["a goat"]
    assert files["a.jpg"].words.license == "CC0"
    assert [caption.source for caption in files["b.jpg"].words.captions] == ["metadata"]
    assert files["c.jpg"].words.captions == ()
    assert "does not exist" in unusable(tmp_path)["gone.jpg"]
    before = files["a.jpg"].words_key
    write_table(tmp_path / f"metadata{suffix}", [{**ROWS[0], "text": "a kid"}, *ROWS[1:]])
    assert found(tmp_path)["a.jpg"].words_key != before
    assert found(tmp_path)["b.jpg"].words_key == files["b.jpg"].words_key


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".parquet"])
def test_a_list_of_paths(tmp_path, suffix):
    touch(tmp_path, "pictures/a.jpg", "pictures/b.jpg", "pictures/a.txt")
    rows = [
        {"path": "pictures/a.jpg", "caption": "a goat"},
        {"path": "pictures/a.jpg", "caption": "a white goat"},
        {"path": str(tmp_path / "pictures" / "b.jpg"), "caption": "a hen"},
        {"path": "pictures/gone.jpg", "caption": "nothing"},
        {"path": "pictures/a.jpg", "caption": "again"},
    ]
    table = tmp_path / f"list{suffix}"
    write_table(table, rows)
    files = found(table)
    assert [caption.text for caption in files["a.jpg"].words.captions] == ["a goat", "a white goat"]
    assert len(files["a.jpg"].sidecars) == 1
    assert set(files) == {"a.jpg", "b.jpg"}
    reasons = unusable(table)
    assert "listed in" in reasons["gone.jpg"]
    assert "listed before" in reasons[table.name]


def test_damaged_lines_are_named_and_the_rest_is_read(tmp_path):
    touch(tmp_path, "a.jpg")
    (tmp_path / "metadata.jsonl").write_text(
        '{"file_name": "a.jpg", "text": "goat"}\n{oops\n[1]\n{"file_name": 3}\n'
    )
    assert [caption.text for caption in found(tmp_path)["a.jpg"].words.captions] == ["goat"]
    problems = [one.reason for one in entries(tmp_path) if isinstance(one, UnusableFile)]
    assert ["line 2" in problems[0], "line 3" in problems[1], "line 4" in problems[2]] == [True] * 3


@pytest.mark.parametrize(
    ("mark", "encoding"),
    [(",", "utf-8"), (";", "utf-8-sig"), ("\t", "utf-16")],
    ids=["comma", "Excel", "Unicode text"],
)
def test_a_table_as_programs_for_tables_save_it(tmp_path, mark, encoding):
    (tmp_path / "a.jpg").write_bytes(b"x")
    lines = (("file_name", "caption"), ("a.jpg", '"a fox, asleep"'))
    (tmp_path / "Captions.CSV").write_text("\n".join(map(mark.join, lines)), encoding)
    (found,) = (one for one in walk([os.fsencode(tmp_path)]) if isinstance(one, FoundFile))
    assert [caption.text for caption in found.words.captions] == ["a fox, asleep"]


def test_a_table_in_another_encoding_says_what_to_do(tmp_path):
    (tmp_path / "captions.csv").write_bytes("file_name,caption\na.jpg,Crème".encode("cp1252"))
    (found,) = (one for one in walk([os.fsencode(tmp_path)]) if isinstance(one, UnusableFile))
    assert "save it as UTF-8" in found.reason


def test_a_table_without_paths_is_an_error(tmp_path):
    write_table(tmp_path / "list.csv", [{"caption": "goat"}])
    with pytest.raises(DataError, match="no column of paths"):
        list(list_rows(os.fsencode(tmp_path / "list.csv")))
    (tmp_path / "bad.parquet").write_bytes(b"nonsense")
    with pytest.raises(DataError, match="not parquet"):
        list(list_rows(os.fsencode(tmp_path / "bad.parquet")))


def test_a_single_picture_is_a_source(tmp_path):
    touch(tmp_path, "a.jpg", "b.jpg", "a.txt")
    files = found(tmp_path / "a.jpg")
    assert set(files) == {"a.jpg"}
    assert len(files["a.jpg"].sidecars) == 1


def test_captions_lying_in_a_folder_are_read_with_it(tmp_path):
    touch(tmp_path, "pictures/a.jpg", "pictures/b.jpg", "pictures/notes.docx")
    rows = [
        {"file_name": "pictures/a.jpg", "split": "train", "captions": ["a goat", "a white goat"]},
        {"file_name": "pictures/gone.jpg", "captions": ["nobody"]},
        {"file_name": "pictures/notes.docx", "captions": ["no picture"]},
    ]
    write_table(tmp_path / "captions.jsonl", rows)
    files = found(tmp_path)
    assert [one.text for one in files["a.jpg"].words.captions] == ["a goat", "a white goat"]
    assert files["b.jpg"].words.captions == ()
    (told,) = (one for one in entries(tmp_path) if isinstance(one, TablesRead))
    assert str(told) == f"{tmp_path}/captions.jsonl: read for 1 picture; 2 lines name missing files"
    reasons = unusable(tmp_path)
    assert reasons["gone.jpg"].endswith("captions.jsonl line 2 but does not exist")
    assert reasons["notes.docx"].endswith("line 3 but has no picture's extension")


def test_metadata_and_captions_of_one_folder_add_up(tmp_path):
    touch(tmp_path, "a.jpg")
    write_table(tmp_path / "metadata.csv", [{"file_name": "a.jpg", "text": "a goat", "credit": "Ada"}])
    write_table(tmp_path / "captions.csv", [{"file_name": "a.jpg", "caption": "on a roof"}])
    words = found(tmp_path)["a.jpg"].words
    assert ([one.text for one in words.captions], words.credit) == (["a goat", "on a roof"], "Ada")
