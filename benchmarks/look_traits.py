"""What tells that two pictures are of one story: the backbone's stages, and traits of the files beside them.

Makes: docs/results/limner-appendix.md (what tells a story's pictures)

Trains the looks of limner's own model alone, on stored features, on three quarters of the training stories,
and asks every picture of the other quarter and of the validation stories for the other pictures of its story
among all of these: average precision. Prints means over the seeds, per set, with differences from the
backbone's stages alone (95 % intervals by bootstrap over stories). No test row is read. Of the rows of the
table, those that were rejected (shorter side, layout, borders, grain, batches of what looks alike) stand on
the page alone.

    python benchmarks/look_traits.py --features features --seeds 0 1 2
"""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from limner_steps import settings
from sklearn.metrics import average_precision_score
from torch import nn
from torch.nn.functional import normalize

from limner.encoders.base_file import WIDTHS
from limner.encoders.base_network import Projection
from limner.research.datasets.features import FeatureKey, extract, pictures_of
from limner.research.datasets.mixture import set_of
from limner.research.evaluation.uncertainty import difference
from limner.research.losses.contrastive import same_group
from limner.research.scenes.beside import TRAITS_WIDTH, WAVES, picture_traits
from limner.research.systems.limner.model import TRAITS_SPACE
from limner.research.training.corpus import open_corpus

SETS = ("storybook", "howto", "recipes")
LOOKS = slice(0, 2 * sum(WIDTHS[:5]))
"""Columns of the stages that looks read."""
WIDTH, DROPOUT, SHARE, TOGETHER, BATCH = 256, 0.5, 0.3, 4, 256
COLUMNS = {"aspect": range(2 * WAVES), "palette": range(2 * WAVES, TRAITS_WIDTH)}
ROWS = (
    ("stages of the backbone", (), 0.1),
    ("temperature 0.05", (), 0.05),
    *((f"and {name}", (name,), 0.05) for name in COLUMNS),
    ("and aspect, palette", tuple(COLUMNS), 0.05),
)


class Looks(nn.Module):
    """As `limner.research.systems.limner.Limner.looks`."""

    def __init__(self, stages, traits):
        super().__init__()
        self.stages = Projection(stages, WIDTH, dropout=DROPOUT)
        self.traits = Projection(traits, TRAITS_SPACE) if traits else None
        self.share = nn.Parameter(torch.tensor(SHARE))

    def forward(self, stages, traits):
        """(B, ·) standardised stages and traits → (B, ·) unit rows."""
        made = self.stages(stages)
        if self.traits is None:
            return made
        return normalize(torch.cat([made, self.share * self.traits(traits)], dim=1), dim=1)


def batches(stories, random):
    """Rows of every batch: at most four pictures of a story together, as limner deals them."""
    chunks, waiting = [], {}
    for row in random.permutation(len(stories)):
        begun = waiting.setdefault(stories[row], [])
        begun.append(row)
        if len(begun) == TOGETHER:
            chunks.append(waiting.pop(stories[row]))
    chunks += waiting.values()
    rows = np.array([row for chunk in random.permutation(len(chunks)) for row in chunks[chunk]])
    parts = np.array_split(rows, max(1, round(len(rows) / BATCH)))
    return [parts[number] for number in random.permutation(len(parts))]


def trained(parts, columns, temperature, seed, epochs):
    """Looks that were trained on the training part of every set: see `divided`."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        random = np.random.default_rng(seed)
        looks = Looks(next(iter(parts.values()))[0].shape[1], len(columns))
        optimiser = torch.optim.AdamW(looks.parameters(), lr=1e-3, weight_decay=1e-4)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, epochs)
        for _ in range(epochs):
            for name in random.permutation(list(parts)):
                stages, traits, stories = parts[name]
                for rows in batches(stories, random):
                    made = looks(stages[rows], traits[rows][:, columns])
                    loss = same_group(
                        made, torch.from_numpy(stories[rows]), torch.arange(len(rows)), temperature
                    )
                    optimiser.zero_grad()
                    loss.backward()
                    optimiser.step()
            schedule.step()
    return looks.eval()


def precision(made, stories):
    """Average precision of every picture that has another of its story, and their stories."""
    table, found, groups = made @ made.T, [], []
    for row, story in enumerate(stories):
        others = np.arange(len(stories)) != row
        own = stories[others] == story
        if own.any():
            found.append(average_precision_score(own, table[row, others]))
            groups.append(story)
    return np.array(found), groups


def divided(data, features, traits):
    """Set → rows that train and rows that are asked: stages, traits and numbers of stories.

    Stages and traits are standardised over all that train.
    """
    found = {}
    for name in SETS:
        pairs = {
            pair.image_id: pair for pair in set_of(data, name).pairs if pair.seq and pair.split != "test"
        }
        ids = list(pairs)
        numbers = {
            story: number for number, story in enumerate(sorted({pair.seq for pair in pairs.values()}))
        }
        stories = np.array([numbers[pair.seq] for pair in pairs.values()])
        train = np.array([pair.split == "train" for pair in pairs.values()])
        out = np.random.default_rng(0).permutation(np.unique(stories[train]))
        train &= ~np.isin(stories, out[: len(out) // 4])
        rows = features.take(features.places(ids))[:, LOOKS], traits.take(traits.places(ids))
        found[name] = [[part[own] for part in (*rows, stories)] for own in (train, ~train)]
    for kind in range(2):
        seen = np.concatenate([train[kind] for train, _ in found.values()])
        mean, deviation = seen.mean(axis=0), seen.std(axis=0) + 1e-3
        for both in found.values():
            for part in both:
                part[kind] = torch.from_numpy((part[kind] - mean) / deviation)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--features", type=Path, required=True, help="folder of stored features")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--rows", default="", help="those whose title holds this, after the first")
    options = parser.parse_args()
    config = settings(None, options)
    data, features = open_corpus(config.data, layer="described", mirrored=True)
    stories = tuple(pair for pair in data.pairs if pair.group.partition(":")[0] in SETS)
    data = replace(data, name="+".join(SETS), pairs=stories)
    key = FeatureKey(
        data=data.name, backbone="traits-alone", weights_sha256="1" * 64, transform="as large as it is"
    )
    told = extract(
        options.features,
        key,
        pictures_of(data),
        prepare=lambda image: picture_traits(image).view(np.uint8),
        forward=lambda batch: batch.view(np.float32),
        side_px=None,
    )
    parts = divided(data, features, told)
    train = {name: both[0] for name, both in parts.items()}
    print(f"| | {' | '.join(SETS)} |\n|---|{'---|' * len(SETS)}")
    before = None
    asked = {name: len(both[1][0]) for name, both in parts.items()}
    print(f"pictures that are asked: {asked}", file=sys.stderr)
    for title, names, temperature in [ROWS[0], *(row for row in ROWS[1:] if options.rows in row[0])]:
        columns = [column for name in names for column in COLUMNS[name]]
        found = {name: [] for name in SETS}
        for seed in options.seeds:
            looks = trained(train, columns, temperature, seed, options.epochs)
            for name, (_, (stages, told, own)) in parts.items():
                with torch.no_grad():
                    made = looks(stages, told[:, columns]).numpy()
                found[name].append(precision(made, own))
            print(f"{title}, seed {seed}", file=sys.stderr, flush=True)
        values = {name: np.concatenate([one for one, _ in runs]) for name, runs in found.items()}
        cells = []
        for name, runs in found.items():
            cell = f"{100 * values[name].mean():.1f}"
            if before is not None:
                gap = difference(values[name], before[name], [story for _, own in runs for story in own])
                cell += f" ({100 * gap.value:+.1f}, {100 * gap.low:+.1f} … {100 * gap.high:+.1f})"
            cells.append(cell)
        before = before or values
        print(f"| {title} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
