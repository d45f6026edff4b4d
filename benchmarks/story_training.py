"""Steps of VRSS on ragged stories in one masked batch, compared with a loop over stories and their steps.

Both ways share one set of weights, take the same batches of stories of 1 to 60 steps, and optimise the same
loss; with dropout and draws off they must give the same outputs and gradients. Words and features are made
up. Prints training stories per second of both, their ratio, and the peak memory of the process after each.
"""

import argparse
import json
import resource
import time

import numpy as np
import torch
from torch import nn

from limner.config import build
from limner.research.datasets.pairs import Pair, PairSet
from limner.research.systems.vrss import HIGH, LOW, SYSTEM, Generated, VrssConfig
from limner.research.training.corpus import ArrayRows, corpus_of


class Looped(nn.Module):
    """The same weights, one story and one step after the other, as docs/methods/vrss.md §2 writes them."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def pictures(self, pictures):
        """Features of the steps' own pictures."""
        return self.model.pictures(pictures)

    def forward(self, words, lengths, steps):
        """S steps of B stories, in order."""
        stories, attention, start = [], [], 0
        for count in steps.tolist():
            end = start + count
            made, inputs = self._story(words[start:end], lengths[start:end])
            stories += made
            attention.append(inputs)
            start = end
        mean, posterior, posterior_log, prior, prior_log, latent = map(torch.cat, zip(*stories, strict=True))
        return Generated(mean, None, (posterior, posterior_log), (prior, prior_log), latent, attention)

    def _story(self, words, lengths):
        """Six vectors of every step of one story, and what its steps hear of each other."""
        own, encoder = self.model, self.model.steps
        read = [
            encoder.dropout(encoder.reader(words[t : t + 1, : lengths[t]], lengths[t : t + 1]))
            for t in range(len(words))
        ]
        whole = encoder.story(torch.cat(read)[None])[0][0]  # (T, W)
        made, attention = [], []
        before = words.new_zeros(1, own.architecture.latent, dtype=whole.dtype)
        for step in read:
            share = (encoder.bilinear(step) @ whole.t()).softmax(dim=1)
            inputs = own.walk.from_inputs(torch.cat([step, share @ whole], dim=1))
            mean, log = own.walk.posterior(torch.tanh(inputs + own.walk.from_before(before))).chunk(2, dim=1)
            log = log.clamp(LOW, HIGH)
            latent = mean + (0.5 * log).exp() * torch.randn_like(mean) if own.training else mean
            prior, prior_log = own.walk.prior(before).chunk(2, dim=1)
            picture = own.decoder(torch.cat([before, latent], dim=1))
            made.append((picture, mean, log, prior, prior_log.clamp(LOW, HIGH), latent))
            attention.append(share)
            before = latent
        return made, torch.cat(attention)


def made_up(options):
    """Stories of 1 to `steps` steps of 3 to `words` words, with features."""
    rng = np.random.default_rng(0)
    pairs = []
    # the first story has all steps and the second only one, so that batches are as ragged as they may be
    counts = [options.steps, 1, *rng.integers(1, options.steps + 1, max(0, options.stories - 2)).tolist()]
    for story, count in enumerate([*counts, 2]):
        for place in range(count):
            text = " ".join(f"word{n}" for n in rng.integers(0, 2000, rng.integers(3, options.words + 1)))
            name = f"{story}-{place}"
            part = "train" if story < len(counts) else "val"
            pairs.append(Pair(id=name, text=text, image=f"{name}.jpg", seq=str(story), pos=place, split=part))
    features = rng.standard_normal((len(pairs), options.width)).astype(np.float32)
    rows = ArrayRows([pair.image_id for pair in pairs], features)
    return corpus_of(PairSet("made-up", (), tuple(pairs)), rows)


def task_of(options):
    """What training optimises, on made-up stories."""
    sizes = {
        "word_width": options.word,
        "hidden": options.hidden,
        "latent": options.latent,
        "mlp": options.mlp,
    }
    values = {
        "system": "vrss",
        "data": {
            "set": "stories",
            "annotations": "made-up",
            "vectors": "random",
            "batch": options.batch,
            "max_length": options.words,
        },
        "model": sizes,
        "loop": {"seed": 0},
    }
    return SYSTEM.prepare(build(VrssConfig, values, "benchmark"), made_up(options)).task


def losses(task, model, batch):
    """Total loss of a batch as `model` computes it."""
    own, task.model = task.model, model
    try:
        return task.step(batch)["total"]
    finally:
        task.model = own


def agree(task, batch):
    """Assert that both ways give the same outputs and gradients; the greatest difference of outputs."""
    model, loop = task.model, Looped(task.model)
    loop.eval()  # and the model in it
    outputs, gradients = [], []
    for way in (model, loop):
        made = way(batch.words, batch.lengths, batch.steps)
        outputs.append([part.detach() for part in (made.means, *made.posterior, *made.prior, made.latents)])
        model.zero_grad()
        losses(task, way, batch).backward()
        gradients.append([weight.grad.clone() for weight in model.parameters()])
    model.zero_grad()
    for ours, theirs in zip(*outputs, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-4)
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-3)
    return max(float((a - b).abs().max()) for a, b in zip(*outputs, strict=True))


def peak_gb():
    """Largest memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def timed(task, model, batches, optimiser):
    """Seconds of training steps over some batches."""
    model.train()
    start = time.perf_counter()
    for batch in batches:
        optimiser.zero_grad()
        losses(task, model, batch).backward()
        nn.utils.clip_grad_norm_(task.model.parameters(), 5.0)
        optimiser.step()
    return time.perf_counter() - start


def measure(options):
    task = task_of(options)
    batches = list(task.batches(0))[: options.batches]
    loop = Looped(task.model)
    optimiser = torch.optim.Adadelta(task.model.parameters(), lr=1.0)
    held = peak_gb()
    timed(task, task.model, batches[:1], optimiser)
    batched_s = min(timed(task, task.model, batches, optimiser) for _ in range(options.rounds))
    batched_peak = peak_gb()
    looped_s = min(timed(task, loop, batches, optimiser) for _ in range(options.rounds))
    looped_peak = peak_gb()
    stories = sum(len(batch.steps) for batch in batches)
    return {
        "threads": torch.get_num_threads(),
        "stories": stories,
        "steps": sum(len(batch.ids) for batch in batches),
        "batched_stories_per_s": stories / batched_s,
        "looped_stories_per_s": stories / looped_s,
        "ratio": looped_s / batched_s,
        "inputs_peak_gb": held,
        "batched_peak_gb": batched_peak,
        "looped_peak_gb": looped_peak,
        "greatest_difference": agree(task, batches[0]),
    }


def parsed(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stories", type=int, default=64)
    parser.add_argument("--steps", type=int, default=60, help="of the longest story")
    parser.add_argument("--words", type=int, default=20, help="of the longest step")
    parser.add_argument("--word", type=int, default=128, help="E, width of word vectors")
    parser.add_argument("--hidden", type=int, default=128, help="of every GRU")
    parser.add_argument("--latent", type=int, default=128, help="Z")
    parser.add_argument("--mlp", type=int, default=256)
    parser.add_argument("--width", type=int, default=512, help="F of the picture features")
    parser.add_argument("--batch", type=int, default=32, help="stories")
    parser.add_argument("--batches", type=int, default=2, help="timed, by both ways")
    parser.add_argument("--rounds", type=int, default=2, help="the fastest one counts")
    parser.add_argument("--threads", type=int, default=1, help="of torch")
    return parser.parse_args(arguments)


def main():
    options = parsed()
    torch.set_num_threads(options.threads)
    print(json.dumps(measure(options), indent=1))


if __name__ == "__main__":
    main()
