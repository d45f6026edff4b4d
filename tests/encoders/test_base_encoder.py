"""The encoder ``base``: a picture alone and among others, and when its fingerprint changes."""

import sys

import numpy as np
import pytest
import torch
from PIL import Image

from limner.encoders.base_encoder import BaseImageEncoder
from limner.encoders.base_file import BaseCard, BaseTextEncoder, image_fingerprints, read_card, shipped_file
from limner.encoders.base_network import load_base, save_base
from limner.encoders.catalogue import SHIPPED, text_encoder
from limner.encoders.weight_files import WeightFile
from limner.errors import ConfigError, DataError, MissingError, ShapeError

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def eyes():
    return BaseImageEncoder("base", shipped_file("base"))


@pytest.fixture(scope="module")
def minilm():
    return text_encoder()


@pytest.fixture(scope="module")
def pictures():
    return np.random.default_rng(1).integers(0, 256, (9, 260, 260, 3), dtype=np.uint8)


def test_a_picture_does_not_depend_on_its_batch(eyes, pictures):
    together = eyes.encode_pixels(pictures)
    assert {space: rows.shape for space, rows in together.spaces.items()} == {
        space: (9, width) for space, width in eyes.spaces.items()
    }
    alone = eyes.encode_pixels(pictures[4:5])
    for space, rows in together.spaces.items():
        np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
        assert rows[4] @ alone.spaces[space][0] > 0.999
    exact = BaseImageEncoder("base", shipped_file("base"), precision="float32")
    for space, rows in exact.encode_pixels(pictures[4:5]).spaces.items():
        assert rows[0] @ together.spaces[space][4] > 0.99


def test_pictures_of_any_shape_become_its_square(eyes):
    for size in ((3000, 20), (20, 3000), (1, 1), (260, 260)):
        square = eyes.prepare(Image.new("RGB", size, (10, 200, 30)))
        assert square.shape == (260, 260, 3)
        assert (square == (10, 200, 30)).all()
    with pytest.raises(ShapeError, match="expected uint8"):
        eyes.encode_pixels(np.zeros((1, 224, 224, 3), np.uint8))


def test_a_text_does_not_depend_on_its_batch(minilm):
    words = BaseTextEncoder("base", shipped_file("base"), minilm)
    texts = ["a dog runs on the beach", "snow", "two people cook dinner in a small kitchen at night"]
    rows = words.encode_text(texts)
    assert rows.shape == (3, words.dim)
    np.testing.assert_allclose(rows[1], words.encode_text(texts[1:2])[0], atol=1e-5)
    with pytest.raises(DataError, match="no words"):
        words.encode_text([" "])


class Many:
    """A multilingual encoder with one fixed vector per text."""

    name, fingerprint, dim = "many", "m", 512

    def encode_text(self, texts):
        rows = [np.random.default_rng(sum(map(ord, text))).normal(size=512) for text in texts]
        return np.stack([row / np.linalg.norm(row) for row in rows]).astype(np.float32)


def test_each_text_goes_to_the_encoder_of_its_language(minilm):
    file, texts = shipped_file("base"), ["a dog", "ein Hund", "a cat"]

    def foreign(found):
        return [text.startswith("ein") for text in found]

    both = BaseTextEncoder("base", file, minilm, multilingual=Many(), foreign=foreign)
    rows = both.encode_text(texts)
    english = BaseTextEncoder("base", file, minilm)
    np.testing.assert_allclose(rows[[0, 2]], english.encode_text(["a dog", "a cat"]), atol=1e-5)
    side = load_base(file.path).foreign(torch.from_numpy(Many().encode_text(texts[1:2]))).numpy()
    np.testing.assert_allclose(rows[1:2], side, atol=1e-5)
    np.testing.assert_allclose(both.encode_text(["ein Hund"]), side, atol=1e-5)
    assert both.fingerprint != english.fingerprint


def test_the_fingerprint_changes_with_file_and_precision_alone(tmp_path, eyes, minilm):
    file = shipped_file("base")
    other = tmp_path / "other.safetensors"
    save_base(other, load_base(file.path), BaseCard(name="other"))
    known = image_fingerprints(file)
    assert eyes.fingerprint == known["bfloat16"]
    assert len({*known.values(), *image_fingerprints(WeightFile(other)).values()}) == 2 * len(known) == 6
    copy = tmp_path / "copy.safetensors"
    copy.write_bytes(file.path.read_bytes())
    assert image_fingerprints(WeightFile(copy)) == known
    sides = [BaseTextEncoder("base", one, minilm).fingerprint for one in (file, WeightFile(other))]
    assert sides[0] != sides[1]


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_files_are_small_and_say_what_they_are(name):
    file = shipped_file(name)
    assert file.path.stat().st_size <= 10 * 10**6
    told = read_card(file.path)
    assert told.name == name
    assert told.terms
    assert told.data
    assert all(0 <= value <= 1 for figure, value in told.figures.items() if "R@" in figure)


def test_unknown_and_absent_files_are_one_line(tmp_path):
    with pytest.raises(ConfigError, match="base"):
        shipped_file("bass")
    with pytest.raises(MissingError, match="cannot be read"):
        BaseImageEncoder("base", WeightFile(tmp_path / "gone.safetensors"))


def test_torch_is_asked_for_where_it_is_wanted_alone(monkeypatch, pictures):
    monkeypatch.setitem(sys.modules, "limner.encoders.base_network", None)
    assert BaseImageEncoder("base", shipped_file("base")).encode_pixels(pictures[:1]).spaces["base"].any()
    wanted = BaseImageEncoder("base", shipped_file("base"), engine="torch")
    with pytest.raises(
        MissingError, match=r"base: torch is not installed; run: pip install 'limner\[torch\]'"
    ):
        wanted.encode_pixels(pictures[:1])


@pytest.mark.shared
def test_captions_find_their_photographs_without_words(shared_data, eyes, minilm):
    """A hundred validation photographs among each other; chance would be a median rank of 50."""
    import json

    folder = shared_data / "flickr8k"
    rows = [json.loads(line) for line in (folder / "captions.jsonl").read_text(encoding="utf-8").splitlines()]
    rows = [row for row in rows if row["split"] == "val"][:100]
    pixels = np.stack([eyes.prepare(Image.open(folder / row["file_name"]).convert("RGB")) for row in rows])
    found = np.concatenate([eyes.encode_pixels(part).spaces["base"] for part in np.array_split(pixels, 10)])
    texts = BaseTextEncoder("base", shipped_file("base"), minilm).encode_text(
        [r["captions"][0] for r in rows]
    )
    table = texts @ found.T
    ranks = (table >= np.diag(table)[:, None]).sum(axis=1)
    assert np.median(ranks) <= 2
    assert np.mean(ranks <= 5) >= 0.75
