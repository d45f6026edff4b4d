"""Processor time of storyboards with photographs in order.

Makes: docs/results/ordinary.md (processor time of rows)

Made-up vectors; the texts are encoded beforehand. A library of 5,000 and of 100,000 pictures in folders of
twenty, with the rows of the library and without; and a named folder after a photograph was given to a step.

    python benchmarks/row_speed.py --cache vectors
"""

import hashlib
import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from unittest.mock import patch

import numpy as np
from embeddings import CachedText, encoders, parser
from ordinary.boards import Desk, JobIllustrator
from ordinary.jobs import Job
from ordinary.rows import START

from limner.match import illustrate
from limner.match.illustrate import BoardOptions
from limner.records import Picture, Step, Story
from limner.store.vectors import Gallery, Space

WORDS = (
    "a dog runs on the beach",
    "two girls mix flour and sugar in a bowl",
    "a man repairs the wheel of a bicycle",
    "snow lies on the mountain",
)
IN_A_FOLDER, TRIES = 20, 3


def made(sentences: CachedText, pictures: int, steps: int, in_a_folder: int) -> Job:
    """A text and a library of folders with random vectors."""
    rng = np.random.default_rng(0)
    ids = sorted(hashlib.sha256(str(number).encode()).hexdigest() for number in range(pictures))
    spaces = {"captions": Space(np.zeros((pictures, 384), np.float32), sentences.fingerprint)}
    for name, dim in (("base", 512), ("looks", 256)):
        vectors = rng.standard_normal((pictures, dim)).astype(np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        spaces[name] = Space(vectors)
    records = {
        ids[row]: Picture(
            id=ids[row],
            paths=(f"/library/{at // in_a_folder:05d}/IMG_{at:06d}.jpg",),
            width_px=9,
            height_px=9,
            format="JPEG",
            size_bytes=1,
            phash="0" * 16,
            group=ids[row],
            taken=START + timedelta(minutes=at),
            taken_from="camera",
        )
        for at, row in enumerate(rng.permutation(pictures).tolist())
    }
    told = tuple(Step(text=f"{WORDS[step % len(WORDS)]} number {step}") for step in range(steps))
    nothing = (frozenset[str](),) * steps
    gallery = Gallery(ids, ids, spaces)
    return Job(
        "rows",
        "hidden",
        pictures,
        "fit",
        gallery,
        lambda wanted: [records[one] for one in wanted],
        Story(id="speed", steps=told),
        nothing,
        nothing,
        ("",) * steps,
    )


def seconds(work: Callable[[], object]) -> float:
    """Least processor time of some tries."""
    found = []
    for _ in range(TRIES):
        start = time.process_time()
        work()
        found.append(time.process_time() - start)
    return min(found)


def fresh(illustrator: JobIllustrator, story: Story) -> object:
    """A storyboard of which nothing is known yet."""
    illustrator._recent_scores.clear()
    return illustrator.board(story, BoardOptions(count="all"))


def main() -> None:
    options = parser(__doc__).parse_args()
    encoded = encoders(options, ["base"])
    for pictures, steps in ((5_000, 12), (100_000, 300)):
        job = made(encoded[0], pictures, steps, IN_A_FOLDER)
        illustrator = JobIllustrator(job, Desk(encoded, options.cache))

        asked = partial(fresh, illustrator, job.story)
        asked()
        whole = seconds(asked)
        with patch.object(illustrate, "likely_rows", lambda *_: []):
            bare = seconds(asked)
        print(f"{steps} steps, {pictures:,} pictures: {whole:.2f} s with rows, {bare:.2f} s without")
    for photographs in (40, 500):
        steps = max(12, photographs // 4)
        for count in {12, steps}:
            job = made(encoded[0], photographs, count, photographs)
            illustrator = JobIllustrator(job, Desk(encoded, options.cache))
            first = illustrator.library.in_folder(0)[3]
            named = BoardOptions(named=("/library/00000",))
            illustrator.board(job.story, named)
            given = named.model_copy(update={"pins": {4: first}})
            took = seconds(lambda: illustrator.board(job.story, given))  # noqa: B023
            print(f"{count} steps, {photographs} named photographs, after a correction: {took:.2f} s")


if __name__ == "__main__":
    main()
