"""``limner index``: folders and lists of pictures become a library.

It parses options, shows progress and prints the report; `limner.retrieval.indexing` does the work.
"""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from limner.apps.equipment import AUTO, multilingual_encoder, picture_encoders
from limner.apps.languages import MORE_LANGUAGES
from limner.apps.terminal import emit, emit_json
from limner.apps.trained import TrainedRun, check_kinds
from limner.data.language import ENGLISH, language_name
from limner.errors import ConfigError, DataError
from limner.retrieval.reports import IndexReport


def index(
    *sources: Path,
    library: Path,
    encoder: Annotated[tuple[str, ...], Parameter(negative="", show_default=False)] = (AUTO,),
    weights: Annotated[tuple[str, ...], Parameter(negative="", show_default=False)] = (),
    model: Path | None = None,
    metric: Path | None = None,
    precision: Literal["bfloat16", "float32"] = "bfloat16",
    engine: Literal["torch", "openvino"] = "torch",
    captions: bool = True,
    sentences: str | None = None,
    follow_links: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    workers: int | None = None,
    json: Annotated[bool, Parameter(negative="", show_default=False)] = False,
) -> None:
    """Read folders of pictures into a library; run it again to catch up with changes.

    Only new and changed files are read. A run that was interrupted or killed goes on where it was.
    The pictures are never written to.

    Example: limner index ~/Pictures --library lib

    Parameters
    ----------
    sources
        Folders of pictures, single pictures, and CSV, JSON lines or Parquet files with a column of paths.
    library
        Folder of the library; made if absent.
    encoder
        What looks at the pixels (repeatable); 'auto' takes base, which comes with limner, or CLIP where
        it is installed with its weights. See 'limner models list'; clip:ViT-B-32 and its like need the
        extra 'clip'.
    weights
        NAME=FILE, or a folder to look in (repeatable).
    model
        Folder of a trained run that looks at the pictures as well, for 'limner illustrate --model'. A
        run on stored features needs the weights of its backbone.
    metric
        Folder of a trained same-document metric, for 'limner illustrate --metric'.
    precision
        Of the backbone.
    engine
        What runs the backbone; openvino needs the extra 'fast' and is several times faster on a CPU.
    captions
        Use words that come with pictures: metadata, sidecar files, readable file names.
    sentences
        Folder or name of a sentence-transformers model that reads captions and texts in other languages
        than English, in place of the multilingual encoder that comes with limner; needs the extra
        'sentences'. The library keeps to it.
    follow_links
        Enter linked folders as well; linked files are always read.
    workers
        Threads that decode; one per core unless given.
    json
        Print the report as JSON.
    """
    from limner.apps.progress import IndexProgress
    from limner.encoders.catalogue import text_encoder
    from limner.retrieval.indexing import index as fill

    if not sources:
        raise ConfigError("index: no folder given; example: limner index ~/Pictures --library lib")
    runs = [TrainedRun.open(folder) for folder in (model, metric) if folder is not None]
    check_kinds(runs, model, metric)
    minilm, foreign = text_encoder(), multilingual_encoder(library, sentences)
    encoders = picture_encoders(
        encoder, weights, precision=precision, engine=engine, sentences=minilm, runs=runs
    )
    with IndexProgress() as progress:
        report = fill(
            sources,
            library,
            image_encoders=encoders,
            text_encoder=minilm,
            multilingual=foreign,
            captions=captions,
            follow_links=follow_links,
            workers=workers,
            progress=progress,
        )
    if json:
        emit_json(report)
    else:
        for line in summary(report):
            emit(line)
    if report.interrupted:
        raise KeyboardInterrupt
    if not report.pictures:
        raise DataError(
            f"{library}: holds no picture; {report.found} files looked like one, see the reasons above"
        )


def summary(report: IndexReport, listed: int = 20) -> list[str]:
    """A report as lines to read.

    Args:
        report: of one run.
        listed: skipped files and warnings named, at most; the JSON form names all.
    """
    lines = [
        f"pictures in the library: {report.pictures:,}",
        f"files: {report.found:,} ({report.new:,} new, {report.changed:,} changed,"
        f" {report.unchanged:,} unchanged, {len(report.skipped):,} skipped), {report.deleted:,} deleted",
        f"{report.exact_duplicates:,} exact duplicates; {report.near_pictures:,} pictures"
        f" in {report.near_groups:,} near-duplicate groups",
        f"{report.other_files:,} other files; {report.seconds:.1f} s, {report.pictures_per_s:.1f} pictures/s",
    ]
    lines += [
        f"{space}: {count:,} pictures lack a vector" for space, count in report.incomplete.items() if count
    ]
    if report.languages and set(report.languages) != {ENGLISH}:
        shares = ", ".join(
            f"{language_name(code)} {share:.0%}" for code, share in report.languages.items() if share >= 0.01
        )
        lines.append(f"languages of the captions: {shares}")
    if report.unread:
        lines.append(
            f"{len(report.unread):,} pictures have captions in languages that no installed encoder reads,"
            f" and are found by their pixels alone; {MORE_LANGUAGES}"
        )
    kinds = (("skipped", report.skipped), ("metadata damaged", report.warnings), ("not read", report.unread))
    for title, problems in kinds:
        lines += [f"{title}: {problem.path}: {problem.reason}" for problem in problems[:listed]]
        if len(problems) > listed:
            lines.append(f"{title}: and {len(problems) - listed:,} more; --json lists all")
    return lines
