"""Break the core in small ways, one at a time, and count how many of the breaks a test notices.

Makes: docs/promises.md (what a single fault in the core would show)

    python benchmarks/mutants.py [--mutants 300] [--seed 0]

Which files are broken and which tests judge them stands in pyproject.toml under ``tool.mutmut``; mutmut must
be installed beside limner. What lived is listed, and so is what ran into mutmut's time limit, which does not
count as noticed: a slow machine can cause it. `mutmut show NAME` shows a fault. See docs/promises.md.
"""

import argparse
import random
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

from mutmut.mutation.file_mutation import mutate_file_contents
from mutmut.utils.format_utils import get_mutant_name

MUTMUT = str(Path(sys.executable).with_name("mutmut"))


def mutants() -> list[str]:
    """Names of all mutants of the files to mutate."""
    settings = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["tool"]["mutmut"]
    return [
        get_mutant_name(Path(file), name)
        for file in settings["only_mutate"]
        for name in mutate_file_contents(file, Path(file).read_text(encoding="utf-8")).mutant_names
    ]


def main() -> int:
    """Run a sample; 1 where fewer than nine of ten were noticed."""
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--mutants", type=int, default=300, help="how many to draw")
    words.add_argument("--seed", type=int, default=0, help="of the draw")
    asked = words.parse_args()
    every = mutants()
    drawn = random.Random(asked.seed).sample(every, min(asked.mutants, len(every)))  # noqa: S311
    subprocess.run([MUTMUT, "run", "--max-children", "1", *drawn], check=True)
    told = subprocess.run([MUTMUT, "results", "--all", "true"], capture_output=True, text=True, check=True)
    found = dict(line.split(": ", 1) for line in map(str.strip, told.stdout.splitlines()) if ": " in line)
    noticed = Counter(found[name] for name in drawn)
    share = noticed["killed"] / len(drawn)
    print(*sorted(f"{found[name]}: {name}" for name in drawn if found[name] != "killed"), sep="\n")
    print(f"{noticed['killed']} of {len(drawn)} drawn from {len(every)} were noticed: {share:.1%};", end=" ")
    print(f"{noticed['timeout']} more ran into the time limit")
    return int(share < 0.9)


if __name__ == "__main__":
    sys.exit(main())
