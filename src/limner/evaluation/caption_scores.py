"""How well stories are told from pictures: perplexity of true sentences, and told ones against them.

Perplexity counts only tokens a captioner had to guess; texts are compared by packages, not by own formulas.
It tells no story and knows no captioner.
"""

import math
from collections.abc import Callable, Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray

from limner.arrays import expect
from limner.errors import DataError, MissingError, NumericsError
from limner.records import Record

_NEEDS = "captions: {} is not installed; pip install limner[captions] to compare texts"


class Perplexity(Record):
    """How many equally likely tokens would be as hard to guess.

    Attributes:
        value: exp of the mean negative log-likelihood of a token, at least 1; lower is better.
        tokens: guessed, words and the ends of sentences.
        unknown: share of them that are words the vocabulary lacks. They are one class, so they are easy to
            guess: values compare only at equal vocabularies.
    """

    value: float
    tokens: int
    unknown: float


class TextScores(Record):
    """Told texts against true ones, fractions, 1 is best; letter case does not count.

    Attributes:
        bleu: BLEU-4 of the corpus.
        chrf: chrF2 of the corpus.
        meteor: mean METEOR of the texts, without synonyms.
        texts: how many were compared.
        settings: sacrebleu's signatures of both, which name version, tokeniser and smoothing.
    """

    bleu: float
    chrf: float
    meteor: float
    texts: int
    settings: tuple[str, str]


def perplexity(
    nats: NDArray[np.floating], tokens: NDArray[np.integer], unknown: NDArray[np.integer]
) -> Perplexity:
    """Perplexity over the tokens of S true sentences.

    A sentence of n words has n + 1 tokens: its words, each given those before it, and its end; one that is
    cut has the first of these. The start is given and guessed by nobody, so it is not a token; counted as a
    certain one, as the reference code of GLAC Net does, it brings a captioner that knows nothing from V to
    about half of that.

    Args:
        nats: (S,) negative log-likelihood of each sentence, summed over its tokens, ≥ 0.
        tokens: (S,) of each sentence, at least 2.
        unknown: (S,) of its words that the vocabulary lacks.
    Raises:
        ShapeError: sizes do not fit.
        DataError: no sentence, or counts that no sentence has.
        NumericsError: a value is not finite, or negative.
    Source: docs/methods/evaluation.md §7. Tokens weigh alike, so long sentences count for more.
    """
    size = expect("perplexity", nats=(nats, "S"), tokens=(tokens, "S"), unknown=(unknown, "S"))["S"]
    if not size:
        raise DataError("perplexity: no sentence; expected at least one")
    if int(tokens.min()) < 2 or int(unknown.min()) < 0 or bool((unknown > tokens).any()):
        raise DataError("perplexity: a sentence has two tokens at least, and unknown words are some of them")
    fine = np.isfinite(nats) & (nats >= 0)
    if not fine.all():
        row = int(np.flatnonzero(~fine)[0])
        raise NumericsError(f"perplexity: sentence {row} of {size} costs {nats[row]} nats, expected ≥ 0")
    count = int(tokens.sum())
    mean = float(nats.sum(dtype=np.float64)) / count
    return Perplexity(value=math.exp(mean), tokens=count, unknown=int(unknown.sum()) / count)


def text_scores(told: Sequence[str], references: Sequence[Sequence[str]]) -> TextScores:
    """Compare told texts with true ones, by n-grams, letters and words.

    Sentences or whole stories: whatever is given as one text is one, and scores compare only at equal units.

    Args:
        told: N texts; an empty one scores 0 and still counts.
        references: per text at least one true one, none empty.
    Raises:
        DataError: no text, a text without references, or an empty reference.
        MissingError: sacrebleu or nltk is not installed.
    Source: BLEU (Papineni et al. 2002) and chrF2 (Popović 2015) as sacrebleu computes them; METEOR (Lavie and
        Agarwal 2007) as nltk does. Departs: METEOR matches words and stems but no synonyms, since WordNet is
        a download, and nltk matches a word that comes twice from the end, not so that runs are fewest; so it
        is at most the published kind.
    """
    if not told or len(told) != len(references) or any(not some for some in references):
        raise DataError(
            f"captions: {len(told)} told texts and {len(references)} sets of true ones,"
            " expected one set of at least one for each"
        )
    empty = [row for row, some in enumerate(references) if any(not text.strip() for text in some)]
    if empty:
        raise DataError(f"captions: text {empty[0]} has an empty true text; leave it out")
    try:
        from sacrebleu.metrics.bleu import BLEU
        from sacrebleu.metrics.chrf import CHRF
    except ImportError:
        raise MissingError(_NEEDS.format("sacrebleu")) from None
    bleu, chrf = BLEU(lowercase=True), CHRF(lowercase=True)
    most = max(len(some) for some in references)
    # sacrebleu wants all first references, then all second ones; None where a text has fewer, which its types
    # do not say ("" would be a reference of no words, and the shortest)
    streams = cast(
        "list[list[str]]",
        [[some[place] if place < len(some) else None for some in references] for place in range(most)],
    )
    found = bleu.corpus_score(told, streams).score / 100, chrf.corpus_score(told, streams).score / 100
    return TextScores(
        bleu=found[0],
        chrf=found[1],
        meteor=_meteor(told, references, bleu.tokenizer),
        texts=len(told),
        settings=(str(bleu.get_signature()), str(chrf.get_signature())),
    )


class _NoSynonyms:
    """Takes WordNet's place, which nltk would have to download."""

    def synsets(self, _word: str) -> list[object]:
        return []


def _meteor(
    told: Sequence[str], references: Sequence[Sequence[str]], tokenise: Callable[[str], str]
) -> float:
    """Mean over texts of the best METEOR against one of the references."""
    try:
        from nltk.translate.meteor_score import (  # type: ignore[import-untyped, unused-ignore]
            meteor_score,
        )
    except ImportError:
        raise MissingError(_NEEDS.format("nltk")) from None
    synonyms = _NoSynonyms()
    values = [
        float(meteor_score([tokenise(one).split() for one in some], tokenise(text).split(), wordnet=synonyms))
        for text, some in zip(told, references, strict=True)
    ]
    return math.fsum(values) / len(values)
