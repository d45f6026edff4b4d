"""Illustrated stories with trained models: per step, with sequence decoding, with the first picture pinned.

Makes: docs/results/index.md, docs/results/limner.md, docs/results/limner-appendix.md,
  docs/results/stories.md (decoding, one picture given)

The text model ranks pictures per step; what pictures say for each other comes from a same-document metric
or from the looks of a run of limner itself. With scene graphs `limner measure --pull graphs` does the same.
How many nats a unit of either is worth is chosen on validation stories by mean reciprocal rank, per decoder;
the test stories are then measured once. Intervals resample stories; figures are means over the seeds' runs.
Each row with the first picture given has a row without any text beside it, where the pictures alone rank.

    python benchmarks/story_results.py --runs runs/dual-0 --metrics runs/document-0
    python benchmarks/story_results.py --runs runs/limner-0 --looks --set howto
"""

import argparse
import json
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from scipy.special import softmax

from limner.errors import DataError
from limner.research.datasets.mixture import set_of
from limner.research.datasets.pairs import one_row_per_pair
from limner.research.evaluation.decoding import max_marginals
from limner.research.evaluation.ranking import Metric, rank
from limner.research.evaluation.sequences import coherence
from limner.research.evaluation.uncertainty import difference, interval
from limner.research.runs.measure import fixed_features
from limner.research.runs.metric import fit_pairwise, read_pairwise
from limner.research.runs.run import Run, vectors
from limner.research.scenes.beside import beside
from limner.research.training.corpus import Corpus, open_corpus, rows_of, stories_of

SHOWN = ("R@1", "R@5", "R@10", "MedR", "MRR", "StR@1")
SCALES = (5.0, 10.0, 20.0, 40.0)  # nats per unit of cosine between text and picture
FACTORS = (0.0, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)  # times the evidence of the metric
DECODERS = ("chain", "anchor")
WALKS = [(temperature, stay) for temperature in (0.035, 0.05, 0.07) for stay in (0.8, 0.95)]
REACHED = (0.2, 0.5, 1.0, 2.0)  # times the logarithm of what walks bring
LEAST = 1e-6
COHERENCE = "coherence"
PAGES, STORIES = "pages", "stories"


@dataclass(frozen=True)
class Part:
    """Stories of one part: scores, what pictures say for each other, and what is right.

    Attributes:
        scores: (N, M) cosines of steps with all different pictures.
        pull: (M, M) nats of one story against different ones; 0 with itself.
        columns: (N,) the picture of each step.
        stories: rows of each story, in order.
        names: (N,) story of each step.
        alike: (M, M) cosines of a metric or of looks.
        features: (M, F) that no run has trained, or None: what coherence of found pictures is asked of.
    """

    scores: np.ndarray
    pull: np.ndarray
    columns: np.ndarray
    stories: list
    names: list
    alike: np.ndarray
    features: np.ndarray | None = None


class Looks:
    """The looks of a run of limner, as a metric."""

    def __init__(self, model):
        self.model, self.device = model, model.device

    def encode_image(self, rows):
        """(B, R) stored rows → (B, L) unit rows."""
        with torch.no_grad():
            values = torch.from_numpy(rows.astype(np.float32)).to(self.device)
            return self.model.looks(self.model.features_of(values), values).cpu().numpy()


def opened(run, weights, part, metric=None, *, of=""):
    """One part as a run sees it, with the pull of a metric or of looks."""
    opened = Run.open(run)
    model, config = opened.model, opened.config
    data, pictures = open_corpus(config.data, layer=opened.can.layer, weights=weights, beside=beside)
    data = set_of(data, of) if of else data
    pairs = one_row_per_pair(data.split(part))
    rows = rows_of(pairs, pictures, ())
    texts, images, columns = vectors(model, pictures, rows, opened.can)
    first = np.unique(columns, return_index=True)[1]
    ids = [pairs[row].image_id for row in first]
    if metric is None:
        judge, looked = Looks(model), pictures
        val = rows_of(one_row_per_pair(data.split("val")), pictures, ())
        evidence = fit_pairwise(judge, Corpus(data.name, (), val, val, pictures))  # of validation alone
    else:
        trained = Run.open(metric)
        judge, looked, evidence = trained.model, trained.data(weights=weights)[1], read_pairwise(metric)
    seen = judge.encode_image(looked.take(looked.places(ids)))
    alike = (seen @ seen.T).astype(np.float64)
    pull = alike * evidence.slope + evidence.offset
    np.fill_diagonal(pull, 0.0)
    pooled = (
        pictures
        if opened.can.layer in {"blocks", "described"}
        else open_corpus(config.data, weights=weights)[1]
    )
    features, _, similar = fixed_features(pooled, ids)
    if features is not None and not similar:
        features = features - features.mean(axis=0)  # as in the tables
    return Part(
        model.score(texts, images).astype(np.float64),
        pull,
        columns,
        stories_of(pairs),
        [pair.seq or pair.id for pair in pairs],
        alike,
        features,
    )


def walked(part, temperature, stay):
    """The part, whose pull is the logarithm of what walks from a picture over its likes bring to each other.

    A picture's step leads to the others by the softmax of their cosines over the temperature; with S the mean
    of these shares both ways, evened by both pictures' sums, walks of all lengths bring Σ stayⁿ Sⁿ.

    Source: Zhou et al. 2004, Ranking on Data Manifolds.
    """
    steps = part.alike / temperature
    np.fill_diagonal(steps, -np.inf)
    shares = softmax(steps, axis=1)
    mutual = (shares + shares.T) / 2
    sums = mutual.sum(axis=1)
    even = mutual / np.sqrt(sums[:, None] * sums)
    reached = np.linalg.inv(np.eye(len(even)) - stay * even)
    return replace(part, pull=np.log(reached + LEAST))


def decoded(part, scale, factor, decoder):
    """(N, M) max-marginals; the scores themselves where nothing is decoded."""
    found = part.scores * scale
    if decoder == "off" or factor == 0:
        return found
    for story in part.stories:
        found[story] = max_marginals(found[story], factor * part.pull, decoder)
    return found


def pinned(part, scale, factor):
    """(N', M) scores of all steps but the first of a story, with the first step's own picture pinned."""
    kept, tables = [], []
    for story in part.stories:
        rest, pin = story[1:], part.columns[story[0]]
        if not len(rest):
            continue
        table = part.scores[rest] * scale + factor * part.pull[pin]
        table[:, pin] = table.min() - 1.0  # it is shown already
        own = part.columns[rest] != pin
        kept.append(rest[own])
        tables.append(table[own])
    return np.concatenate(kept), np.concatenate(tables)


def told(part):
    """As `pinned`, but only the story's own other pictures are left: the most that knowing it is worth."""
    rows, table = pinned(part, 1.0, 0.0)
    below = table.min() - 1.0
    own = {}
    for name, column in zip(part.names, part.columns.tolist(), strict=True):
        own.setdefault(name, []).append(column)
    left = np.full_like(table, below)
    for query, row in enumerate(rows):
        left[query, own[part.names[row]]] = table[query, own[part.names[row]]]
    left[table == table.min(axis=1, keepdims=True)] = below  # the pinned picture
    return rows, left


def figures(part, table, rows=None):
    """Metric → per-query values."""
    chosen = np.arange(len(part.columns)) if rows is None else rows
    ranking = rank(table, part.columns[chosen][:, None].tolist())
    own = {}
    for name, column in zip(part.names, part.columns.tolist(), strict=True):
        own.setdefault(name, set()).add(column)
    worlds = rank(table, [sorted(own[part.names[row]]) for row in chosen])
    found = {}
    for name in SHOWN:
        metric = Metric.parse(name)
        found[name] = metric.values(worlds if metric.kind == "StR" else ranking)
    if rows is None and part.features is not None:
        alike = coherent(part, table)
        found[COHERENCE] = np.array([np.nan if value is None else value for value in alike])
    return found, [part.names[row] for row in chosen]


def coherent(part, table):
    """(N,) cosine of every first picture's features and those of the first of the step before."""
    found = [None] * len(part.columns)
    best = table.argmax(axis=1)
    for story in part.stories:
        for row, value in zip(story, coherence(part.features, best[story], [""] * len(story)), strict=True):
            found[row] = value
    return found


def mrr(values):
    return float(np.mean([one["MRR"].mean() for one in values]))


def chosen_on(parts, decoders):
    """Decoder → (scale, factor), and those of the pin; by mean reciprocal rank over the seeds."""
    found = {"off": (1.0, 0.0)}
    for decoder in decoders:
        tried = {
            (scale, factor): mrr([figures(p, decoded(p, scale, factor, decoder))[0] for p in parts])
            for scale in SCALES
            for factor in FACTORS
        }
        found[decoder] = max(tried, key=tried.get)
    tried = {}
    for scale in SCALES:
        for factor in FACTORS:
            done = [(part, *pinned(part, scale, factor)) for part in parts]
            tried[scale, factor] = mrr([figures(part, table, rows)[0] for part, rows, table in done])
    found["pin"] = max(tried, key=tried.get)
    return found


def chosen_walk(parts, scales=SCALES):
    """(temperature, stay), and (scale, factor), of a pin whose pull walks; chosen as in `chosen_on`."""
    tried = {}
    for walk in WALKS:
        ways = [walked(part, *walk) for part in parts]
        for scale in scales:
            for factor in REACHED:
                done = [pinned(way, scale, factor) for way in ways]
                values = [figures(way, table, rows)[0] for way, (rows, table) in zip(ways, done, strict=True)]
                tried[walk, (scale, factor)] = mrr(values)
    return max(tried, key=tried.get)


def line(name, parts):
    """Means over seeds, with intervals by story."""
    cells = {}
    for metric in (*SHOWN, COHERENCE):
        if not all(metric in one[0] for one in parts):
            continue
        values = np.concatenate([one[0][metric] for one in parts])
        groups = [group for one in parts for group in one[1]]
        counted = ~np.isnan(values)
        statistic = "mean" if metric == COHERENCE else Metric.parse(metric).statistic
        kept = [group for group, there in zip(groups, counted, strict=True) if there]
        cells[metric] = interval(values[counted], kept, statistic)
    shown = []
    for metric, one in cells.items():
        times, digits = {"MedR": (1, 0), "MRR": (1, 3), COHERENCE: (1, 3)}.get(metric, (100, 1))
        shown.append(
            f"{times * one.value:.{digits}f} [{times * one.low:.{digits}f}, {times * one.high:.{digits}f}]"
        )
    print(f"| {name} | {' | '.join(shown)} |", flush=True)
    found = {metric: [one.value, one.low, one.high] for metric, one in cells.items()}
    pages = np.mean([one[0]["R@10"] for one in parts], axis=0)
    return found | {PAGES: pages.tolist(), STORIES: parts[0][1]}


def compare(found, before):
    """Differences of R@10 by page: the runs of now against those of an earlier call."""
    print("\n| R@10 against the other runs | |\n|---|---|")
    for name, one in found.items():
        if name not in before:
            print(f"| {name} | not in --against |")
            continue
        other = before[name]
        if one[STORIES] != other[STORIES]:
            raise DataError(f"{name}: not the same pages as in --against; measure both on one set and part")
        gap = difference(np.array(one[PAGES]), np.array(other[PAGES]), one[STORIES])
        print(f"| {name} | {100 * gap.value:+.1f} [{100 * gap.low:+.1f}, {100 * gap.high:+.1f}] |")


def report(options, chosen, found):
    """What was asked for beside the tables."""
    if options.against:
        compare(found, json.loads(options.against.read_text())[options.part])
    if options.json:
        options.json.write_text(json.dumps({"chosen": chosen, options.part: found}, indent=1))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=Path, nargs="+", required=True)
    pull = parser.add_mutually_exclusive_group(required=True)
    pull.add_argument("--metrics", type=Path, nargs="+", help="one per run")
    pull.add_argument(
        "--looks", action="store_true", help="those of the runs themselves, of the system limner"
    )
    parser.add_argument("--set", default="", help="of a mixture that the runs were trained on")
    parser.add_argument(
        "--decoders", nargs="*", choices=DECODERS, default=DECODERS, help="none for a pin alone"
    )
    parser.add_argument("--weights", type=Path)
    parser.add_argument("--part", choices=("test", "val"), default="test", help="to print")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--against", type=Path, help="--json of the same part with other runs")
    options = parser.parse_args()
    metrics = options.metrics or [None] * len(options.runs)
    pairs = list(zip(options.runs, metrics, strict=True))

    def every(part):
        return [opened(run, options.weights, part, metric, of=options.set) for run, metric in pairs]

    held = every("val")
    chosen = chosen_on(held, options.decoders)
    chosen["walk"], chosen["walked pin"] = chosen_walk(held)
    chosen["walk without text"], _ = chosen_walk(held, scales=(0.0,))
    print(f"chosen on validation (weight of the texts' cosine, of the pull): {chosen}")
    parts = every(options.part)
    queries, pictures = parts[0].scores.shape
    print(f"\n{queries} pages of {len(parts[0].stories)} stories, {pictures} pictures, {len(parts)} seeds\n")
    names = (*SHOWN, *((COHERENCE,) if parts[0].features is not None else ()))
    print(f"| | {' | '.join(names)} |\n|---|{'---|' * len(names)}")
    found = {}
    for decoder in ("off", *options.decoders):
        scale, factor = chosen[decoder]
        done = [figures(part, decoded(part, scale, factor, decoder)) for part in parts]
        found[decoder] = line("per step" if decoder == "off" else f"{decoder} decoding", done)
    scale, factor = chosen["pin"]
    ways = {
        "other pages, no pin": lambda part: pinned(part, scale, 0.0),
        "other pages, first picture pinned": lambda part: pinned(part, scale, factor),
        "other pages, first picture pinned, no text": lambda part: pinned(part, 0.0, 1.0),
        "other pages, the story's own pictures given": told,
        "other pages, pinned, by walks over likes": lambda part: pinned(
            walked(part, *chosen["walk"]), *chosen["walked pin"]
        ),
        "other pages, pinned, by walks over likes, no text": lambda part: pinned(
            walked(part, *chosen["walk without text"]), 0.0, 1.0
        ),
    }
    for name, way in ways.items():
        found[name] = line(
            name, [figures(part, table, rows) for part in parts for rows, table in [way(part)]]
        )
    report(options, chosen, found)


if __name__ == "__main__":
    main()
