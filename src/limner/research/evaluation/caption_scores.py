"""Evaluation of captioning: perplexity of true sentences, and comparison of generated ones with them.

Perplexity counts only tokens a captioner had to guess; texts are compared by packages, not by own formulas.
It generates no text and knows no captioner.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from limner.errors import DataError, MissingError
from limner.research.evaluation.results import TextScores


def perplexity(nats: NDArray[np.floating], tokens: NDArray[np.integer]) -> float:
    """Perplexity of S true sentences.

    The exponential of the mean negative log-likelihood of a token, at least 1; lower is better. A sentence of
    n words has n + 1 tokens: its words, each given those before it, and its end; one that is cut has the
    first of these. The start is given and guessed by nobody, so it is not a token; counted as a certain one,
    as the reference code of GLAC Net does, it brings a captioner that knows nothing from V to about half of
    that. Words that the vocabulary lacks are one class, so they are easy to guess: values compare only at
    equal vocabularies.

    Args:
        nats: (S,) negative log-likelihood of each sentence, summed over its tokens, finite, ≥ 0.
        tokens: (S,) of each sentence, at least 2.
    Source: docs/methods/evaluation.md §7. Tokens weigh alike, so long sentences count for more.
    """
    return math.exp(float(nats.sum(dtype=np.float64)) / int(tokens.sum()))


def text_scores(texts: Sequence[str], references: Sequence[str]) -> TextScores:
    """Compare generated texts with true ones, by n-grams of words and of letters.

    Sentences or whole stories: whatever is given as one text is one, and scores compare only at equal units.

    Args:
        texts: N of them; an empty one scores 0 and still counts.
        references: (N,) the true text of each, not empty.
    Raises:
        DataError: no text, another number of true texts, or an empty one.
        MissingError: sacrebleu is not installed.
    Source: BLEU (Papineni et al. 2002) and chrF2 (Popović 2015) as sacrebleu computes them.
    """
    if not texts or len(texts) != len(references) or not all(text.strip() for text in references):
        raise DataError(
            f"captions: {len(texts)} generated and {len(references)} true texts, expected as many,"
            " at least one, and no true text empty"
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
