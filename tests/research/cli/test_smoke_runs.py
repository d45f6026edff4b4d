"""``limner train --smoke`` of every row at its own settings, on miniatures of the data, offline.

Rows that a page of docs/reproduce trains are trained there (tests/test_reproduction.py); here are the others,
and data sets or made-up parts that no page takes.
"""

import re

import pytest
import released

from limner.research.cli.train import train
from limner.research.runs.run import Run
from test_configs import ROWS
from test_documented_commands import ROOT, recorded

MADE = {
    "cite": released.cite_with_pictures,
    "cite++": released.cite_plus,
    "coco": released.coco,
    "vist": released.vist,
    "recipeqa": released.recipeqa,
    "stories": released.stepwise,
}
# rows of one folder → data set
RUNS = {
    ("cmcm", "cite++"): ["cmcm-shuffled"],
    ("cmcm", "cite"): ["cmcm"],
    ("complementary", "coco"): ["discrepancy-direct"],
    ("cnsi", "vist"): ["nsi", "nsi-sentences"],
    ("gsda", "vist"): ["gsda"],  # its keys and graphs made up
    ("vrss", "recipeqa"): ["vrss-sound", "vrss-vae-sound", "vrss-globalcon-sound"],
    ("dual", "stories"): ["none", "mean", "recurrent"],
    ("document", "stories"): ["document"],
    ("limner", "stories"): ["limner", "limner-wo-context", "limner-minilm", "limner-minilm-wo-context"],
}
# of rows that differ by one setting of their system, whose steps its own tests take
SOAKED = {
    "nsi",
    "vrss-vae-sound",
    "vrss-globalcon-sound",
    "none",
    "mean",
    "limner-minilm",
    "limner-wo-context",
}
EACH = [
    pytest.param((f"{folder}/{row}", data), marks=[pytest.mark.soak] if row in SOAKED else [])
    for (folder, data), rows in RUNS.items()
    for row in rows
]


@pytest.fixture(scope="module")
def miniature(tmp_path_factory):
    """The folder of a data set and that of its features, each made once."""
    known = {}

    def made(data):
        if data not in known:
            folder = tmp_path_factory.mktemp(data)
            known[data] = MADE[data](folder / "data"), folder / "features"
        return known[data]

    return made


@pytest.mark.slow
@pytest.mark.parametrize("run", EACH, ids=lambda run: run[0])
def test_a_row_shrinks_to_seconds_without_downloads(run, miniature, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "no-hub"))
    monkeypatch.delenv("LIMNER_WEIGHTS", raising=False)
    row, data = run
    annotations, features = miniature(data)
    settings = (f"data.annotations={annotations}", f"data.features={features}", "data.vectors=random")
    train(ROOT / "configs" / f"{row}.toml", to=tmp_path / "run", data=data, set_=settings, smoke=True)
    assert (tmp_path / "run" / "model.safetensors").is_file()
    # the blocks that limner's own model reads come with it, and need no stand-in
    assert ("data.backbone=tiny" in capsys.readouterr().err) != row.startswith("limner/")


@pytest.mark.slow
def test_a_result_names_the_weights_that_its_pictures_went_through(miniature, tmp_path):
    annotations, features = miniature("stories")
    settings = (f"data.annotations={annotations}", f"data.features={features}", "preset=laptop")
    train(ROOT / "configs/dual/none.toml", to=tmp_path, data="stories", set_=settings, smoke=True)
    run = Run.open(tmp_path)
    words = run.evaluate(part="val").result.about.backbone
    assert words == f"tiny frozen, weights {run.backbone.weights_sha256[:12]}"


def test_every_row_is_trained_here_or_by_a_page(tmp_path):
    trained = {f"{folder}/{row}" for (folder, _), rows in RUNS.items() for row in rows}
    for page in sorted((ROOT / "docs" / "reproduce").glob("*.md")):
        script = "".join(re.findall(r"^```\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE))
        for words in recorded(tmp_path, script):
            if words[0] == "train":
                trained.add(words[1].removeprefix("configs/").removesuffix(".toml"))
    assert trained == {f"{path.parent.name}/{path.stem}" for path in ROWS}
