"""Decoders against enumeration of every choice."""

import numpy as np
import pytest
from boards import TablePairwise
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_decoding import PlainBoard

from limner.errors import ConfigError, DataError, NumericsError, ShapeError
from limner.research.evaluation.anchor import decode_anchor, leading
from limner.research.evaluation.chain import decode_beam, decode_chain
from limner.research.evaluation.decoding import decode, max_marginals
from limner.research.evaluation.lattice import BLANK, assign, lattice, prices


class Indifferent:
    """Pictures say nothing of each other."""

    def block(self, rows, columns):
        return np.zeros((len(rows), len(columns)))


@st.composite
def problems(draw, repeats=None, locks=True):
    steps = draw(st.integers(1, 4))
    width = draw(st.integers(1, 4))
    total = draw(st.integers(width, 6))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    rounding = draw(st.sampled_from([0, 1, 6]))  # 0 gives many ties
    items = np.array([rng.permutation(total)[:width] for _ in range(steps)])
    unary = np.round(rng.normal(size=(steps, width)) * 2, rounding)
    unary[rng.random(unary.shape) < draw(st.sampled_from([0.0, 0.2]))] = -np.inf
    table = np.round(rng.normal(size=(total, total)) * draw(st.sampled_from([0.0, 1.0, 3.0])), rounding)
    table = table + table.T
    blank = np.round(rng.normal(size=steps) * 2, rounding)
    blank[rng.random(steps) < draw(st.sampled_from([0.0, 0.5, 1.0]))] = -np.inf
    groups = rng.integers(0, draw(st.integers(1, total)), size=total)
    pins = {}
    for step in rng.permutation(steps)[: draw(st.integers(0, 2))] if locks else ():
        column = int(rng.integers(width))
        pins[int(step)] = None if draw(st.booleans()) or unary[step, column] == -np.inf else column
    held = [step for step in pins if draw(st.booleans())]
    if not pins:
        unary[(rng.random(total) < 0.15)[items]] = -np.inf
    return {
        "unary": unary,
        "groups": groups,
        "pair": TablePairwise(table),
        "items": items,
        "blank": blank,
        "locks": pins,
        "held": held,
        "allow_repeats": draw(st.booleans()) if repeats is None else repeats,
    }


@pytest.mark.parametrize("decoder", ["off", "chain", "anchor"])
@given(arguments=problems())
@settings(deadline=None, max_examples=120)
def test_exact_decoders_equal_enumeration(decoder, arguments):
    board = PlainBoard(**arguments)
    if board.impossible():
        with pytest.raises(DataError, match="every candidate is banned"):
            lattice(**arguments)
        return
    problem, best = lattice(**arguments), board.best(decoder)
    if best == -np.inf:
        with pytest.raises(DataError, match="cannot all get"):
            decode(problem, decoder)
        return
    choice = decode(problem, decoder)
    assert choice.objective == pytest.approx(best, abs=1e-7)
    assert board.value(decoder, choice.columns, choice.anchor) == pytest.approx(best, abs=1e-7)
    assert choice.exact
    assert choice.bound >= choice.objective


@given(arguments=problems(), width=st.integers(1, 5))
@settings(deadline=None, max_examples=100)
def test_beam_and_greedy_are_honest_and_never_better(arguments, width):
    board = PlainBoard(**arguments)
    best = -np.inf if board.impossible() else board.best("chain")
    if best == -np.inf:
        return
    problem = lattice(**arguments)
    for choice in (decode(problem, "beam", beam_width=width), decode(problem, "greedy")):
        assert board.value("beam", choice.columns) == pytest.approx(choice.objective, abs=1e-7)
        assert choice.objective <= best + 1e-7
        assert choice.bound == np.inf


@given(arguments=problems(repeats=True))
@settings(deadline=None, max_examples=60)
def test_wide_beam_is_exact(arguments):
    board = PlainBoard(**arguments)
    if not board.impossible():
        beam = decode(lattice(**arguments), "beam", beam_width=5**4)
        assert beam.objective == pytest.approx(board.best("chain"), abs=1e-7)


@pytest.mark.parametrize("decoder", ["chain", "anchor"])
@given(arguments=problems(repeats=True))
@settings(deadline=None, max_examples=60)
def test_max_marginals_equal_enumeration(decoder, arguments):
    board = PlainBoard(**arguments)
    if board.impossible():
        return
    found = max_marginals(lattice(**arguments), decoder)
    for s, c in np.ndindex(found.shape):
        assert found[s, c] == pytest.approx(board.best(decoder, s, c), abs=1e-7)


@pytest.mark.parametrize("decoder", ["off", "chain", "anchor"])
@given(arguments=problems(locks=False), step=st.integers(0, 3), constant=st.floats(-5, 5))
@settings(deadline=None, max_examples=40)
def test_a_constant_for_a_step_moves_only_the_value(decoder, arguments, step, constant):
    try:
        plain = decode(lattice(**arguments), decoder)
    except DataError:
        return
    step %= len(arguments["unary"])
    arguments["unary"][step] += constant
    arguments["blank"][step] += constant
    moved = decode(lattice(**arguments), decoder)
    assert moved.objective == pytest.approx(plain.objective + constant, abs=1e-6)


@pytest.mark.parametrize("decoder", ["off", "greedy", "beam", "chain", "anchor"])
def test_order_of_candidates_does_not_matter(decoder):
    rng = np.random.default_rng(3)
    unary, table, groups = rng.normal(size=(4, 7)), rng.normal(size=(7, 7)), np.array([0, 1, 2, 3, 3, 4, 5])
    table += table.T
    order = rng.permutation(7)
    plain = decode(lattice(unary, groups, TablePairwise(table)), decoder)
    mixed = decode(
        lattice(unary[:, order], groups[order], TablePairwise(table[np.ix_(order, order)])), decoder
    )
    assert (order[mixed.columns] == plain.columns).all()
    assert mixed.objective == pytest.approx(plain.objective)


@pytest.mark.parametrize("decoder", ["chain", "anchor"])
def test_without_pull_all_exact_decoders_agree_with_off(decoder):
    unary = np.random.default_rng(5).normal(size=(5, 9))
    problem = lattice(unary, np.arange(9) // 2, Indifferent())
    assert decode(problem, decoder).objective == pytest.approx(decode(problem, "off").objective)
    free = lattice(unary, np.zeros(9, dtype=int), Indifferent(), allow_repeats=True)
    assert (decode(free, decoder).columns == unary.argmax(axis=1)).all()


@pytest.mark.parametrize("decoder", ["off", "greedy", "beam", "chain", "anchor"])
def test_all_tied_uses_each_group_once(decoder):
    problem = lattice(np.zeros((12, 30)), np.arange(30), TablePairwise(np.ones((30, 30))))
    choice = decode(problem, decoder)
    assert len(set(choice.columns)) == 12
    assert choice.objective == {"off": 0, "anchor": 12}.get(decoder, 11)


def test_one_step_shows_its_best():
    for decoder in ("off", "greedy", "beam", "chain"):
        choice = decode(lattice(np.array([[0.0, 2.0, 1.0]]), np.arange(3), Indifferent()), decoder)
        assert choice.columns.tolist() == [1]


def test_a_pin_pulls_its_world_in():
    """Two worlds of three pictures: text prefers world A slightly, the pin is of world B."""
    world = np.array([0, 0, 0, 1, 1, 1])
    table = np.where(world[:, None] == world, 1.0, -1.0)
    unary = np.tile(np.where(world == 0, 0.5, 0.0), (3, 1))
    for decoder in ("chain", "anchor", "greedy", "beam"):
        free = decode(lattice(unary, np.arange(6), TablePairwise(table)), decoder)
        assert set(world[free.columns]) == {0}
        problem = lattice(unary, np.arange(6), TablePairwise(table), locks={1: 4})
        pinned = decode(problem, decoder)
        assert pinned.columns[1] == 4
        assert set(world[pinned.columns]) == {1}, decoder
    assert set(world[decode(problem, "off").columns[[0, 2]]]) == {0}


def test_pull_rescues_and_sinks_a_blank():
    """A step just below its blank price is shown when its world agrees, blank when not."""
    unary = np.array([[3.0, -np.inf, -np.inf], [-np.inf, -0.5, -np.inf], [-np.inf, -np.inf, 0.5]])
    table = np.array([[0.0, 1.0, -1.0], [1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]])
    problem = lattice(unary, np.arange(3), TablePairwise(table), blank=np.zeros(3), locks={0: 0})
    assert decode(problem, "off").columns.tolist() == [0, BLANK, 2]
    assert decode(problem, "anchor").columns.tolist() == [0, 1, BLANK]


def test_pins_may_repeat_but_free_steps_may_not_use_them():
    unary = np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]])
    for decoder in ("off", "greedy", "beam", "chain", "anchor"):
        choice = decode(lattice(unary, np.arange(2), Indifferent(), locks={0: 0, 2: 0}), decoder)
        assert choice.columns.tolist() == [0, 1, 0]


@pytest.mark.parametrize("decoder", ["off", "greedy", "beam", "chain", "anchor"])
def test_a_pin_stays_where_a_blank_would_be_better(decoder):
    unary, blank = np.array([[-4.0, 1.0, 0.0], [2.0, 1.0, 0.0]]), np.array([9.0, 0.0])
    problem = lattice(unary, np.arange(3), Indifferent(), blank=blank, locks={0: 0})
    assert decode(problem, decoder).columns.tolist() == [0, 1]


@pytest.mark.parametrize("decoder", ["greedy", "beam", "chain"])
def test_the_world_of_the_pins_leaves_the_pins_themselves_as_they_are(decoder):
    table = np.full((4, 4), 2.0) + 3.0 * np.eye(4)  # a picture says 5 nats for itself, which never count
    problem = lattice(
        np.zeros((3, 4)), np.arange(4), TablePairwise(table), locks={0: 0, 2: 1}, blank=np.zeros(3)
    )
    # by hand: 2 for either pair of neighbours, and 2 of the world for the picture between
    assert decode(problem, decoder).objective == 6.0


@pytest.mark.parametrize("decoder", ["off", "greedy", "beam", "chain", "anchor"])
def test_a_story_may_be_held_blank_from_end_to_end(decoder):
    problem = lattice(np.zeros((2, 1)), np.arange(1), Indifferent(), locks={0: None, 1: None}, held={0, 1})
    assert decode(problem, decoder).columns.tolist() == [BLANK, BLANK]


def test_nothing_left_is_blank_or_an_error():
    unary = np.full((2, 2), -np.inf)
    with pytest.raises(DataError, match="step 1: every candidate is banned"):
        lattice(unary, np.arange(2), Indifferent())
    problem = lattice(unary, np.arange(2), Indifferent(), blank=np.array([-1.0, -2.0]))
    for decoder in ("off", "greedy", "beam", "chain", "anchor"):
        choice = decode(problem, decoder)
        assert choice.columns.tolist() == [BLANK, BLANK]
        assert choice.objective == -3.0
    empty = lattice(np.zeros((2, 0)), np.zeros(0, dtype=int), Indifferent(), blank=np.zeros(2))
    for decoder in ("off", "greedy", "beam", "chain", "anchor"):
        assert decode(empty, decoder).columns.tolist() == [BLANK, BLANK]


def test_wrong_input_is_named():
    unary = np.zeros((2, 2))
    for bad in (np.nan, np.inf):
        with pytest.raises(NumericsError, match=r"^lattice: unary has NaN or \+inf; expected nats or −inf$"):
            lattice(np.array([[0, bad]]), np.arange(2), Indifferent())
        with pytest.raises(NumericsError, match=r"^lattice: blank has NaN or \+inf; expected nats or −inf$"):
            lattice(unary, np.arange(2), Indifferent(), blank=np.array([bad, 0]))
    with pytest.raises(ShapeError, match=r"^lattice: unary has shape \(2,\), expected \(S, K\)$"):
        lattice(unary[0], np.arange(2), Indifferent())
    with pytest.raises(ShapeError, match=r"^lattice: items has shape \(2, 3\); its axis K is 3, expected 2$"):
        lattice(unary, np.arange(2), Indifferent(), items=np.zeros((2, 3), dtype=int))
    with pytest.raises(ShapeError, match=r"^lattice: blank has shape \(3,\); its axis S is 3, expected 2$"):
        lattice(unary, np.arange(2), Indifferent(), blank=np.zeros(3))
    with pytest.raises(ShapeError, match=r"^lattice: groups has shape \(1, 2\), expected \(C\)$"):
        lattice(unary, np.zeros((1, 2), dtype=int), Indifferent())
    with pytest.raises(
        DataError,
        match=r"^2 steps cannot all get a picture of their own from 1 group; allow repeats or blanks, or"
        r" index more pictures$",
    ):
        decode(lattice(unary, np.zeros(2, dtype=int), Indifferent()), "off")
    problem = lattice(unary, np.arange(2), Indifferent())
    with pytest.raises(ConfigError, match=r"^decoding: .*did you mean 'chain'"):
        decode(problem, "chian")
    with pytest.raises(ConfigError, match=r"^decoding: unknown decoder with marginals"):
        max_marginals(problem, "beam")


def test_bound_stays_valid_when_the_work_is_cut_short():
    """Every step loves the same few pictures: hard for branch and bound."""
    rng = np.random.default_rng(0)
    unary = np.tile(rng.normal(size=12), (8, 1)) + 0.1 * rng.normal(size=(8, 12))
    table = rng.normal(size=(12, 12)) * 2
    problem = lattice(unary, np.arange(12), TablePairwise(table + table.T))
    full = decode_chain(problem, limit=100_000)
    assert full.exact
    for limit in (1, 5, 20, 80):
        cut = decode_chain(problem, limit=limit)
        assert cut.objective <= full.objective + 1e-9 <= cut.bound + 2e-9
    one = decode_anchor(problem, limit=1)
    assert one.objective <= decode(problem, "anchor").objective <= one.bound + 1e-9


def crowded(steps, seed=0, total=60, width=20):
    """Many steps that want the same pictures, which pull each other."""
    rng = np.random.default_rng(seed)
    items = np.array([rng.permutation(total)[:width] for _ in range(steps)])
    vectors = rng.normal(size=(total, 6))
    unary = 2 * rng.normal(size=total)[items] + 0.5 * rng.normal(size=items.shape)
    blank = np.full(steps, -6.0)
    groups = rng.integers(0, total, size=total)
    pair = TablePairwise(vectors @ vectors.T)
    return {"unary": unary, "groups": groups, "pair": pair, "items": items, "blank": blank}


@pytest.mark.parametrize("steps", [12, 30, 70])
def test_bounded_anchors_are_those_of_an_assignment_for_every_anchor(steps):
    arguments = crowded(steps)
    problem, board = lattice(**arguments), PlainBoard(**arguments)
    items, group = arguments["items"], arguments["groups"][arguments["items"]]
    terms = arguments["pair"].table[items]  # (S, K, C)
    values = [assign(arguments["unary"] + terms[..., a], group, arguments["blank"])[1] for a in range(60)]
    found = decode(problem, "anchor")
    assert found.exact
    assert found.objective == pytest.approx(max(values), abs=1e-9)
    assert board.value("anchor", found.columns, found.anchor) == pytest.approx(found.objective, abs=1e-9)
    for limit in (1, 2, 4):
        cut = decode_anchor(problem, limit=limit)
        assert cut.objective <= max(values) + 1e-9 <= cut.bound + 2e-9
        assert board.value("anchor", cut.columns, cut.anchor) == pytest.approx(cut.objective, abs=1e-9)


@given(arguments=problems(), seed=st.integers(0, 100))
@settings(deadline=None, max_examples=80)
def test_prices_prove_an_assignment_best_and_bound_every_other(arguments, seed):
    try:
        problem = lattice(**arguments)
        group = np.unique(problem.group, return_inverse=True)[1].reshape(problem.group.shape)
        columns, best = assign(problem.unary, group, problem.blank)
    except DataError:
        return
    found = prices(problem.unary, group, problem.blank, columns)
    assert (found >= 0).all()
    assert len(found) == group.max(initial=-1) + 1

    def bound(unary):
        return np.maximum((unary - found[group]).max(axis=1), problem.blank).sum() + found.sum()

    assert bound(problem.unary) == pytest.approx(best, abs=1e-7)
    moved = problem.unary + np.random.default_rng(seed).normal(size=problem.unary.shape)
    assert assign(moved, group, problem.blank)[1] <= bound(moved) + 1e-7


def test_of_very_many_anchors_the_leading_ones_are_tried():
    problem = lattice(**crowded(12))
    assert leading(problem, 60).tolist() == list(range(60))
    best = problem.items[np.arange(12), problem.unary.argmax(axis=1)]
    assert set(best) <= set(leading(problem, 20)) <= set(range(60))
    assert len(leading(problem, 20)) == 20


@pytest.mark.parametrize("decoder", ["greedy", "beam", "chain"])
def test_a_beginning_that_takes_the_only_picture_of_a_later_step_is_given_up(decoder):
    unary = np.array([[9.0, 0.5, 2.0], [8.0, 0.0, 1.0], [5.0, -np.inf, -np.inf]])
    problem = lattice(unary, np.arange(3), Indifferent())
    choice = decode(problem, decoder, beam_width=1)
    assert (choice.columns.tolist(), choice.objective) == ([2, 1, 0], 7.0)


def test_pictures_that_no_other_step_can_show_never_stand_in_each_others_way():
    """Lists of their own, but for one group that two steps share and neither wants."""
    rng = np.random.default_rng(4)
    items, table = np.arange(240).reshape(12, 20), 3 * rng.normal(size=(240, 240))
    unary, groups = rng.normal(size=(12, 20)), np.arange(240)
    unary[:2, 0], groups[20] = -90.0, 0
    problem = lattice(unary, groups, TablePairwise(table + table.T), items=items)
    free = lattice(unary, groups, TablePairwise(table + table.T), items=items, allow_repeats=True)
    best = decode(free, "chain").objective
    assert decode(problem, "beam").objective < best - 0.1, "else the search has nothing to find"
    assert decode(problem, "chain").objective == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize("decoder", ["anchor", "chain"])
def test_a_long_story_is_decoded_without_a_repeat(decoder):
    problem = lattice(**crowded(100, total=300, width=40))
    found = decode(problem, decoder)
    assert found.bound >= found.objective
    shown = problem.group[np.arange(100), found.columns][found.columns != BLANK]
    assert len(set(shown)) == len(shown)


@pytest.mark.parametrize(("seed", "steps", "width"), [(0, 4, 4), (5, 4, 5)])
def test_both_sides_of_a_branching_are_searched(seed, steps, width):
    """Boards on which the best choice lies where the step branched on may not use the group."""
    rng = np.random.default_rng(seed)
    unary = rng.integers(-3, 4, size=(steps, width)).astype(float)
    table = rng.integers(-9, 10, size=(width, width)).astype(float)
    arguments = {
        "unary": unary,
        "pair": TablePairwise(table + table.T),
        "groups": rng.integers(0, width, size=width),
        "blank": np.full(steps, -2.0),
    }
    assert decode(lattice(**arguments), "chain").objective == PlainBoard(**arguments).best("chain")


def test_greedy_keeps_one_beginning_and_a_beam_more():
    table = np.array([[0.0, -9, -9], [-9, 0, 2], [-9, 2, 0]])
    problem = lattice(np.array([[1.0, 0.9, 0], [0, 0, 0]]), np.arange(3), TablePairwise(table))
    assert decode(problem, "greedy").columns.tolist() == [0, 1]
    assert decode(problem, "beam").columns.tolist() == [1, 2]


def test_of_many_equal_candidates_the_first_are_taken():
    problem = lattice(np.tile(np.arange(300) % 2.0, (2, 1)), np.arange(300), Indifferent())
    assert decode_beam(problem, width=5).columns.tolist() == [1, 3]
    assert leading(problem, 3).tolist() == [1, 3, 5]


def test_prices_of_blanks_may_be_integers():
    problem = lattice(
        np.zeros((2, 2)), np.arange(2), Indifferent(), blank=np.array([1, 2]), locks={0: 1}, held=[]
    )
    assert problem.blank.tolist() == [-np.inf, 2.0]
    assert decode(problem, "off").columns.tolist() == [1, BLANK]


def test_a_pinned_picture_is_no_latent_one_of_its_step():
    problem = lattice(np.zeros((2, 3)), np.arange(3), Indifferent(), locks={0: 1})
    assert (problem.pinned.tolist(), problem.anchors.tolist()) == ([1], [0, 2])
    with pytest.raises(DataError, match=r"^step 2: .*; ban less, allow repeats or allow blanks$"):
        lattice(np.zeros((2, 1)), np.arange(1), Indifferent(), locks={0: 0})


def test_prices_follow_a_chain_of_moves_and_none_is_asked_where_nothing_can_be_shown():
    """One more of group 1: the third step gains 3. One more of group 0: the second makes room for it."""
    unary = np.array([[5.0, -np.inf], [4, 4], [-np.inf, 3]])
    group, blank = np.tile([0, 1], (3, 1)), np.zeros(3)
    columns, value = assign(unary, group, blank)
    assert (columns.tolist(), value) == ([0, 1, BLANK], 9.0)
    assert prices(unary, group, blank, columns).tolist() == [3.0, 3.0]
    assert (
        prices(np.zeros((2, 0)), np.zeros((2, 0), dtype=int), np.zeros(2), np.full(2, BLANK)).tolist() == []
    )


@pytest.mark.parametrize(("decoder", "total", "limit"), [(decode_chain, 12, 650), (decode_anchor, 60, 6)])
def test_prices_on_what_many_steps_want_keep_the_proof_short(decoder, total, limit):
    """Within a count of programmes or assignments, not of seconds; with prices that go astray it is not."""
    rng = np.random.default_rng(int(total == 60))
    unary = np.tile(rng.normal(size=total), (8, 1)) + 0.5 * rng.normal(size=(8, total))
    table = rng.normal(size=(total, total)) / 2
    assert decoder(lattice(unary, np.arange(total), TablePairwise(table + table.T)), limit=limit).exact


def test_scores_may_be_integers_and_numbers_of_pictures_stay_integers():
    problem = lattice(np.array([[3, 1], [2, 0]]), np.arange(2), Indifferent())
    assert (problem.pinned.dtype, problem.items.dtype) == (np.int64, np.int64)
    choice = decode(problem, "chain")
    assert (choice.columns.tolist(), choice.objective) == ([0, 1], 3.0)
