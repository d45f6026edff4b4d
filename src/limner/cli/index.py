"""``limner index``: reads folders and lists of pictures into a library.

Parses options, shows progress and prints the report; `limner.library.Library` does the work.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING

from limner.cli.main import Flag, Many, confirm, emit_report, say
from limner.devices import Engine, Precision
from limner.errors import ConfigError, DataError, LimnerError, counted
from limner.progress import RESUME, IndexProgress

if TYPE_CHECKING:
    from limner.library import Library
    from limner.store.index import IndexReport, MissingFolder


def index(
    *sources: Path,
    library: Path | None = None,
    encoder: Many = ("auto",),
    weights: Many = (),
    model: Path | None = None,
    metric: Path | None = None,
    precision: Precision | None = None,
    engine: Engine = "auto",
    device: str = "auto",
    captions: bool = True,
    sentences: str | None = None,
    follow_links: Flag = False,
    forget: Flag = False,
    workers: int | None = None,
    ocr: bool = True,
    json: Flag = False,
) -> None:
    """Add folders of pictures to a library; run it again to pick up changes.

    Only new and changed files are read. A run that was interrupted or killed continues where it stopped.
    It never changes your pictures.

    Example: limner index ~/Pictures

    Example: limner index ~/Pictures --library lib

    Parameters
    ----------
    sources
        Folders of pictures and single pictures. A captions.jsonl or metadata.jsonl (or .csv) in a folder is
        read too.
    library
        Path of the library; created if missing. Default: $LIMNER_LIBRARY; if unset, the default library, see
        'limner library'.
    encoder
        Image encoder. Repeatable. 'auto' uses base or CLIP, whichever the library already has; if it has
        neither, CLIP if 'limner models get clip' has downloaded it, otherwise base, which comes with limner.
        See 'limner models list'.
    weights
        Weights: NAME=FILE (for clip NAME=FOLDER), or a folder to look in. Repeatable.
    model
        Folder of a trained run whose image encoder is applied too, for 'limner illustrate --model'. A run
        that was trained on stored features needs the weights of its backbone.
    metric
        Folder of a trained same-document metric, for 'limner illustrate --metric'.
    precision
        Precision of the backbone; a trained run keeps its own. Default: that of the
        library's vectors; new libraries use bfloat16 (with torch, float32 on CPUs without AVX-512 BF16 or
        AMX, which are slow in bfloat16).
    engine
        Engine that runs the backbone on a CPU. auto uses openvino, which needs at most half of torch's time;
        a torchvision network runs in it only if there are more than 256 pictures and its vectors agree with
        torch's.
    device
        Device: auto (a CUDA GPU if there is one), cpu, cuda, cuda:N or mps. CLIP always runs on the CPU.
    captions
        Use captions that come with the pictures: metadata, sidecar files, readable file names.
    sentences
        Folder or name of a sentence-transformers model that encodes captions and texts in languages other
        than English, instead of the multilingual encoder that comes with limner; needs the extra
        'sentences'. It is fixed for the library.
    follow_links
        Follow links to folders too; linked files are always read.
    forget
        Treat missing pictures as deleted, even if a whole folder is empty or gone. Otherwise they stay in the
        library, unless you agree when asked in a terminal.
    workers
        Number of decoding threads. Default: one per core.
    ocr
        Read the text in pictures (signs, labels, slides, screenshots), if the extra 'ocr' is installed, and
        use it to match pictures.
    json
        Print the report as JSON.
    """
    if not sources:
        raise ConfigError("index: no folder given; example: limner index ~/Pictures")
    from limner.library import Library

    opened = Library(library, weights=weights, device=device, make=False)
    with _unless_empty(opened):
        with IndexProgress() as progress:
            report = opened.add(
                *sources,
                model=model,
                metric=metric,
                encoders=encoder,
                precision=precision,
                engine=engine,
                captions=captions,
                sentences=sentences,
                follow_links=follow_links,
                forget=forget,
                workers=workers,
                ocr=ocr,
                progress=progress,
            )
        emit_report(report, report.lines(), as_json=json)
        check_report(report, opened.place)
    opened.mark_as_last_used()
    if report.missing:
        _ask_to_forget(report.missing, opened, told=not json)


@contextmanager
def _unless_empty(library: "Library") -> Iterator[None]:
    """Remove the folder of a library that a command created but in which it stored no picture."""
    folder = Path(library.place)
    was_there = "://" in library.place or folder.exists()
    try:
        yield
    except BaseException:
        with suppress(LimnerError):
            if not was_there and not len(library):
                rmtree(folder, ignore_errors=True)
        raise


def _ask_to_forget(missing: "tuple[MissingFolder, ...]", library: "Library", *, told: bool) -> None:
    """Ask in a terminal whether missing pictures are to be forgotten; without a terminal they are kept.

    Args:
        missing: folders with missing pictures.
        library: the library.
        told: whether the message that they are kept has been printed.
    """
    for folder in missing:
        if confirm(f"Forget {counted(folder.missing, 'picture')} of {folder.path}?"):
            say(f"{counted(library.forget(folder.path), 'file')} of {folder.path} forgotten")
        elif not told:
            say(str(folder))


def check_report(report: "IndexReport", library: str) -> None:
    """Raise an error if pictures could not be indexed.

    Raises:
        KeyboardInterrupt: indexing was interrupted.
        DataError: the library holds no picture.
    """
    if report.interrupted:
        raise KeyboardInterrupt(RESUME)
    if not report.pictures and not report.deleted:
        reasons = ", see the reasons above" if report.skipped else ""
        raise DataError(
            f"{library}: holds no picture; {counted(report.found, 'file')} looked like one{reasons}"
        )
