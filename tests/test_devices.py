"""Devices by name, on machines with and without cards, and what autocast does with products."""

import subprocess
import sys
from types import MappingProxyType

import numpy as np
import pytest
import torch
from PIL import Image

import limner
from limner import devices
from limner.arrays import ImageVectors
from limner.cli.main import run
from limner.devices import autocast, device_of, usual_precision
from limner.errors import CheckpointError, ConfigError, MissingError
from limner.store.index import index
from limner.studio.engine import Engine


def cards(monkeypatch, count):
    monkeypatch.setattr(devices, "has_nvidia_driver", lambda: count > 0)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)


def test_auto_is_the_first_card_or_the_cpu(monkeypatch):
    cards(monkeypatch, 0)
    assert device_of("auto") == device_of("cpu") == "cpu"
    cards(monkeypatch, 2)
    assert [device_of(name) for name in ("auto", "cuda", "cuda:1", "cpu")] == [
        "cuda",
        "cuda",
        "cuda:1",
        "cpu",
    ]


def test_without_a_card_s_driver_or_without_torch_auto_is_the_cpu(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    for driver in (False, True):
        monkeypatch.setattr(devices, "has_nvidia_driver", lambda driver=driver: driver)
        monkeypatch.setattr(devices, "find_spec", lambda name: None)
        assert device_of("auto") == device_of("cpu") == "cpu"
    with pytest.raises(MissingError, match=r"^torch is not installed; run: pip install 'limner\[torch\]'$"):
        device_of("cuda")


_AT_ONCE = """
import threading
import numpy as np
from limner.devices import openvino

engine = openvino()
from openvino import opset8
number = opset8.parameter([1], np.float32)
network = engine.Core().compile_model(engine.Model([opset8.relu(number)], [number]), "CPU")
start = threading.Barrier(16)
def infer():
    request = network.create_infer_request()
    start.wait()
    request.infer([np.zeros(1, np.float32)])
threads = [threading.Thread(target=infer) for _ in range(16)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""


@pytest.mark.slow
def test_networks_run_though_all_threads_run_them_first_at_the_same_time():
    # each child stands for ever in five of six runs where nothing is done about it
    children = [subprocess.Popen([sys.executable, "-W", "ignore", "-c", _AT_ONCE]) for _ in range(3)]
    try:
        assert [child.wait(timeout=120) for child in children] == [0, 0, 0]
    finally:
        for child in children:
            child.kill()
            child.wait()


@pytest.mark.parametrize(
    ("name", "count", "told"),
    [
        ("cuda", 0, "torch finds no CUDA GPU on this machine; use cpu or auto"),
        ("cuda:2", 2, r"2 CUDA GPU\(s\), cuda:0 to cuda:1"),
        ("mps", 0, "no Apple GPU"),
        ("gpu", 2, "'gpu': expected auto, cpu, cuda, cuda:N or mps"),
        ("cuda:", 2, "expected auto"),
        ("cuda:-1", 2, "expected auto"),
        ("cpu:0", 2, "expected auto"),
        ("", 2, "expected auto"),
    ],
)
def test_what_is_not_there_is_one_line(monkeypatch, name, count, told):
    cards(monkeypatch, count)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(ConfigError, match=told) as error:
        device_of(name)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "float16"])
def test_products_have_the_precision_and_weights_stay_whole(precision):
    layer = torch.nn.Linear(3, 2)
    with autocast("cpu", precision):
        made = layer(torch.ones(1, 3))
    assert made.dtype == getattr(torch, precision)
    assert layer.weight.dtype == torch.float32
    assert layer(torch.ones(1, 3)).dtype == torch.float32


def test_the_precisions_are_those_of_torch():
    assert all(isinstance(getattr(torch, name), torch.dtype) for name in devices.Precision.__args__)


class Clip:
    """Stands in for a CLIP model, both sides; a colour is a vector."""

    name, dim, fingerprint = "clip:ViT-B-32", 3, "0" * 64
    accepted = frozenset({fingerprint})
    spaces, side_px = {"clip": 3}, 8

    def prepare(self, image):
        return np.asarray(image.resize((8, 8)))

    def encode_pixels(self, batch):
        mean = batch.reshape(len(batch), -1, 3).mean(axis=1, dtype=np.float32)
        return ImageVectors({"clip": mean / np.linalg.norm(mean, axis=1, keepdims=True)})

    def encode_text(self, texts):
        return np.tile(np.float32([1, 0, 0]), (len(texts), 1))


class Eyes(Clip):
    """Stands in for a network that torch runs."""

    name, spaces = "resnet50", MappingProxyType({"visual": 3})

    def encode_pixels(self, batch):
        return ImageVectors({"visual": super().encode_pixels(batch).spaces["clip"]})


@pytest.fixture
def home(tmp_path):
    """A library of two pictures with vectors of a CLIP model, beside the pictures and a text."""
    folder = tmp_path / "pictures"
    folder.mkdir()
    for name, colour in (("a", "red"), ("b", "blue")):
        Image.new("RGB", (64, 64), colour).save(folder / f"{name}.png")
    (tmp_path / "story.txt").write_text("Red.")
    index([folder], tmp_path / "lib", image_encoders=[Clip()], captions=False)
    return tmp_path


def used(monkeypatch, count=2):
    """Devices that encoders and runs are opened on from now on, on a machine with so many cards."""
    cards(monkeypatch, count)
    found = []

    def eyes(name, *, device="cpu", **_):
        found.append((name, device))
        return Eyes()

    def runs(model, metric, device="cpu"):
        found.append(("runs", device))
        return None, None

    monkeypatch.setattr("limner.match.encoder_setup.clip_encoder", lambda name, **_: Clip())
    monkeypatch.setattr("limner.match.encoder_setup.image_encoder", eyes)
    monkeypatch.setattr("limner.research.runs.run.library_runs", runs)
    return found


def test_a_library_is_asked_and_filled_on_the_device_that_was_named(home, monkeypatch):
    found = used(monkeypatch)
    (home / "run").mkdir()
    lib = limner.Library(home / "lib", device="cuda:1")
    assert lib.search("red", k=1)[0].picture.path.endswith("a.png")
    assert lib.illustrate("Red.", show="always").steps[0].chosen.picture.path.endswith("a.png")
    lib.search("red", model=home / "run")
    assert found == [("runs", "cuda:1")]
    lib.add(home / "pictures", encoders="resnet50", model=home / "run", captions=False)
    assert found[1:] == [("runs", "cuda:1"), ("resnet50", "cuda:1")]
    with pytest.raises(ConfigError, match="clip:ViT-B-32: computes on the CPU, not on cuda:1"):
        lib.add(home / "pictures", encoders="clip:ViT-B-32", captions=False)


def test_a_library_is_asked_whatever_precision_its_pictures_were_encoded_in(home, monkeypatch):
    used(monkeypatch)
    monkeypatch.setattr(Clip, "accepted", {"1" * 64, Clip.fingerprint})
    assert limner.Library(home / "lib").search("red", k=1)[0].picture.path.endswith("a.png")
    monkeypatch.setattr(Clip, "accepted", {"1" * 64})
    with pytest.raises(CheckpointError, match="clip were encoded by another version of clip:ViT-B-32"):
        limner.Library(home / "lib").search("red")


def test_commands_hand_their_device_on(home, monkeypatch):
    found, lib = used(monkeypatch), ["--library", str(home / "lib"), "--device", "cuda:1"]
    assert run(["search", "red", *lib]) == 0
    assert run(["illustrate", str(home / "story.txt"), *lib, "-o", str(home / "page.html")]) == 0
    assert run(["index", str(home / "pictures"), *lib, "--encoder", "resnet50", "--no-captions"]) == 0
    assert found == [("resnet50", "cuda:1")]


def test_the_studio_opens_its_runs_and_reads_texts_there(home, monkeypatch):
    found = used(monkeypatch)
    monkeypatch.setattr("limner.studio.app.serve", lambda app, bound, guard, **_: bound.listener.close())
    words = ["studio", "--library", str(home / "lib"), "--port", "0", "--model", str(home)]
    assert run([*words, "--device", "cuda:1"]) == 0
    assert found[0] == ("runs", "cuda:1")
    assert len(Engine(home / "lib", device="cuda:1").illustrator().channels) == 1
    assert {device for _, device in found} == {"cuda:1"}


@pytest.mark.parametrize(
    "words",
    [["search", "red"], ["illustrate", "story.txt", "-o", "page.html"], ["studio"], ["index", "pictures"]],
)
def test_a_command_refuses_a_card_that_is_not_there_in_one_line(home, monkeypatch, capsys, words):
    cards(monkeypatch, 0)
    monkeypatch.chdir(home)
    assert run([*words, "--library", "lib", "--device", "cuda:1"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 + (words[0] == "illustrate")  # which says first how it reads the text
    assert "device 'cuda:1': torch finds no CUDA GPU on this machine; use cpu or auto" in said
    assert not (home / "page.html").exists()


@pytest.mark.parametrize(
    ("products", "wide", "own", "due"),
    [
        (False, False, False, "float32"),  # AVX2: .65 s a picture in bfloat16, .05 s in float32
        (True, True, False, "float32"),  # AVX-512 alone
        (True, True, True, "bfloat16"),
        (True, False, False, "bfloat16"),  # ARM
    ],
)
def test_what_the_machine_is_quick_in_is_usual(monkeypatch, products, wide, own, due):
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: products)
    monkeypatch.setattr(torch.cpu, "_is_avx512_supported", lambda: wide)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: own)
    assert usual_precision("cpu") == due
