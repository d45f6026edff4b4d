"""``limner train`` from the settings file to the result, its stops and its refusals."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
import torch
from cyclopts import App

from limner.checksums import unseal
from limner.cli.main import run
from limner.errors import CheckpointError, ConfigError, MissingError
from limner.research.cli.train import train
from limner.research.evaluation.refinement import REFINEMENT
from limner.research.systems.cmcm import SYSTEM
from limner.research.training import checkpoint
from limner.research.training.checkpoint import BEST, HISTORY, RESUME

CONFIGS = Path(__file__).parents[3] / "configs"
FILE = CONFIGS / "cmcm" / "cmcm.toml"
SMALL = ("data.vectors=random", "data.picture_px=32")


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.slow
def test_a_smoke_run_trains_saves_and_prints(tmp_path, capsys):
    train(FILE, data="picturebook", to=tmp_path, set_=SMALL, smoke=True, json=True)
    printed = capsys.readouterr()
    found = json.loads(printed.out)
    assert found["epochs"] == 2
    assert {"MedR", "R@1", "R@5", "R@10", "MRR", "mAP"} == set(found["validation"])
    stored = tmp_path / REFINEMENT
    assert found["refinement"] == json.loads(unseal(stored.read_bytes(), stored, ""))
    assert "preset release, deviations: " in printed.err
    assert "epoch 2/2: total " in printed.err
    assert len((tmp_path / HISTORY).read_text().splitlines()) == 2
    model, settings = SYSTEM.load(tmp_path)
    assert len(model.relations) == 13
    assert settings.row == "CMCM"
    # again: nothing is left to do, the result is the same
    train(FILE, data="picturebook", to=tmp_path, set_=SMALL, smoke=True, json=True)
    assert json.loads(capsys.readouterr().out) == found
    with pytest.raises(CheckpointError, match="other settings"):
        train(FILE, data="picturebook", to=tmp_path, set_=(*SMALL, "loss.margin=0.2"), smoke=True)


def test_a_baseline_has_no_refinement(tmp_path, capsys):
    train(CONFIGS / "cmcm" / "base.toml", data="picturebook", to=tmp_path, set_=SMALL, smoke=True)
    assert "best epoch" in capsys.readouterr().out
    assert not (tmp_path / REFINEMENT).exists()
    assert SYSTEM.load(tmp_path)[0].relations == ()


@pytest.mark.slow
def test_tensorboard_is_written_when_asked_and_refused_in_one_line_without_its_package(tmp_path, monkeypatch):
    pytest.importorskip("tensorboard", reason="the extra 'tensorboard' is not installed")
    train(FILE, data="picturebook", to=tmp_path / "run", set_=SMALL, smoke=True, tensorboard=True)
    assert list((tmp_path / "run" / "tensorboard").glob("events.out.tfevents.*"))
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(MissingError, match=r"limner\[tensorboard\]"):
        train(FILE, data="picturebook", to=tmp_path / "none", set_=SMALL, smoke=True, tensorboard=True)
    assert not (tmp_path / "none").exists()


def test_misuse_is_one_line(tmp_path, monkeypatch):
    with pytest.raises(ConfigError, match=r"did you mean 'loop\.lr'"):
        train(FILE, data="picturebook", to=tmp_path, set_=("loop.lrr=1",))
    with pytest.raises(ConfigError, match="did you mean 'MedR'"):
        train(FILE, data="picturebook", to=tmp_path, set_=("loop.metric=MedRR",))
    with pytest.raises(ConfigError, match="cannot be read"):
        train(tmp_path / "none.toml", to=tmp_path)
    monkeypatch.delenv("LIMNER_DATA", raising=False)
    with pytest.raises(ConfigError, match=r"set data\.annotations or \$LIMNER_DATA"):
        train(FILE, data="clue", to=tmp_path)
    monkeypatch.setenv("LIMNER_DATA", str(tmp_path))
    with pytest.raises(MissingError, match=r"clue: .*clue: found no such folder"):
        train(FILE, data="clue", to=tmp_path)
    assert not (tmp_path / BEST).exists()


def test_options_are_spelt_as_documented(tmp_path, monkeypatch):
    seen = {}
    monkeypatch.setattr(
        "limner.research.runs.train.read_config",
        lambda path, words, data: seen.update(words=words, data=data) or 1 / 0,
    )
    app = App()
    app.default(train)
    with pytest.raises(ZeroDivisionError):
        app(
            [
                str(FILE),
                "--to",
                str(tmp_path),
                "--data",
                "clue",
                "--set",
                "a.b=1",
                "--set",
                "c=2",
                "--finetune",
            ],
            exit_on_error=False,
        )
    assert seen == {"words": ["a.b=1", "c=2", "backbone=finetune"], "data": "clue"}


# ``limner`` whose training waits after its n-th step until a signal comes; then it runs on as it would have.
WAITING = """
import os, signal, sys
from pathlib import Path
from limner.cli.main import main
from limner.research.training.loop import Loop

at, marks = int(sys.argv[1]), Path(sys.argv[2])
step = Loop._step

def waiting(self, batch):
    step(self, batch)
    if self._state.position.taken == at:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        part = marks / f"{os.getpid()}.part"
        part.touch()
        part.rename(marks / str(os.getpid()))
        signal.sigwait({signal.SIGTERM})
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        signal.raise_signal(signal.SIGTERM)

Loop._step = waiting
sys.argv[1:] = sys.argv[3:]
main()
"""
TORCHRUN = ("torch.distributed.run", "--standalone", "--nproc-per-node", "2")
LONGER = (*SMALL, "loop.epochs=2")
PATIENCE_S = 300


def command(to, settings, *before):
    """Words that train in a folder, in one process or in two."""
    words = ["train", str(FILE), "--data", "picturebook", "--to", str(to), "--smoke", "--json"]
    return [sys.executable, *before, *words, *(word for one in settings for word in ("--set", one))]


def start(words):
    return subprocess.Popen(
        words,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finished(to, processes):
    """What training in a folder to its end printed on both streams; one process is this one."""
    if processes == 1:
        out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            assert run(command(to, LONGER)[1:]) == 0, err.getvalue()
        out.seek(0)
        return out.read(), err.getvalue()
    process = start(command(to, LONGER, "-m", *TORCHRUN, "-m", "limner"))
    try:
        out, said = process.communicate(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.terminate()  # torchrun ends its processes with it
        raise
    assert process.returncode == 0, said
    return out, said


def stopped(folder, number, *, at, processes):
    """Train up to a step, where a signal comes; the exit code and what was said."""
    script, marks = folder / "waiting.py", folder / f"marks-{at}"
    script.write_text(WAITING)
    marks.mkdir()
    how = ("-m", *TORCHRUN) if processes > 1 else ()
    process = start(command(folder / "cut", LONGER, *how, str(script), str(at), str(marks)))
    until = time.monotonic() + PATIENCE_S
    try:
        while len(waiting := [int(m.name) for m in marks.iterdir() if not m.suffix]) < processes:
            assert process.poll() is None, process.communicate()[1]
            assert time.monotonic() < until, "training never came to the step"
            time.sleep(0.05)
        if number == signal.SIGKILL:
            for one in waiting:
                os.kill(one, number)
        else:
            process.send_signal(number)
        _, said = process.communicate(timeout=PATIENCE_S)
    finally:
        if process.poll() is None:
            process.terminate()
    return process.returncode, said


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Number of processes → folder, output and words of a run that nothing stopped; each trained once."""
    made = {}

    def run(processes):
        if processes not in made:
            folder = tmp_path_factory.mktemp("whole") / str(processes)
            made[processes] = (folder, *finished(folder, processes))
        return made[processes]

    return run


@pytest.mark.soak
@pytest.mark.skipif(os.name == "nt", reason="signals are of Unix")
@pytest.mark.parametrize(("processes", "killed", "ended"), [(1, 9, 10), (2, 9, 10)])
def test_a_stopped_run_goes_on_to_the_same_result(tmp_path, whole, processes, killed, ended):
    """In the middle of the second of two epochs (12 steps, saved every 4)."""
    # A kill loses what came after the last save; a stop saves the step it comes at.
    for number, at, saved in ((signal.SIGKILL, killed, killed - 1), (signal.SIGTERM, ended, ended)):
        code, said = stopped(tmp_path, number, at=at, processes=processes)
        assert code != 0
        assert said.count("stopped: run the same command again to continue") == (number == signal.SIGTERM)
        assert checkpoint.load(tmp_path / "cut" / RESUME)[1]["position"]["taken"] == saved
        assert len((tmp_path / "cut" / HISTORY).read_text().splitlines()) == 1
    resumed, _ = finished(tmp_path / "cut", processes)
    folder, out, _ = whole(processes)
    assert json.loads(resumed)["epochs"] == 2
    assert resumed == out
    assert (tmp_path / "cut" / HISTORY).read_text() == (folder / HISTORY).read_text()
    ours, theirs = (checkpoint.load(place / BEST)[0] for place in (tmp_path / "cut", folder))
    for name, tensor in theirs.items():
        assert torch.equal(ours[name], tensor), name


@pytest.mark.soak
def test_two_processes_of_torchrun_make_one_run_and_go_on_with_it(whole):
    folder, out, said = whole(2)
    first = json.loads(out)  # one process prints, or this would be two results
    assert (first["epochs"], first["steps"]) == (2, 12)
    assert said.count("epoch 1/2: ") == said.count("epoch 2/2: ") == 1
    assert said.count("training and ") == 1
    made = {BEST, HISTORY, REFINEMENT, RESUME, "digests.json", "lock"}
    assert {file.name for file in folder.iterdir()} == made
    assert len((folder / HISTORY).read_text().splitlines()) == 2
    assert len(SYSTEM.load(folder)[0].relations) == 13
    out, said = finished(folder, 2)
    assert json.loads(out) == first
    assert "epoch 1/2: " not in said  # nothing was trained again
