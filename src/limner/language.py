"""Which language a text is written in, found for the steps of one text or the captions of a library.

A caption of three words says little about its language, and its neighbours say much: the shares of the
languages are estimated over all texts together and then weigh in on each. It encodes nothing.
"""

from __future__ import annotations

import gzip
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from limner.records import Record

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

ENGLISH = "en"
UNKNOWN = "und"
"""ISO 639 code of a text whose language cannot be found."""
# Read by the multilingual encoder; a text is likelier to be in one of them than in any other language.
COMMON = ("ar", "de", "en", "es", "fr", "it", "ja", "ko", "nl", "pl", "pt", "ru", "th", "tr", "zh")
RIGHT_TO_LEFT = frozenset({"ar", "dv", "fa", "he", "ku", "ps", "sd", "sdh", "ug", "ur", "yi"})
MORE_LANGUAGES = (
    "a sentence-transformers model reads more: pip install 'limner[sentences]', then"
    " 'limner index' with --sentences sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2"
)


def _table(text: str) -> dict[str, str]:
    """Entries parted by commas: first word → the rest."""
    return dict(entry.split(maxsplit=1) for entry in " ".join(text.split()).split(","))


# Labels of the detector that this package does not tell apart.
_MERGED = _table("ary ar, arz ar, hbo he, nn no, pcm en, uzs uz, wuu zh, yue zh")
# What the detector tells apart; a test holds the list to it.
_LABELS = """
ace af am an ar ary arz as az ba bcl be bg bn br bs ca crh cs cy da de dz el en eo es et eu ext fa
fi fo fr fuv fy ga gcf gcr gd gl gom grc gu gug guw ha hbo he hi hr ht hu hy id ig is it ja jv ka
kab kik kk km kn ko ku ky la lb lg lij ln lo lt ltg lv mg mk ml mn mr ms mt my ne nl nn no nso oc om
or pa pcm pl ps pt qu ro ru rw sa sdh se si sk sl sn so sq sr st sv sw ta te tg th tk tl tr tt ug uk
ur uz uzs vec vi vo wa wuu xh yo yue zh zu zxx
"""
# First word of a letter's Unicode name → languages written so. All other languages are in Latin letters.
_SCRIPTS = _table(
    """
ARABIC ar fa ur ps ug sdh, ARMENIAN hy, BENGALI bn as, CJK zh ja, CYRILLIC ru uk be bg mk sr kk ky mn tg tt
ba, DEVANAGARI hi mr ne sa gom, ETHIOPIC am, GEORGIAN ka, GREEK el grc, GUJARATI gu, GURMUKHI pa, HANGUL ko,
HEBREW he, HIRAGANA ja, KANNADA kn, KATAKANA ja, KHMER km, LAO lo, MALAYALAM ml, MYANMAR my, ORIYA or,
SINHALA si, TAMIL ta, TELUGU te, THAI th, TIBETAN dz
"""
)
_READABLE = {"LATIN", "FULLWIDTH", "HALFWIDTH", *_SCRIPTS}
_BOTH_WAYS = {"sr"}  # written in Latin letters as well
_KANA = 0.05  # of a text's letters: with so many kana, Chinese characters are Japanese
# Before any text is seen: English, the other common ones together, all others together.
_PRIOR = (0.8, 0.19, 0.01)
_PRIOR_TEXTS, _EXPECTED_TEXTS = 2.0, 10.0  # how many texts that prior, or stated shares, count as
# A short text is said to be in none of the common languages only where that is this probable.
_SURE = 0.95
_ROUNDS = 8
_SAMPLE = 2000  # texts from which shares are estimated
_LETTERS = 600  # of each text that are read
# Log odds of English that a known word adds and an unknown one takes off, and the most that words may add.
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
    """A language and how sure it is.

    Attributes:
        code: ISO 639, such as ``en``; ``und`` where it cannot be found.
        probability: that it is this one, in [0, 1].
    """

    code: str
    probability: float


@dataclass(frozen=True)
class Languages:
    """What languages texts are written in.

    Attributes:
        each: one per text, in the order given.
        shares: language → estimated share of the texts, largest first; those under a thousandth are
            left out.
    """

    each: tuple[Language, ...]
    shares: dict[str, float]

    @property
    def main(self) -> str:
        """Code of the language with the largest share; ``und`` for no texts."""
        return next(iter(self.shares), UNKNOWN)


def has_words(text: str) -> bool:
    """Whether a text has a letter or a digit at all, and not only signs and emoji."""
    return any(unicodedata.category(sign)[0] in "LN" for sign in text)


def in_known_letters(text: str) -> bool:
    """Whether a text has a digit, or a letter of a script in which a known language is written.

    Letters that stand for a style (``𝔡``, ``ⓓ``) or are nobody's (private use) are in none.
    """
    for sign in text:
        kind = unicodedata.category(sign)
        script = unicodedata.name(sign, "").partition(" ")[0]
        if kind == "Nd" or (kind[0] == "L" and script in _READABLE):
            return True
    return False


def language_of(text: str, shares: Mapping[str, float] | None = None) -> Language:
    """The language of one text.

    Args:
        text: any.
        shares: language → share, expected before the text is seen, such as that of the library it belongs
            to; None expects mostly English.
    """
    return languages_of([text], shares).each[0]


def languages_of(texts: Sequence[str], shares: Mapping[str, float] | None = None) -> Languages:
    """The language of each of several texts that belong together.

    A text takes the language of its neighbours unless its own letters and words are clearly of another:
    shares of languages are the mixture weights that expectation maximisation gives to all texts, with
    the detector's scores as likelihoods.

    Args:
        texts: steps of one text, or captions of one library.
        shares: language → share, expected before these texts are seen, such as that of a library that
            is searched; None expects mostly English.
    Source: Lui & Baldwin 2012 (langid.py, the scores); Dempster, Laird & Rubin 1977 (the shares).
    """
    if not texts:
        return Languages((), {})
    codes = _codes()
    prior = _prior(codes, shares)
    sample = texts[:: -(-len(texts) // _SAMPLE)]
    scores = _scores(sample, codes)
    sizes = np.array([min(len(text), _LETTERS) for text in sample]) + 1.0
    sizes /= sizes.mean()  # a heading says less of its text's language than a paragraph
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
    """Which way a language is written, as HTML's attribute ``dir`` wants it."""
    return "rtl" if code.partition("-")[0] in RIGHT_TO_LEFT else "ltr"


def language_name(code: str) -> str:
    """What English calls a language, such as ``Swahili (sw)``; its code alone where that is not known."""
    names = _table(_NAMES)
    base = code.partition("-")[0]
    return f"{names[base]} ({code})" if base in names else f"language {code}"


def _prior(codes: Sequence[str], shares: Mapping[str, float] | None) -> Float64Array:
    """(L,) expected shares, each above 0, sum 1."""
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
    """(N, L) log-likelihoods and (L,) shares → (N, L) probabilities."""
    logits = scores + np.log(weights)
    raised = np.exp(logits - logits.max(axis=1, keepdims=True))
    probability: Float64Array = raised / raised.sum(axis=1, keepdims=True)
    return probability


def _decide(posterior: Float64Array, codes: Sequence[str]) -> list[Language]:
    """The most probable language of each row, or the most probable common one where they differ little."""
    usual = np.isin(codes, COMMON)
    found = []
    for row in posterior:
        best = int(np.where(usual, row, 0.0).argmax() if row[~usual].sum() < _SURE else row.argmax())
        found.append(Language(code=codes[best], probability=float(row[best])))
    return found


def _scores(texts: Sequence[str], codes: Sequence[str]) -> Float64Array:
    """(N, L) log-likelihood of each language up to a constant per text, −inf for another script."""
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
            # Reading the detector's model takes half a second, and English words leave it nothing to find.
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
    """How many words of a text a list of English words holds, and how many it does not."""
    listed = english_words()
    words = "".join(sign if sign.isalpha() else " " for sign in text.casefold()).split()
    telling = [word for word in words if len(word) > 1 and word not in _QUOTED]
    known = sum(word in listed for word in telling)
    return known, len(telling) - known


@cache
def english_words() -> frozenset[str]:
    """Words that English books use often, and those of a lexicon that are no names; see NOTICE."""
    packed = Path(__file__).with_name("english_words.txt.gz").read_bytes()
    return frozenset(gzip.decompress(packed).decode("utf-8").split())


def _detected(text: str, codes: Sequence[str]) -> Float64Array:
    """(L,) log-likelihoods by the detector's n-grams, tempered as it tempers its probabilities."""
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
    """Languages told apart, sorted."""
    return tuple(sorted({_MERGED.get(code, code) for code in _LABELS.split()} - {"zxx"}))


# Full stops, question and exclamation marks outside Latin punctuation (Unicode property Sentence_Terminal),
# with the closing quotes and brackets that follow. A full stop of these scripts needs no space after it.
# Not where a quotation ends inside a sentence: 「はい。」と言った。
_TERMINATORS = re.compile(
    r"(?:[。｡！？؟۔।॥։።፧፨၊။។៕᠃᠉⸮〽‼⁇⁈⁉𑁇𑁈]|．(?![0-9０-９]))++(?![」』]++[とっなのはがもをにで、，])"
    r"[\"'”’»›）)\]」』】〕》〉\u200f\u200e]*"
)


KEPT_LETTERS = 2000
"""Length up to which the sentences of a text are kept: a text is cut again whenever a step of it changes."""


@lru_cache(maxsize=2048)
def _split(text: str) -> tuple[str, ...]:
    from syntok import segmenter

    cuts = {0, len(text)}
    cuts |= {one[0].offset for paragraph in segmenter.analyze(text) for one in paragraph if one}
    cuts |= {match.end() for match in _TERMINATORS.finditer(text)}
    pieces = [text[start:end].strip() for start, end in pairwise(sorted(cuts))]
    return tuple(piece for piece in pieces if piece)


def split_sentences(text: str) -> list[str]:
    """Cut a paragraph into sentences; joined again they hold every character but the white space between.

    Args:
        text: one paragraph.

    Returns:
        The sentences in order, without surrounding white space; none is empty.
    """
    return list(_split(text) if len(text) <= KEPT_LETTERS else _split.__wrapped__(text))
