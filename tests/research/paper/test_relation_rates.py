"""Tables 1 and 2 of CMCM: shares of the training part, by hand, beside the paper's."""

import csv

import pytest

from limner.errors import ConfigError, MissingError
from limner.research.datasets import load_dataset
from limner.research.datasets.sets.clue import CSV_NAMES, RELATIONS
from limner.research.datasets.splits import split_pairs
from limner.research.paper.published import build

COLUMNS = ("index", "caption", "url", *RELATIONS, "Other", "When", "How", "Where", "Comment")


@pytest.fixture
def clue(tmp_path, monkeypatch):
    """Forty rows to train on and twenty to test on, whose labels follow their number."""
    folder = tmp_path / "data" / "clue"
    folder.mkdir(parents=True)
    for start, count, part in ((0, 40, "train"), (40, 20, "test")):
        with (folder / CSV_NAMES[part]).open("w", newline="") as file:
            table = csv.writer(file)
            table.writerow(["", *COLUMNS])
            for number in range(start, start + count):
                labels = [int(number % (place + 2) == 0) for place in range(6)]
                words = f"a caption of its own, number {number} of all of them"
                url = f"http://pictures.example/{number}"
                table.writerow([number, number, words, url, *labels, 0, 0, 0, 0, "False"])
    monkeypatch.setenv("LIMNER_DATA", str(tmp_path))
    return folder


def test_rates_are_shares_of_the_training_part(clue):
    (table,) = build("cmcm-2", resamples=200).tables
    assert [row.name for row in table.rows] == list(RELATIONS)
    assert table.blocks[0].columns == ("released split", "grouped split")
    for place, row in enumerate(table.rows):
        released, grouped = row.cells
        # the release parts no validation rows off: its training rows are all but those of test
        parts = {kind: split_pairs(load_dataset("clue"), kind).pairs for kind in ("released", "grouped")}
        for cell, kind in ((released, "released"), (grouped, "grouped")):
            due = [int(pair.labels[RELATIONS[place]]) for pair in parts[kind] if pair.split != "test"]
            assert kind == "grouped" or len(due) == 40
            assert cell.value == pytest.approx(sum(due) / len(due))
            assert cell.low <= cell.value <= cell.high
        assert released.paper == grouped.paper
    assert [row.cells[0].paper for row in table.rows] == [0.674, 0.066, 0.157, 0.243, 0.391, 0.087]
    assert "released split: " in table.notes[0]


@pytest.mark.slow
def test_other_sets_have_their_own_relations_and_no_published_figures(clue, monkeypatch):
    (table,) = build("cmcm-1", data="picturebook", resamples=50).tables
    assert {cell.paper for row in table.rows for cell in row.cells} == {None}
    assert "expansion" in [row.name for row in table.rows]
    assert table.title == "How often the relations hold (picturebook)"


def test_without_the_data_the_published_figures_stand_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("LIMNER_DATA", str(tmp_path))
    (table,) = build("cmcm-1").tables
    assert table.rows[0].name == "Q2 Expansion"
    assert [row.cells[0].paper for row in table.rows] == [0.821, 0.115, 0.329, 0.193, 0.158, 0.588, 0.313]
    assert table.empty == 7
    assert table.notes[0].startswith("Data set not read: cite++: ")
    with pytest.raises(MissingError, match="clue"):
        build("cmcm-2", data="clue")
    with pytest.raises(ConfigError, match="reads data sets in folders"):
        build("cmcm-2", measured=[])
