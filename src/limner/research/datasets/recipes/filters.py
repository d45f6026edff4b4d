"""Filters for segments and pictures, which count what each rule removes.

The text rules follow the filters of Conceptual Captions. Pictures are also compared across the whole set,
because the same banner occurs on many pages.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path

import numpy as np

from limner.errors import RESEARCH, installed
from limner.language import textblob
from limner.pictures.decode import PictureError, decode, read_file
from limner.pictures.hashes import NEAR_BITS, near_groups, phash
from limner.research.datasets.recipes.saved_pages import Removed, Segment

# in scripts without spaces each character is a token
_TOKEN = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]|[^\W_\u3040-\u30ff\u3400-\u9fff]+")


@dataclass(frozen=True)
class Boilerplate:
    """Patterns of phrases to strip from texts.

    Attributes:
        version: version of the list.
        prefixes, suffixes: compiled patterns.
    """

    version: int
    prefixes: tuple[re.Pattern[str], ...]
    suffixes: tuple[re.Pattern[str], ...]

    def strip(self, text: str) -> tuple[str, int]:
        """The text without boilerplate at its ends, and the number of phrases removed."""
        count, changed = 0, True
        text = text.strip()
        while changed and text:
            changed = False
            for pattern in self.prefixes:
                if (match := pattern.match(text)) and match.end():
                    text, changed, count = text[match.end() :].strip(), True, count + 1
            # suffixes are short, so searching only the end keeps long texts fast
            for pattern in self.suffixes:
                found_here = pattern.finditer(text, max(0, len(text) - 200))
                start = next(
                    (suffix_match.start() for suffix_match in found_here if suffix_match.end() == len(text)),
                    len(text),
                )
                if start < len(text):
                    text, changed, count = text[:start].strip(), True, count + 1
        return text, count


@cache
def boilerplate() -> Boilerplate:
    """The list that is part of limner."""
    data = tomllib.loads(Path(__file__).with_name("boilerplate.toml").read_text(encoding="utf-8"))
    prefixes, suffixes = (
        tuple(re.compile(phrase, re.IGNORECASE) for phrase in data[key]) for key in ("prefixes", "suffixes")
    )
    return Boilerplate(data["version"], prefixes, suffixes)


def tokens_of(text: str) -> list[str]:
    """Words and numbers in order, in lower case; in scripts without spaces, single characters."""
    return _TOKEN.findall(text.lower())


def is_english(texts: Sequence[str], language: str = "") -> bool:
    """Whether texts are English, so that the noun rule applies (the tagger supports only English).

    Args:
        texts: texts of one page.
        language: language tag of the page; if "", half of the tokens must be in the tagger's lexicon.
    """
    if language:
        return language.lower().split("-")[0].split("_")[0] == "en"
    lexicon = textblob().lexicon
    tokens = tokens_of("\n".join(texts))
    return bool(tokens) and sum(token in lexicon for token in tokens) >= 0.5 * len(tokens)


def fault_of(text: str, *, english: bool) -> str | None:
    """The first rule that a segment breaks, or None.

    Args:
        text: text without boilerplate.
        english: whether the noun rule applies.
    Source: VRSS 2020, Section 3; docs/methods/data.md §3.3.
    Departs: length is checked first, so that one- and two-word texts count as too short. A token counts as
        repeated only if it occurs at least twice; otherwise no text of three words could pass.
    """
    tokens = tokens_of(text)
    if len(tokens) < 3:
        return "fewer than 3 tokens"
    if len(set(tokens)) < 0.5 * len(tokens):
        return "unique-token ratio below 0.5"
    if english and noun_ratio(tokens) > 0.8:
        return "noun ratio above 0.8"
    with installed("gensim", RESEARCH):
        from gensim.parsing.preprocessing import STOPWORDS

    counted = Counter(token for token in tokens if token not in STOPWORDS)
    most = max(counted.values(), default=0)
    if most > 1 and most > 0.3 * len(tokens):
        return "most repeated token above 0.3"
    if any(len(list(run)) > 3 for _, run in groupby(tokens)):
        return "token run longer than 3"
    return None


def noun_ratio(tokens: Sequence[str]) -> float:
    """Share of nouns among the tokens of an English text, in [0, 1]; 0 without tokens."""
    tagged = textblob().tag(" ".join(tokens), tokenize=False) if tokens else []
    nouns = [token for token, kind in tagged if kind.startswith("NN")]
    return len(nouns) / max(len(tokens), 1)


@dataclass
class Filtered:
    """Result of filtering a page's segments.

    Attributes:
        segments: remaining segments, without boilerplate.
        removed: removed segments, each with the rule that it broke.
        stripped: number of boilerplate phrases removed.
        english: whether the noun rule was applied.
    """

    segments: list[Segment]
    removed: list[Removed]
    stripped: int
    english: bool


def filtered(segments: Iterable[Segment], language: str = "") -> Filtered:
    """Strip and filter the texts of a page's segments.

    Args:
        segments: segments of one page.
        language: language tag of the page, or "".
    """
    shorn = [(*boilerplate().strip(segment.text), segment.picture) for segment in segments]
    english = is_english([text for text, _, _ in shorn], language)
    result = Filtered([], [], sum(count for _, count, _ in shorn), english)
    for text, _, picture in shorn:
        if rule := fault_of(text, english=english):
            result.removed.append(Removed(rule, text, (picture.target,)))
        else:
            result.segments.append(Segment(text, picture))
    return result


MIN_SIDE_PX = 200
MAX_PAGES = 3
_MAX_ASPECT = 6.0


@dataclass(frozen=True)
class Judged:
    """Result of checking a picture file.

    Attributes:
        path: the file.
        rule: rule that excludes it; "" if it can be used.
        sha256: SHA-256 of its bytes; "" if unreadable.
        suffix: suffix for its format, such as ".jpg".
        phash: 64-bit perceptual hash; None if not computed.
    """

    path: str
    rule: str = ""
    sha256: str = ""
    suffix: str = ""
    phash: int | None = None


def judge(path: str) -> Judged:
    """Open a picture and apply the rules that need only this picture."""
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
    """Find near-duplicates of earlier pictures, and pictures on many pages.

    Args:
        pages: targets of the pictures of each page, in order.
        judged: target → result of `judge`; excluded pictures are ignored.
    Returns:
        (page number, target) → rule, for the pictures to exclude. Of a picture on one or two pages, the first
        occurrence is kept; a picture on three or more pages is treated as decoration and always excluded.
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
        if len({places[row][0] for row in rows}) >= MAX_PAGES:
            result |= {places[row]: f"picture on {MAX_PAGES} or more pages" for row in rows}
        else:
            result |= {places[row]: "near-duplicate picture" for row in rows[1:]}
    return result
