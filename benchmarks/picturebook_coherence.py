"""Does the coherence module help where its premise holds by construction, and not where it is broken?

Makes: docs/results/coherence.md (the coherence module in drawn worlds)

Trains Base, CMCA, CMCM-NoAttn, CMCM, one CMCM_c and the shuffled control on picture-book worlds over several
seeds, and measures test texts against all test pictures, plain and refined with (λ, T) chosen on validation.
Every model of a seed sees the same world. Results are appended as JSON lines; a run already there is skipped.
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch
from scipy.stats import t as student

from limner.research.datasets.pairs import shuffle_relations
from limner.research.evaluation.ranking import Metric, average_precision, rank
from limner.research.evaluation.refinement import pair_logits, refine
from limner.research.runs.run import vectors
from limner.research.runs.train import chosen_refinement, maximise, read_config, validation
from limner.research.systems.cmcm import SYSTEM
from limner.research.training.corpus import ArrayRows, corpus_of, rows_of
from limner.research.training.loop import Loop
from limner.research.worlds.book import RELATIONS, picture_book

CONFIGS = Path(__file__).parents[1] / "configs" / "cmcm"
ROWS = ("base", "cmca", "cmcm-noattn", "cmcm", "cmcm-shuffled", "cmcm-action")
METRICS = ("MedR", "R@1", "R@5", "R@10", "MRR")


def figures(ranking):
    return {name: Metric.parse(name)(ranking) for name in METRICS}


def measured(folder, corpus, test_rows):
    """Figures of the best weights on the test rows, which training never saw."""
    model, config = SYSTEM.load(folder)
    can = SYSTEM.capabilities(config)
    texts, images, columns = vectors(model, corpus.pictures, test_rows, can)
    scores, right = model.score(texts, images), columns[:, None].tolist()
    found = {"pictures": len(images), "queries": len(texts), "plain": figures(rank(scores, right))}
    if model.relations:
        chosen = chosen_refinement(model, corpus, can)
        refined = refine(scores, pair_logits(model, texts, images), chosen)
        found["refined"] = figures(rank(refined, right))
        found["strength"], found["threshold"] = chosen.strength, str(chosen.threshold)
        chances, labels = model.relation_probabilities(texts, images[columns]), test_rows.labels
        found["ap"] = {
            name: average_precision(chances[:, c], labels[:, c].astype(np.int64))
            for c, name in enumerate(model.relations)
            if labels[:, c].any()
        }
        found["prevalence"] = dict(zip(model.relations, labels.mean(axis=0).tolist(), strict=True))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", type=Path, required=True, help="folder of runs and results.jsonl")
    parser.add_argument("--rows", nargs="+", default=list(ROWS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--set", nargs="*", default=[], dest="overrides")
    parser.add_argument(
        "--show-only", action="store_true", help="print what results.jsonl holds, train nothing"
    )
    options = parser.parse_args()
    if options.show_only:
        show(options.to / "results.jsonl")
        return
    torch.set_num_threads(1)
    options.to.mkdir(parents=True, exist_ok=True)
    log = options.to / "results.jsonl"
    done = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    worlds = {}
    for seed in options.seeds:
        for name in options.rows:
            if any(one["row"] == name and one["seed"] == seed for one in done):
                continue
            words = ["preset=laptop", *options.overrides, f"loop.seed={seed}", f"data.world_seed={seed}"]
            file, relation = CONFIGS / f"{name}.toml", name.removeprefix("cmcm-")
            if relation in RELATIONS:
                file, words = CONFIGS / "cmcm.toml", [*words, f"data.relations=['{relation}']"]
            settings = read_config(file, words, "picturebook")
            key = (settings.data.stories, seed, settings.data.picture_px)
            if key not in worlds:
                worlds = {key: picture_book(*key)}
            data, pixels = worlds[key]
            if settings.data.shuffle_relations:
                data = shuffle_relations(data, seed)
            pictures = ArrayRows([pair.image_id for pair in data.pairs], pixels)
            corpus = corpus_of(data, pictures, settings.data.relations)
            folder = options.to / f"{name}-{seed}"
            start = time.perf_counter()
            prepared = SYSTEM.prepare(settings, corpus)
            loop = Loop(
                prepared.task,
                settings.loop,
                folder,
                validate=validation(corpus, SYSTEM.capabilities(settings)),
                maximise=maximise(settings.loop.metric),
                saved_with=prepared.saved_with,
            )
            position = loop.fit()
            seconds = time.perf_counter() - start
            test_rows = rows_of(data.split("test"), pictures, corpus.relations)
            result = {
                "row": name,
                "seed": seed,
                "seconds": round(seconds, 1),
                "best_epoch": position.best_epoch,
            }
            result |= measured(folder, corpus, test_rows)
            with log.open("a") as file:
                file.write(json.dumps(result) + "\n")
            print(json.dumps({k: v for k, v in result.items() if k not in ("ap", "prevalence")}), flush=True)
    show(log)


def show(log):
    """Print Markdown: figures by row, differences paired by seed, and precisions; seeds are the units."""
    by_row = {}
    for line in log.read_text().splitlines():
        one = json.loads(line)
        by_row.setdefault(one["row"], {})[one["seed"]] = one
    heads = [f"{m} {kind}" for kind in ("plain", "refined") for m in METRICS]
    print("Mean ± standard deviation over seeds.\n")
    headline(["model", "seeds", *heads])
    for row, seeds in by_row.items():
        cells = [spread(column(seeds, kind, m).values(), m) for kind in ("plain", "refined") for m in METRICS]
        print(f"| {row} | {len(seeds)} | " + " | ".join(cells) + " |")
    print("\nDifferences paired by seed (same world): mean [95 % t interval over seeds], not corrected.\n")
    headline(["difference", "seeds", *METRICS])
    for title, (seeds, kind), (others, other) in differences(by_row):
        pairs = {m: paired(column(seeds, kind, m), column(others, other, m)) for m in METRICS}
        count = len(pairs["MedR"])
        if count:
            cells = [t_interval(pairs[m], m) for m in METRICS]
            print(f"| {title} | {count} | " + " | ".join(cells) + " |")
    print("\nAverage precision, mean ± standard deviation over seeds, beside prevalence.\n")
    rows = [row for row in by_row if any("ap" in one for one in by_row[row].values())]
    relations = dict.fromkeys(c for row in rows for one in by_row[row].values() for c in one["ap"])
    headline(["relation", "prevalence", *rows])
    for relation in relations:
        shares = {
            seed: one["prevalence"][relation]
            for row in rows
            for seed, one in by_row[row].items()
            if relation in one["prevalence"]
        }
        cells = [
            spread([one["ap"][relation] for one in by_row[row].values() if relation in one["ap"]])
            for row in rows
        ]
        print(f"| {relation} | {np.mean(list(shares.values())):.3f} | " + " | ".join(cells) + " |")
    means = [
        spread([np.mean(list(one["ap"].values())) for one in by_row[row].values() if one["ap"]])
        for row in rows
    ]
    print("| mean of the row's relations | | " + " | ".join(means) + " |")
    chances = [
        f"{np.mean([one['prevalence'][c] for one in by_row[row].values() for c in one['ap']]):.3f}"
        for row in rows
    ]
    print("| mean prevalence of them | | " + " | ".join(chances) + " |")


def differences(by_row):
    """(title, (seeds, kind), (seeds, kind)) of every difference that is reported."""
    for row, seeds in by_row.items():
        for kind in ("plain", "refined"):
            if row != "cmca" and "cmca" in by_row:
                yield f"{row} {kind} − cmca", (seeds, kind), (by_row["cmca"], "plain")
        yield f"{row} refined − plain", (seeds, "refined"), (seeds, "plain")
    if {"cmcm", "cmcm-shuffled"} <= set(by_row):
        for kind in ("plain", "refined"):
            yield f"cmcm − cmcm-shuffled, {kind}", (by_row["cmcm"], kind), (by_row["cmcm-shuffled"], kind)


def column(seeds, kind, metric):
    """Seed → figure, of the seeds that have it."""
    return {seed: one[kind][metric] for seed, one in seeds.items() if kind in one}


def paired(first, second):
    """Differences of the seeds that both have."""
    return [first[seed] - second[seed] for seed in sorted(first.keys() & second.keys())]


def headline(heads):
    print("| " + " | ".join(heads) + " |\n|---|" + "---:|" * (len(heads) - 1))


def spread(values, metric=""):
    """Mean and sample standard deviation; a dash where there is nothing."""
    values = list(values)
    if not values:
        return "–"
    digits = 1 if metric == "MedR" else 3
    tail = f" ± {np.std(values, ddof=1):.{digits}f}" if len(values) > 1 else ""
    return f"{np.mean(values):.{digits}f}{tail}"


def t_interval(values, metric):
    """Mean and its 95 % interval by Student's t, which needs two seeds."""
    digits = 1 if metric == "MedR" else 3
    mean = np.mean(values)
    if len(values) < 2:
        return f"{mean:+.{digits}f}"
    half = student.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / np.sqrt(len(values))
    return f"{mean:+.{digits}f} [{mean - half:+.{digits}f}, {mean + half:+.{digits}f}]"


if __name__ == "__main__":
    main()
