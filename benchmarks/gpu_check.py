"""What a card does with limner, beside the CPU: speed, agreement, resuming, memory, in ten minutes.

Makes: docs/training.md (a card beside the CPU), docs/library.md (the precision of the encoder `base`)

  python benchmarks/gpu_check.py
  python benchmarks/gpu_check.py --device cpu --quick

Needs no data and no weight files: networks are random, pictures drawn or noise. --quick makes all of it tiny.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import get_args

import numpy as np
import torch
from harness import arguments, in_turn, peak_mb
from torch import Tensor, nn
from torchvision import models

from limner.devices import Precision, autocast, device_of
from limner.encoders.base_encoder import BaseImageEncoder
from limner.encoders.base_file import SIDE_PX, shipped_file
from limner.encoders.catalogue import MULTILINGUAL, SENTENCES, text_encoder
from limner.encoders.pixels import FromBytes
from limner.research.runs.fit import prepare
from limner.research.runs.train import StoppedError, read_config, train
from limner.research.systems.base import SystemTask, system
from limner.research.training import checkpoint
from limner.research.training.checkpoint import BEST
from limner.research.training.corpus import corpus_of, open_corpus
from limner.research.training.loop import Event
from limner.research.worlds import PictureBook, write

CONFIGS = Path(__file__).parents[1] / "configs"
LIMNER = "limner/limner"
SYSTEMS = (
    "cmcm/cmcm",
    "complementary/vse++",
    "gsda/gsda",
    "vrss/vrss",
    "dual/recurrent",
    "document/document",
    LIMNER,
)
Row = tuple[str, str]


def speeds(
    what: str, calls: Mapping[str, Callable[[], object]], size: int, device: str, *, quick: bool
) -> Iterator[Row]:
    """Pictures per second of each precision, least of some rounds in turn; the card is waited for."""

    def waited(number: int, work: Callable[[], object]) -> None:
        work()
        if device.startswith("cuda"):
            torch.cuda.synchronize()

    ways = {name: partial(waited, work=work) for name, work in calls.items()}
    found = {name: size / one.least_s for name, one in in_turn(ways, 1 if quick else 5).items()}
    for name, speed in found.items():
        ratio = speed / found[next(iter(found))]
        yield f"{what}, {name}", f"{speed:.1f} pictures/s, {ratio:.2f} ×"


def forward(device: str, *, quick: bool) -> Iterator[Row]:
    """Pictures per second through a backbone, in each precision."""
    size, name = (2, "resnet18") if quick else (128, "resnet50")
    network = FromBytes(models.get_model(name, weights=None)).eval().to(device)
    network = network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    pixels = torch.randint(0, 255, (size, 224, 224, 3), dtype=torch.uint8).to(device)

    def work(precision: Precision) -> None:
        with torch.inference_mode(), autocast(device, precision):
            network(pixels)

    # CPUs emulate float16: hours
    given = [one for one in get_args(Precision) if device != "cpu" or one != "float16"]
    calls = {one: partial(work, one) for one in given}
    yield from speeds(f"forward, {name}", calls, size, device, quick=quick)


def indexed(device: str, *, quick: bool) -> Iterator[Row]:
    """Pictures per second through the encoder base, as indexing runs it."""
    size = 2 if quick else 64
    pixels = np.random.default_rng(0).integers(0, 255, (size, SIDE_PX, SIDE_PX, 3), dtype=np.uint8)
    base = partial(BaseImageEncoder, "base", shipped_file("base"), device=device)
    calls = {one: partial(base(precision=one).encode_pixels, pixels) for one in ("float32", "bfloat16")}
    yield from speeds("index, base", calls, size, device, quick=quick)


def in_files(folder: Path, books: int) -> list[str]:
    """Settings of limner, whose backbone reads files, for a drawn world that is written there once."""
    if not (folder / "world").exists():
        write(folder / "world", PictureBook(0).stories(books), size_px=128)
    return [f"data.annotations={folder / 'world'}", f"data.features={folder}", "data.split=released"]


def prepared(row: str, device: str, folder: Path) -> SystemTask:
    """The task of a row, smoke-sized, with weights drawn alike on every device and nothing dropped out."""
    given = (in_files(folder, 12), "stories") if row == LIMNER else ([], "picturebook")
    config = read_config(CONFIGS / f"{row}.toml", *given).smoke()
    own = system(config.system)
    can = own.capabilities(config)
    data, pictures = open_corpus(config.data, layer=can.layer, precision="float32")
    task = prepare(
        own,
        config,
        corpus_of(data, pictures),
        device=device,
        sentences=text_encoder(SENTENCES) if "sentences" in can.encoders else None,
        multilingual=text_encoder(MULTILINGUAL) if "multilingual" in can.encoders else None,
    ).task
    for module in task.model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        if isinstance(module, nn.RNNBase):
            module.dropout = 0.0
    return task


def one_step(row: str, device: str, folder: Path) -> dict[str, Tensor]:
    """Losses and the norm of all gradients of the first step."""
    task = prepared(row, device, folder)
    task.model.train()
    torch.manual_seed(0)
    losses = dict(task.step(next(iter(task.batches(0)))))
    losses["total"].backward()
    norms = [one.grad.norm().cpu() for one in task.model.parameters() if one.grad is not None]
    return {name: value.detach().cpu() for name, value in losses.items()} | {
        "gradient": torch.stack(norms).norm()
    }


def agreement(device: str, *, quick: bool) -> Iterator[Row]:
    """The first step of each system on the CPU and on the device; on a card also in full float32.

    Differences are relative to values above 1 and absolute below, where some losses start at 0.
    A card computes convolutions and recurrent layers of float32 in TF32 unless torch is told otherwise.
    """
    for row in SYSTEMS[:2] if quick else SYSTEMS:
        with tempfile.TemporaryDirectory() as folder:
            yield from _agreement(row, device, Path(folder))


def _agreement(row: str, device: str, folder: Path) -> Iterator[Row]:
    here = one_step(row, "cpu", folder)
    drawn = " (draws its latents, so they differ)" if row.startswith("vrss") else ""
    for coarse in (True, False) if device.startswith("cuda") else (True,):
        torch.backends.cudnn.allow_tf32 = coarse
        there = one_step(row, device, folder)
        far = {
            name: float((here[name] - there[name]).abs() / here[name].abs().clamp(min=1.0)) for name in here
        }
        worst = max(far, key=lambda name: far[name])
        told = f"differ by {far[worst]:.1e} at most ({worst}){drawn}"
        yield f"step, {row}, CPU and {device}{'' if coarse else ', no TF32'}", told
    torch.backends.cudnn.allow_tf32 = True


def resumed(device: str, precision: str) -> Iterator[Row]:
    """A run that was stopped and went on, beside one that was not."""
    row, options = CONFIGS / "complementary" / "vse++.toml", [f"loop.precision={precision}"]

    def stop(news: object) -> bool:
        return isinstance(news, Event) and news.position.taken == 2

    with tempfile.TemporaryDirectory() as folder:
        whole, cut = Path(folder) / "whole", Path(folder) / "cut"
        given = {"data": "picturebook", "overrides": options, "smoke": True, "device": device}
        train(row, to=whole, **given)
        try:
            train(row, to=cut, progress=stop, **given)
        except StoppedError:
            train(row, to=cut, **given)
        one, other = (checkpoint.load(run / BEST)[0] for run in (whole, cut))
        far = max(float((one[name].double() - other[name].double()).abs().max()) for name in one)
        line = (Path(folder) / "whole" / "history.jsonl").read_text().splitlines()[0]
    told = "equal bit for bit" if far == 0 else f"differ by {far:.1e} at most"
    skipped = (
        f"; {line.rpartition(' ')[2].rstrip('}')} updates left out in its first epoch"
        if "skipped" in line
        else ""
    )
    yield f"resumed run, {precision}", told + skipped


def trained(device: str, *, quick: bool) -> Iterator[Row]:
    """Limner in a drawn world: features, projections, and then the backbone's last blocks."""
    books, heads, epochs = (12, 1, 2) if quick else (200, 20, 25)
    with tempfile.TemporaryDirectory() as folder:
        options = [*in_files(Path(folder), books), "model.changed_from=16", f"heads_epochs={heads}"]
        options += [f"loop.epochs={epochs}", f"loop.restarts=[{heads}]", "data.batch=64", "mirrored=false"]
        marks: dict[str, float] = {}

        def mark(news: object) -> None:
            if isinstance(news, Event):
                marks.setdefault("features", time.perf_counter())
                if news.position.epoch < heads:
                    marks["heads"] = time.perf_counter()

        began = time.perf_counter()
        train(
            CONFIGS / f"{LIMNER}.toml",
            to=Path(folder) / "run",
            data="stories",
            overrides=options,
            device=device,
            progress=mark,
        )
        ended = time.perf_counter()
        lines = (Path(folder) / "run" / "history.jsonl").read_text().splitlines()
    rank = max(json.loads(line)["val"]["MRR"] for line in lines)
    parts = marks["features"] - began, marks["heads"] - marks["features"], ended - marks["heads"]
    told = "features {:.1f} s, {} epochs of projections {:.1f} s, {} of the last blocks {:.1f} s"
    yield (
        f"limner, {books} drawn books",
        told.format(parts[0], heads, parts[1], epochs - heads, parts[2]) + f"; MRR of validation {rank:.3f}",
    )


def several(device: str, *, quick: bool) -> Iterator[Row]:
    """Two processes by torchrun: nccl on cards, gloo on the CPU."""
    cards = torch.cuda.device_count() if device.startswith("cuda") else 0
    if quick or cards == 1:
        yield "two processes", "not run: one card" if cards else "not run: --quick"
        return
    with tempfile.TemporaryDirectory() as folder:
        words = ["--standalone", "--nproc-per-node", "2", "-m", "limner", "train"]
        words += [str(CONFIGS / "complementary" / "vse++.toml"), "--data", "picturebook", "--smoke"]
        words += ["--to", f"{folder}/run", "--device", "cuda" if cards else "cpu"]
        done = subprocess.run(
            [sys.executable, "-m", "torch.distributed.run", *words],
            check=False,
            capture_output=True,
            text=True,
        )
    last = (done.stderr.strip().splitlines() or [""])[-1]
    yield (
        f"two processes, {'nccl' if cards else 'gloo'}",
        "trained" if done.returncode == 0 else f"FAILED: {last}",
    )


def peak(device: str) -> Row:
    """Most memory that was ever in use."""
    if device.startswith("cuda"):
        return "peak memory of the card", f"{torch.cuda.max_memory_allocated() / 2**30:.2f} GiB"
    return "peak memory of the process", f"{peak_mb() / 1024:.2f} GiB"


def check(device: str, *, quick: bool) -> Iterator[Row]:
    """All lines of the table, as they are found."""
    card = torch.cuda.get_device_name(device) if device.startswith("cuda") else "no card"
    yield "device", f"{device} ({card}), torch {torch.__version__}"
    for part in (forward, indexed, agreement):
        yield from part(device, quick=quick)
    for precision in ("float32",) if quick else ("float32", "bfloat16", "float16"):
        yield from resumed(device, precision)
    yield from trained(device, quick=quick)
    yield from several(device, quick=quick)
    yield peak(device)


def main(words: list[str] | None = None) -> None:
    """Print the table."""
    parser = arguments(__doc__)
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:N or mps")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to see that it runs")
    given = parser.parse_args(words)
    for name, found in check(device_of(given.device), quick=given.quick):
        print(f"{name:<52} {found}", flush=True)


if __name__ == "__main__":
    main()
