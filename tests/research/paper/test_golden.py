"""Renderings of all tables and the data of all figures of made-up results, as they were before.

``LIMNER_GOLDEN=write`` writes them anew; the difference then shows what a change does to every table.
"""

import json
import os
from functools import cache
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from made_up_choices import choice_result
from made_up_results import result
from made_up_sequences import sequence_result

from limner.research.evaluation.results import Captions, TextScores
from limner.research.paper import plots, published_figures
from limner.research.paper.published import build, tables_of
from limner.research.paper.table import render

GOLDEN = Path(__file__).parent / "golden"
QUICK = {"resamples": 300}


@cache
def coherence(seeds, data="clue", split="grouped"):
    """Systems of CMCM on one split, more than one of equal strength, two rows without a run."""
    found = []
    for seed in range(seeds):
        about = {"seed": seed, "data": data, "split": split}
        found += [
            result("Base", 1.0, relations=(), **about),
            result("CMCA", 2.0, relations=(), **about),
            result("CMCM", 2.0, refined=3.0, **about),
            result("CMCM_Story", 0.2, refined=0.0, relations=("Story",), **about),
            result("ours", 2.0, relations=(), **about),
        ]
    return [*found, result("text only: words", 0.5, data=data, split=split)]


def legacy():
    return [result("CMCM", 2.0, refined=1.0, protocol="legacy"), result("CMCA", 2.0, protocol="legacy")]


@cache
def choices(seeds):
    found = []
    for seed in range(seeds):
        found += [
            choice_result("PVSE", 0.5, seed=seed),
            choice_result("HAL", 0.5, seed=seed),
            choice_result("DIVERSITY", 3.0, seed=seed),
            choice_result("DISCREPANCY", 0.0, seed=seed),
            choice_result("DIVERSITY", 1.0, seed=seed, data="politics", count=140),
            choice_result("PVSE", 1.0, seed=seed, data="politics", count=140),
            choice_result("PVSE", 1.0, seed=seed, split="released", c=10),
        ]
    return [
        *found,
        result("PVSE", 0.5, data="flickr8k", relations=()),
        result("DIVERSITY", 3.0, data="flickr8k", relations=()),
        choice_result("VSE0", 1.0),
        choice_result("DIVERSITY", 2.5, preset="sound"),
        choice_result("DIVERSITY sum", 1.0),
        choice_result("DISCREPANCY max", 2.0),
        choice_result("Γ=0", 1.0),
        choice_result("DIVERSITY", 0.0, split="random", seed=5),
    ]


@cache
def stories(seeds):
    found = []
    for seed in range(seeds):
        found += [
            sequence_result("VRSS", 3.0, seed=seed),
            sequence_result("VSE++", 0.0, seed=seed),
            sequence_result("GSDA", 2.0, seed=seed),
            sequence_result("GSDA", 2.0, seed=seed, split="released", data="vist"),
        ]
    found += [sequence_result("VRSS", 1.0, preset="sound"), sequence_result("ours", 9.0)]
    size = len(found[0].ids)
    for place, one in enumerate(found):
        if one.about.system == "GSDA":
            nats = {"true": tuple(np.linspace(5, 9, size)), "found": tuple(np.linspace(6, 12, size))}
            scores = TextScores(texts=size, bleu=9.5, chrf=21.0, settings=("made up", "made up"))
            own = Captions(tokens=(7,) * size, unknown=(1,) * size, nats=nats, scores=scores)
            found[place] = one.model_copy(update={"captions": own})
    return found


TABLES = {
    **{f"{name} nothing": (name, list) for name in ("cmcm-4", "cmcm-5", "cmcm-7", "cmcm-8")},
    **{
        f"{name} nothing": (name, list) for name in ("complementary-2", "complementary-3", "vrss-1", "gsda-1")
    },
    **{
        f"{name} {seeds}": (name, lambda seeds=seeds, data=data: coherence(seeds, data))
        for seeds in (1, 3)
        for name, data in (("cmcm-4", "cite++"), ("cmcm-5", "clue"), ("cmcm-7", "clue"), ("cmcm-8", "clue"))
    },
    "cmcm-5 released": ("cmcm-5", lambda: coherence(1, split="released")),
    "cmcm-5 random": ("cmcm-5", lambda: coherence(1, split="random")),
    "cmcm-5 legacy": ("cmcm-5", legacy),
    "limner-1": ("limner-1", lambda: coherence(1, "headers")),
    **{
        f"{name} {seeds}": (name, lambda seeds=seeds: choices(seeds))
        for seeds in (1, 3)
        for name in ("complementary-2", "complementary-3")
    },
    **{
        f"{name} {seeds}": (name, lambda seeds=seeds: stories(seeds))
        for seeds in (1, 3)
        for name in ("vrss-1", "gsda-1")
    },
    "cmcm-1": ("cmcm-1", None),
    "cmcm-2": ("cmcm-2", None),
    "complementary-1": ("complementary-1", None),
}


def compare(name, text):
    path = GOLDEN / name
    if os.environ.get("LIMNER_GOLDEN") == "write":
        path.write_text(text, "utf-8")
    assert text == path.read_text("utf-8")


@pytest.mark.parametrize("case", TABLES)
def test_tables_are_rendered_as_before(case, monkeypatch):
    monkeypatch.delenv("LIMNER_DATA", raising=False)
    name, made = TABLES[case]
    if made is None:
        tables = build(name, **QUICK).tables
    else:
        results = [one for one in made() if one.about.protocol == "pools" or "legacy" in case]
        tables = tables_of(name, results, **QUICK)
    # Markdown of all, the other formats of one table each
    text = render(tables, "md") + render(tables[:1], "latex") + render(tables[:1], "html")
    compare(f"{case.replace(' ', '-')}.txt", text)


def drawn(figure):
    """What a figure draws: titles, labels, lines, points, bars."""

    def rounded(values):
        return np.round(np.asarray(values, np.float64), 6).tolist()

    return [
        {
            "title": axes.get_title(),
            "labels": [axes.get_xlabel(), axes.get_ylabel()],
            "ticks": [label.get_text() for label in axes.get_xticklabels()],
            "texts": [text.get_text() for text in axes.texts],
            "lines": [rounded(line.get_xydata()) for line in axes.lines],
            "points": [rounded(points.get_offsets()) for points in axes.collections],
            "bars": [rounded([bar.get_x(), bar.get_height()]) for bar in axes.patches],
            "legend": [text.get_text() for text in legend.get_texts()]
            if (legend := axes.get_legend())
            else [],
        }
        for axes in figure.axes
    ]


@pytest.fixture
def caught(monkeypatch):
    """The data of the figure that was written last."""
    kept = {}

    def write(to, draw, *given):
        kept["data"] = drawn(draw(*given))

    monkeypatch.setattr(plots, "write", write)
    with mpl.rc_context():
        yield kept


def at(value, setting):
    """CMCM trained with another value of one setting."""
    table, key = setting.split(".")
    one = result("CMCM", 1.0 + value, refined=1.0)
    return one.model_copy(update={"about": one.about.model_copy(update={"config": {table: {key: value}}})})


FIGURES = {
    "cmcm-3a": list,
    "cmcm-5": lambda: coherence(3),
    "cmcm-5 random": lambda: coherence(1, split="random"),
    "cmcm-8": lambda: [at(value, "loss.relation_weight") for value in (0.0, 0.1, 1.0)],
    "cmcm-8-length": lambda: [at(value, "data.max_length") for value in (1, 2)],
    "cmcm-entropy": lambda: [
        result(f"CMCM_{name}", 1.0 + place, refined=0.5, relations=(name,))
        for place, name in enumerate(("Story", "Meta", "Action"))
    ],
}


@pytest.mark.parametrize("name", FIGURES)
def test_figures_draw_the_same_data(name, tmp_path, caught, monkeypatch):
    found = FIGURES[name]()
    monkeypatch.setattr(published_figures.Result, "read_all", classmethod(lambda *_, **__: found))
    given = {"texts": (), "pictures": (), "relations": (), "weights": None, "data": None, "split": None}
    given |= {"runs": tmp_path, "run": (), "row": "CMCM", "count": 4, "resamples": 300}
    published_figures.draw_figure(name.split()[0], tmp_path / "a.svg", **given)
    compare(f"figure-{name.replace(' ', '-')}.json", json.dumps(caught["data"], ensure_ascii=False) + "\n")
