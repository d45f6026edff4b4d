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
from limner.pictures import tables
from limner.pictures.find import FoundFile, source_path, walk
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
        ("quilt-32", "quilt"),
        ("cat", "cat"),
        ("beach 2", "beach"),
        ("Oslo 2019", "Oslo"),
        ("東京", "東京"),
        ("step-4", ""),
        ("Schritt 4", ""),
        ("3a", ""),
        ("12 May 2024", ""),
        ("vineyard 20240512", ""),
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
        ("P1010023", ""),
        ("received_10154321", ""),
        ("", ""),
    ],
)
def test_names(stem, due):
    assert readable_name(stem) == due


@pytest.mark.parametrize(
    ("stem", "due"),
    [
        ("IMG_20190721_140355", "2019-07-21T14:03:55"),
        ("PXL_20190721_140355678", "2019-07-21T14:03:55.678+00:00"),
        ("2019-07-21 14.03.55", "2019-07-21T14:03:55"),
        ("IMG20190721140355", "2019-07-21T14:03:55"),
        ("WP_20190721_14_03_55_Pro", "2019-07-21T14:03:55"),
        ("Screenshot 2019-07-21 at 2.03.55 PM", "2019-07-21T14:03:55"),
        ("Screenshot 2019-07-21 at 12.03.55\u202fAM", "2019-07-21T00:03:55"),
        ("WhatsApp Bild 2019-07-21 um 14.03.55 (1)", "2019-07-21T14:03:55"),
        ("Bildschirmfoto 2019-07-21 um 14.03.55", "2019-07-21T14:03:55"),
        ("Capture d’écran 2019-07-21 a\u0300 14.03.55", "2019-07-21T14:03:55"),
        ("IMG-20190721-WA0003", "2019-07-21"),
        ("2019-07-21 beach", "2019-07-21"),
        ("20191399_140355", None),
        ("1120190721_140355", None),
    ],
)
def test_the_time_in_a_name(stem, due):
    assert words_of_name(f"/a/{stem}.jpg".encode()).taken == (due and datetime.fromisoformat(due))


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


@pytest.mark.parametrize(
    ("title", "due"),
    [
        ("IMG_2031.jpg", []),
        ("VID 0001.MP4", []),
        ("WhatsApp Image 2021-01-01 at 12.00.00.jpeg", []),
        ("Grandma baking bread.HEIC", []),
        ("DSC_0451", []),
        ("Sam 2019", ["Sam 2019"]),
    ],
)
def test_a_photo_export_repeats_the_file_name(title, due):
    assert texts(words_of_row({"title": title, "description": ""}, "sidecar")) == due


@pytest.mark.parametrize(
    ("stamp", "due"),
    [
        ("1563710635", datetime(2019, 7, 21, 12, 3, 55, tzinfo=UTC)),
        ("-86400", datetime(1969, 12, 31, tzinfo=UTC)),
        ("0", None),
    ],
)
def test_the_time_of_a_photo_export(stamp, due):
    assert words_of_row({"photoTakenTime": {"timestamp": stamp}}, "sidecar").taken == due


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


LOCAL, UTC_TIME = datetime(2019, 7, 21, 8, 3, 55), datetime(2019, 7, 20, 23, 3, 55, tzinfo=UTC)
SCANNED = datetime(2019, 7, 21, 20, 0, 0)
EXACT = LOCAL.replace(microsecond=480_000)


@pytest.mark.parametrize(
    ("first", "second", "due"),
    [
        (Words(taken=UTC_TIME), Words(taken=LOCAL), LOCAL),
        (
            Words(taken=datetime(1957, 6, 15, tzinfo=UTC)),
            Words(taken=LOCAL),
            datetime(1957, 6, 15, tzinfo=UTC),
        ),
        (Words(taken=UTC_TIME), Words(taken=datetime(2019, 7, 21)), UTC_TIME),
        (Words(taken=SCANNED, taken_from="digitized"), Words(taken=LOCAL), LOCAL),
        (Words(taken=UTC_TIME), Words(taken=LOCAL, taken_from="digitized"), UTC_TIME),
        (Words(taken=SCANNED, taken_from="digitized"), Words(), SCANNED),
        (Words(taken=datetime(2019, 7, 21)), Words(taken=LOCAL), LOCAL),
        (Words(taken=LOCAL), Words(taken=EXACT, taken_from="camera"), EXACT),
    ],
    ids=["same moment", "corrected", "a day", "digitized", "only digitized", "alone", "its day", "exact"],
)
def test_the_time_of_the_camera_precedes_others(first, second, due):
    assert merge([first, second]).taken == due


XMP = (
    '<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">'
    '<rdf:Description xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:lr="http://ns.adobe.com/lightroom/1.0/"'
    ' xmlns:digiKam="http://www.digikam.org/ns/1.0/" xmlns:photoshop="http://ns.adobe.com/photoshop/1.0/"'
    ' xmlns:xmp="http://ns.adobe.com/xap/1.0/" {about}>{inside}</rdf:Description></rdf:RDF></x:xmpmeta>'
)


def xmp(words="", about="", lists=()):
    """A packet with a description and lists of keywords."""
    told = (
        f'<dc:description><rdf:Alt><rdf:li xml:lang="x-default">{words}</rdf:li></rdf:Alt></dc:description>'
    )
    for name, keywords in lists:
        told += (
            f"<{name}><rdf:Bag>{''.join(f'<rdf:li>{one}</rdf:li>' for one in keywords)}</rdf:Bag></{name}>"
        )
    return XMP.format(about=about, inside=told)


def beside(folder, **files):
    """Words of the picture of each name in a folder, as the walk finds their sidecars."""
    found = {}
    for entry in walk([os.fsencode(folder)]):
        if isinstance(entry, FoundFile):
            name = os.path.basename(os.fsdecode(entry.path))  # noqa: PTH119
            found[name] = read_sidecars(entry.sidecars, entry.path)
    return found


@pytest.mark.parametrize(
    ("picture", "sidecar"),
    [
        ("a.jpg", "a.jpg.xmp"),
        ("a.jpg", "a.xmp"),
        ("IMG_1.JPG", "IMG_1.XMP"),
        ("IMG_1.JPG", "img_1.jpg.Xmp"),
        ("caf\u00e9.jpg", "cafe\u0301.xmp"),
        ("cafe\u0301.jpg", "caf\u00e9.jpg.xmp"),
        ("CAF\u00c9.JPG", "cafe\u0301.xmp"),
    ],
)
def test_a_sidecar_is_found_in_both_ways_of_naming_and_any_case(tmp_path, picture, sidecar):
    (tmp_path / picture).write_bytes(b"x")
    (tmp_path / sidecar).write_text(xmp("a red barn"), "utf-8")
    assert texts(beside(tmp_path)[picture]) == ["a red barn"]


def test_a_sidecar_for_one_suffix_says_nothing_of_the_others(tmp_path):
    for name in ("a.jpg", "a.png"):
        (tmp_path / name).write_bytes(b"x")
    (tmp_path / "a.xmp").write_text(xmp("the drawing", 'photoshop:SidecarForExtension="PNG"'), "utf-8")
    found = beside(tmp_path)
    assert [texts(found[name]) for name in ("a.jpg", "a.png")] == [[], ["the drawing"]]


@pytest.mark.parametrize(
    "lists",
    [
        [("lr:hierarchicalSubject", ["Places|Norway|Bergen"])],
        [("digiKam:TagsList", ["Places/Norway", "Places/Norway/Bergen"])],
        [("dc:subject", ["Places", "Norway"]), ("lr:hierarchicalSubject", ["Norway|Bergen"])],
    ],
)
def test_keywords_in_others_are_each_a_keyword(lists):
    found = sidecars.read_xmp(xmp("", lists=lists).encode())
    assert texts(found, "keywords") == ["Places, Norway, Bergen"]


def test_keywords_in_a_tree_of_elements():
    inside = (
        '<mwg:Hierarchy xmlns:mwg="http://www.metadataworkinggroup.com/schemas/keywords/"><rdf:Bag><rdf:li>'
        "<mwg:Keyword>Places</mwg:Keyword><mwg:Children><rdf:Bag><rdf:li><mwg:Keyword>Norway</mwg:Keyword>"
        "</rdf:li></rdf:Bag></mwg:Children></rdf:li></rdf:Bag></mwg:Hierarchy>"
    )
    packet = XMP.format(about="", inside=inside)
    assert texts(sidecars.read_xmp(packet.encode()), "keywords") == ["Places, Norway"]


def test_a_slash_that_is_no_mark_of_a_hierarchy_stays():
    lists = [("dc:subject", ["rock/pop"]), ("lr:hierarchicalSubject", ["Music|AC/DC"])]
    assert texts(sidecars.read_xmp(xmp("", lists=lists).encode()), "keywords") == ["rock/pop, Music, AC/DC"]


@pytest.mark.parametrize(
    ("picture", "export"),
    [
        ("IMG_3397.jpg", "IMG_3397.jpg.json"),
        ("IMG_3398.jpg", "IMG_3398.jpg.supplemental-metadata.json"),
        ("IMG_3398.jpg", "IMG_3398.jpg.suppl.json"),
        ("IMG_3399(1).jpg", "IMG_3399.jpg(1).json"),
        ("IMG_3399(2).jpg", "IMG_3399.jpg.supplemental-metadata(2).json"),
        ("IMG_3399(3).jpg", "IMG_3399(3).jpg.supplemental-metadata.json"),
        ("PXL_20230101_123456789.PORTRAIT.jpg", "PXL_20230101_123456789.PORTRAIT.jpg.supplement.json"),
        (f"{'long' * 15}.jpg", f"{('long' * 15)[:46]}.json"),
        (f"{'übel' * 15}.jpg", f"{('übel' * 15)[:46]}.json"),
        ("IMG_3400-edited.jpg", "IMG_3400.jpg.supplemental-metadata.json"),
        ("IMG_3400-modifie\u0301.jpg", "IMG_3400.jpg.supplemental-metadata.json"),
    ],
)
def test_the_file_of_an_export_by_google_is_found(tmp_path, picture, export):
    told = {"title": "x.jpg", "description": "at the lake", "photoTakenTime": {"timestamp": "1258375918"}}
    told |= {"people": [{"name": "Ana"}], "geoData": {"latitude": 30.5, "longitude": -104.1, "altitude": 0.0}}
    (tmp_path / picture).write_bytes(b"x")
    (tmp_path / export).write_text(json.dumps(told), "utf-8")
    found = beside(tmp_path)[picture]
    assert [one.text for one in found.captions] == ["at the lake", "Ana"]
    assert found.coordinates == (30.5, -104.1)
    assert found.taken == datetime(2009, 11, 16, 12, 51, 58, tzinfo=UTC)


@pytest.mark.parametrize(
    ("places", "due"),
    [
        (
            {"geoData": {"latitude": 0.0, "longitude": 0.0}, "geoDataExif": {"latitude": 1, "longitude": 2}},
            (1, 2),
        ),
        ({"geoData": {"latitude": 0.0, "longitude": 0.0, "altitude": 5.0}}, None),
        ({"geoData": {"latitude": 91.0, "longitude": 2.0}, "geoDataExif": None}, None),
        ({"geoData": {"latitude": float("nan"), "longitude": 2.0}}, None),
        ({"geoData": {"latitude": "1", "longitude": 2.0}}, None),
    ],
    ids=["from EXIF", "zero", "no place", "no number", "text"],
)
def test_coordinates_of_an_export(places, due):
    assert words_of_row(places, "sidecar").coordinates == due


@pytest.mark.parametrize(
    ("latitude", "longitude", "due"),
    [
        ("48,12.5N", "16,22.5E", (48 + 12.5 / 60, 16.375)),
        ("33,52,7.68S", "151,12,33.48E", (-33.8688, 151.2093)),
        ("40.7128", "-74.006", (40.7128, -74.006)),
        ("48,2083", "16,3731", None),
        ("0,0.0N", "0,0.0E", None),
        ("48,12.5N", "", None),
    ],
    ids=["minutes", "seconds", "decimal", "decimal comma", "zero", "half"],
)
@pytest.mark.parametrize("form", ["attribute", "element"])
def test_coordinates_of_xmp(latitude, longitude, due, form):
    values = {"exif:GPSLatitude": latitude, "exif:GPSLongitude": longitude}
    space = 'xmlns:exif="http://ns.adobe.com/exif/1.0/" '
    if form == "attribute":
        packet = xmp(about=space + " ".join(f'{name}="{value}"' for name, value in values.items()))
    else:
        inside = "".join(f"<{name}>{value}</{name}>" for name, value in values.items())
        packet = XMP.format(about=space, inside=inside)
    found = sidecars.read_xmp(packet.encode()).coordinates
    assert found == (due and pytest.approx(due))


def test_the_file_of_another_number_is_not_ones_own(tmp_path):
    for name in ("a.jpg", "a(1).jpg"):
        (tmp_path / name).write_bytes(b"x")
    (tmp_path / "a.jpg(1).json").write_text('{"description": "the second"}', "utf-8")
    found = beside(tmp_path)
    assert [texts(found[name]) for name in ("a.jpg", "a(1).jpg")] == [[], ["the second"]]


@pytest.mark.parametrize(
    ("written", "due"),
    [
        ("Tom &amp;amp; Ana&amp;#39;s &amp;lt;b&amp;gt;party&amp;lt;/b&amp;gt;", "Tom & Ana's party"),
        ("one&amp;lt;br&amp;gt;two", "one two"),
        ("R&amp;D of a &amp;lt; b", "R&D of a < b"),
        ("the sign &amp;amp;amp; again", "the sign &amp; again"),
    ],
)
def test_what_a_web_program_wrote_is_read_as_meant_and_decoded_once(written, due):
    assert texts(sidecars.read_xmp(xmp(written).encode())) == [due]


@pytest.mark.parametrize(
    ("stated", "due"),
    [
        ('xmp:CreateDate="2019-07-21T14:03:55"', datetime(2019, 7, 21, 14, 3, 55)),
        ('photoshop:DateCreated="1957-06-15" xmp:CreateDate="2019-07-21T14:03:55"', datetime(1957, 6, 15)),
        ('photoshop:DateCreated="1957" xmp:CreateDate="2019-07-21T14:03:55"', None),
        ('photoshop:DateCreated="" xmp:CreateDate="2019-07-21T14:03:55"', datetime(2019, 7, 21, 14, 3, 55)),
        ('photoshop:DateCreated="1957:06:15 00:00:00"', datetime(1957, 6, 15)),
    ],
)
def test_the_day_of_a_scan_is_not_that_of_the_photograph(stated, due):
    assert sidecars.read_xmp(xmp("", stated).encode()).taken == due


def test_a_table_names_a_file_whose_accent_is_written_otherwise(tmp_path):
    picture = tmp_path / "e\u0301te\u0301" / "cafe\u0301.jpg"
    picture.parent.mkdir()
    picture.write_bytes(b"x")
    named = "\u00e9t\u00e9/caf\u00e9.jpg"
    (tmp_path / "metadata.csv").write_text(f"file_name,caption\n{named},a café\n", "utf-8")
    (tmp_path / "list.csv").write_text(f"path,caption\n{named},a café\n", "utf-8")
    for source in (tmp_path, tmp_path / "list.csv", tmp_path / named):
        (found,) = (one for one in walk([source_path(source)]) if isinstance(one, FoundFile))
        assert os.fsdecode(found.path) == str(picture)
        assert texts(found.words) == ["a café"]


def test_thumbnails_of_a_storage_system_are_other_files(tmp_path):
    (tmp_path / "@eaDir" / "a.jpg").mkdir(parents=True)
    (tmp_path / "@eaDir" / "a.jpg" / "SYNOPHOTO_THUMB_XL.jpg").write_bytes(b"x")
    (tmp_path / "a.jpg").write_bytes(b"x")
    kinds = [(type(one).__name__, os.path.basename(one.path)) for one in walk([os.fsencode(tmp_path)])]  # noqa: PTH119
    assert sorted(kinds) == [("FoundFile", b"a.jpg"), ("OtherFile", b"SYNOPHOTO_THUMB_XL.jpg")]


@pytest.mark.parametrize("named", ["all", "all/sub", "all/sub/a.jpg"])
def test_a_table_describes_what_lies_below_it_whichever_part_is_named(tmp_path, named):
    (tmp_path / "all" / "sub").mkdir(parents=True)
    (tmp_path / "all" / "sub" / "a.jpg").write_bytes(b"x")
    (tmp_path / "all" / "metadata.csv").write_text(
        "file_name,caption\nsub/a.jpg,a barn\nb.jpg,gone\n", "utf-8"
    )
    (found,) = (one for one in walk([os.fsencode(tmp_path / named)]) if isinstance(one, FoundFile))
    assert texts(found.words) == ["a barn"]
    keys = {one.words_key for one in walk([os.fsencode(tmp_path / "all")]) if isinstance(one, FoundFile)}
    assert keys == {found.words_key}


def test_a_table_is_read_once_for_many_pictures_of_its_folder(tmp_path, monkeypatch):
    sources = [os.fsencode(tmp_path / f"{number}.jpg") for number in range(5)]
    for number, source in enumerate(sources):
        with open(source, "wb") as file:  # noqa: PTH123
            file.write(b"x" * (number + 1))
    (tmp_path / "metadata.csv").write_text("file_name,caption\n3.jpg,a barn\n", "utf-8")
    read = []
    real = tables.folder_rows
    monkeypatch.setattr(tables, "folder_rows", lambda names: read.extend(names) or real(names))
    found = [texts(one.words) for one in walk(sources) if isinstance(one, FoundFile)]
    assert found == [[], [], [], ["a barn"], []]
    assert read == [os.fsencode(tmp_path / "metadata.csv")]
