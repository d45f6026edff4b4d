"""How long limner takes to start, against an empty interpreter and against importing torch.

Makes: docs/results/speed.md (cold starts)

    python benchmarks/startup.py --pictures 5000 --to /tmp/startup

Prints the median of several fresh processes, as a ratio to the empty interpreter too, the time of the
processor, which says more where other work is going on, its ratio to that of importing torch if that is
installed, and the peak of memory.
The library is what `limner index` makes of small drawn pictures with captions; it is used again. `search`,
`illustrate` and an `index` that finds nothing new run over it.
"""

import os
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

from harness import Time, Times, arguments, load

RUNS = 7
# Installed packages have their bytecode beside them; an environment may forbid that for a working tree.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def run(command: list[str]) -> Time:
    """Seconds of one fresh process, and its peak of memory, MB."""
    start = time.perf_counter()
    with Path(os.devnull).open("wb") as nothing:
        files = [(os.POSIX_SPAWN_DUP2, nothing.fileno(), out) for out in (1, 2)]
        child = os.posix_spawn(command[0], command, ENVIRONMENT, file_actions=files)
        _, status, usage = os.wait4(child, 0)
    if status:
        raise SystemExit(f"failed: {' '.join(command)}")
    taken = time.perf_counter() - start
    peak = usage.ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)
    return Time(taken, usage.ru_utime + usage.ru_stime, peak)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--pictures", type=int, default=5_000)
    parser.add_argument("--to", type=Path, default=Path("startup"))
    parser.add_argument("--make", action="store_true", help="draw the pictures and end")
    options = parser.parse_args()
    album, home = (options.to / f"{kind}-{options.pictures}" for kind in ("pictures", "library"))
    text = options.to / "text.md"
    if options.make:
        from made_up import draw, text_of

        draw(album, options.pictures, captioned=True)
        text.write_text(text_of(0))
        return
    python, limner, library = [sys.executable], [sys.executable, "-m", "limner"], ["--library", str(home)]
    # By other processes: the memory of this one counts for those that it starts. What is there already stays.
    subprocess.run([sys.executable, *sys.argv, "--make"], check=True)
    subprocess.run([*limner, "index", str(album), *library, "--encoder", "base"], check=True)
    commands = {
        "python -c pass": [*python, "-c", "pass"],
        "import limner": [*python, "-c", "import limner"],
        "limner --help": [*limner, "--help"],
        "limner search": [*limner, "search", "a boat on the sea", *library],
        "limner illustrate, 10 steps": [
            *(*limner, "illustrate", str(text), *library, "-o", str(options.to / "out.html"), "--overwrite")
        ],
        "limner index, nothing new": [*limner, "index", str(album), *library],
    }
    if find_spec("torch"):
        commands = {"import torch (for comparison)": [*python, "-c", "import torch"], **commands}
    runs: dict[str, list[Time]] = {name: [] for name in commands}
    for number in range(RUNS + 1):
        for name, command in commands.items():  # in turn, since other work comes and goes
            taken = run(command)
            runs[name] += [taken] if number else []
    medians = {name: Times.of(some) for name, some in runs.items()}
    base, torch = (medians.get(name) for name in ("python -c pass", "import torch (for comparison)"))
    for name, times in medians.items():
        beside = f", {times.processor_median_s / torch.processor_median_s:.2f} × torch" if torch else ""
        peak = max(one.result for one in runs[name])
        print(
            f"{name:30s} {times.median_s * 1000:6.0f} ms (least {times.least_s * 1000:.0f}),"
            f" {times.median_s / base.median_s:.1f} × the empty interpreter; processor"
            f" {times.processor_median_s * 1000:.0f} ms{beside}; {peak:.0f} MB"
        )
    print(load())


if __name__ == "__main__":
    main()
