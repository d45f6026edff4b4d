"""Entity grids: which entities of a story are subject, object or other in each sentence, as a measure of
coherence.

Sequence models take the shares of role transitions as one vector of 64 numbers. Roles are derived by rules
from textblob's tagger and phrase chunker, which need no download; there is no dependency parser.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import product
from types import MappingProxyType
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from limner.language import split_sentences, textblob

Role = Literal["S", "O", "X"]
ABSENT = "-"
LENGTH = 3
TRANSITIONS: Mapping[str, int] = MappingProxyType(
    {"".join(roles): place for place, roles in enumerate(product("-OSX", repeat=LENGTH))}
)
WIDTH = len(TRANSITIONS)
_POSSESSIVE = re.compile(r"['’]s\b", re.IGNORECASE)
_STRENGTH = {"S": 3, "O": 2, "X": 1}

# One token as textblob gives it: word, part of speech, phrase, prepositional phrase.
_Token = list[str]


def entity_grid(sentences: Sequence[Mapping[str, Role]]) -> dict[str, str]:
    """Roles of every entity, a letter per sentence, ``-`` where it is absent.

    Args:
        sentences: per sentence the role of each entity in it.
    Returns:
        Entity → as many letters as sentences, entities in order of their first sentence.
    """
    entities = dict.fromkeys(entity for sentence in sentences for entity in sentence)
    return {entity: "".join(sentence.get(entity, ABSENT) for sentence in sentences) for entity in entities}


def transition_shares(grid: Mapping[str, str]) -> NDArray[np.float32]:
    """Share of every transition over three sentences among all transitions of all entities.

    Args:
        grid: as `entity_grid` gives it.
    Returns:
        (64,) in the order of `TRANSITIONS`, which is that of the alphabet over ``-OSX``; sums to 1, or to 0
        for fewer than three sentences or no entity.
    Source: CRCN 2015 and CNSI 2018; docs/methods/gsda.md §8.4.
    """
    counts = Counter(
        roles[start : start + LENGTH] for roles in grid.values() for start in range(len(roles) - LENGTH + 1)
    )
    shares = np.array([counts[transition] for transition in TRANSITIONS]) / max(counts.total(), 1)
    return shares.astype(np.float32)


def roles_of(sentence: str) -> dict[str, Role]:
    """Role of every noun of an English sentence; of a noun that occurs several times, the highest (S > O >
    X).

    The head of a noun phrase is its last noun, lower-cased. Inside a prepositional phrase, and in a sentence
    without a verb, it is X; before the first verb, or right before a later one, S; else O. The rule is
    applied to other languages too, but finds little there.

    Source: CRCN 2015; docs/methods/gsda.md §8.4. Departs: a rule on phrases instead of a parser, whose model
        would have to be downloaded.
    """
    found: dict[str, Role] = {}
    text = _POSSESSIVE.sub("", sentence)
    for tokens in filter(None, textblob().parse(text, collapse=False) if text.strip() else []):
        phrases = _phrases(tokens)
        kinds = [kind for kind, _ in phrases]
        first = kinds.index("VP") if "VP" in kinds else None
        for place, (kind, head) in enumerate(phrases):
            if not head:
                continue
            role: Role = "X"
            if kind == "NP" and first is not None:
                follows = next((other for other in kinds[place + 1 :] if other != "ADVP"), "")
                role = "S" if place < first or follows == "VP" else "O"
            if _STRENGTH[role] > _STRENGTH.get(found.get(head, ""), 0):
                found[head] = role
    return found


def coherence_vector(steps: Sequence[str]) -> NDArray[np.float32]:
    """The vector of a story; every sentence of every step is a column of its grid.

    Args:
        steps: texts in order.
    Returns:
        (64,), see `transition_shares`.
    """
    sentences = [
        sentence for step in steps for part in step.splitlines() for sentence in split_sentences(part)
    ]
    if len(sentences) < LENGTH:
        return np.zeros(WIDTH, np.float32)
    return transition_shares(entity_grid([roles_of(sentence) for sentence in sentences]))


def _phrases(tokens: Sequence[_Token]) -> list[tuple[str, str]]:
    """Kind (NP, PNP inside a prepositional phrase, VP, ADVP, or O) and head noun, if any, of each phrase."""
    found: list[tuple[str, str]] = []
    for word, tag, chunk, prepositional in tokens:
        begins, _, kind = chunk.rpartition("-")
        noun = kind == "NP" and tag.startswith("NN") and any(letter.isalpha() for letter in word)
        head = word.lower() if noun else ""
        if kind == "NP" and prepositional != "O":
            kind = "PNP"
        if begins == "I" and found and found[-1][0] == kind:
            found[-1] = (kind, head or found[-1][1])
        else:
            found.append((kind, head))
    return found
