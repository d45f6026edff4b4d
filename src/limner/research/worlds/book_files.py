"""Writes picture books to a folder, in formats that limner reads.

Writes `stories.jsonl`, `metadata.jsonl` (as in a Hugging Face image folder), scene graphs, relations and the
right answers.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal
from xml.sax.saxutils import escape

from PIL import Image, PngImagePlugin

from limner.errors import DataError, unknown
from limner.research.worlds.book import LICENSE, SyntheticStory
from limner.research.worlds.render import draw, scene_graph
from limner.research.worlds.tales import DrawnScene, Setting, caption, compose, tales

Carrier = Literal["none", "metadata", "exif", "xmp", "sidecar"]
CARRIERS = ("none", "metadata", "exif", "xmp", "sidecar")
SUFFIXES = ("png", "jpg")


def xmp_packet(description: str, creator: str, rights: str) -> bytes:
    """An XMP packet with description, creator and rights in Dublin Core."""
    text = f"""<?xpacket begin="\ufeff" id="W5M0MpCehiHzreSzNTczkc9d"?>
<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">
<rdf:Description rdf:about="" xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:description>
<rdf:Alt><rdf:li xml:lang="x-default">{escape(description)}</rdf:li></rdf:Alt></dc:description>
<dc:creator><rdf:Seq><rdf:li>{escape(creator)}</rdf:li></rdf:Seq></dc:creator>
<dc:rights><rdf:Alt><rdf:li xml:lang="x-default">{escape(rights)}</rdf:li></rdf:Alt></dc:rights>
</rdf:Description></rdf:RDF></x:xmpmeta>
<?xpacket end="w"?>"""
    return text.encode("utf-8")


def save(picture: Image.Image, path: Path, words: str, creator: str, carrier: Carrier) -> str:
    """Save a picture and its caption; the same arguments give the same bytes.

    Args:
        picture: RGB picture.
        path: file ending in .png or .jpg.
        words: caption.
        creator: name of the illustrator.
        carrier: where to store the caption: exif or xmp in the file, sidecar in `name.txt`; metadata and none
            store nothing here.
    Returns:
        SHA-256 of the file, 64 hex digits.
    """
    options: dict[str, Any] = {}
    is_png = path.suffix == ".png"
    if carrier == "exif":
        exif = Image.Exif()
        exif[0x010E], exif[0x013B], exif[0x8298] = words, creator, LICENSE
        options["exif"] = exif
    elif carrier == "xmp":
        packet = xmp_packet(words, creator, LICENSE)
        if is_png:
            info = PngImagePlugin.PngInfo()
            info.add_itxt("XML:com.adobe.xmp", packet.decode("utf-8"))
            options["pnginfo"] = info
        else:
            options["xmp"] = packet
    elif carrier == "sidecar":
        path.with_suffix(".txt").write_text(f"{words}\n", encoding="utf-8")
    if is_png:
        picture.save(path, format="PNG", compress_level=6, **options)
    else:
        picture.save(path, format="JPEG", quality=90, subsampling=0, **options)
    return hashlib.sha256(path.read_bytes()).hexdigest()


def write_lines(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Write a JSON Lines file, UTF-8."""
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def cover_scene(story: SyntheticStory) -> DrawnScene:
    """The scene of a story's cover: its two characters wave in the setting of the first page."""
    first = story.pages[0].scene
    setting = Setting(first.place, first.weather, first.time)
    return compose(tales()["friends"], "during", setting, story.cast[0], story.cast[1])


def write(
    folder: Path,
    stories: Sequence[SyntheticStory],
    *,
    size_px: int = 384,
    suffix: Literal["png", "jpg"] = "png",
    captions: Carrier = "metadata",
    distractors: int = 0,
) -> None:
    """Write stories, pictures and ground truth.

    Args:
        folder: created if missing; must not contain a `stories.jsonl`.
        stories: at least one.
        size_px: side of the pictures, pixels.
        suffix: png or jpg.
        captions: where to store captions, see `save`; `metadata` is the column `text` of metadata.jsonl.
        distractors: number of additional pictures per story that belong to no page.
    Raises:
        DataError: the folder has a `stories.jsonl`, there are no stories, or an option is unknown.
    """
    if captions not in CARRIERS:
        raise DataError(f"picture book: {unknown('place for captions', captions, CARRIERS)}")
    if suffix not in SUFFIXES:
        raise DataError(f"picture book: {unknown('picture format', suffix, SUFFIXES)}")
    if not stories:
        raise DataError(f"{folder}: no stories to write, expected at least one")
    if (folder / "stories.jsonl").exists():
        raise DataError(f"{folder}: already contains a stories.jsonl; give an empty folder")
    (folder / "images").mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    graphs: list[dict[str, Any]] = []
    books: list[dict[str, Any]] = []
    answers: dict[str, dict[str, Any]] = {}

    def add(book: SyntheticStory, scene: DrawnScene, name: str, extra: dict[str, Any]) -> tuple[str, str]:
        words, file_name = caption(scene), f"images/{name}.{suffix}"
        digest = save(draw(scene, book.style, size_px), folder / file_name, words, book.illustrator, captions)
        row = {
            "file_name": file_name,
            "text": words if captions == "metadata" else None,
            "sha256": digest,
            "story_id": book.id,
            "split": book.split,
            "credit": book.illustrator,
            "license": LICENSE,
            "place": scene.place,
            "weather": scene.weather,
            "time": scene.time,
            "activity": scene.activity,
            "phase": scene.phase,
        }
        rows.append({key: value for key, value in row.items() if value is not None} | extra)
        graphs.append(scene_graph(scene, book.style, name))
        return file_name, digest

    for book in stories:
        story = book.story
        cover, _ = add(book, cover_scene(book), f"{story.id}-01", {"role": "cover"})
        pages = []
        for i, page in enumerate(book.pages):
            name, digest = add(
                book, page.scene, book.image_id(i), {"role": "page", "page": i, "relations": page.relations}
            )
            pages.append(
                {"text": page.text.text, "image": name, "sha256": digest, "relations": page.relations}
            )
        near = book.distractors(distractors)
        for i, other in enumerate(near):
            add(
                book,
                other.scene,
                f"{story.id}-x{i + 1:02d}",
                {"role": "distractor", "page": other.page, "kind": other.kind},
            )
        books.append(
            {
                "story_id": story.id,
                "title": story.title,
                "license": story.license,
                "author": story.author,
                "illustrator": story.illustrator,
                "split": story.split,
                "cover": cover,
                "pages": pages,
            }
        )
        answers[story.id] = {"split": story.split, "pictures": [page["image"] for page in pages]}
    write_lines(folder / "stories.jsonl", books)
    write_lines(folder / "metadata.jsonl", rows)
    write_lines(folder / "scene_graphs.jsonl", graphs)
    (folder / "answers.json").write_text(
        json.dumps(answers, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )
