"""Devices by name, on machines with and without cards, and what autocast does with products."""

import pytest
import torch

from limner import devices
from limner.devices import autocast, device_of
from limner.errors import ConfigError


def cards(monkeypatch, count):
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


@pytest.mark.parametrize(
    ("name", "count", "told"),
    [
        ("cuda", 0, "torch finds no CUDA card on this machine; use cpu or auto"),
        ("cuda:2", 2, r"2 CUDA card\(s\), cuda:0 to cuda:1"),
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
