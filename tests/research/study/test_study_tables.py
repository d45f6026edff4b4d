"""The analysis and its tables against counts by hand, and simulated raters whose truth is known."""

import random
from collections import Counter

import pytest
from made_up_studies import THREE, pair, step, study_of, vote, votes_of

from limner.errors import DataError
from limner.research.paper.table import render
from limner.research.study.analysis import analyse, progress_of
from limner.research.study.report import build, reference, report_text

RESAMPLES = 200
MEANT = {"better": "first", "worse": "second", "same": "same", "neither": "neither"}


def unanimous(outcomes, stratum="Story", start=0, cluster=""):
    """Items and votes for outcomes that all three raters agree on."""
    pairs = [pair(start + n, stratum, cluster=cluster) for n in range(len(outcomes))]
    return pairs, {f"i{start + n}": [MEANT[one]] * 3 for n, one in enumerate(outcomes)}


def cells_of(table, name):
    return next(row for row in table.rows if row.name == name).cells


def test_table_6_by_hand():
    pairs, votes = unanimous(["better"] * 4 + ["worse"] * 2 + ["same"] + ["neither"] * 2)
    pairs += [pair(50, "Story"), pair(51, "Story", prefilled=True)]
    votes["i50"] = ["first", "second", "neither"]
    files = study_of(pairs, systems={"Story": {"A": "CMCM_Story", "B": "CMCA"}})
    report = analyse(files, votes_of(votes), resamples=RESAMPLES)
    six, tests, power, agreement = build(report, published=True)
    found = cells_of(six, "CMCM_Story")
    # 11 items: 4 better, 2 worse, 1 + 1 pre-filled same, 2 neither, 1 without a majority
    assert [round(cell.value * 11) for cell in found] == [4, 2, 2, 2, 1]
    assert sum(cell.value for cell in found) == pytest.approx(1)
    assert [cell.paper for cell in found] == [0.40, 0.10, 0.33, 0.17, None]
    assert [row.name for row in six.rows] == list(reference()["cmcm-6"]["rows"])
    assert "n = 11, 1 pre-filled" in six.rows[2].remark
    # the other four relations were not asked about
    assert six.empty == 16
    own = report.views[0].strata[0]
    assert (own.sign.wins, own.sign.losses) == (4, 2)
    # 2 · (1 + 6 + 15) / 64
    assert own.sign.p_value == pytest.approx(44 / 64)
    # mean 2/11, sum of squares 6: variance (6 − 4/11) / 10
    assert own.mean.t == pytest.approx((2 / 11) / ((6 - 4 / 11) / 10 / 11) ** 0.5)
    assert tests.rows[0].cells[3].value == pytest.approx(44 / 64)
    assert power.rows[0].cells[0].value == 11
    # 9 units agree wholly, one not at all
    assert agreement.rows[0].cells[0].value == pytest.approx(27 / 30)
    assert len(report.views) == 1


@pytest.mark.parametrize("votes", [{}, {"i1": ["first"]}], ids=["none", "too few"])
def test_without_a_valid_vote_no_figure_is_printed(votes):
    files = study_of([pair(1), pair(2), pair(3, prefilled=True), pair(4, prefilled=True)])
    report = analyse(files, votes_of(votes), resamples=RESAMPLES)
    outcomes, tests, *_ = build(report)
    assert all(cell.value is None for row in outcomes.rows for cell in row.cells)
    assert all(cell.value is None for row in tests.rows for cell in row.cells)


def test_tables_name_the_systems():
    systems = {"all": {"A": "with context", "B": "without"}}
    files = study_of([pair(1), pair(2)], systems=systems)
    outcomes, *_ = build(analyse(files, votes_of({"i1": ["first"] * 3}), resamples=RESAMPLES))
    assert [row.name for row in outcomes.rows] == ["with context"]
    assert outcomes.blocks[0].columns[:2] == ("with context better", "without better")


def test_the_published_table_alone_prints_in_every_format():
    files = study_of([pair(1, "Other")])
    report = analyse(files, votes_of({"i1": ["first"] * 3}), resamples=RESAMPLES)
    for form in ("md", "latex", "html"):
        text = render(build(report, published=True), form)
        for name, row in reference()["cmcm-6"]["rows"].items():
            assert name.replace("_", "\\_" if form != "html" else "_") in text
            assert all(f"({value:.0f})" in text for value in row.values())
        assert "no majority" in text
    assert "tested, Other" in render(build(report), "html")


def test_relations_are_corrected_together_and_summed():
    first, votes = unanimous(["better"] * 9 + ["worse"], "Story")
    second, more = unanimous(["better"] * 7 + ["worse"] * 3, "Meta", 100)
    files = study_of(first + second)
    strata = {
        one.stratum: one
        for one in analyse(files, votes_of(votes | more), resamples=RESAMPLES).views[0].strata
    }
    assert list(strata) == ["Story", "Meta", "all"]
    # exact p of 9 : 1 is 22 / 1024, of 7 : 3 352 / 1024; Holm doubles the smaller alone
    assert strata["Story"].sign_adjusted == pytest.approx(44 / 1024)
    assert strata["Meta"].sign_adjusted == pytest.approx(352 / 1024)
    assert strata["all"].sign_adjusted is None
    assert strata["all"].items == 20
    assert strata["all"].sign.wins == 16


def test_a_system_asked_about_once_stands_in_its_row_of_the_paper():
    pairs, votes = unanimous(["better"] * 2, "Mine")
    files = study_of(pairs, systems={"Mine": {"A": "CMCM_Story", "B": "CMCA"}})
    six = build(analyse(files, votes_of(votes), resamples=RESAMPLES), published=True)[0]
    assert [row.name for row in six.rows] == list(reference()["cmcm-6"]["rows"])
    assert cells_of(six, "CMCM_Story")[0].value == 1


def test_relations_of_one_system_keep_rows_of_their_own():
    first, votes = unanimous(["better"] * 2, "Story")
    second, more = unanimous(["worse"] * 3, "Meta", 100)
    third, most = unanimous(["neither"] * 4, "Else", 200)
    named = {one: {"A": "CMCM_Story", "B": "CMCA"} for one in ("Story", "Meta", "Else")}
    files = study_of(first + second + third, systems=named)
    six = build(analyse(files, votes_of(votes | more | most), resamples=RESAMPLES), published=True)[0]
    rows = {row.name: row for row in six.rows}
    assert rows["CMCM_Story"].cells[0].value == 1
    assert (rows["CMCM_Meta"].cells[1].value, rows["CMCM_Meta"].cells[1].paper) == (1, 0.09)
    assert "here CMCM_Story, n = 3" in rows["CMCM_Meta"].remark
    assert rows["CMCM_Story, Else"].cells[3].value == 1
    assert rows["all"].cells[0].value == pytest.approx(2 / 9)
    assert rows["all"].cells[0].paper is None


def test_failing_raters_are_counted_and_a_second_analysis_leaves_them_out():
    files = study_of([pair(1), pair(2), pair(9, right="neither")])
    votes = votes_of(
        {
            "i1": ["second", "first", "first", "second", "second"],
            "i2": ["first", "first", "first", "second", "second"],
            "i9": ["neither", "neither", "neither", "first", "same"],
        }
    )
    report = analyse(files, votes, resamples=RESAMPLES)
    everybody, rest = report.views
    assert everybody.strata[0].outcomes == {"worse": 1, "better": 1}
    assert rest.strata[0].outcomes == {"better": 2}
    assert rest.raters == "without the 2 of 5 raters who failed an attention check"
    assert (everybody.votes, rest.votes) == (10, 6)
    assert len(build(report)) == 8
    text = render(build(report))
    assert "Attention checks of all 5 raters: 2 of 5 answers wrong; failed by 2 raters" in text
    # what a table says of itself is what it counts
    assert (everybody.people, rest.people) == (5, 3)
    assert text.count("10 votes of 5 raters") == 1
    assert text.count("6 votes of 3 raters") == 1


def test_a_report_before_the_last_vote_says_so_everywhere():
    files = study_of([pair(1), pair(2), pair(3, prefilled=True)])
    votes = votes_of({"i1": ["first"] * 3, "i2": ["first"] * 2})
    report = analyse(files, votes, resamples=RESAMPLES)
    assert (report.interim, report.votes, report.due) == (True, 5, 6)
    for form in ("md", "latex", "html"):
        text = report_text(files, report, form)
        assert "(all raters; interim)" in text
        assert "(all raters)" not in text
        assert ("INTERIM: 5 of 6 registered votes received" in text) == (form != "latex")
    full = analyse(files, [*votes, vote("i2", "r2", "first")], resamples=RESAMPLES)
    assert not full.interim
    assert "interim" not in report_text(files, full).lower()


def test_published_figures_are_shown_where_asked_for():
    pairs, votes = unanimous(["better"] * 3)
    named = {"Story": {"A": "CMCM_Story", "B": "CMCA"}}
    files = study_of(pairs, systems=named)
    report = analyse(files, votes_of(votes), resamples=RESAMPLES)
    six = build(report)[0]
    assert [row.name for row in six.rows] == ["CMCM_Story, Story"]
    assert all(cell.paper is None for cell in six.rows[0].cells)
    assert six.empty == 0
    for form in ("md", "latex", "html"):
        text = report_text(files, report, form)
        for word in ("CMCM_Other", "paper", "both good"):
            assert word not in text
        assert "paper" in report_text(files, report, form, published=True)
    ticked = analyse(study_of([step(1)], "tick-all"), votes_of({"i1": [("a",)] * 3}), resamples=RESAMPLES)
    plain, full = build(ticked), build(ticked, published=True)
    assert all(cell.paper is None for table in plain for row in table.rows for cell in row.cells)
    assert any(cell.paper is not None for table in full for row in table.rows for cell in row.cells)
    assert "paper" not in render(plain)


def test_what_was_withdrawn_counts_nowhere_but_as_withdrawn():
    files = study_of([pair(1), pair(9, right="neither")], raters=2)
    votes = votes_of({"i1": ["first", "first", None], "i9": ["neither", "neither", None]})
    gone = [vote("i1", "r2", None), vote("i9", "r2", None)]
    report, without = (analyse(files, cast, resamples=RESAMPLES) for cast in ([*votes, *gone], votes))
    assert (report.withdrawn.raters, report.withdrawn.votes) == (1, 2)
    assert report.model_copy(update={"withdrawn": without.withdrawn}) == without
    assert "1 rater withdrew; 2 votes are left out everywhere" in report_text(files, report)
    assert "1 raters withdrew 2 votes" not in "".join(progress_of(files, votes).lines())
    assert progress_of(files, [*votes, *gone]).withdrawn.votes == 2


def test_intervals_of_the_mean_draw_whole_clusters():
    # within a cluster all agree, so items are no evidence of their own
    one, votes = unanimous(["better"] * 10, "all", 0, "story one")
    two, more = unanimous(["worse"] * 10, "all", 100, "story two")
    report = analyse(study_of(one + two), votes_of(votes | more), resamples=RESAMPLES)
    span = report.views[0].strata[0].mean_interval
    assert (span.low, span.high, span.groups) == (-1, 1, 2)


def test_table_2_of_vrss_by_hand():
    ticks = {
        1: ["a", "a", "a"],
        2: ["a", "a", "ab"],
        3: ["ab", "ab", "abc"],
        4: ["abc", "abc", ""],
        5: ["", "", "a"],
        6: ["a", "b", "c"],
        7: ["ac", "ac", "ac", "ac", "ac"],
    }
    files = study_of([step(n, sequence=f"s{n % 2}") for n in ticks], "tick-all", systems={"all": THREE})
    votes = votes_of({f"i{n}": [tuple(one) for one in each] for n, each in ticks.items()})
    report = analyse(files, votes, resamples=RESAMPLES)
    two, ticked, tests, _, agreement = build(report, published=True)
    assert two.columns == ("1", "2", "3", "4", "5", "steps", "% of steps")

    def counts(name):
        return [cell.value for cell in cells_of(two, name)[:6]]

    assert counts("true picture only") == [0, 1, 1, 0, 0, 2]
    assert counts("true picture, context") == [0, 1, 0, 0, 0, 1]
    assert counts("true picture, plain") == [0, 0, 0, 0, 1, 1]
    assert counts("true picture, context, plain") == [0, 1, 0, 0, 0, 1]
    assert counts("nothing") == [0, 1, 0, 0, 0, 1]
    assert counts("no majority") == [1, 0, 0, 0, 0, 1]
    assert [cell.paper for cell in cells_of(two, "true picture only")[1:6]] == [0, 442, 171, 47, 660]
    assert [cell.paper for cell in cells_of(two, "true picture, context")[1:5]] == [255, 41, 0, 0]
    assert cells_of(two, "true picture only")[6].value == pytest.approx(2 / 7)
    # of 23 votes 18 tick the true picture, of 7 steps 5 by majority
    assert [cell.value for cell in ticked.rows[0].cells] == pytest.approx([18 / 23, 5 / 7])
    # step 3: only the context model of the two; step 7: only the plain one
    assert [cell.value for cell in tests.rows[0].cells[1:4]] == [1, 1, 1.0]
    assert agreement.rows[0].cells[2].value == 18  # six steps of three votes, three pictures each


def test_published_totals_are_those_of_the_specification():
    rows = reference()["vrss-2"]["rows"]
    assert sum(sum(row.values()) for row in rows.values()) == 1128
    twos = [row["2"] for row in rows.values()]
    assert [round(100 * n / sum(twos), 1) for n in twos[1:]] == [61.0, 21.1, 17.9]
    assert all(sum(row.values()) == 100 for row in reference()["cmcm-6"]["rows"].values())


def test_a_study_without_votes_reports_gaps_and_no_figures():
    report = analyse(study_of([pair(1), pair(2)]), [], resamples=RESAMPLES)
    text = render(build(report))
    assert "2 items with too few votes left out" in text
    assert report.views[0].strata[0].mean is None
    ticked = analyse(study_of([step(1)], "tick-all"), [], resamples=RESAMPLES)
    assert "–" in render(build(ticked))


def simulated(share_better, *, raters=5, items=120, careless=0, seed=0):
    """Raters who see the truth of an item with 0.9, and careless ones who always answer alike."""
    rng = random.Random(seed)
    pairs = [pair(n, flipped=rng.random() < 0.5) for n in range(items)]
    checks = [pair(1000 + n, right=("neither", "same")[n % 2]) for n in range(4)]
    truth = ["better" if rng.random() < share_better else "worse" for _ in pairs]
    table = {}
    for (item, entry), true in zip(pairs, truth, strict=True):
        side = {letters[0]: name for name, letters in entry.systems.items()}
        right, wrong = (side["A"], side["B"]) if true == "better" else (side["B"], side["A"])
        table[item.id] = [
            "first" if rater < careless else right if rng.random() < 0.9 else wrong for rater in range(raters)
        ]
    for item, entry in checks:
        table[item.id] = ["first" if rater < careless else entry.right for rater in range(raters)]
    return study_of(pairs + checks, raters=raters), votes_of(table), Counter(truth)


def test_simulated_raters_find_the_better_system():
    files, votes, truth = simulated(0.7)
    own = analyse(files, votes, resamples=RESAMPLES).views[0].strata[0]
    assert abs(own.outcomes["better"] - truth["better"]) <= 4
    assert own.sign.p_value < 0.001
    assert own.mean.low > 0
    assert own.agreement.alpha == pytest.approx(own.agreement.kappa, abs=0.01)
    # agreement of raters who are right with 0.9: 0.9² + 0.1² of pairs are equal
    assert own.agreement.observed == pytest.approx(0.82, abs=0.04)


@pytest.mark.slow
def test_simulated_raters_find_no_difference_where_there_is_none():
    p_values = []
    for seed in range(30):
        files, votes, _ = simulated(0.5, items=60, seed=seed)
        p_values.append(analyse(files, votes, resamples=10).views[0].strata[0].sign.p_value)
    assert sum(p < 0.05 for p in p_values) <= 5


def test_careless_raters_lower_agreement_and_are_found_by_the_checks():
    files, votes, _ = simulated(0.7, careless=2)
    report = analyse(files, votes, resamples=RESAMPLES)
    assert report.checks.failed == ("r0", "r1")
    everybody, rest = (view.strata[0].agreement.alpha for view in report.views)
    assert rest > everybody + 0.2


def test_shuffled_answers_agree_by_chance():
    files, votes, _ = simulated(0.5)
    rng = random.Random(1)
    answers = [vote.answer for vote in votes]
    rng.shuffle(answers)
    mixed = [vote.model_copy(update={"answer": a}) for vote, a in zip(votes, answers, strict=True)]
    own = analyse(files, mixed, resamples=RESAMPLES).views[0].strata[0]
    assert abs(own.agreement.alpha) < 0.1


def test_a_generator_of_votes_serves_as_well_as_a_list():
    files, votes, _ = simulated(0.6, items=20)
    listed = analyse(files, votes, resamples=RESAMPLES)
    assert analyse(files, (vote for vote in reversed(votes)), resamples=RESAMPLES) == listed


def test_a_wrong_vote_stops_the_analysis():
    with pytest.raises(DataError, match="no such item"):
        analyse(study_of([pair(1)]), votes_of({"i7": ["first"]}))
