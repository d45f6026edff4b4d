"""Kappa and alpha against the worked examples of their authors, and against another implementation."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up_studies import step, study_of

from limner.research.study.analysis import rated_units
from limner.research.study.statistics import agreement, fleiss_kappa, krippendorff_alpha


def columns(*rows):
    """Rows of observers → units; a dot is no value."""
    return [tuple(value for value in unit if value != ".") for unit in zip(*rows, strict=True)]


# Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability": sections A, B and C
A = columns("0100000010", "1110010000")
B = columns("aabbdcccedda", "babbbcccEddd".lower())
C = columns("123321412...", "1233224125.3", ".3332342251.", "12332441251.")


@pytest.mark.parametrize(("units", "due"), [(A, 0.095), (B, 0.692), (C, 0.743)])
def test_alpha_of_the_authors_examples(units, due):
    assert krippendorff_alpha(units) == pytest.approx(due, abs=5e-4)


# Fleiss' worked example as retold in textbooks: 10 subjects, 14 raters, 5 categories
FLEISS = [
    (0, 0, 0, 0, 14),
    (0, 2, 6, 4, 2),
    (0, 0, 3, 5, 6),
    (0, 3, 9, 2, 0),
    (2, 2, 8, 1, 1),
    (7, 7, 0, 0, 0),
    (3, 2, 6, 3, 0),
    (2, 5, 3, 2, 2),
    (6, 5, 2, 1, 0),
    (0, 2, 2, 3, 7),
]


def test_kappa_of_the_textbook_example():
    units = [tuple("".join(name * count for name, count in zip("abcde", row, strict=True))) for row in FLEISS]
    assert fleiss_kappa(units) == pytest.approx(0.210, abs=5e-4)
    found = agreement(units)
    assert (found.kappa_units, found.alpha_units) == (10, 10)
    # mean P_i of the same example
    assert found.observed == pytest.approx(0.378, abs=5e-4)


@settings(deadline=None)  # the first call imports another library
@given(st.lists(st.lists(st.sampled_from("abc"), min_size=2, max_size=5), min_size=2, max_size=12))
def test_alpha_equals_that_of_nltk(units):
    task = pytest.importorskip("nltk.metrics.agreement")
    ours = krippendorff_alpha(units)
    if ours is None:
        assert len({answer for unit in units for answer in unit}) == 1
        return
    data = [(f"r{r}", f"u{u}", answer) for u, unit in enumerate(units) for r, answer in enumerate(unit)]
    assert ours == pytest.approx(task.AnnotationTask(data).alpha(), abs=1e-9)


def test_perfect_agreement_is_one_and_single_votes_say_nothing():
    units = [("a", "a", "a"), ("b", "b", "b"), ("c",)]
    found = agreement(units)
    assert (found.kappa, found.alpha, found.observed) == (pytest.approx(1), pytest.approx(1), 1)
    assert (found.kappa_units, found.alpha_units) == (2, 2)


def test_kappa_takes_the_commonest_number_of_votes():
    units = [("a", "a", "b"), ("b", "b", "b"), ("a", "b"), ("a", "b", "a", "b")]
    found = agreement(units)
    assert (found.raters, found.kappa_units, found.alpha_units) == (3, 2, 4)
    assert found.kappa == pytest.approx(fleiss_kappa(units[:2]))
    assert agreement(units[1:]).raters == 4


def test_agreement_without_two_answers_is_not_defined():
    found = agreement([("a", "a"), ("a", "a")])
    assert (found.kappa, found.alpha, found.observed) == (None, None, 1)
    nothing = agreement([])
    assert (nothing.kappa, nothing.alpha, nothing.observed) == (None, None, None)


def test_units_of_tick_all_are_pictures_ticked_or_not():
    files = study_of([step(1, (("A", "B"), ("C",)))], "tick-all")
    units = rated_units(files, {"i1": ("AB", "nothing", "ABC")})
    assert units == [("ticked", "not", "ticked"), ("not", "not", "ticked")]
