"""``limner train`` from the settings file to the result, its stops and its refusals."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from cyclopts import App

from limner.apps.commands.train import train
from limner.apps.run_results import REFINEMENT
from limner.errors import CheckpointError, ConfigError, MissingError
from limner.training.cmcm import load
from limner.training.loop import BEST, HISTORY

CONFIGS = Path(__file__).parents[2] / "configs"
FILE = CONFIGS / "cmcm" / "picturebook" / "cmcm.toml"
SMALL = ("data.vectors=random", "data.picture_px=32")


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_a_smoke_run_trains_saves_and_prints(tmp_path, capsys):
    train(FILE, to=tmp_path, set_=SMALL, smoke=True, json=True)
    printed = capsys.readouterr()
    found = json.loads(printed.out)
    assert found["epochs"] == 2
    assert {"MedR", "R@1", "R@5", "R@10", "MRR", "mAP"} == set(found["validation"])
    assert found["refinement"] == json.loads((tmp_path / REFINEMENT).read_text())
    assert "preset release, deviations: " in printed.err
    assert "epoch 2/2: total " in printed.err
    assert len((tmp_path / HISTORY).read_text().splitlines()) == 2
    model, settings = load(tmp_path)
    assert len(model.relations) == 13
    assert settings.row == "CMCM"
    # again: nothing is left to do, the result is the same
    train(FILE, to=tmp_path, set_=SMALL, smoke=True, json=True)
    assert json.loads(capsys.readouterr().out) == found
    with pytest.raises(CheckpointError, match="other settings"):
        train(FILE, to=tmp_path, set_=(*SMALL, "loss.margin=0.2"), smoke=True)


def test_a_baseline_has_no_refinement(tmp_path, capsys):
    train(CONFIGS / "cmcm" / "picturebook" / "base.toml", to=tmp_path, set_=SMALL, smoke=True)
    assert "best epoch" in capsys.readouterr().out
    assert not (tmp_path / REFINEMENT).exists()
    assert load(tmp_path)[0].relations == ()


def test_tensorboard_is_written_when_asked_and_refused_in_one_line_without_its_package(tmp_path, monkeypatch):
    pytest.importorskip("tensorboard", reason="the extra 'tensorboard' is not installed")
    train(FILE, to=tmp_path / "run", set_=SMALL, smoke=True, tensorboard=True)
    assert list((tmp_path / "run" / "tensorboard").glob("events.out.tfevents.*"))
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(MissingError, match=r"limner\[tensorboard\]"):
        train(FILE, to=tmp_path / "none", set_=SMALL, smoke=True, tensorboard=True)
    assert not (tmp_path / "none").exists()


def test_misuse_is_one_line(tmp_path, monkeypatch):
    with pytest.raises(ConfigError, match=r"did you mean 'loop\.lr'"):
        train(FILE, to=tmp_path, set_=("loop.lrr=1",))
    with pytest.raises(ConfigError, match="did you mean 'MedR'"):
        train(FILE, to=tmp_path, set_=("loop.metric=MedRR",))
    with pytest.raises(ConfigError, match="cannot be read"):
        train(tmp_path / "none.toml", to=tmp_path)
    monkeypatch.delenv("LIMNER_DATA", raising=False)
    with pytest.raises(ConfigError, match=r"set data\.annotations or \$LIMNER_DATA"):
        train(CONFIGS / "cmcm" / "clue" / "cmcm.toml", to=tmp_path)
    monkeypatch.setenv("LIMNER_DATA", str(tmp_path))
    with pytest.raises(MissingError, match="no pictures at"):
        train(CONFIGS / "cmcm" / "clue" / "cmcm.toml", to=tmp_path)
    assert not (tmp_path / BEST).exists()


def test_options_are_spelt_as_documented(tmp_path, monkeypatch):
    seen = {}
    monkeypatch.setattr(
        "limner.training.systems.read_config", lambda path, words: seen.update(words=words) or 1 / 0
    )
    app = App()
    app.default(train)
    with pytest.raises(ZeroDivisionError):
        app(
            [str(FILE), "--to", str(tmp_path), "--set", "a.b=1", "--set", "c=2", "--finetune"],
            exit_on_error=False,
        )
    assert seen["words"] == ["a.b=1", "c=2", "trunk=finetune"]


COMMAND = """
import sys
from pathlib import Path
import torch
torch.set_num_threads(1)
from limner.apps.commands.train import train
train(Path(sys.argv[1]), to=Path(sys.argv[2]), smoke=True, set_=tuple(sys.argv[3:]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_stopped_run_goes_on_to_the_same_result(tmp_path, number):
    words = [*SMALL, "loop.epochs=2"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}

    def start(to):
        return subprocess.Popen(
            [sys.executable, "-c", COMMAND, str(FILE), str(to), *words],
            env=environment,
            stderr=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    process = start(tmp_path / "cut")
    while not (tmp_path / "cut" / "resume.safetensors").exists() and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(number)
    _, said = process.communicate(timeout=120)
    if number == signal.SIGTERM and process.returncode:
        assert "stopped: run the same command again to go on" in said
    results = []
    for folder in ("cut", "whole"):
        process = start(tmp_path / folder)
        out, _ = process.communicate(timeout=120)
        assert process.returncode == 0
        results.append((out, (tmp_path / folder / HISTORY).read_text()))
    assert results[0] == results[1]


def torchrun(to, *words):
    """``limner train`` in two processes, as the manual says; they are ended whatever happens."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command += ["-m", "limner", "train", str(FILE), "--to", str(to), "--smoke", "--json", *words]
    for setting in SMALL:
        command += ["--set", setting]
    process = subprocess.Popen(
        command,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, said = process.communicate(timeout=300)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    assert process.returncode == 0, said
    return out, said


@pytest.mark.slow
def test_two_processes_of_torchrun_make_one_run_and_go_on_with_it(tmp_path):
    out, said = torchrun(tmp_path, "--set", "loop.epochs=2")
    first = json.loads(out)  # one process prints, or this would be two results
    assert (first["epochs"], first["steps"]) == (2, 6)
    assert said.count("epoch 1/2: ") == said.count("epoch 2/2: ") == 1
    assert said.count("training and ") == 1
    assert {file.name for file in tmp_path.iterdir()} == {BEST, HISTORY, REFINEMENT, "resume.safetensors"}
    assert len((tmp_path / HISTORY).read_text().splitlines()) == 2
    assert len(load(tmp_path)[0].relations) == 13
    out, said = torchrun(tmp_path, "--set", "loop.epochs=2")
    assert json.loads(out) == first
    assert "epoch 1/2: " not in said  # nothing was trained again
