"""Stories told back by a run: costs and texts against the captioner's own, from the right pictures."""

import json
import math
import shutil
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
import torch

from limner.cli.main import run
from limner.cli.measure import measure
from limner.errors import LimnerWarning
from limner.evaluation import caption_scores as captions
from limner.evaluation.results import SequenceResult
from limner.evaluation.sequences import steps_of
from limner.runs.run import Run
from limner.systems.gsda.captioner import generate
from limner.training.corpus import open_corpus

pytestmark = pytest.mark.slow

CONFIG = Path(__file__).parents[2] / "configs" / "gsda" / "gsda.toml"


@pytest.fixture(scope="module")
def told_run(tmp_path_factory, train_tiny):
    return train_tiny(tmp_path_factory.mktemp("told") / "gsda", config=CONFIG)


@pytest.fixture(scope="module")
def told(told_run):
    with redirect_stdout(StringIO()), pytest.warns(LimnerWarning, match="VSR of"):
        measure(told_run, saliency=False)
    (result,) = SequenceResult.read_all(told_run)
    return result


def test_costs_and_texts_are_those_of_the_captioner(told_run, told):
    opened = Run.open(told_run)
    model, config = opened.model, opened.config
    data, pictures = open_corpus(config.data)
    pairs = data.split("test")
    known = {pair.id: pair for pair in pairs}
    chosen = {"true": told.ids, "found": [row[0] for row in told.found["steps"].top]}
    assert chosen["true"] != chosen["found"]
    for kind, ids in chosen.items():
        nats, texts = [], []
        for name in dict.fromkeys(told.stories):
            own = [row for row, story in enumerate(told.stories) if story == name]
            pixels = pictures.take(pictures.places([known[ids[row]].image_id for row in own]))
            seen = model.described(torch.from_numpy(pixels)).numpy()
            sentences = [known[told.ids[row]].text for row in own]
            nats += model.captioner.surprise([seen], [sentences]).nats.tolist()
            texts += [
                (said, true)
                for said, true in zip(generate(model.captioner, [seen])[0], sentences, strict=True)
            ]
        assert told.told.nats[kind] == pytest.approx(nats, abs=1e-3)
        if kind == "true":
            due = captions.text_scores([said for said, _ in texts], [true for _, true in texts])
            assert told.told.scores == due
    assert [pairs[row].id for row in steps_of(pairs).rows] == list(told.ids)


def test_the_command_prints_them(told_run, told, tmp_path, capsys):
    folder = shutil.copytree(told_run, tmp_path / "run")
    assert run(["measure", str(folder), "--no-saliency", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    own = told.told
    for kind in ("true", "found"):
        due = math.exp(sum(own.nats[kind]) / sum(own.tokens))
        assert row[f"perplexity, {kind} pictures"] == pytest.approx(due)
    assert row["BLEU-4"] == own.scores.bleu
    assert row["chrF"] == own.scores.chrf


def test_without_the_packages_perplexity_remains(told_run, told, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(__import__("sys").modules, "sacrebleu.metrics.bleu", None)
    folder = shutil.copytree(told_run, tmp_path / "run")
    assert run(["measure", str(folder), "--no-saliency", "--json"]) == 0
    shown = capsys.readouterr()
    assert "sacrebleu is not installed" in shown.err
    (row,) = json.loads(shown.out)
    assert "BLEU-4" not in row
    assert np.isfinite(row["perplexity, found pictures"])


def test_other_systems_tell_nothing(drawings_run, tmp_path, capsys):
    folder = shutil.copytree(drawings_run, tmp_path / "run")
    assert run(["measure", str(folder), "--no-saliency", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert not any("perplexity" in name for name in row)
    (result,) = SequenceResult.read_all(folder)
    assert result.told is None
