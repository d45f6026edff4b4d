"""Results in order, few in flight, errors where they belong."""

import ctypes
import os
import subprocess
import sys
import threading

import pytest
import torch
from threadpoolctl import threadpool_info, threadpool_limits

from limner.devices import ahead, one_core_each, one_core_products


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


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_info"), reason="needs the GNU C library")
@pytest.mark.parametrize(("said", "most"), [("share_memory()", 2), ("pass", 16)])
def test_threads_share_places_of_memory(said, most, tmp_path):
    program = f"""
import ctypes, threading
from limner.devices import share_memory
{said}
c = ctypes.CDLL(None)
c.malloc.restype = c.fopen.restype = ctypes.c_void_p
barrier = threading.Barrier(8)
def take():
    barrier.wait()
    c.malloc(ctypes.c_size_t(100))
    barrier.wait()
threads = [threading.Thread(target=take) for _ in range(8)]
[one.start() for one in threads]; [one.join() for one in threads]
file = ctypes.c_void_p(c.fopen({str(tmp_path / "heaps").encode()!r}, b"w"))
c.malloc_info(0, file); c.fclose(file)
"""
    environment = {name: value for name, value in os.environ.items() if name != "MALLOC_ARENA_MAX"}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment)
    heaps = (tmp_path / "heaps").read_text().count("<heap ")
    assert 1 <= heaps <= most
    assert said != "pass" or heaps > 2


def cores_of_products():
    return {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"}


def test_products_are_of_one_core_until_the_last_has_left():
    before = cores_of_products()
    with threadpool_limits(2, "blas"):
        two = cores_of_products()
        first, second = one_core_products(), one_core_products()
        first.__enter__()
        second.__enter__()
        assert cores_of_products() == {1}
        first.__exit__(None, None, None)
        assert cores_of_products() == {1}
        second.__exit__(None, None, None)
        assert cores_of_products() == two
    assert cores_of_products() == before
