"""The memory of an epoch: what is read when, resuming, and several processes."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from forked import codes, started
from torch import distributed

from limner.errors import CheckpointError
from limner.research.systems.complementary.memory import FOLDER, EpochMemory, states
from limner.research.systems.complementary.model import ComplementaryConfig
from limner.research.training import checkpoint

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


def memory(n=4, config=PLAIN, folder=None):
    pictures = SimpleNamespace(take=lambda places: places)
    made = EpochMemory(Model(), SimpleNamespace(train=Rows(n), pictures=pictures), config)
    if folder is not None:
        made.open(folder)
    return made


def written(held, rows, seed=0):
    draws = torch.Generator().manual_seed(seed)
    texts, images = torch.randn(2, len(rows), 2, 2, generator=draws)
    held.write(torch.tensor(rows), texts, images)
    return texts.mean(dim=1), images.mean(dim=1)


def test_what_is_written_is_read_when_the_epoch_is_over():
    held = memory()
    texts, images = written(held, [2, 0, 1])
    assert held.read() is None
    held.close()
    bank = held.read()
    assert torch.equal(bank.texts[[2, 0, 1]], texts)
    assert torch.equal(bank.images[[2, 0, 1]], images)
    assert bank.texts[3].tolist() == [3, 3]  # no batch held it, so it is encoded at the end
    assert bank.images[3].tolist() == [3.5, 3.5]
    assert bank.seen.all()
    before = bank.texts.clone()
    later, _ = written(held, [1], seed=1)
    assert torch.equal(held.read().texts, before)
    held.close()
    assert torch.equal(held.read().texts, torch.stack([before[0], later[0], before[2], before[3]]))


def test_aligned_keeps_all_heads():
    settings = {"data": {"set": "pairs"}, "method": "diversity", "weights": {"kmode": "aligned"}}
    held = memory(2, ComplementaryConfig.model_validate(settings))
    heads = torch.arange(8.0).view(2, 2, 2)
    held.write(torch.tensor([0, 1]), heads, heads)
    held.close()
    torch.testing.assert_close(held.read().texts, heads.flatten(1) / 2**0.5)


def test_a_warm_start_happens_once():
    held = memory()
    held.warm()
    first = held.read().texts.clone()
    assert first[:, 0].tolist() == [0, 1, 2, 3]
    written(held, [0])
    held.warm()
    assert torch.equal(held.read().texts, first)


def epoch(held, first, taken=None, saved=None):
    """Steps of an epoch, each of a row that follows from its number, with what is saved after each."""
    states = []
    for row in range(*(taken or (0, 5))):
        written(held, [row], seed=100 * first + row)
        states.append(held.state())
    return states


@pytest.mark.parametrize("steps", range(6))
@pytest.mark.parametrize("beyond", ["steps", "epoch", "encoding"])
def test_what_a_kill_leaves_behind_does_no_harm(tmp_path, steps, beyond):
    """Saved after some steps of the second epoch, killed later, also after the tables have changed roles."""
    whole, cut = memory(6, folder=tmp_path / "whole"), memory(6, folder=tmp_path / "cut")
    for held in (whole, cut):
        epoch(held, 1)  # row 5 is encoded
        held.close()
        before = held.state()
        saved = (
            [before, *epoch(held, 2, (0, 5))] if held is whole else [before, *epoch(held, 2, (0, steps))]
        )[steps]
    checkpoint.save(tmp_path / "saved.safetensors", saved, {})
    if beyond != "steps":
        epoch(cut, 2, (steps, 5))
        cut.close()
    elif steps < 5:
        epoch(cut, 2, (steps, steps + 1))
    if beyond == "encoding":
        cut.state()
    resumed = memory(6, folder=tmp_path / "cut")
    resumed.load_state(checkpoint.load(tmp_path / "saved.safetensors")[0])
    due = memory(6)
    epoch(due, 1)
    due.close()
    assert torch.equal(resumed.read().texts, due.read().texts)
    for held in (resumed, due):
        epoch(held, 2, (steps if held is resumed else 0, 5))
        held.close()
    whole.close()
    for one, two, three in zip(resumed.read()[:3], due.read()[:3], whole.read()[:3], strict=True):
        assert torch.equal(one, two)
        assert torch.equal(two, three)


def test_tables_lie_beside_the_checkpoint_and_not_in_it(tmp_path):
    held = memory(1000, folder=tmp_path)
    epoch(held, 1)
    state = held.state()
    assert sum(tensor.nbytes for tensor in state.values()) < 1000 + 100
    files = sorted(path.name for path in (tmp_path / FOLDER).iterdir())
    assert files == [f"0-{table}.{name}" for table in (0, 1) for name in ("image", "stamps", "sums", "text")]
    assert (tmp_path / FOLDER / "0-0.text").stat().st_size == 1000 * 2 * 4


def half_way(folder):
    """Saved in the middle of the second epoch: the checkpoint, and how the epoch ends without a stop."""
    held = memory(6, folder=folder)
    epoch(held, 1)
    held.close()
    epoch(held, 2, (0, 3))
    saved = held.state()
    epoch(held, 2, (3, 5))
    held.close()
    return saved, [one.clone() for one in held.read()[:3]]


def gone_on(folder, saved):
    resumed = memory(6, folder=folder)
    resumed.load_state(saved)
    resumed.read()
    epoch(resumed, 2, (3, 5))
    resumed.close()
    return resumed.read()[:3]


@pytest.mark.parametrize("table", [0, 1])
@pytest.mark.parametrize("name", ["text", "image", "stamps", "sums"])
def test_a_flipped_bit_is_found_or_changes_nothing(tmp_path, table, name):
    saved, due = half_way(tmp_path)
    path, found = tmp_path / FOLDER / f"0-{table}.{name}", []
    files = {one: one.read_bytes() for one in path.parent.iterdir()}
    for place in range(0, len(files[path]), 5):
        for one, content in files.items():
            one.write_bytes(content)
        data = bytearray(files[path])
        data[place] ^= 1 << place % 8
        path.write_bytes(data)
        try:
            assert all(
                torch.equal(one, other) for one, other in zip(gone_on(tmp_path, saved), due, strict=True)
            )
        except CheckpointError as error:
            found.append(str(error))
    assert found
    assert all("damaged (checksum differs), first row" in line for line in found)


def test_a_state_is_a_copy_and_vectors_are_detached(tmp_path):
    held = memory(2, folder=tmp_path)
    values = torch.ones(1, 2, 2, requires_grad=True)
    held.write(torch.tensor([1]), values, values)
    state = held.state()
    held.close()
    assert not state["bank.seen"].any()
    assert not held.read().texts.requires_grad
    with pytest.raises(CheckpointError, match=r"found 2 pairs of width 2, expected 3 pairs"):
        memory(3).load_state(state)
    with pytest.raises(CheckpointError, match="found none, expected 2 pairs"):
        memory(2).load_state({})
    (tmp_path / FOLDER / "0-1.text").write_bytes(b"short")
    cut = memory(2, folder=tmp_path)
    cut.load_state(held.state())
    with pytest.raises(CheckpointError, match=r"0-1\.text: 5 bytes, expected 16; train in another folder"):
        cut.read()


def shares(rank, folder):
    """Write and read the vectors of a memory as one of two processes."""
    distributed.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    held = memory(5, folder=folder)

    def write(rows, values):
        both = torch.tensor(values)[:, None, None].expand(-1, 2, 2)
        held.write(torch.tensor(rows), both, both)

    write([0, 2, 4, 3], [1.0, 3.0, 5.0, 4.0])  # every process is told of the whole batch
    held.close()
    write([1, 2], [7.0, 8.0])
    held.close()
    write([4, 0], [9.0, 6.0])
    state = held.state()
    distributed.barrier()
    if rank == 0:
        checkpoint.save(folder / "saved.safetensors", state, {})
    distributed.barrier()
    again = memory(5, folder=folder)
    again.load_state(checkpoint.load(folder / "saved.safetensors")[0])
    again.close()
    first, second = held.read(), again.read()
    usable = torch.tensor([[True, True, True, True, False]])
    near = first.nearest([first.texts[:, 0][None]], first.texts[:, 0][None], usable[:, first.rows], 2)
    bank = {"first": first.texts.clone(), "second": second.texts.clone(), "near": near[0][near[1]]}
    checkpoint.save(folder / f"{rank}.safetensors", bank, {})
    distributed.destroy_process_group()


@pytest.mark.slow
def test_processes_share_the_rows(tmp_path):
    assert codes(started(shares, *((rank, tmp_path) for rank in range(2)))) == [0, 0]
    found = [checkpoint.load(tmp_path / f"{rank}.safetensors")[0] for rank in range(2)]
    assert [state["first"][:, 0].tolist() for state in found] == [[1, 7, 8], [4, 5]]  # each has its own rows
    assert [state["second"][:, 0].tolist() for state in found] == [[6, 7, 8], [4, 9]]  # resumed
    for state in found:  # the nearest of all shares, but for the last row, which is not usable
        assert set(state["near"].tolist()) == {8, 7, 4}
    saved = checkpoint.load(tmp_path / "saved.safetensors")[0]
    assert sorted(sound for _, sound in states(tmp_path, saved)) == [True, True]
    with pytest.raises(CheckpointError, match="saved by 2 processes, now 1; resume with the same number"):
        memory(5, folder=tmp_path).load_state(saved)
