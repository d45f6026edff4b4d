"""The packaged numbers load, hold what any fit must hold, and a damaged file is one line."""

import json

import numpy as np
import pytest
from boards import numbers

from limner.errors import DataError
from limner.match.calibration import Typical, Weights, load, parse


@pytest.fixture(scope="module")
def shipped():
    return load()


def test_it_is_read_once(shipped):
    assert load() is shipped


def test_a_better_match_is_always_more_evidence(shipped):
    weights = shipped.evidence.weights
    assert weights["words_cosine"] > 0 < weights["words_z"]
    assert weights["pixels"] > 0 <= weights["pixels_beside_words"]
    assert shipped.agreement.weights["own"] > 0


def test_positions_are_in_order_and_one_leaves_nothing_blank(shipped):
    cautious, usual = shipped.thresholds["cautious"], shipped.thresholds["usual"]
    assert cautious.least >= usual.least
    assert cautious.share >= usual.share
    assert "always" not in shipped.thresholds


def test_trust_of_an_encoder_with_a_temperature_grows_with_the_spread_of_its_cosines():
    calibration = numbers(temperature={"base": 0.05}, spread=0.5, prior=2.0)
    std = np.array([0.0, 0.05, 0.1])
    np.testing.assert_allclose(calibration.trust("base", std), [0.0, 0.5, 2.0])
    np.testing.assert_allclose(calibration.trust("labels", std), 2.0)


def test_few_pictures_are_judged_by_typical_cosines_and_many_by_their_own():
    """Mean and deviation of both together, as if there were so many typical pictures beside them."""
    calibration = numbers(typical={"captions": Typical(mean=0.5, std=0.1, count=20)})
    rng = np.random.default_rng(0)
    own, typical = rng.normal(0.2, 0.3, 10), rng.normal(size=20)
    typical = 0.5 + 0.1 * (typical - typical.mean()) / typical.std()
    mean, std = (np.array([value]) for value in (own.mean(), own.std()))
    both = np.concatenate([own, typical])
    np.testing.assert_allclose(calibration.steadied("captions", mean, std, 10), [[both.mean()], [both.std()]])
    np.testing.assert_allclose(calibration.steadied("captions", mean, std, 10**9), [mean, std], atol=1e-6)
    np.testing.assert_allclose(calibration.steadied("captions", mean, std, 0), [[0.5], [0.1]])
    np.testing.assert_allclose(calibration.steadied("base", mean, std, 0), [mean, std])


def test_a_linear_form_adds_its_features_and_misses_none():
    form = Weights(weights={"one": 2.0, "two": -1.0})
    features = {"one": np.array([[1.0, 2.0]]), "two": np.array([[3.0, 4.0]]), "other": np.array([[9.0, 9.0]])}
    np.testing.assert_allclose(form.of(features), [[-1.0, 0.0]])
    with pytest.raises(KeyError):
        form.of({"one": features["one"]})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"typical": {"captions": {"mean": 1}}}, r"typical\.captions\.std"),
        ({"extra": 1}, "extra"),
        ({"schema_version": 1}, "schema_version"),
        ({"sharpness": 0}, "sharpness"),
        ({"thresholds": {"never": {"least": 0.5, "share": 1}}}, "thresholds"),
    ],
)
def test_a_damaged_file_is_one_line(shipped, change, message):
    with pytest.raises(DataError, match=message) as caught:
        parse(json.dumps(shipped.model_dump() | change))
    assert "\n" not in str(caught.value)
    with pytest.raises(DataError, match=r"calibration\.json"):
        parse("{")


def test_writing_and_reading_loses_nothing(shipped):
    assert parse(shipped.model_dump_json()) == shipped
