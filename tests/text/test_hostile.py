"""Texts made to break a reader end in a story or in one line; `benchmarks/hostile_texts.py` measures 300."""

import importlib.util
import random
import sys
from pathlib import Path

import pytest

from limner.config import read_toml
from limner.errors import ConfigError, DataError, LimnerError
from limner.text.read import read_bytes, read_text

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def made():
    """The texts of the benchmark."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(FOLDER)
        spec = importlib.util.spec_from_file_location("hostile_texts", FOLDER / "hostile_texts.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module


def story_or_line(data, name):
    """The story of a file, or the one line that refuses it; any other error passes through."""
    try:
        return read_bytes(data, name).story
    except LimnerError as error:
        line = str(error)
    assert "\n" not in line
    return line


@pytest.mark.slow
@pytest.mark.parametrize("number", range(30))
def test_hostile_texts_end_in_a_story_or_one_line(made, number):
    (_, suffix, data), *_ = made.texts(number + 1, 1, made.KINDS[number].__name__)
    assert story_or_line(data, f"a{suffix}")


@pytest.mark.skipif(sys.platform != "linux", reason="this system limits no memory")
def test_a_pdf_with_a_stream_of_300_mb_is_one_line(made):
    content = made.stream(made.squeezed(b" " * 1_000_000, 300))
    assert "a PDF that needs more than 400 MB of memory" in story_or_line(made.one_page(content), "a.pdf")


def test_a_damaged_word_document_is_one_line(made):
    data = bytearray(made.word("".join(made.run(f"Peel potato {n}.") for n in range(200))))
    middle = data.index(b"word/document.xml") + 60
    data[middle : middle + 40] = bytes(40)
    assert story_or_line(bytes(data), "a.docx").startswith("a.docx: ")
    assert story_or_line(bytes(data[:-200]), "a.docx").startswith("a.docx: is a damaged archive")


@pytest.mark.slow
def test_a_word_document_of_600_mb_is_one_line(made):
    for seed in range(4):
        assert isinstance(story_or_line(made.word_bomb(random.Random(seed))[1], "a.docx"), str)


@pytest.mark.parametrize("kind", ["word_entities", "entities"])
def test_entities_are_not_expanded_and_no_file_is_read(made, kind):
    for seed in range(3):
        suffix, data = getattr(made, kind)(random.Random(seed))
        read = story_or_line(data, f"a{suffix}")
        words = read if isinstance(read, str) else " ".join(block.text for block in read.blocks)
        assert "root:" not in words
        assert len(words) < 2_000


def test_a_word_document_shows_no_file_outside_of_it(made):
    for seed in range(5):
        story = story_or_line(made.word_parts(random.Random(seed))[1], "a.docx")
        assert isinstance(story, str) or '"path":"' not in story.model_dump_json()


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.txt", "abcdefghijklmnopqrstuvwxyz" * 1_000_000, "longer than 3 million characters"),
        ("a.txt", "a" * 10_000_000, "longer than 3 million characters"),
        ("a.txt", "x\n\n" * 70_000, "more than 60,000 paragraphs"),
        ("a.txt", "\f" * 1_000_001 + "x", "more than"),
        ("a.txt", "a\0b", "not a text"),
        ("a.html", "<div>" * 100_000 + "x", "deep"),
        ("a.html", "<p>x" * 70_000, "more than 60,000"),
        ("a.md", ">" * 2_000 + " x", "deep"),
        ("a.md", "[" * 200_000, "brackets"),
        ("a.json", "[" * 1_000_000, "not JSON"),
        ("a.json", '["a"' + ',"a"' * 70_000 + "]", "more than 60,000 paragraphs"),
    ],
)
def test_what_is_too_long_or_too_deep_is_one_line(name, text, message):
    with pytest.raises(DataError, match=message) as caught:
        read_bytes(text.encode("utf-8", "surrogatepass"), name)
    assert "\n" not in str(caught.value)


def test_half_a_letter_is_one_line():
    with pytest.raises(DataError, match="lone surrogates"):
        read_text("half \ud800 a letter")


def test_front_matter_whose_aliases_multiply_is_read_line_by_line():
    bomb = "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}, *a{n - 1}]\n" for n in range(1, 40))
    reading = read_text(
        f"---\ntitle: Tea\na0: &a0 [x, x]\n{bomb}---\n\nA fox ran.\n\nIt slept.", format="markdown"
    )
    assert (reading.story.title, len(reading.story.steps)) == ("Tea", 2)


# What grew with the square of its length took minutes.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("plain", "1. x\n" * 150_000),
        ("plain", "1. x\n2. y\n" + "words\n" * 150_000),
        ("plain", "step" + " " * 1_000_000 + "x"),
        ("plain", "Step 1: a\n\n" + "words\n\n" * 15_000 + "Step 2: b"),
        ("markdown", "<b>a</b> " * 40_000),
        ("markdown", "a  \n" * 25_000),
        ("html", f"<p class='{'a-' * 100_000}!'>x</p>"),
        ("html", f"<p>w. {' '.join(f'<img src=a{number}.jpg>' for number in range(20_000))}</p>"),
        ("html", "<nav>z</nav>" + "".join(f"<div><p>word {n} is here.</p></div>" for n in range(1_500))),
    ],
)
def test_long_texts_are_read_in_time_that_grows_with_their_length(kind, text):
    assert read_text(text, format=kind).story.steps


def test_settings_nested_too_deeply_are_one_line(tmp_path):
    (tmp_path / "a.toml").write_text("a = " + "[" * 5_000)
    with pytest.raises(ConfigError, match="nested too deeply"):
        read_toml(tmp_path / "a.toml")
