"""Which device and which backend the processes of ``torchrun`` take; no group is really made here."""

import pytest
import torch
from torch import distributed

from limner.errors import ConfigError
from limner.research.training import processes


@pytest.fixture
def torchrun(monkeypatch):
    """Starts the second of two processes on a machine with some cards; tells what was asked of torch."""
    asked = []

    def start(cards, number=1):
        monkeypatch.setattr("limner.devices.has_nvidia_driver", lambda: cards > 0)
        monkeypatch.setattr(torch.cuda, "is_available", lambda: cards > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: cards)
        monkeypatch.setattr(torch.cuda, "set_device", lambda device: asked.append(str(device)))
        monkeypatch.setenv("WORLD_SIZE", "2")
        monkeypatch.setenv("LOCAL_RANK", str(number))

        def group(backend, timeout, device_id=None):
            asked.append((backend, device_id and str(device_id)))

        monkeypatch.setattr(distributed, "init_process_group", group)
        return asked

    return start


@pytest.mark.parametrize("name", ["cuda", "auto"])
def test_on_cards_each_process_takes_its_own_and_nccl(torchrun, name):
    asked = torchrun(cards=2)
    assert processes.join(name) == "cuda:1"
    assert asked == ["cuda:1", ("nccl", "cuda:1")]


@pytest.mark.parametrize(("name", "cards"), [("cpu", 2), ("auto", 0)])
def test_on_the_cpu_they_take_gloo(torchrun, name, cards):
    asked = torchrun(cards)
    assert processes.join(name) == "cpu"
    assert asked == [("gloo", None)]


@pytest.mark.parametrize(
    ("name", "cards", "told"),
    [
        ("cuda", 1, r"device 'cuda:1': torch finds 1 CUDA GPU\(s\)"),
        ("cuda:0", 2, "2 processes need a device each"),
        ("cuda", 0, "no CUDA GPU"),
    ],
)
def test_too_few_cards_are_said_before_a_group_is_made(torchrun, name, cards, told):
    asked = torchrun(cards)
    with pytest.raises(ConfigError, match=told):
        processes.join(name)
    assert asked == []


def test_alone_nothing_is_joined(torchrun, monkeypatch):
    asked = torchrun(cards=2)
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert [processes.join(name) for name in ("auto", "cpu", "cuda:1")] == ["cuda", "cpu", "cuda:1"]
    assert asked == []
