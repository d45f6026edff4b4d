import os
import signal
from pathlib import Path

import pytest
import torch
from forked import codes, started
from torch import nn

from limner.errors import CheckpointError, MissingError
from limner.research.training import checkpoint


def test_round_trip_of_tensors_and_state(tmp_path):
    path = tmp_path / "a.safetensors"
    shared = torch.arange(6.0).view(2, 3)
    checkpoint.save(path, {"a": shared, "b": shared.t(), "c": torch.tensor(3)}, {"x": [1, None, "é"]})
    tensors, state = checkpoint.load(path)
    assert torch.equal(tensors["a"], shared)
    assert torch.equal(tensors["b"], shared.t())
    assert tensors["c"].item() == 3
    assert state == {"x": [1, None, "é"]}
    assert [p.name for p in tmp_path.glob("*.safetensors")] == ["a.safetensors"]


@pytest.mark.skipif(os.name == "nt", reason="folders are synced on Unix alone")
def test_a_checkpoint_and_its_name_are_on_the_disk_when_it_is_saved(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append(os.fstat(handle).st_ino))
    path = tmp_path / "a.safetensors"
    checkpoint.save(path, {"a": torch.ones(2)}, {"n": 1})
    assert synced[:2] == [path.stat().st_ino, tmp_path.stat().st_ino]  # its digest comes after it


def test_a_full_disk_leaves_the_last_good_one(tmp_path, monkeypatch):
    path = tmp_path / "a.safetensors"
    checkpoint.save(path, {"a": torch.ones(2)}, {"n": 1})

    def full(tensors, name, metadata):
        Path(name).write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("limner.research.training.checkpoint.save_file", full)
    with pytest.raises(CheckpointError, match=r"No space left.*intact"):
        checkpoint.save(path, {"a": torch.zeros(2)}, {"n": 2})
    assert checkpoint.load(path)[1] == {"n": 1}
    assert [p.name for p in tmp_path.glob("*.safetensors")] == ["a.safetensors"]


def grows(path, said):
    """Save more than the system lets a file hold; the error goes to a file."""
    import resource

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
    try:
        checkpoint.save(path, {"a": torch.zeros(200_000)}, {"n": 2})
    except CheckpointError as error:
        said.write_text(str(error))


@pytest.mark.skipif(os.name == "nt", reason="limits of files are of Unix")
@pytest.mark.slow
def test_a_file_that_the_system_refuses_to_grow_leaves_the_last_good_one(tmp_path):
    path = tmp_path / "a.safetensors"
    checkpoint.save(path, {"a": torch.ones(2)}, {"n": 1})
    said = tmp_path / "said"
    assert codes(started(grows, (path, said))) == [0]
    assert "checkpoint not written" in said.read_text()
    assert "\n" not in said.read_text()
    assert checkpoint.load(path)[1] == {"n": 1}
    assert [p.name for p in tmp_path.glob("*.safetensors")] == ["a.safetensors"]


@pytest.mark.parametrize("content", [b"", b"junk" * 100, None])
def test_what_is_no_checkpoint_fails_closed(tmp_path, content, executable_payload):
    path, proof = tmp_path / "a.safetensors", tmp_path / "proof"
    path.write_bytes(executable_payload(proof) if content is None else content)
    with pytest.raises(CheckpointError, match="nothing was loaded"):
        checkpoint.load(path)
    assert not proof.exists()


def test_a_foreign_safetensors_file_is_named(tmp_path):
    from safetensors.torch import save_file

    save_file({"a": torch.ones(1)}, tmp_path / "a.safetensors")
    with pytest.raises(CheckpointError, match="format None"):
        checkpoint.load(tmp_path / "a.safetensors")
    with pytest.raises(MissingError, match="no such checkpoint"):
        checkpoint.load(tmp_path / "b.safetensors")


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda s: s.pop("bias"), "missing: bias"),
        (lambda s: s.update(more=torch.ones(1)), "unexpected: more"),
        (lambda s: s.update(bias=torch.ones(5)), "another shape: bias"),
    ],
)
def test_weights_load_with_strict_keys(change, match):
    model = nn.Linear(2, 3)
    before = model.weight.clone()
    state = {name: torch.zeros_like(t) for name, t in model.state_dict().items()}
    change(state)
    with pytest.raises(CheckpointError, match=match):
        checkpoint.load_into(model, state, "run")
    assert torch.equal(model.weight, before)


def test_prefixes_keep_sets_apart():
    both = checkpoint.prefixed("a", {"x": torch.ones(1)}) | checkpoint.prefixed("b", {"x": torch.zeros(1)})
    assert checkpoint.part("a", both)["x"].item() == 1
    assert checkpoint.part("b", both)["x"].item() == 0


def test_a_flipped_bit_is_found_or_changes_nothing(tmp_path):
    path = tmp_path / "a.safetensors"
    tensors = {"a": torch.arange(6.0).view(2, 3), "b": torch.tensor(3), "c": torch.ones(5).bfloat16()}
    checkpoint.save(path, tensors, {"x": [1, None, "é"]})
    whole, found = path.read_bytes(), 0
    for number in range(len(whole)):
        data = bytearray(whole)
        data[number] ^= 1 << number % 8
        path.write_bytes(data)
        try:
            held, state = checkpoint.load(path)
        except CheckpointError:
            found += 1
            continue
        assert state == {"x": [1, None, "é"]}, number
        assert all(torch.equal(held[name], tensors[name]) for name in tensors), number
    assert found > 0.8 * len(whole)
