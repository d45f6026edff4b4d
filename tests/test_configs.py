"""The rows that are shipped, and what is laid over them for a data set."""

import tomllib
from pathlib import Path
from typing import get_args

import pytest

from limner.config import flat
from limner.errors import ConfigError
from limner.research.datasets.pairs import data_sets
from limner.research.datasets.sets import cite, clue
from limner.research.runs.train import overlays, read_config
from limner.research.systems.base import names
from limner.research.training.settings import Preset
from limner.research.worlds.book import RELATIONS

CONFIGS = Path(__file__).parents[1] / "configs"
OVERLAYS = {path.stem: path for path in (CONFIGS / "data").glob("*.toml")}
# system → overlays its rows are run with: those of the paper, then our own
PAPERS = {
    "cmcm": ("cite++", "clue"),
    "complementary": ("coco", "conceptual", "goodnews", "politics"),
    "vse": ("recipeqa", "stepwise", "vist"),
    "cnsi": ("recipeqa", "stepwise", "vist"),
    "gsda": ("vist",),
    "lda": ("recipeqa", "stepwise"),
    "vrss": ("recipeqa", "stepwise"),
}
OURS = {
    "cmcm": ("captions", "cite", "clue-tsv", "picturebook", "stories"),
    "complementary": ("captions", "headers", "stories"),
    "vse": ("captions", "headers", "picturebook", "stories"),
    "limner": ("captions", "stories"),
    **dict.fromkeys(("cnsi", "document", "dual", "gsda", "lda", "vrss"), ("picturebook", "stories")),
}
USED = {name: (*PAPERS.get(name, ()), *own) for name, own in OURS.items()}
ROWS = sorted(path for path in CONFIGS.glob("*/*.toml") if path.parent.name != "data")
KNOWN = {"clue": clue.RELATIONS, "cite++": cite.RELATIONS, "picturebook": RELATIONS}
RUNS = [(path, data) for path in ROWS for data in USED[tomllib.loads(path.read_text("utf-8"))["system"]]]


def rows(folder: str, data: str) -> dict[str, str]:
    """Name of a row → stem of its file."""
    return {read_config(path, data=data).row: path.stem for path in (CONFIGS / folder).glob("*.toml")}


@pytest.mark.slow
def test_every_row_runs_on_its_data_sets():
    for path, data in RUNS:
        settings = read_config(path, data=data)
        due = tomllib.loads(OVERLAYS[data].read_text("utf-8"))["data"]["set"]
        assert settings.data.set == due, (path.stem, data)
        assert settings.system in names()
        settings.smoke()


@pytest.mark.slow
def test_a_row_on_a_data_set_is_what_its_preset_says():
    presets = ("paper", "release", "sound", "laptop", "sound+laptop")
    wrong = {}
    for path, data in RUNS:
        plain = read_config(path, ("loop.seed=3", "data.annotations=folder"), data)
        assert plain.preset == tomllib.loads(path.read_text("utf-8")).get("preset", "release"), path.stem
        for own in (plain, *(read_config(path, [f"preset={preset}"], data) for preset in presets)):
            if found := own.deviations():
                wrong[path.stem, data, own.preset] = found
    assert wrong == {}


def test_the_published_run_trains_the_backbone_and_a_laptop_does_not():
    cmcm = CONFIGS / "cmcm" / "cmcm.toml"
    release, paper, sound, laptop = (
        read_config(cmcm, [f"preset={name}"], "cite++") for name in ("release", "paper", "sound", "laptop")
    )
    assert [one.backbone for one in (release, paper, sound, laptop)] == [*3 * ["finetune"], "frozen"]
    assert [one.data.split for one in (release, paper, sound, laptop)] == [
        *2 * ["released"],
        *2 * ["grouped"],
    ]
    assert [one.data.tokeniser for one in (release, laptop)] == ["release", "default"]
    assert [one.data.crop for one in (release, paper, laptop)] == ["random", "none", "none"]
    assert [one.loop.epochs for one in (release, paper, laptop)] == [93, 20, 20]
    known = [(one.refinement_strength, one.refinement_threshold) for one in (release, paper, laptop, sound)]
    assert known == [(0.13, 0.05), (0.13, 0.1), (None, None), (None, None)]
    clue = read_config(cmcm, (), "clue")
    assert (clue.loop.epochs, clue.refinement_strength, clue.data.max_length) == (53, 0.12, 40)


def test_what_departs_from_the_preset_named_is_a_deviation():
    cmcm, pvse = CONFIGS / "cmcm" / "cmcm.toml", CONFIGS / "complementary" / "pvse.toml"
    assert read_config(cmcm, ["backbone=finetune"], "cite++").deviations() == []
    # crops are of pictures that the backbone trains on, and go with it
    frozen = read_config(cmcm, ["backbone=frozen"], "cite++")
    assert set(frozen.deviations()) == {"backbone=frozen", "data.crop=none"}
    assert read_config(cmcm, ["backbone=frozen", "data.crop=resized"], "cite++").data.crop == "resized"
    ours = ["data.split=grouped", "data.tokeniser=default"]
    assert read_config(cmcm, ours, "cite++").deviations() == ours
    assert read_config(cmcm, ["preset=laptop", "backbone=finetune"], "cite++").deviations() == [
        "backbone=finetune"
    ]
    assert read_config(pvse, ["model.heads=3"], "coco").deviations() == []
    assert read_config(pvse, ["model.heads=3"], "politics").deviations() == ["model.heads=3"]
    # what makes a row is none where its file says it, and one where the command does
    base = read_config(CONFIGS / "cmcm" / "base.toml", ["model.pooling=scaled"], "cite++")
    assert base.deviations() == ["model.pooling=scaled"]


def test_a_row_of_ones_own_says_what_it_changes(tmp_path):
    row = tmp_path / "mine.toml"
    row.write_text('system = "cmcm"\n[model]\nrelations = "none"\n[data]\nset = "clue"\n[loop]\nlr = 1e-3\n')
    assert read_config(row).deviations() == ["data.set=clue", "loop.lr=0.001"]
    shipped = CONFIGS / "cmcm" / "mine.toml"  # beside the overlays it trains as `--data clue` says
    assert overlays(tomllib.loads(row.read_text()), shipped, "clue", ["release"])["release"] == {
        "loop": {"epochs": 53},
        "refinement_strength": 0.12,
        "refinement_threshold": 0.05,
    }


@pytest.mark.parametrize("folder", sorted(PAPERS))
def test_a_data_set_comes_with_the_settings_published_for_it_however_it_is_named(folder):
    row = next(
        path for path in ROWS if path.parent.name == folder or (folder == "vse" and path.stem == "vse0")
    )
    for data in PAPERS[folder]:
        named = read_config(row, [f"data.set={data}"])
        assert named == read_config(row, data=data)
        assert named.data.set == data
        assert named.deviations() == []


# row, its own data set → everything in which the preset `paper` departs from what the paper prints
DEPARTURES = {
    ("gsda/gsda", "vist"): ["graph=soft", "caption=soft", "mixed_epochs=5"],
    ("gsda/gsda-wo-graph", "vist"): ["caption=soft", "mixed_epochs=5"],
    ("vrss/vrss", "recipeqa"): [
        "variant=default", "anchor=both", "model.variance=fixed", "model.first_log_variance=-5.0",
        "kl_epochs=10", "loop.schedule=plateau",
    ],
    ("complementary/hal", "coco"): ["data.vectors=cbow"],
    ("cmcm/cmcm", "clue"): [],
}  # fmt: skip


@pytest.mark.parametrize(("row", "data"), DEPARTURES)
def test_departures_from_the_paper_are_listed_whichever_the_preset(row, data):
    path = CONFIGS / f"{row}.toml"
    paper = read_config(path, ["preset=paper"], data)
    assert (paper.departures(), paper.reduced) == (DEPARTURES[row, data], False)
    for preset in ("release", "sound", "laptop", "sound+laptop"):
        own = read_config(path, [f"preset={preset}"], data)
        listed = own.departures()
        changed = {line.partition("=")[0] for line in DEPARTURES[row, data]} - {"loop.schedule"}
        assert changed <= {line.partition("=")[0] for line in listed}, preset
    # a printed form in place of ours is no departure
    if row == "vrss/vrss":
        printed = read_config(path, ["preset=paper", "anchor=gold_anchor", "variant=literal"], data)
        assert not {"anchor", "variant"} & {line.partition("=")[0] for line in printed.departures()}


def test_a_run_with_smaller_sizes_or_fewer_epochs_than_the_paper_is_reduced():
    vrss = CONFIGS / "vrss" / "vrss.toml"
    laptop = read_config(vrss, ["preset=laptop"], "stories")
    assert laptop.reduced
    assert {"model.latent=128 (paper: 500)", "loop.epochs=20 (paper: 50)"} <= set(laptop.departures())
    assert not read_config(vrss, ["model.latent=512"], "recipeqa").reduced
    assert read_config(vrss, ["model.latent=499"], "recipeqa").reduced
    assert read_config(vrss, ["loop.epochs=49"], "recipeqa").reduced
    assert not read_config(vrss, ["loop.seed=0", "data.batch=8"], "recipeqa").reduced
    dual = read_config(CONFIGS / "dual" / "mean.toml", ["preset=laptop"], "stories")
    assert (dual.reduced, dual.departures()) == (False, [])  # limner's own: no paper states a size
    own = read_config(CONFIGS / "limner" / "limner.toml", ["loop.epochs=1"], "stories")
    assert (own.reduced, own.departures()) == (False, [])


def test_a_data_set_without_settings_of_its_own_is_a_deviation():
    """What is published of CITE++ is not said of a set that no paper trained on."""
    cmcm = CONFIGS / "cmcm" / "cmcm.toml"
    assert read_config(cmcm, data="folder").deviations() == ["data.set=folder"]
    assert read_config(cmcm, ["data.set=folder"]).deviations() == ["data.set=folder"]
    assert read_config(cmcm, ["data.set=clue"], "cite++").deviations() == ["data.set=clue"]


@pytest.mark.parametrize(("name", "epochs"), [("cite", 195), ("clue-tsv", 52)])
def test_a_public_file_without_a_split_trains_under_its_own_name(name, epochs):
    found = read_config(CONFIGS / "cmcm" / "cmcm.toml", data=name)
    assert (found.data.set, found.data.split, found.loop.epochs) == (name, "grouped", epochs)
    assert (found.refinement_strength, found.refinement_threshold) == (None, None)


def test_an_overlay_has_the_name_of_its_data_set(tmp_path):
    registered = data_sets()
    for name, path in OVERLAYS.items():
        named = tomllib.loads(path.read_text("utf-8"))["data"]["set"]
        assert name == named or name not in registered
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "cite.toml").write_text('[data]\nset = "cite++"\n')
    row = tmp_path / "row.toml"
    row.write_text('system = "cmcm"\n')
    with pytest.raises(
        ConfigError, match=r"cite.toml: is for the data set 'cite\+\+', but 'cite' is another"
    ):
        read_config(row, data="cite")


def test_files_that_a_run_needs_are_no_deviation():
    gsda = CONFIGS / "gsda" / "gsda.toml"
    assert read_config(gsda, ["graphs=a.jsonl", "keys_run=runs/vse0"], "vist").deviations() == []
    assert read_config(gsda, ["graphs=a.jsonl", "label_vectors=mine.txt"], "vist").deviations() == []
    told = read_config(gsda, ["label_vectors=''"], "vist")
    assert told.deviations() == ["label_vectors="]
    drawn = read_config(gsda, ["graphs=shuffled"], "picturebook")
    assert drawn.deviations() == ["graphs=shuffled"]


def test_presets_are_joined_and_a_misspelt_one_is_refused():
    cmcm = CONFIGS / "cmcm" / "cmcm.toml"
    both = read_config(cmcm, ["preset=sound+laptop"], "cite++")
    assert (both.preset, both.backbone, both.model.relations) == ("sound+laptop", "frozen", "product")
    paper = read_config(cmcm, ['preset="paper+laptop"'], "cite++")
    assert (paper.loss.ranking, paper.backbone) == ("max_hinge", "frozen")
    with pytest.raises(ConfigError, match=r"preset.*unknown preset 'latop'; did you mean 'laptop'"):
        read_config(cmcm, ["preset=sound+latop"], "cite++")


# row, data set, preset → settings of the runs in docs/results, by hand; the rest is as published
LAPTOP = [
    ("complementary/diversity", "captions", "laptop", {
        "data.split": "grouped", "data.max_length": 60, "data.batch": 32, "data.flip": False,
        "backbone": "frozen", "model.heads": 3, "model.dim": 256, "model.image_hidden": 256,
        "weights.lam": 196, "graph.min_count": 2, "loop.epochs": 10, "loop.lr": 1e-3,
        "loop.metric": "MRR", "loop.weight_decay": 1e-5,
    }),
    ("complementary/combined-val", "headers", "laptop", {
        "model.heads": 5, "weights.lam": 96, "weights.beta": 3, "weights.gamma_hat": 1, "loop.epochs": 20,
    }),
    ("complementary/discrepancy", "stories", "sound+laptop", {
        "weights.lam": 160, "weights.reading": "sound", "weights.mode": "sum", "graph.vectors": "sentences",
        "loop.lr": 1e-3, "model.dim": 256,
    }),
    ("complementary/hal", "captions", "laptop", {"baselines.hal_bank": False}),
    ("complementary/vse++", "stories", "laptop", {
        "hinge": "max", "model.dim": 256, "data.batch": 128, "data.min_count": 1, "data.vectors": "cbow",
        "loop.schedule": "plateau", "loop.plateau_patience": 15, "loop.lr": 2e-4,
    }),
    ("cmcm/cmca", "captions", "laptop", {
        "data.split": "released", "data.tokeniser": "default", "model.relations": "none", "loop.epochs": 20,
        "loop.betas": (0.5, 0.999), "backbone": "frozen", "data.backbone": "resnet50",
    }),
    ("cmcm/cmcm", "picturebook", "laptop", {
        "backbone": "drawings", "model.dim": 256, "model.hidden": 128, "data.stories": 300, "loop.lr": 1e-3,
        "refinement_strength": None,
    }),
    ("gsda/gsda", "stories", "sound+laptop", {
        "keys": "sentences", "model.centre": True, "model.dim": 512, "data.batch": 16, "caption_min_count": 3,
        "label_vectors": "", "loop.epochs": 20, "loop.stop_after_stale": 6, "loop.schedule": "plateau",
        "loop.plateau_patience": 15,
    }),
    ("gsda/gsda", "picturebook", "laptop", {"graphs": "drawn", "data.batch": 4, "model.centre": False}),
    ("vrss/vrss", "stories", "laptop", {
        "model.latent": 128, "model.mlp": 512, "loop.epochs": 20, "loop.optimiser": "adadelta", "beta": 1.7,
    }),
    ("vrss/vrss-sound", "stories", "sound+laptop", {
        "model.latent": 500, "data.max_length": 512, "loop.optimiser": "adam", "beta": 200.0,
    }),
    ("cnsi/cnsi", "stories", "laptop", {
        "sentence_epochs": 10, "loop.epochs": 40, "model.dim": 256, "data.vectors": "cbow",
    }),
    ("lda/lda", "picturebook", "laptop", {
        "topics": (50, 100), "model.visual_words": 200, "data.min_count": 5,
    }),
    ("dual/mean", "stories", "laptop", {"data.max_length": 512, "loop.epochs": 60}),
    ("document/document", "stories", "laptop", {"temperature": 0.05, "data.batch": 64, "loop.lr": 3e-4}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("row", "data", "preset", "due"), LAPTOP, ids=lambda one: one if isinstance(one, str) else ""
)
def test_the_runs_of_the_results_are_settings_of_the_laptop(row, data, preset, due):
    found = flat(read_config(CONFIGS / f"{row}.toml", [f"preset={preset}"], data).model_dump())
    assert {key: found[key] for key in due} == due


def test_the_papers_sizes_are_those_of_their_tables():
    tk = {
        "coco": (3, 196, 1, 4),
        "goodnews": (5, 160, 4, 1),
        "politics": (9, 96, 3, 1),
        "conceptual": (7, 196, 3, 1),
    }
    for data, (heads, lam, beta, gamma) in tk.items():
        own = read_config(CONFIGS / "complementary" / "combined-val.toml", (), data)
        assert (own.model.heads, own.weights.lam, own.weights.beta, own.weights.gamma_hat) == (
            heads,
            lam,
            beta,
            gamma,
        )
        assert (own.model.dim, own.data.batch, own.loop.lr, own.graph.min_count) == (1024, 32, 1e-4, 20)
        assert (own.data.test_share, own.data.val_share, own.data.flip, own.backbone) == (
            0.1,
            0.1,
            True,
            "finetune",
        )
        assert read_config(CONFIGS / "complementary" / "hal.toml", (), data).baselines.hal_bank
    gsda = read_config(CONFIGS / "gsda" / "gsda.toml", (), "vist")
    assert (gsda.loop.schedule, gsda.loop.steps, gsda.loop.epochs) == ("steps", (15,), 30)
    assert (gsda.data.batch, gsda.data.split, gsda.label_vectors) == (32, "released", "glove")
    assert gsda.loop.rates == {"graphs": 1e-4, "captioner": 1e-3}


def test_every_row_of_cmcm_says_what_it_is():
    for path in (CONFIGS / "cmcm").glob("*.toml"):
        settings = read_config(path, data="clue")
        assert settings.preset == "release", path.stem
        assert settings.row.lower().replace("_", "-").startswith(path.stem)
        assert any(set(settings.data.relations) <= set(known) for known in KNOWN.values()), path.stem
        assert (settings.model.pooling == "none") is (settings.row in ("Base", "CMCM-NoAttn")), path.stem
        assert (settings.model.relations == "none") is (settings.row in ("Base", "CMCA")), path.stem


def test_a_preset_of_the_command_line_rules_what_a_file_only_repeats():
    """The files of all relations pin what their preset gives; those of a baseline say what it is."""
    plain = read_config(CONFIGS / "cmcm" / "cmcm.toml", data="cite++")
    sound = read_config(CONFIGS / "cmcm" / "cmcm.toml", ["preset=sound"], "cite++")
    assert (plain.model.relations, sound.model.relations) == ("linear", "product")
    assert sound.deviations() == []
    own = read_config(CONFIGS / "cmcm" / "cmcm.toml", ["preset=sound", "model.relations=mlp"], "cite++")
    assert own.model.relations == "mlp"
    assert read_config(CONFIGS / "cmcm" / "cmca.toml", ["preset=sound"], "cite++").model.relations == "none"


def test_there_is_a_file_for_every_published_row():
    four = {"Base", "CMCA", "CMCM-NoAttn", "CMCM"}
    clues, cites = ({f"CMCM_{name}" for name in clue.RELATIONS}, {f"CMCM_Q{n}" for n in range(2, 9)})
    assert rows("cmcm", "clue").keys() == four | clues | cites | {"CMCM-shuffled"}


def test_there_is_a_file_for_every_row_of_complementary_samples():
    from limner.research.paper.table import reference

    found = rows("complementary", "captions")
    named = {run for row in reference()["complementary-3"]["rows"].values() for run in row["runs"]}
    assert found.keys() == {
        *reference()["complementary-2"]["rows"],
        *named,
        "DISCREPANCY direct",
        *(f"{measure} {mode}" for measure in ("DIVERSITY", "DISCREPANCY") for mode in ("max", "product")),
        "VSE0",
        "VSE++",
        "VSE0 + MiniLM",
        "VSE++ + MiniLM",
    }
    assert len(found) == len(list((CONFIGS / "complementary").glob("*.toml")))
    for row, stem in found.items():
        assert stem.partition("-")[0].rstrip("+01") in row.lower().replace("γ=0", "gamma")


def test_no_two_rows_say_the_same():
    told = {}
    for path in ROWS:
        values = tomllib.loads(path.read_text("utf-8")) | {"row": ""}
        same = told.setdefault(repr(sorted(values.items())), path)
        assert same == path


def test_what_an_overlay_says_of_rows_is_of_rows_that_exist():
    stems = {path.stem for path in ROWS}
    for path in OVERLAYS.values():
        values = tomllib.loads(path.read_text("utf-8"))
        layers = [values, *(values.get(preset, {}) for preset in get_args(Preset))]
        tables = [row for one in layers for name in names() for row in one.get(name, {}).get("rows", ())]
        assert all(set(table["names"]) <= stems for table in tables)


@pytest.fixture
def row(tmp_path):
    """A row with an overlay beside its folder."""
    (tmp_path / "data").mkdir()
    (tmp_path / "mine").mkdir()
    (tmp_path / "data" / "own.toml").write_text(
        '[data]\nset = "clue"\nbatch = 4\nmax_length = 10\n'
        "[cmcm.data]\nbatch = 5\n[vse.data]\nbatch = 9\n"
        '[[cmcm.rows]]\nnames = ["plain", "other"]\ndata.max_length = 12\n'
    )
    path = tmp_path / "mine" / "plain.toml"
    path.write_text('system = "cmcm"\n[data]\nbatch = 3\nmin_count = 2\n[loop]\nlr = 1e-3\n')
    return path


def test_the_row_wins_over_its_data_set_and_the_command_line_over_both(row):
    settings = read_config(row, ("data.max_length=20",), "own")
    assert settings.deviations() == [
        "data.min_count=2",
        "data.max_length=20",
        "data.batch=3",
        "loop.lr=0.001",
    ]
    assert (settings.data.batch, settings.data.min_count, settings.data.max_length) == (3, 2, 20)
    assert read_config(row, data="own").data.max_length == 12
    row = row.rename(row.with_name("else.toml"))
    assert read_config(row, data="own").data.max_length == 10
    assert read_config(row, data=str(row.parents[1] / "data" / "own.toml")).data.set == "clue"


def test_a_registered_set_needs_no_overlay(row):
    settings = read_config(row, data="vist")
    assert (settings.data.set, settings.data.batch, settings.loop.lr) == ("vist", 3, 1e-3)
    assert read_config(row, ("data.set=vist",)).model_copy(update={"stated": settings.stated}) == settings


def test_a_row_without_data_says_what_to_add(row):
    with pytest.raises(ConfigError, match=r"names no data set; add --data NAME \(choices: .*clue, .*own,"):
        read_config(row)
    with pytest.raises(ConfigError, match=r"unknown data 'owm'; did you mean 'own'"):
        read_config(row, data="owm")
    (row.parents[1] / "data" / "own.toml").write_text('[data]\nset = "clue"\n[cmmc.data]\nbatch = 3\n')
    with pytest.raises(ConfigError, match=r"plain.toml with own: unknown setting 'cmmc'"):
        read_config(row, data="own")
    assert "own" not in data_sets()
