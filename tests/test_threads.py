"""Results in order, few in flight, errors where they belong."""

import threading

import pytest
import torch

from limner.threads import ahead, one_core_each


@pytest.mark.parametrize("in_flight", [1, 3, 100])
def test_results_come_in_order_and_few_are_begun(in_flight):
    taken, begun = 0, []

    def items():
        for number in range(20):
            begun.append(number)
            assert len(begun) - taken <= in_flight
            yield number

    for result in ahead(items(), lambda n: n * n, workers=3, in_flight=in_flight):
        assert result == taken**2
        taken += 1
    assert taken == 20


def test_an_error_comes_where_its_result_would():
    met = []
    with pytest.raises(ZeroDivisionError):
        met.extend(ahead([1, 2, 0, 4], lambda n: 4 // n, workers=2, in_flight=4))
    results = ahead([1, 2, 0, 4], lambda n: 4 // n, workers=2, in_flight=4)
    assert [next(results), next(results)] == [4, 2]
    with pytest.raises(ZeroDivisionError):
        next(results)


def test_closing_early_cancels_what_has_not_begun():
    run, go = [], threading.Event()

    def work(number):
        if number:
            go.wait()
        run.append(number)

    results = ahead(range(100), work, workers=1, in_flight=50)
    threading.Timer(0.1, go.set).start()
    next(results)
    results.close()
    assert len(run) < 50


def test_torch_computes_on_one_core_within_and_as_before_after():
    before = torch.get_num_threads()
    assert set(one_core_each(range(5), lambda _: torch.get_num_threads(), workers=2)) == {1}
    assert torch.get_num_threads() == before
    results = one_core_each(range(5), lambda n: n, workers=2)
    assert next(results) == 0
    results.close()
    assert torch.get_num_threads() == before
