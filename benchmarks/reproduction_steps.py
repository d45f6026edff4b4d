"""One training step of the backbones that the papers train along, and the hours that their runs would take.

Makes: docs/reproduce/index.md, docs/reproduce/cmcm.md, docs/reproduce/complementary.md,
  docs/reproduce/vrss.md (hours)

The backbone, forward and backward with Adam, is nearly all of a step; the texts and the loss are left out
(of GSDA, `vist_dry_run.py` measures them). Pictures are noise and weights random, which changes no time.
Processor seconds over threads stand for the step, so that other work on the machine does not count. Hours of
the published runs follow from steps: pairs over batch, times epochs.

    python benchmarks/reproduction_steps.py
    python benchmarks/reproduction_steps.py --device cuda
    python benchmarks/reproduction_steps.py --times-as-fast 100
"""

import argparse
from dataclasses import dataclass

import torch
from harness import Times, timed
from torchvision import models


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


def step_s(backbone, batch, options):
    """Median seconds of a step: by the processor's clock over its threads, or by the wall on a card."""
    device = torch.device(options.device)
    network = models.get_model(backbone, weights=None).to(device).train()
    updates = torch.optim.Adam(network.parameters(), 1e-4)
    pictures = torch.randn(batch, 3, 224, 224, device=device)

    def step():
        updates.zero_grad(set_to_none=True)
        network(pictures).square().mean().backward()
        updates.step()
        if device.type == "cuda":
            torch.cuda.synchronize()

    times = Times.of([timed(step) for _ in range(options.steps + 1)][1:])
    return times.median_s if device.type == "cuda" else times.processor_median_s / torch.get_num_threads()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=2, help="of torch")
    parser.add_argument("--steps", type=int, default=2, help="timed, after one that is not")
    parser.add_argument(
        "--times-as-fast", type=float, default=1, help="hours at a machine so many times as fast"
    )
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    known = {}
    print(f"{'run':<40}{'s a step':>10}{'steps':>12}{'hours':>10}")
    for run in RUNS:
        key = (run.backbone, run.batch)
        if key not in known:
            known[key] = step_s(*key, options)
        hours = known[key] * run.steps / 3600 / options.times_as_fast
        print(f"{run.name:<40}{known[key]:>10.2f}{run.steps:>12,}{hours:>10.1f}")


if __name__ == "__main__":
    main()
