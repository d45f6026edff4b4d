"""Captions the pictures of a library, with a sentence and keywords each, by a vision model that the user
runs.

Captions are written every few pictures, so that an interrupted run continues where it stopped.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from limner.config import Record
from limner.describe.chat import Chat, ChatError, EndpointError, find_object, one_line
from limner.errors import DataError, counted
from limner.pictures.thumbnails import shrink
from limner.progress import Progress
from limner.records import Picture, Problem
from limner.store import CAPTION_SPACES, MODEL, ModelWords
from limner.store.database import Database
from limner.store.index import encode_captions

SIDE_PX = 768
"""Longest side in pixels of the copy that is sent to the model."""
QUALITY = 85
MAX_SENTENCE_CHARS, MAX_KEYWORD_CHARS, MAX_KEYWORDS = 400, 60, 30
WRITE_PICTURES, WRITE_S = 16, 10.0
"""Number of captions, and time in seconds, after which they are written."""
PROMPT = """\
Describe this picture for a search index. Answer with one JSON object and nothing else:
{"sentence": "...", "keywords": ["...", "..."]}
"sentence": one literal sentence in English, at most 30 words, that says what can be seen: who or what, what \
they do, where, and the most telling colours or objects. No names that cannot be read in the picture, no \
guesses, no mood, and not "the picture shows".
"keywords": 5 to 10 English words or short phrases for what can be seen."""


class DescribeReport(Record):
    """Result of one run.

    Attributes:
        model: name of the model.
        described: number of pictures that were described.
        already: number of pictures that the model had described before.
        worded: number of pictures left out because their files or the user already give them captions.
        left: number of pictures still to be described.
        failed: pictures without a usable answer, by path, with the reason.
        seconds: wall time.
        stopped: reason for an early end; "" without one.
        interrupted: True after Ctrl-C; the same command continues.
    """

    model: str
    described: int = 0
    already: int = 0
    worded: int = 0
    left: int = 0
    failed: tuple[Problem, ...] = ()
    seconds: float = 0.0
    stopped: str = ""
    interrupted: bool = False

    def lines(self, listed: int = 20) -> list[str]:
        """The report in words.

        Args:
            listed: maximum number of listed failures.
        """
        rest = f", {self.left:,} left" if self.left else ""
        lines = [
            f"described by {self.model}: {counted(self.described, 'picture')} ({self.already:,} already"
            f" there, {len(self.failed):,} failed{rest}); {self.seconds:.1f} s"
        ]
        if self.worded:
            lines.append(f"left out because they have captions: {counted(self.worded, 'picture')}")
        lines += [f"failed: {one.path}: {one.reason}" for one in self.failed[:listed]]
        if len(self.failed) > listed:
            lines.append(f"failed: and {len(self.failed) - listed:,} more")
        return lines


def describe_pictures(
    library: Database,
    chat: Chat,
    *,
    every: bool = False,
    limit: int | None = None,
    progress: Progress | None = None,
) -> DescribeReport:
    """Caption the pictures of a library with a model, and store the captions in the library.

    Pictures that this model has already described, or for which the user wrote captions, are left out.
    Captions by another model are replaced.

    Args:
        library: an indexed library with a space of captions.
        chat: the vision model.
        every: whether to include pictures that have captions in their files.
        limit: maximum number of pictures to describe; None for all.
        progress: receiver of the progress.
    Returns:
        The report, even after Ctrl-C or if the endpoint failed.
    Raises:
        DataError: the library has no captions.
        CheckpointError: the library's captions were encoded by another version.
    """
    if not set(CAPTION_SPACES) & library.settings.spaces.keys():
        raise DataError(
            f"{library.place}: indexed without captions, so that no words are searched; run 'limner index'"
            " without --no-captions first"
        )
    encode_captions(library)  # an error of the encoders comes before the first question
    run = _Describing(library, chat, progress or Progress())
    todo = run.todo(every=every)
    return run.describe(todo if limit is None else todo[:limit], len(todo))


@dataclass
class _Describing:
    library: Database
    chat: Chat
    progress: Progress
    already: int = 0
    worded: int = 0
    described: int = 0
    waiting: dict[str, ModelWords] = field(default_factory=dict)
    failed: list[Problem] = field(default_factory=list)
    started: float = field(default_factory=time.monotonic)
    written: float = field(default_factory=time.monotonic)

    def todo(self, *, every: bool) -> list[str]:
        """Ids of the pictures to describe, in order of paths."""
        by, found = self.library.described_by(), []
        for picture, sources in self.library.sources_of_words():
            if by.get(picture) == self.chat.model:
                self.already += 1
            elif by.get(picture) == "" or not (every or _wordless(sources)):
                self.worded += 1
            else:
                found.append(picture)
        return found

    def describe(self, todo: list[str], due: int) -> DescribeReport:
        """Describe some pictures; `due` is the total number to describe."""
        self.progress.stage("pictures described", len(todo))
        stopped, interrupted = "", False
        try:
            for picture in self._present(todo):
                self._one(picture)
                self.progress.advance(1)
                self._write()
        except EndpointError as error:
            stopped = str(error)
        except KeyboardInterrupt:
            interrupted = True
        self._write(now=True)
        return DescribeReport(
            model=self.chat.model,
            described=self.described,
            already=self.already,
            worded=self.worded,
            left=due - self.described - len(self.failed),
            failed=tuple(sorted(self.failed, key=lambda one: one.path)),
            seconds=time.monotonic() - self.started,
            stopped=stopped,
            interrupted=interrupted,
        )

    def _present(self, todo: list[str]) -> Iterator[Picture]:
        """Yield the pictures that still exist."""
        for one in todo:
            try:
                yield self.library.pictures([one])[0]
            except DataError as error:
                self.failed.append(Problem(path=one[:12], reason=str(error)))
                self.progress.advance(1)

    def _one(self, picture: Picture) -> None:
        try:
            self.waiting[picture.id] = described(picture, self.chat)
        except EndpointError:
            raise
        except DataError as error:
            self.failed.append(Problem(path=picture.path, reason=str(error)))
            self.progress.note(f"{picture.path}: {error}")

    def _write(self, *, now: bool = False) -> None:
        late = time.monotonic() - self.written >= WRITE_S
        if self.waiting and (now or late or len(self.waiting) >= WRITE_PICTURES):
            self.library.write_descriptions(self.waiting)
            encode_captions(self.library)
            self.described += len(self.waiting)
            self.waiting, self.written = {}, time.monotonic()


def described(picture: Picture, chat: Chat) -> ModelWords:
    """Caption one picture.

    Args:
        picture: picture of a library; a copy without metadata is sent, its longest side `SIDE_PX` at most.
        chat: the model.
    Raises:
        DataError: the picture cannot be read, or has changed since it was indexed.
        ChatError, EndpointError: as `limner.describe.chat.Chat.ask`.
    """
    small, large = sorted((picture.width_px, picture.height_px))
    area_px = max(1, round(SIDE_PX * SIDE_PX * small / large))
    copy = shrink(picture, f"picture {picture.id[:12]}", area_px=area_px, kind="JPEG", quality=QUALITY)
    sentence, keywords = chat.ask(PROMPT, read_description, copy.uri)
    return ModelWords(model=chat.model, captions=(sentence,), keywords=keywords)


def read_description(content: str) -> tuple[str, tuple[str, ...]]:
    """Parse sentence and keywords of an answer.

    Raises:
        ChatError: the answer does not contain them, or they cannot be stored.
    """
    found = find_object(content, "sentence")
    sentence = one_line(found["sentence"], "the sentence", MAX_SENTENCE_CHARS)
    listed = found.get("keywords")
    if not isinstance(listed, list):
        raise ChatError("'keywords' is no list")
    if len(listed) > MAX_KEYWORDS:
        raise ChatError(f"{len(listed):,} keywords; at most {MAX_KEYWORDS} are accepted")
    words = (one_line(word, "a keyword", MAX_KEYWORD_CHARS) for word in listed)
    parts = (part.strip() for word in words for part in word.split(","))
    return sentence, tuple(dict.fromkeys(filter(None, parts)))


def _wordless(sources: Iterable[str]) -> bool:
    """Whether a picture has no captions except its file name and a model's description."""
    return all(one in ("filename", MODEL) for one in sources)
