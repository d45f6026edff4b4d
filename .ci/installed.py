"""Shows that an installation by the README's command works: python .ci/installed.py TEXTS (a folder).

In its environment every text of the folder is read, pictures are indexed, a text is illustrated as HTML and
PDF, and the PDF is read. A package that is missing, or any other exception, ends it with status 1.
"""

import os
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

from PIL import Image, ImageDraw

import limner

PICTURES = {"sun": ("skyblue", "yellow"), "moon": ("black", "white"), "ball": ("green", "red")}


def draw(folder: Path) -> None:
    """Draw a few pictures into a folder."""
    folder.mkdir()
    for name, (ground, colour) in PICTURES.items():
        image = Image.new("RGB", (400, 300), ground)
        ImageDraw.Draw(image).ellipse((100, 50, 300, 250), fill=colour)
        image.save(folder / f"{name}.jpg")


def run(folder: Path, *words: object) -> None:
    """Run a command of limner in a folder, which is also its home."""
    command = [sys.executable, "-I", "-m", "limner", *map(str, words), "--debug"]
    home = {"HOME": str(folder), "XDG_DATA_HOME": str(folder / "data")}
    subprocess.run(command, cwd=folder, env={**os.environ, **home}, check=True)


def main(texts: Path) -> str:
    """Do all of it; return what went wrong, or ""."""
    readable = [path for path in sorted(texts.iterdir()) if path.suffix != ".json" and path.is_file()]
    if len(readable) < 10:
        return f"{texts}: has {len(readable)} texts; expected the project's folder of texts"
    for path in readable:
        try:
            limner.read(path)
        except Exception:
            return f"{path}: cannot be read\n{traceback.format_exc()}"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        draw(folder / "pictures")
        run(folder, "index", "pictures", "--library", "library")
        text = next(path.resolve() for path in readable if path.suffix == ".md")
        for out in ("board.html", "board.pdf"):
            run(folder, "illustrate", text, "--library", "library", "-o", out)
        limner.read(folder / "board.pdf")
    return ""


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])) or None)
