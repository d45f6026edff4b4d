"""Linear evidence: the packaged numbers load, mean what they say, and serve a library."""

import json

import numpy as np
import pytest

from limner.arrays import unit_rows
from limner.errors import ConfigError, DataError
from limner.research.evaluation import linear
from limner.research.evaluation.linear import STRENGTH, linear_channels, load, pair_space, parse
from limner.store import LibrarySummary, SpaceInfo
from limner.store.search import Channel, EncodedChannel, Evidence, Index
from limner.store.vectors import Gallery, Space


def test_every_channel_and_pair_has_its_numbers():
    assert load() is load()
    assert set(load().channels) == {"captions", "multilingual", "clip", "base", "labels"}
    assert set(load().pairs) == {"looks", "visual", "colour", "captions"}
    for pair in load().pairs.values():
        assert set(pair.weights) == set(STRENGTH)
        for weights in pair.weights.values():
            assert {"chain", "anchor", "greedy", "beam"} <= set(weights)
            assert all(0 <= weight <= 1 for weight in weights.values())


def test_the_strongest_channel_decides_how_much_pictures_say_for_each_other():
    pair = load().pairs["captions"]
    assert pair.weight("anchor", ["labels", "multilingual"]) == pair.weights["captions"]["anchor"] > 0
    assert pair.weight("anchor", ["labels"]) == pair.weights["labels"]["anchor"] == 0


def test_a_better_match_is_always_more_evidence():
    mean, std = np.array([0.1]), np.array([0.08])
    for evidence in load().channels.values():
        scale, shift = evidence.affine(mean, std)
        assert scale[0] > 0
        assert scale[0] * 0.9 + shift[0] > 0 > scale[0] * 0.0 + shift[0]
    for pair in load().pairs.values():
        assert pair.evidence.affine(np.array([0.5]), np.array([0.12]))[0][0] > 0


@pytest.mark.parametrize("captioned", [1, 2, 5])
def test_the_right_caption_among_few_is_evidence_for_its_picture(captioned):
    captions = load().channels["captions"]
    rng = np.random.default_rng(0)
    text = unit_rows("t", rng.normal(size=(1, 384)).astype(np.float32))
    rows = unit_rows("v", rng.normal(size=(20, 384)).astype(np.float32))
    rows[0] = unit_rows("v", 0.7 * text + 0.7 * rows[:1])[0]
    present = np.arange(20) < captioned
    space = Space((rows * present[:, None]).astype(np.float16), present)
    gallery = Gallery([str(i) for i in range(20)], [str(i) for i in range(20)], {"captions": space})
    hits = Index(gallery).search([EncodedChannel("captions", "captions", captions, text)], 20)
    assert hits.rows[0, 0] == 0
    assert hits.scores[0, 0] > 0


def test_what_a_library_is_asked_with_has_the_evidence_of_the_file(monkeypatch):
    """Whatever evidence the product gives its channels."""
    other = Evidence(slope=9.0, z_slope=0.0, offset=9.0)
    held = [
        Channel(name, name, name, other, 0.3, reads)
        for name, reads in (("captions", frozenset(["en"])), ("labels", None))
    ]
    asked = []

    def channels_of(library, names, **options):
        asked.append((library, names, options["weights"]))
        return held

    monkeypatch.setattr(linear, "channels_of", channels_of)
    captions, labels = linear_channels("lib", ["captions", "labels"], weights=["clip=a"])
    assert asked == [("lib", ["captions", "labels"], ["clip=a"])]
    assert (captions.encoder, captions.reads, captions.beside) == ("captions", {"en"}, 1.0)
    assert (labels.evidence, labels.beside) == (load().channels["labels"], 0.5)
    held.append(Channel("caption", None, "caption", other))
    with pytest.raises(ConfigError, match="did you mean 'captions'"):
        linear_channels("lib", [])


def test_pictures_are_compared_only_in_a_space_that_the_file_has():
    names = "pictures files skipped duplicates captioned near_groups near_pictures alike"
    counts = dict.fromkeys(names.split(), 2)
    made_by = SpaceInfo(encoder="some", fingerprint="0" * 64, dim=4)

    def compared(**vectors):
        spaces = dict.fromkeys(vectors, made_by)
        held = LibrarySummary(**counts, spaces=spaces, vectors=vectors, sources=(), changed_s=0.0)
        return pair_space(held)

    assert compared(clip=2) is None
    assert compared(clip=2, colour=2) == "colour"
    assert compared(clip=2, captions=1, looks=2) == "captions"
    assert compared(clip=2, captions=0, looks=2) == "looks"


def test_unknown_names_are_errors():
    with pytest.raises(ConfigError, match="did you mean 'visual'"):
        load().pairwise("visuals")
    with pytest.raises(ConfigError, match="did you mean 'chain'"):
        load().pairwise("visual").weight("chains", ["captions"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"channels": {"captions": {"slope": 1}}}, "channels.captions.z_slope"),
        ({"extra": 1}, "extra"),
        ({"schema_version": 2}, "schema_version"),
    ],
)
def test_a_damaged_file_is_one_line(change, message):
    with pytest.raises(DataError, match=message) as caught:
        parse(json.dumps(load().model_dump() | change))
    assert "\n" not in str(caught.value)
    with pytest.raises(DataError, match=r"^linear\.json: the file"):
        parse("{")
