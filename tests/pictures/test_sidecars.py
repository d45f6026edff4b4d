"""Words beside pictures and in their names."""

import codecs
import contextlib
import json
import os
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limner.encodings import decode_caption
from limner.pictures import metadata as sidecars
from limner.pictures.metadata import (
    Words,
    clean,
    merge,
    read_sidecars,
    readable_name,
    words_of_name,
    words_of_row,
)

UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def texts(words, source=None):
    return [caption.text for caption in words.captions if source is None or caption.source == source]


@pytest.mark.parametrize(
    ("stem", "due"),
    [
        ("grandma-baking-bread", "grandma baking bread"),
        ("Two_Goats_on_a_Roof", "Two Goats on a Roof"),
        ("01 mixing the dough", "mixing the dough"),
        ("chocolateCake", "chocolate Cake"),
        ("sunset", "sunset"),
        ("Kinder im Garten 2019", "Kinder im Garten"),
        ("crème-brûlée", "crème brûlée"),
        ("बच्चे खेल रहे हैं", "बच्चे खेल रहे हैं"),
        ("quilt-32", ""),
        ("small-red-barn", "small red barn"),
        ("red-barn-7", "red barn"),
        ("IMG_2031", ""),
        ("DSC00012", ""),
        ("DSC_0012", ""),
        ("PXL_20210704_123456789", ""),
        ("IMG-20210704-WA0003", ""),
        ("20190721_140355", ""),
        ("d41d8cd98f00b204e9800998ecf8427e", ""),
        ("3f2504e0-4f89-11d3-9a0c-0305e82c3301", ""),
        ("Screenshot 2021-07-04 at 12.34.56", ""),
        ("Screen Shot of the bakery", ""),
        ("WhatsApp Image 2021-07-04 at 12.34.56", ""),
        ("image", ""),
        ("image (3)", ""),
        ("page-12", ""),
        ("untitled", ""),
        ("xkcd", ""),
        ("a1b2c3d4e5", ""),
        ("cat", ""),
        ("P1010023", ""),
        ("received_10154321", ""),
        ("", ""),
    ],
)
def test_names(stem, due):
    assert readable_name(stem) == due


@given(st.text())
def test_any_name_is_read_and_reading_twice_changes_nothing(stem):
    once = readable_name(stem)
    assert "\n" not in once
    if once:
        assert readable_name(once) != ""


def test_a_name_that_is_no_utf8():
    assert texts(words_of_name(b"/pictures/grandma\xff-baking-bread.jpg")) == ["grandma baking bread"]


@given(st.text())
def test_clean_text_is_one_line_of_words_or_nothing(text):
    once = clean(text)
    assert once == " ".join(once.split())
    assert clean(once) == once


def write(folder, name, content):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return os.fsencode(path)


def test_text_and_json(tmp_path):
    plain = write(tmp_path, "a.txt", "\ufeffA dog\non a hill \n")
    rich = write(
        tmp_path,
        "a.json",
        json.dumps({"Description": "A hound", "tags": ["hill", "grass"], "credit": "Ada", "license": "CC0"}),
    )
    words = read_sidecars([plain, rich])
    assert texts(words, "sidecar") == ["A dog on a hill", "A hound"]
    assert texts(words, "keywords") == ["hill, grass"]
    assert (words.credit, words.license) == ("Ada", "CC0")


@pytest.mark.parametrize(
    ("caption", "encoding"),
    [
        ("Ein Mädchen übt Geige", "utf-16"),
        ("Ein Mädchen übt Geige", "utf-8-sig"),
        ("Grüße aus München", "cp1252"),
        ("Crème brûlée à la vanille", "cp1252"),
        ("Smørrebrød på bordet", "cp1252"),
        ("A dog’s ball", "cp1252"),
        ("Tři děti si hrají u moře", "cp1250"),
        ("庭で遊ぶ子供たち", "shift_jis"),
        ("カフェ", "shift_jis"),
    ],
)
@pytest.mark.parametrize("name", ["a.txt", "a.json"])
def test_sidecars_in_other_encodings_are_read_where_that_is_certain(tmp_path, name, caption, encoding):
    written = caption if name == "a.txt" else json.dumps({"caption": caption}, ensure_ascii=False)
    words = read_sidecars([write(tmp_path, name, written.encode(encoding))])
    assert (texts(words), words.warnings) == ([caption], ())


@pytest.mark.parametrize(
    ("caption", "encoding"),
    [
        ("犬", "shift_jis"),
        ("富士山", "shift_jis"),
        ("Кот", "cp1251"),
        ("Дети играют в саду", "koi8-r"),
        ("Кот on the table with milk", "koi8-r"),
        ("猫 a cat", "shift_jis"),
        ("庭で遊ぶ子供たち", "euc_jp"),
        ("孩子们在花园里玩", "gb18030"),
        ("정원에서 노는 아이들", "euc_kr"),
        ("Niños", "cp1252"),
        ("María", "mac_roman"),
        ("Ein schöner Tag am See", "mac_roman"),
        ("Gulrøtter i en bolle", "mac_roman"),
        ("Menina à beira-mar", "cp850"),
        ("Äiti ja lapsi", "cp850"),
        ("Gyerekek játszanak a kertben", "cp852"),
        ("Vaikai žaidžia", "cp1257"),
    ],
)
def test_a_sidecar_in_an_uncertain_encoding_is_named_and_never_garbled(tmp_path, caption, encoding):
    words = read_sidecars([write(tmp_path, "a.txt", caption.encode(encoding))])
    assert texts(words) in ([], [caption])
    if not words.captions:
        assert words.warnings == (
            "a.txt: is not UTF-8, and in which encoding it is written is not certain; save it as UTF-8",
        )


@pytest.mark.parametrize("encoding", ["mac_roman", "cp850"])
def test_encodings_of_dos_and_of_old_macintoshes_are_refused(encoding):
    with pytest.raises(ValueError, match="save it as UTF-8"):
        decode_caption("Ein schöner Tag am See".encode(encoding))


@given(st.binary())
def test_any_bytes_are_a_caption_or_one_line(data):
    with contextlib.suppress(ValueError):
        assert "\ufffd" not in decode_caption(data) or b"\xef\xbf\xbd" in data or data[:2] in UTF16


def test_a_photo_export_repeats_the_file_name(tmp_path):
    export = {
        "title": "IMG_2031.jpg",
        "description": "",
        "photoTakenTime": {"timestamp": "1563710635", "formatted": "21 Jul 2019"},
    }
    words = read_sidecars([write(tmp_path, "IMG_2031.jpg.json", json.dumps(export))])
    assert words.captions == ()
    assert words.taken == datetime(2019, 7, 21, 12, 3, 55, tzinfo=UTC)


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.json", "{broken"), ("a.json", b"\xff\xff"), ("a.json", "7"), ("a.xmp", "<x"), ("a.json", "[1, 2]")],
)
def test_a_damaged_sidecar_is_a_warning_that_names_it(tmp_path, name, content):
    words = read_sidecars([write(tmp_path, name, content)])
    assert words.captions == ()
    assert words.warnings[0].startswith(f"{name}: ")


def test_a_vast_or_missing_sidecar_is_a_warning(tmp_path, monkeypatch):
    monkeypatch.setattr(sidecars, "MAX_SIDECAR_BYTES", 10)
    assert "not read" in read_sidecars([write(tmp_path, "a.txt", "x" * 11)]).warnings[0]
    assert "gone.txt" in read_sidecars([os.fsencode(tmp_path / "gone.txt")]).warnings[0]


def test_rows_by_any_usual_name():
    assert texts(words_of_row({"Captions": ["one dog", "two cats"], "n": 3}, "metadata")) == [
        "one dog",
        "two cats",
    ]
    assert texts(words_of_row("a dog", "sidecar")) == ["a dog"]
    assert texts(words_of_row({"text": None}, "metadata")) == []
    with pytest.raises(ValueError, match="expected an object"):
        words_of_row(3, "metadata")


def test_merging_prefers_the_first():
    first, second = Words(credit="Ada"), Words(credit="Ben", license="CC0", warnings=("x",))
    assert merge([first, second]) == Words(credit="Ada", license="CC0", warnings=("x",))
