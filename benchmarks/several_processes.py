"""Steps per second and memory of one process and of two on this machine, for the same batch and losses.

Made-up pairs, one thread a process, two of torchrun's agents that meet by an address on loopback. With
--graph the neighbour graph of so many texts instead: share of exact neighbours found, seconds and memory.

    python benchmarks/several_processes.py --system vse --batch 256
    python benchmarks/several_processes.py --graph 100000 --rounds 1
"""

import argparse
import json
import os
import resource
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from limner.config import build
from limner.research.datasets.neighbours import build_graph
from limner.research.datasets.pairs import Pair, PairSet
from limner.research.systems import system
from limner.research.training import processes
from limner.research.training.corpus import ArrayRows, corpus_of
from limner.research.training.loop import Loop
from limner.research.training.processes import crew

WORDS, LENGTH, WARM = 5000, 12, 5
SIZES = {
    "vse": {"model": {"dim": 1024, "word_width": 300}},
    "complementary": {"method": "hal", "baselines": {"hal_bank": True}, "weights": {"start": "warm"}},
}


def corpus(count: int, *, grids: bool):
    """Random texts and features of as many training pairs, and a few to validate on."""
    rng = np.random.default_rng(0)
    texts = [" ".join(f"w{word}" for word in row) for row in rng.integers(0, WORDS, (count + 64, LENGTH))]
    shape = (49, 2048) if grids else (2048,)
    base = rng.standard_normal((1000, *shape)).astype(np.float16)
    rows = np.resize(np.arange(1000), count + 64)
    pairs = tuple(
        Pair(
            id=str(n), text=text, image=str(n), split="train" if n < count else "val", group=str(n), labels={}
        )
        for n, text in enumerate(texts)
    )

    class Repeated(ArrayRows):
        """A thousand different features stand for all."""

        def take(self, places):
            return base[rows[places]]

    return corpus_of(PairSet("made", (), pairs), Repeated([pair.image_id for pair in pairs], rows))


def steps(args: argparse.Namespace) -> dict[str, float]:
    """Train for some steps."""
    held = corpus(args.rows, grids=args.system == "complementary")
    own = system(args.system)
    values = {"system": args.system, "backbone": "frozen", "loop": {"epochs": 1000, "metric": "MRR"}}
    values["data"] = {"set": "pairs", "vectors": "random", "batch": args.batch, "max_length": LENGTH}
    settings = build(own.settings, values | SIZES[args.system], "benchmark")
    times: list[float] = []

    def report(event) -> bool:
        times.append(time.perf_counter())
        return len(times) == WARM + args.steps

    with tempfile.TemporaryDirectory() as folder:
        place = Path(os.environ.get("LIMNER_RUN", folder))
        task = own.prepare(settings, held).task
        Loop(
            task, settings.loop, place, validate=lambda model: {"MRR": 0.0}, maximise=True, report=report
        ).fit()
    return {"steps_per_s": (len(times) - 1 - WARM) / (times[-1] - times[WARM])}


def graph(args: argparse.Namespace) -> dict[str, float]:
    """Neighbours of texts in clusters, and how many of the true ones are found for a thousand of them."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((args.graph // 200, 96)).astype(np.float32)
    vectors = np.repeat(centres, 200, axis=0) + 0.5 * rng.standard_normal((args.graph // 200 * 200, 96))
    vectors = vectors.astype(np.float32)
    ids = np.arange(len(vectors))
    began = time.perf_counter()
    found = build_graph(
        vectors, size=50, text_ids=ids, image_ids=ids, method="hnsw", crew=crew(torch.device("cpu"))
    )
    took = time.perf_counter() - began
    some = rng.choice(len(vectors), 1000, replace=False)
    apart = (vectors**2).sum(1) - 2 * vectors[some] @ vectors.T
    apart[np.arange(len(some)), some] = np.inf
    due = np.argpartition(apart, 50, axis=1)[:, :50]
    share = np.mean(
        [len(set(a.tolist()) & set(b.tolist())) / 50 for a, b in zip(found[some], due, strict=True)]
    )
    return {"graph_s": took, "graph_recall": float(share)}


def child(args: argparse.Namespace) -> None:
    """What one process measures; the first one prints it."""
    torch.set_num_threads(1)
    processes.join("cpu")
    found = graph(args) if args.graph else steps(args)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if processes.rank() == 0:
        print(json.dumps(found | {"peak_mb": peak}))
    processes.leave()


def measured(words: list[str], number: int) -> dict[str, float]:
    """Run one process, or two that meet on loopback."""
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    if number == 1:
        said = subprocess.run([sys.executable, __file__, *words], env=env, capture_output=True, check=True)
        return json.loads(said.stdout)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        meeting = f"127.0.0.1:{free.getsockname()[1]}"
    how = ["-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "1", "--rdzv-backend", "c10d"]
    how += ["--rdzv-id", "benchmark", "--rdzv-endpoint", meeting, __file__, *words]
    with tempfile.TemporaryDirectory() as folder:
        env["LIMNER_RUN"] = folder
        both = [
            subprocess.Popen([sys.executable, *how], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            for _ in range(2)
        ]
        streams = [one.communicate() for one in both]
    if any(one.returncode for one in both):
        raise SystemExit(streams[0][1].decode() + streams[1][1].decode())
    return json.loads(next(out for out, _ in streams if out.strip()))


def main() -> None:
    """Measure in turn: one, two, one, two; the better of each counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--system", choices=SIZES, default="vse")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--graph", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--child", action="store_true")
    args = parser.parse_args()
    if args.child:
        child(args)
        return
    words = [*sys.argv[1:], "--child"]
    rounds = [(measured(words, 1), measured(words, 2)) for _ in range(args.rounds)]
    for place, name in enumerate(("one process", "two processes")):
        for found in rounds:
            shown = ", ".join(f"{key} {value:.3f}" for key, value in found[place].items())
            print(f"{name}: {shown}")
    key, best = ("graph_s", min) if args.graph else ("steps_per_s", max)
    one, two = (best(found[place][key] for found in rounds) for place in range(2))
    print(f"{key}, two ÷ one: {two / one:.2f}")


if __name__ == "__main__":
    main()
