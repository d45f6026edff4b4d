"""Pictures whose bytes lie in a table of Lance or Parquet, or in a shard of WebDataset."""

import io
import json
import os
import tarfile

import lance
import pyarrow as pa
import pytest
from fakes import FakeImages, FakeTexts, content, noise_picture
from pyarrow import parquet

from limner.library.ingest import index
from limner.library.library import Library
from limner.pictures.decode import read_file
from limner.pictures.formats import PictureError
from limner.pictures.thumbnails import shrink


def encoded(number):
    out = io.BytesIO()
    noise_picture(number).save(out, "PNG")
    return out.getvalue()


ROWS = {
    "caption": ["a goat on a roof", "a red barn", None, "two geese"],
    "credit": ["Ann", None, None, "Bo"],
    "rank": [1, 2, 3, 4],
}


def table(folder, kind, count=4):
    pictures = [encoded(number) for number in range(count - 1)] + [b"no picture"]
    rows = {name: values[:count] for name, values in ROWS.items()}
    if kind == "tar":
        path = folder / "shard-000.tar"
        with tarfile.open(path, "w") as archive:
            for number, data in enumerate(pictures):
                members = {f"{number:04}.png": data}
                if rows["caption"][number]:
                    members[f"{number:04}.txt"] = rows["caption"][number].encode()
                if rows["credit"][number]:
                    members[f"{number:04}.json"] = json.dumps({"credit": rows["credit"][number]}).encode()
                for name, inside in members.items():
                    one = tarfile.TarInfo(f"below/{name}")
                    one.size = len(inside)
                    archive.addfile(one, io.BytesIO(inside))
        return path
    if kind == "hugging":
        path = folder / "photos.parquet"
        records = [{"bytes": data, "path": None} for data in pictures]
        parquet.write_table(pa.table({"image": records, **rows}), path, row_group_size=3)
    elif kind == "parquet":
        path = folder / "photos.parquet"
        parquet.write_table(
            pa.table({"key": [b"k"] * count, "image": pictures, **rows}), path, row_group_size=3
        )
    else:
        path = folder / "photos.lance"
        lance.write_dataset(pa.table({"image": pictures, **rows}), str(path))
    return path


def fill(source, library, **options):
    return index([source], library, image_encoders=[FakeImages()], text_encoder=FakeTexts(), **options)


@pytest.mark.parametrize("kind", ["lance", "parquet", "hugging", "tar"])
def test_a_table_of_pictures_is_a_source(tmp_path, kind):
    source = table(tmp_path, kind)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    library = Library(tmp_path / "lib")
    report = fill(source, library)
    assert (report.new, report.pictures, len(report.skipped)) == (4, 3, 1)
    key = "below/0003.png" if kind == "tar" else "3"
    assert report.skipped[0].path == f"{source}#{key}"
    rows = {row["paths"][0].partition("#")[2]: row for row in content(library)["pictures"]}
    first, second, third = (rows[key] for key in sorted(rows))
    assert [caption["text"] for caption in first["captions"]] == ["a goat on a roof"]
    assert (first["credit"], second["credit"], third["captions"]) == ("Ann", "", [])
    assert first["size_bytes"] == len(encoded(0))
    # Each can be opened again by its path, and a copy made of it.
    for picture in library.pictures([first["id"], third["id"]]):
        assert read_file(os.fsencode(picture.path)).sha256 == picture.id
        assert not shrink(picture, "step 1", area_px=100).warnings
    again = fill(source, library)
    assert (again.new, again.unchanged, again.encoded) == (0, 3, {"grid": 0})
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.parametrize("kind", ["lance", "parquet", "tar"])
def test_what_leaves_a_table_leaves_the_library_and_nothing_is_encoded_twice(tmp_path, kind):
    library = Library(tmp_path / "lib")
    source = table(tmp_path, kind)
    fill(source, library)
    if kind == "lance":
        lance.dataset(str(source)).delete("rank = 1")
    else:
        table(tmp_path, kind, 3)  # two pictures and one that is none
    report = fill(source, library)
    assert (report.pictures, report.encoded) == (2, {"grid": 0})
    assert len(content(library)["vectors_visual"]) == 3


def test_a_table_that_cannot_be_read_is_one_line_and_its_pictures_stay(tmp_path):
    library, source = Library(tmp_path / "lib"), table(tmp_path, "tar")
    fill(source, library)
    source.write_bytes(b"this is no archive" * 100)
    report = fill(source, library)
    assert (report.deleted, report.pictures) == (0, 3)
    (problem,) = [one for one in report.skipped if one.path == str(source)]
    assert "cannot be read as a table of pictures" in problem.reason
    with pytest.raises(PictureError, match="cannot be read as a table"):
        read_file(os.fsencode(source) + b"#below/0000.png")


def test_rows_that_are_not_there_are_told(tmp_path):
    for kind, key in (("lance", b"9"), ("parquet", b"9"), ("parquet", b"x"), ("tar", b"x.png")):
        with pytest.raises(PictureError, match="any more"):
            read_file(
                os.fsencode(table(tmp_path, kind) if kind != "lance" else _lance(tmp_path)) + b"#" + key
            )


def _lance(folder):
    path = folder / "photos.lance"
    return path if path.exists() else table(folder, "lance")


def test_a_list_of_paths_in_parquet_is_still_a_list(tmp_path):
    noise_picture(1).save(tmp_path / "a.png")
    parquet.write_table(pa.table({"path": ["a.png"], "text": ["a goat"]}), tmp_path / "list.parquet")
    library = Library(tmp_path / "lib")
    assert fill(tmp_path / "list.parquet", library).new == 1
    assert content(library)["files"][0]["path"] == str(tmp_path / "a.png")


def test_a_table_without_pictures_says_what_it_holds(tmp_path):
    lance.write_dataset(pa.table({"name": ["a"]}), str(tmp_path / "x.lance"))
    report = fill(tmp_path / "x.lance", Library(tmp_path / "lib"))
    assert "no column of bytes among name" in report.skipped[0].reason
