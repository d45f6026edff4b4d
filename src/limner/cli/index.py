"""``limner index``: folders and lists of pictures become a library.

It parses options, shows progress and prints the report; `equipment.add_pictures` does the work.
"""

from functools import partial
from pathlib import Path
from typing import Literal

from limner.cli.terminal import Flag, Many, emit_report
from limner.counts import counted
from limner.devices import Precision
from limner.errors import ConfigError, DataError
from limner.progress import IndexProgress


def index(
    *sources: Path,
    library: Path,
    encoder: Many = ("auto",),
    weights: Many = (),
    model: Path | None = None,
    metric: Path | None = None,
    precision: Precision | None = None,
    engine: Literal["torch", "openvino"] = "torch",
    device: str = "auto",
    captions: bool = True,
    sentences: str | None = None,
    follow_links: Flag = False,
    verify: Flag = False,
    workers: int | None = None,
    json: Flag = False,
) -> None:
    """Read folders of pictures into a library; run it again to catch up with changes.

    Only new and changed files are read. A run that was interrupted or killed continues where it stopped.
    The pictures are never written to.

    Example: limner index ~/Pictures --library lib

    Parameters
    ----------
    sources
        Folders of pictures, single pictures, and CSV, JSON lines or Parquet files with a column of paths.
        A captions.jsonl or metadata.jsonl (or .csv) that lies in a folder is read with it.
    library
        Folder of the library; made if absent.
    encoder
        What looks at the pixels (repeatable); 'auto' takes base, which comes with limner, or CLIP where
        it is installed with its weights. See 'limner models list'; the clip encoders (clip:ViT-B-32, …)
        need the extra 'clip'.
    weights
        NAME=FILE, or a folder to look in (repeatable).
    model
        Folder of a trained run that looks at the pictures as well, for 'limner illustrate --model'. A
        run on stored features needs the weights of its backbone.
    metric
        Folder of a trained same-document metric, for 'limner illustrate --metric'.
    precision
        Of the backbone; a trained run keeps to that of its training. Unless given that of the library's
        vectors, else bfloat16; float32 is faster on CPUs that cannot multiply in it (no AVX-512 BF16 or AMX).
    engine
        What runs the backbone; openvino needs the extra 'fast' and is several times faster on a CPU.
    device
        What computes: auto (a CUDA card where there is one), cpu, cuda, cuda:N or mps.
    captions
        Use words that come with pictures: metadata, sidecar files, readable file names.
    sentences
        Folder or name of a sentence-transformers model that reads captions and texts in other languages
        than English, in place of the multilingual encoder that comes with limner; needs the extra
        'sentences'. The library keeps to it.
    follow_links
        Enter linked folders as well; linked files are always read.
    verify
        Compare the content of every file with what was indexed, also of those that look unchanged.
    workers
        Threads that decode; one per core unless given.
    json
        Print the report as JSON.
    """
    if not sources:
        raise ConfigError("index: no folder given; example: limner index ~/Pictures --library lib")
    from limner.api.library import opened_runs
    from limner.storyboard.equipment import add_pictures

    with IndexProgress() as progress:
        report = add_pictures(
            library,
            sources,
            encoders=encoder,
            weights=weights,
            runs=partial(opened_runs, model, metric),
            precision=precision,
            engine=engine,
            device=device,
            captions=captions,
            sentences=sentences,
            follow_links=follow_links,
            verify=verify,
            workers=workers,
            progress=progress,
        )
    emit_report(report, report.lines(), as_json=json)
    if report.interrupted:
        raise KeyboardInterrupt
    if not report.pictures:
        raise DataError(
            f"{library}: holds no picture; {counted(report.found, 'file')} looked like one,"
            " see the reasons above"
        )
