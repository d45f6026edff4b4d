"""Made-up pairs whose pictures follow from their texts, for tests of training."""

import hashlib

import numpy as np

from limner.research.datasets.pairs import Pair, PairSet
from limner.research.training.corpus import ArrayRows, corpus_of

RELATIONS = ("even", "late")
WORDS = ("ash", "bay", "cod", "dew", "elm", "fog", "gem", "hay")
SPLITS = ("train", "val", "test")


def made(n=64, *, seed=0, shuffled=False, copies=1):
    """n pairs per split; the picture's features are random directions of the words plus noise.

    Validation rows are the training rows again (other ids), because these tests ask whether a model can learn
    what it is shown. Test rows have words and pictures of their own.
    """
    rng = np.random.default_rng(seed)
    codes = rng.standard_normal((3, len(WORDS), 24)).astype(np.float32)
    numbers = [(i // 64 % 8, i // 8 % 8, i % 8) for i in rng.permutation(512)[:n]]
    texts = [" ".join(f"{WORDS[k]}{place}" for place, k in enumerate(number)) for number in numbers]
    values = np.stack([sum(codes[place, k] for place, k in enumerate(number)) for number in numbers])
    values += 0.05 * rng.standard_normal(values.shape).astype(np.float32)
    if shuffled:
        values = values[rng.permutation(n)]
    pairs, rows, ids = [], [], []
    for split in SPLITS:
        for i, text in enumerate(texts):
            secret = split == "test"
            for copy in range(copies if split == "train" else 1):
                image = f"{'test' if secret else 'seen'}-{i}"
                pairs.append(
                    Pair(
                        id=f"{split}-{i}-{copy}",
                        text=f"secret{i} " + text if secret else text,
                        image=image,
                        split=split,
                        group=f"g{i}",
                        labels={"even": numbers[i][0] % 2, "late": int(numbers[i][2] > 3)},
                    )
                )
            if image not in ids:
                ids.append(image)
                rows.append(-values[i] if secret else values[i])
    return PairSet("made", RELATIONS, tuple(pairs)), ArrayRows(ids, np.stack(rows))


def corpus(**more):
    return corpus_of(*made(**more))


class Words:
    """Sentence vectors by hashing words: enough to tell texts apart."""

    name, dim = "words", 48

    def __init__(self, fingerprint="one"):
        self.fingerprint = fingerprint

    def encode_text(self, texts):
        found = np.zeros((len(texts), self.dim), np.float32)
        for row, text in enumerate(texts):
            for word in text.split():
                found[row, hashlib.sha256(word.encode()).digest()[0] % self.dim] += 1
        return found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-9)
