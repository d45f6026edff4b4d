"""How many test rows of each set of stories share a source with training.

Makes: docs/results/limner.md (test rows of a source that training has as well)

Prints both splits, by story and by source. A source is an organisation or a site; of a picture book, every
person of its credit.

    python benchmarks/source_sharing.py
"""

from harness import arguments, data_folder

from limner.errors import DataError
from limner.research.datasets import split_source
from limner.research.datasets.pairs import SourceConfig
from limner.research.datasets.splits import sources_of

SETS = ("howto", "recipes", "storybook", "headers")


def shared(folder, by_source):
    """Numbers of test rows, stories, sources, rows that share a source with training, and rows left out."""
    config = SourceConfig(set="stories", annotations=str(folder), split="grouped", by_source=by_source)
    data = split_source(config)
    known = {source for pair in data.split("train") for source in sources_of(pair)}
    test = data.split("test")
    sources = [sources_of(pair) for pair in test]
    left = sum("two splits" in one.reason or "another split" in one.reason for one in data.missing)
    stories = len({pair.seq for pair in test})
    return (
        len(test),
        stories,
        len(frozenset().union(*sources)),
        sum(bool(own & known) for own in sources),
        left,
    )


def main():
    arguments(__doc__).parse_args()
    print("| set | split | test rows | stories | sources | rows of a training source | rows left out |")
    print("|---|---|---|---|---|---|---|")
    for name in SETS:
        for by_source in (False, True):
            split = "by source" if by_source else "by story"
            try:
                cells = " | ".join(f"{count:,}" for count in shared(data_folder() / name, by_source))
            except DataError as error:
                cells = str(error)
            print(f"| {name} | {split} | {cells} |")


if __name__ == "__main__":
    main()
