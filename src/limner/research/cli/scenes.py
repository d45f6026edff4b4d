"""``limner scenes``: the objects in every picture of a collection, and their relations.

This module parses options, finds detector and prior, shows progress and prints;
`limner.research.scenes.detect` detects.
"""

import os
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from limner.cli.main import emit_report, resumable, say
from limner.devices import device_of
from limner.errors import ConfigError, MissingError, counted
from limner.progress import IndexProgress
from limner.records import Problem
from limner.research.scenes.prior import coco_label_names, load_prior, read_label_names

if TYPE_CHECKING:
    from limner.research.scenes.detect import ScenesReport
    from limner.research.scenes.folder import Sources

COCO = "coco"
LISTED = 20


def scenes(
    source: Path,
    *,
    detector: str = "",
    weights: Path | None = None,
    classes: Path | None = None,
    prior: Path | None = None,
    labels: str = "",
    graphs: Path | None = None,
    to: Path = Path("scenes"),
    page: int = 60,
    min_score: float = 0.3,
    overlap_only: bool = True,
    ids: Literal["sha256", "path"] = "sha256",
    again: Annotated[bool, Parameter(negative="")] = False,
    device: str = "auto",
    batch: int = 16,
    workers: int | None = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Write a scene graph for every picture of a folder or library, and a page that shows them.

    Run it again after an interruption or after changes: only new and changed pictures are processed. The
    pictures are never changed.

    Example: limner scenes ~/Pictures --detector yolox_nano.onnx --to scenes

    Example: limner scenes lib --detector yolox_nano.onnx --prior vg.safetensors --labels coco

    Parameters
    ----------
    source
        Folder of pictures, or a library.
    detector
        Detector: a YOLOX or PicoDet file (.onnx), or one of fasterrcnn_resnet50_fpn,
        fasterrcnn_resnet50_fpn_v2, fasterrcnn_mobilenet_v3_large_fpn and
        fasterrcnn_mobilenet_v3_large_320_fpn, which need weights.
    weights
        Weights of a Faster R-CNN: a file, or a folder to look in.
    classes
        File with the names of the detector's classes, one per line. Default: COCO's.
    prior
        Prior of relations, from 'limner data build-prior'. Default: relations come from box positions alone.
    labels
        Class of the prior for each label of the detector: a TOML file of "label" = "class" lines, or 'coco'
        for COCO's labels and Visual Genome's classes.
    graphs
        Use these graphs (JSON Lines) instead of a detector; they name pictures by path, file name, or file
        name without extension.
    to
        Folder for graphs.jsonl and scenes.html; created if missing.
    page
        Number of pictures on the page, sampled evenly; 0 writes no page.
    min_score
        Minimum score of a detection.
    overlap_only
        Relate only objects whose boxes overlap.
    ids
        Picture ids in the graphs: the hash of the file (sha256), as in libraries and 'limner train', so that
        files with the same bytes share a graph; or the path below the folder (path).
    again
        Process all pictures again.
    device
        Device: auto (a CUDA GPU if there is one), cpu, cuda, cuda:N or mps. OpenVINO runs .onnx files on the
        CPU, onnxruntime-gpu on a CUDA GPU.
    batch
        Number of pictures per batch of the detector.
    workers
        Number of decoding threads. Default: one per core.
    json
        Print the report as JSON.
    """
    from limner.research.paper.scenes import write_scene_page as write_page
    from limner.research.scenes.detect import detect_scenes, import_scenes
    from limner.research.scenes.folder import GRAPHS, PAGE, read_classes
    from limner.research.scenes.folder import detector as ready

    if bool(detector) == (graphs is not None):
        raise ConfigError("scenes: give either --detector NAME or --graphs FILE")
    for option, value, least in (("page", page, 0), ("batch", batch, 1), ("workers", workers, 1)):
        if value is not None and value < least:
            raise ConfigError(f"scenes: --{option} {value}, expected at least {least}")
    if labels and prior is None:
        raise ConfigError("scenes: --labels maps to the classes of a prior; pass --prior FILE as well")
    if graphs is not None:
        report, files = import_scenes(sources(source), to, graphs, ids=ids)
        found_by = f"Given by {graphs.name}."
    else:
        known, names, by = None, {}, "the position of the boxes"
        if prior is None:
            say("no --prior: relations come from the positions of the boxes alone")
        else:
            known, by = load_prior(prior), f"the prior {prior.name}"
            if labels:
                names = coco_label_names(known) if labels == COCO else read_label_names(Path(labels))
        finder = ready(
            detector,
            weights=weights,
            classes=read_classes(classes) if classes else None,
            device=device_of(device),
        )
        with resumable(), IndexProgress() as progress:
            report, files = detect_scenes(
                sources(source),
                to,
                finder,
                prior=known,
                label_names=names,
                min_score=min_score,
                must_overlap=overlap_only,
                ids=ids,
                again=again,
                batch=batch,
                workers=workers,
                progress=progress,
            )
        found_by = f"Objects by {finder.name}, relations by {by}."
    if page:
        write_page(to / GRAPHS, files, to / PAGE, page, found_by)
    emit_report(report, _lines(report, to, page), as_json=json)


def sources(source: Path) -> "Sources":
    """The pictures of a folder, or one file of every picture of a library, under the library's ids.

    Raises:
        MissingError: the folder does not exist.
        DataError: no picture in it.
    """
    from limner.files import display
    from limner.library import open_store
    from limner.research.scenes.folder import SourcePicture, Sources, folder_pictures
    from limner.store import Only

    if not source.is_dir():
        raise MissingError(f"{source}: no such folder; name a folder of pictures or a library")
    if not (source / "library.sqlite").is_file():
        return folder_pictures(source)
    library = open_store(source)
    pictures, problems = [], []
    ids = library.passing(Only())
    for image, picture in zip(ids, library.pictures(ids), strict=True):
        path = Path(picture.path)
        try:
            status = path.stat()
        except OSError as error:
            problems.append(Problem(path=display(os.fsencode(path)), reason=error.strerror or str(error)))
            continue
        pictures.append(SourcePicture(image, os.fsencode(path), status.st_size, status.st_mtime_ns))
    return Sources(str(source), tuple(pictures), tuple(problems))


def _lines(report: "ScenesReport", to: Path, page: int) -> list[str]:
    """The report as text, with the first twenty skipped files; the JSON report lists all."""
    from limner.research.scenes.folder import GRAPHS, PAGE, SKIPPED

    speed = f", {report.looked_at / report.seconds:.1f} pictures/s" if report.seconds else ""
    lines = [
        f"{to / GRAPHS}: {counted(report.pictures, 'graph')} of {counted(report.files, 'file')}"
        f" ({report.looked_at:,} processed now{speed}),"
        f" {report.empty:,} empty",
        f"{counted(report.objects, 'object')}, {counted(report.relations, 'relation')} by"
        f" {report.related_by}",
    ]
    if report.labels:
        lines.append(f"most frequent: {_counted(report.labels)}")
    if report.unmatched:
        first = _counted(report.unmatched.items())
        lines.append(
            f"no relations for {counted(sum(report.unmatched.values()), 'object')} of"
            f" {counted(len(report.unmatched), 'label')} without a class in the prior: {first};"
            " map them with --labels"
        )
    if report.unused:
        lines.append(f"{counted(len(report.unused), 'graph')} without a picture, first {report.unused[0]!r}")
    lines += [f"skipped: {problem.path}: {problem.reason}" for problem in report.skipped[:LISTED]]
    if len(report.skipped) > LISTED:
        lines.append(f"skipped: and {len(report.skipped) - LISTED:,} more, all in {to / SKIPPED}")
    return [*lines, f"page: {to / PAGE}"] if page else lines


def _counted(names: Iterable[tuple[str, int]]) -> str:
    """The first ten names with their counts."""
    return ", ".join(f"{name} {count:,}" for name, count in islice(names, 10))
