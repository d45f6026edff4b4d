"""Words that have a part of their own in a text: headings of a recipe or guide, markers of steps, bylines.

There is one table of words, `words.toml`, by language; nothing else in limner knows them.
"""

import re
import tomllib
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, get_args

from limner.records import Role

_LONGEST = 60
"""Maximum number of characters of a heading that names a role, and of a byline."""
_BRACKETS = re.compile(r"[(（\[【][^()（）\[\]【】]*[)）\]】]")
_KINDS = Literal[
    "supplies",
    "method",
    "aside",
    "label",
    "step",
    "page",
    "link",
    "method_start",
    "aside_start",
    "furniture_start",
    "and",
    "furniture",
    "closing",
    "byline",
    "picture",
    "picture_of",
    "picture_ask",
    "picture_here",
]
_KEYCAP = re.compile("([0-9])\ufe0f?\u20e3")
_CIRCLED = {chr(0x2460 + n): f"{n + 1}. " for n in range(20)} | {"🔟": "10. "}
_HAN = {letter: value for value, letter in enumerate("一二三四五六七八九", start=1)}
_COUNT = r"\d{1,3}|[一二三四五六七八九十]{1,3}"
_LIST_NUMBER = re.compile(r"\d{1,3}[.)]\s+")
# A number, its full stop or bracket, then text: "2.5 kg" and "10:30" are not markers.
_NUMBERED = re.compile(
    r"(?:[(（](?P<b>\d{1,3})[)）]"
    r"|(?P<a>\d{1,3})(?:[.．)）:/]+[-–]?[ \t\u00a0\u3000]+|\s?[·•|][ \t]|\s{2,}(?=[^\W\d_])|[、．）：]"
    r"|[.)](?=[^\W\d_])))"
    r"[ \t\u00a0\u3000]*(?P<rest>\S.*)",
    re.DOTALL,
)


@cache
def _table() -> dict[str, frozenset[str]]:
    """All words by kind, whatever their language."""
    return {
        kind: frozenset(_folded(word) for language in _languages() for word in language[kind])
        for kind in get_args(_KINDS)
    }


@cache
def _languages() -> tuple[dict[str, list[str]], ...]:
    text = Path(__file__).with_name("words.toml").read_text(encoding="utf-8")
    return tuple(tomllib.loads(text).values())


@cache
def _number_words() -> dict[str, int]:
    """Numbers by their words: "three" → 3."""
    return {
        _folded(word): number
        for language in _languages()
        for number, word in enumerate(language["number"], 1)
    }


def words_for(kind: str) -> frozenset[str]:
    """All words of a kind in `words.toml`, whatever their language."""
    return _table()[kind]


def _folded(text: str) -> str:
    return unicodedata.normalize("NFC", text.replace("’", "'").casefold())


def bare(heading: str) -> str:
    """A heading without case, emoji and other symbols, brackets, marker and colon: what its words are."""
    words = _LIST_NUMBER.sub("", _BRACKETS.sub(" ", _folded(heading).replace("\ufe0f", "")).strip(), count=1)
    words = "".join(" " if unicodedata.category(sign) in ("So", "Sk", "Cf") else sign for sign in words)
    return " ".join(words.split()).strip(" :：.*_#=~-–—|!¡")


@cache
def _heading() -> re.Pattern[str]:
    """Pattern of a heading that is role words, with what they are for: not one that merely mentions them."""
    table = _table()

    def either(*kinds: str) -> str:
        return "|".join(map(re.escape, sorted(set().union(*map(table.get, kinds)), key=len, reverse=True)))  # type: ignore[arg-type]

    roles = either("supplies", "method", "aside")
    return re.compile(
        rf"(?:(?:the|my|our|your|main|essential|required|recommended|optional|basic|die|das|le|la|les|los|las|il|gli)\s+)?"
        rf"(?P<first>{roles})"
        rf"(?:\s*(?:,|/|&|\+|\b(?:{either('and')})\b|[和与及と・、])\s*(?:{roles}))*"
        rf"(?:\s*[,:：–—-].*|\s+(?:{either('link')})\b.*|\s+x?\d.*)?",
        re.DOTALL,
    )


def role_of(heading: str) -> Role | None:
    """What a section is for by its heading; None for a heading that no table of words knows.

    Example:
        >>> role_of("🛒 Ingredients (serves 4):"), role_of("Zubereitung"), role_of("The old mill")
        ('supplies', 'method', None)
    """
    if len(heading) > _LONGEST or re.search(r"[.!?,;。！？，；]\s*$", heading):
        return None
    words, table = bare(heading), _table()
    kinds: tuple[Literal["supplies", "method", "aside"], ...] = ("supplies", "method", "aside")
    for kind in kinds:
        if words in table[kind]:
            return kind
    found = _heading().fullmatch(words)
    return next((kind for kind in kinds if found and found["first"] in table[kind]), None)


def lead_in(text: str) -> Role | None:
    """Role of a paragraph that begins with a role word: ``Materials: a white shirt, dye``, ``Serves 4``."""
    first = bare(text).split(" ")
    if len(first) < 4 and first[0] in _table()["label"] and any(word[0].isdigit() for word in first[1:]):
        return "aside"
    words, colon, rest = text.partition(":" if ":" in text[:_LONGEST] else "：")
    if not colon or not rest.strip() or len(words) > _LONGEST:
        return None
    return "aside" if bare(words) in _table()["label"] else role_of(words)


@dataclass(frozen=True)
class Marker:
    """The marker at the start of a step.

    Attributes:
        number: its number.
        rest: the text after it, possibly "".
        worded: whether it contains a word ("Step 3"), not only a number ("3.").
        page: whether that word is one for a page.
    """

    number: int
    rest: str
    worded: bool
    page: bool = False


@cache
def _worded() -> re.Pattern[str]:
    steps, pages = (
        "|".join(map(re.escape, sorted(words, key=len, reverse=True)))
        for words in (_table()["step"], _table()["page"])
    )
    numbers = "|".join(sorted(_number_words(), key=len, reverse=True))
    return re.compile(
        rf"(?:(?:{steps}|(?P<page>{pages}))[ \t\u00a0]*+(?:(?:no\.?|nr\.?|#|№)[ \t\u00a0]*+)?"
        rf"(?P<a>{_COUNT}|{numbers})"
        rf"|第[ ]?(?P<b>{_COUNT})[ ]?(?:步|(?P<leaf>[页頁]))|(?P<c>\d{{1,3}})[ ]?(?:단계|ステップ))(?!\w)"
        r"[ \t\u00a0]*[:：.．)）、,–—-]*[ \t\u00a0\n]*(?P<rest>.*)",
        re.IGNORECASE | re.DOTALL,
    )


def marker_of(text: str) -> Marker | None:
    """Step marker at the beginning of a line or paragraph, or None.

    Example:
        >>> marker_of("Step 3: Bake."), marker_of("2.5 kg of flour")
        (Marker(number=3, rest='Bake.', worded=True, page=False), None)
    """
    stripped = _KEYCAP.sub(r"\1", text.strip()) if "\u20e3" in text else text.strip()
    if stripped is not text.strip() and stripped[:1].isdigit():  # 1️⃣ is a marker without a full stop
        stripped = re.sub(r"^(\d{1,2})[ \t]*", r"\1. ", stripped)
    stripped = _CIRCLED.get(stripped[:1], stripped[:1]) + stripped[1:]
    if match := _worded().match(stripped):
        number, page = _value(match["a"] or match["b"] or match["c"]), bool(match["page"] or match["leaf"])
        return Marker(number, match["rest"].strip(), worded=True, page=page)
    match = _NUMBERED.match(stripped)
    return Marker(_value(match["a"] or match["b"]), match["rest"].strip(), worded=False) if match else None


def markers_in(texts: Sequence[str]) -> dict[int, Marker]:
    """Index → marker of texts that begin with one, in a run 1, 2, … (or 0, 1, …) of at least two.

    Args:
        texts: lines, paragraphs or headings in order. Several runs may follow each other; a number out of
            sequence ("1984. It was a bright day") is ordinary text.
    """
    kept: dict[int, Marker] = {}
    run: dict[int, Marker] = {}
    for place, text in enumerate(texts):
        marker = marker_of(text)
        if marker is None:
            continue
        if run and marker.number == next(reversed(run.values())).number + 1:
            run[place] = marker
        elif marker.number in {0, 1}:
            run = {place: marker}
        else:
            continue
        if len(run) > 1:
            kept |= run
    return kept


def role_of_start(heading: str) -> Role | None:
    """Role of a real heading by its first words: "How to make the dough"; None for any other."""
    words, table = bare(heading), _table()
    kinds: tuple[Literal["method", "aside"], ...] = ("method", "aside")
    return next(
        (
            kind
            for kind in kinds
            if words.startswith(tuple(table["method_start" if kind == "method" else "aside_start"]))
        ),
        None,
    )


@cache
def _furniture() -> re.Pattern[str]:
    words = sorted(map(re.escape, _table()["furniture"]), key=len, reverse=True)
    return re.compile(rf"(?:(?:{'|'.join(words)})[\s|/·•]*)+")


def is_furniture(text: str) -> bool:
    """Whether a line is buttons or labels of a page: "Print Pin Rate", "Posted in Islands"."""
    words = bare(text)
    if len(text) > _LONGEST or not words:
        return _COPYRIGHT.match(text.strip()) is not None and len(text) < _LONGEST_NOTICE
    labelled = _folded(text.strip()).startswith(tuple(_table()["furniture_start"]))
    labelled = labelled or text.rstrip().endswith("·") or _READING.fullmatch(text.strip()) is not None
    return labelled or _furniture().fullmatch(words) is not None


_COPYRIGHT = re.compile(r"©|copyright\b|\(c\)\s*\d", re.IGNORECASE)
_LONGEST_NOTICE = 400
_DATE = re.compile(
    r"(?:\w+,\s+)?(?:\w+\.?\s+)?(?:\d{1,2}(?:\.|st|nd|rd|th)?\s+(?:de\s+)?\w+\.?,?\s+(?:de\s+)?\d{4}"
    r"|\w+\.?\s+\d{1,2}(?:st|nd|rd|th)?,?\s+\d{4}|\d{4}-\d\d-\d\d|\d{1,2}[./]\d{1,2}[./]\d{2,4}|\d{4}年\d{1,2}月\d{1,2}日)"
    r"(?:[·|\s]*\d+\s*min\w*(?:\s+\w+)?)?",
)
_READING = re.compile(r"\d+\s*min(?:ute)?s?\s+read\b.{0,40}", re.IGNORECASE)


def is_date(text: str) -> bool:
    """Whether a line is only the date, or the reading time, of a page."""
    words = text.strip(" ·|–-")
    return len(words) <= _LONGEST and (
        _DATE.fullmatch(words) is not None or _READING.fullmatch(words) is not None
    )


def is_closing(text: str) -> bool:
    """Whether a paragraph only takes leave of the reader: "Enjoy!", "Best wishes" above a name."""
    first, *more = text.strip().split("\n")
    words, table = bare(first), _table()["closing"]
    if len(text) > _LONGEST or len(more) > 2:
        return False
    begins = words.startswith(tuple(f"{word} " for word in table))
    return words in table or (begins and (text.endswith("!") or (bool(more) and len(words.split()) < 5)))


_DATED = re.compile(r"\s*\b(?:on\s+)?\d{1,2}\b.*|\s+\w+\s+\d{1,2},?\s+\d{4}.*")


@cache
def _byline() -> re.Pattern[str]:
    words = "|".join(map(re.escape, sorted(_table()["byline"], key=len, reverse=True)))
    return re.compile(rf"(?:{words})\s*[:：]?\s+(?P<name>[^\W\d_].*)", re.IGNORECASE)


def author_in(line: str) -> str:
    """Author that a line below a title names: ``Written by Tola Eke``; "" for any other line."""
    found = _byline().fullmatch(line.strip()) if len(line) <= _LONGEST else None
    name = _DATED.sub("", found["name"]).strip(" ,·|–-") if found else ""
    capitals = [word[0] for word in name.split() if word[0].isalpha()]
    named = bool(capitals) and not capitals[0].islower() and not re.search(r"[.!?:;,]\s*$", name)
    return name if named and len(capitals) <= 6 else ""


def _value(digits: str) -> int:
    if number := _number_words().get(_folded(digits)):
        return number
    if digits[0] in _HAN or digits[0] == "十":
        tens, ten, units = digits.rpartition("十")
        return (_HAN.get(tens, 1) * 10 if ten else 0) + _HAN.get(units, 0)
    return int(digits)
