"""How many test rows of each set of stories are of a source, or an illustrator, that training has as well.

Makes: docs/results/limner.md (test rows of a source that training has as well)

Prints both splits, by story and by source. Picture books name no source but their illustrator; --to writes a
copy of them whose sources are the illustrators, for data.by_source.

    python benchmarks/source_sharing.py --to storybook-illustrators
"""

import json
from pathlib import Path

from harness import arguments, data_folder

from limner.research.datasets import split_source
from limner.research.datasets.pairs import SourceConfig

SETS = ("howto", "recipes", "headers")
BOOKS = "storybook"


def by_illustrator(folder, to):
    """Write a copy of stories whose source is their illustrator; pictures are linked."""
    rows = [json.loads(line) for line in (folder / "stories.jsonl").read_text(encoding="utf-8").splitlines()]
    to.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(row | {"source": row["illustrator"]}, ensure_ascii=False) for row in rows]
    (to / "stories.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    if not (to / "images").exists():
        (to / "images").symlink_to((folder / "images").resolve())


def shared(folder, by_source):
    """Rows of the test part, their sources, and rows whose source the training part has as well."""
    config = SourceConfig(set="stories", annotations=str(folder), split="grouped", by_source=by_source)
    pairs = split_source(config).pairs
    known = {pair.meta["source"] for pair in pairs if pair.split == "train"}
    sources = [pair.meta["source"] for pair in pairs if pair.split == "test"]
    return len(sources), len(set(sources)), sum(one in known for one in sources)


def main():
    parser = arguments(__doc__)
    parser.add_argument("--to", type=Path, required=True, help="folder of the copy of picture books")
    options = parser.parse_args()
    by_illustrator(data_folder() / BOOKS, options.to)
    folders = {name: data_folder() / name for name in SETS} | {f"{BOOKS}, illustrators": options.to}
    print("| set | split | test rows | sources | rows of a training source |\n|---|---|---|---|---|")
    for name, folder in folders.items():
        for by_source in (False, True) if name != "headers" else (False,):  # two sources make no three parts
            cells = shared(folder, by_source)
            split = "by source" if by_source else "by story"
            print(f"| {name} | {split} | {' | '.join(f'{count:,}' for count in cells)} |")


if __name__ == "__main__":
    main()
