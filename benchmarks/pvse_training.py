"""Steps of PVSE on stored grids: limner's task against the same equations written module by module.

The plain way pads two GRUs without packing, runs head after head, and loops over items for scores and Gram
matrices. Both begin with the same weights, take the same batches and must give the same first loss; grids and
texts are made up. Prints seconds per step, pairs per second and their ratio.
"""

import argparse
import json
import time

import numpy as np
import torch
from torch import nn
from torch.nn.functional import normalize

from limner.config import build
from limner.research.datasets.pairs import Pair, PairSet
from limner.research.systems.complementary import SYSTEM
from limner.research.systems.complementary.model import ComplementaryConfig
from limner.research.training.corpus import ArrayRows, corpus_of


class Heads(nn.Module):
    """K heads, one after the other."""

    def __init__(self, width, hidden, heads, dim):
        super().__init__()
        self.first = nn.Linear(width, hidden, bias=False)
        self.second = nn.ModuleList(nn.Linear(hidden, 1, bias=False) for _ in range(heads))
        self.project, self.norm = nn.Linear(width, dim), nn.LayerNorm(dim)

    def forward(self, parts, whole, padding=None):
        """Vectors and residuals."""
        vectors, residuals = [], []
        seen = torch.tanh(self.first(parts))
        for head in self.second:
            energy = head(seen)
            if padding is not None:
                energy = energy.masked_fill(padding[:, :, None], -torch.inf)
            mixed = (energy.softmax(dim=1) * parts).sum(dim=1)
            residuals.append(torch.sigmoid(self.project(mixed)))
            vectors.append(normalize(self.norm(whole + residuals[-1]), dim=1))
        return torch.stack(vectors, dim=1), torch.stack(residuals, dim=1)


class Plain(nn.Module):
    """The heads one by one, as docs/methods/complementary.md §2.1 writes them."""

    def __init__(self, words, width, own):
        super().__init__()
        self.embedding = nn.Embedding(words, own.word_width, padding_idx=0)
        self.ahead = nn.GRU(own.word_width, own.dim // 2, batch_first=True)
        self.back = nn.GRU(own.word_width, own.dim // 2, batch_first=True)
        self.of_words = Heads(own.word_width, own.text_hidden, own.heads, own.dim)
        self.whole = nn.Linear(width, own.dim)
        self.of_places = Heads(width, own.image_hidden, own.heads, own.dim)

    def forward(self, ids, lengths, grids):
        """Vectors and residuals of texts, then of grids."""
        words, sizes = self.embedding(ids), lengths.tolist()
        turned = torch.stack(
            [torch.cat([row[:size].flip(0), row[size:]]) for row, size in zip(words, sizes, strict=True)]
        )
        ends = []
        for gru, given in ((self.ahead, words), (self.back, turned)):
            states = gru(given)[0]
            ends.append(torch.stack([states[row, size - 1] for row, size in enumerate(sizes)]))
        texts = self.of_words(words, torch.cat(ends, dim=1), ids == 0)
        return *texts, *self.of_places(grids, self.whole(grids.mean(dim=1)))


def same_weights(plain, model):
    """Give the plain model the weights of limner's."""
    with torch.no_grad():
        plain.embedding.load_state_dict(model.words.embedding.state_dict())
        for name, weight in model.words.gru.named_parameters():
            gru = plain.back if name.endswith("_reverse") else plain.ahead
            getattr(gru, name.removesuffix("_reverse")).copy_(weight)
        plain.whole.load_state_dict(model.grid.whole.state_dict())
        for mine, own in ((plain.of_words, model.words.heads), (plain.of_places, model.grid.heads)):
            for part in ("first", "project", "norm"):
                getattr(mine, part).load_state_dict(getattr(own, part).state_dict())
            for number, head in enumerate(mine.second):
                head.weight.copy_(own.second.weight[number : number + 1])


def kernel(x, y):
    """Mean of exp(−‖a − b‖/2)."""
    return torch.exp(-0.5 * torch.cdist(x, y)).mean()


def plain_loss(model, batch, config):
    """Hinge, diversity and domain with loops over items."""
    texts, text_residuals, images, image_residuals = model(batch.words, batch.lengths, batch.pictures)
    table = torch.stack([(text @ images.transpose(1, 2)).amax(dim=(1, 2)) for text in texts])
    right = table.diagonal()
    by_text = (table - right[:, None] + config.margin).clamp(min=0)
    by_image = (table - right + config.margin).clamp(min=0)
    loss = ((by_text + by_image) * batch.neg).sum() / (2 * len(texts) ** 2)
    for residuals in (text_residuals, image_residuals):
        parts = []
        for one in residuals:
            rows = normalize(one, dim=1)
            gram = rows @ rows.t()
            parts.append(torch.linalg.matrix_norm(gram - torch.diag(gram.diagonal())) / len(rows) ** 2)
        loss = loss + config.diversity_weight * torch.stack(parts).mean()
    x, y = texts.flatten(0, 1), images.flatten(0, 1)
    return loss + config.domain_weight * (kernel(x, x) - 2 * kernel(x, y) + kernel(y, y))


def made_up(options):
    """Texts of 5 to `words` words and grids."""
    rng = np.random.default_rng(0)
    pairs = []
    for number in range(options.pairs):
        length = rng.integers(5, options.words + 1)
        text = " ".join(f"word{n}" for n in rng.integers(0, 3000, length))
        pairs.append(
            Pair(id=str(number), text=text, image=f"{number}.jpg", split="train" if number else "val")
        )
    grids = rng.standard_normal((options.pairs, 49, options.width)).astype(np.float16)
    ids = [pair.image_id for pair in pairs]
    return corpus_of(PairSet("made-up", (), tuple(pairs)), ArrayRows(ids, grids))


def step(optimiser, loss):
    """One update, clipped as training does."""
    optimiser.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(optimiser.param_groups[0]["params"], 2.0)
    optimiser.step()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--heads", type=int, default=5)
    parser.add_argument("--dim", type=int, default=1024)
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--words", type=int, default=40)
    parser.add_argument("--pairs", type=int, default=129)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    values = {
        "system": "complementary",
        "method": "pvse",
        "backbone": "frozen",
        "data": {"set": "pairs", "vectors": "random", "batch": options.batch, "max_length": options.words},
        "model": {"heads": options.heads, "dim": options.dim},
    }
    config = build(ComplementaryConfig, values, "benchmark")
    task = SYSTEM.prepare(config, made_up(options)).task
    plain = Plain(len(task.model.vocabulary), options.width, config.model)
    same_weights(plain, task.model)
    batch = next(iter(task.batches(0)))
    torch.testing.assert_close(
        plain_loss(plain, batch, config), task.step(batch)["total"], atol=1e-3, rtol=1e-3
    )
    ours, theirs = (torch.optim.Adam(list(one.parameters()), lr=1e-4) for one in (task.model, plain))
    ways = {
        "limner": lambda batch: step(ours, task.step(batch)["total"]),
        "plain": lambda batch: step(theirs, plain_loss(plain, batch, config)),
    }
    seconds = {name: [] for name in ways}
    epoch = 0
    while len(seconds["plain"]) <= options.steps:
        for batch in task.batches(epoch):
            for name, way in ways.items():
                start = time.perf_counter()
                way(batch)
                seconds[name].append(time.perf_counter() - start)
        epoch += 1
    median = {name: float(np.median(times[1:])) for name, times in seconds.items()}
    least = {name: min(times[1:]) for name, times in seconds.items()}
    print(
        json.dumps(
            {
                "threads": options.threads,
                "steps": len(seconds["plain"]) - 1,
                "step_s": median,
                "least_step_s": least,
                "pairs_per_s": {name: round(options.batch / one, 1) for name, one in median.items()},
                "times_plain": round(median["plain"] / median["limner"], 2),
                "times_plain_of_the_least": round(least["plain"] / least["limner"], 2),
            }
        )
    )


if __name__ == "__main__":
    main()
