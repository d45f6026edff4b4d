"""Detects the language of texts, splits them into sentences, and finds matching words.

A caption of three words says little about its language, but the other captions say much: the shares of the
languages are estimated over all texts and are the prior for each text.
"""

from __future__ import annotations

import gzip
import re
import unicodedata
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import groupby, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from limner.config import Record
from limner.errors import RESEARCH, installed

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

ENGLISH = "en"
UNKNOWN = "und"
"""ISO 639 code of an unknown language."""
# languages of the multilingual encoder, which are more likely than all others
COMMON = ("ar", "de", "en", "es", "fr", "it", "ja", "ko", "nl", "pl", "pt", "ru", "th", "tr", "zh")
RIGHT_TO_LEFT = frozenset({"ar", "dv", "fa", "he", "ku", "ps", "sd", "sdh", "ug", "ur", "yi"})
MORE_LANGUAGES = (
    "a sentence-transformers model reads more: pip install 'limner[sentences]', then"
    " 'limner index' with --sentences sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2"
)


def _table(text: str) -> dict[str, str]:
    """Parse entries separated by commas: the rest of each by its first word."""
    return dict(entry.split(maxsplit=1) for entry in " ".join(text.split()).split(","))


# labels of the detector that count as one language
_MERGED = _table("ary ar, arz ar, hbo he, nn no, pcm en, uzs uz, wuu zh, yue zh")
# labels of the detector; a test compares the list with it
_LABELS = """
ace af am an ar ary arz as az ba bcl be bg bn br bs ca crh cs cy da de dz el en eo es et eu ext fa
fi fo fr fuv fy ga gcf gcr gd gl gom grc gu gug guw ha hbo he hi hr ht hu hy id ig is it ja jv ka
kab kik kk km kn ko ku ky la lb lg lij ln lo lt ltg lv mg mk ml mn mr ms mt my ne nl nn no nso oc om
or pa pcm pl ps pt qu ro ru rw sa sdh se si sk sl sn so sq sr st sv sw ta te tg th tk tl tr tt ug uk
ur uz uzs vec vi vo wa wuu xh yo yue zh zu zxx
"""
# languages by the first word of the Unicode names of their letters; all others use Latin letters
_SCRIPTS = _table(
    """
ARABIC ar fa ur ps ug sdh, ARMENIAN hy, BENGALI bn as, CJK zh ja, CYRILLIC ru uk be bg mk sr kk ky mn tg tt
ba, DEVANAGARI hi mr ne sa gom, ETHIOPIC am, GEORGIAN ka, GREEK el grc, GUJARATI gu, GURMUKHI pa, HANGUL ko,
HEBREW he, HIRAGANA ja, KANNADA kn, KATAKANA ja, KHMER km, LAO lo, MALAYALAM ml, MYANMAR my, ORIYA or,
SINHALA si, TAMIL ta, TELUGU te, THAI th, TIBETAN dz
"""
)
_READABLE = {"LATIN", "FULLWIDTH", "HALFWIDTH", *_SCRIPTS}
_BOTH_WAYS = {"sr"}  # also written in Latin letters
_KANA = 0.05  # share of kana from which Chinese characters are Japanese
# prior shares: English, the other common languages together, all others together
_PRIOR = (0.8, 0.19, 0.01)
_PRIOR_TEXTS, _EXPECTED_TEXTS = 2.0, 10.0  # number of texts that this prior, or given shares, count as
# probability from which a short text is taken to be in none of the common languages
_SURE = 0.95
_ROUNDS = 8
_SAMPLE = 2000  # texts from which shares are estimated
_LETTERS = 600  # characters of each text that are used
# log-odds of English that a known word adds and an unknown one subtracts, and the limit of their sum
_KNOWN, _STRANGE, _MOST = 1.5, 0.5, 8.0
_FOREIGN = "al da das de del della den der des die du el en et il la le les mi no se su un une van"
_QUOTED = frozenset(_FOREIGN.split())

_NAMES = """
af Afrikaans, am Amharic, ar Arabic, as Assamese, az Azerbaijani, be Belarusian, bg Bulgarian, bn
Bengali, br Breton, bs Bosnian, ca Catalan, cs Czech, cy Welsh, da Danish, de German, el Greek, en
English, eo Esperanto, es Spanish, et Estonian, eu Basque, fa Persian, fi Finnish, fr French, fy Frisian,
ga Irish, gl Galician, gu Gujarati, ha Hausa, he Hebrew, hi Hindi, hr Croatian, hu Hungarian, hy
Armenian, id Indonesian, ig Igbo, is Icelandic, it Italian, ja Japanese, jv Javanese, ka Georgian, kk
Kazakh, km Khmer, kn Kannada, ko Korean, ku Kurdish, ky Kyrgyz, la Latin, lo Lao, lt Lithuanian, lv
Latvian, mg Malagasy, mk Macedonian, ml Malayalam, mn Mongolian, mr Marathi, ms Malay, mt Maltese, my
Burmese, ne Nepali, nl Dutch, no Norwegian, oc Occitan, pa Punjabi, pl Polish, ps Pashto, pt Portuguese,
ro Romanian, ru Russian, rw Kinyarwanda, si Sinhala, sk Slovak, sl Slovenian, sn Shona, so Somali, sq
Albanian, sr Serbian, sv Swedish, sw Swahili, ta Tamil, te Telugu, tg Tajik, th Thai, tk Turkmen, tl
Tagalog, tr Turkish, tt Tatar, ug Uyghur, uk Ukrainian, ur Urdu, uz Uzbek, vi Vietnamese, xh Xhosa, yo
Yoruba, zh Chinese, zu Zulu
"""

Float64Array = NDArray[np.float64]


class Language(Record):
    """A language with its probability.

    Attributes:
        code: ISO 639 code, such as ``en``; ``und`` if it is unknown.
        probability: probability of this language, in [0, 1].
    """

    code: str
    probability: float


@dataclass(frozen=True)
class Languages:
    """Languages of several texts.

    Attributes:
        each: one per text, in the given order.
        shares: estimated share of the texts by language, largest first, without those under 0.001.
    """

    each: tuple[Language, ...]
    shares: dict[str, float]

    @property
    def main(self) -> str:
        """Code of the language with the largest share; ``und`` for no texts."""
        return next(iter(self.shares), UNKNOWN)


def has_words(text: str) -> bool:
    """Whether a text has a letter or a digit, and not only punctuation and emoji."""
    return any(unicodedata.category(sign)[0] in "LN" for sign in text)


def in_known_letters(text: str) -> bool:
    """Whether a text has a digit, or a letter of a script in which a known language is written.

    Stylistic letters (``𝔡``, ``ⓓ``) and those of private use are in none.
    """
    for sign in text:
        kind = unicodedata.category(sign)
        script = unicodedata.name(sign, "").partition(" ")[0]
        if kind == "Nd" or (kind[0] == "L" and script in _READABLE):
            return True
    return False


def language_of(text: str, shares: Mapping[str, float] | None = None) -> Language:
    """Detect the language of one text.

    Args:
        text: any text.
        shares: prior shares by language, such as those of the library; None for mostly English.
    """
    return languages_of([text], shares).each[0]


def languages_of(texts: Sequence[str], shares: Mapping[str, float] | None = None) -> Languages:
    """Detect the language of each of several texts that belong together.

    A text takes the language of its neighbours unless its own letters and words are clearly of another:
    shares of languages are the mixture weights that expectation maximisation gives to all texts, with
    the detector's scores as likelihoods.

    Args:
        texts: steps of one text, or captions of one library.
        shares: prior shares by language, such as those of the library to be searched; None for mostly
            English.
    Source: Lui & Baldwin 2012 (langid.py, the scores); Dempster, Laird & Rubin 1977 (the shares).
    """
    if not texts:
        return Languages((), {})
    codes = _codes()
    prior = _prior(codes, shares)
    sample = texts[:: -(-len(texts) // _SAMPLE)]
    scores = _scores(sample, codes)
    sizes = np.array([min(len(text), _LETTERS) for text in sample]) + 1.0
    sizes /= sizes.mean()  # a heading is weaker evidence than a paragraph
    before = _EXPECTED_TEXTS if shares else _PRIOR_TEXTS
    weights = prior
    for _ in range(_ROUNDS):
        counts = sizes @ _posterior(scores, weights)
        weights = (counts + before * prior) / (sizes.sum() + before)
    each: list[Language] = []
    for start in range(0, len(texts), _SAMPLE):
        chunk = texts[start : start + _SAMPLE]
        own = scores if len(sample) == len(texts) else _scores(chunk, codes)
        each += _decide(_posterior(own, weights), codes)
    found = sizes @ _posterior(scores, weights) / len(sample)
    order = sorted(range(len(codes)), key=lambda column: -found[column])
    return Languages(tuple(each), {codes[k]: float(found[k]) for k in order if found[k] >= 1e-3})


def direction(code: str) -> Literal["ltr", "rtl"]:
    """Writing direction of a language, as in HTML's attribute ``dir``."""
    return "rtl" if code.partition("-")[0] in RIGHT_TO_LEFT else "ltr"


def language_name(code: str) -> str:
    """English name of a language, such as ``Swahili (sw)``; only the code if the name is unknown."""
    names = _table(_NAMES)
    base = code.partition("-")[0]
    return f"{names[base]} ({code})" if base in names else f"language {code}"


def _prior(codes: Sequence[str], shares: Mapping[str, float] | None) -> Float64Array:
    """Prior shares (L,), each above 0, sum 1."""
    english, common, rare = _PRIOR
    usual = [
        english if code == ENGLISH else common / (len(COMMON) - 1) if code in COMMON else rare / len(codes)
        for code in codes
    ]
    weights = np.array(usual)
    if shares:
        weights = 0.1 * weights + 0.9 * np.array([shares.get(code, 0.0) for code in codes])
    normal: Float64Array = weights / weights.sum()
    return normal


def _posterior(scores: Float64Array, weights: Float64Array) -> Float64Array:
    """Posterior probabilities (N, L) from log-likelihoods (N, L) and shares (L,)."""
    logits = scores + np.log(weights)
    raised = np.exp(logits - logits.max(axis=1, keepdims=True))
    probability: Float64Array = raised / raised.sum(axis=1, keepdims=True)
    return probability


def _decide(posterior: Float64Array, codes: Sequence[str]) -> list[Language]:
    """Most probable language of each row, or the most probable common one if they differ little."""
    usual = np.isin(codes, COMMON)
    found = []
    for row in posterior:
        best = int(np.where(usual, row, 0.0).argmax() if row[~usual].sum() < _SURE else row.argmax())
        found.append(Language(code=codes[best], probability=float(row[best])))
    return found


def _scores(texts: Sequence[str], codes: Sequence[str]) -> Float64Array:
    """Log-likelihood (N, L) of each language up to a constant per text, −inf for another script."""
    scores = np.zeros((len(texts), len(codes)))
    english = codes.index(ENGLISH)
    counts = np.array([_english_words_of(text[:_LETTERS]) for text in texts])  # (N, 2) known, strange
    words = _KNOWN * counts[:, 0] - _STRANGE * counts[:, 1]
    english_text = words.sum() >= _MOST
    for row, text in enumerate(texts):
        allowed = _written_so(text[:_LETTERS])
        if allowed is None:
            continue
        inside = np.array([code in allowed for code in codes])
        scores[row, ~inside] = -np.inf
        known, strange = counts[row]
        if inside[english]:
            scores[row, english] += np.clip(words[row], -_MOST, _MOST)
            # Loading the detector's model takes half a second, and is not needed if all words are English.
            if known and (not strange or words[row] >= _MOST or (english_text and known >= 2 * strange)):
                continue
        if inside.sum() > 1:
            scores[row] += _detected(text[:_LETTERS], codes)
    return scores


@lru_cache(maxsize=1_024)
def _written_so(text: str) -> frozenset[str] | None:
    """Languages of the script that most letters of a text belong to; None for a text without letters."""
    scripts = Counter(unicodedata.name(sign, "LATIN").split()[0] for sign in text if sign.isalpha())
    if not scripts:
        return None
    kana = scripts["HIRAGANA"] + scripts["KATAKANA"]
    script = scripts.most_common(1)[0][0]
    if script == "CJK" and kana > _KANA * scripts.total():
        script = "HIRAGANA"
    if script in _SCRIPTS:
        return frozenset(_SCRIPTS[script].split())
    return _latin()


@cache
def _latin() -> frozenset[str]:
    """Languages written in Latin letters."""
    others = frozenset(" ".join(_SCRIPTS.values()).split())
    return frozenset(_codes()) - (others - _BOTH_WAYS)


@lru_cache(maxsize=1_024)
def _english_words_of(text: str) -> tuple[int, int]:
    """Numbers of words of a text that are, and are not, in the list of English words."""
    listed = english_words()
    words = "".join(sign if sign.isalpha() else " " for sign in text.casefold()).split()
    telling = [word for word in words if len(word) > 1 and word not in _QUOTED]
    known = sum(word in listed for word in telling)
    return known, len(telling) - known


@cache
def english_words() -> frozenset[str]:
    """Frequent words of English books, and words of a lexicon that are no names; see NOTICE."""
    packed = Path(__file__).with_name("english_words.txt.gz").read_bytes()
    return frozenset(gzip.decompress(packed).decode("utf-8").split())


def _detected(text: str, codes: Sequence[str]) -> Float64Array:
    """Log-likelihoods (L,) of the detector's n-grams, with its temperature."""
    merged = dict.fromkeys(codes, 0.0)
    for code, probability in _detector().rank(text):
        label = _MERGED.get(code, code)
        if label in merged:
            merged[label] += probability
    return np.log(np.maximum([merged[code] for code in codes], 1e-9))


@cache
def _detector() -> LanguageIdentifier:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


@cache
def _codes() -> tuple[str, ...]:
    """Languages that can be detected, sorted."""
    return tuple(sorted({_MERGED.get(code, code) for code in _LABELS.split()} - {"zxx"}))


# Full stops, question and exclamation marks outside Latin punctuation (Unicode property Sentence_Terminal),
# with the closing quotes and brackets that follow. A full stop of these scripts needs no space after it.
# Not where a quotation ends inside a sentence: 「はい。」と言った。
_TERMINATORS = re.compile(
    r"(?:[。｡！？؟۔।॥։።፧፨၊။។៕᠃᠉⸮〽‼⁇⁈⁉𑁇𑁈]|．(?![0-9０-９]))++(?![」』]++[とっなのはがもをにで、，])"
    r"[\"'”’»›）)\]」』】〕》〉\u200f\u200e]*"
)


KEPT_LETTERS = 2000
"""Maximum length of a text whose sentences are cached; a text is split again whenever one of its steps
changes.
"""


@lru_cache(maxsize=2048)
def _split(text: str) -> tuple[str, ...]:
    from syntok import segmenter

    cuts = {0, len(text)}
    cuts |= {one[0].offset for paragraph in segmenter.analyze(text) for one in paragraph if one}
    cuts |= {match.end() for match in _TERMINATORS.finditer(text)}
    pieces = [text[start:end].strip() for start, end in pairwise(sorted(cuts))]
    return tuple(piece for piece in pieces if piece)


def split_sentences(text: str) -> list[str]:
    """Split a paragraph into sentences; joined again they contain every character except white space between.

    Args:
        text: one paragraph.

    Returns:
        The sentences in order, without surrounding white space; none is empty.
    """
    return list(_split(text) if len(text) <= KEPT_LETTERS else _split.__wrapped__(text))


_FUNCTION_WORDS = """
the and but for nor not you your yours his her hers its our ours their theirs this that these those with from
into onto over under than then there here when where which who whom whose what why how are was were been being
has have had having does did doing will would shall should can could may might must she him they them some any
all each every both few more most other such only own same too very just also about again once because while
until after before above below between during out off one two said got get let
"""
FUNCTION_WORDS = frozenset(_FUNCTION_WORDS.split())
"""Frequent English words, which match everywhere and explain nothing."""


@lru_cache(maxsize=4096)
def words(text: str) -> tuple[str, ...]:
    """Words in order, folded to lower case and composed form; numbers and signs are dropped."""
    folded = unicodedata.normalize("NFC", text.casefold())
    runs = groupby(folded, key=lambda sign: unicodedata.category(sign)[0] in "LM")
    return tuple("".join(run) for letters, run in runs if letters)


@lru_cache(maxsize=16_384)
def folded(name: str) -> str:
    """A name without case, accents and hyphens, by which names are compared.

    Example:
        >>> folded("Bourg-en-Bresse"), folded("Zürich")
        ('bourg en bresse', 'zurich')
    """
    letters = unicodedata.normalize("NFKD", name.casefold().replace("-", " ").replace("’", "'"))
    return " ".join("".join(one for one in letters if not unicodedata.combining(one)).split())


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


@cache
def textblob() -> Any:  # noqa: ANN401  (an untyped module)
    """Tagger, chunker, inflection and lexicon of English, loaded once: the module ``textblob.en``.

    Raises:
        MissingError: the extra ``research`` is not installed.
    """
    with installed("textblob", RESEARCH), warnings.catch_warnings():
        # while loading, textblob leaves its lexicon's file open until it is garbage-collected
        warnings.simplefilter("ignore", ResourceWarning)
        from textblob import en  # type: ignore[import-untyped, unused-ignore]

        en.parse("warm", collapse=False)
    return en
