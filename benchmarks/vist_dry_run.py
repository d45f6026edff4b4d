"""Training GSDA, or VRSS, on as much as VIST, of which only the sizes are true: memory, and time per epoch.

Makes: docs/training.md, docs/reproduce/gsda.md, docs/reproduce/vrss.md (steps on as much as VIST)

Stories of five sentences, one picture each, with made-up words, features (a memory-mapped file in float16),
sentence keys and scene graphs, go through the real way: a file of graphs is read, `prepare` builds task and
model, and some batches are trained on. Losses mean nothing. Sizes are moderate unless --paper is given.

    python benchmarks/vist_dry_run.py --steps 5
    python benchmarks/vist_dry_run.py --paper --steps 3
    python benchmarks/vist_dry_run.py --system vrss --paper --stories 9000 --words 50 --max-length 200
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from harness import Times, peak_mb, timed

from limner.config import build
from limner.research.datasets.pairs import Pair, PairSet
from limner.research.runs.fit import prepare
from limner.research.systems.base import system
from limner.research.training.corpus import ArrayRows, corpus_of
from limner.research.training.loop import optimiser

STORIES, STEPS = 40_071, 5  # of VIST's training split
LABELS, PREDICATES = 150, 50
BLOCK = 8192
MODERATE = {
    "model": {"word_width": 200, "hidden": 256, "attention": 128, "dim": 512},
    "graph_model": {"dim": 128, "width": 128},
    "captioner": {
        "local": 256, "hidden": 256, "joined": 512, "seen": 256, "state": 512, "word_width": 128,
    },
}  # fmt: skip


class Keys:
    """Sentence vectors that mean nothing, as wide as those of VSE0."""

    name, fingerprint = "made-up", "made-up"

    def __init__(self, dim):
        self.dim = dim

    def encode_text(self, texts):
        """(N, dim) float32 unit rows, the same for as many texts."""
        rng, found = np.random.default_rng(0), np.empty((len(texts), self.dim), np.float32)
        for start in range(0, len(found), BLOCK):
            part = rng.standard_normal(found[start : start + BLOCK].shape, np.float32)
            found[start : start + BLOCK] = part / np.linalg.norm(part, axis=1, keepdims=True)
        return found


def texts_of(count, options):
    """Sentences whose words are as unevenly used as a language's; each word has a number for a name."""
    rng = np.random.default_rng(1)
    lengths = rng.integers(4, 2 * options.words - 4, count)
    share = np.arange(1, options.vocabulary + 1) ** -1.2  # some 8000 words come ten times
    drawn = rng.choice(options.vocabulary, lengths.sum(), p=share / share.sum())
    for words in np.split(drawn, np.cumsum(lengths)[:-1]):
        yield " ".join(f"w{word}" for word in words)


def corpus(folder, options):
    """The stories, and one more to validate on, with features in a file."""
    count = (options.stories + 1) * STEPS
    pairs = [
        Pair(
            id=str(row),
            text=text,
            image=f"{row}.jpg",
            seq=str(row // STEPS),
            pos=row % STEPS,
            split="train" if row < options.stories * STEPS else "val",
        )
        for row, text in enumerate(texts_of(count, options))
    ]
    features = np.memmap(folder / "features", np.float16, "w+", shape=(count, options.width))
    rng = np.random.default_rng(2)
    for start in range(0, count, BLOCK):
        features[start : start + BLOCK] = rng.standard_normal(
            features[start : start + BLOCK].shape, np.float32
        )
    features.flush()
    names = [pair.image_id for pair in pairs]
    kept = np.memmap(folder / "features", np.float16, "r", shape=features.shape)
    return corpus_of(PairSet("made-up", (), tuple(pairs)), ArrayRows(names, kept))


def write_graphs(file, names):
    """A graph per picture, every twentieth empty, of 2 to 9 things and up to as many relations."""
    rng = np.random.default_rng(3)
    with file.open("w", encoding="utf-8") as stream:
        for number, name in enumerate(names):
            things = rng.integers(0, LABELS, rng.integers(2, 10) if number % 20 else 0).tolist()
            objects = [{"label": f"thing {t}", "box": [0, 0, 1, 1], "score": 1} for t in things]
            ends = [rng.choice(len(things), 2, replace=False).tolist() for _ in things]
            relations = [
                {"s": s, "p": f"relation {rng.integers(PREDICATES)}", "o": o, "score": 1} for s, o in ends
            ]
            stream.write(json.dumps({"image": name, "objects": objects, "relations": relations}) + "\n")


def task_of(folder, options):
    """What training optimises, and the memory and seconds that making it ready took."""
    marks, start = {}, time.perf_counter()

    def mark(name):
        nonlocal start
        marks[name] = {
            "s": round(time.perf_counter() - start, 2),
            "peak_gb": round(peak_mb() * 2**20 / 1e9, 2),
        }
        start = time.perf_counter()

    rows = corpus(folder, options)
    mark("made up, with features on disk")
    own = {}
    if options.system == "gsda":
        write_graphs(folder / "graphs.jsonl", [pair.image_id for pair in rows.train.pairs])
        mark("graphs written")
        own = {"keys": "sentences", "graphs": str(folder / "graphs.jsonl"), "label_vectors": ""}
        own |= {} if options.paper else MODERATE
    values = {
        "system": options.system,
        **own,
        "data": {
            "set": "stories",
            "annotations": "made-up",
            "vectors": "random",
            "batch": options.batch,
            "max_length": options.max_length,
        },
        "loop": {"seed": 0},
    }
    trained = system(options.system)
    config = build(trained.settings, values, "benchmark")
    task = prepare(trained, config, rows, device=options.device, sentences=Keys(options.keys)).task
    mark("ready to train")
    return task, config, marks


def steps_of(task, config, options):
    """Times of the steps, batch included; the first, which warms up, is left out; and names of losses."""
    own = config.loop
    rates = {"rates": own.rates}
    updates = optimiser(
        own.optimiser, task.model.named_parameters(), own.lr, own.betas, own.weight_decay, **rates
    )
    task.model.train()
    batches = iter(task.batches(0))

    def step():
        updates.zero_grad(set_to_none=True)
        losses = task.step(next(batches))
        losses["total"].backward()
        updates.step()
        assert all(bool(torch.isfinite(loss)) for loss in losses.values())  # waits for the device as well
        return sorted(losses)

    found = [timed(step) for _ in range(options.steps + 1)]
    return Times.of(found[1:]), found[-1].result


def measure(options):
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        task, config, marks = task_of(Path(name), options)
        times, losses = steps_of(task, config, options)
        result = {
            "stories": options.stories,
            "sentences": options.stories * STEPS,
            "parameters": sum(w.numel() for w in task.model.parameters() if w.requires_grad),
            "words_read": len(task.model.vocabulary),
            **({"words_said": len(task.model.captioner.vocabulary)} if options.system == "gsda" else {}),
            "losses": losses,
            "threads": torch.get_num_threads(),
            "before_training": marks,
            "s_per_step": times.median_s,
            "processor_s_per_step": times.processor_median_s,  # on a shared machine nearer to its own
            "steps_per_epoch": task.steps_per_epoch,
            "h_per_epoch": times.median_s * task.steps_per_epoch / 3600,
            "peak_gb": peak_mb() * 2**20 / 1e9,
        }
        if options.device.startswith("cuda"):
            result["device_peak_gb"] = torch.cuda.max_memory_allocated() / 1e9
        return result


def parsed(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--system", choices=("gsda", "vrss"), default="gsda")
    parser.add_argument("--stories", type=int, default=STORIES)
    parser.add_argument("--steps", type=int, default=5, help="timed, after one that is not")
    parser.add_argument("--batch", type=int, default=32, help="stories")
    parser.add_argument("--words", type=int, default=12, help="of a sentence, on average")
    parser.add_argument("--max-length", type=int, default=40)
    parser.add_argument("--vocabulary", type=int, default=30_000, help="different words at most")
    parser.add_argument("--width", type=int, default=2048, help="F of the picture features")
    parser.add_argument("--keys", type=int, default=1024, help="width of sentence keys")
    parser.add_argument("--paper", action="store_true", help="sizes of the paper; VRSS has no others")
    parser.add_argument("--threads", type=int, default=1, help="of torch")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--folder", type=Path, help="for 0.9 GB of made-up data; the system's own if absent")
    return parser.parse_args(arguments)


def main():
    options = parsed()
    torch.set_num_threads(options.threads)
    print(json.dumps(measure(options), indent=1))


if __name__ == "__main__":
    main()
