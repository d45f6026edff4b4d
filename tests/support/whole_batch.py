"""Trains one system after the other on made-up pairs, in one process or under torchrun, with no dropout.

``python -m whole_batch FOLDER [NAME …]``: a run per name below FOLDER.
"""

import sys
from pathlib import Path

import numpy as np
import torch
from corpora import Words, made

from limner.config import build
from limner.research.datasets.pairs import PairSet
from limner.research.runs.fit import prepare
from limner.research.runs.train import maximise, validation
from limner.research.scenes.graphs import SceneGraph, write_graphs
from limner.research.systems.base import system
from limner.research.training import processes
from limner.research.training.corpus import ArrayRows, corpus_of
from limner.research.training.loop import Loop

PVSE = {
    "model": {"heads": 2, "dim": 24, "word_width": 16, "image_hidden": 12, "text_hidden": 12},
    "weights": {"lam": 16},
    "graph": {"size": 6, "width": 8, "min_count": 1, "epochs": 2},
    "loop": {"metric": "hinge"},
}
CMCM = {"model": {"dim": 16, "word_width": 12, "hidden": 8, "relations": "product"}}
GSDA = {
    "keys": "sentences",
    "label_vectors": "",
    "model": {"word_width": 16, "hidden": 12, "attention": 8, "dim": 24},
    "graph_model": {"dim": 8, "width": 8},
    "captioner": {"local": 8, "hidden": 8, "joined": 12, "seen": 8, "state": 10, "word_width": 6}
    | {"dropout": 0.0, "word_dropout": 0.0},
    "caption_min_count": 1,
    "mixed_epochs": 0,
    "graph": "literal_argmax",  # "soft" contrasts with stories that are drawn
}
NARROW = {"dim": 24, "dropout": 0.0}
# name → system, whether its batches are of stories, settings
RUNS = {
    "cmcm batch_hard": ("cmcm", False, CMCM | {"loss": {"indifference_weight": 0.1}}),
    "cmcm max_hinge": ("cmcm", False, CMCM | {"loss": {"ranking": "max_hinge", "relation_form": "paper"}}),
    "vse0": ("vse", False, {"model": {"dim": 24, "word_width": 16}}),
    "dual": ("dual", True, {"model": NARROW | {"hidden": 8, "context": "recurrent"}}),
    "document": ("document", True, {"model": NARROW, "loop": {"metric": "mAP"}}),
    "vrss": (
        "vrss",
        True,
        {"model": {"word_width": 16, "hidden": 12, "mlp": 24, "dropout": 0.0, "latents": False}},
    ),
    "cnsi": (
        "cnsi",
        True,
        {"model": {"word_width": 16, "dim": 32, "hidden": 16, "dropout": 0.0}}
        | {"sentence_epochs": 1, "sentence_batch": 15},
    ),
    "gsda": ("gsda", True, GSDA),
    "pvse": ("complementary", False, PVSE | {"diversity_weight": 0.1, "domain_weight": 0.1}),
    "thomas": ("complementary", False, PVSE | {"method": "thomas"}),
    "amrani": ("complementary", False, PVSE | {"method": "amrani", "baselines": {"nearest": 7}}),
    "hal": (
        "complementary",
        False,
        PVSE | {"method": "hal", "baselines": {"hal_bank": True, "nearest": 7}},
    ),
    "combined-stats": ("complementary", False, PVSE | {"method": "combined-stats"}),
    "diversity max": (
        "complementary",
        False,
        PVSE | {"method": "diversity", "weights": {"lam": 16, "kmode": "max", "start": "warm"}},
    ),
}


def corpus_for(name, folder):
    """Forty pairs per split, in stories of one to five steps where the system reads such."""
    own, stories, _ = RUNS[name]
    data, pictures = made(n=40)
    pairs = list(data.pairs)
    if stories:
        pairs, story, place = [], 0, 0
        for pair in data.pairs:
            if place >= 1 + story % 5:
                story, place = story + 1, 0
            pairs.append(pair.model_copy(update={"seq": f"{pair.split}{story}", "pos": place}))
            place += 1
    ids = list(dict.fromkeys(pair.image_id for pair in data.pairs))
    values = pictures.take(pictures.places(ids))
    if own == "complementary":  # grids of four places
        values = np.repeat(values[:, None], 4, axis=1)
    if own == "gsda":
        objects = [{"label": "fox", "box": [0.1, 0.1, 0.9, 0.9], "score": 1.0}]
        shown = [
            SceneGraph.model_validate({"image": one, "objects": objects * (number % 3), "relations": []})
            for number, one in enumerate(ids)
        ]
        if processes.rank() == 0 and not (folder / "graphs.jsonl").exists():
            write_graphs(folder / "graphs.jsonl", shown)
        processes.barrier()
    relations = data.relations if own == "cmcm" else ()
    return corpus_of(PairSet("made", relations, tuple(pairs)), ArrayRows(ids, values))


def settings_of(name, folder):
    """Batches of fifteen pairs or five stories, which two processes cannot halve."""
    own, stories, more = RUNS[name]
    data = {"set": "pairs", "batch": 5 if stories else 15, "features": str(folder / "features")}
    if own in ("cmcm", "vse", "vrss", "cnsi", "gsda", "complementary"):
        data |= {"vectors": "random", "max_length": 8}
    if own == "gsda":
        more = more | {"graphs": str(folder / "graphs.jsonl")}
    loop = {"epochs": 2, "lr": 3e-3, "metric": "MRR"} | more.get("loop", {})
    frozen = {"backbone": "frozen"}
    return build(system(own).settings, {"system": own, "data": data} | frozen | more | {"loop": loop}, name)


def train(name, folder):
    """One run; its vectors of the validation pairs and of what crew it was measured by are beside it."""
    rows, settings = corpus_for(name, folder), settings_of(name, folder)
    own = system(settings.system)
    can = own.capabilities(settings)
    prepared = prepare(
        own, settings, rows, sentences=Words() if "sentences" in can.encoders else None, multilingual=None
    )
    Loop(
        prepared.task,
        settings.loop,
        folder / name,
        validate=validation(rows, can, settings.loop.metric),
        maximise=maximise(settings.loop.metric),
        saved_with=prepared.saved_with,
    ).fit()


def main(folder, *names):
    torch.set_num_threads(1)
    processes.join("cpu")
    folder.mkdir(parents=True, exist_ok=True)
    for name in names or RUNS:
        train(name, folder)
    processes.leave()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
