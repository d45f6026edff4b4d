"""How long limner takes to start, against an empty interpreter and against importing torch.

    python benchmarks/startup.py

Prints the median of several fresh processes and each as a ratio to the empty interpreter.
"""

import statistics
import subprocess
import sys
import time

RUNS = 9
COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "import limner": [sys.executable, "-c", "import limner"],
    "limner --help": [sys.executable, "-m", "limner", "--help"],
    "import torch (for comparison)": [sys.executable, "-c", "import torch"],
}


def seconds(command: list[str]) -> float:
    """Median wall time of one fresh process, after one unmeasured run."""
    times = []
    for _ in range(RUNS + 1):
        start = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])


def main() -> None:
    base = None
    for name, command in COMMANDS.items():
        taken = seconds(command)
        base = base or taken
        print(f"{name:32s} {taken * 1000:7.0f} ms   {taken / base:6.1f} × empty interpreter")


if __name__ == "__main__":
    main()
