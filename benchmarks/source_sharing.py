"""How many test rows of each set of stories are of a source, or an illustrator, that training has as well.

Makes: docs/results/limner.md (test rows of a source that training has as well)

Prints both splits, by story and by source. Picture books name no source but their illustrator; --to writes a
copy of them whose sources are the illustrators, for data.by_source.

    python benchmarks/source_sharing.py --to storybook-illustrators
"""

import argparse
import json
from pathlib import Path

from embeddings import data_folder

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
    """What each part has, and its rows whose source the training part has as well."""
    config = SourceConfig(set="stories", annotations=str(folder), split="grouped", by_source=by_source)
    pairs = split_source(config).pairs
    known = {pair.meta["source"] for pair in pairs if pair.split == "train"}
    found = {}
    for part in ("train", "val", "test"):
        rows = [pair for pair in pairs if pair.split == part]
        found[part] = {
            "rows": len(rows),
            "stories": len({pair.seq for pair in rows}),
            "pictures": len({pair.image_id for pair in rows}),
            "sources": len({pair.meta["source"] for pair in rows}),
            "rows of a training source": sum(pair.meta["source"] in known for pair in rows),
        }
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", type=Path, required=True, help="folder of the copy of picture books")
    options = parser.parse_args()
    by_illustrator(data_folder() / BOOKS, options.to)
    folders = {name: data_folder() / name for name in SETS} | {f"{BOOKS}, illustrators": options.to}
    print("| set | split | part | rows | stories | pictures | sources | rows of a training source |")
    print("|---|---|---|---|---|---|---|---|")
    for name, folder in folders.items():
        for by_source in (False, True):
            if name == "headers" and by_source:
                continue  # two sources are too few for three parts
            split = "by source" if by_source else "by story"
            for part, cells in shared(folder, by_source).items():
                print(f"| {name} | {split} | {part} | {' | '.join(f'{n:,}' for n in cells.values())} |")


if __name__ == "__main__":
    main()
