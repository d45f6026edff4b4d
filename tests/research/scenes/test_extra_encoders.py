"""Further encoders and detectors beside stored features: their rows, mirrored pictures, and settings."""

import hashlib

import numpy as np
import pytest
from PIL import Image

from limner.config import build
from limner.encoders.colour import ColourEncoder
from limner.errors import ConfigError
from limner.research.datasets.features import FeatureKey, MirroredFeatures, extract
from limner.research.datasets.pairs import Pair, PairSet
from limner.research.scenes import extra_encoders as module
from limner.research.scenes.detections import Detections
from limner.research.scenes.extra_encoders import JoinedFeatures, with_extra_encoders
from limner.research.systems.dual import DualConfig
from limner.research.systems.limner import LimnerConfig
from limner.research.training.corpus import open_corpus
from limner.research.training.settings import DataConfig

COUNT = 3


class Sure:
    """Scores a dog by the share of red, and finds a weaker dog and a cat; without red it sees nothing."""

    name, fingerprint, side_px = "sure", hashlib.sha256(b"sure").hexdigest(), 16

    def detect(self, images):
        found = []
        for image in images:
            red = np.asarray(image)[..., 0].mean() / 255
            labels, scores = ("dog", "dog", "cat"), np.array([red / 4, red, 0.25], np.float32)
            some = len(labels) if red else 0
            found.append(Detections(np.zeros((some, 4), np.float32), labels[:some], scores[:some]))
        return found


@pytest.fixture
def data(tmp_path):
    pairs = []
    for number in range(COUNT):
        path = tmp_path / f"{number}.png"
        pixels = np.zeros((40, 50, 3), np.uint8)
        pixels[..., 0], pixels[:, 25:, 1] = 60 * number, 200
        Image.fromarray(pixels).save(path)
        sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
        pairs.append(Pair(id=str(number), text="a", image=str(path), image_hash=sha256))
    return PairSet("made-up", (), tuple(pairs))


def stored(root, data, name, step):
    """A store of the two corners' green."""
    key = FeatureKey(data=data.name, backbone=name, weights_sha256="0" * 64, transform="as is")
    return extract(
        root,
        key,
        {pair.image_id: pair.image for pair in data.pairs},
        prepare=lambda image: np.asarray(image)[:, ::step],
        forward=lambda batch: np.ascontiguousarray(batch[:, 0, [0, -1], 1], np.float32),
        side_px=None,
    )


@pytest.fixture
def joined(tmp_path, data, monkeypatch):
    monkeypatch.setattr(module, "detector", lambda name, **_: Sure())
    root = tmp_path / "features"
    first = MirroredFeatures(stored(root, data, "plain", 1), stored(root, data, "mirrored", -1))
    return with_extra_encoders(first, data, root, ("colour", "sure.onnx")), first


def test_rows_are_those_of_the_store_then_of_each_encoder(joined, data):
    found, first = joined
    assert isinstance(found, JoinedFeatures)
    places = found.places([pair.image_id for pair in data.pairs])[::-1]
    rows, colour = found.take(places), ColourEncoder()
    pixels = [colour.prepare(Image.open(pair.image).convert("RGB")) for pair in data.pairs[::-1]]
    spaces = colour.encode_pixels(np.stack(pixels)).spaces
    due = np.concatenate(list(spaces.values()), axis=1)
    np.testing.assert_array_equal(rows[:, :2], first.take(places))
    np.testing.assert_allclose(rows[:, 2 : 2 + due.shape[1]], due, atol=1e-3)
    objects = rows[:, 2 + due.shape[1] :]
    assert objects.shape == (COUNT, 80)
    names = module.coco_classes()
    reds = np.array([60 * number / 255 for number in range(COUNT)])[::-1]
    np.testing.assert_allclose(objects[:, names.index("dog")], np.sqrt(reds), atol=1e-3)
    np.testing.assert_allclose(objects[:, names.index("cat")], [0.5, 0.5, 0.0], atol=1e-3)
    assert np.count_nonzero(objects.any(axis=0)) == 2


def test_only_the_store_has_mirrored_pictures(joined):
    found, first = joined
    places, which = np.arange(COUNT), np.array([True, False, True])
    turned = found.turned(places, which)
    np.testing.assert_array_equal(turned[:, :2], first.turned(places, which))
    assert not np.array_equal(turned[:, :2], first.take(places))
    np.testing.assert_array_equal(turned[:, 2:], found.take(places)[:, 2:])


def test_the_key_names_all_of_them_and_changes_with_each(joined, tmp_path, data):
    found, first = joined
    assert found.key.backbone == "plain + colour-beside + sure-beside"
    fewer = with_extra_encoders(first, data, tmp_path / "features", ("colour",))
    assert fewer.key.weights_sha256 not in (found.key.weights_sha256, first.key.weights_sha256)


def test_nothing_is_computed_twice(joined, tmp_path, data, monkeypatch):
    monkeypatch.setattr(Sure, "detect", lambda *_: pytest.fail("looked again"))
    found, first = joined
    again = with_extra_encoders(first, data, tmp_path / "features", ("colour", "sure.onnx"))
    places = np.arange(COUNT)
    np.testing.assert_array_equal(again.take(places), found.take(places))


def test_traits_are_shape_and_palette_of_the_picture_as_it_is(tmp_path, data):
    names = [pair.image_id for pair in data.pairs]
    found = with_extra_encoders(
        stored(tmp_path / "features", data, "plain", 1), data, tmp_path / "features", ("traits",)
    )
    rows = found.take(found.places(names))[:, 2:]
    assert rows.shape == (COUNT, module.TRAITS_WIDTH)
    for row, pair in zip(rows, data.pairs, strict=True):
        with Image.open(pair.image) as image:
            np.testing.assert_allclose(row, module.picture_traits(image.convert("RGB")), atol=1e-3)
    angles = [np.pi / 2 * np.log2(50 / 40) * 2**wave for wave in range(9)]
    np.testing.assert_allclose(rows[0, :18], [*np.sin(angles), *np.cos(angles)], atol=1e-3)
    # red 120 is the third of five shades; one half has green 200, the fourth shade from 0
    palette = np.zeros(125)
    palette[[2 * 25, 2 * 25 + 3 * 5]] = np.sqrt(0.5)
    np.testing.assert_allclose(rows[2, 18:], palette, atol=1e-2)


@pytest.mark.parametrize(
    ("value", "shade"), [(51, 0), (52, 1), (102, 1), (103, 2), (153, 2), (154, 3), (205, 4)]
)
def test_each_colour_has_five_shades_of_equal_width(value, shade):
    shares = module.picture_traits(Image.new("RGB", (8, 8), (value, 0, value)))[18:]
    assert shares.argmax() == shade * 25 + shade
    assert shares.sum() == 1


def test_pictures_of_any_size_have_traits():
    for size in [(1, 1), (1, 9000), (3000, 2)]:
        made = module.picture_traits(Image.new("RGB", size, (255, 255, 255)))
        assert np.isfinite(made).all()
        assert np.abs(made).max() <= 1
    ratios = [Image.new("RGB", size) for size in [(1000, 750), (1000, 740)]]
    near, far = (module.picture_traits(image)[:18] for image in ratios)
    assert float(near @ far) < 6  # of 9 when equal: one percent of the ratio is told apart


def test_who_reads_no_further_encoders_is_told():
    config = build(DataConfig, {"set": "stories", "beside": ["colour"]}, "test")
    with pytest.raises(ConfigError, match="only training and measuring a run read further encoders"):
        open_corpus(config, layer="blocks")


def test_a_system_that_reads_one_backbone_says_so():
    values = {"data": {"set": "pairs", "beside": ["colour"]}}
    assert build(LimnerConfig, {"system": "limner"} | values, "test").data.beside == ("colour",)
    first = {"system": "limner", "data": {"set": "pairs", "beside": ["traits", "colour"]}}
    with pytest.raises(ConfigError, match=r"data\.beside: name 'traits' last, found \['traits', 'colour'\]"):
        build(LimnerConfig, first, "test")
    with pytest.raises(ConfigError, match=r"dual reads the features of one backbone; remove data\.beside"):
        build(DualConfig, {"system": "dual"} | values, "test")
