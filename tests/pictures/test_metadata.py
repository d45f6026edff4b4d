"""Words inside real files: EXIF, IPTC, XMP and PNG text as cameras and editors write them."""

import io
import struct
from datetime import UTC, datetime, timedelta, timezone

import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo
from PIL.TiffImagePlugin import IFDRational

from limner.pictures import metadata
from limner.pictures.decode import decode
from limner.pictures.metadata import embedded, exif_time, read_xmp


def words_of(kind="JPEG", **options):
    stream = io.BytesIO()
    Image.new("RGB", (16, 16), (9, 9, 9)).save(stream, kind, **options)
    return embedded(decode(stream.getvalue()).loaded)


def texts(words, source=None):
    return [caption.text for caption in words.captions if source is None or caption.source == source]


def exif(tags, inner=None):
    block = Image.Exif()
    for tag, value in tags.items():
        block[tag] = value
    for tag, value in (inner or {}).items():
        block.get_ifd(0x8769)[tag] = value
    return block


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF"])
def test_exif_fields(kind):
    block = exif(
        {
            0x010E: "Grandma kneads the dough",
            0x013B: "Ada Ndlovu",
            0x8298: "CC BY 4.0",
            0x9C9B: "Baking day\0".encode("utf-16-le"),
            0x9C9E: "bread;kitchen\0".encode("utf-16-le"),
        },
        {0x9003: "2019:07:21 14:03:55", 0x9011: "+02:00", 0x9286: b"ASCII\0\0\0By the window"},
    )
    # Pillow leaves the inner block out when it writes a TIFF by `exif`.
    inner = {0x8769: dict(block.get_ifd(0x8769))}
    options = {"tiffinfo": dict(block) | inner} if kind == "TIFF" else {"exif": block}
    words = words_of(kind, **options)
    assert texts(words, "exif") == ["Grandma kneads the dough", "Baking day", "By the window"]
    assert texts(words, "keywords") == ["bread, kitchen"]
    assert (words.credit, words.license) == ("Ada Ndlovu", "CC BY 4.0")
    assert words.taken == datetime(2019, 7, 21, 14, 3, 55, tzinfo=timezone(timedelta(hours=2)))
    assert words.warnings == ()


@pytest.mark.parametrize("text", ["Brot über dem Feuer", "庭で遊ぶ、子供たち"], ids=["Latin", "Japanese"])
@pytest.mark.parametrize(
    ("name", "code"),
    [
        (b"UNICODE\0", "utf-16-le"),
        (b"UNICODE\0", "utf-16-be"),
        (b"UNICODE\0", "utf-16"),
        (b"JIS\0\0\0\0\0", "iso2022_jp"),
    ],
    ids=["little", "big", "marked", "JIS"],
)
def test_user_comment_in_every_code(name, code, text):
    if code == "iso2022_jp":
        text = text.replace("ü", "u")
    assert texts(words_of(exif=exif({}, {0x9286: name + text.encode(code)}))) == [text]


def test_the_author_by_windows_is_the_credit():
    assert words_of(exif=exif({0x9C9D: "Łukasz\0".encode("utf-16-le")})).credit == "Łukasz"


@pytest.mark.parametrize(
    ("gps", "due"),
    [
        ({1: "N", 2: (48.0, 12.0, 30.0), 3: "W", 4: (16.0, 22.5, 0.0)}, (48 + 12.5 / 60, -16.375)),
        ({1: "S", 2: (33.8688, 0.0, 0.0), 3: "E", 4: (151.2093, 0.0, 0.0)}, (-33.8688, 151.2093)),
        ({1: "N", 2: (0.0, 0.0, 0.0), 3: "E", 4: (0.0, 0.0, 0.0)}, None),
        ({2: (48.0, 12.0, 30.0), 4: (16.0, 22.5, 0.0)}, None),
        ({1: "N", 2: (IFDRational(48, 0), 0.0, 0.0), 3: "E", 4: (16.0, 0.0, 0.0)}, None),
        ({1: "N", 2: (48.0, 12.0, 30.0)}, None),
    ],
    ids=["minutes", "decimal", "zero", "no hemisphere", "no number", "half"],
)
def test_coordinates_of_exif(gps, due):
    block = Image.Exif()
    block.get_ifd(0x8825).update(gps)
    words = words_of(exif=block)
    assert words.coordinates == (due and pytest.approx(due))
    assert words.warnings == ()


@pytest.mark.parametrize(
    ("encoding", "text", "guessed"),
    [
        ("utf-8", "Crème brûlée", False),
        ("cp1252", "Crème", False),
        ("cp1250", "Tři děti si hrají u moře", False),
        ("shift_jis", "庭で遊ぶ子供たち", False),
        ("cp1251", "рыжая лиса спит на зелёном лугу у старого дома", True),
    ],
)
def test_other_encodings_where_ascii_is_due(encoding, text, guessed):
    words = words_of(exif=exif({0x010E: text.encode(encoding)}))
    assert texts(words) == [text]
    assert len(words.warnings) == guessed


def test_utf8_where_png_has_latin_letters():
    info = PngInfo()
    info.add(b"tEXt", b"Title\0" + "Łódź".encode())
    assert texts(words_of("PNG", pnginfo=info)) == ["Łódź"]


@pytest.mark.parametrize(
    "rubbish",
    [
        "OLYMPUS DIGITAL CAMERA",
        "SONY DSC",
        "SAMSUNG",
        "KONICA MINOLTA DIGITAL CAMERA",
        "DCIM\\100MEDIA",
        "  ",
        "---",
        "hdr",
    ],
)
def test_what_a_camera_writes_is_no_caption(rubbish):
    assert texts(words_of(exif=exif({0x010E: rubbish}))) == []


def test_a_sentence_that_begins_like_rubbish_is_kept():
    assert texts(words_of(exif=exif({0x010E: "Photoshoot of a Sony DSC beside the sea"}))) != []
    assert texts(words_of(exif=exif({0x010E: "Samsung heir leaves the court"}))) != []


@pytest.mark.parametrize(
    "moment", ["0000:00:00 00:00:00", "", "    :  :     :  :  ", "2019:13:40 99:00:00", "soon"]
)
def test_impossible_times_are_none(moment):
    assert exif_time(moment) is None


def test_the_time_of_digitizing_counts_where_there_is_no_other():
    words = words_of(exif=exif({}, {0x9004: "2020:02:03 04:05:06", 0x9012: "+02:00"}))
    assert words.taken == datetime(2020, 2, 3, 4, 5, 6, tzinfo=timezone(timedelta(hours=2)))


def test_the_time_of_a_camera_has_decimals_and_only_its_own_zone():
    inner = {0x9003: "2024:05:12 10:15:02", 0x9291: "48", 0x9010: "+02:00"}
    words = words_of(exif=exif({0x010F: "NIKON CORPORATION", 0x0110: "NIKON D750"}, inner))
    assert (words.taken, words.taken_from) == (datetime(2024, 5, 12, 10, 15, 2, 480_000), "camera")
    assert words.camera == "NIKON D750"


def test_the_time_of_a_change_is_none_of_taking():
    words = words_of(exif=exif({0x0132: "2024:06:01 20:40:00", 0x010F: "Apple", 0x0110: "iPhone 13"}))
    assert (words.taken, words.taken_from, words.camera) == (None, "", "Apple iPhone 13")


@pytest.mark.parametrize(
    "title", ["IMG_0012.JPG", "IMG_0012", "d41d8cd98f00b204", "WhatsApp Image 2021-01-01 at 12.00.00.jpeg"]
)
def test_a_title_that_is_a_file_name_is_no_caption(title):
    assert texts(words_of(exif=exif({0x010E: title}))) == []
    assert title not in texts(read_xmp(XMP.replace(b"Morning batch", title.encode())))


def test_time_without_zone_stays_without():
    assert exif_time("2019:07:21 14:03:55") == datetime(2019, 7, 21, 14, 3, 55)


def iptc_segment(*fields):
    """An APP13 segment as Photoshop writes it."""
    body = b"".join(b"\x1c" + bytes(number) + struct.pack(">H", len(text)) + text for *number, text in fields)
    block = b"8BIM\x04\x04\0\0" + struct.pack(">I", len(body)) + body + b"\0" * (len(body) % 2)
    segment = b"Photoshop 3.0\0" + block
    return b"\xff\xed" + struct.pack(">H", len(segment) + 2) + segment


def with_segment(segment):
    stream = io.BytesIO()
    Image.new("RGB", (16, 16)).save(stream, "JPEG")
    data = stream.getvalue()
    return embedded(decode(data[:2] + segment + data[2:]).loaded)


@pytest.mark.parametrize("code", ["utf-8", "cp1252"])
def test_iptc_fields(code):
    words = with_segment(
        iptc_segment(
            (2, 120, "Ein Bäcker schiebt Brote in den Ofen".encode(code)),
            (2, 25, b"bread"),
            (2, 25, b"oven"),
            (2, 80, b"Ada Ndlovu"),
            (2, 110, b"Daily Loaf"),
            (2, 116, "© Daily Loaf".encode(code)),
            (2, 55, b"20190721"),
            (2, 60, b"140355+0000"),
        )
    )
    assert texts(words, "iptc") == ["Ein Bäcker schiebt Brote in den Ofen"]
    assert texts(words, "keywords") == ["bread, oven"]
    assert (words.credit, words.license) == ("Ada Ndlovu, Daily Loaf", "© Daily Loaf")
    assert words.taken == datetime(2019, 7, 21, 14, 3, 55, tzinfo=UTC)


XMP = """<?xpacket begin="" id="W5M0MpCehiHzreSzNTczkc9d"?>
<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">
<rdf:Description xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:photoshop="http://ns.adobe.com/photoshop/1.0/"
 xmlns:Iptc4xmpCore="http://iptc.org/std/Iptc4xmpCore/1.0/xmlns/" photoshop:Credit="Daily Loaf"
 photoshop:DateCreated="2019-07-21T14:03:55+02:00">
<dc:description><rdf:Alt><rdf:li xml:lang="x-default">A baker at the oven</rdf:li>
<rdf:li xml:lang="de">Ein Bäcker am Ofen</rdf:li></rdf:Alt></dc:description>
<dc:title><rdf:Alt><rdf:li xml:lang="x-default">Morning batch</rdf:li></rdf:Alt></dc:title>
<dc:subject><rdf:Bag><rdf:li>bread</rdf:li><rdf:li>oven</rdf:li></rdf:Bag></dc:subject>
<dc:creator><rdf:Seq><rdf:li>Ada Ndlovu</rdf:li></rdf:Seq></dc:creator>
<dc:rights><rdf:Alt><rdf:li xml:lang="x-default">CC BY 4.0</rdf:li></rdf:Alt></dc:rights>
<Iptc4xmpCore:AltTextAccessibility><rdf:Alt>
<rdf:li xml:lang="x-default">A man holds a peel with loaves</rdf:li>
</rdf:Alt></Iptc4xmpCore:AltTextAccessibility>
</rdf:Description></rdf:RDF></x:xmpmeta><?xpacket end="w"?>""".encode()


def check_xmp(words):
    assert texts(words, "xmp") == ["A man holds a peel with loaves", "A baker at the oven", "Morning batch"]
    assert texts(words, "keywords") == ["bread, oven"]
    assert (words.credit, words.license) == ("Ada Ndlovu, Daily Loaf", "CC BY 4.0")
    assert words.taken == datetime(2019, 7, 21, 14, 3, 55, tzinfo=timezone(timedelta(hours=2)))


def test_xmp_packet():
    check_xmp(read_xmp(XMP))


def test_xmp_packet_in_utf16():
    check_xmp(read_xmp(XMP.decode().encode("utf-16")))


@pytest.mark.parametrize(
    "region",
    [
        '<rdf:Description mwg-rs:Type="Face" mwg-rs:Name="Rosa"/>',
        '<rdf:Description rdf:parseType="Resource"><mwg-rs:Name>Rosa</mwg-rs:Name></rdf:Description>',
    ],
    ids=["attribute", "element"],
)
def test_who_is_shown_is_a_keyword(region):
    packet = f"""<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"
        xmlns:mwg-rs="http://www.metadataworkinggroup.com/schemas/regions/"><rdf:Description>
        <mwg-rs:Regions rdf:parseType="Resource"><mwg-rs:RegionList><rdf:Bag><rdf:li>{region}</rdf:li>
        </rdf:Bag></mwg-rs:RegionList></mwg-rs:Regions></rdf:Description></rdf:RDF>"""
    assert texts(read_xmp(packet.encode()), "keywords") == ["Rosa"]


@pytest.mark.parametrize(
    ("languages", "due"),
    [
        ({"x-default": "bread", "de": "Brot"}, ["bread"]),
        ({"x-default": " ", "de": "Brot"}, ["Brot"]),
        ({"de": "Brot", "fr": "pain"}, ["Brot", "pain"]),
    ],
    ids=["default", "default empty", "no default"],
)
def test_languages_of_an_xmp_text(languages, due):
    items = "".join(f'<rdf:li xml:lang="{code}">{text}</rdf:li>' for code, text in languages.items())
    start = XMP.index(b"<rdf:li"), XMP.index(b"</rdf:Alt></dc:description>")
    assert texts(read_xmp(XMP[: start[0]] + items.encode() + XMP[start[1] :]), "xmp")[1:-1] == due


def test_xmp_in_jpeg():
    segment = b"http://ns.adobe.com/xap/1.0/\0" + XMP
    check_xmp(with_segment(b"\xff\xe1" + struct.pack(">H", len(segment) + 2) + segment))


def test_xmp_in_webp():
    check_xmp(words_of("WEBP", xmp=XMP))


def test_xmp_in_png():
    info = PngInfo()
    info.add_itxt("XML:com.adobe.xmp", XMP.decode())
    check_xmp(words_of("PNG", pnginfo=info))


def test_xmp_in_tiff():
    check_xmp(words_of("TIFF", tiffinfo={700: XMP}))


def test_vast_xmp_is_not_read(monkeypatch):
    monkeypatch.setattr(metadata, "MAX_METADATA_BYTES", len(XMP) - 1)
    words = words_of("WEBP", xmp=XMP, exif=exif({0x010E: "A baker"}))
    assert texts(words) == ["A baker"]
    assert "are read" in words.warnings[0]


def test_xmp_with_entities_is_refused():
    bomb = b'<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><x>&b;</x>'
    words = words_of("WEBP", xmp=bomb)
    assert words.captions == ()
    assert "XMP" in words.warnings[0]


@pytest.mark.parametrize("packet", [b"<broken", b"\xff\xfe\0garbage", b"<a/>"])
def test_damaged_xmp_is_a_warning_and_leaves_exif(packet):
    words = words_of("WEBP", xmp=packet, exif=exif({0x010E: "A baker"}))
    assert texts(words) == ["A baker"]
    assert len(words.warnings) == (0 if packet == b"<a/>" else 1)


def test_png_text():
    info = PngInfo()
    info.add_text("Description", "Two goats on a roof")
    info.add_text("Author", "Ada Ndlovu")
    info.add_text("Copyright", "CC0")
    info.add_text("Software", "drawn by hand")
    words = words_of("PNG", pnginfo=info)
    assert texts(words) == ["Two goats on a roof"]
    assert (words.credit, words.license) == ("Ada Ndlovu", "CC0")


def test_one_wording_counts_once():
    words = words_of("WEBP", xmp=XMP, exif=exif({0x010E: "a baker at the oven."}))
    assert [text.lower().rstrip(".") for text in texts(words)].count("a baker at the oven") == 1


@pytest.mark.parametrize(
    ("escape", "encoding", "text"),
    [
        (b"\x1b-B", "iso8859-2", "Žlutý kůň na louce"),
        (b"\x1b.B", "iso8859-2", "Gdańsk, łódź"),
        (b"\x1b-L", "iso8859-5", "Рыжая лиса"),
        (b"\x1b-F", "iso8859-7", "κόκκινη αλεπού"),
        (b"\x1b(B\x1b-B", "iso8859-2", "Gdańsk, łódź"),
        (b"\x1b$B", "iso2022_jp", "庭で遊ぶ子供"),
        (b"\x1b%G", "utf-8", "Žlutý kůň"),
        (None, "utf-8", "Žlutý kůň"),
        (None, "shift_jis", "庭で遊ぶ子供たち"),
    ],
)
def test_a_declared_character_set_of_iptc_is_used(escape, encoding, text):
    fields = [(1, 90, escape)] if escape else []
    words = with_segment(iptc_segment(*fields, (2, 120, text.encode(encoding))))
    assert texts(words, "iptc") == [text]
    assert words.warnings == ()


def test_iptc_in_an_encoding_that_is_guessed_is_noted():
    text = "рыжая лиса спит на зелёном лугу у старого дома"
    words = with_segment(iptc_segment((2, 120, text.encode("cp1251"))))
    assert texts(words, "iptc") == [text]
    (line,) = words.warnings
    assert "read as cp1251" in line
