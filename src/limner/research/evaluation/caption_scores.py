"""Evaluation of captioners: perplexity of reference sentences; BLEU and chrF of generated ones."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from limner.errors import DataError, MissingError, counted
from limner.research.evaluation.results import TextScores


def perplexity(nats: NDArray[np.floating], tokens: NDArray[np.integer]) -> float:
    """Perplexity of S reference sentences.

    The exponential of the mean negative log-likelihood per token, at least 1; lower is better. A sentence of
    n words has n + 1 tokens: its words and the end token; of a truncated sentence only the remaining tokens
    count. The start token is given and does not count. (GLAC Net's code counts it as certain, which halves
    the perplexity of an untrained captioner.) All words outside the vocabulary are one token, which is easy
    to predict, so perplexities can be compared only for the same vocabulary.

    Args:
        nats: (S,) negative log-likelihood of each sentence, summed over its tokens, finite, ≥ 0.
        tokens: (S,) tokens per sentence, at least 2.
    Source: docs/methods/evaluation.md §7. All tokens have equal weight, so long sentences count more.
    """
    return math.exp(float(nats.sum(dtype=np.float64)) / int(tokens.sum()))


def text_scores(texts: Sequence[str], references: Sequence[str]) -> TextScores:
    """Compare generated texts with references, by n-grams of words (BLEU) and characters (chrF).

    A text may be a sentence or a whole story; compare only scores of the same unit.

    Args:
        texts: (N,) generated texts; empty ones score 0.
        references: (N,) reference texts, none empty.
    Raises:
        DataError: there are no texts, the numbers differ, or a reference is empty.
        MissingError: sacrebleu is not installed.
    Source: BLEU (Papineni et al. 2002) and chrF2 (Popović 2015) as sacrebleu computes them.
    """
    if not texts or len(texts) != len(references) or not all(text.strip() for text in references):
        raise DataError(
            f"captions: {counted(len(texts), 'generated text')}, {counted(len(references), 'reference')};"
            " expected equal numbers, at least one, and no empty reference"
        )
    try:
        from sacrebleu.metrics.bleu import BLEU
        from sacrebleu.metrics.chrf import CHRF
    except ImportError:
        raise MissingError(
            "captions: sacrebleu is not installed; pip install limner[captions] to compare texts"
        ) from None
    bleu, chrf = BLEU(lowercase=True), CHRF(lowercase=True)
    return TextScores(
        bleu=bleu.corpus_score(texts, [references]).score / 100,
        chrf=chrf.corpus_score(texts, [references]).score / 100,
        texts=len(texts),
        settings=(str(bleu.get_signature()), str(chrf.get_signature())),
    )
