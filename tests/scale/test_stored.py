"""Pictures on object storage: found, read, shown and marked as on a disk."""

import io
import json
import os

import pytest
from fakes import FakeImages, FakeTexts, noise_picture
from lance_tables import content

from limner.errors import MissingError
from limner.locations import file_system, location
from limner.pictures.decode import PictureError, read_file
from limner.pictures.thumbnails import locate, shrink
from limner.scale.ingest import index
from limner.scale.library import PictureStore

pytestmark = pytest.mark.slow


def encoded(number):
    out = io.BytesIO()
    noise_picture(number).save(out, "PNG")
    return out.getvalue()


def put(bucket, name, data):
    place = location(f"{bucket}/{name}")
    with file_system(place).open_output_stream(place.path) as stream:
        stream.write(data)


def drop(bucket, name):
    place = location(f"{bucket}/{name}")
    file_system(place).delete_file(place.path)


def fill(source, library, **options):
    return index([source], library, image_encoders=[FakeImages()], text_encoder=FakeTexts(), **options)


@pytest.fixture
def photos(bucket):
    """The same content as `on_disk`, in a bucket."""
    for name, data in FILES.items():
        put(bucket, f"photos/{name}", data)
    return f"{bucket}/photos"


FILES = {
    "a.png": encoded(0),
    "a.txt": b"a goat on a roof",
    "red-barn.png": encoded(1),
    "below/copy.png": encoded(1),
    "below/IMG_2.png": encoded(2),
    "below/metadata.jsonl": json.dumps(
        {"file_name": "IMG_2.png", "text": "two geese", "credit": "Ann"}
    ).encode(),
    "broken.jpg": b"no picture",
    "notes.docx": b"x",
}


def relative(rows, home):
    """Rows without what names their place or time."""
    known = (
        "sha256",
        "status",
        "captions",
        "credit",
        "size",
        "id",
        "phash",
        "vector",
        "input_hash",
        "labels",
    )
    return sorted(
        (
            [
                str(row["path"]).removeprefix(home) if "path" in row else "",
                {key: row.get(key) for key in known},
            ]
            for row in rows
        ),
        key=str,
    )


def test_a_bucket_is_read_as_a_folder_is(photos, tmp_path):
    for name, data in FILES.items():
        (tmp_path / "disk" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "disk" / name).write_bytes(data)
    here, there = PictureStore(tmp_path / "here"), PictureStore(tmp_path / "there")
    one, other = fill(tmp_path / "disk", here), fill(photos, there)
    for name in ("found", "new", "other_files", "exact_duplicates", "pictures", "encoded"):
        assert getattr(one, name) == getattr(other, name)
    assert (other.new, other.pictures, len(other.skipped)) == (4, 3, 1)
    rows, due = content(there), content(here)
    assert relative(rows["files"], photos) == relative(due["files"], str(tmp_path / "disk"))
    assert relative(rows["vectors_visual"], "") == relative(due["vectors_visual"], "")
    assert there.settings.sources == (photos,)
    # By a path of the command line, in which two slashes are one.
    again = fill(photos.replace("//", "/"), there)
    assert (again.new, again.unchanged, again.encoded) == (0, 4, {"grid": 0})


def test_each_picture_is_opened_again_by_its_address(photos, tmp_path):
    library = PictureStore(tmp_path / "lib")
    fill(photos, library)
    (found,) = [row["sha256"] for row in content(library)["files"] if row["path"] == f"{photos}/a.png"]
    picture = library.picture(found)
    assert picture.path == f"{photos}/a.png"
    assert read_file(os.fsencode(locate(picture, "step 1"))).sha256 == found
    assert shrink(picture, "step 1", area_px=100).data
    put(photos, "a.png", encoded(7))
    with pytest.raises(ValueError, match="has changed since it was indexed"):
        shrink(picture, "step 1", area_px=100)
    drop(photos, "a.png")
    with pytest.raises(ValueError, match="does not exist"):
        locate(picture, "step 1")
    with pytest.raises(PictureError, match="no such object"):
        read_file(os.fsencode(picture.path))


def test_new_changed_and_gone_objects_are_told_apart(photos, tmp_path):
    library = PictureStore(tmp_path / "lib")
    fill(photos, library)
    put(photos, "new.png", encoded(5))
    put(photos, "a.png", encoded(6) + b"\0")
    put(photos, "below/metadata.jsonl", json.dumps({"file_name": "IMG_2.png", "text": "a lake"}).encode())
    drop(photos, "red-barn.png")
    report = fill(photos, library)
    assert (report.new, report.changed, report.unchanged, report.deleted) == (1, 2, 1, 1)
    captions = [caption["text"] for row in content(library)["pictures"] for caption in row["captions"]]
    assert "a lake" in captions
    assert "two geese" not in captions


def test_a_list_in_a_bucket_is_a_source_too(bucket, tmp_path):
    put(bucket, "p/x.png", encoded(3))
    put(bucket, "list.csv", f"path,text\np/x.png,a goat\n{bucket}/p/gone.png,a cow\n".encode())
    library = PictureStore(tmp_path / "lib")
    report = fill(f"{bucket}/list.csv", library)
    assert report.new == 1
    assert {one.reason.partition(" but ")[2] for one in report.skipped if "gone" in one.path} == {
        "no such object"
    }
    paths = [path for row in content(library)["pictures"] for path in row["paths"]]
    assert paths == [f"{bucket}/p/x.png"]


def test_what_is_not_there_is_told_before_anything_is_marked(photos, tmp_path, monkeypatch):
    library = PictureStore(tmp_path / "lib")
    fill(photos, library)
    with pytest.raises(MissingError, match="no such folder or list"):
        fill(f"{photos}-elsewhere", library)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(MissingError, match="does not respond"):
        fill(photos, library)
    assert len(library) == 3
