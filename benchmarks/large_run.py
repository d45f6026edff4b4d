"""A run of 500,000 made-up pairs: validation, ranks, c-way questions, stories, pictures, an epoch's memory.

Each part runs in a process of its own and prints its seconds, by the clock and of the processor, and the most
memory it took beyond the pairs and vectors themselves, without pages of mapped files, which the system takes
back when it needs room. Pictures are random unit vectors, each text lies near its own. The plain way beside
them makes the table of all texts with all pictures, sorts it, and puts the memory into every checkpoint; it
is run at a size it can be run at. With fewer --queries than pairs the ranks of all take longer in proportion.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch

from limner.research.datasets.pairs import Pair, PairSet
from limner.research.evaluation.choice import draw_choices, measure_choices
from limner.research.evaluation.ranking import ALL, leading, rank, rank_blocks
from limner.research.evaluation.results import TOP, About
from limner.research.evaluation.retrieval import measure
from limner.research.evaluation.sequences import measure_sequences
from limner.research.evaluation.stories import same_document
from limner.research.runs.validation import validation
from limner.research.systems.base import Capabilities, Model
from limner.research.systems.complementary.memory import EpochMemory
from limner.research.systems.complementary.model import ComplementaryConfig
from limner.research.systems.complementary.weights import PairWeights
from limner.research.training import checkpoint
from limner.research.training.corpus import ArrayRows, corpus_of

ABOUT = About(system="made", data="made", split="grouped")
PLAIN = ("plain ranks", "plain questions", "plain checkpoint")
PARTS = ("validation", "ranks", "questions", "stories", "pictures", "memory", "resume", *PLAIN)


class Peak:
    """The most memory of this process that is not of files, in MB, over a block; and its seconds."""

    def __enter__(self):
        self.seconds, self.processor, self.megabytes = time.perf_counter(), time.process_time(), 0.0
        self._before, self._over = self._now(), threading.Event()
        self._watch = threading.Thread(target=self._look)
        self._watch.start()
        return self

    def __exit__(self, *error):
        self._over.set()
        self._watch.join()
        self.seconds = time.perf_counter() - self.seconds
        self.processor = time.process_time() - self.processor

    def _now(self):
        status = Path("/proc/self/status").read_text()
        return int(status.partition("RssAnon:")[2].split()[0]) / 1000

    def _look(self):
        while not self._over.wait(0.01):
            self.megabytes = max(self.megabytes, self._now() - self._before)


class Made(Model):
    """Texts are their numbers, pictures their vectors; a text's vector lies near that of its picture."""

    def __init__(self, texts, device):
        torch.nn.Module.__init__(self)
        self.register_buffer("at", torch.zeros(1, device=device))
        self.vectors = texts

    def encode_text(self, texts):
        """(N, D) of numbers."""
        return self.vectors[[int(text) for text in texts]]

    def encode_image(self, pictures):
        """(M, D) as they are."""
        return np.asarray(pictures)


def vectors(count, width):
    """(n, D) of texts and of pictures, unit rows."""
    rng = np.random.default_rng(0)
    images = rng.standard_normal((count, width), dtype=np.float32)
    texts = images + 1.5 * rng.standard_normal((count, width), dtype=np.float32)
    texts /= np.linalg.norm(texts, axis=1, keepdims=True)
    images /= np.linalg.norm(images, axis=1, keepdims=True)
    return texts, images


def pairs_of(count, split="val"):
    """Pairs of stories of five."""
    return tuple(
        Pair(
            id=f"p{n}",
            text=str(n),
            image=f"i{n}",
            group=f"g{n // 5}",
            split=split,
            seq=f"s{n // 5}",
            pos=n % 5,
        )
        for n in range(count)
    )


def first_ranks(score, queries, count):
    """Ranks of the first queries among all pictures, and their best pictures, as measuring asks for them."""

    def block(start, stop):
        table = score(np.arange(start, stop), ALL)
        leading(table, TOP)
        return table

    return rank_blocks(block, (queries, count), np.arange(queries)[:, None].tolist()).ranks()


def evaluated(part, options):
    count = options.plain if part in PLAIN else options.pairs
    texts, images = vectors(count, options.width)
    pairs, model = pairs_of(count), Made(texts, options.device)
    score, found = model.scorer(texts, images), {}
    if part == "validation":
        train = tuple(pair.model_copy(update={"split": "train"}) for pair in pairs[:5])
        rows = ArrayRows([pair.image_id for pair in pairs], images)
        with Peak() as peak:
            corpus = corpus_of(PairSet("made", (), (*train, *pairs)), rows, sample=5000)
            found = {"prepared_s": round(time.perf_counter() - peak.seconds, 1)}
            figures = validation(corpus, Capabilities(), "C@5")(model)
        found |= {name: round(value, 4) for name, value in figures.items()}
    elif part == "ranks":
        queries = min(options.queries or count, count)
        with Peak() as peak:
            if queries == count:
                ranks = np.array(measure(ABOUT, pairs, (), score=score).full.plain)
            else:
                ranks = first_ranks(score, queries, count)
        found = {"queries": queries, "R@1": float(np.mean(ranks == 1))}
    elif part == "questions":
        with Peak() as peak:
            result = measure_choices(ABOUT, pairs, score, options.options, distractors=options.folder)
        found = {"accuracy": result.accuracy}
    elif part == "stories":
        some = pairs[: options.steps]
        score = model.scorer(texts[: len(some)], images[: len(some)])
        with Peak() as peak:
            result = measure_sequences(ABOUT, some, score)
        found = {"steps": len(some), "R@1": float(np.mean(np.array(result.found["steps"].own) == 1))}
    elif part == "pictures":
        some = images[: options.steps]
        with Peak() as peak:
            found = same_document(
                model.scorer(some, some), [frozenset([pair.seq]) for pair in pairs[: len(some)]]
            )
        found |= {"pictures": len(some)}
    else:
        with Peak() as peak:
            table = model.score(texts, images)
            if part == "plain ranks":
                ranks = rank(table, np.arange(count)[:, None].tolist()).ranks()
                np.argsort(-table, axis=1, kind="stable")[:, :TOP]
                found = {"R@1": float(np.mean(ranks == 1))}
            else:
                ids = [pair.text for pair in pairs], [pair.image for pair in pairs]
                questions = draw_choices(*ids, options.options)
                rows = np.arange(count)[:, None]
                own, others = table[rows, rows], table[rows, questions.pictures]
                found = {"accuracy": float(np.mean((own > others).all(axis=1)))}
    return peak, {"pairs": count} | found


def memory_of(count, options, folder):
    """An epoch's memory of so many pairs, of which all but the last batch are written."""
    values = {"data": {"set": "pairs"}, "method": "combined-val"}
    config = ComplementaryConfig.model_validate(values)
    model = SimpleNamespace(dim=options.memory_width, heads=1, device=torch.device("cpu"))
    made = EpochMemory(model, SimpleNamespace(train=range(count), pictures=None), config)
    if folder is not None:
        made.open(folder)
    return made, config


def filled(held, count, options):
    drawn = torch.randn(2, options.batch + 1024, 1, options.memory_width)
    order = torch.randperm(count)
    for number, rows in enumerate(order.split(options.batch)):
        start = number % 1024
        held.write(rows, *drawn[:, start : start + len(rows)])


def remembered(part, options):
    torch.manual_seed(0)
    if part == "plain checkpoint":
        count = options.plain
        tables = {name: torch.zeros(count, options.memory_width) for name in "abcd"}
        with Peak() as peak:
            checkpoint.save(options.folder / "plain.safetensors", tables, {})
        size = (options.folder / "plain.safetensors").stat().st_size
        return peak, {"pairs": count, "checkpoint_mb": size / 1e6}
    count, file = options.pairs, options.folder / "resume.safetensors"
    held, config = memory_of(count, options, options.folder)
    if part == "memory":
        neighbours = np.random.default_rng(0).integers(0, count, (count, options.neighbours), np.int32)
        weights = PairWeights(config, count, neighbours)
        with Peak() as peak:
            clock = [time.perf_counter()]
            filled(held, count, options)
            held.close()
            clock.append(time.perf_counter())
            weights.score(held, 1, torch.device("cpu"))
            clock.append(time.perf_counter())
            checkpoint.save(file, held.state() | weights.state(), {})
            clock.append(time.perf_counter())
        tables = sum(one.stat().st_size for one in (options.folder / "bank").iterdir())
        wrote, scored, saved = np.diff(clock).tolist()
        found = {"write_s": wrote, "score_s": scored, "save_s": saved, "tables_mb": tables / 1e6}
        return peak, {"pairs": count, "checkpoint_mb": file.stat().st_size / 1e6} | found
    with Peak() as peak:
        held.load_state(checkpoint.load(file)[0])
        first = held.read().texts[:: max(1, count // 1000)].sum()
    return peak, {"pairs": count, "first_read": float(first)}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=500_000)
    parser.add_argument("--plain", type=int, default=10_000, help="pairs of the plain way")
    parser.add_argument("--queries", type=int, default=0, help="that are ranked; 0 for all")
    parser.add_argument(
        "--steps",
        type=int,
        default=50_000,
        help="steps of stories, and pictures that are compared with each other",
    )
    parser.add_argument("--width", type=int, default=64, help="of the vectors that are scored")
    parser.add_argument("--options", type=int, default=5, help="c")
    parser.add_argument("--memory-width", type=int, default=1024, help="of the vectors that are remembered")
    parser.add_argument("--neighbours", type=int, default=200, help="of a text")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--device", default="cpu", help="that scores")
    parser.add_argument("--folder", type=Path, help="for the tables; 16 kB a pair")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part:
        of_memory = options.part in ("memory", "resume", "plain checkpoint")
        peak, found = (remembered if of_memory else evaluated)(options.part, options)
        shown = {"part": options.part, "s": peak.seconds, "processor_s": peak.processor}
        shown |= {"peak_mb": peak.megabytes} | found
        print(json.dumps(shown), flush=True)
        return
    folder = Path(tempfile.mkdtemp(dir=options.folder))
    try:
        for part in options.only:
            words = [*sys.argv[1:], "--part", part, "--folder", str(folder)]
            subprocess.run([sys.executable, __file__, *words], check=True)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
