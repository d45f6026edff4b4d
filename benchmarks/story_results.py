"""Illustrated stories with trained models: per step, with sequence decoding, with the first picture pinned.

The text model ranks pictures per step; the same-document metric says how pictures of one story go together.
How many nats a unit of either is worth is chosen on validation stories by mean reciprocal rank, per decoder;
the test stories are then measured once. Intervals resample stories; figures are means over the seeds' runs.

    python benchmarks/story_results.py --runs runs/dual-0 --metrics runs/document-0
"""

import argparse
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from limner.apps.corpora import open_corpus
from limner.apps.document_pull import read_pull
from limner.apps.run_pictures import open_run
from limner.apps.validation import vectors
from limner.data.pairs import one_row_per_pair
from limner.evaluation.ranking import Metric, rank
from limner.evaluation.uncertainty import interval
from limner.retrieval.decoding import max_marginals
from limner.retrieval.lattice import TablePull, lattice
from limner.training.corpus import rows_of
from limner.training.story_batches import stories_of

SHOWN = ("R@1", "R@5", "R@10", "MedR", "MRR", "StR@1")
SCALES = (5.0, 10.0, 20.0, 40.0)  # nats per unit of cosine between text and picture
FACTORS = (0.0, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)  # times the evidence of the metric
DECODERS = ("chain", "anchor")


@dataclass(frozen=True)
class Part:
    """Stories of one part: scores, what pictures say for each other, and what is right.

    Attributes:
        scores: (N, M) cosines of steps with all different pictures.
        pull: (M, M) nats of one story against different ones; 0 with itself.
        columns: (N,) the picture of each step.
        stories: rows of each story, in order.
        names: (N,) story of each step.
    """

    scores: np.ndarray
    pull: np.ndarray
    columns: np.ndarray
    stories: list
    names: list


def opened(run, metric, weights, part):
    model, config = open_run(run)
    judge, _ = open_run(metric)
    data, pictures = open_corpus(config.data, weights=weights)
    pairs = one_row_per_pair(data.split(part))
    rows = rows_of(pairs, pictures, ())
    texts, images, columns = vectors(model, pictures, rows)
    first = np.unique(columns, return_index=True)[1]
    seen = judge.encode_image(pictures.take(rows.places[first]))
    evidence = read_pull(metric)
    pull = (seen @ seen.T).astype(np.float64) * evidence.slope + evidence.offset
    np.fill_diagonal(pull, 0.0)
    return Part(
        model.score(texts, images).astype(np.float64),
        pull,
        columns,
        stories_of(pairs),
        [pair.seq or pair.id for pair in pairs],
    )


def decoded(part, scale, factor, decoder):
    """(N, M) max-marginals; the scores themselves where nothing is decoded."""
    found = part.scores * scale
    if decoder == "off" or factor == 0:
        return found
    every = np.arange(part.scores.shape[1])
    pull = TablePull(factor * part.pull)
    for story in part.stories:
        problem = lattice(found[story], every, pull, allow_repeats=True)
        found[story] = max_marginals(problem, decoder)
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
    return found, [part.names[row] for row in chosen]


def mrr(values):
    return float(np.mean([one["MRR"].mean() for one in values]))


def chosen_on(parts):
    """Decoder → (scale, factor), and those of the pin; by mean reciprocal rank over the seeds."""
    found = {"off": (1.0, 0.0)}
    for decoder in DECODERS:
        tried = {
            (scale, factor): mrr([figures(p, decoded(p, scale, factor, decoder))[0] for p in parts])
            for scale in SCALES
            for factor in FACTORS
        }
        found[decoder] = max(tried, key=tried.get)
    tried = {}
    for scale in SCALES:
        for factor in FACTORS:
            values = []
            for part in parts:
                rows, table = pinned(part, scale, factor)
                values.append(figures(part, table, rows)[0])
            tried[scale, factor] = mrr(values)
    found["pin"] = max(tried, key=tried.get)
    return found


def line(name, parts):
    """Means over seeds, with intervals by story."""
    cells = {}
    for metric in SHOWN:
        values = np.concatenate([one[0][metric] for one in parts])
        groups = [group for one in parts for group in one[1]]
        cells[metric] = interval(values, groups, Metric.parse(metric).statistic)
    shown = []
    for metric, one in cells.items():
        times, digits = {"MedR": (1, 0), "MRR": (1, 3)}.get(metric, (100, 1))
        shown.append(
            f"{times * one.value:.{digits}f} [{times * one.low:.{digits}f}, {times * one.high:.{digits}f}]"
        )
    print(f"| {name} | {' | '.join(shown)} |", flush=True)
    return {metric: [one.value, one.low, one.high] for metric, one in cells.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=Path, nargs="+", required=True)
    parser.add_argument("--metrics", type=Path, nargs="+", required=True, help="one per run")
    parser.add_argument("--weights", type=Path)
    parser.add_argument("--part", choices=("test", "val"), default="test", help="to print")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    pairs = list(zip(options.runs, options.metrics, strict=True))
    chosen = chosen_on([opened(run, metric, options.weights, "val") for run, metric in pairs])
    print(f"chosen on validation (nats per unit of cosine, factor of the metric): {chosen}")
    parts = [opened(run, metric, options.weights, options.part) for run, metric in pairs]
    queries, pictures = parts[0].scores.shape
    print(f"\n{queries} pages of {len(parts[0].stories)} stories, {pictures} pictures, {len(parts)} seeds\n")
    print(f"| | {' | '.join(SHOWN)} |\n|---|{'---|' * len(SHOWN)}")
    found = {}
    for decoder in ("off", *DECODERS):
        done = [figures(part, decoded(part, *chosen[decoder], decoder)) for part in parts]
        found[decoder] = line("per step" if decoder == "off" else f"{decoder} decoding", done)
    for name, (scale, factor) in (
        ("other pages, no pin", (chosen["pin"][0], 0.0)),
        ("other pages, first picture pinned", chosen["pin"]),
    ):
        done = []
        for part in parts:
            rows, table = pinned(part, scale, factor)
            done.append(figures(part, table, rows))
        found[name] = line(name, done)
    if options.json:
        options.json.write_text(json.dumps({"chosen": chosen, options.part: found}, indent=1))


if __name__ == "__main__":
    main()
