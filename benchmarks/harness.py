"""What benchmarks share: arguments, data, ways in turn, medians, memory, the load, processes of their own.

Other work on a machine falls on all ways alike where they take turns, only ever slows one down (hence the
least), and counts little in the processor's time. Nothing heavy is imported: `startup.py` measures memory
beside it.
"""

import argparse
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_TICKS = os.sysconf("SC_CLK_TCK")


def arguments(about: str | None) -> argparse.ArgumentParser:
    """A parser of a benchmark's arguments, whose help begins with its docstring."""
    return argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)


def data_folder() -> Path:
    """The folder of data sets: $LIMNER_DATA/data, by default beside the repository."""
    place = Path(os.environ.get("LIMNER_DATA", Path(__file__).parents[2] / "shared")) / "data"
    if not place.is_dir():
        raise SystemExit(f"no data sets at {place}; set LIMNER_DATA to the folder that holds data/")
    return place


@dataclass(frozen=True)
class Time:
    """Seconds of one call, by the clock and of the processor, and what it returned."""

    clock_s: float
    processor_s: float
    result: Any = None


@dataclass(frozen=True)
class Times:
    """Seconds of some rounds of one way."""

    clock_s: tuple[float, ...]
    processor_s: tuple[float, ...]

    @classmethod
    def of(cls, times: Sequence[Time]) -> "Times":
        """Those of calls."""
        return cls(tuple(one.clock_s for one in times), tuple(one.processor_s for one in times))

    @property
    def median_s(self) -> float:
        """By the clock."""
        return statistics.median(self.clock_s)

    @property
    def processor_median_s(self) -> float:
        """Of the processor."""
        return statistics.median(self.processor_s)

    @property
    def least_s(self) -> float:
        """By the clock."""
        return min(self.clock_s)


def timed(call: Callable[[], Any]) -> Time:
    """One call."""
    clock, processor = time.perf_counter(), time.process_time()
    result = call()
    return Time(time.perf_counter() - clock, time.process_time() - processor, result)


def in_turn(
    ways: Mapping[str, Callable[[int], object]], rounds: int, *, unmeasured: int = 1
) -> dict[str, Times]:
    """Name → times of each way, which take turns and are given the number of the round."""
    found: dict[str, list[Time]] = {name: [] for name in ways}
    for number in range(unmeasured + rounds):
        for name, way in ways.items():
            taken = timed(lambda way=way, number=number: way(number))  # type: ignore[misc]
            if number >= unmeasured:
                found[name].append(taken)
    return {name: Times.of(times) for name, times in found.items()}


def percentile_ms(seconds: Sequence[float], share: float) -> float:
    """Milliseconds that this share of the calls took at most, by nearest rank."""
    return 1000 * sorted(seconds)[max(0, math.ceil(share * len(seconds)) - 1)]


def peak_mb() -> float:
    """Largest memory of this process so far, pages of mapped files included, MB of 2²⁰ bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def memory_mb(field: str, process: int | str = "self") -> float:
    """VmRSS, VmHWM (its peak), RssAnon (mapped from no file) or RssFile of a process, MB of 2²⁰ bytes."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{field}:")), 0.0)


def processor_s(process: int) -> float:
    """Processor seconds of a running process so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def load() -> str:
    """How busy the machine is."""
    return f"load {os.getloadavg()[0]:.1f} on {len(os.sched_getaffinity(0))} cores"


def alone(script: str | Path, *words: object) -> Any:
    """Run part of a benchmark in a process of its own, with its own memory: the JSON that it prints last."""
    command = [sys.executable, str(script), *map(str, words)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"failed: {' '.join(command)}")
    return json.loads(done.stdout.splitlines()[-1])
