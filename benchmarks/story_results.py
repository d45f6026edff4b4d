"""Illustrated stories with trained models: per step, with sequence decoding, with the first picture pinned.

Makes: docs/results/index.md, docs/results/limner.md, docs/results/limner-appendix.md,
  docs/results/stories.md (decoding, one picture given)

The text model ranks pictures per step; what pictures say for each other comes from a same-document metric
or from the looks of a run of limner itself. For scene graphs there is `limner measure --pairwise graphs`.
How many nats a unit of either is worth is chosen on validation stories by mean reciprocal rank, per decoder;
the test stories are then measured once. Intervals resample stories; figures are means over the seeds' runs.
Each row with the first picture given has a row without any text beside it, where the pictures alone rank.

    python benchmarks/story_results.py --runs runs/dual-0 --metrics runs/document-0
    python benchmarks/story_results.py --runs runs/limner-0 --looks --set howto
"""

import json
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np
import torch
from harness import arguments
from scipy.special import softmax

from limner.errors import DataError
from limner.research.datasets.mixture import set_of
from limner.research.datasets.pairs import one_row_per_pair
from limner.research.evaluation.ranking import Metric, rank
from limner.research.evaluation.sequences import by_story, coherence
from limner.research.evaluation.uncertainty import difference, interval
from limner.research.runs.coupled import Coupled
from limner.research.runs.measure import fixed_features
from limner.research.runs.metric import fit_pairwise, read_pairwise
from limner.research.runs.run import Run, vectors
from limner.research.scenes.extra_encoders import with_extra_encoders
from limner.research.training.corpus import Corpus, open_corpus, rows_of

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
class Part(Coupled):
    """Stories of one part: scores, what pictures say for each other in nats, and what is right.

    Attributes:
        alike: (M, M) cosines of a metric or of looks.
        features: (M, F) that no run has trained, or None: what coherence of found pictures is asked of.
    """

    alike: np.ndarray
    features: np.ndarray | None = None

    def weighed(self, way, scale, factor):
        """Rows, and what ranks all pictures for each, with the cosines of the texts weighed too."""
        return replace(self, scores=scale * self.scores).ranked(way, factor)


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
    data, pictures = open_corpus(
        config.data, layer=opened.can.layer, weights=weights, extra_encoders=with_extra_encoders
    )
    data = set_of(data, of) if of else data
    pairs = sorted(one_row_per_pair(data.split(part)), key=lambda pair: (pair.seq or pair.id, pair.pos or 0))
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
        tuple(pair.seq or pair.id for pair in pairs),
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


def told(part):
    """As a pin, but only the story's own other pictures are left: the most that knowing it is worth."""
    rows, table = part.weighed("pin", 1.0, 0.0)
    below = table.min() - 1.0
    left = np.full_like(table, below)
    for query, row in enumerate(rows):
        own = [part.columns[other] for other in by_story(part.stories)[part.stories[row]]]
        left[query, own] = table[query, own]
    left[table == table.min(axis=1, keepdims=True)] = below  # the pinned picture
    return rows, left


def figures(part, rows, table):
    """Metric → per-query values, and the story of each."""
    ranking = rank(table, part.columns[rows][:, None].tolist())
    own = {name: sorted(set(part.columns[steps])) for name, steps in by_story(part.stories).items()}
    same = rank(table, [own[part.stories[row]] for row in rows])
    metrics = {name: Metric.parse(name) for name in SHOWN}
    found = {name: one.values(same if one.kind == "StR" else ranking) for name, one in metrics.items()}
    if len(rows) == len(part.columns) and part.features is not None:
        first = coherence(part.features, table.argmax(axis=1), part.stories)
        found[COHERENCE] = np.array(first, dtype=float)
    return found, [part.stories[row] for row in rows]


def weights(parts, way, scales=SCALES, factors=FACTORS):
    """Mean reciprocal rank over the seeds, and its (scale, factor): the best of a way on these parts."""

    def reciprocal(chosen):
        done = [(part, *part.weighed(way, *chosen)) for part in parts]
        ranks = [rank(table, part.columns[rows][:, None].tolist()) for part, rows, table in done]
        return float(np.mean([Metric.parse("MRR").values(one).mean() for one in ranks]))

    return max(((reciprocal(one), one) for one in product(scales, factors)), key=lambda pair: pair[0])


def chosen_walk(parts, scales=SCALES):
    """(temperature, stay), and (scale, factor), of a pin whose pull walks."""
    tried = {walk: weights([walked(one, *walk) for one in parts], "pin", scales, REACHED) for walk in WALKS}
    best = max(tried, key=lambda walk: tried[walk][0])
    return best, tried[best][1]


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


def main():
    parser = arguments(__doc__)
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
    chosen = {"each": (1.0, 0.0)} | {way: weights(held, way)[1] for way in (*options.decoders, "pin")}
    chosen["walk"], chosen["walked pin"] = chosen_walk(held)
    chosen["walk without text"], _ = chosen_walk(held, scales=(0.0,))
    print(f"chosen on validation (weight of the texts' cosine, of the pull): {chosen}")
    parts = every(options.part)
    queries, pictures = parts[0].scores.shape
    stories = len(set(parts[0].stories))
    print(f"\n{queries} pages of {stories} stories, {pictures} pictures, {len(parts)} seeds\n")
    names = (*SHOWN, *((COHERENCE,) if parts[0].features is not None else ()))
    print(f"| | {' | '.join(names)} |\n|---|{'---|' * len(names)}")
    scale, factor = chosen["pin"]
    ways = {
        "per step" if way == "each" else f"{way} decoding": lambda part, way=way: part.weighed(
            way, *chosen[way]
        )
        for way in ("each", *options.decoders)
    }
    ways |= {
        "other pages, no pin": lambda part: part.weighed("pin", scale, 0.0),
        "other pages, first picture pinned": lambda part: part.weighed("pin", scale, factor),
        "other pages, first picture pinned, no text": lambda part: part.weighed("pin", 0.0, 1.0),
        "other pages, the story's own pictures given": told,
        "other pages, pinned, by walks over likes": lambda part: walked(part, *chosen["walk"]).weighed(
            "pin", *chosen["walked pin"]
        ),
        "other pages, pinned, by walks over likes, no text": lambda part: walked(
            part, *chosen["walk without text"]
        ).weighed("pin", 0.0, 1.0),
    }
    found = {name: line(name, [figures(part, *way(part)) for part in parts]) for name, way in ways.items()}
    if options.against:
        compare(found, json.loads(options.against.read_text())[options.part])
    if options.json:
        options.json.write_text(json.dumps({"chosen": chosen, options.part: found}, indent=1))


if __name__ == "__main__":
    main()
