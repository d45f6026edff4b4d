"""Table 1 of complementary samples: settings and spread of the measures, by hand and of tiny runs."""

import numpy as np
import pytest
from made_up_choices import choice_result

from limner.checksums import seal
from limner.errors import ConfigError, DataError, MissingError
from limner.research.datasets.neighbours import PairScores, write_pair_scores
from limner.research.paper.published import build
from limner.research.paper.sweeps import POINT, Done, Point

IDS = ("a", "b")


def run(folder, system, scores, *, data="politics", seed=0, method="combined-val", heads=9):
    one = choice_result(system, 1.0, data=data, seed=seed)
    weights = {"lam": 96.0, "beta": 3.0, "gamma_hat": 1.0}
    config = {"system": "complementary", "method": method, "model": {"heads": heads}, "weights": weights}
    about = one.about.model_copy(
        update={"config": config, "preset": "paper", "deviations": (), "backbone": "resnet50 frozen"}
    )
    one.model_copy(update={"about": about}).write(folder)
    write_pair_scores(PairScores(IDS, {k: np.array(v, np.float32) for k, v in scores.items()}, 2), folder)


BOTH = {
    "DIVERSITY/image": [0.0, 1.0],
    "DIVERSITY/text": [1.0, 2.0],
    "DISCREPANCY/image": [0.5, 0.5],
    "DISCREPANCY/text": [0.5, 0.5],
    "weight": [9.0, 9.0],
}


def test_figures_by_hand_beside_the_papers(tmp_path):
    run(tmp_path / "a", "COMBINED-VAL", BOTH)
    more = {name: [value + 0.2 for value in values] for name, values in BOTH.items()}
    run(tmp_path / "b", "COMBINED-VAL", more, seed=1)
    (table,) = build("complementary-1", tmp_path).tables
    assert [row.name for row in table.rows] == ["COCO", "GoodNews", "Politics, COMBINED-VAL", "ConcCap"]
    row = table.rows[2]
    assert row.remark == "2 seeds"
    assert row.settings.words() == "preset paper; resnet50 frozen; seeds 0, 1; politics, grouped split"
    names = ("K", "λ", "β", "γ", "μσ", "μ", "σ", "-", "mean", "none", "5, 1", "1, 5")
    values = dict(zip(names, row.cells, strict=True))
    assert not values["5, 1"].applies
    assert [values[name].value for name in "Kλβγ"] == [9, 96, 3, 1]
    assert [values[name].paper for name in "Kλβγ"] == [9, 96, 3, 1]
    deviation = np.sqrt(0.5)  # of 0, 1, 1, 2
    assert values["μ"].value == pytest.approx(1.1)
    assert values["σ"].value == pytest.approx(deviation)
    assert values["μσ"].value == pytest.approx((1.0 * deviation + 1.2 * deviation) / 2)
    assert values["mean"].value == pytest.approx(0.6)
    assert values["none"].value == pytest.approx(0.0, abs=1e-6)
    assert (values["μ"].paper, values["σ"].paper) == (0.6279, 0.0123)
    outer = [values[name] for name in names[-2:]]
    assert [(cell.value, cell.paper) for cell in outer] == [(None, 0.4734), (None, 0.4722)]
    assert all(cell.value is None for cell in table.rows[0].cells)
    assert [cell.paper for cell in table.rows[0].cells[-2:]] == [0.4922, 0.4850]
    assert table.rows[0].cells[5].paper == 0.3173
    assert "| 1.10000 (0.6279) |" in build("complementary-1", tmp_path).markdown()


def test_what_a_run_does_not_have_is_no_gap_and_other_data_have_no_published_figures(tmp_path):
    one = {name: values for name, values in BOTH.items() if name.startswith("DIV")}
    run(tmp_path / "a", "DIVERSITY", one, data="mine", method="diversity")
    (table,) = build("complementary-1", tmp_path, data="mine").tables
    (row,) = table.rows
    assert row.name == "mine, DIVERSITY"
    assert [cell.applies for cell in row.cells] == [True, True, False, False, *[True] * 3, *[False] * 5]
    assert {cell.paper for cell in row.cells} == {None}
    assert table.empty == 0


def test_the_outer_factors_are_of_a_sweep_on_validation(tmp_path):
    run(tmp_path / "val", "COMBINED-VAL", BOTH)
    for seed in (0, 1):
        for factors, right in (((5.0, 1.0), 0.5), ((1.0, 5.0), 0.3), ((2.0, 1.0), 0.9)):
            weights = {"beta": factors[0], "gamma_hat": factors[1]}
            config = {"data": {"set": "politics", "limit": 48}, "weights": weights}
            point = Point(settings={}, seed=seed, epoch=0, validation={"MRR": 0.1, "C@5": right + seed / 10})
            folder = tmp_path / "sweep" / f"{factors}{seed}"
            folder.mkdir(parents=True)
            (folder / POINT).write_text(seal(Done(config=config, point=point).model_dump_json()))
            # what such a training left is of no measured run, and asks for none
            write_pair_scores(PairScores(IDS, {}, 0), folder)
    (table,) = build("complementary-1", tmp_path, data="politics").tables
    assert [row.name for row in table.rows] == ["Politics, COMBINED-VAL", "Politics, outer factors"]
    assert table.rows[1].remark == "2 seeds"
    found = table.rows[1].cells
    assert [cell.value for cell in found[-2:]] == pytest.approx([0.55, 0.35])
    assert [cell.paper for cell in found[-2:]] == [0.4734, 0.4722]
    assert not any(cell.applies for cell in found[:-2])


def test_what_cannot_be_shown_is_refused(tmp_path):
    with pytest.raises(MissingError, match="not a folder"):
        build("complementary-1", tmp_path / "none")
    (tmp_path / "run").mkdir()
    write_pair_scores(PairScores(IDS, {}, 0), tmp_path / "run")
    with pytest.raises(DataError, match="has pair scores but no result; run 'limner measure"):
        build("complementary-1", tmp_path)
    with pytest.raises(ConfigError, match="give --runs"):
        build("complementary-1", measured=[])
