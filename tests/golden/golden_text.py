"""What commands wrote, as text that is equal wherever and whenever they ran.

Places, times, versions and identifiers drawn at random become words in angle brackets; numbers keep six
significant digits; pictures, fonts and weights become a digest or a few sums.
"""

import hashlib
import html
import io
import json
import re
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image
from pypdf import PdfReader
from safetensors import safe_open

REPOSITORY = Path(__file__).parents[2]
# Keys of JSON and patterns of text whose values differ from run to run.
DROPPED = {
    "seconds",
    "created",
    "versions",
    "version",
    "commit",
    "machine",
    "made",
    "files_per_s",
    "pictures_per_s",
}
VARYING = (
    (r"\bregistration [0-9a-f]{12}\b", "registration <digest>"),
    (r'"study": "[0-9a-f]{64}"', '"study": "<digest>"'),
    (r"\bcommit (None|[0-9a-f]{40})\b", "commit <commit>"),
    (r"\bSHA-256( of the study)?:? [0-9a-f]{64}", "SHA-256 <digest>"),
    # where a warning of Python comes from
    (r"(?m)^<repository>/\S+\.py:\d+: (\w+Warning: .*)\n  .*$", r"\1"),
    (r"\d+(\.\d+)? s, \d+(\.\d+)? pictures/s", "<time>"),
    (r"\b\d+(\.\d+)? (s|min) left", "<time> left"),
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?", "<date>"),
)


def cleaned(text: str, work: Path) -> str:
    """Text without places, times and digits that nobody can rely on."""
    for place, name in ((work, "<work>"), (REPOSITORY, "<repository>")):
        text = text.replace(str(place), name)
    for pattern, word in VARYING:
        text = re.sub(pattern, word, text)
    text = re.sub(r"data:([\w/+.-]+);base64,([\w+/=]+)", lambda m: f"<{m[1]} {digest(m[2].encode())}>", text)
    text = re.sub(r"(?<![\w.])-?\d+\.\d+(e[+-]?\d+)?(?![\w.])", lambda m: rounded(m[0]), text)
    return "\n".join(line.rstrip() for line in text.splitlines())


def digest(content: bytes) -> str:
    """A short hash."""
    return hashlib.sha256(content).hexdigest()[:16]


def rounded(number: str) -> str:
    """A number as written, with six significant digits where it has more."""
    return number if len(number.strip("-0.").replace(".", "")) <= 6 else f"{float(number):.6g}"


def as_json(content: bytes, work: Path) -> str:
    """One key a line, in the order of the alphabet."""
    return dumped(json.loads(content), work)


def as_json_lines(content: bytes, work: Path) -> str:
    """A line a value."""
    return "\n".join(
        json.dumps(plain(json.loads(line), work), sort_keys=True) for line in content.splitlines()
    )


def dumped(value: object, work: Path) -> str:
    text = json.dumps(plain(value, work), indent=1, sort_keys=True, ensure_ascii=False)
    # lists of numbers and words on one line
    return re.sub(r"\[[^\[\]{}]*\]", lambda m: re.sub(r"\s*\n\s*", " ", m[0]), text)


def plain(value: object, work: Path) -> object:
    if isinstance(value, dict):
        # a registration names its date and its own digest, which depends on it
        dropped = DROPPED | {"sha256"} if "created" in value else DROPPED
        return {cleaned(str(k), work): plain(v, work) for k, v in value.items() if k not in dropped}
    if isinstance(value, list):
        return [plain(one, work) for one in value]
    if isinstance(value, float):
        return float(f"{value:.6g}")
    return cleaned(value, work) if isinstance(value, str) else value


def as_text(content: bytes, work: Path) -> str:
    return cleaned(content.decode("utf-8"), work)


def as_page(content: bytes, work: Path) -> str:
    """HTML, a tag a line, with digests of styles and scripts."""
    text = content.decode("utf-8")
    for tag in ("style", "script"):
        text = re.sub(
            rf"(<{tag}[^>]*>)(.*?)(</{tag}>)",
            lambda m: (
                m[0] if len(m[2]) < 500 else f"{m[1]}<{len(m[2])} characters, {digest(m[2].encode())}>{m[3]}"
            ),
            text,
            flags=re.DOTALL,
        )
    return re.sub(r">\s*<", ">\n<", cleaned(text, work))


def as_picture(content: bytes, work: Path) -> str:
    """Size and mean colours on a grid, which other versions of the same library keep."""
    with Image.open(io.BytesIO(content)) as opened:
        small = np.asarray(opened.convert("RGB").resize((4, 4), Image.Resampling.BOX))
        return f"{opened.format} {opened.size} {small.mean(axis=(0, 1)).round().astype(int).tolist()}"


def as_svg(content: bytes, work: Path) -> str:
    """The words of a drawing, and a digest of its shapes to a tenth of a point."""
    text = re.sub(r"<metadata>.*?</metadata>", "", content.decode("utf-8"), flags=re.DOTALL)
    text = re.sub(r"\b[mpC]?[0-9a-f]{10,11}\b", "<id>", text)
    shapes = re.sub(r"-?\d+\.\d+(e-?\d+)?", lambda m: f"{float(m[0]):.1f}", text)
    words = [html.unescape(word.strip()) for word in re.findall(r"<!--(.*?)-->", text, flags=re.DOTALL)]
    return "\n".join([*words, f"shapes {digest(shapes.encode())}"])


def as_slides(content: bytes, work: Path) -> str:
    """Every part of a PowerPoint file: texts as they are, the rest as digests."""
    lines = []
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        for name in sorted(file.namelist()):
            part = file.read(name)
            if name.endswith((".xml", ".rels")):
                text = cleaned(part.decode("utf-8"), work)
                part = text.encode()
                if re.fullmatch(r"ppt/(slides|notesSlides)/[^/]+", name):
                    lines += [f"  {html.unescape(word)}" for word in re.findall(r"<a:t>([^<]*)", text)]
                    lines += [f"  {word}" for word in re.findall(r'descr="([^"]*)"', text)]
            lines.append(f"{name} {digest(part)}")
    return "\n".join(lines)


def as_pdf(content: bytes, work: Path) -> str:
    """Pages with their texts, links and pictures."""
    lines = []
    reader = PdfReader(io.BytesIO(content))
    for number, page in enumerate(reader.pages, start=1):
        lines += [f"--- page {number} {[round(float(side)) for side in page.mediabox]}"]
        lines += cleaned(page.extract_text(), work).splitlines()
        lines += [f"picture {one.image.size} {digest(one.data)}" for one in page.images if one.image]
    about = {key: str(value) for key, value in (reader.metadata or {}).items() if "Date" not in key}
    return "\n".join([*lines, cleaned(json.dumps(about, sort_keys=True, ensure_ascii=False), work)])


def as_weights(content: bytes, work: Path) -> str:
    """Names, shapes and sums of tensors."""
    lines = []
    place = work / "weights.tmp"
    place.write_bytes(content)
    with safe_open(place, "np") as file:
        for name in sorted(file.keys()):
            values = file.get_tensor(name)
            parts = values.astype(np.float64).ravel()
            sums = [f"{one:.5g}" for one in (np.abs(parts).sum(), parts @ np.cos(np.arange(parts.size)))]
            lines.append(f"{name} {values.dtype} {list(values.shape)} {' '.join(sums)}")
    place.unlink()
    return "\n".join(lines)


READERS: dict[str, Callable[[bytes, Path], str]] = {
    ".json": as_json,
    ".jsonl": as_json_lines,
    ".html": as_page,
    ".pptx": as_slides,
    ".pdf": as_pdf,
    ".svg": as_svg,
    ".safetensors": as_weights,
} | dict.fromkeys((".png", ".jpg", ".webp"), as_picture)


def readable(path: Path, work: Path) -> str:
    """A file of any kind."""
    return READERS.get(path.suffix, as_text)(path.read_bytes(), work)
