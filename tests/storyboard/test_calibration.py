"""The packaged calibration loads, means what it says, and refuses what it does not know."""

import json

import numpy as np
import pytest

from limner.errors import ConfigError, DataError
from limner.storyboard.calibration import STRENGTH, Calibration, load, parse


@pytest.fixture(scope="module")
def shipped() -> Calibration:
    return load()


def test_it_is_read_once_and_covers_what_untrained_use_needs(shipped):
    assert load() is shipped
    assert set(shipped.channels) == {"captions", "multilingual", "clip", "base", "labels"}
    assert set(shipped.pairs) >= {"looks", "visual"}
    for pair in shipped.pairs.values():
        assert set(pair.weights) == set(STRENGTH)
        for weights in pair.weights.values():
            assert {"chain", "anchor", "greedy", "beam"} <= set(weights)
            assert all(0 <= weight <= 1 for weight in weights.values())


def test_the_strongest_channel_decides_how_much_pictures_say_for_each_other(shipped):
    pair = shipped.pairs["captions"]
    assert pair.weight("anchor", ["labels", "captions"]) == pair.weights["captions"]["anchor"]
    assert pair.weight("anchor", ["labels"]) == pair.weights["labels"]["anchor"]


def test_a_channel_comes_with_its_calibration(shipped):
    labels = shipped.channel("labels", None)
    assert labels.evidence == shipped.channels["labels"]
    assert labels.beside == shipped.beside["labels"] < 1
    assert shipped.channel("captions", None).context == shipped.context["captions"] > 0


def test_a_better_match_is_always_more_evidence(shipped):
    mean, std = np.array([0.1]), np.array([0.08])
    for evidence in shipped.channels.values():
        scale, shift = evidence.affine(mean, std)
        assert scale[0] > 0
        assert scale[0] * 0.9 + shift[0] > 0 > scale[0] * 0.0 + shift[0]


def test_likeness_never_speaks_against(shipped):
    for pair in shipped.pairs.values():
        assert pair.evidence.affine(np.array([0.5]), np.array([0.12]))[0][0] > 0


def test_suitability_goes_by_the_set_of_channels(shipped):
    both = shipped.suitability["captions+labels"]
    assert shipped.suitable(["labels", "captions", "labels"]) == both
    assert shipped.suitable(["clip", "captions"]) == shipped.suitability["*"]


def test_unknown_names_are_errors(shipped):
    with pytest.raises(ConfigError, match="did you mean 'captions'"):
        shipped.channel("caption", None)
    with pytest.raises(ConfigError, match="did you mean 'visual'"):
        shipped.pairwise("visuals")
    with pytest.raises(ConfigError, match="did you mean 'chain'"):
        shipped.pairwise("visual").weight("chains", ["captions"])


def test_every_number_says_where_it_comes_from(shipped):
    assert "benchmarks/calibrate.py" in shipped.provenance["command"]
    for name in (
        "captions",
        "labels",
        "clip",
        "base",
        "pairs of looks",
        "pairs of visual",
        "weights visual, labels",
        "suitability captions",
    ):
        assert shipped.provenance[name]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"channels": {"captions": {"slope": 1}}}, "channels.captions.z_slope"),
        ({"extra": 1}, "extra"),
        ({"schema_version": 2}, "schema_version"),
        ({"suitability": {}}, "suitability: no entry '\\*'"),
        ({"coherence": {}}, "coherence: no entry '\\*'"),
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
