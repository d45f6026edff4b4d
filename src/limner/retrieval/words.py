"""Words that a step and a picture's captions or labels share, to explain a choice to a person.

Any script: a word is a run of letters and their marks. The stemming is light and English; other
languages match on whole words. It explains, it does not score.
"""

import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from itertools import groupby

_FUNCTION_WORDS = """
the and but for nor not you your yours his her hers its our ours their theirs this that these those with from
into onto over under than then there here when where which who whom whose what why how are was were been being
has have had having does did doing will would shall should can could may might must she him they them some any
all each every both few more most other such only own same too very just also about again once because while
until after before above below between during out off one two said got get let
"""
FUNCTION_WORDS = frozenset(_FUNCTION_WORDS.split())
"""English words that match everywhere and explain nothing."""


@lru_cache(maxsize=4096)
def words(text: str) -> tuple[str, ...]:
    """Words in order, folded to lower case and composed form; numbers and signs are dropped."""
    folded = unicodedata.normalize("NFC", text.casefold())
    runs = groupby(folded, key=lambda sign: unicodedata.category(sign)[0] in "LM")
    return tuple("".join(run) for letters, run in runs if letters)


@lru_cache(maxsize=16_384)
def stem(word: str) -> str:
    """Drop a common English ending: ``kites`` → ``kite``, ``running`` → ``run``."""
    if not word.isascii():
        return word
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    for ending in ("ing", "ed"):
        base = word[: -len(ending)]
        if word.endswith(ending) and len(base) > 2 and any(vowel in base for vowel in "aeiouy"):
            doubled = base[-1] == base[-2] and base[-1] not in "aeiouls"
            return base[:-1] if doubled else base.removesuffix("e")
    for ending in ("sses", "shes", "ches", "xes"):
        if word.endswith(ending):
            return word[:-2]
    if word.endswith("s") and not word.endswith(("ss", "us", "is")) and len(word) > 3:
        word = word[:-1]
    return word.removesuffix("e") if len(word) > 3 else word


def matched(text: str, others: Iterable[str]) -> tuple[str, ...]:
    """Words of a text whose stem occurs in the other texts, in the text's order, each once.

    Args:
        text: the step.
        others: captions or class names.
    """
    known = {stem(word) for other in others for word in words(other)}
    found: dict[str, str] = {}
    for word in words(text):
        telling = word not in FUNCTION_WORDS and (len(word) > 2 or not word.isascii())
        if telling and stem(word) in known:
            found.setdefault(stem(word), word)
    return tuple(found.values())
