"""Steps of CMCM on stored features, on pictures encoded anew each step, and with the backbone trained along.

The backbone has random weights, which cost the same time as pretrained ones; pictures are made-up files.
Prints seconds per step, those of one epoch over --epoch-pairs training pairs (its steps times the median
step), the ratio to stored features, and the peak memory of a process for each way.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from limner.config import build
from limner.research.datasets.pairs import Pair, PairSet
from limner.research.systems.base import empty_backbone
from limner.research.systems.cmcm import SYSTEM, CmcmConfig
from limner.research.training.corpus import ArrayRows, corpus_of
from limner.research.training.framing import FileRows

KINDS = ("stored", "encoded anew", "trained along")


class EncodedAnew:
    """Files through a frozen backbone at every step."""

    backbone = drawn = None

    def __init__(self, files, backbone):
        self._rows, self._backbone = FileRows(files, workers=1), backbone.eval()

    def places(self, ids):
        """Rows of pictures."""
        return self._rows.places(ids)

    def take(self, places):
        """Their features, made now."""
        with torch.no_grad():
            return self._backbone(torch.from_numpy(self._rows.take(places))).numpy()


def measure(kind, options):
    """Seconds per step of one way, and the peak memory of this process."""
    torch.manual_seed(0)
    torch.set_num_threads(options.threads)
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        files, pairs = {}, []
        for i in range(options.pictures):
            path = Path(folder) / f"{i}.jpg"
            Image.fromarray(rng.integers(0, 255, (480, 640, 3), dtype=np.uint8)).save(path, quality=85)
            files[str(path)] = path
            text = " ".join(f"word{k}" for k in rng.integers(0, 5000, 40))
            split = "train" if i else "val"
            pairs.append(Pair(id=str(i), text=text, image=str(path), split=split, labels={"a": i % 2}))
        data = PairSet("made", ("a",), tuple(pairs))
        backbone, width = empty_backbone(options.backbone, "pooled")
        values = {"backbone": "frozen", "data": {"set": "pairs", "batch": options.batch, "vectors": "random"}}
        if kind == "trained along":
            values["backbone"] = "finetune"
            rows = FileRows(files, workers=1)
        elif kind == "stored":
            features = rng.standard_normal((options.pictures, width)).astype(np.float16)
            rows = ArrayRows(list(files), features)
        else:
            rows = EncodedAnew(files, backbone)
        config = build(CmcmConfig, values, "benchmark")
        task = SYSTEM.prepare(config, corpus_of(data, rows), pretrained=(backbone, width)).task
        optimiser = torch.optim.Adam([p for p in task.model.parameters() if p.requires_grad], 1e-4)
        seconds, epoch = [], 0
        while len(seconds) <= options.steps:
            batches = iter(task.batches(epoch))
            epoch += 1
            while len(seconds) <= options.steps:
                start = time.perf_counter()
                batch = next(batches, None)
                if batch is None:
                    break
                optimiser.zero_grad()
                task.step(batch)["total"].backward()
                optimiser.step()
                seconds.append(time.perf_counter() - start)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    step, steps = float(np.median(seconds[1:])), max(1, options.epoch_pairs // options.batch)  # whole batches
    return {
        "kind": kind,
        "step_s": step,
        "least_step_s": min(seconds[1:]),
        "most_step_s": max(seconds[1:]),
        "epoch_steps": steps,
        "epoch_s": steps * step,
        "peak_mb": round(memory),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backbone", default="resnet50")
    parser.add_argument("--pictures", type=int, default=97)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument(
        "--epoch-pairs", type=int, default=3095, help="CITE++: 3,439 less a tenth for validation"
    )
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--kind", choices=KINDS, help="one way, in this process")
    options = parser.parse_args()
    if options.kind:
        print(json.dumps(measure(options.kind, options)))
        return
    first = None
    for kind in KINDS:  # a process each, so that the peak memory is its own
        done = subprocess.run(
            [sys.executable, *sys.argv, "--kind", kind], check=True, capture_output=True, text=True
        )
        found = json.loads(done.stdout)
        first = first or found
        ratio = found["step_s"] / first["step_s"]
        print(json.dumps(found | {"times_stored": round(ratio, 1)}), flush=True)


if __name__ == "__main__":
    main()
