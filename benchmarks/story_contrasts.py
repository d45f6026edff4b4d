"""Two rows of measured stories compared step by step: the mean difference, with its interval by story.

Makes: docs/results/limner.md, docs/results/limner-appendix.md, docs/results/stories.md, docs/results/scene-
  graphs.md (pairs of rows)

Ranks are those of each step's own picture, every step by itself; a step's figure is the mean over the seeds
of a row. The last line is the ratio of the geometric means of the ranks: below 1, the first row ranks higher.
Each row's own figures come first, with intervals by story too, also where all stories are of one source.
Stories of one picture each have no steps to measure; their ranks are those of the whole gallery.

    python benchmarks/story_contrasts.py --runs runs/howto --rows "dual, context mean" "dual, context none"
"""

from pathlib import Path

import numpy as np
from harness import arguments

from limner.errors import counted
from limner.research.evaluation.results import Result, SequenceResult
from limner.research.evaluation.uncertainty import difference, interval

MEASURES = {
    "R@1": lambda ranks: 100.0 * (ranks <= 1),
    "R@10": lambda ranks: 100.0 * (ranks <= 10),
    "MRR": lambda ranks: 1 / ranks,
    "ratio of ranks": np.log,
}


def main():
    parser = arguments(__doc__)
    parser.add_argument(
        "--runs", type=Path, required=True, help="folder of measured runs of one set and split"
    )
    parser.add_argument("--rows", nargs="+", required=True, help="names of one or two rows of the table")
    parser.add_argument("--set", default="", help="of a mixture that the runs were trained on")
    options = parser.parse_args()
    if len(options.rows) > 2:
        parser.error(f"--rows: {len(options.rows)} rows, expected one or two")
    results = [
        (one.about, one.stories, one.found["steps"].own) for one in SequenceResult.read_all(options.runs)
    ] or [
        (one.about, tuple(one.ids[row] for row in one.full.queries), one.full.plain)
        for one in Result.read_all(options.runs)
        if one.full is not None
    ]
    results = [one for one in results if one[0].part == "test" and options.set in {"", one[0].data}]
    ranks, stories = [], None
    for row in options.rows:
        own = [one[1:] for one in results if one[0].system == row]
        if not own:
            parser.error(f"no run of {row!r}; there are {sorted({one[0].system for one in results})}")
        stories = own[0][0] if stories is None else stories
        if any(one[0] != stories for one in own):
            parser.error("the runs were measured on different steps")
        ranks.append(np.array([one[1] for one in own], dtype=np.float64))
        cells = []
        for name in ("R@1", "R@10", "MRR"):
            value = interval(MEASURES[name](ranks[-1]).mean(axis=0), stories)
            cells.append(f"{name} {value.value:.3f} [{value.low:.3f}, {value.high:.3f}]")
        print(f"{row}, {counted(len(own), 'seed')}, {len(set(stories))} stories: {', '.join(cells)}")
    for name, measure in MEASURES.items() if len(ranks) == 2 else ():
        first, second = (measure(own).mean(axis=0) for own in ranks)
        gap = difference(first, second, stories)
        values = np.array([gap.value, gap.low, gap.high])
        shown = np.exp(values) if name == "ratio of ranks" else values
        print(f"{name:15s} {shown[0]:+.3f} [{shown[1]:+.3f}, {shown[2]:+.3f}]")


if __name__ == "__main__":
    main()
