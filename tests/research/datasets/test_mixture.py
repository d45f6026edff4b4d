"""Mixtures of data sets: no leak between them, licences, and what is said of both."""

from dataclasses import replace

import pytest

from limner.errors import ConfigError, DataError
from limner.research.datasets.mixture import WEIGHT, mixed, set_of
from limner.research.datasets.pairs import Pair, PairSet, licensed


def pair(name, split, text, image, licence="MIT"):
    return Pair(
        id=name, text=text, image=image, split=split, group=f"g{name}", seq="s", meta={"license": licence}
    )


def two():
    first = PairSet(
        "first",
        (),
        (
            pair("a", "train", "a dog runs", "1.jpg"),
            pair("b", "train", "a cat sleeps", "2.jpg"),
            pair("c", "val", "a bird sings", "3.jpg"),
            pair("d", "test", "Enjoy.", "4.jpg"),
        ),
        notes=("read",),
    )
    second = PairSet(
        "second",
        (),
        (
            pair("a", "train", "  ENJOY. ", "5.jpg"),
            pair("b", "train", "a horse", "3.jpg", "CC-BY"),
            pair("c", "train", "a cow", "6.jpg", "CC-BY"),
            pair("d", "test", "a cat sleeps", "7.jpg", "GPL"),
        ),
    )
    return {"one": first, "two": second}


def test_nothing_that_is_held_out_anywhere_is_trained_on():
    data = mixed(two(), {"one": 1.0, "two": 2.5})
    train = {one.id for one in data.pairs if one.split == "train"}
    assert train == {"one:a", "two:c"}
    assert {one.id: one.reason for one in data.missing} == {
        "one:b": "its text is also in test of two",
        "two:a": "its text is also in test of one",
        "two:b": "its picture is also in val of one",
    }
    assert [note.split(",")[0] for note in data.notes[1:]] == [
        "one: 1 of 2 training rows",
        "two: 1 of 3 training rows",
    ]
    assert {one.id: one.meta[WEIGHT] for one in data.pairs if one.split == "train"} == {
        "one:a": 1.0,
        "two:c": 2.5,
    }
    assert len({one.id for one in data.pairs}) == len(data.pairs)
    assert {one.seq for one in data.pairs} == {"one:s", "two:s"}


def test_rows_of_no_sequence_share_none_in_a_mixture_either():
    rows = [one.model_copy(update={"seq": ""}) for one in two()["one"].pairs]
    data = mixed({"one": PairSet("first", (), tuple(rows)), "two": two()["two"]}, {"one": 1.0, "two": 1.0})
    assert {one.seq for one in data.pairs} == {"", "two:s"}


def test_a_row_that_no_licence_lets_in_still_keeps_its_copy_out_of_training():
    data = mixed(two(), {"one": 1.0, "two": 1.0}, {"two": ("CC-BY", "MIT")})
    assert "two:d" not in {one.id for one in data.pairs}
    assert "one:b" in {one.id for one in data.missing}


def test_licences_are_strict_and_counted():
    kept = licensed(two()["two"], ("CC-BY",))
    assert [one.id for one in kept.pairs] == ["b", "c"]
    assert kept.notes == ("second: 2 of 4 pairs left out by licence (MIT 1, GPL 1)",)
    assert licensed(two()["two"], ()) == two()["two"]
    with pytest.raises(DataError, match="no pair under CC BY, found CC-BY, GPL, MIT"):
        licensed(two()["two"], ("CC BY",))


def test_a_set_without_a_split_or_without_training_rows_is_refused():
    bare = PairSet("bare", (), (Pair(id="a", text="x", image="1.jpg"),))
    with pytest.raises(DataError, match="no split"):
        mixed({"bare": bare}, {"bare": 1.0})
    held = PairSet("held", (), (pair("a", "test", "x", "1.jpg"), pair("b", "train", "x", "2.jpg")))
    with pytest.raises(DataError, match="no training row"):
        mixed({"held": held}, {"held": 1.0})


def test_a_set_of_a_mixture_by_itself_is_called_as_where_it_is_read_alone():
    alone = two()["one"]
    found = set_of(mixed(two(), {"one": 1.0, "two": 1.0}), "one")
    assert found.name == "one"
    for part in ("val", "test"):
        own, due = ([(p.id, p.seq, p.group, p.text, p.image) for p in s.split(part)] for s in (found, alone))
        assert own == due
    assert [one.id for one in found.missing] == ["one:b"]
    limited = replace(mixed(two(), {"one": 1.0, "two": 1.0}), name="one+two-first48")
    assert set_of(limited, "two").name == "two-first48"
    with pytest.raises(ConfigError, match=r"set 'three'.*one, two"):
        set_of(limited, "three")
