"""Filters of segments and pictures, each rule counted by its name.

Pages hold much that is no instruction; the rules of the words are those of the conceptual-captions filters.
Pictures are judged over the whole set, because a banner is known by standing on many pages.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from itertools import groupby
from typing import Literal

import numpy as np

from limner.pictures.decode import PictureError, decode, read_file
from limner.pictures.hashes import NEAR_BITS, near_groups, phash
from limner.text.entity_grid import textblob

Rule = Literal[
    "fewer than 3 tokens",
    "unique-token ratio below 0.5",
    "noun ratio above 0.8",
    "most repeated token above 0.3",
    "token run longer than 3",
]
MIN_TOKENS = 3
MIN_UNIQUE = 0.5
MAX_NOUNS = 0.8
MAX_REPEATED = 0.3
MAX_RUN = 3
_ENGLISH_SHARE = 0.5
# scripts without spaces have no words to find, so each letter counts
_TOKEN = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]|[^\W_\u3040-\u30ff\u3400-\u9fff]+")


@dataclass(frozen=True)
class Boilerplate:
    """The list of phrases that are stripped.

    Attributes:
        version: of the list.
        prefixes, suffixes: as compiled.
    """

    version: int
    prefixes: tuple[re.Pattern[str], ...]
    suffixes: tuple[re.Pattern[str], ...]

    def strip(self, text: str) -> tuple[str, int]:
        """The text without boiler-plate at its ends, and how many phrases went."""
        count, changed = 0, True
        text = text.strip()
        while changed and text:
            changed = False
            for pattern in self.prefixes:
                if (found := pattern.match(text)) and found.end():
                    text, changed, count = text[found.end() :].strip(), True, count + 1
            # suffixes are bounded, so only the end is searched: long texts stay cheap
            for pattern in self.suffixes:
                start = max(0, len(text) - 200)
                for found in pattern.finditer(text, start):
                    if found.end() == len(text) and found.start() < len(text):
                        text, changed, count = text[: found.start()].strip(), True, count + 1
                        break
        return text, count


@cache
def boilerplate() -> Boilerplate:
    """The list that comes with limner."""
    text = resources.files("limner.datasets.recipes").joinpath("boilerplate.toml").read_text(encoding="utf-8")
    data = tomllib.loads(text)
    prefixes, suffixes = (
        tuple(re.compile(one, re.IGNORECASE) for one in data[key]) for key in ("prefixes", "suffixes")
    )
    return Boilerplate(data["version"], prefixes, suffixes)


def tokens_of(text: str) -> list[str]:
    """Lower-case words and numbers, in order; each letter of a script without spaces is one."""
    return _TOKEN.findall(text.lower())


def is_english(texts: Sequence[str], language: str = "") -> bool:
    """Whether the noun rule may judge these texts, for the tagger knows English alone.

    Args:
        texts: of one page, judged together.
        language: tag the page states, or "": then half of the tokens must be in the tagger's lexicon.
    """
    if language:
        return language.lower().split("-")[0].split("_")[0] == "en"
    lexicon = textblob().lexicon
    tokens = [token for text in texts for token in tokens_of(text)]
    return bool(tokens) and sum(token in lexicon for token in tokens) >= _ENGLISH_SHARE * len(tokens)


def fault_of(text: str, *, english: bool) -> Rule | None:
    """The first rule that a segment breaks, or None.

    Args:
        text: boiler-plate already stripped.
        english: whether the noun rule applies.
    Source: VRSS 2020, Section 3; docs/methods/data.md §3.3.
    Departs: length is judged first, so that one- and two-word scraps count under it; a token must occur
        twice to be a repeated one, or no text of three words could pass.
    """
    tokens = tokens_of(text)
    if len(tokens) < MIN_TOKENS:
        return "fewer than 3 tokens"
    if len(set(tokens)) < MIN_UNIQUE * len(tokens):
        return "unique-token ratio below 0.5"
    if english and noun_ratio(tokens) > MAX_NOUNS:
        return "noun ratio above 0.8"
    from gensim.parsing.preprocessing import STOPWORDS

    counted = Counter(token for token in tokens if token not in STOPWORDS)
    most = max(counted.values(), default=0)
    if most > 1 and most > MAX_REPEATED * len(tokens):
        return "most repeated token above 0.3"
    if any(sum(1 for _ in run) > MAX_RUN for _, run in groupby(tokens)):
        return "token run longer than 3"
    return None


def noun_ratio(tokens: Sequence[str]) -> float:
    """Share of nouns among the tokens of an English text, 0 to 1; 0 without tokens."""
    tagged = textblob().tag(" ".join(tokens), tokenize=False) if tokens else []
    nouns = [token for token, kind in tagged if kind.startswith("NN")]
    return len(nouns) / max(len(tokens), 1)


MIN_SIDE_PX = 200
MAX_PAGES = 3
_MAX_ASPECT = 6.0


@dataclass(frozen=True)
class Judged:
    """A picture as found on disk.

    Attributes:
        path: its file.
        rule: why it is not to be used; "" when it is.
        sha256: of its bytes, "" when unreadable.
        suffix: by its content, such as ".jpg".
        phash: 64-bit perceptual hash, None when it was not computed.
    """

    path: str
    rule: str = ""
    sha256: str = ""
    suffix: str = ""
    phash: int | None = None


def judge(path: str) -> Judged:
    """Open a picture and judge it by itself."""
    try:
        file = read_file(path.encode("utf-8", "surrogateescape"))
        decoded = decode(file.data)
    except PictureError:
        return Judged(path, "picture does not open")
    short, long = sorted((decoded.width_px, decoded.height_px))
    if short < MIN_SIDE_PX:
        return Judged(path, f"picture below {MIN_SIDE_PX} px", file.sha256)
    if long > _MAX_ASPECT * short:
        return Judged(path, "picture is a banner or rule", file.sha256)
    low, high = decoded.rgb.convert("L").getextrema()
    if low == high:
        return Judged(path, "picture is of one colour", file.sha256)
    suffix = "." + decoded.format.lower().replace("jpeg", "jpg")
    return Judged(path, "", file.sha256, suffix, phash(decoded.rgb))


def repeated(pages: Sequence[Iterable[str]], judged: Mapping[str, Judged]) -> dict[tuple[int, str], str]:
    """Pictures that are copies, or near-copies, of one that stands earlier, or that stand on many pages.

    Args:
        pages: per page, the targets of its pictures in order.
        judged: target → picture; those that are refused already are not looked at.
    Returns:
        (page number, target) → rule. Of a picture on one or two pages the first occurrence stays; one on
        three or more is decoration and none stays.
    """
    places = [
        (number, target)
        for number, targets in enumerate(pages)
        for target in dict.fromkeys(targets)
        if target in judged and not judged[target].rule
    ]
    hashes = np.array([judged[target].phash or 0 for _, target in places], dtype=np.uint64)
    groups: dict[int, list[int]] = defaultdict(list)
    for row, group in enumerate(near_groups(hashes, NEAR_BITS).tolist()):
        groups[group].append(row)
    result: dict[tuple[int, str], str] = {}
    for rows in groups.values():
        decoration = len({places[row][0] for row in rows}) >= MAX_PAGES
        for row in rows if decoration else rows[1:]:
            result[places[row]] = (
                f"picture on {MAX_PAGES} or more pages" if decoration else "near-duplicate picture"
            )
    return result
