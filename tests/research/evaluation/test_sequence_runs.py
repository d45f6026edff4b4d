"""Steps of stories measured for runs: which features are asked, and the whole way to a table."""

import json
import re
import shutil

import numpy as np
import pytest
import torch
from made_up_scores import tabled

from limner.checksums import rows_checksum
from limner.cli.main import run
from limner.encoders.pixels import CellColours
from limner.errors import LimnerWarning
from limner.research.datasets.features import FeatureKey, Features
from limner.research.datasets.pairs import Pair
from limner.research.evaluation.results import About, SequenceResult
from limner.research.runs import measure as sequence_runs
from limner.research.runs.measure import COLOURS, SequenceMeter, fixed_features
from limner.research.training.corpus import ArrayRows
from limner.research.training.framing import FileRows

ABOUT = About(system="Tiny", data="made", split="grouped")


def stored(values, backbone="resnet18"):
    key = FeatureKey(data="made", backbone=backbone, weights_sha256="a" * 64, transform="squash")
    half = values.astype(np.float16)
    sums = np.array([rows_checksum(row) for row in half], np.uint64)
    return Features(key, tuple(f"{n}.jpg" for n in range(len(values))), half, sums)


def pages(stories=3, steps=4):
    return [
        Pair(id=f"{n}", text=f"a fox {n % 2 and 'and a hen'}", image=f"{n}.jpg", seq=f"s{n // steps}", pos=n)
        for n in range(stories * steps)
    ]


def test_a_grid_is_pooled_and_files_have_no_fixed_features():
    values = np.random.default_rng(0).random((4, 3, 5)).astype(np.float16).astype(np.float32)
    found, described, similar = fixed_features(stored(values, "resnet18-grid"), ["2.jpg", "0.jpg"])
    assert found == pytest.approx(values[[2, 0]].mean(axis=1))
    assert (described, similar) == ("features of resnet18 (aaaaaaaa)", True)
    plain, same, _ = fixed_features(stored(values[:, 0]), ["1.jpg"])
    assert (plain == values[[1], 0]).all()
    assert same == described
    assert fixed_features(FileRows({"a": "a.jpg"}), ["a"])[0] is None


def test_drawings_are_asked_for_their_colours_but_not_for_likeness():
    pixels = np.random.default_rng(0).integers(0, 255, (3, 8, 8, 3), np.uint8)
    found, described, similar = fixed_features(ArrayRows("abc", pixels), ["c", "a"])
    assert (found == CellColours()(torch.from_numpy(pixels[[2, 0]])).numpy()).all()
    assert (described, similar) == (COLOURS, False)


def test_the_models_of_a_test_set_are_made_once(monkeypatch):
    made = []
    real = sequence_runs.saliency_of
    monkeypatch.setattr(
        sequence_runs, "saliency_of", lambda *asked, **how: made.append(1) or real(*asked, **how)
    )
    values = np.random.default_rng(0).random((12, 3))
    meter, scores = SequenceMeter(), np.random.default_rng(1).random((12, 12))
    first = meter.measure(ABOUT, pages(), tabled(scores), stored(values))
    second = meter.measure(ABOUT, pages(), tabled(scores.T), stored(values))
    assert len(made) == 1
    assert first.levels == second.levels
    assert first.found != second.found
    meter.measure(ABOUT, pages(), tabled(scores), stored(values[::-1]))
    assert len(made) == 2
    meter.measure(ABOUT, pages(3, 3) + pages()[9:], tabled(scores), stored(values[::-1]))
    assert len(made) == 3


def test_saliency_of_many_pictures_is_made_on_request_only(monkeypatch):
    monkeypatch.setattr(sequence_runs, "MOST_PICTURES", 5)
    rows, scores = stored(np.random.default_rng(0).random((12, 3))), tabled(np.eye(12))
    with pytest.warns(LimnerWarning, match="VSR of 12 pictures is left out; pass --saliency"):
        left = SequenceMeter().measure(ABOUT, pages(), scores, rows)
    assert left.levels == {}
    assert left.found["steps"].similarity == pytest.approx([1.0] * 12)
    assert set(SequenceMeter(saliency=True).measure(ABOUT, pages(), scores, rows).levels) == {
        "noun",
        "sequence",
    }
    with pytest.warns(LimnerWarning, match="left out"):
        assert SequenceMeter(saliency=False).measure(ABOUT, pages(), scores, rows).levels == {}


def test_pairs_without_a_story_are_left_aside():
    loose = [pair.model_copy(update={"seq": ""}) for pair in pages()]
    assert SequenceMeter().measure(ABOUT, loose, tabled(np.eye(12)), stored(np.ones((12, 2)))) is None
    with pytest.warns(LimnerWarning, match="no fixed features"):
        found = SequenceMeter().measure(ABOUT, pages(), tabled(np.eye(12)), FileRows({}))
    assert found.features == ""


def test_measuring_a_run_writes_its_steps_beside_its_result(drawings_run, tmp_path, capsys):
    folder = shutil.copytree(drawings_run, tmp_path / "run")
    assert run(["measure", str(folder), "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    (path,) = (folder / "results" / "sequences").iterdir()
    result = SequenceResult.read(path)
    assert row["steps R@1"] == np.mean(np.array(result.found["steps"].own) <= 1)
    assert row["distinct StR@1"] == np.mean(np.array(result.found["distinct"].story) <= 1)
    assert result.features == COLOURS
    assert result.about.part == "test"


def figures(text):
    """Row → its figures, without the settings that stand beside its name."""
    rows = re.findall(r"^\| ([^|]+?) \| (.*) \|$", text, re.MULTILINE)
    return {name.removesuffix(" ‡"): re.sub(r"^preset [^|]+ \| ", "", values) for name, values in rows}


@pytest.mark.slow
@pytest.mark.soak  # test_reproduction.py fills it, and complementary-2 is made of such runs in make test
def test_the_table_of_tiny_runs_has_whole_rows(capsys):
    assert run(["table", "vrss-1", "--smoke", "--resamples", "50"]) == 0
    number = r"\d+\.\d"
    cell = rf"(\*\*)?{number}(\\[*†])?(\*\*)? \[{number}, {number}\]"  # the best of a column is bold
    tables = capsys.readouterr().out.split("**VRSS, Table 1")[1:]
    assert len(tables) == 2
    for text in tables:
        rows = figures(text)
        for name in ("LDA", "VSE++", "CNSI", "VRSS-VAE", "VRSS-GlobalCon", "VRSS"):
            published = rf"{cell} \({number}\)"
            due = " \\| ".join([published] * 7 + [cell] * 3) + r" \|\s*"
            assert re.fullmatch(due, rows[name]), (name, rows[name])


@pytest.mark.slow
@pytest.mark.soak  # as that of VRSS
def test_the_table_of_gsda_is_made_of_tiny_runs_of_every_row(capsys):
    assert run(["table", "gsda-1", "--smoke", "--resamples", "50"]) == 0
    number = r"[-−]?\d+\.\d+"
    cell = rf"{number}(\\[*†])? \[{number}, {number}\]"
    published = {"VSE0", "VSE++", "CNSI", "GSDA w/o CSE", "GSDA"}
    controls = ["GSDA (own sentence only)", "GSDA (own sentence's key)"]
    names = [*published, *controls, "GSDA w/o graph", "GSDA w/o dual", "GSDA w/o graph, w/o dual"]
    names += ["VSE0 + MiniLM", "VSE++ + MiniLM", "CNSI + MiniLM"]
    *tables, captions = capsys.readouterr().out.split("\n\n**")
    assert len(tables) == 2
    for text in tables:
        rows = figures(text)
        for name in names:
            paper = rf" \({number}\)" if name in published else ""
            med_r = rf"\({number}\)" if name in published else ""
            due = " \\| ".join([*[cell + paper] * 3, cell, med_r, cell, cell])
            assert re.fullmatch(due, rows[name]), (name, rows[name])
    told = {name: values for name, values in figures(captions).items() if name.startswith("GSDA")}
    assert list(told) == ["GSDA w/o CSE", "GSDA", *controls, "GSDA w/o graph"]
    for values in told.values():
        assert re.fullmatch(rf"{cell} \| {cell} \| {number} \| {number}", values), values
