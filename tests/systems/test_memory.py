"""The memory of an epoch: what is read when, resuming, and several processes."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from limner.errors import CheckpointError
from limner.systems.complementary.config import ComplementaryConfig
from limner.systems.complementary.memory import EpochMemory
from limner.training import checkpoint

PLAIN = ComplementaryConfig.model_validate({"data": {"set": "pairs"}})


class Model:
    """Two heads of two numbers, which encode a row as its number."""

    dim, heads, device = 2, 2, torch.device("cpu")

    def encode_text(self, texts):
        return np.array([[[float(text)] * 2] * 2 for text in texts], np.float32)

    def encode_image(self, pictures):
        return self.encode_text(pictures) + 0.5


class Rows:
    """n rows, each with its number as a text and as a picture."""

    def __init__(self, n):
        self.texts, self.places = [str(row) for row in range(n)], np.arange(n)

    def __len__(self):
        return len(self.texts)


def memory(n=4, config=PLAIN):
    pictures = SimpleNamespace(take=lambda places: places)
    return EpochMemory(Model(), SimpleNamespace(train=Rows(n), pictures=pictures), config)


def written(held, rows, seed=0):
    draws = torch.Generator().manual_seed(seed)
    texts, images = torch.randn(2, len(rows), 2, 2, generator=draws)
    held.write(torch.tensor(rows), texts, images)
    return texts.mean(dim=1), images.mean(dim=1)


def test_what_is_written_is_read_when_the_epoch_is_over():
    held = memory()
    texts, images = written(held, [2, 0, 1])
    assert held.read() is None
    held.close(0)
    bank = held.read()
    assert torch.equal(bank.texts[[2, 0, 1]], texts)
    assert torch.equal(bank.images[[2, 0, 1]], images)
    assert bank.texts[3].tolist() == [3, 3]  # no batch held it, so it is encoded at the end
    assert bank.images[3].tolist() == [3.5, 3.5]
    assert bank.seen.all()
    before = bank.texts.clone()
    later, _ = written(held, [1], seed=1)
    assert torch.equal(held.read().texts, before)
    held.close(1)
    assert torch.equal(held.read().texts, torch.stack([before[0], later[0], before[2], before[3]]))


def test_aligned_keeps_all_heads():
    settings = {"data": {"set": "pairs"}, "method": "diversity", "weights": {"kmode": "aligned"}}
    held = memory(2, ComplementaryConfig.model_validate(settings))
    heads = torch.arange(8.0).view(2, 2, 2)
    held.write(torch.tensor([0, 1]), heads, heads)
    held.close(0)
    torch.testing.assert_close(held.read().texts, heads.flatten(1) / 2**0.5)


def test_a_warm_start_happens_once():
    held = memory()
    held.warm()
    first = held.read().texts.clone()
    assert first[:, 0].tolist() == [0, 1, 2, 3]
    written(held, [0])
    held.warm()
    assert torch.equal(held.read().texts, first)


def test_a_resumed_memory_is_the_same_bit_for_bit(tmp_path):
    whole = memory(5)
    written(whole, [0, 1, 4])
    whole.close(0)
    written(whole, [1, 2], seed=1)
    checkpoint.save(tmp_path / "bank.safetensors", whole.state(), {})
    resumed = memory(5)
    resumed.load_state(checkpoint.load(tmp_path / "bank.safetensors")[0])
    for held in (whole, resumed):
        written(held, [3], seed=7)
        held.close(1)
    assert whole.state().keys() == resumed.state().keys()
    for name, tensor in whole.state().items():
        assert torch.equal(tensor, resumed.state()[name])


def test_a_state_is_a_copy_and_vectors_are_detached():
    held = memory(2)
    values = torch.ones(1, 2, 2, requires_grad=True)
    held.write(torch.tensor([1]), values, values)
    state = held.state()
    held.close(0)
    assert state["bank.next.text"].tolist() == [[0, 0], [1, 1]]
    assert not held.read().texts.requires_grad
    with pytest.raises(CheckpointError, match=r"differs in bank\.seen"):
        memory(3).load_state(state)


RANKS = """
import sys
from pathlib import Path
import torch
import torch.distributed as dist
sys.path.insert(0, sys.argv[3])
from test_memory import memory
from limner.training import checkpoint
rank, folder = int(sys.argv[1]), Path(sys.argv[2])
dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
held = memory(5)
def write(rows, value):
    values = torch.full((len(rows), 2, 2), value)
    held.write(torch.tensor(rows), values, values)
write([rank, 2 + rank, 4], float(rank + 1))
held.close(0)
write([2 + rank], 7.0 + rank)
held.close(1)
checkpoint.save(folder / f"{rank}.safetensors", held.state(), {})
dist.destroy_process_group()
"""


@pytest.mark.slow
def test_processes_share_what_each_wrote(tmp_path):
    words = [sys.executable, "-c", RANKS]
    runs = [
        subprocess.Popen([*words, str(rank), str(tmp_path), str(Path(__file__).parent)]) for rank in range(2)
    ]
    assert [run.wait() for run in runs] == [0, 0]
    for rank in range(2):
        state = checkpoint.load(tmp_path / f"{rank}.safetensors")[0]
        assert state["bank.current.text"][:, 0].tolist() == [1, 2, 7, 8, 1.5]
        assert state["bank.seen"].all()
