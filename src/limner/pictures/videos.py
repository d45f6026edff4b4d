"""Frames of videos as pictures: extracted once into a folder of the library, and then read like any other.

The extra ``video`` installs FFmpeg. Only key frames are decoded, within limits. No file except the video is
opened, even if the video refers to others, and the video is only read.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path, PurePath
from typing import Any, BinaryIO

import numpy as np
from PIL.Image import Image
from pydantic import ValidationError

from limner.checksums import seal, unseal
from limner.config import Record
from limner.errors import DataError, MissingError, installed
from limner.files import display, write_text
from limner.pictures.decode import MAX_DECODED_PIXELS, PictureError, opened, stamp_of
from limner.pictures.find import FoundFile, VideoFile
from limner.pictures.metadata import Words, captions, clean, exif_time, merge, read_sidecars, words_of_name

RULE = 1
"""Version of the rule that chooses frames; if it changes, all frames are extracted again."""
FRAMES, ABOUT = "frames", "video.json"
MAX_FRAMES = 100
"""Maximum number of frames of a video."""
GAP_S = 2.0
"""Minimum number of seconds between two frames; in a video too long for `MAX_FRAMES` of them, its length
divided by that.
"""
LOOKS_PER_GAP = 4
CHANGE = 20.0
"""Mean difference of two frames, of 255, from which they show different scenes."""
BLANK = 6.0
"""Standard deviation, of 255, below which a frame is blank: black, white, or one colour."""
MAX_VIDEO_BYTES, MAX_VIDEO_S = 2**35, 6 * 3600
MAX_SIDE_PX = 3840
_SMALL_PX = 32
_CONTAINERS = "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,asf,flv,mpeg,mpegts,mpegvideo,ogg"
"""Formats that FFmpeg may detect: none that refers to other files or URLs."""


class DrawnFrames(Record):
    """Metadata stored next to the frames of a video.

    Attributes:
        video: path of the video, for display.
        size, mtime_ns: of the file when it was read.
        stamp: see `stamp_of`; "" in older files.
        rule: see `RULE`.
        times_s: times of the frames, in order.
        title, description, credit, license: as the file states them, or "".
        taken: recording time of the start of the video.
        fault: error in a part of it, or "".
    """

    video: str
    size: int
    mtime_ns: int
    stamp: str = ""
    rule: int = RULE
    times_s: tuple[float, ...]
    title: str = ""
    description: str = ""
    credit: str = ""
    license: str = ""
    taken: datetime | None = None
    fault: str = ""


def frames(video: VideoFile, library: Path, stopped: Callable[[], bool]) -> tuple[FoundFile, ...]:
    """The frames of a video as picture files, extracted unless they have been before.

    The first key frame and those after a change of scene are used, at least two seconds apart and at most a
    hundred, spread over the stated length; blank ones are skipped.

    Args:
        video: the video as found by the walk.
        library: absolute path of the library's folder.
        stopped: function called between frames; True ends the work, which leaves nothing behind.
    Returns:
        The frames, whose `source` is the path of the video; None if it was stopped.
    Raises:
        PictureError: the extra is not installed, or the file is damaged, unknown or larger than the limits.
    """
    folder = library / FRAMES / _folder_name(video.path)
    drawn = _known(folder, video) or _draw(video, folder, stopped)
    if drawn is None:
        return ()
    inside = Words(
        captions=captions((drawn.title, drawn.description), "metadata"),
        credit=drawn.credit,
        license=drawn.license,
        taken=drawn.taken,
        taken_from="stated",
        warnings=(f"{drawn.video}: {drawn.fault}",) if drawn.fault else (),
    )
    said = merge((video.words, read_sidecars(video.sidecars, video.path), inside, words_of_name(video.path)))
    return tuple(
        _frame(video, folder / frame_name(time_s), time_s, said if place == 0 else replace(said, warnings=()))
        for place, time_s in enumerate(drawn.times_s)
    )


def frame_name(time_s: float) -> str:
    """File name of the frame at a time."""
    return f"{time_s:08.1f}s.jpg"


def discard(frame: bytes, library: Path) -> None:
    """Remove a frame that its library no longer contains; any other file is left alone.

    Args:
        frame: path of the file.
        library: absolute path of the library's folder.
    """
    path = Path(os.fsdecode(frame))
    if path.parent.parent != library / FRAMES:
        return
    path.unlink(missing_ok=True)
    if not any(path.parent.glob("*.jpg")):
        shutil.rmtree(path.parent, ignore_errors=True)


def _folder_name(video: bytes) -> str:
    """Readable folder name for a video, with digits that distinguish it from others of the same name."""
    stem = re.sub(r"[^\w-]+", "-", PurePath(os.fsdecode(video)).stem.encode("utf-8", "ignore").decode())
    return f"{stem[:40].strip('-') or 'video'}-{hashlib.blake2b(video, digest_size=8).hexdigest()}"


def _frame(video: VideoFile, path: Path, time_s: float, said: Words) -> FoundFile:
    """One frame, with the words about its video and its time."""
    status = path.stat()
    origin = f"{display(os.path.basename(video.path))} at {time_s:.1f} s"  # noqa: PTH119  (bytes)
    taken = said.taken
    with suppress(OverflowError):  # a clock set to the last day of the calendar
        taken = taken and taken + timedelta(seconds=time_s)
    words = replace(said, credit=f"{said.credit}, {origin}" if said.credit else origin, taken=taken)
    file = os.fsencode(path)
    return FoundFile(
        file,
        status.st_size,
        status.st_mtime_ns,
        video.path,
        words=words,
        words_key=video.words_key,
        stamp=stamp_of(status),
    )


def _known(folder: Path, video: VideoFile) -> DrawnFrames | None:
    """Frames extracted earlier, if the video has not changed and all of them exist."""
    try:
        drawn = DrawnFrames.model_validate_json(unseal((folder / ABOUT).read_bytes(), folder / ABOUT, ""))
    except (OSError, DataError, ValidationError):
        return None
    same = (drawn.size, drawn.mtime_ns, drawn.rule) == (video.size, video.mtime_ns, RULE)
    same = same and drawn.stamp in ("", video.stamp)
    return drawn if same and all((folder / frame_name(one)).is_file() for one in drawn.times_s) else None


def _draw(video: VideoFile, folder: Path, stopped: Callable[[], bool]) -> DrawnFrames | None:
    """Extract the frames of a video into a folder atomically; None if it was stopped."""
    draft = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(draft, ignore_errors=True)
    try:
        with opened(video.path) as (stream, status):
            if status.st_size > MAX_VIDEO_BYTES:
                raise PictureError(
                    f"the video has {status.st_size} bytes; at most {MAX_VIDEO_BYTES} are read"
                )
            reading = _Reading(stream, video.path)
            times_s = []
            draft.mkdir(parents=True)
            for time_s, image in reading.scenes():
                if stopped():
                    return None
                if image is not None:
                    image.save(draft / frame_name(time_s), "JPEG", quality=90)
                    times_s.append(time_s)
        if not times_s:
            raise PictureError(reading.fault or "the video has no frame that is not blank")
        drawn = DrawnFrames(
            video=display(video.path),
            size=status.st_size,
            mtime_ns=status.st_mtime_ns,
            stamp=stamp_of(status),
            times_s=tuple(times_s),
            fault=reading.fault,
            **reading.stated,
        )
        write_text(draft / ABOUT, seal(drawn.model_dump_json(indent=1)))
        shutil.rmtree(folder, ignore_errors=True)
        draft.rename(folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return drawn


class _Reading:
    """A video that is being read.

    Attributes:
        stated: metadata of the file, as fields of `DrawnFrames`.
        fault: error so far, or "".
    """

    def __init__(self, stream: BinaryIO, path: bytes) -> None:
        suffix = os.path.splitext(path)[1].lower().decode("ascii", "replace")  # noqa: PTH122  (bytes)
        try:
            with installed(f"frames of videos ({suffix}) need av, which", "'limner[video]'"):
                import av
        except MissingError as error:
            raise PictureError(str(error)) from error
        self.stated: dict[str, Any] = {}
        self.fault = ""
        self._due_s = 0.0  # time before which frames are skipped
        self._open: Callable[[], Any] = lambda: av.open(
            stream,
            container_options={"format_whitelist": _CONTAINERS},
            io_open=_refuse,
            metadata_errors="replace",
        )
        self._broken = (av.FFmpegError, ValueError, OverflowError)

    def scenes(self) -> Iterator[tuple[float, Image | None]]:
        """Yield the time of every decoded frame, with the upright frame if it is used.

        Raises:
            PictureError: the file is not a video, or exceeds the limits.
        """
        try:
            with self._open() as container:
                yield from self._scenes(container)
        except PictureError:
            raise
        except MemoryError as error:
            raise PictureError("not enough memory to decode the video", lasting=False) from error
        # PyAV raises almost any error for a damaged header; the frames so far are good.
        except Exception as error:
            self._note(error)

    def _scenes(self, container: Any) -> Iterator[tuple[float, Image | None]]:  # noqa: ANN401  (av is untyped)
        stream = container.streams.best("video")
        if stream is None:
            raise PictureError("the file contains no video, or one in an unknown codec")
        width, height = stream.codec_context.width, stream.codec_context.height
        if width * height > MAX_DECODED_PIXELS:
            raise PictureError(f"{width} × {height} pixels; at most {MAX_DECODED_PIXELS} can be decoded")
        length_s = (container.duration or 0) / 1e6
        if length_s > MAX_VIDEO_S:
            raise PictureError(f"{length_s:.0f} s long; frames are taken from at most {MAX_VIDEO_S} s")
        self.stated = _stated(container.metadata)
        begin_s = (container.start_time or 0) / 1e6
        gap_s = max(GAP_S, length_s / MAX_FRAMES)
        # A codec may change its size within the stream; FFmpeg gets the limit too.
        stream.codec_context.options = {"max_pixels": str(MAX_DECODED_PIXELS)}
        stream.codec_context.skip_frame = "NONKEY"
        kept: list[float] = []
        last = np.zeros(0, dtype=np.float32)
        looked = 0
        for frame in self._key_frames(container, stream, begin_s):
            time_s = round(max(float(frame.time or 0.0) - begin_s, 0.0), 1)
            if time_s < self._due_s:
                continue
            looked += 1
            self._due_s = time_s + gap_s / LOOKS_PER_GAP
            small = frame.reformat(width=_SMALL_PX, height=_SMALL_PX, format="rgb24").to_ndarray()
            now = small.astype(np.float32)
            blank = float(now.std(axis=(0, 1)).max()) < BLANK
            if blank or (kept and float(np.abs(now - last).mean()) < CHANGE):
                yield time_s, None
            else:
                yield time_s, _upright(frame, stream.sample_aspect_ratio)
                kept.append(time_s)
                last, self._due_s = now, time_s + gap_s
            if len(kept) == MAX_FRAMES or looked == 2 * LOOKS_PER_GAP * MAX_FRAMES:
                return

    def _key_frames(self, container: Any, stream: Any, begin_s: float) -> Iterator[Any]:  # noqa: ANN401
        """Yield key frames not before the next due time; those that cannot be decoded are reported in
        `fault`.
        """
        for packet in container.demux(stream):
            if packet.size:
                stamp = packet.pts if packet.pts is not None else packet.dts
                early = stamp is not None and float(stamp * packet.time_base) < self._due_s + begin_s - 0.05
                if not packet.is_keyframe or early:
                    continue
            try:
                some = packet.decode()
            except self._broken as error:
                self._note(error)
                continue
            yield from some

    def _note(self, error: Exception) -> None:
        told = error.strerror if isinstance(error, OSError) else " ".join(map(str, error.args[1:2]))
        self.fault = self.fault or f"damaged or unknown video: {told or str(error) or type(error).__name__}"


def _refuse(*_: object) -> BinaryIO:
    raise OSError("a video may not open other files")


def _upright(frame: Any, aspect: Any) -> Image:  # noqa: ANN401
    """A frame in RGB as displayed: rotated, with square pixels, its longer side limited."""
    image: Image = frame.to_image()
    if aspect and 0.25 <= aspect <= 4 and aspect != 1:
        image = image.resize((max(round(image.width * float(aspect)), 1), image.height))
    turn = 90 * round(frame.rotation / 90)
    if turn:
        image = image.rotate(turn, expand=True)
    image.thumbnail((MAX_SIDE_PX, MAX_SIDE_PX))
    return image


def _stated(metadata: dict[str, str]) -> dict[str, Any]:
    """Metadata of a container, as fields of `DrawnFrames`."""
    lower = {key.lower(): value for key, value in metadata.items()}
    return {
        "title": clean(lower.get("title", "")),
        "description": clean(lower.get("description", "")),
        "credit": clean(lower.get("artist", "") or lower.get("author", "")),
        "license": clean(lower.get("copyright", "")),
        "taken": exif_time(lower.get("creation_time", ""), "+00:00"),
    }
