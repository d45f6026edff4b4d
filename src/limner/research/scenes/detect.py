"""From a collection of pictures to its scene graphs: decode, detect, relate, write.

Pictures are decoded ahead in threads while the detector works. Choosing a detector and a prior is the
command's business, drawing the page that of `limner.research.paper.scenes`.
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
        pictures: with a graph.
        files: that hold them; files with the same bytes are one picture where hashes name them.
        looked_at: by the detector in this run; the others were known.
        skipped: files that could not be used.
        objects, relations: in all graphs.
        empty: pictures with nothing in them.
        related_by: prior or position, or graphs for graphs that were given.
        labels: labels of objects, the most frequent first.
        unmatched: labels that are no class of the prior, with the number of objects.
        unused: graphs that were given but belong to no picture.
        seconds: seconds of looking.
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
    """Write the scene graphs of a collection; run it again to go on after a stop, or after changes.

    Args:
        source: the pictures.
        to: folder for what is written; created if missing.
        finder: looks at the pictures.
        prior: prior of relations; None uses positions.
        label_names: detector's label → class of the prior.
        min_score: least score of a detection, in [0, 1].
        must_overlap: relate only things whose boxes overlap.
        ids: what graphs call their pictures: the hash of the file's bytes, as libraries and training sets do,
            so that files with the same bytes share one graph; or the path below the folder.
        again: look at all pictures anew.
        batch: pictures that go through the detector together.
        workers: threads that decode; None for one per core.
        progress: shows how far it is.
    Returns:
        what was written, and id of each graph's picture → its file, as the system has it.
    Raises:
        DataError, ConfigError, CheckpointError: see `SceneFolder`.
    """
    if batch < 1:
        raise ConfigError(f"scenes: batch {batch}, expected at least 1")
    if not 0 <= min_score <= 1:
        raise ConfigError(f"scenes: min_score {min_score}, expected a share in [0, 1]")
    shown = progress or Progress()
    names = LabelNames(prior, label_names or {})
    pictures, problems = source.pictures, list(source.problems)
    looking = Looking(detector=finder.name, fingerprint=finder.fingerprint, min_score=min_score)
    start = time.monotonic()
    with closing(SceneFolder(to, looking, again=again)) as folder:
        new = [one for one in pictures if not folder.has(one.image, one.size, one.mtime_ns)]
        shown.stage("looking", len(new))
        decoded = _decoded(new, finder.side_px, workers or cores(), batch)
        while some := list(islice(decoded, batch)):
            fine = []
            for picture, opened in some:
                if isinstance(opened, PictureError):
                    problems.append(Problem(path=display(picture.path), reason=str(opened)))
                else:
                    fine.append((picture, *opened))
            found = finder.detect([one.rgb for _, _, one in fine])
            for one, own in zip(fine, found, strict=True):
                folder.add(_looked(*one, keep(own, min_score)))
            shown.advance(len(some))
    seconds = time.monotonic() - start
    usable = {one.image: one.path for one in pictures if folder.has(one.image, one.size, one.mtime_ns)}
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
    """Write the graphs of another program or person under the ids of the pictures they belong to.

    Args:
        source: the pictures.
        to: folder for what is written; created if missing.
        graphs: JSON lines; each names its picture by id, file name, or file name without suffix.
        ids: as for `detect_scenes`.
    Returns:
        As `detect_scenes`.
    Raises:
        MissingError, DataError: see `read_graphs`; or no graph fits, or two fit one picture.
    """
    pictures, problems = source.pictures, list(source.problems)
    given = read_graphs(graphs)
    known = matched([one.image for one in pictures], list(given))
    if not known:
        raise DataError(
            f"{graphs}: none of {counted(len(given), 'graph')} names a picture of {source.name};"
            " 'image' must be the path below it, the file name, or that without suffix"
        )
    to.mkdir(parents=True, exist_ok=True)
    place = {one.image: one.path for one in pictures}
    files: dict[str, bytes] = {}

    def renamed() -> Iterator[SceneGraph]:
        for name, image in known.items():
            try:
                own = read_file(place[image]).sha256 if ids == "sha256" else image
            except PictureError as error:
                problems.append(Problem(path=display(place[image]), reason=str(error)))
                continue
            if own in files:
                raise DataError(
                    f"{graphs}: two graphs of the picture {image} ({name!r} again); keep one of them"
                )
            files[own] = place[image]
            yield given[name].model_copy(update={"image": own})

    write_graphs(to / GRAPHS, renamed())
    unused = tuple(name for name in given if name not in known)
    return _report(to, problems, "graphs", files=len(files), unused=unused), files


def _decoded(
    pictures: Sequence[SourcePicture], side_px: int, workers: int, batch: int
) -> Iterator[tuple[SourcePicture, tuple[FileBytes, Decoded] | PictureError]]:
    """Pictures with their bytes and pixels, or why not, in order; the next batch is decoded ahead."""

    def opened(picture: SourcePicture) -> tuple[FileBytes, Decoded] | PictureError:
        try:
            file = read_file(picture.path)
            suffix = os.fsdecode(os.path.splitext(picture.path)[1]).lower()  # noqa: PTH122
            return file, decode(file.data, side_px, suffix)
        except PictureError as error:
            return error

    with closing(ahead(pictures, opened, workers=workers, in_flight=batch + workers)) as found:
        yield from zip(pictures, found, strict=True)


def _looked(picture: SourcePicture, file: FileBytes, decoded: Decoded, found: Detections) -> LookedAt:
    """Convert detections to a record, with numbers rounded to a sensible precision."""
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
    """Counts of what was written, and the list of what was skipped beside it."""
    labels: Counter[str] = Counter()
    pictures = relations = empty = 0
    for graph in each_graph(to / GRAPHS):
        pictures += 1
        relations += len(graph.relations)
        empty += graph.empty
        labels.update(thing.label for thing in graph.objects)
    (to / SKIPPED).unlink(missing_ok=True)
    if problems:
        lines = (json.dumps(one.model_dump(), ensure_ascii=False) for one in problems)
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
        to: a .safetensors file; an existing one is replaced.
        names: what to count; None for the most frequent names.
        only: text file of picture ids, one a line; None for all pictures.
        progress: shows how far it is.
    Raises:
        ConfigError: `to` has another suffix.
        MissingError, DataError: see `count_relations` and `listed`.
    """
    if to.suffix.lower() != ".safetensors":
        raise ConfigError(f"build-prior: {to}: name a .safetensors file by --to")
    if not to.parent.is_dir():
        raise MissingError(f"build-prior: the folder {to.parent} does not exist; create it")
    shown = progress or Progress()
    shown.stage("counting", None)
    prior, report = count_relations(
        files,
        read_names(names) if names is not None else None,
        only=frozenset(listed(only, "picture ids")) - {""} if only is not None else None,
        seen=shown.advance,
    )
    save_prior(prior, to)
    return report
