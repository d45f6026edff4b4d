"""Scene graphs of a drawn world as a detector sees it: GSDA trains on them beside the true and shuffled ones.

Makes: docs/results/scene-graphs.md (graphs that a detector finds in drawn worlds)

The drawings are written as pictures and go through `limner scenes`, like anybody's folder; graphs are then
named by the pictures' ids, as `--set graphs=FILE` of a drawn world expects them.

    python benchmarks/picturebook_detections.py --detector picodet_s_416_coco.onnx --to scenes
    limner train configs/gsda/gsda.toml --data picturebook --set preset=laptop --to runs/found-0
        --set graphs=scenes/graphs.jsonl
"""

from collections import Counter
from pathlib import Path

from harness import arguments

from limner.cli.main import run
from limner.research.scenes.graphs import read_graphs, write_graphs
from limner.research.training.settings import DataConfig
from limner.research.worlds import PictureBook


def main():
    data = DataConfig(set="picturebook")
    parser = arguments(__doc__)
    parser.add_argument("--detector", required=True)
    parser.add_argument("--to", type=Path, required=True)
    parser.add_argument("--stories", type=int, default=data.stories)
    parser.add_argument("--world-seed", type=int, default=data.world_seed)
    parser.add_argument("--side", type=int, default=416, help="pixels of a drawing")
    options = parser.parse_args()
    pictures = options.to / "pictures"
    for story in PictureBook(options.world_seed).stories(options.stories):
        for number in range(len(story.pages)):
            file = pictures / f"{story.image_id(number)}.png"
            file.parent.mkdir(parents=True, exist_ok=True)
            if not file.exists():
                story.picture(number, options.side).save(file)
    found = options.to / "found"
    words = ["scenes", str(pictures), "--detector", options.detector, "--to", str(found), "--ids", "path"]
    if run(words) != 0:
        raise SystemExit(1)
    seen = read_graphs(found / "graphs.jsonl").values()
    named = [graph.model_copy(update={"image": graph.image.removesuffix(".png")}) for graph in seen]
    write_graphs(options.to / "graphs.jsonl", named)
    labels = Counter(one.label for graph in named for one in graph.objects)
    empty = sum(graph.empty for graph in named)
    print(f"{options.to / 'graphs.jsonl'}: {empty} empty graphs; seen most: {labels.most_common(8)}")


if __name__ == "__main__":
    main()
