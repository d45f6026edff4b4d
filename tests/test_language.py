"""Languages of texts: short captions, two languages, scripts, English data sets; and words that match."""

import json
from importlib.metadata import distribution
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from py3langid.langid import MODEL_FILE, LanguageIdentifier

from limner import language
from limner.encoders.sentences import LANGUAGES
from limner.language import COMMON, direction, language_of, languages_of, matched, stem, words

TEXTS = {
    "ar": ["كلب يركض على الشاطئ", "طفلان يلعبان الكرة", "امرأة تأكل الخبز"],
    "de": ["Ein Hund rennt am Strand.", "Zwei Kinder spielen Fußball.", "Eine Frau isst Brot."],
    "en": ["A dog runs.", "Two kids.", "A man in red eats bread."],
    "es": ["Un perro marrón corre por la playa.", "Dos niños juegan al fútbol.", "El gato duerme."],
    "fa": ["سگی در ساحل می‌دود", "دو کودک فوتبال بازی می‌کنند"],
    "fi": ["Koira juoksee rannalla.", "Kaksi lasta pelaa jalkapalloa.", "Kissa nukkuu."],
    "fr": ["Un chien court sur la plage.", "Deux enfants jouent au ballon.", "Le chat dort."],
    "he": ["כלב רץ על החוף", "שני ילדים משחקים כדורגל", "אישה אוכלת לחם"],
    "hi": ["एक कुत्ता समुद्र तट पर दौड़ रहा है", "दो बच्चे फुटबॉल खेल रहे हैं"],
    "it": ["Un cane corre sulla spiaggia.", "Due bambini giocano a calcio.", "Il gatto dorme."],
    "ja": ["犬が浜辺を走っている", "二人の子供がサッカーをしている", "犬"],
    "ko": ["개가 해변에서 달린다", "두 아이가 축구를 한다"],
    "nl": ["Een hond rent op het strand.", "Twee kinderen spelen voetbal.", "De kat slaapt."],
    "pl": ["Pies biegnie po plaży.", "Dwoje dzieci gra w piłkę.", "Kot śpi."],
    "pt": ["Um cachorro corre na praia.", "Duas crianças jogam bola.", "O gato dorme."],
    "ru": ["Собака бежит по пляжу.", "Двое детей играют в футбол.", "Кошка спит."],
    "sw": ["Mbwa anakimbia ufukweni.", "Watoto wawili wanacheza mpira.", "Paka amelala."],
    "th": ["สุนัขวิ่งบนชายหาด", "เด็กสองคนเล่นฟุตบอล"],
    "tr": ["Bir köpek sahilde koşuyor.", "İki çocuk top oynuyor.", "Kedi uyuyor."],
    "uk": ["Собака біжить по пляжу.", "Двоє дітей грають у футбол.", "Жінка їсть хліб."],
    "zh": ["一只狗在沙滩上奔跑", "两个孩子在踢足球", "狗"],
}


@pytest.mark.parametrize("code", TEXTS)
def test_each_sentence_of_a_text_has_its_language(code):
    found = languages_of(TEXTS[code])
    assert [one.code for one in found.each] == [code] * len(TEXTS[code])
    assert found.main == code
    assert all(0 < one.probability <= 1 for one in found.each)


@pytest.mark.parametrize("text", ["dog.jpg", "A dog runs.", "Two dogs", "Mia ran on.", "dog", "a man in red"])
def test_short_english_alone_is_english(text):
    assert language_of(text).code == "en"


def test_steps_of_a_bilingual_text_keep_their_own_languages():
    text = ["The dog ran home.", "El perro corrió a casa.", "The boy was happy.", "El niño estaba feliz."]
    found = languages_of(text)
    assert [one.code for one in found.each] == ["en", "es", "en", "es"]
    assert found.shares["es"] == pytest.approx(0.5, abs=0.15)


def test_a_word_that_could_be_of_two_languages_takes_that_of_its_neighbours():
    """Chocolate is a word of English and of Spanish."""
    spanish = [*TEXTS["es"], "Chocolate"]
    english = [*TEXTS["en"], "Chocolate"]
    assert languages_of(spanish * 3).each[-1].code == "es"
    assert languages_of(english).each[-1].code == "en"


def test_expected_shares_decide_where_a_word_does_not():
    assert language_of("perro").code == "en"  # a name, for all that one word tells
    assert language_of("perro", {"es": 1.0}).code == "es"
    assert language_of("The dog ran home to its basket.", {"es": 1.0}).code == "en"


def test_texts_without_letters_and_no_texts():
    assert language_of("123 ...").code == "en"
    assert languages_of([*TEXTS["ru"], "2024"]).each[-1].code == "ru"
    assert languages_of([]).main == "und"
    assert languages_of([]).each == ()


def test_a_text_does_not_change_with_the_order_of_its_neighbours():
    texts = [text for code in ("en", "es", "ru") for text in TEXTS[code]]
    forth, back = languages_of(texts).each, languages_of(texts[::-1]).each[::-1]
    assert [one.code for one in forth] == [one.code for one in back]


def test_directions():
    assert [direction(code) for code in ("ar", "he", "fa-IR", "en", "ja", "und")] == ["rtl"] * 3 + ["ltr"] * 3


@pytest.mark.slow
def test_the_labels_are_those_of_the_detector():
    detector = LanguageIdentifier.from_model_file(MODEL_FILE)
    assert set(language._LABELS.split()) == set(detector.labels)
    assert set(COMMON) == LANGUAGES
    assert set(" ".join(language._SCRIPTS.values()).split()) <= set(detector.labels)


@pytest.mark.shared
@pytest.mark.slow
def test_captions_of_photographs_are_english(shared_data):
    """≥ 98 % of 5,000 captions, each alone; all of them among their neighbours."""
    lines = (shared_data / "flickr8k" / "captions.jsonl").read_text(encoding="utf-8").splitlines()
    captions = [caption for line in lines for caption in json.loads(line)["captions"]][::5]
    alone = [language_of(caption).code == "en" for caption in captions]
    assert sum(alone) >= 0.98 * len(captions) > 4000
    assert {one.code for one in languages_of(captions).each} == {"en"}


@pytest.mark.shared
@pytest.mark.slow
def test_picture_books_are_english(shared_data):
    lines = (shared_data / "storybook" / "stories.jsonl").read_text(encoding="utf-8").splitlines()
    books = [[page["text"] for page in json.loads(line)["pages"] if page["text"].strip()] for line in lines]
    told = [languages_of(book) for book in books]
    assert sum(one.main == "en" for one in told) >= 0.995 * len(books) > 200
    assert sum(step.code == "en" for one in told for step in one.each) >= 0.98 * sum(map(len, books))


@pytest.mark.slow
def test_the_words_that_come_with_limner_are_those_of_textblob():
    """Those that English books hold ten times or more often, and those of a lexicon that are no names."""
    folder = Path(str(distribution("textblob").locate_file("textblob/en")))

    def lines(name):
        text = (folder / name).read_text(encoding="utf-8")
        return [line.split() for line in text.splitlines() if line and not line.startswith(";")]

    books = {word for word, count in lines("en-spelling.txt") if int(count) >= 10}
    lexicon = {word for word, *tags in lines("en-lexicon.txt") if tags[0] not in ("FW", "NNP", "NNPS")}
    looked_up = {word for word in books | lexicon if word.isalpha() and word == word.casefold() and word[1:]}
    assert language.english_words() == looked_up


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("kites", "kite"),
        ("running", "run"),
        ("stories", "story"),
        ("boxes", "box"),
        ("baked", "bake"),
        ("baking", "bakes"),
        ("beaches", "beach"),
        ("houses", "house"),
        ("rolling", "roll"),
        ("glasses", "glass"),
    ],
)
def test_forms_of_a_word_meet(left, right):
    assert stem(left) == stem(right)


@pytest.mark.parametrize(
    ("left", "right"), [("bus", "bush"), ("sing", "sang"), ("red", "ring"), ("bee", "bed")]
)
def test_other_words_do_not(left, right):
    assert stem(left) != stem(right)


def test_match_keeps_order_and_spelling_and_drops_function_words():
    assert matched("The Dogs and the kite, dogs again at 7", ["a dog with a kite", "the 7"]) == (
        "dogs",
        "kite",
    )
    assert matched("the and with", ["the and with"]) == ()
    assert matched("", ["x"]) == ()


def test_scripts_with_marks_stay_whole():
    assert words("हिन्दी में पुस्तक") == ("हिन्दी", "में", "पुस्तक")
    assert matched("Das Mädchen läuft", ["ma\u0308dchen"]) == ("mädchen",)
    assert words("don't 3D") == ("don", "t", "d")


@given(st.text())
def test_any_text_is_fine_and_matches_itself(text):
    found = matched(text, [text])
    assert set(found) <= set(words(text))
    assert matched(text, []) == ()
    assert len({stem(word) for word in found}) == len(found)
