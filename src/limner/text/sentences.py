"""Sentences of a paragraph in any script: syntok, then the terminators syntok does not know.

syntok knows abbreviations and decimals of European languages but treats ``。``, ``।`` or ``؟`` as letters.
It does not find sentences where a script marks none (Thai, Lao, Khmer): such a paragraph stays whole.
"""

import re
from itertools import pairwise

# Full stops, question and exclamation marks outside Latin punctuation (Unicode property Sentence_Terminal),
# with the closing quotes and brackets that follow. A full stop of these scripts needs no space after it.
_TERMINATORS = re.compile(r"[。｡！？؟۔।॥։።፧፨၊။។៕᠃᠉⸮〽‼⁇⁈⁉𑁇𑁈]+[\"'”’»›）)\]」』】〕》〉\u200f\u200e]*")


def split_sentences(text: str) -> list[str]:
    """Cut a paragraph into sentences; joined again they hold every character but the white space between.

    Args:
        text: one paragraph.

    Returns:
        The sentences in order, without surrounding white space; none is empty.
    """
    cuts = {0, len(text)} | _syntok_starts(text)
    cuts |= {match.end() for match in _TERMINATORS.finditer(text)}
    edges = sorted(cuts)
    pieces = [text[start:end].strip() for start, end in pairwise(edges)]
    return [piece for piece in pieces if piece]


def _syntok_starts(text: str) -> set[int]:
    from syntok import segmenter

    return {sentence[0].offset for paragraph in segmenter.analyze(text) for sentence in paragraph if sentence}
