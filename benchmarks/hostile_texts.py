"""Texts made to break a reader: each ends in a page or in one line, soon and in little memory.

Makes: docs/reliability.md (hostile texts)

    python benchmarks/hostile_texts.py --texts 300 --seed 0

Draws texts from a seed (nesting, compressed bombs, external entities, damaged documents, long lines, wrong
bytes), reads each in a process of its own and exports it as a page. Prints the worst time and memory of each
kind, the process of a PDF included, and whatever was neither a page nor one line.
"""

import io
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from harness import arguments, memory_mb

Random = random.Random
WORDS = ("fox", "hare", "lake", "stove", "butter", "river", "stone", "cut", "stir", "bake", "the", "a", "and")
DEADLINE_S = 60
TYPES = (
    '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
    '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    '<Default Extension="xml" ContentType="application/xml"/>'
    '<Default Extension="png" ContentType="image/png"/>'
    '<Override PartName="/word/document.xml" ContentType="application/vnd.openxmlformats-officedocument.'
    'wordprocessingml.document.main+xml"/></Types>'
)
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
RELATIONS = (
    '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
    '<Relationship Id="r1" Type="{}/{}" Target="{}" {}/></Relationships>'
)
W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'


def words(rng: Random, count: int) -> str:
    return " ".join(rng.choices(WORDS, k=count))


def paragraphs(rng: Random, count: int) -> str:
    return "\n\n".join(words(rng, rng.randint(3, 30)).capitalize() + "." for _ in range(count))


def size(rng: Random, most: int) -> int:
    """A size from a hundredth of the most to the most; mostly large."""
    return int(most * max(0.01, rng.random() ** 0.5))


def page(content: str) -> tuple[str, bytes]:
    return ".html", f"<html><body>{content}</body></html>".encode("utf-8", "surrogatepass")


def markdown(text: str) -> tuple[str, bytes]:
    return ".md", text.encode("utf-8", "surrogatepass")


def plain(text: str) -> tuple[str, bytes]:
    return ".txt", text.encode("utf-8", "surrogatepass")


def ld(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return f"<script type='application/ld+json'>{text}</script>"


# Plain text, JSON and bytes


def long_line(rng: Random) -> tuple[str, bytes]:
    return plain(
        rng.choice(["a", "a ", "word. ", "é", "1. ", "Step 1: ", "- ", "字"]) * size(rng, 10_000_000)
    )


def many_letters(rng: Random) -> tuple[str, bytes]:
    return plain(paragraphs(rng, 20) + "\n\n" + "abcdefghijklmnopqrstuvwxyz" * size(rng, 1_000_000))


def many_lines(rng: Random) -> tuple[str, bytes]:
    line = rng.choice(
        ["x\n", "x\n\n", "- x\n", "1. x\n", "Step {n}: x\n", "\f", "X:\n- y\n", "{n}. word\n\n"]
    )
    return plain("".join(line.replace("{n}", str(n)) for n in range(size(rng, 400_000))))


def wrong_letters(rng: Random) -> tuple[str, bytes]:
    odd = ["\0", "\ud800", "\udfff", "\u202e", "\u200f", "\ufeff", "\x1b", "\x7f", "\uffff", "\u0300" * 500]
    text = paragraphs(rng, 5)
    for _ in range(rng.randint(1, 50)):
        place = rng.randrange(len(text))
        text = text[:place] + rng.choice(odd) + text[place:]
    return rng.choice([plain, markdown, page])(text)


def any_letters(rng: Random) -> tuple[str, bytes]:
    count = size(rng, 200_000)
    return rng.choice([plain, markdown, page])(
        "".join(map(chr, rng.choices([*range(1, 0xD800), *range(0xE000, 0x11000)], k=count)))
    )


def any_bytes(rng: Random) -> tuple[str, bytes]:
    head = rng.choice(
        [b"", b"\xff\xfe", b"PK\x03\x04", b"%PDF-1.7\n", b"\x89PNG\r\n", b"Rar!", b"{\\rtf1", b"GIF8"]
    )
    return rng.choice([".txt", ".md", ".html", ".json", ".docx", ".pdf"]), head + rng.randbytes(
        size(rng, 2_000_000)
    )


def encoded(rng: Random) -> tuple[str, bytes]:
    names = ["utf-16", "utf-32", "utf-7", "cp1251", "shift_jis", "iso2022_jp", "utf-16-le", "koi8-r"]
    text = paragraphs(rng, 50) + " Жил-был кот. 日本語の文章。"
    declared = rng.choice([*names, "hex", "rot13", "zip", "idna", "x" * 5_000])
    head = f"<meta charset={declared}>".encode()
    return rng.choice([".txt", ".html"]), head + text.encode(rng.choice(names), "replace")


def json_text(rng: Random) -> tuple[str, bytes]:
    count = size(rng, 1_000_000)
    text = rng.choice(
        [
            "[" * count + "]" * count,
            '{"steps":' * count,
            '{"steps": [' + '"a",' * min(count, 300_000) + '"b"]}',
            '{"steps": ["' + "a" * count + '"]}',
            '{"steps": ["\\ud800 half"]}',
            '{"steps": [{"text": "a", "run": [-5, 99999999]}], "blocks": [{"text": "a"}]}',
            '{"steps": [{"text": "a", "run": [0, 1]}], "blocks": [{"text": "a", "marks": [{"start": 9}]}]}',
            '{"steps": [NaN, 1e999, true, null]}',
            '{"steps": ["a"], "title": ' + "9" * min(count, 100_000) + "}",
            '{"steps": [{"text": "a", "image": "/etc/passwd"}, {"text": "b", "image": "../../x\\u0000"}]}',
        ]
    )
    return ".json", text.encode("utf-8")


# Markdown


def nested_markdown(rng: Random) -> tuple[str, bytes]:
    count = size(rng, 500_000)
    sign = rng.choice(
        [">", "> ", "[", "![", "*a ", "_", "**", "`", "(", "<", "<div>", "- ", "~", "$", "{{< ", "[[", "&"]
    )
    return markdown(paragraphs(rng, 3) + "\n\n" + sign * count)


def indented_markdown(rng: Random) -> tuple[str, bytes]:
    mark = rng.choice(["- x", "1. x", "> x", "# x", ":::note", "```", "| a | b |"])
    lines = (" " * (rng.choice([2, 3, 4]) * n) + mark for n in range(size(rng, 2_000)))
    return markdown("\n".join(lines))


def many_marks(rng: Random) -> tuple[str, bytes]:
    count = size(rng, 300_000)
    one = rng.choice(
        ["*a* ", "`a` ", "[a](b) ", "![a](b.jpg) ", "<b>a</b> ", "[a] ", "&amp; ", "a_b_ ", "==a== ", "[^1] "]
    )
    return markdown("[a]: " + "b" * rng.choice([1, 50_000]) + "\n\n" + one * count)


def many_blocks(rng: Random) -> tuple[str, bytes]:
    one = rng.choice(
        [
            "# h\n\n",
            "- a\n",
            "| a |\n|---|\n| b |\n\n",
            "> q\n\n",
            "```\nx\n```\n\n",
            "[^1]: [^1]\n\n",
            "- [ ] a\n",
            "***\n\n",
            "**a**\n\n",
        ]
    )
    return markdown(one * size(rng, 200_000))


def front_matter(rng: Random) -> tuple[str, bytes]:
    levels = rng.randint(5, 40)
    bomb = "a0: &a0 [x, x]\n" + "".join(
        f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}, *a{n - 1}]\n" for n in range(1, levels)
    )
    front = rng.choice(
        [
            bomb,
            "a: " + "[" * 10_000,
            "a: b\n" * 100_000,
            "title: !!python/object/apply:os.system [ls]\n",
            "a: " + "{" * 5_000,
        ]
    )
    return markdown(f"---\n{front}\n---\n\n{paragraphs(rng, 5)}")


# HTML


def nested_page(rng: Random) -> tuple[str, bytes]:
    tag = rng.choice(
        ["div", "b", "ul><li", "table><tr><td", "blockquote", "p", "span", "svg", "section", "select", "a"]
    )
    count = size(rng, 500_000)
    return page(f"<{tag}>" * count + words(rng, 10))


def many_elements(rng: Random) -> tuple[str, bytes]:
    one = rng.choice(
        [
            "<p>x",
            "<br>x",
            "<li>x",
            "<img src=a.jpg>",
            "<td>x",
            "<h2>x</h2>",
            "<!-- x -->",
            "<input>",
            "<div><p>word word word</p></div>",
        ]
    )
    return page(paragraphs(rng, 3) + one * size(rng, 400_000))


def many_attributes(rng: Random) -> tuple[str, bytes]:
    count = size(rng, 200_000)
    return page(
        rng.choice(
            [
                "<p " + " ".join(f"a{n}=1" for n in range(count)) + ">x",
                f"<p class='{'a-' * count}'>x</p>",
                f"<img srcset='{'a.jpg 1x, ' * count}'>x",
                f"<p title='{'> ' * count}'>x</p>",
                f"<p style='{'display:none;' * count}'>x</p><p>y</p>",
            ]
        )
    )


def entities(rng: Random) -> tuple[str, bytes]:
    levels = "".join(f'<!ENTITY e{n} "&e{n - 1};&e{n - 1};&e{n - 1};">' for n in range(1, rng.randint(5, 40)))
    dtd = f'<!DOCTYPE a [<!ENTITY e0 "words"><!ENTITY f SYSTEM "file:///etc/passwd">{levels}]>'
    return ".html", f"{dtd}<p>&f; &e9; &#0; &#xd800; &#99999999; end</p>".encode()


def declared(rng: Random) -> tuple[str, bytes]:
    count = size(rng, 100_000)
    recipe: dict[str, object] = {"@type": "Recipe", "recipeInstructions": ["Mix.", "Bake."]}
    block = rng.choice(
        [
            "[" * count + "]" * count,
            '{"@graph":' * count + "1" + "}" * count,
            {**recipe, "recipeInstructions": ["a"] * count},
            {**recipe, "recipeIngredient": ["a"] * count},
            {**recipe, "recipeInstructions": "a. " * count},
            {**recipe, "recipeInstructions": {"@type": "HowToSection", "itemListElement": {"@type": "x"}}},
            {**recipe, "name": 1, "author": [[[]]], "image": {"url": {"url": 1}}},
            '{"@type": "Recipe", "recipeInstructions": ["a", ' + "\\" * count,
        ]
    )
    return page(ld(block) + f"<p>{words(rng, 30)}</p>")


def unclosed(rng: Random) -> tuple[str, bytes]:
    count = size(rng, 500_000)
    head = rng.choice(
        ["<!--", "<script>", "<style>", "<textarea>", "<![CDATA[", "<title>", "<p title='", "<"]
    )
    return page(f"<p>{words(rng, 10)}</p>{head}" + "x<" * count)


def inside(rng: Random) -> tuple[str, bytes]:
    data = "data:image/png;base64," + rng.choice(["A", "%", "iVBORw0KGgo"]) * size(rng, 3_000_000)
    return rng.choice([page(f"<p>x <img src='{data}'></p>"), markdown(f"x ![]({data})\n\n[a]: {data}\n")])


# Word


def archive(parts: dict[str, bytes | str], *, level: int = 9) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=level) as made:
        for name, content in parts.items():
            made.writestr(name, content)
    return file.getvalue()


def word(body: str, *, head: str = "", **more: bytes | str) -> bytes:
    document = f'<?xml version="1.0"?>{head}<w:document {W}><w:body>{body}</w:body></w:document>'
    relations = RELATIONS.format(OFFICE, "officeDocument", "word/document.xml", "")
    parts: dict[str, bytes | str] = {"[Content_Types].xml": TYPES, "_rels/.rels": relations}
    return archive({**parts, "word/document.xml": document, **more})


def run(text: str) -> str:
    return f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>"


def word_bomb(rng: Random) -> tuple[str, bytes]:
    count = size(rng, 600_000_000)
    document = f'<?xml version="1.0"?><w:document {W}><w:body>{run("x")}<!--'.encode()
    if rng.random() < 0.5:
        return ".docx", word(run("x") * min(count, 3_000_000))
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("[Content_Types].xml", TYPES)
        made.writestr("_rels/.rels", RELATIONS.format(OFFICE, "officeDocument", "word/document.xml", ""))
        with made.open("word/document.xml", "w") as part:
            part.write(document)
            for _ in range(count // 1_000_000):
                part.write(b" " * 1_000_000)
            part.write(b"--></w:body></w:document>")
    return ".docx", file.getvalue()


def word_entities(rng: Random) -> tuple[str, bytes]:
    levels = "".join(f'<!ENTITY e{n} "&e{n - 1};&e{n - 1};&e{n - 1};">' for n in range(1, rng.randint(5, 40)))
    head = f'<!DOCTYPE a [<!ENTITY e0 "x"><!ENTITY f SYSTEM "file:///etc/passwd">{levels}]>'
    return ".docx", word(run(rng.choice(["&f;", "&e4;", "&e9;"])), head=head)


def word_nested(rng: Random) -> tuple[str, bytes]:
    count = size(rng, 20_000)
    open_, close = rng.choice(
        [
            ("<w:tbl><w:tr><w:tc>", "</w:tc></w:tr></w:tbl>"),
            ("<w:sdt><w:sdtContent>", "</w:sdtContent></w:sdt>"),
            ("<w:p><w:r><w:pict>", "</w:pict></w:r></w:p>"),
            ("<w:ins>", "</w:ins>"),
        ]
    )
    return ".docx", word(open_ * count + run("x") + close * count)


def word_damaged(rng: Random) -> tuple[str, bytes]:
    data = bytearray(word("".join(run(words(rng, 20)) for _ in range(200))))
    for _ in range(rng.randint(1, 30)):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return ".docx", bytes(data if rng.random() < 0.7 else data[: rng.randrange(len(data))])


def word_parts(rng: Random) -> tuple[str, bytes]:
    picture = '<w:p><w:r><w:drawing><a:blip xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" '
    picture += f'xmlns:r="{OFFICE}" r:embed="r1"/></w:drawing></w:r></w:p>'
    target, mode = rng.choice(
        [
            ("file:///etc/passwd", 'TargetMode="External"'),
            ("../../../etc/passwd", ""),
            ("media/none.png", ""),
            ("http://127.0.0.1:1/x.png", 'TargetMode="External"'),
            ("media/a.png", ""),
        ]
    )
    more: dict[str, bytes | str] = {
        "word/_rels/document.xml.rels": RELATIONS.format(OFFICE, "image", target, mode),
        "word/media/a.png": zlib.compress(bytes(1000)),
        "../../escape": "x",
    }
    data = word(run("Words.") + picture, **more)
    if rng.random() < 0.3:
        data = archive({"word/document.xml": rng.choice(["", "<w:", "no XML", "\0"]), "_rels/.rels": "<"})
    return ".docx", data


# PDF


def pdf(*objects: bytes, trailer: bytes = b"/Root 1 0 R") -> bytes:
    out, places = b"%PDF-1.7\n", []
    for number, one in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%b\nendobj\n" % (number, one)
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % place for place in places)
    return out + b"trailer\n<</Size %d %b>>\nstartxref\n%d\n%%%%EOF" % (len(objects) + 1, trailer, start)


def stream(data: bytes, head: bytes = b"") -> bytes:
    return b"<<%b/Filter /FlateDecode /Length %d>>\nstream\n%b\nendstream" % (head, len(data), data)


def squeezed(piece: bytes, times: int) -> bytes:
    """Compressed content, made without holding it."""
    made = zlib.compressobj(9)
    return b"".join([*(made.compress(piece) for _ in range(times)), made.flush()])


def one_page(content: bytes, *more: bytes, box: bytes = b"0 0 200 200", resources: bytes = b"") -> bytes:
    font = b"<</Type /Font /Subtype /Type1 /BaseFont /Helvetica>>"
    sheet = (
        b"<</Type /Page /Parent 2 0 R /MediaBox [%b] /Contents 4 0 R /Resources <</Font <</F 5 0 R>> %b>>>>"
    )
    return pdf(
        b"<</Type /Catalog /Pages 2 0 R>>",
        b"<</Type /Pages /Kids [3 0 R] /Count 1>>",
        sheet % (box, resources),
        content,
        font,
        *more,
    )


TEXT = b"BT /F 12 Tf 10 100 Td (Peel the potatoes and boil them.) Tj ET\n"


def pdf_stream(rng: Random) -> tuple[str, bytes]:
    piece = rng.choice(
        [b" " * 1_000_000, b"q " * 500_000, b"[1 2 3] " * 125_000, TEXT * 16_000, b"(" * 1_000_000]
    )
    return ".pdf", one_page(stream(squeezed(piece, size(rng, 300))))


def pdf_pages(rng: Random) -> tuple[str, bytes]:
    count = size(rng, 100_000)
    kids = b" ".join(rng.choice([b"2 0 R", b"3 0 R", b"1 0 R", b"9 0 R"]) for _ in range(min(count, 10_000)))
    pages = b"<</Type /Pages /Kids [%b] /Count %d>>" % (kids, rng.choice([count, -1, 2**31]))
    sheet = b"<</Type /Page /Parent 2 0 R /MediaBox [0 0 200 200]>>"
    return ".pdf", pdf(b"<</Type /Catalog /Pages 2 0 R>>", pages, sheet)


def pdf_form(rng: Random) -> tuple[str, bytes]:
    calls = b"/X Do " * rng.choice([1, 50])
    head = b"/Type /XObject /Subtype /Form /BBox [0 0 9 9] /Resources <</XObject <</X %d 0 R>>>> "
    forms = [stream(zlib.compress(calls), head % (7 + n)) for n in range(rng.choice([1, 6]))]
    forms.append(stream(zlib.compress(TEXT if rng.random() < 0.5 else calls), head % 6))
    return ".pdf", one_page(stream(zlib.compress(TEXT + calls)), *forms, resources=b"/XObject <</X 6 0 R>>")


def pdf_picture(rng: Random) -> tuple[str, bytes]:
    side = size(rng, 60_000)
    head = b"/Type /XObject /Subtype /Image /Width %d /Height %d /ColorSpace /DeviceRGB /BitsPerComponent 8 "
    picture = stream(squeezed(bytes(1_000_000), size(rng, 300)), head % (side, side))
    box = rng.choice([b"0 0 200 200", b"0 0 1e9 1e9", b"0 0 0 0"])
    content = stream(zlib.compress(TEXT + b"/X Do"))
    return ".pdf", one_page(content, picture, box=box, resources=b"/XObject <</X 6 0 R>>")


def pdf_damaged(rng: Random) -> tuple[str, bytes]:
    data = bytearray(one_page(stream(zlib.compress(TEXT * 50)), trailer_noise(rng)))
    for _ in range(rng.randint(1, 40)):
        data[rng.randrange(len(data))] = rng.randrange(256)
    return ".pdf", bytes(data if rng.random() < 0.6 else data[: rng.randrange(9, len(data))])


def trailer_noise(rng: Random) -> bytes:
    depth = size(rng, 100_000)
    return rng.choice([b"[" * depth, b"<</A " * depth, b"(" * depth, b"<</Length 6 0 R>>\nstream\nx"])


KINDS: tuple[Callable[[Random], tuple[str, bytes]], ...] = (
    long_line,
    many_letters,
    many_lines,
    wrong_letters,
    any_letters,
    any_bytes,
    encoded,
    json_text,
    nested_markdown,
    indented_markdown,
    many_marks,
    many_blocks,
    front_matter,
    nested_page,
    many_elements,
    many_attributes,
    entities,
    declared,
    unclosed,
    inside,
    word_bomb,
    word_entities,
    word_nested,
    word_damaged,
    word_parts,
    pdf_stream,
    pdf_pages,
    pdf_form,
    pdf_picture,
    pdf_damaged,
)


def texts(count: int, seed: int, only: str | None = None) -> Iterator[tuple[str, str, bytes]]:
    """Kind with number, extension and content of hostile texts."""
    for number in range(count):
        kind = KINDS[number % len(KINDS)]
        if only in (None, kind.__name__):
            yield (f"{kind.__name__} {number}", *kind(Random(f"{seed} {number}")))


def read_one(file: Path) -> None:
    """Read a text and write its page; print how it ended, and the memory that it took, in MB."""
    from limner.errors import LimnerError
    from limner.export import export
    from limner.records import Board, BoardStep
    from limner.text.read import read

    outcome = "page"
    try:
        story = read(file).story
        steps = (BoardStep(position=n, origin="blank", blank="nothing fits") for n in range(len(story.steps)))
        export(Board(story=story, steps=tuple(steps)), file.with_name("page.html"), overwrite=True)
    except LimnerError as error:
        outcome = "one line" if "\n" not in str(error) and "Traceback" not in str(error) else "several lines"
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(json.dumps([outcome, memory_mb("VmHWM") + peak]))


def measured(file: Path) -> tuple[str, float, float]:
    """How the reading of a file ended, in how many seconds and MB."""
    start = time.monotonic()
    command = [sys.executable, __file__, "--one", str(file)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        out, error = process.communicate(timeout=DEADLINE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return "no end", time.monotonic() - start, 0.0
    seconds = time.monotonic() - start
    try:
        outcome, memory = json.loads(out)
    except ValueError:
        last = error.decode("utf-8", "replace").strip().splitlines()[-1:] or [""]
        return f"exit status {process.returncode}: {last[0][:90]}", seconds, 0.0
    return outcome, seconds, memory


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--texts", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", help="only texts of this kind")
    parser.add_argument("--one", type=Path, help="read one file (used by this script)")
    chosen = parser.parse_args()
    if chosen.one:
        read_one(chosen.one)
        return
    rows: dict[str, list[tuple[str, float, float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, suffix, data in texts(chosen.texts, chosen.seed, chosen.kind):
            file = Path(folder) / f"text{suffix}"
            file.write_bytes(data)
            row = measured(file)
            file.unlink()
            rows.setdefault(name.split()[0], []).append(row)
            if row[0] not in ("page", "one line") or row[1] > 10 or row[2] > 500:
                print(f"{name}{suffix}: {row[0]}, {row[1]:.1f} s, {row[2]:.0f} MB", flush=True)
    print(f"{'kind':20}{'worst s':>8}{'worst MB':>10}  outcomes")
    every = [row for kind in rows.values() for row in kind]
    for kind, found in [*rows.items(), ("all", every)]:
        outcomes = ", ".join(f"{count} {name}" for name, count in Counter(row[0] for row in found).items())
        seconds, memory = max(row[1] for row in found), max(row[2] for row in found)
        print(f"{kind:20}{seconds:8.1f}{memory:10.0f}  {outcomes}")


if __name__ == "__main__":
    main()
