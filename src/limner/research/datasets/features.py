"""Feature store: the output of a frozen backbone for each picture of a data set, computed once.

Rows are float16 in one memory-mapped file, so training needs neither the pictures nor much memory.
"""

import hashlib
import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError

from limner.checksums import rows_checksum
from limner.config import Record
from limner.devices import Precision, ahead, usual_precision
from limner.encoders.catalogue import weight_file
from limner.encoders.weight_files import read_state
from limner.errors import (
    CheckpointError,
    DataError,
    MissingError,
    NumericsError,
    ShapeError,
    counted,
)
from limner.files import locked, write_text
from limner.pictures.decode import PictureError, decode, read_file
from limner.research.datasets.pairs import PairSet

if TYPE_CHECKING:
    from PIL.Image import Image

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]
KEY, IDS, ROWS, DONE = "key.json", "ids.json", "rows.f16", "done.json"
SUMS = "rows.checksums"
"""File of 64-bit checksums, one per row."""
Report = Callable[[int, int], None]
BATCH = 32
"""Pictures per forward pass."""
SAVE_EVERY_BATCHES = 8
WORKERS = 2
"""Decoding threads."""


class FeatureKey(Record):
    """Identifies a feature store by data set and encoder.

    Attributes:
        data: name of the data set.
        backbone: architecture, with the layer unless it is the pooled one.
        weights_sha256: SHA-256 of the weight file.
        transform: preprocessing and precision, such as ``"squash 224 bfloat16"``.
    """

    data: str = Field(min_length=1)
    backbone: str = Field(min_length=1)
    weights_sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    transform: str = Field(min_length=1)

    @property
    def folder(self) -> str:
        """Folder name of the store: readable, and unique to the key."""
        readable = "".join(c if c.isalnum() or c in "-+" else "_" for c in f"{self.data}-{self.backbone}")
        return f"{readable}-{hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:12]}"


def precision_of(transform: str) -> Precision | None:
    """Precision in a `FeatureKey.transform` (of the first backbone); None if it is not stated."""
    last = transform.partition(";")[0].rpartition(" ")[2]
    return next((precision for precision in get_args(Precision) if precision == last), None)


class FeatureSource(Record):
    """Encoder of the features that a run was trained on, as stated in its checkpoint.

    Attributes:
        backbone: architecture, with the layer unless it is the pooled one, as in `FeatureKey`.
        weights_sha256: SHA-256 of the weight file.
        transform: preprocessing and precision.
    """

    backbone: str
    weights_sha256: str
    transform: str

    @property
    def architecture(self) -> str:
        """Name of the architecture, without the layer."""
        return self.backbone.removesuffix(f"-{self.layer}")

    @property
    def layer(self) -> str:
        """The layer, by default pooled."""
        last = self.backbone.rpartition("-")[2]
        return last if last in get_args(Layer) else "pooled"

    @property
    def precision(self) -> Precision | None:
        """See `precision_of`."""
        return precision_of(self.transform)


class _Made(Record):
    """Content of the file `KEY`."""

    format: str = "limner-features-1"
    key: FeatureKey
    ids_sha256: str


class _Done(Record):
    """Content of the file `DONE`: number of rows on disk, and the shape of a row."""

    rows: int = Field(ge=0)
    shape: tuple[int, ...] = ()

    @property
    def size_bytes(self) -> int:
        """Size of the rows."""
        return self.rows * 2 * math.prod(self.shape)


class Features:
    """A complete store, opened for reading.

    Attributes:
        key: data set and encoder of the rows.
        ids: (N,) picture of each row.
        stored: (N, …) float16, memory-mapped, read-only and unchecked; `take` verifies checksums.
        sums: (N,) checksums of the rows.
        row_of: picture → row.
    """

    def __init__(
        self,
        key: FeatureKey,
        ids: tuple[str, ...],
        stored: NDArray[np.float16],
        sums: NDArray[np.uint64],
    ) -> None:
        """Wrap rows that are already open; use `open_features` instead."""
        self.key, self.ids, self.stored, self.sums = key, ids, stored, sums
        self._sound = np.zeros(len(ids), dtype=bool)
        self.row_of = {name: row for row, name in enumerate(ids)}

    drawn = None

    @property
    def backbone(self) -> dict[str, str]:
        """Encoder of the features, independent of the data set."""
        return self.key.model_dump(exclude={"data"})

    def places(self, ids: Sequence[str]) -> NDArray[np.int64]:
        """Look up the rows of pictures, (B,).

        Raises:
            DataError: a picture has no row.
        """
        absent = [name for name in ids if name not in self.row_of]
        if absent:
            raise DataError(
                f"{self.key.data}: picture {absent[0]!r} has no features ({len(absent)} of {len(ids)});"
                " extract them for this data set again"
            )
        return np.array([self.row_of[name] for name in ids], dtype=np.int64)

    def take(self, places: NDArray[np.int64]) -> Floats:
        """(B, …) float32 copies of rows, each verified on first use.

        Raises:
            CheckpointError: a row is damaged; the message names its picture.
        """
        wrong = self.damaged(places)
        if wrong:
            raise CheckpointError(
                f"{self.key.folder}: the features of picture {self.ids[wrong[0]]!r} are damaged;"
                " remove that folder, and the next run extracts them again"
            )
        return self.stored[places].astype(np.float32)

    def turned(self, places: NDArray[np.int64], which: NDArray[np.bool_]) -> Floats:
        """(B, …) float32 copies of rows, mirrored if `which` is true and a mirrored row exists."""
        return self.take(places)

    def damaged(self, places: NDArray[np.int64]) -> list[int]:
        """Damaged rows among `places`, in ascending order."""
        new = np.unique(places[~self._sound[places]])
        plain = np.asarray(self.stored)
        wrong = [row for row in new.tolist() if rows_checksum(plain[row]) != self.sums[row]]
        self._sound[new] = True
        self._sound[wrong] = False
        return wrong


class MirroredFeatures(Features):
    """A store joined with a second store of the mirrored pictures, for training."""

    def __init__(self, plain: Features, mirrored: Features) -> None:
        """Join two stores; `mirrored` may have fewer pictures."""
        super().__init__(plain.key, plain.ids, plain.stored, plain.sums)
        self._mirrored = mirrored

    def turned(self, places: NDArray[np.int64], which: NDArray[np.bool_]) -> Floats:
        """See `Features.turned`."""
        rows = self.take(places)
        for row in np.flatnonzero(which):
            other = self._mirrored.row_of.get(self.ids[places[row]])
            if other is not None:
                rows[row] = self._mirrored.take(np.array([other]))[0]
        return rows


def open_features(root: Path | str, key: FeatureKey, ids: Sequence[str] | None = None) -> Features:
    """Open a complete store.

    Args:
        root: folder of all stores.
        key: expected data set and encoder.
        ids: expected pictures, in order; None accepts any.
    Raises:
        MissingError: the store does not exist.
        CheckpointError: the store has another key or other pictures, is incomplete, or is damaged.
    """
    folder = Path(root) / key.folder
    if not (folder / KEY).is_file():
        raise MissingError(f"{folder}: no features of {key.data} by {key.backbone}; extract them first")
    held, shape = read_store(folder, key, ids)
    done = _done(folder)
    if not held:
        return Features(key, held, np.zeros((0,), np.float16), np.zeros(0, np.uint64))
    stored = np.memmap(folder / ROWS, dtype="<f2", mode="r", shape=(done.rows, *shape))
    return Features(key, held, stored, _sums(folder, done.rows))


def read_store(
    folder: Path, key: FeatureKey, ids: Sequence[str] | None
) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """The pictures of a complete store and the shape of a row, from its metadata.

    Raises:
        CheckpointError: see `open_features`.
    """
    held = _checked(folder, key, ids)
    done = _counter(folder)
    if done.rows != len(held):
        raise CheckpointError(f"{folder}: {done.rows} of {len(held)} rows are done; run the extraction again")
    return held, done.shape


def repair(folder: Path) -> int:
    """Remove damaged rows and all rows after them from a store; the next extraction computes them again.

    Returns:
        Number of rows left.
    Raises:
        CheckpointError: other files of the store are damaged.
    """
    busy = CheckpointError(f"{folder}: another process is extracting into it; wait for it")
    with locked(folder / "lock", busy):
        held = opened(folder)
        wrong = held.damaged(np.arange(len(held.stored)))
        if wrong:
            write_text(folder / DONE, _Done(rows=wrong[0], shape=held.stored.shape[1:]).model_dump_json())
        return wrong[0] if wrong else len(held.stored)


def opened(folder: Path) -> Features:
    """Open a store with any key, complete or not.

    Raises:
        CheckpointError: the store is damaged.
    """
    try:
        key = _Made.model_validate_json((folder / KEY).read_bytes()).key
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{folder / KEY}: damaged; remove the folder and extract again") from error
    held, done = _checked(folder, key, None), _done(folder)
    if not done.rows:
        return Features(key, (), np.zeros((0,), np.float16), np.zeros(0, np.uint64))
    stored = np.memmap(folder / ROWS, dtype="<f2", mode="r", shape=(done.rows, *done.shape))
    return Features(key, held[: done.rows], stored, _sums(folder, done.rows))


def _sums(folder: Path, rows: int) -> NDArray[np.uint64]:
    """Checksums of the first `rows` rows.

    Raises:
        CheckpointError: there are too few.
    """
    there = (folder / SUMS).exists()
    sums = np.fromfile(folder / SUMS, "<u8", rows) if there else np.zeros(0, np.uint64)
    if len(sums) != rows:
        raise CheckpointError(
            f"{folder / SUMS}: checksums of {counted(len(sums), 'row')}, expected {rows}; remove the folder"
        )
    return sums


def extract(
    root: Path | str,
    key: FeatureKey,
    pictures: Mapping[str, Path | str],
    *,
    prepare: Callable[["Image"], Bytes],
    forward: Callable[[Bytes], Floats],
    side_px: int | None,
    report: Report = lambda done, total: None,
) -> Features:
    """Compute the missing rows of a store; an interrupted run continues where it stopped.

    Threads read and decode a bounded number of pictures ahead of the forward pass. Rows count only once they
    are on disk, so a crash loses the last few batches.

    Args:
        root: folder of all stores; created if missing.
        key: data set and encoder.
        pictures: id → file; ids should identify the content (SHA-256), so that changed pictures are noticed.
        prepare: upright RGB picture → (H, W, 3) bytes; called in threads.
        forward: (B, H, W, 3) → (B, …) features, finite in float16.
        side_px: shorter side that `prepare` needs; None decodes at full size.
        report: called with rows done and rows in total.
    Raises:
        CheckpointError: the store has another key or other pictures, is damaged, or is in use.
        DataError: a picture cannot be read; the message names it, and finished rows stay.
        NumericsError: a feature is not finite in float16; the message names the picture.
        ShapeError: `forward` returns another number of rows, or rows of another shape than before.
    """

    def read(picture: tuple[str, Path | str]) -> Bytes:
        name, path = picture[0], Path(picture[1])
        try:
            data = read_file(os.fsencode(path.absolute())).data
            return prepare(decode(data, side_px, path.suffix.lower()).rgb)
        except PictureError as error:
            raise DataError(
                f"{key.data}: picture {name!r} ({path}): {error};"
                " leave its pairs out with --set data.missing=drop"
            ) from error

    folder = Path(root) / key.folder
    folder.mkdir(parents=True, exist_ok=True)
    ids = tuple(pictures)
    busy = CheckpointError(f"{folder}: another process is extracting into it; wait for it")
    with locked(folder / "lock", busy):
        if not (folder / KEY).exists():
            write_text(folder / IDS, json.dumps(ids))
            write_text(folder / DONE, _Done(rows=0).model_dump_json())
            write_text(folder / KEY, _Made(key=key, ids_sha256=_hash(ids)).model_dump_json(indent=1))
        _checked(folder, key, ids)
        saved = done = _done(folder)
        left = list(islice(pictures.items(), done.rows, None))
        report(done.rows, len(ids))
        with (
            (folder / ROWS).open("ab") as file,
            (folder / SUMS).open("ab") as sums,
            closing(ahead(left, read, workers=WORKERS, in_flight=2 * BATCH)) as pixels,
        ):
            file.truncate(done.size_bytes)  # remove bytes after the last counted row, left by a crash
            _sums(folder, done.rows)
            sums.truncate(8 * done.rows)
            try:
                for start in range(0, len(left), BATCH):
                    names = [name for name, _ in left[start : start + BATCH]]
                    features = _half(key.data, names, forward(np.stack(list(islice(pixels, len(names))))))
                    if done.rows and features.shape[1:] != done.shape:
                        raise ShapeError(
                            f"{folder}: rows have shape {features.shape[1:]}, those before {done.shape}"
                        )
                    file.write(features.tobytes())
                    sums.write(_sums_of(features))
                    done = _Done(rows=done.rows + len(names), shape=features.shape[1:])
                    if done.rows - saved.rows >= SAVE_EVERY_BATCHES * BATCH:
                        saved = _save(folder, (file, sums), done)
                    report(done.rows, len(ids))
            finally:
                if done.rows > saved.rows:
                    _save(folder, (file, sums), done)
    return open_features(root, key, ids)


def _sums_of(rows: NDArray[np.float16]) -> bytes:
    return np.array([rows_checksum(row) for row in rows], "<u8").tobytes()


def _save(folder: Path, files: Sequence[BinaryIO], done: _Done) -> _Done:
    """Flush the files to disk, then update the counter."""
    for file in files:
        file.flush()
        os.fsync(file.fileno())
    write_text(folder / DONE, done.model_dump_json())
    return done


def _half(data: str, names: Sequence[str], found: Floats) -> NDArray[np.float16]:
    """Convert features to float16, as stored."""
    if found.ndim < 2 or len(found) != len(names):
        raise ShapeError(f"{data}: features have shape {found.shape}, expected ({len(names)}, …)")
    with np.errstate(over="ignore"):  # infinity is checked below
        half = found.astype("<f2")
    finite = np.isfinite(half).reshape(len(half), -1).all(axis=1)
    if not finite.all():
        name = names[int(np.argmin(finite))]
        raise NumericsError(f"{data}: features of picture {name!r} are not finite in half precision")
    return half


def _checked(folder: Path, key: FeatureKey, ids: Sequence[str] | None) -> tuple[str, ...]:
    """The pictures of a store, after checking its key and, if given, the expected pictures."""
    try:
        made = _Made.model_validate_json((folder / KEY).read_bytes())
        held = tuple(str(name) for name in json.loads((folder / IDS).read_bytes()))
    except (OSError, ValueError, TypeError, RecursionError) as error:
        reason = " ".join(str(error).split())[:120]
        raise CheckpointError(f"{folder}: not a feature store ({reason}); remove it") from error
    for name, due in key.model_dump().items():
        if (stored := getattr(made.key, name)) != due:
            raise CheckpointError(
                f"{folder}: features with {name} {stored!r}, expected {due!r}; use another folder"
            )
    if made.ids_sha256 != _hash(held):
        raise CheckpointError(f"{folder}: the list of pictures is damaged; remove the folder")
    if ids is not None and tuple(ids) != held:
        raise CheckpointError(
            f"{folder}: made for {counted(len(held), 'picture')}, not for these {len(ids)};"
            " remove it or use another folder"
        )
    return held


def _counter(folder: Path) -> _Done:
    try:
        return _Done.model_validate_json((folder / DONE).read_bytes())
    except (OSError, ValidationError) as error:
        raise CheckpointError(f"{folder}: the counter of rows is damaged; remove the folder") from error


def _done(folder: Path) -> _Done:
    """The counter, checked against the size of the file of rows."""
    done = _counter(folder)
    size = (folder / ROWS).stat().st_size if (folder / ROWS).exists() else 0
    if size < done.size_bytes:
        raise CheckpointError(
            f"{folder / ROWS}: {size} bytes, expected {done.size_bytes}; it is damaged, remove the folder"
        )
    return done


def _hash(ids: Sequence[str]) -> str:
    return hashlib.sha256(json.dumps(list(ids)).encode()).hexdigest()


Layer = Literal["pooled", "grid", "stages", "blocks", "described"]


def _precision(
    root: Path, key: Callable[[Precision], FeatureKey], device: str, due: Precision | None
) -> Precision:
    """The given precision, else that of an existing store, else the usual one for the device."""
    if due is not None:
        return due
    usual = usual_precision(device)
    there = (
        precision
        for precision in (usual, *get_args(Precision))
        if (root / key(precision).folder / KEY).is_file()
    )
    return next(there, usual)


def picture_features(
    data: PairSet,
    root: Path,
    *,
    backbone: str = "resnet50",
    layer: Layer = "pooled",
    weights: Path | None = None,
    device: str = "cpu",
    precision: Precision | None = None,
    report: Report = lambda done, total: None,
) -> Features:
    """Features of each distinct picture of a data set, one row per `Pair.image_id`.

    If the store is complete, the backbone is not loaded; its weight file must still exist, because its hash
    is part of the key.

    Args:
        data: the set, opened with its pictures.
        root: folder of all feature stores.
        backbone: one of `limner.encoders.catalogue.BACKBONES`.
        layer: "pooled" gives rows (F,); "grid" rows (P, F) of the last feature map, P = 49 for a ResNet;
            "stages" rows (F,) of means and standard deviations of all maps, see `limner.encoders.pixels`. For
            the others see `block_features`.
        weights: weight file or its folder; None looks in the usual places.
        device: torch device that computes.
        precision: precision of the backbone; None for that of an existing store, else `usual_precision`.
        report: called with rows done and rows in total.
    Raises:
        ConfigError: unknown backbone, or it has no grid.
        MissingError: its weights are not available.
        DataError: the set was opened without pictures, or a picture cannot be read.
        CheckpointError: see `extract`.
    """
    from limner.encoders.pixels import PixelEncoder, build, transform_of

    pictures = pictures_of(data)
    file = weight_file(backbone, weights)

    def key_in(chosen: Precision) -> FeatureKey:
        return FeatureKey(
            data=data.name,
            backbone=backbone if layer == "pooled" else f"{backbone}-{layer}",
            weights_sha256=file.sha256,
            transform=transform_of(chosen),
        )

    precision = _precision(root, key_in, device, precision)
    key = key_in(precision)
    try:
        return open_features(root, key, list(pictures))
    except (MissingError, CheckpointError):
        pass  # missing or incomplete: `extract` continues it, and raises for any other fault
    model = build(backbone, read_state(file), str(file.path))
    encoder = PixelEncoder(backbone, model, file.sha256, precision=precision, device=device)
    made = {"pooled": encoder.features, "grid": encoder.grid, "stages": encoder.stages}
    return extract(
        root,
        key,
        pictures,
        prepare=encoder.prepare,
        forward=made[layer],
        side_px=encoder.side_px,
        report=report,
    )


def block_features(
    data: PairSet,
    root: Path,
    *,
    layer: Layer = "blocks",
    mirrored: bool = False,
    device: str = "cpu",
    precision: Precision | None = None,
    report: Report = lambda done, total: None,
) -> Features:
    """Output of the frozen blocks of the encoder `base` for each distinct picture of a data set.

    Later blocks can be trained on these rows without the pictures; see `limner.encoders.base_blocks.rows_of`.

    Args:
        data: the set, opened with its pictures.
        root: folder of all feature stores.
        layer: "blocks" includes the feature maps on which later blocks are trained; "described" has only the
            F features of the published backbone, an eighth of the size; "pooled" only the last 1,280 of them.
        mirrored: whether to store mirrored training pictures too.
        device: torch device that computes.
        precision: see `picture_features`.
        report: called with rows done and rows in total, for each store.
    Raises:
        MissingError: the package of the backbone is not installed.
        DataError: the set was opened without pictures, or a picture cannot be read.
        CheckpointError: see `extract`.
    """
    from limner.encoders.base_blocks import FIRST, PublishedBackbone
    from limner.encoders.base_file import BACKBONE, BACKBONE_SHA256, SIDE_PX

    pictures = pictures_of(data)
    trained = {pair.image_id: pair.image for pair in data.pairs if pair.split == "train"}
    suffix = {"blocks": f"-block{FIRST}", "described": "-described", "pooled": ""}[layer]

    def key_in(chosen_precision: Precision, way: str = "") -> FeatureKey:
        return FeatureKey(
            data=data.name,
            backbone=BACKBONE + suffix,
            weights_sha256=BACKBONE_SHA256,
            transform=f"squash {SIDE_PX} bicubic {way}{chosen_precision}",
        )

    precision = _precision(root, key_in, device, precision)
    pixels = PublishedBackbone(device, precision)
    forward = {"blocks": pixels.rows, "described": pixels.stages, "pooled": pixels.features}[layer]

    def store(way: str, chosen: dict[str, str], step: int) -> Features:
        """Features of `chosen` pictures; `step` is 1, or −1 to mirror them."""
        return extract(
            root,
            key_in(precision, way),
            chosen,
            prepare=lambda image: pixels.prepare(image)[:, ::step],
            forward=forward,
            side_px=SIDE_PX,
            report=report,
        )

    plain = store("", pictures, 1)
    return MirroredFeatures(plain, store("mirrored ", trained, -1)) if mirrored else plain


def pictures_of(data: PairSet) -> dict[str, str]:
    """Id of each picture → its file.

    Raises:
        DataError: the set was opened without pictures.
    """
    unread = [pair for pair in data.pairs if not pair.image_hash]
    if unread:
        raise DataError(
            f"{data.name}: pair {unread[0].id!r} has no picture ({len(unread)} of {len(data.pairs)});"
            " give the folder of the pictures"
        )
    return {pair.image_id: pair.image for pair in data.pairs}
