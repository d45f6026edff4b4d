"""Words that pictures show: read once, kept, compared with steps, and said in the reason."""

import threading
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec

import pytest
from fakes import FakeImages, FakeTexts, noise_picture
from PIL import Image, ImageDraw, ImageFont

import limner
from limner.errors import MissingError
from limner.pictures import ocr
from limner.store import OCR, Only
from limner.store.database import Database
from limner.store.index import index

INSTALLED = find_spec("rapidocr") is not None


class FakeOcr:
    """Reads one text in every red picture, and remembers how large what it read was."""

    def __init__(self, text="wet floor\nmind your step", fingerprint="ocr-1"):
        self.text, self.fingerprint, self.looked, self.sizes = text, fingerprint, 0, []

    def sees_words(self, rgb):
        self.looked += 1
        red, green, _ = rgb.resize((1, 1)).getpixel((0, 0))
        return red > green + 100

    def read(self, rgb):
        self.sizes.append(rgb.size)
        return self.text


@pytest.fixture
def pictures(tmp_path):
    folder = tmp_path / "pictures"
    folder.mkdir()
    for number in range(3):
        noise_picture(number).save(folder / f"IMG_{number}.png")
    Image.new("RGB", (2400, 1600), (220, 20, 20)).save(folder / "IMG_9.jpg")
    return folder


@pytest.fixture
def library(tmp_path):
    return Database(tmp_path / "lib")


def run(pictures, library, engine=None):
    return index([pictures], library, image_encoders=[FakeImages()], text_encoder=FakeTexts(), ocr=engine)


@pytest.mark.slow
def test_every_picture_is_looked_at_once_and_those_with_words_are_read(pictures, library):
    engine = FakeOcr()
    run(pictures, library, engine)
    assert (engine.looked, engine.sizes) == (4, [(1200, 800)])  # half of it is enough
    sign = library.find("IMG_9.jpg").id
    assert library.words_shown(library.passing(Only())) == {sign: "wet floor mind your step"}
    assert library.vectors()[OCR] == 1
    assert (run(pictures, library, engine).unchanged, engine.looked) == (4, 4)
    assert run(pictures, library).unchanged == 4  # without the extra, what was read stays
    assert library.words_shown([sign])
    assert (run(pictures, library, FakeOcr("", "ocr-2")).completed, library.words_shown([sign])) == (4, {})
    assert library.vectors()[OCR] == 0


def test_a_library_that_nobody_read_words_for_knows_nothing_of_them(pictures, library):
    report = run(pictures, library)
    assert OCR not in library.settings.spaces
    assert report.incomplete == {}
    engine = FakeOcr()
    assert (run(pictures, library, engine).completed, engine.looked) == (4, 4)


def test_a_kill_before_the_files_are_noted_reads_again(pictures, library, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(Database, "add", lambda *_, **__: pytest.fail("killed"))
        with pytest.raises(pytest.fail.Exception):
            run(pictures, library, FakeOcr())
    run(pictures, library, FakeOcr())
    assert library.words_shown([library.find("IMG_9.jpg").id])


@pytest.mark.slow
def test_a_step_finds_the_picture_that_says_it(pictures, tmp_path, monkeypatch):
    monkeypatch.setattr("limner.library._ocr_engine", FakeOcr)
    library = limner.Library(tmp_path / "lib")
    library.add(pictures)
    assert "ocr" in library.search("mind the wet floor")[0].channels
    first = library.search("mind the wet floor")[0]
    assert first.picture.path.endswith("IMG_9.jpg")
    assert first.matched == ("mind", "wet", "floor")
    board = library.illustrate("Mind the wet floor.", show="always")
    assert board.steps[0].chosen.picture.id == first.picture.id
    assert "picture says “mind”, “wet”, “floor”" in board.steps[0].reason


def test_lines_that_are_no_words_are_left_out():
    lines = [("Wet  floor", 0.99), ("山", 0.95), ("1/2 3/4", 0.9), ("Pxq rtz", 0.6), ("天气", 0.9)]
    assert ocr.legible(lines) == ["Wet floor", "天气"]


def test_an_engine_that_cannot_be_made_keeps_nobody_waiting(monkeypatch):
    def broken():
        raise MissingError("a network is missing")

    monkeypatch.setattr(ocr, "version", lambda _: "1")
    monkeypatch.setattr(ocr, "_rapidocr", broken)
    engine, raised = ocr.RapidOcr(), []

    def read():
        try:
            engine.read(Image.new("RGB", (8, 8)))
        except MissingError as error:
            raised.append(str(error))

    threads = [threading.Thread(target=read, daemon=True) for _ in range(3 * ocr.MOST_ENGINES)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert raised == ["a network is missing"] * len(threads)


def test_another_engine_is_made_once_it_pays(monkeypatch):
    met, made, meet = threading.Barrier(2), [], threading.Event()

    class Engine:
        txts, scores = ("Wet floor",), (0.9,)

        def __init__(self):
            made.append(self)

        def __call__(self, pixels, **_):
            if meet.is_set():
                met.wait(60)
            return self

    monkeypatch.setattr(ocr, "version", lambda _: "1")
    monkeypatch.setattr(ocr, "_rapidocr", Engine)
    monkeypatch.setattr(ocr, "READ_EACH", 3)
    engine, picture = ocr.RapidOcr(), Image.new("RGB", (8, 8))
    assert {engine.read(picture), engine.read(picture)} == {"Wet floor"}
    with ThreadPoolExecutor(8) as readers:
        meet.set()
        assert set(readers.map(engine.read, [picture] * 2)) == {"Wet floor"}


@pytest.mark.skipif(INSTALLED, reason="the extra 'ocr' is installed")
def test_what_to_install_is_said():
    with pytest.raises(MissingError, match=r"limner\[ocr\]"):
        ocr.rapid_ocr()


@pytest.mark.skipif(not INSTALLED, reason="needs the extra 'ocr': pip install 'limner[ocr]'")
def test_rapidocr_reads_a_sign():
    sign = Image.new("RGB", (900, 500), (240, 200, 40))
    draw = ImageDraw.Draw(sign)
    draw.text((80, 160), "WET FLOOR", (10, 10, 10), ImageFont.load_default(120))
    engine = ocr.rapid_ocr()
    assert engine.sees_words(sign)
    assert engine.read(sign).upper() == "WET FLOOR"
    plain = Image.new("RGB", (900, 500), (40, 90, 40))
    assert not engine.sees_words(plain)
    assert engine.read(plain) == ""
