"""Where weights are looked for, in which order, and what is told when there are none."""

import hashlib
import os

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from limner.encoders.weight_files import (
    Arrays,
    WeightFile,
    belongs_to,
    find,
    find_clip,
    hf_folder,
    hub_folder,
    read_sentence_files,
    read_state,
)
from limner.errors import CheckpointError, MissingError


@pytest.fixture(autouse=True)
def places(tmp_path, monkeypatch):
    """An empty machine."""
    monkeypatch.delenv("LIMNER_WEIGHTS", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    hub = tmp_path / "torch" / "hub" / "checkpoints"
    hub.mkdir(parents=True)
    return hub


def put(folder, name, content=b"x"):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content)
    return folder / name


def test_order_is_given_then_variable_then_hub(tmp_path, places, monkeypatch):
    in_hub = put(places, "resnet50-0676ba61.pth")
    assert find("resnet50") == WeightFile(in_hub, "torch hub cache")
    in_variable = put(tmp_path / "mine", "resnet50.safetensors")
    monkeypatch.setenv("LIMNER_WEIGHTS", os.pathsep.join([str(tmp_path), str(tmp_path / "mine")]))
    assert find("resnet50") == WeightFile(in_variable, "LIMNER_WEIGHTS")
    given = put(tmp_path / "given", "any name.bin")
    assert find("resnet50", given) == WeightFile(given, "given")


def test_a_given_folder_is_searched_and_nothing_else(tmp_path, places):
    put(places, "resnet50.pth")
    with pytest.raises(MissingError, match="no weights of resnet50"):
        find("resnet50", tmp_path)
    mine = put(tmp_path, "resnet50_mine.pt")
    assert find("resnet50", tmp_path).path == mine


def test_the_variable_may_name_a_file(tmp_path, monkeypatch):
    file = put(tmp_path / "a", "resnet18-f37072fd.pth")
    monkeypatch.setenv("LIMNER_WEIGHTS", str(file))
    assert find("resnet18").path == file
    with pytest.raises(MissingError):
        find("resnet50")


def test_a_variable_that_names_nothing_is_told(monkeypatch, tmp_path):
    monkeypatch.setenv("LIMNER_WEIGHTS", str(tmp_path / "gone"))
    with pytest.raises(MissingError, match=r"LIMNER_WEIGHTS.*does not exist"):
        find("resnet50")


def test_missing_weights_say_what_to_run(places):
    with pytest.raises(
        MissingError, match=r"run 'limner models get resnet50' or pass --weights resnet50=FILE"
    ) as found:
        find("resnet50")
    assert str(places) in str(found.value)
    assert "\n" not in str(found.value)


def test_several_files_are_told_apart_or_refused(places):
    put(places, "resnet50-aaaa.pth")
    put(places, "resnet50-0676ba61.pth")
    with pytest.raises(CheckpointError, match=r"holds resnet50-0676ba61\.pth, resnet50-aaaa\.pth"):
        find("resnet50")
    assert find("resnet50", official="resnet50-0676ba61.pth").path.name == "resnet50-0676ba61.pth"
    put(places, "resnet50.safetensors")
    assert find("resnet50", official="resnet50-0676ba61.pth").path.name == "resnet50.safetensors"


@pytest.mark.parametrize(
    ("file", "mine"),
    [
        ("resnet50.pth", True),
        ("ResNet50-0676ba61.pth", True),
        ("resnet50_mine.safetensors", True),
        ("resnet50.txt", False),
        ("resnet501.pth", False),
        ("wide_resnet50_2-95faca4d.pth", False),
        ("resnet5.pth", False),
    ],
)
def test_a_file_belongs_to_the_name_it_begins_with(tmp_path, file, mine):
    assert belongs_to(tmp_path / file, "resnet50") is mine


def test_caches_follow_their_owners_rules(monkeypatch, tmp_path):
    assert hub_folder() == tmp_path / "torch" / "hub" / "checkpoints"
    assert str(hub_folder().parent) == torch.hub.get_dir()
    monkeypatch.delenv("TORCH_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert str(hub_folder().parent) == torch.hub.get_dir()
    assert hf_folder() == tmp_path / "hf" / "hub"


def test_clip_weights_come_from_the_hugging_face_cache_too(tmp_path, places):
    with pytest.raises(
        MissingError, match="get clip:ViT-B-32' or name open_clip's file of them by --weights FILE"
    ):
        find_clip("ViT-B-32")
    snapshot = hf_folder() / "models--laion--CLIP-ViT-B-32-laion2B-s34B-b79K" / "snapshots" / "abc"
    put(snapshot, "open_clip_pytorch_model.bin")
    safe = put(snapshot, "open_clip_model.safetensors")
    assert find_clip("ViT-B-32") == WeightFile(safe, "open_clip cache")
    with pytest.raises(MissingError):
        find_clip("ViT-B-16")
    put(hf_folder() / "models--other--CLIP-ViT-B-32-x" / "snapshots" / "d", "open_clip_model.safetensors")
    with pytest.raises(CheckpointError, match="holds several"):
        find_clip("ViT-B-32")
    own = put(places, "ViT-B-32.safetensors")
    assert find_clip("ViT-B-32").path == own


def test_hash_is_of_the_bytes(tmp_path):
    assert WeightFile(put(tmp_path, "a.pth", b"abc")).sha256 == hashlib.sha256(b"abc").hexdigest()
    with pytest.raises(MissingError, match="cannot be read"):
        _ = WeightFile(tmp_path / "gone.pth").sha256


@pytest.mark.parametrize("name", ["a.safetensors", "a.pth"])
@pytest.mark.parametrize("content", [b"", b"x", b"\x00" * 200, b"PK\x03\x04 not a zip", b"\xff" * 64])
def test_damaged_files_are_refused_in_one_line(tmp_path, name, content):
    with pytest.raises(CheckpointError) as found:
        read_state(WeightFile(put(tmp_path, name, content)))
    assert "\n" not in str(found.value)
    assert name in str(found.value)


def test_a_truncated_file_is_refused(tmp_path):
    for name, save in (("a.safetensors", save_file), ("a.pth", torch.save)):
        save({"weight": torch.ones(500)}, tmp_path / name)
        whole = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(whole[: len(whole) // 2])
        with pytest.raises(CheckpointError):
            read_state(WeightFile(tmp_path / name))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([torch.ones(2)], "holds list"),
        ({"model": {"a": torch.ones(2)}}, "entry 'model' is dict"),
        ({"epoch": 3, "a": torch.ones(2)}, "entry 'epoch' is int"),
        ({"epoch": 3, "state_dict": {"a": "b"}}, "entry 'a' is str"),
        ({"epoch": 3, "state_dict": {}}, "holds dict"),
        ({}, "holds dict"),
        ({"a": torch.tensor([1.0, float("nan")])}, "parameter a is not finite"),
    ],
)
def test_only_finite_named_tensors_are_taken(tmp_path, content, message):
    torch.save(content, tmp_path / "a.pth")
    with pytest.raises(CheckpointError, match=message):
        read_state(WeightFile(tmp_path / "a.pth"))


def test_parameters_of_a_checkpoint_are_taken_from_its_state_dict(tmp_path):
    """As training scripts leave them: an epoch beside them, and DataParallel's prefix before their names."""
    inner, path = {"module.a": torch.ones(2), "module.b.c": torch.zeros(3)}, tmp_path / "net.pth.tar"
    optimiser = {"state": {0: {"step": 4, "exp_avg": torch.ones(2)}}, "param_groups": [{"lr": 1e-4}]}
    torch.save({"epoch": 12, "best_val": 5.2, "state_dict": inner, "optimizer": optimiser}, path)
    found = read_state(WeightFile(path))
    assert {name: tensor.tolist() for name, tensor in found.items()} == {"a": [1, 1], "b.c": [0, 0, 0]}
    torch.save({"module.a": torch.ones(2), "b": torch.ones(1)}, path)  # no prefix of all
    assert set(read_state(WeightFile(path))) == {"module.a", "b"}
    assert find("net", tmp_path).path == path


def test_a_missing_file_is_missing(tmp_path):
    for name in ("a.pth", "a.safetensors"):
        with pytest.raises(MissingError):
            read_state(WeightFile(tmp_path / name))


def test_sentence_files_are_checked(tmp_path):
    with pytest.raises(MissingError, match=r"tokenizer\.json"):
        read_sentence_files(tmp_path)
    put(tmp_path, "tokenizer.json", b"{}")
    put(tmp_path, "config.json", b"{}")
    with pytest.raises(CheckpointError, match=r"config\.json"):
        read_sentence_files(tmp_path)
    put(tmp_path, "config.json", b'{"num_attention_heads": 12}')
    words = "embeddings.word_embeddings.weight"
    save_file({words: torch.ones(1, 2)}, tmp_path / "model.safetensors")
    files = read_sentence_files(tmp_path)
    assert (files.heads, list(files.state)) == (12, [words])
    np.testing.assert_array_equal(files.words, [[1, 1]])


def test_a_parameter_is_read_and_checked_when_it_is_asked_for(tmp_path):
    path = tmp_path / "net.safetensors"
    save_file({"a": torch.ones(2, 3), "b": torch.tensor([1.0, torch.nan])}, path, {"told": "this"})
    found = Arrays(path)
    assert (list(found), len(found), found.metadata) == (["a", "b"], 2, {"told": "this"})
    assert "b" in found  # without reading it
    assert "c" not in found
    np.testing.assert_array_equal(found["a"], np.ones((2, 3), np.float32))
    with pytest.raises(CheckpointError, match=r"net\.safetensors: parameter b is not finite"):
        _ = found["b"]
    with pytest.raises(KeyError):
        _ = found["c"]


def test_a_damaged_file_is_told_before_a_parameter_is_asked_for(tmp_path):
    path = tmp_path / "net.safetensors"
    save_file({"a": torch.ones(2, 3)}, path)
    put(tmp_path, "net.safetensors", path.read_bytes()[:-1])
    with pytest.raises(CheckpointError, match="damaged or no weight file"):
        Arrays(path)
    with pytest.raises(MissingError, match="cannot be read"):
        Arrays(tmp_path / "gone.safetensors")
