"""Training on two machines with a shared disk, which are two of torchrun's agents in one folder here."""

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import whole_batch
from forked import codes, started

from limner.cli.main import run as limner
from limner.research.training import checkpoint, processes
from limner.research.training.checkpoint import BEST, HISTORY

pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.name == "nt", reason="torchrun is of Unix")]
ROOT = Path(__file__).parents[3]
PATIENCE_S = 300
TRAIN = ("train", str(ROOT / "configs" / "cmcm" / "cmcm.toml"), "--data", "picturebook", "--to", "run")
SMALL = (
    "--smoke",
    "--json",
    "--set",
    "data.vectors=random",
    "--set",
    "data.picture_px=32",
    "--set",
    "loop.seed=1",
)

# ``limner`` that breaks down in the second process after nine steps: "lost" with its machine, or "failed".
BREAKS = """
import os, signal, sys
from limner.cli.main import main
from limner.errors import DataError
from limner.research.training.loop import Loop

how, step = sys.argv[1], Loop._step

def breaking(self, batch):
    if self._rank == 1 and self._state.position.taken == 9:
        if how == "failed":
            raise DataError("picture 7 is gone")
        os.kill(os.getppid(), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)
    step(self, batch)

Loop._step = breaking
sys.argv[1:] = sys.argv[2:]
main()
"""


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def nodes(folders, *words):
    """Start the same words on two machines; (exit code, stdout, stderr) of each."""
    meeting = f"127.0.0.1:{free_port()}"
    start = ["-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "1"]
    start += ["--rdzv-backend", "c10d", "--rdzv-id", "books", "--rdzv-endpoint", meeting]
    paths = os.pathsep.join([str(ROOT / "tests" / "support"), *sys.path])
    running = [
        subprocess.Popen(
            [sys.executable, *start, *words],
            cwd=folder,
            env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": paths},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for folder in folders
    ]
    try:
        streams = [one.communicate(timeout=PATIENCE_S) for one in running]
    finally:
        for one in running:
            if one.poll() is None:
                one.kill()
    return [(one.returncode, *both) for one, both in zip(running, streams, strict=True)]


def lines(said):
    """What limner itself said."""
    return [line for line in said.splitlines() if line.startswith("limner: ")]


def history(folder):
    return [json.loads(line) for line in (folder / HISTORY).read_text().splitlines()]


def takes_part(rank, folder, port):
    """As one machine of two: gradients of which the second reaches more, then every run that there is."""
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    os.environ.update(place, WORLD_SIZE="2", RANK=str(rank), LOCAL_RANK="0")
    processes.join("cpu")
    model = torch.nn.ModuleList(torch.nn.Linear(1, 1) for _ in range(3))
    reached = model[:2] if rank else model[:1]
    sum(4 * part.weight.sum() for part in reached).backward()
    processes.average_gradients(model)
    slopes = [None if part.weight.grad is None else float(part.weight.grad) for part in model]
    (folder / f"{rank}.json").write_text(json.dumps(slopes))
    whole_batch.main(folder)


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """The runs of two processes as torchrun starts them, forked from one that has torch."""
    folder, port = tmp_path_factory.mktemp("nodes"), free_port()
    assert codes(started(takes_part, *((rank, folder, port) for rank in range(2)))) == [0, 0]
    return folder


def test_two_processes_have_the_figures_of_one_with_the_whole_batch(two, tmp_path):
    """Every loss there is, over uneven halves: the same losses and validation figures but for rounding."""
    whole_batch.main(tmp_path)
    for name in whole_batch.RUNS:
        due, got = history(tmp_path / name), history(two / name)
        assert len(due) == len(got) == 2
        for one, other in zip(due, got, strict=True):
            assert other["loss"] == pytest.approx(one["loss"], rel=3e-5, abs=1e-7), name
            assert other["val"] == pytest.approx(one["val"], rel=3e-5), name
    # kept by rows: of forty pairs each process has twenty, where one process has all
    sizes = [(way / "hal" / "bank" / "0-0.text").stat().st_size for way in (tmp_path, two)]
    assert sizes[0] == 2 * sizes[1]


def test_what_the_share_of_one_process_does_not_reach_is_averaged_all_the_same(two):
    assert [json.loads((two / f"{rank}.json").read_text()) for rank in range(2)] == [[4, 2, None]] * 2


@pytest.mark.soak
def test_a_run_survives_the_loss_of_a_machine(tmp_path, capsys):
    first = tmp_path / "first"
    first.mkdir()
    folders = [first, first]
    script = tmp_path / "breaks.py"
    script.write_text(BREAKS)
    lost = nodes(folders, str(script), "lost", *TRAIN, *SMALL)
    assert all(code for code, _, _ in lost)
    (line,) = [line for _, _, err in lost for line in lines(err)]
    assert line.startswith(f"limner: node {socket.gethostname()}, process ")
    assert "another process is gone" in line

    failed = nodes(folders, str(script), "failed", *TRAIN, *SMALL)
    said = [line for _, _, err in failed for line in lines(err)]
    assert said == [f"limner: node {socket.gethostname()}, process 1 of 2: picture 7 is gone"]

    # one process can go on, or both machines
    shutil.copytree(first / "run", tmp_path / "fewer")
    assert limner([*TRAIN[:-1], str(tmp_path / "fewer"), *SMALL]) == 0
    capsys.readouterr()
    done = nodes(folders, "-m", "limner", *TRAIN, *SMALL)
    assert [code for code, _, _ in done] == [0, 0], done[0][2]
    (printed,) = [json.loads(out) for _, out, _ in done if out.strip()]
    assert (printed["epochs"], printed["steps"]) == (2, 10)
    assert checkpoint.load(first / "run" / BEST)

    # the same as of one process, but for rounding, and measured by both to the bit as by one
    assert limner([*TRAIN[:-1], str(tmp_path / "alone"), *SMALL]) == 0
    capsys.readouterr()
    for other in (first / "run", tmp_path / "fewer"):
        for one, two in zip(history(tmp_path / "alone"), history(other), strict=True):
            assert two["loss"] == pytest.approx(one["loss"], rel=3e-5)
    shutil.copytree(first / "run", tmp_path / "copy")
    assert limner(["measure", str(tmp_path / "copy"), "--json"]) == 0
    alone = json.loads(capsys.readouterr().out)
    both = nodes(folders, "-m", "limner", "measure", "run", "--json")
    assert [code for code, _, _ in both] == [0, 0], both[0][2]
    (together,) = [json.loads(out) for _, out, _ in both if out.strip()]
    assert [row | {"run": ""} for row in together] == [row | {"run": ""} for row in alone]
    results = [path for path in (tmp_path / "copy" / "results").rglob("*") if path.is_file()]
    assert results
    for path in results:
        assert (first / "run" / path.relative_to(tmp_path / "copy")).read_bytes() == path.read_bytes()
