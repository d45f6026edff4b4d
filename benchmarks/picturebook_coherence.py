"""Does the coherence module help where its premise holds by construction, and not where it is broken?

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

from limner.apps.validation import chosen_refinement, maximise, validation, vectors
from limner.data.worlds import picture_book, shuffle_relations
from limner.evaluation.labels import average_precision
from limner.evaluation.ranking import Metric, rank
from limner.retrieval.refinement import pair_logits, refine
from limner.training.cmcm import load, prepare
from limner.training.corpus import corpus_of, rows_of
from limner.training.loop import Loop
from limner.training.pictures import ArrayRows
from limner.training.systems import read_config

CONFIGS = Path(__file__).parents[1] / "configs" / "cmcm" / "picturebook"
ROWS = ("base", "cmca", "cmcm-noattn", "cmcm", "cmcm-shuffled", "cmcm-action")
METRICS = ("MedR", "R@1", "R@5", "R@10", "MRR")


def figures(ranking):
    return {name: Metric.parse(name)(ranking) for name in METRICS}


def measured(folder, corpus, test_rows, form):
    """Figures of the best weights on the test rows, which training never saw."""
    model, _ = load(folder)
    texts, images, columns = vectors(model, corpus.pictures, test_rows)
    scores, right = model.score(texts, images), columns[:, None].tolist()
    found = {"pictures": len(images), "queries": len(texts), "plain": figures(rank(scores, right))}
    if model.relations:
        chosen = chosen_refinement(model, corpus, form)
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
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.to.mkdir(parents=True, exist_ok=True)
    log = options.to / "results.jsonl"
    done = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    worlds = {}
    for seed in options.seeds:
        for name in options.rows:
            if any(one["row"] == name and one["seed"] == seed for one in done):
                continue
            words = [*options.overrides, f"loop.seed={seed}", f"data.world_seed={seed}"]
            settings = read_config(CONFIGS / f"{name}.toml", words)
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
            prepared = prepare(settings, corpus)
            loop = Loop(
                prepared.task,
                settings.loop,
                folder,
                validate=validation(corpus),
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
            result |= measured(folder, corpus, test_rows, settings.refinement)
            with log.open("a") as file:
                file.write(json.dumps(result) + "\n")
            print(json.dumps({k: v for k, v in result.items() if k not in ("ap", "prevalence")}), flush=True)
    show(log)


def show(log):
    """Mean and deviation over seeds, and the paired difference from CMCA, which sees the same worlds."""
    results = [json.loads(line) for line in log.read_text().splitlines()]
    control = {one["seed"]: one["plain"] for one in results if one["row"] == "cmca"}
    for name in dict.fromkeys(one["row"] for one in results):
        mine = [one for one in results if one["row"] == name]
        for kind in ("plain", "refined"):
            if kind not in mine[0]:
                continue
            cells = [f"{m} {spread([one[kind][m] for one in mine])}" for m in METRICS]
            print(f"{name:14} {kind:8} n={len(mine)}  " + "  ".join(cells))
            both = [one for one in mine if one["seed"] in control]
            if both and (name, kind) != ("cmca", "plain"):
                against = [
                    f"{m} {spread([one[kind][m] - control[one['seed']][m] for one in both])}" for m in METRICS
                ]
                print(f"{'  less CMCA':23} n={len(both)}  " + "  ".join(against))
        if "ap" in mine[0]:
            for relation in mine[0]["ap"]:
                found = [one["ap"][relation] for one in mine if relation in one["ap"]]
                chance = np.mean([one["prevalence"][relation] for one in mine])
                print(f"    {relation:20} AP {spread(found)}  prevalence {chance:.3f}")


def spread(values):
    """Mean and sample standard deviation."""
    deviation = np.std(values, ddof=1) if len(values) > 1 else float("nan")
    return f"{np.mean(values):+.3f} ± {deviation:.3f}"


if __name__ == "__main__":
    main()
