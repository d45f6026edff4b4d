"""Builds the scene graphs of a collection of pictures: decode, detect objects, find relations, write.

Threads decode the next pictures while the detector runs.
"""

import json
import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from limner.config import Record
from limner.devices import ahead, cores
from limner.errors import ConfigError, DataError, MissingError, counted
from limner.files import display, write_lines
from limner.pictures.decode import Decoded, FileBytes, PictureError, decode, read_file
from limner.progress import Progress
from limner.records import Problem
from limner.research.scenes.detections import MIN_SCORE, Detections, Detector, keep
from limner.research.scenes.folder import (
    GRAPHS,
    SKIPPED,
    LookedAt,
    Looking,
    SceneFolder,
    SourcePicture,
    Sources,
    listed,
    matched,
)
from limner.research.scenes.graphs import SceneGraph, SceneObject, each_graph, read_graphs, write_graphs
from limner.research.scenes.prior import (
    LabelNames,
    RelationPrior,
    relate,
    save_prior,
)
from limner.research.scenes.visual_genome import PriorReport, count_relations, read_names

Ids = Literal["sha256", "path"]


class ScenesReport(Record):
    """Result of one run of ``limner scenes``.

    Attributes:
        pictures: number of pictures with a graph.
        files: number of their files; with ids by hash, identical files are one picture.
        looked_at: number of pictures that this run processed; the others were already done.
        skipped: files that could not be read.
        objects, relations: numbers in all graphs.
        empty: number of pictures without objects.
        related_by: source of the relations: prior, position, or graphs (imported).
        labels: labels of objects and their numbers, the most frequent first.
        unmatched: label that is not a class of the prior → number of objects.
        unused: names of imported graphs that match no picture.
        seconds: duration of detection.
    """

    pictures: int
    files: int
    looked_at: int = 0
    skipped: tuple[Problem, ...]
    objects: int
    relations: int
    empty: int
    related_by: str
    labels: tuple[tuple[str, int], ...]
    unmatched: dict[str, int] = Field(default_factory=dict)
    unused: tuple[str, ...] = ()
    seconds: float = 0.0


def detect_scenes(
    source: Sources,
    to: Path,
    finder: Detector,
    *,
    prior: RelationPrior | None,
    label_names: Mapping[str, str] | None = None,
    min_score: float = MIN_SCORE,
    must_overlap: bool = True,
    ids: Ids = "sha256",
    again: bool = False,
    batch: int = 16,
    workers: int | None = None,
    progress: Progress | None = None,
) -> tuple[ScenesReport, dict[str, bytes]]:
    """Write the scene graphs of a collection; an interrupted or outdated run continues where it stopped.

    Args:
        source: the pictures.
        to: output folder; created if missing.
        finder: the detector.
        prior: frequency prior; None uses positions.
        label_names: label of the detector → class of the prior.
        min_score: least score of a detection, in [0, 1].
        must_overlap: whether to relate only objects whose boxes overlap.
        ids: ids of pictures in the graphs: "sha256" of the file's bytes, as in libraries and data sets, so
            that identical files share one graph; or "path" below the folder.
        again: whether to discard stored detections and detect again.
        batch: number of pictures per call of the detector.
        workers: number of decoding threads; None for one per core.
        progress: receives the progress.
    Returns:
        A summary; and id of each graph's picture → path of its file, as bytes.
    Raises:
        ConfigError: `batch` or `min_score` is out of range.
        DataError, ConfigError, CheckpointError: see `SceneFolder`.
    """
    if batch < 1:
        raise ConfigError(f"scenes: batch {batch}, expected at least 1")
    if not 0 <= min_score <= 1:
        raise ConfigError(f"scenes: min_score {min_score}, expected a number in [0, 1]")
    reporter = progress or Progress()
    names = LabelNames(prior, label_names or {})
    pictures, problems = source.pictures, list(source.problems)
    looking = Looking(detector=finder.name, fingerprint=finder.fingerprint, min_score=min_score)
    start = time.monotonic()
    with closing(SceneFolder(to, looking, again=again)) as folder:
        new = [entry for entry in pictures if not folder.has(entry.image, entry.size, entry.mtime_ns)]
        reporter.stage("looking", len(new))
        decoded = _decoded(new, finder.side_px, workers or cores(), batch)
        while some := list(islice(decoded, batch)):
            fine = []
            for picture, opened in some:
                if isinstance(opened, PictureError):
                    problems.append(Problem(path=display(picture.path), reason=str(opened)))
                else:
                    fine.append((picture, *opened))
            detections = finder.detect([entry.rgb for _, _, entry in fine])
            for entry, detected in zip(fine, detections, strict=True):
                folder.add(_looked(*entry, keep(detected, min_score)))
            reporter.advance(len(some))
    seconds = time.monotonic() - start
    usable = {
        entry.image: entry.path for entry in pictures if folder.has(entry.image, entry.size, entry.mtime_ns)
    }
    files: dict[str, bytes] = {}

    def graphs() -> Iterator[SceneGraph]:
        for looked in folder.read(list(usable)):
            image = looked.sha256 if ids == "sha256" else looked.image
            if image in files:
                continue
            files[image] = usable[looked.image]
            yield relate(image, names.rename(looked.objects), prior, must_overlap=must_overlap)

    write_graphs(to / GRAPHS, graphs())
    failed = len(pictures) - len(usable)
    report = _report(
        to,
        problems,
        "position" if prior is None else "prior",
        files=len(usable),
        looked_at=len(new) - failed,
        seconds=round(seconds, 1),
        unmatched=dict(names.unmatched.most_common()),
    )
    return report, files


def import_scenes(
    source: Sources, to: Path, graphs: Path, *, ids: Ids = "sha256"
) -> tuple[ScenesReport, dict[str, bytes]]:
    """Import graphs made by another program, and write them with the ids of their pictures.

    Args:
        source: the pictures.
        to: output folder; created if missing.
        graphs: JSON Lines; each graph names its picture by id, file name, or file name without suffix.
        ids: see `detect_scenes`.
    Returns:
        See `detect_scenes`.
    Raises:
        MissingError, DataError: see `read_graphs`; or no graph matches a picture, or two match one.
    """
    pictures, problems = source.pictures, list(source.problems)
    given = read_graphs(graphs)
    known = matched([picture.image for picture in pictures], list(given))
    if not known:
        raise DataError(
            f"{graphs}: none of {counted(len(given), 'graph')} names a picture of {source.name};"
            " 'image' must be the path below that folder, the file name, or the file name without suffix"
        )
    to.mkdir(parents=True, exist_ok=True)
    place = {picture.image: picture.path for picture in pictures}
    files: dict[str, bytes] = {}

    def renamed() -> Iterator[SceneGraph]:
        for name, image in known.items():
            try:
                picture_id = read_file(place[image]).sha256 if ids == "sha256" else image
            except PictureError as error:
                problems.append(Problem(path=display(place[image]), reason=str(error)))
                continue
            if picture_id in files:
                raise DataError(
                    f"{graphs}: two graphs of the picture {image} ({name!r} again); keep one of them"
                )
            files[picture_id] = place[image]
            yield given[name].model_copy(update={"image": picture_id})

    write_graphs(to / GRAPHS, renamed())
    unused = tuple(name for name in given if name not in known)
    return _report(to, problems, "graphs", files=len(files), unused=unused), files


def _decoded(
    pictures: Sequence[SourcePicture], side_px: int, workers: int, batch: int
) -> Iterator[tuple[SourcePicture, tuple[FileBytes, Decoded] | PictureError]]:
    """Yield pictures in order with their bytes and pixels, or an error; the next batch is decoded ahead."""

    def opened(picture: SourcePicture) -> tuple[FileBytes, Decoded] | PictureError:
        try:
            file = read_file(picture.path)
            suffix = os.fsdecode(os.path.splitext(picture.path)[1]).lower()  # noqa: PTH122
            return file, decode(file.data, side_px, suffix)
        except PictureError as error:
            return error

    with closing(ahead(pictures, opened, workers=workers, in_flight=batch + workers)) as results:
        yield from zip(pictures, results, strict=True)


def _looked(picture: SourcePicture, file: FileBytes, decoded: Decoded, found: Detections) -> LookedAt:
    """Convert detections to a record, rounded to five decimals."""
    objects = []
    for box, label, score in zip(found.boxes.tolist(), found.labels, found.scores.tolist(), strict=True):
        left, top, right, bottom = (round(value, 5) for value in box)
        if left < right and top < bottom:
            objects.append(
                SceneObject(label=label, box=(left, top, right, bottom), score=min(1.0, round(score, 5)))
            )
    return LookedAt(
        image=picture.image,
        path=display(picture.path),
        sha256=file.sha256,
        size=picture.size,
        mtime_ns=picture.mtime_ns,
        width_px=decoded.width_px,
        height_px=decoded.height_px,
        objects=tuple(objects),
    )


def _report(
    to: Path,
    problems: Sequence[Problem],
    related_by: str,
    **more: Any,  # noqa: ANN401  (other fields of the report)
) -> ScenesReport:
    """Summarise the written graphs, and write the list of skipped files."""
    labels: Counter[str] = Counter()
    pictures = relations = empty = 0
    for graph in each_graph(to / GRAPHS):
        pictures += 1
        relations += len(graph.relations)
        empty += graph.empty
        labels.update(thing.label for thing in graph.objects)
    (to / SKIPPED).unlink(missing_ok=True)
    if problems:
        lines = (json.dumps(problem.model_dump(), ensure_ascii=False) for problem in problems)
        write_lines(to / SKIPPED, lines)
    return ScenesReport(
        pictures=pictures,
        skipped=tuple(problems),
        objects=labels.total(),
        relations=relations,
        empty=empty,
        related_by=related_by,
        labels=tuple(labels.most_common()),
        **more,
    )


def build_prior(
    files: Sequence[Path],
    to: Path,
    *,
    names: Path | None = None,
    only: Path | None = None,
    progress: Progress | None = None,
) -> PriorReport:
    """Count relations and save the prior.

    Args:
        files: annotated relations.
        to: the .safetensors file to write; an existing one is replaced.
        names: file of the vocabulary; None for the most frequent names.
        only: text file of the ids of the pictures to count, one per line; None for all.
        progress: receives the progress.
    Raises:
        ConfigError: `to` has another suffix.
        MissingError: the folder of `to` does not exist.
        MissingError, DataError: see `count_relations` and `listed`.
    """
    if to.suffix.lower() != ".safetensors":
        raise ConfigError(f"build-prior: {to}: expected a .safetensors file for --to")
    if not to.parent.is_dir():
        raise MissingError(f"build-prior: the folder {to.parent} does not exist; create it")
    reporter = progress or Progress()
    reporter.stage("counting", None)
    prior, report = count_relations(
        files,
        read_names(names) if names is not None else None,
        only=frozenset(listed(only, "picture ids")) - {""} if only is not None else None,
        seen=reporter.advance,
    )
    save_prior(prior, to)
    return report
