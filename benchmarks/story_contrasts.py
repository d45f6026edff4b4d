"""Two rows of measured stories compared step by step: the mean difference, with its interval by story.

Ranks are those of each step's own picture, every step by itself; a step's figure is the mean over the seeds
of a row. The last line is the ratio of the geometric means of the ranks: below 1, the first row ranks higher.

    python benchmarks/story_contrasts.py --runs runs/howto --rows "dual, context mean" "dual, context none"
"""

import argparse
from pathlib import Path

import numpy as np

from limner.research.evaluation.results import SequenceResult
from limner.research.evaluation.uncertainty import difference

MEASURES = {
    "R@1": lambda ranks: 100.0 * (ranks <= 1),
    "R@10": lambda ranks: 100.0 * (ranks <= 10),
    "MRR": lambda ranks: 1 / ranks,
    "ratio of ranks": np.log,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--runs", type=Path, required=True, help="folder of measured runs of one set and split"
    )
    parser.add_argument("--rows", nargs=2, required=True, help="names of two rows of the table")
    parser.add_argument("--set", default="", help="of a mixture that the runs were trained on")
    options = parser.parse_args()
    results = [
        one
        for one in SequenceResult.read_all(options.runs)
        if one.about.part == "test" and options.set in {"", one.about.data}
    ]
    ranks, stories = [], None
    for row in options.rows:
        own = [one for one in results if one.about.system == row]
        if not own:
            parser.error(f"no run of {row!r}; there are {sorted({one.about.system for one in results})}")
        stories = own[0].stories if stories is None else stories
        if any(one.stories != stories for one in own):
            parser.error("the runs were measured on different steps")
        ranks.append(np.array([one.found["steps"].own for one in own], dtype=np.float64))
    for name, measure in MEASURES.items():
        first, second = (measure(own).mean(axis=0) for own in ranks)
        gap = difference(first, second, stories)
        values = np.array([gap.value, gap.low, gap.high])
        shown = np.exp(values) if name == "ratio of ranks" else values
        print(f"{name:15s} {shown[0]:+.3f} [{shown[1]:+.3f}, {shown[2]:+.3f}]")


if __name__ == "__main__":
    main()
