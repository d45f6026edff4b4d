"""Pictures that are not there, or are none: left out, counted, listed, and never replaced."""

import hashlib
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from limner.errors import DataError
from limner.research.datasets.missing import picture_fault, with_pictures
from limner.research.datasets.pairs import Pair, PairSet, Source


def picture(colour="red", form="JPEG"):
    file = io.BytesIO()
    Image.effect_noise((64, 48), 50).convert("RGB").save(file, form)
    return file.getvalue()


PICTURES = {form: picture(form=form) for form in ("JPEG", "PNG", "GIF", "WEBP", "BMP", "TIFF")}


def some(number):
    return [Pair(id=str(n), text=f"text {n}", image=f"{n}.jpg") for n in range(number)]


NAMES = {f"{n}.jpg": f"{n}.jpg" for n in range(100)}


@pytest.mark.parametrize("form", ["JPEG", "PNG", "GIF", "WEBP", "BMP", "TIFF"])
def test_whole_pictures_have_no_fault(form):
    assert picture_fault(picture(form=form)) == ""


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (b"", "empty file"),
        (b"<html><body>Not found</body></html>", "not a picture"),
        (picture()[:700], "truncated"),
        (picture(form="PNG")[:-900], "truncated"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n", "not a picture"),
    ],
)
def test_anything_else_has_one(data, fault):
    assert fault in picture_fault(data)
    assert "\n" not in picture_fault(data)


@given(
    st.sampled_from(["JPEG", "PNG", "GIF", "WEBP", "BMP", "TIFF"]),
    st.lists(st.tuples(st.integers(0, 3000), st.binary(max_size=4)), max_size=6),
)
@settings(max_examples=60, deadline=None)
def test_damaged_bytes_are_judged_and_never_raise(form, changes):
    data = bytearray(PICTURES[form])
    for place, change in changes:
        data[place : place + len(change)] = change
    assert "\n" not in picture_fault(bytes(data))


@pytest.mark.slow
def test_a_bomb_is_refused_before_it_unfolds():
    file = io.BytesIO()
    Image.new("1", (20_000, 20_000)).save(file, "PNG")
    assert len(file.getvalue()) < 1_000_000
    assert picture_fault(file.getvalue())


def present(number, names, folder, **policy):
    """Pairs that are kept, and what is listed as missing."""
    source = Source(folder, pictures=folder, **policy)
    found = with_pictures(PairSet("x", (), some(number)), source, names)
    return found.pairs, found.missing


def test_paths_and_hashes_are_filled_in_and_the_missing_listed(tmp_path):
    for number in range(1, 100):
        (tmp_path / f"{number}.jpg").write_bytes(picture())
    (tmp_path / "7.jpg").write_bytes(b"<html>gone</html>")
    kept, absent = present(100, NAMES, tmp_path)
    assert len(kept) == 98
    assert kept[0].image == str(tmp_path / "1.jpg")
    assert kept[0].image_hash == hashlib.sha256((tmp_path / "1.jpg").read_bytes()).hexdigest()
    assert [(one.id, one.image) for one in absent] == [("0", "0.jpg"), ("7", "7.jpg")]
    assert absent[0].reason == "no such file"
    assert "not a picture" in absent[1].reason


def test_more_than_two_percent_abort_unless_told_to_drop(tmp_path):
    for number in range(3, 100):
        (tmp_path / f"{number}.jpg").write_bytes(picture())
    with pytest.raises(DataError, match=r"x: 3 of 100 pairs .*3\.0%, allowed 2\.0%.*first '0.jpg'.*drop"):
        present(100, NAMES, tmp_path)
    kept, absent = present(100, NAMES, tmp_path, missing="drop")
    assert (len(kept), len(absent)) == (97, 3)
    kept, _ = present(100, NAMES, tmp_path, max_missing=0.03)
    assert len(kept) == 97


def test_nothing_left_is_an_error_even_when_dropping(tmp_path):
    with pytest.raises(DataError, match="3 of 3"):
        present(3, NAMES, tmp_path, missing="drop")
    with pytest.raises(DataError, match="not a folder"):
        present(3, NAMES, tmp_path / "nowhere", missing="drop")


@pytest.mark.parametrize("name", ["../a.jpg", "/etc/passwd", "a\0b"])
def test_a_name_cannot_lead_out_of_the_folder(tmp_path, name):
    with pytest.raises(DataError, match="outside the folder"):
        present(1, {"0.jpg": name}, tmp_path)
