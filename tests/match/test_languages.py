"""Texts in other languages find the right captioned pictures, or get a warning and blanks."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from limner.cli.main import run
from limner.encoders.catalogue import MULTILINGUAL, sentence_encoder, text_encoder
from limner.match.illustrator import Illustrator
from limner.records import Step, Story
from limner.store.database import Database
from limner.store.index import index

CAPTIONS = {
    "cake": "A chocolate cake with candles on a table",
    "boat": "Un barco de vela en el mar al atardecer",  # Spanish
    "dog": "A brown dog runs along the beach",
    "bike": "Un hombre monta en bicicleta por la montaña",  # Spanish
    "train": "Ein roter Zug fährt über eine Brücke",  # German
    "goat": "Mbuzi mweusi anakula majani shambani karibu na nyumba",  # Swahili, which nothing reads
}
EN = "A dog by the sea. | A man on his bicycle in the mountains. | A red train crosses a bridge."
ES = "Un perro junto al mar. | Un hombre en bicicleta en las montañas. | Un tren rojo cruza un puente."
AR = "كلب بني يركض على الشاطئ. | رجل يركب دراجة في الجبال. | قطار أحمر يعبر الجسر."
ZH = "一只棕色的狗在海滩上奔跑。 | 一个男人在山里骑自行车。 | 一列红色的火车驶过桥。"
SW = "Mbwa anakimbia ufukweni. | Mtu anaendesha baiskeli milimani. | Treni nyekundu."
HE = "כלב חום רץ על החוף. | איש רוכב על אופניים בהרים. | רכבת אדומה חוצה גשר."
MIXED, HALF = (EN.replace(EN.split(" | ")[1], text.split(" | ")[1]) for text in (ES, HE))
DUE, NONE = "dog bike train", "- - -"


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    """A library of noise with these captions; a file's name with a digit is none."""
    folder = tmp_path_factory.mktemp("mixed")
    (folder / "pictures").mkdir()
    for name, caption in CAPTIONS.items():
        noise = np.random.default_rng(sum(map(ord, name))).integers(0, 256, (48, 48, 3), dtype=np.uint8)
        Image.fromarray(noise).save(folder / "pictures" / f"{name}1.png")
        (folder / "pictures" / f"{name}1.txt").write_text(caption, encoding="utf-8")
    encoders = {"text_encoder": text_encoder(), "multilingual": sentence_encoder(MULTILINGUAL)}
    report = index([folder / "pictures"], folder / "library", **encoders)
    assert [one.reason for one in report.unread] == ["Swahili (sw)"]
    return Illustrator(Database(folder / "library"))


def story(text, **values):
    return Story(id="text", steps=tuple(Step(text=one) for one in text.split(" | ")), **values)


def chosen(board):
    return " ".join("-" if one.picture is None else Path(one.picture.path).stem[:-1] for one in board.steps)


@pytest.mark.parametrize(
    ("text", "code", "due", "note"),
    [
        *((text, code, DUE, "") for code, text in {"en": EN, "es": ES, "ar": AR, "zh": ZH}.items()),
        (MIXED, "en", DUE, ""),
        (SW, "sw", NONE, "Swahili (sw)"),
        (HE, "he", NONE, "Hebrew (he)"),
        (HALF, "en", "dog - train", "1 of 3 steps is in a language"),
    ],
)
def test_a_text_finds_captions_of_all_languages_that_are_read(opened, text, code, due, note):
    board = opened.board(story(text))
    assert chosen(board) == due
    assert (board.story.language, board.story.direction) == (code, "rtl" if code in ("ar", "he") else "ltr")
    said = opened.language_note(board.story) or ""
    assert (note in said, bool(said)) == (True, bool(note))
    if due == NONE:
        assert {one.reason for one in board.steps} == {f"No installed encoder reads {note}."}
        assert {one.probability for one in board.steps} == {None}
        assert opened.search(text.split(" | ")[0], 3) == []
    elif code != "en":
        assert board.channels == ("multilingual",)


def test_english_captions_are_judged_by_one_channel_and_foreign_ones_by_the_other(opened):
    dog, bike, _ = opened.board(story(EN)).steps
    assert next(iter(dog.chosen.channels)) == "captions"
    assert dog.chosen.channels["captions"] > 0 < bike.chosen.channels["multilingual"]
    assert set(bike.chosen.channels) == {"multilingual"}
    assert opened.search(ES.split(" | ", maxsplit=1)[0], 1)[0].picture.path.endswith("dog1.png")
    stated = opened.board(story("Chocolate | Animal", language="es-MX"))
    assert (stated.story.language, stated.channels) == ("es-MX", ("multilingual",))


def test_commands_warn_in_one_line(opened, tmp_path, capsys):
    (tmp_path / "a.txt").write_text(HE.replace(" | ", "\n\n"), encoding="utf-8")
    words = [str(tmp_path / "a.txt"), "--library", str(opened.library.folder), "-o", str(tmp_path / "a.json")]
    assert run(["illustrate", *words]) == 0
    assert capsys.readouterr().err.count("no installed encoder reads") == 1
