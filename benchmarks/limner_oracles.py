"""What limits a model of texts and pictures: how well texts find pictures that come with the right words.

Makes: docs/results/limner-appendix.md (what limits it)

    python benchmarks/limner_oracles.py

Nothing is trained. On captions a picture is known by the other captions that people wrote of it; in drawn
picture books, by all that it truly shows, as a perfect detector would name it. Both are compared with the
text by the frozen sentence encoder. Test parts, among all their pictures; 95 % bootstrap intervals by picture
or story. The third oracle, a story's own pictures given, is in `story_results.py`.
"""

import numpy as np
from base_results import shown
from embeddings import data_folder

from limner.arrays import FloatArray, unit_rows
from limner.encoders.catalogue import sentence_encoder
from limner.research.datasets.pairs import data_set
from limner.research.datasets.sets.captions import read_captions
from limner.research.evaluation.ranking import Metric, rank
from limner.research.evaluation.uncertainty import interval
from limner.research.scenes.graphs import SceneGraph
from limner.research.training.settings import DataConfig
from limner.research.worlds.book import world_graphs

METRICS = ("R@1", "R@10", "MRR")


def spoken(graph: SceneGraph) -> str:
    """All that a picture shows, as a sentence of its relations, and of the things that have none."""
    names = [thing.label for thing in graph.objects]
    told = [f"{names[one.s]} {one.p} {names[one.o]}" for one in graph.relations]
    related = {place for one in graph.relations for place in (one.s, one.o)}
    return ", ".join([*told, *(name for place, name in enumerate(names) if place not in related)])


def of_captions() -> tuple[FloatArray, list[list[int]], list[str]]:
    """Scores of all captions with all pictures, of each its own picture, and which picture that is."""
    pictures = [one for one in read_captions(data_folder() / "flickr8k") if one.split == "test"]
    owners = np.repeat(np.arange(len(pictures)), [len(one.captions) for one in pictures])
    vectors = sentence_encoder().encode_text([text for one in pictures for text in one.captions])
    sums = np.zeros((len(pictures), vectors.shape[1]), np.float32)
    np.add.at(sums, owners, vectors)
    scores = vectors @ unit_rows("captions", sums).T
    # of its own picture a caption sees the others alone
    others = unit_rows("captions", sums[owners] - vectors)
    scores[np.arange(len(owners)), owners] = np.einsum("nd,nd->n", vectors, others)
    return scores, owners[:, None].tolist(), [pictures[owner].name for owner in owners]


def of_worlds() -> tuple[FloatArray, list[list[int]], list[str]]:
    """The same of pages of drawn books and what their pictures show."""
    config = DataConfig(set="picturebook")
    draw = data_set("picturebook").draw
    assert draw is not None  # (it is drawn)
    pairs = draw(config.stories, config.world_seed, 32)[0].split("test")
    graphs = world_graphs(config.stories, config.world_seed)
    encoder = sentence_encoder()
    texts = encoder.encode_text([pair.text for pair in pairs])
    shown = encoder.encode_text([spoken(graphs[pair.image_id]) for pair in pairs])
    return texts @ shown.T, [[row] for row in range(len(pairs))], [pair.seq for pair in pairs]


def main() -> None:
    print(f"| | queries | {' | '.join(METRICS)} |\n|---|---|{'---|' * len(METRICS)}")
    for title, made in (
        ("captions: a picture's other captions", of_captions),
        ("drawn books: all that it shows", of_worlds),
    ):
        scores, right, groups = made()
        ranking = rank(scores, right)
        values = {name: interval(Metric.parse(name).values(ranking), groups) for name in METRICS}
        cells = [shown(one, *((1, 3) if name == "MRR" else ())) for name, one in values.items()]
        print(f"| {title} | {len(right):,} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
