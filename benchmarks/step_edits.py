"""How quick an edit of one step is in a short and a long Markdown text, against reading the text again.

Makes: docs/studio.md (edits of one step)

    python benchmarks/step_edits.py

Prints medians of processor time in milliseconds of each edit, and of reading, for 12 and for 300 steps.
"""

from collections.abc import Callable
from functools import partial

from harness import arguments, in_turn, load

import limner
from limner.text import edit


def recipe(steps: int) -> str:
    """A recipe as source, each step of two lines with marks and a link."""
    lines = (
        f"{number}. Whisk **egg** number {number} in a bowl with [milk](https://example.org/{number}).\n"
        f"   Then let it rest for {number} minutes.\n"
        for number in range(1, steps + 1)
    )
    return f"# Cake\n\n## Ingredients\n\n- {steps} eggs\n- milk\n\n## Method\n\n{''.join(lines)}\nEnjoy!\n"


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--runs", type=int, default=20)
    asked = parser.parse_args()
    for steps in (12, 300):
        text = recipe(steps)
        story = limner.read(text, format="markdown")
        words = story.steps[5].text
        acts: dict[str, Callable[[], object]] = {
            "reword": partial(edit.reword, story, 5, words.replace("bowl", "jug")),
            "split": partial(edit.split, story, 5, words.index(" Then")),
            "merge": partial(edit.merge, story, 5),
            "insert": partial(edit.insert, story, 5, "Add a pinch of salt."),
            "remove": partial(edit.remove, story, 5),
            "move": partial(edit.move, story, 5, 9),
            "(reading)": partial(limner.read, text, format="markdown"),
        }
        ways = {name: lambda _, act=act: act() for name, act in acts.items()}
        for name, times in in_turn(ways, asked.runs).items():
            print(f"{steps:4d} steps  {name:10s} {1000 * times.processor_median_s:7.1f} ms")
    print(load())


if __name__ == "__main__":
    main()
