"""The memory bank: what is read when, resuming, and several processes."""

import subprocess
import sys

import pytest
import torch

from limner.errors import CheckpointError, ConfigError, NumericsError, ShapeError
from limner.training import checkpoint
from limner.training.bank import MemoryBank

WIDTHS = {"text": 3, "image": 2}


def fill(bank, epoch, rows, seed=0):
    draws = torch.Generator().manual_seed(100 * epoch + seed)
    values = {name: torch.randn(len(rows), width, generator=draws) for name, width in WIDTHS.items()}
    for name, held in values.items():
        bank.write(name, torch.tensor(rows), held)
    return values


def test_what_is_written_is_read_after_the_swap_only():
    bank = MemoryBank(4, WIDTHS)
    values = fill(bank, 0, [2, 0])
    assert bank.read("text") is None
    assert not bank.seen.any()
    bank.swap(0)
    assert torch.equal(bank.read("text")[[2, 0]], values["text"])
    assert torch.equal(bank.read("image")[[2, 0]], values["image"])
    assert bank.read("text")[[1, 3]].abs().sum() == 0
    assert bank.seen.tolist() == [True, False, True, False]
    before = bank.read("text").clone()
    fill(bank, 1, [0, 1])
    assert torch.equal(bank.read("text"), before)


def test_items_that_are_not_written_keep_their_vector():
    bank = MemoryBank(4, WIDTHS)
    first = fill(bank, 0, [0, 1, 2])
    bank.swap(0)
    second = fill(bank, 1, [1, 3])
    bank.swap(1)
    table = bank.read("text")
    assert torch.equal(table[0], first["text"][0])
    assert torch.equal(table[1], second["text"][0])
    assert torch.equal(table[2], first["text"][2])
    assert torch.equal(table[3], second["text"][1])
    bank.swap(2)  # an epoch that wrote nothing changes nothing
    assert torch.equal(bank.read("text"), table)
    assert bank.seen.all()


def test_an_epoch_swaps_once_also_after_a_resume():
    bank = MemoryBank(3, WIDTHS)
    fill(bank, 0, [0, 1, 2])
    bank.swap(0)
    before = bank.read("image").clone()
    fill(bank, 1, [0])
    bank.swap(0)
    assert torch.equal(bank.read("image"), before)
    again = MemoryBank(3, WIDTHS)
    again.load_state(bank.state())
    again.swap(0)
    assert torch.equal(again.read("image"), before)
    again.swap(1)
    assert not torch.equal(again.read("image"), before)
    with pytest.raises(ConfigError, match="epoch 0 ended after epoch 1"):
        again.swap(0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_a_resumed_bank_is_the_same_bit_for_bit(tmp_path, dtype):
    whole = MemoryBank(5, WIDTHS, dtype)
    fill(whole, 0, [0, 1, 4])
    whole.swap(0)
    fill(whole, 1, [1, 2])
    checkpoint.save(tmp_path / "bank.safetensors", whole.state(), {})
    resumed = MemoryBank(5, WIDTHS, dtype)
    resumed.load_state(checkpoint.load(tmp_path / "bank.safetensors")[0])
    for bank in (whole, resumed):
        fill(bank, 1, [3], seed=7)
        bank.swap(1)
    assert whole.state().keys() == resumed.state().keys()
    for name, tensor in whole.state().items():
        assert torch.equal(tensor, resumed.state()[name])
        assert tensor.dtype == resumed.state()[name].dtype
    assert whole.read("text").dtype == dtype


def test_a_state_is_a_copy_and_vectors_are_detached():
    bank = MemoryBank(2, {"text": 2})
    values = torch.ones(1, 2, requires_grad=True)
    bank.write("text", torch.tensor([1]), values)
    state = bank.state()
    bank.swap(0)
    assert state["next.text"].tolist() == [[0, 0], [1, 1]]
    assert not bank.read("text").requires_grad


def test_an_item_is_seen_once_it_has_a_vector_of_every_name():
    bank = MemoryBank(2, WIDTHS)
    bank.write("text", torch.tensor([0, 1]), torch.ones(2, 3))
    bank.write("image", torch.tensor([1]), torch.ones(1, 2))
    bank.swap(0)
    assert bank.seen.tolist() == [False, True]


def test_what_does_not_fit_is_refused():
    bank = MemoryBank(3, WIDTHS, torch.float16)
    with pytest.raises(ConfigError, match="did you mean 'text'"):
        bank.write("texts", torch.tensor([0]), torch.ones(1, 3))
    with pytest.raises(ConfigError, match="unknown name"):
        bank.read("sound")
    with pytest.raises(ShapeError, match="values has shape"):
        bank.write("text", torch.tensor([0]), torch.ones(1, 2))
    for rows in ([3], [-1], [0, 0]):
        with pytest.raises(ShapeError, match="distinct int64 from 0 to 2"):
            bank.write("text", torch.tensor(rows), torch.ones(len(rows), 3))
    with pytest.raises(NumericsError, match="'text' is not finite"):
        bank.write("text", torch.tensor([0]), torch.full((1, 3), 1e6))
    for other in (MemoryBank(4, WIDTHS), MemoryBank(3, {"text": 3}), MemoryBank(3, WIDTHS)):
        with pytest.raises(CheckpointError, match=r"differs in current\."):
            bank.load_state(other.state())
    for bad in ((0, WIDTHS, torch.float32), (3, {}, torch.float32), (3, WIDTHS, torch.int64)):
        with pytest.raises(ConfigError, match="memory bank"):
            MemoryBank(*bad)


RANKS = """
import sys
from pathlib import Path
import torch
import torch.distributed as dist
from limner.training import checkpoint
from limner.training.bank import MemoryBank
rank, folder = int(sys.argv[1]), Path(sys.argv[2])
dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
bank = MemoryBank(5, {"text": 2})
bank.write("text", torch.tensor([rank, 4]), torch.full((2, 2), float(rank + 1)))
bank.swap(0)
bank.swap(0)
bank.write("text", torch.tensor([2 + rank]), torch.full((1, 2), 7.0 + rank))
bank.swap(1)
checkpoint.save(folder / f"{rank}.safetensors", bank.state(), {})
dist.destroy_process_group()
"""


@pytest.mark.slow
def test_processes_share_what_each_wrote(tmp_path):
    words = [sys.executable, "-c", RANKS]
    runs = [subprocess.Popen([*words, str(rank), str(tmp_path)]) for rank in range(2)]
    assert [run.wait() for run in runs] == [0, 0]
    states = [checkpoint.load(tmp_path / f"{rank}.safetensors")[0] for rank in range(2)]
    for state in states:
        assert state["current.text"].tolist() == [[1, 1], [2, 2], [7, 7], [8, 8], [1.5, 1.5]]
        assert state["seen"].all()
