"""Reads plain text: paragraphs between blank lines, pages between form feeds, and steps marked by words or
numbers.

The markers ("Step 3:", "2)", "第一步") and the headings around steps are used for marked-up texts too.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from limner.errors import DataError
from limner.records import Part
from limner.text.document import Block, Document

# "step" and "page" in the most frequent languages; in others, a line may still begin with "1." or "1)".
_STEP_WORDS = (
    "step|steps|stage|page|schritt|seite|étape|etape|page|paso|página|pagina|passo|passaggio|stap|krok|steg|trin|"
    "lépés|adım|hatua|ukurasa|langkah|bước|hakbang|шаг|крок|этап|страница|βήμα|שלב|צעד|עמוד|الخطوة|خطوة|صفحة|"
    "مرحله|گام|चरण|कदम|पृष्ठ|ধাপ|படி|దశ|ขั้นตอนที่|ขั้นตอน|ステップ|手順|단계|步骤|步驟"
)
_HAN = {letter: value for value, letter in enumerate("一二三四五六七八九", start=1)}
_HAN_NUMBER = "[一二三四五六七八九十]{1,3}"
_WORDED = re.compile(
    rf"(?:(?:{_STEP_WORDS})[ \t\u00a0]*+(?:(?:no\.?|nr\.?|#|№)[ \t\u00a0]*+)?(?P<a>\d{{1,3}}|{_HAN_NUMBER})"
    rf"|第[ ]?(?P<b>\d{{1,3}}|{_HAN_NUMBER})[ ]?[步页頁])(?!\w)"
    r"[ \t\u00a0]*[:：.．)）、,–—-]*[ \t\u00a0]*(?P<rest>.*)",
    re.IGNORECASE | re.DOTALL,
)
# A number, its full stop or bracket, then text: "2.5 kg" and "10:30" are not markers.
_NUMBERED = re.compile(r"[(（]?(?P<a>\d{1,3})(?:[.．)）:]+[ \t\u00a0]+|[、．）：])(?P<rest>\S.*)", re.DOTALL)

_SUPPLY_WORDS = (
    "ingredients?|supplies|materials?|tools?|equipment|utensils|what you(?:'|"
    "’)?(?: wi)?ll need|you(?: wi|'|’)ll need|what you need|shopping list|bill of materials|"
    "parts list|zutaten|ingrédients?|ingredientes?|ingredienti|ingrediënten|ingredienser|"
    "ingredienzer|składniki|suroviny|hozzávalók|malzemeler|viungo|bahan(?:-bahan)?|"
    "nguyên liệu|mga sangkap|ингредиенты|інгредієнти|υλικά|מצרכים|רכיבים|חומרים|المكونات|"
    "المقادير|مواد لازم|सामग्री|উপকরণ|ส่วนผสม|材料|食材|配料|用料|原料|工具|재료"
)
_METHOD_WORDS = (
    "methods?|directions?|instructions?|preparation|procedure|steps?|operations?|"
    "how to make(?: it)?|zubereitung|anleitung|préparation|étapes|preparación|pasos|"
    "elaboración|preparo|modo de preparo|preparazione|bereiding|przygotowanie|postup|"
    "hazırlanışı|yapılışı|maandalizi|namna ya kupika|cara membuat|cách làm|приготовление|"
    "приготування|εκτέλεση|אופן ההכנה|הוראות הכנה|طريقة التحضير|التحضير|طرز تهیه|विधि|প্রণালী|"
    "วิธีทำ|作り方|做法|步骤|步驟|制作方法|操作|만드는 법"
)


def _heading_of(words: str) -> re.Pattern[str]:
    """Pattern of a heading that is one of the words, not one that merely mentions it ("Remove the tools")."""
    before = r"(?:(?:the|your|main|essential|required|recommended|optional|basic|step by step)\s+|必备|主要)?"
    more = rf"(?:\s*(?:,|/|&|\+|\band\b|\bor\b|\bund\b|\bet\b|\by\b|和|与|及)\s*(?:{words}))*"
    after = r"(?:\s*[(（\[,:–-].*|\s+(?:for|needed|required|list|für|pour|para|per)\b.*)?"
    return re.compile(rf"{before}(?:{words}){more}{after}", re.IGNORECASE)


_SUPPLIES = _heading_of(_SUPPLY_WORDS)
_METHOD = _heading_of(_METHOD_WORDS)
_LONGEST_NAME = 60


@dataclass(frozen=True)
class Marker:
    """The marker at the start of a step.

    Attributes:
        number: its number.
        rest: the text after it, possibly "".
        worded: whether it contains a word ("Step 3"), not only a number ("3.").
    """

    number: int
    rest: str
    worded: bool


def marker_of(text: str) -> Marker | None:
    """Step marker at the beginning of a line or paragraph, or None."""
    stripped = text.strip()
    match = _WORDED.match(stripped)
    if match:
        return Marker(_value(match["a"] or match["b"]), match["rest"].strip(), worded=True)
    match = _NUMBERED.match(stripped)
    return Marker(_value(match["a"]), match["rest"].strip(), worded=False) if match else None


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
        if place in run and len(run) >= 2:
            kept |= run if len(run) == 2 else {place: marker}
    return kept


def names_supplies(heading: str) -> bool:
    """Whether a heading names ingredients or tools, such as "Ingredients", "Zutaten" or "You will need"."""
    return _names(_SUPPLIES, heading) and not _names(_METHOD, heading)


def names_method(heading: str) -> bool:
    """Whether a heading names the method, such as "Method", "Instructions" or "做法"."""
    return _names(_METHOD, heading)


def _names(pattern: re.Pattern[str], heading: str) -> bool:
    return len(heading) <= _LONGEST_NAME and pattern.fullmatch(heading.strip().rstrip(":：")) is not None


def _value(digits: str) -> int:
    if digits[0] in _HAN or digits[0] == "十":
        tens, ten, units = digits.rpartition("十")
        return (_HAN.get(tens, 1) * 10 if ten else 0) + _HAN.get(units, 0)
    return int(digits)


_BULLET = re.compile(r"[*•‣◦▪●·-][ \t]+(?=\S)")
_RULE = re.compile(r"([-=_*~#])(?:[ \t]*\1){2,}|[⁂❦]")
_SENTENCE_END = re.compile(r"[.!?…:;,。！？।؟۔։።៕။\"'”’»)）]$")
_LONGEST_TITLE = 80
_LINE_ENDS = "\n\r\f\v\x85\u2028\u2029"
_MAX_LINES = 1_000_000


def read_plain(text: str, where: str) -> Document:
    """Read a plain text.

    A first line that stands alone, is short and has no final punctuation is the title if the next paragraph
    has some. Lines that are only "Ingredients" or "Method" (in many languages) are headings. Lines of dashes,
    asterisks or equals signs, and form feeds, are page breaks.

    Args:
        text: the decoded file.
        where: its name, for messages.
    Raises:
        DataError: there are more lines than can be read in a few seconds.
    """
    if sum(map(text.count, _LINE_ENDS)) > _MAX_LINES:
        raise DataError(f"{where}: has more than {_MAX_LINES:,} lines; expected a readable text; split it")
    lines = re.split(r"\r\n|[\n\r\u2028\u2029\v\x85]", text.replace("\f", "\n\f\n"))
    marked = markers_in(lines)
    width = max((len(line.strip()) for line in lines), default=0)
    blocks: list[Block] = []
    pending: list[str] = []
    for index, line in enumerate(lines):
        stripped = line.strip()
        is_break = line == "\f" or _RULE.fullmatch(stripped)
        if index in marked or not stripped or is_break:
            _close(pending, blocks, width)
        if is_break:
            blocks.append(Block("break"))
        elif stripped:
            pending.append(stripped)
    _close(pending, blocks, width)
    document = Document(blocks=blocks)
    _take_title(document)
    return document


def _close(pending: list[str], blocks: list[Block], width: int) -> None:
    """Convert the lines collected so far into blocks; `width` is the length of the text's longest line."""
    if pending and (names_supplies(pending[0]) or names_method(pending[0])) and _is_name(pending[0]):
        blocks.append(Block("heading", pending.pop(0).rstrip(":：").strip(), level=2))
    if len(pending) >= 2 and all(_BULLET.match(line) for line in pending):
        own = len(blocks) + 1
        blocks += [Block("item", _BULLET.sub("", line, count=1), list_id=own) for line in pending]
    elif pending:
        listed = bool(blocks) and blocks[-1].kind == "heading" and names_supplies(blocks[-1].text)
        parts: tuple[Part, ...] = ()
        if len(pending) > 1 and listed:
            parts = tuple(Part(kind="item", text=line, depth=1) for line in pending)
        elif not _is_wrapped(pending, width):
            parts = (Part(text="\n".join(pending)),)
        blocks.append(Block("paragraph", " ".join(pending), parts=parts))
    pending.clear()


def _is_wrapped(lines: list[str], width: int) -> bool:
    """Whether lines were wrapped for lack of space, not broken where the author wanted."""
    return all(len(line) + 1 + len(after.split()[0]) > width for line, after in pairwise(lines))


def _is_name(line: str) -> bool:
    return len(line.split()) <= 4 and marker_of(line) is None and not re.search(r"[.!?。！？।؟]$", line)


def _take_title(document: Document) -> None:
    if len(document.blocks) < 3:
        return
    first, second = document.blocks[:2]
    # A title page remains a page: its picture is the cover.
    ends = second.kind == "heading" or (second.kind == "paragraph" and _SENTENCE_END.search(second.text))
    plain = first.kind == "paragraph" and not _SENTENCE_END.search(first.text) and not marker_of(first.text)
    if ends and plain and len(first.text) <= _LONGEST_TITLE:
        document.title = first.text
        del document.blocks[0]
