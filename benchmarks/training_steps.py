"""Seconds of a training step at the papers' sizes, and the hours that their runs would take.

Makes: docs/reproduce/index.md, docs/reproduce/cmcm.md, docs/reproduce/complementary.md,
  docs/reproduce/vrss.md, docs/reproduce/gsda.md, docs/training.md (hours, and memory)

Without --system: the backbone that two papers train along, forward and backward with Adam, is nearly all of a
step; texts and loss are left out. Pictures are noise and weights random, which changes no time. Processor
seconds over threads stand for a step, so that other work on the machine does not count.

With --system gsda or vrss: as much as VIST, of which only the sizes are true. Stories of five sentences, one
picture each, with made-up words, features (a memory-mapped file in float16), sentence keys and scene graphs,
go through the real way: a file of graphs is read, `prepare` builds task and model, and some batches are
trained on. Losses mean nothing. Sizes are moderate unless --paper is given.

    python benchmarks/training_steps.py
    python benchmarks/training_steps.py --device cuda
    python benchmarks/training_steps.py --system gsda --paper --steps 3
    python benchmarks/training_steps.py --system vrss --paper --stories 9000 --words 50 --max-length 200
"""

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from harness import Times, arguments, peak_mb, timed
from torchvision import models

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


@dataclass(frozen=True)
class Run:
    """A published run: pictures of a step, and how many steps there are."""

    name: str
    backbone: str
    batch: int
    pairs: int
    epochs: int

    @property
    def steps(self):
        """Of the whole run."""
        return -(-self.pairs // self.batch) * self.epochs


RUNS = (
    Run("cmcm on CITE++", "resnet50", 32, 3_095, 93),
    Run("cmcm on Clue", "resnet50", 32, 5_442, 53),
    Run("complementary on COCO", "resnet50", 32, 96_000, 50),
    Run("complementary on GoodNews", "resnet50", 32, 372_800, 50),
    Run("complementary on Politics", "resnet50", 32, 196_800, 50),
    Run("complementary on Conceptual Captions", "resnet50", 32, 2_640_000, 50),
)


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


def times_of(step, options):
    """Times of some steps; the first, which warms up, is left out; and what the last returned."""

    def whole():
        found = step()
        if options.device.startswith("cuda"):
            torch.cuda.synchronize()
        return found

    found = [timed(whole) for _ in range(options.steps + 1)]
    return Times.of(found[1:]), found[-1].result


def backbones(options):
    """A step of each backbone, and hours of the runs that train it."""
    known = {}
    print(f"{'run':<40}{'s a step':>10}{'steps':>12}{'hours':>10}")
    for run in RUNS:
        key = (run.backbone, run.batch)
        if key not in known:
            network = models.get_model(run.backbone, weights=None).to(options.device).train()
            updates = torch.optim.Adam(network.parameters(), 1e-4)
            pictures = torch.randn(run.batch, 3, 224, 224, device=options.device)

            def step(network=network, updates=updates, pictures=pictures):
                updates.zero_grad(set_to_none=True)
                network(pictures).square().mean().backward()
                updates.step()

            times, cuda = times_of(step, options)[0], options.device.startswith("cuda")
            known[key] = times.median_s if cuda else times.processor_median_s / torch.get_num_threads()
        hours = known[key] * run.steps / 3600
        print(f"{run.name:<40}{known[key]:>10.2f}{run.steps:>12,}{hours:>10.1f}")


def task_of(folder, options):
    """What training optimises, and its settings."""
    rows = corpus(folder, options)
    values = {"system": options.system, "loop": {"seed": 0}}
    values["data"] = {"set": "stories", "annotations": "made-up", "vectors": "random"}
    values["data"] |= {"batch": options.batch, "max_length": options.max_length}
    if options.system == "gsda":
        write_graphs(folder / "graphs.jsonl", [pair.image_id for pair in rows.train.pairs])
        values |= {"keys": "sentences", "graphs": str(folder / "graphs.jsonl"), "label_vectors": ""}
        values |= {} if options.paper else MODERATE
    trained = system(options.system)
    config = build(trained.settings, values, "benchmark")
    return prepare(trained, config, rows, device=options.device, sentences=Keys(options.keys)).task, config


def measure(options):
    """Seconds of a step of a system, hours of an epoch, and memory."""
    with tempfile.TemporaryDirectory() as name:
        task, config = task_of(Path(name), options)
        own, named = config.loop, task.model.named_parameters()
        updates = optimiser(own.optimiser, named, own.lr, own.betas, own.weight_decay, rates=own.rates)
        task.model.train()
        batches = iter(task.batches(0))

        def step():
            updates.zero_grad(set_to_none=True)
            losses = task.step(next(batches))
            losses["total"].backward()
            updates.step()
            assert all(bool(torch.isfinite(loss)) for loss in losses.values())
            return sorted(losses)

        times, losses = times_of(step, options)
        result = {
            "stories": options.stories,
            "parameters": sum(w.numel() for w in task.model.parameters() if w.requires_grad),
            "losses": losses,
            "threads": torch.get_num_threads(),
            "s_per_step": times.median_s,
            "processor_s_per_step": times.processor_median_s,  # on a shared machine nearer to its own
            "steps_per_epoch": task.steps_per_epoch,
            "h_per_epoch": times.median_s * task.steps_per_epoch / 3600,
            "peak_gb": peak_mb() * 2**20 / 1e9,
        }
        if options.device.startswith("cuda"):
            result["device_peak_gb"] = torch.cuda.max_memory_allocated() / 1e9
        return result


def parsed(words=None):
    parser = arguments(__doc__)
    parser.add_argument("--system", choices=("gsda", "vrss"), help="the backbone alone if absent")
    parser.add_argument("--stories", type=int, default=STORIES)
    parser.add_argument("--steps", type=int, default=3, help="timed, after one that is not")
    parser.add_argument("--batch", type=int, default=32, help="stories")
    parser.add_argument("--words", type=int, default=12, help="of a sentence, on average")
    parser.add_argument("--max-length", type=int, default=40)
    parser.add_argument("--vocabulary", type=int, default=30_000, help="different words at most")
    parser.add_argument("--width", type=int, default=2048, help="F of the picture features")
    parser.add_argument("--keys", type=int, default=1024, help="width of sentence keys")
    parser.add_argument("--paper", action="store_true", help="sizes of the paper; VRSS has no others")
    parser.add_argument("--threads", type=int, default=2, help="of torch")
    parser.add_argument("--device", default="cpu")
    return parser.parse_args(words)


def main():
    options = parsed()
    torch.set_num_threads(options.threads)
    if options.system:
        print(json.dumps(measure(options), indent=1))
    else:
        backbones(options)


if __name__ == "__main__":
    main()
