"""Judged topics: measures of a library's search by hand, and what is left out."""

import pytest

from limner.errors import DataError
from limner.research.evaluation.judged import evaluate_judged
from limner.studio.preferences import qrels_lines, topic_lines

TOPICS = {"t1": "a fox", "t2": "a boat", "t3": "nothing", "t4": "unjudged"}
JUDGED = {"t1": {"b": 1, "a": 0}, "t2": {"d": 2, "c": 1, "gone": 0, "a": -1}, "t3": {"gone": 1, "a": 0}}
FOUND = {"a fox": "abcd", "a boat": "badc", "unjudged": "abcd"}


@pytest.fixture
def files(tmp_path):
    def written(judged, topics):
        (tmp_path / "qrels.txt").write_text(qrels_lines(judged))
        (tmp_path / "topics.tsv").write_text(topic_lines(topics))
        return tmp_path / "qrels.txt", tmp_path / "topics.tsv"

    return written


def test_measures_by_hand(files):
    made = evaluate_judged(*files(JUDGED, TOPICS), "abcd", FOUND.__getitem__, resamples=200)
    assert (made.topics, made.gallery, made.absent, made.silent) == (2, 4, 2, ("t3",))
    # t1: b at 2; t2: d at 3 and c at 4
    due = {"Success@1": 0, "Success@5": 1, "Success@10": 1, "RR@100": (1 / 2 + 1 / 3) / 2}
    due["AP@100"] = (1 / 2 + (1 / 3 + 2 / 4) / 2) / 2
    assert {name: one.value for name, one in made.metrics.items()} == pytest.approx(due)
    assert made.metrics["RR@100"].low == pytest.approx(1 / 3)
    assert made.metrics["RR@100"].high == pytest.approx(1 / 2)


def test_what_cannot_be_measured_is_refused(files):
    with pytest.raises(DataError, match=r"topic 't2' is not in .*topics.tsv; use files of one set"):
        evaluate_judged(*files(JUDGED, {"t1": "a fox", "t3": "x"}), "abcd", FOUND.__getitem__)
    alone = {"t3": JUDGED["t3"]}
    with pytest.raises(DataError, match="1 topic, none with a relevant picture in this library"):
        evaluate_judged(*files(alone, TOPICS), "abcd", FOUND.__getitem__)
