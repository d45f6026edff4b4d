"""Striped pictures with texts, as rows of the backbone's blocks, for training the encoder base and limner."""

from functools import cache

import numpy as np
import torch
from corpora import Words

from limner.encoders.base_blocks import FIRST, rows_of
from limner.encoders.base_file import BaseShape
from limner.encoders.base_network import BaseNet, published_backbone
from limner.research.datasets.pairs import Pair, PairSet
from limner.research.training.corpus import ArrayRows, corpus_of

PICTURES = 24


class Sentences(Words):
    """Hashed words in as many numbers as a text side takes."""

    def __init__(self, name, dim, fingerprint=""):
        super().__init__(fingerprint or name)
        self.name, self.dim = name, dim


ENGLISH, FOREIGN = Sentences("minilm", 384), Sentences("use", 512)


def coloured(number):
    """A picture that is told from others by colour and stripes."""
    random = np.random.default_rng(number)
    colours = random.integers(0, 255, (2, 3))
    stripes = (np.arange(260) // (6 + number % 7)) % 2
    row = colours[stripes].astype(np.uint8)
    return np.broadcast_to(row, (260, 260, 3)).copy()


@cache
def published_rows():
    """(M, R) of all pictures by the backbone as published; not to be changed."""
    torch.manual_seed(0)
    net = BaseNet(BaseShape(changed_from=FIRST), published_backbone()).eval()
    return rows_of(net, np.stack([coloured(number) for number in range(PICTURES)]))


def corpus(rows):
    """Two texts per picture, half of the pictures in stories; validation rows are the training rows again."""
    words = [f"stripes{n} colour{n % 5} row{n % 3}" for n in range(PICTURES)]
    pairs = []
    for split in ("train", "val"):
        for n in range(PICTURES):
            seq = f"one:{n // 4}" if n % 2 else ""
            pairs += [
                Pair(
                    id=f"{split}-{n}-{copy}",
                    text=words[n] + f" copy{copy}",
                    image=str(n),
                    split=split,
                    group=f"{'one' if n < PICTURES // 2 else 'two'}:{n}",
                    seq=seq,
                )
                for copy in range(2)
            ]
    data = PairSet("made", (), tuple(pairs))
    return corpus_of(data, ArrayRows([str(n) for n in range(PICTURES)], rows))
