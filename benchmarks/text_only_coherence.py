"""How much of "coherence" is in the text alone: relations of CITE and Clue predicted without any picture.

Makes: docs/results/coherence.md (how much of coherence is in the text alone)

The control that a module reading both must beat. Two readers: frozen MiniLM features with balanced logistic
regression, and the text tower of CMCM (word2vec, LSTM, attention) with a linear head. Everything is chosen on
validation; test rows are opened once, at the end.

  python benchmarks/text_only_coherence.py --runs RUNS --systems minilm cbow-lstm --json OUT.json
"""

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from embeddings import data_folder

from limner.research.datasets.pairs import Pair, PairSet, Source, text_id
from limner.research.datasets.sets.cite import read_cite
from limner.research.datasets.sets.clue import read_clue
from limner.research.datasets.splits import split_pairs
from limner.research.evaluation.ranking import (
    average_precision,
    precision_statistic,
    prevalence,
)
from limner.research.evaluation.results import About, Result
from limner.research.evaluation.retrieval import measure
from limner.research.evaluation.uncertainty import bootstrap, difference_of, group_numbers, interval_of

CHOICES = tuple(float(c) for c in np.logspace(-5, 1, 13))
SYSTEMS = {"minilm": "text only: MiniLM + logistic", "cbow-lstm": "text only: CBOW + LSTM"}
TASKS = (("clue", "grouped"), ("clue", "released"), ("cite", "grouped"))
LENGTH = {"clue": 40, "cite": 200}
PAPER = {  # Table 8: CMCM, text and picture, released Clue split
    "Visible": 0.82,
    "Subjective": 0.28,
    "Action": 0.47,
    "Story": 0.50,
    "Meta": 0.71,
    "Irrelevant": 0.36,
}


@dataclass(frozen=True)
class Parts:
    """The rows of one split of one data set."""

    data: PairSet
    kind: str
    train: tuple[Pair, ...]
    val: tuple[Pair, ...]
    test: tuple[Pair, ...]

    def labels(self, pairs: Sequence[Pair]) -> np.ndarray:
        """(N, C) labels."""
        return np.array([[pair.labels[name] for name in self.data.relations] for pair in pairs])


def parts_of(name: str, kind: str) -> Parts:
    read = read_clue if name == "clue" else read_cite
    data = split_pairs(read(Source(data_folder() / name, pictures=None)), kind, seed=0)
    return Parts(data, kind, *(data.split(part) for part in ("train", "val", "test")))


def mean_precision(probabilities: np.ndarray, labels: np.ndarray) -> float:
    return float(np.mean([average_precision(p, y) for p, y in zip(probabilities.T, labels.T, strict=True)]))


def minilm(parts: Parts, seed: int) -> tuple[np.ndarray, dict[str, object]]:
    """Frozen sentence vectors; the strength of each relation's classifier is chosen on validation."""
    from sklearn.linear_model import LogisticRegression

    del seed  # nothing is drawn
    from limner.encoders.catalogue import text_encoder

    encoder = text_encoder()
    every = [*parts.train, *parts.val, *parts.test]
    texts = list(dict.fromkeys(pair.text for pair in every))
    rows = dict(zip(texts, encoder.encode_text(texts), strict=True))

    def features(pairs: Sequence[Pair]) -> np.ndarray:
        return np.stack([rows[pair.text] for pair in pairs]) * np.sqrt(encoder.dim)

    def fit(c: float, pairs: Sequence[Pair], column: int) -> LogisticRegression:
        model = LogisticRegression(C=c, class_weight="balanced", max_iter=2000)
        return model.fit(features(pairs), parts.labels(pairs)[:, column])

    chosen: dict[str, float] = {}
    probabilities = []
    for column, relation in enumerate(parts.data.relations):
        due = parts.labels(parts.val)[:, column]
        found = {
            c: average_precision(fit(c, parts.train, column).decision_function(features(parts.val)), due)
            for c in CHOICES
        }
        chosen[relation] = max(found, key=lambda c: found[c])
        final = fit(chosen[relation], (*parts.train, *parts.val), column)
        probabilities.append(final.predict_proba(features(parts.test))[:, 1])
    return np.stack(probabilities, axis=1), {"C": chosen, "fitted_on": "train and val"}


def cbow_lstm(parts: Parts, seed: int, epochs: int) -> tuple[np.ndarray, dict[str, object]]:
    """The text tower of CMCM and its relation loss; the epoch is chosen on validation."""
    import torch

    from limner.encoders.vocabulary import Vocabulary
    from limner.research.nn.words import WordEncoder, learn_vectors
    from limner.research.systems.cmcm import class_weights, relation_loss

    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    texts = [pair.text for pair in parts.train]
    vocabulary = Vocabulary.build(texts)
    words = learn_vectors(texts, vocabulary, seed=seed)
    tower = WordEncoder(len(vocabulary), 1024, vectors=torch.from_numpy(words))
    head = torch.nn.Linear(1024, len(parts.data.relations))
    model = torch.nn.ModuleList([tower, head])
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.5, 0.999))
    labels = torch.from_numpy(parts.labels(parts.train)).float()
    weights = class_weights(labels, "release")
    longest = LENGTH[parts.data.name]

    def predict(pairs: Sequence[Pair]) -> np.ndarray:
        model.eval()
        out = []
        with torch.inference_mode():
            for start in range(0, len(pairs), 256):
                ids, lengths = vocabulary.batch([p.text for p in pairs[start : start + 256]], longest)
                vectors = tower(torch.from_numpy(ids), torch.from_numpy(lengths)).vectors
                out.append(torch.sigmoid(head(vectors).double()).numpy())
        return np.concatenate(out)

    best, kept, at = -1.0, {}, -1
    for epoch in range(epochs):
        model.train()
        order = rng.permutation(len(texts))
        for start in range(0, len(order) - len(order) % 32, 32):
            rows = order[start : start + 32]
            ids, lengths = vocabulary.batch([texts[row] for row in rows], longest)
            logits = head(tower(torch.from_numpy(ids), torch.from_numpy(lengths)).vectors)
            loss = relation_loss(logits, labels[rows], weights)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        value = mean_precision(predict(parts.val), parts.labels(parts.val))
        print(f"  {parts.data.name} {parts.kind} seed {seed} epoch {epoch}: val {value:.4f}", flush=True)
        if value > best:
            best, at = value, epoch
            kept = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    model.load_state_dict(kept)
    return predict(parts.test), {"epoch": at, "val": best, "fitted_on": "train", "words": len(vocabulary)}


def unseen(parts: Parts) -> np.ndarray:
    """Test rows that share neither picture nor caption with the other rows."""
    rest = (*parts.train, *parts.val)
    texts, images = {text_id(p.text) for p in rest}, {p.image_id for p in rest}
    return np.array([text_id(p.text) not in texts and p.image_id not in images for p in parts.test])


def figures(parts: Parts, runs: Sequence[Result], rows: np.ndarray, resamples: int) -> dict[str, object]:
    """Average precision and prevalence of every relation on some test rows."""
    groups = [pair.group for pair, keep in zip(parts.test, rows, strict=True) if keep]
    out: dict[str, object] = {"rows": int(rows.sum()), "groups": len(set(groups))}
    for column, relation in enumerate(parts.data.relations):
        labels = parts.labels(parts.test)[rows, column]
        scores = np.array([run.probabilities[relation] for run in runs])[:, rows]
        chance = np.random.default_rng(0).random(len(labels))
        owner, count = group_numbers(groups)
        statistics = [precision_statistic(one, labels, owner) for one in (scores, chance)]
        drawn, guessed = bootstrap(statistics, count, resamples=resamples, width=len(labels))
        found = interval_of(average_precision(scores, labels), drawn, count)
        base = prevalence(labels, groups, resamples=resamples)
        gap = difference_of(found.value - average_precision(chance, labels), drawn - guessed, count)
        out[relation] = {
            "ap": round(found.value, 4),
            "interval": [round(found.low, 4), round(found.high, 4)],
            "per_seed": [round(average_precision(one, labels), 4) for one in scores],
            "prevalence": round(base.value, 4),
            "positives": int(labels.sum()),
            "p_against_random_order": round(gap.p_value, 5),
        }
    return out


def markdown(name: str, kind: str, what: str, found: dict[str, dict], relations: Sequence[str]) -> str:
    """One table; fractions, intervals in brackets."""
    lines = [f"### {name}, {kind} split, {what}", "", "| row | " + " | ".join(relations) + " |"]
    lines.append("|---" * (len(relations) + 1) + "|")
    first = next(iter(found.values()))
    for system, figure in found.items():
        cells = [
            f"{figure[r]['ap']:.2f} [{figure[r]['interval'][0]:.2f}, {figure[r]['interval'][1]:.2f}]"
            for r in relations
        ]
        lines.append(f"| {SYSTEMS[system]} | " + " | ".join(cells) + " |")
    lines.append("| prevalence | " + " | ".join(f"{first[r]['prevalence']:.2f}" for r in relations) + " |")
    if name == "clue":
        row = " | ".join(f"{PAPER[r]:.2f}" for r in relations)
        lines.append(f"| paper: CMCM, text and picture (released) | {row} |")
    lines += ["", f"{first['rows']} test rows in {first['groups']} duplicate groups.", ""]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--runs", type=Path, required=True, help="folder for result files")
    parser.add_argument("--json", type=Path, required=True, help="all figures")
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=["minilm"])
    parser.add_argument("--sets", nargs="+", choices=("clue", "cite"), default=["clue", "cite"])
    parser.add_argument("--seeds", type=int, default=3, help="trainings of the LSTM")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--resamples", type=int, default=10_000)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    import torch

    torch.set_num_threads(options.threads)
    report: dict[str, object] = {}
    for name, kind in TASKS:
        if name not in options.sets:
            continue
        parts = parts_of(name, kind)
        fresh = unseen(parts)
        cuts = {"all test rows": np.ones(len(parts.test), dtype=bool)}
        if fresh.sum() < len(fresh):
            cuts["rows with unseen picture and caption"] = fresh
        found: dict[str, dict[str, dict]] = {cut: {} for cut in cuts}
        settings: dict[str, list] = {}
        for system in options.systems:
            runs = []
            for seed in range(options.seeds if system == "cbow-lstm" else 1):
                began = time.monotonic()
                if system == "minilm":
                    probabilities, chosen = minilm(parts, seed)
                else:
                    probabilities, chosen = cbow_lstm(parts, seed, options.epochs)
                chosen["seconds"] = round(time.monotonic() - began, 1)
                settings.setdefault(system, []).append(chosen)
                about = About(system=SYSTEMS[system], data=name, split=kind, seed=seed, config=chosen)
                by_relation = dict(zip(parts.data.relations, probabilities.T, strict=True))
                result = measure(about, parts.test, parts.data.relations, probabilities=by_relation)
                result.write(options.runs / f"{system}-{name}-{kind}-{seed}")
                runs.append(result)
            for cut, rows in cuts.items():
                found[cut][system] = figures(parts, runs, rows, options.resamples)
        for cut, table in found.items():
            print(markdown(name, kind, cut, table, parts.data.relations), flush=True)
        report[f"{name} {kind}"] = {"settings": settings, "figures": found}
    options.json.write_text(json.dumps(report, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
