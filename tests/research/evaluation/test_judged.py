"""Topics with judgements: ranks by hand, by loops and by ir_measures."""

import numpy as np
import pytest

from limner.errors import DataError, NumericsError, ShapeError
from limner.research.evaluation.judged import JudgedTask, evaluate_judged
from limner.studio.preferences import qrels_lines

PICTURES = ["a", "b", "c", "d"]
TOPICS = {"t1": "a fox", "t2": "a boat", "t3": "nothing", "t4": "unjudged"}
JUDGED = {"t1": {"b": 1, "a": 0}, "t2": {"d": 2, "c": 1, "gone": 0, "a": -1}, "t3": {"gone": 1, "a": 0}}
SCORES = {"a fox": [0.9, 0.8, 0.1, 0.0], "a boat": [0.5, 0.9, 0.2, 0.5]}


def score(texts):
    return np.array([SCORES[text] for text in texts], dtype=np.float32)


def test_by_hand():
    task = JudgedTask.of(JUDGED, TOPICS, PICTURES)
    assert (task.topics, task.silent, task.absent) == (("t1", "t2"), ("t3",), 2)
    assert task.relevant == ((1,), (2, 3))
    assert sorted(map(tuple, task.pairs)) == [(0, 1, 0), (1, 2, 0), (1, 3, 0)]
    result, ranking = evaluate_judged("hand", task, score, resamples=50)
    assert ranking.ranks().tolist() == [2.0, 2.5]
    found = {name: one.value for name, one in result.metrics.items()}
    assert found["R@1"] == 0
    assert found["R@5"] == 1
    assert found["MRR"] == pytest.approx((1 / 2 + 1 / 2.5) / 2)
    assert found["preferred"] == pytest.approx((0 + 0 + 0.5) / 3)  # t1 lost, c lost, d ties with a
    assert (result.queries, result.pairs, result.gallery) == (2, 3, 4)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_equal_to_ir_measures(tmp_path):
    ir_measures = pytest.importorskip("ir_measures", reason="ir_measures is the oracle here")
    rng = np.random.default_rng(5)
    pictures = [f"d{n}" for n in range(150)]
    judged = {
        f"t{n}": {pictures[k]: int(rng.random() < 0.6) for k in rng.choice(150, 4, replace=False)}
        for n in range(90)
    }
    judged = {name: documents for name, documents in judged.items() if any(documents.values())}
    topics = {name: name for name in judged}
    table = dict(zip(judged, rng.standard_normal((len(judged), 150)), strict=True))
    task = JudgedTask.of(judged, topics, pictures)
    result, _ = evaluate_judged("x", task, lambda texts: np.array([table[t] for t in texts]), resamples=20)
    file = tmp_path / "qrels.txt"
    file.write_text(qrels_lines(judged))
    qrels = list(ir_measures.read_trec_qrels(str(file)))
    assert len(qrels) == sum(map(len, judged.values()))
    run = [
        ir_measures.ScoredDoc(topic, picture, float(value))
        for topic, values in table.items()
        for picture, value in zip(pictures, values, strict=True)
    ]
    wanted = {"R@1": "Success@1", "R@5": "Success@5", "R@10": "Success@10", "MRR": "RR"}
    measures = {name: ir_measures.parse_measure(theirs) for name, theirs in wanted.items()}
    found = ir_measures.calc_aggregate(measures.values(), qrels, run)
    for name, measure in measures.items():
        assert result.metrics[name].value == pytest.approx(found[measure]), name


def test_many_texts_in_blocks_equal_one_by_one():
    rng = np.random.default_rng(1)
    table = rng.integers(0, 5, (200, 30)).astype(np.float32)  # many ties
    judged = {
        str(n): {str(k): int(place < 1) for place, k in enumerate(rng.permutation(30)[:3])}
        for n in range(200)
    }
    task = JudgedTask.of(judged, {name: name for name in judged}, [str(k) for k in range(30)])
    result, ranking = evaluate_judged("x", task, lambda texts: table[[int(t) for t in texts]], resamples=20)
    wins = []
    for n, documents in judged.items():
        row = table[int(n)]
        (right,) = [int(k) for k, value in documents.items() if value]
        for k, value in documents.items():
            if not value:
                gap = row[right] - row[int(k)]
                wins.append(0.5 if gap == 0 else float(gap > 0))
        better, equal = (row > row[right]).sum(), (row == row[right]).sum() - 1
        assert ranking.ranks()[int(n)] == 1 + better + equal / 2
    assert result.metrics["preferred"].value == pytest.approx(np.mean(wins))


def test_without_a_rejected_picture_there_are_no_pairs():
    task = JudgedTask.of({"t1": {"b": 1}}, TOPICS, PICTURES)
    result, _ = evaluate_judged("x", task, score, resamples=20)
    assert "preferred" not in result.metrics


def test_what_cannot_be_measured():
    with pytest.raises(DataError, match="topic 't9' is not in the topics file"):
        JudgedTask.of({"t9": {"a": 1}}, TOPICS, PICTURES)
    with pytest.raises(DataError, match="use a library of the same collection"):
        JudgedTask.of({"t1": {"gone": 1}}, TOPICS, PICTURES)
    task = JudgedTask.of(JUDGED, TOPICS, PICTURES)
    with pytest.raises(ShapeError):
        evaluate_judged("x", task, lambda texts: np.zeros((len(texts), 3)))
    with pytest.raises(NumericsError):
        evaluate_judged("x", task, lambda texts: np.full((len(texts), 4), np.nan))
