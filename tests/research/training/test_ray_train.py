"""Training started by Ray Train, whose processes `limner.train` joins as it does those of torchrun."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import limner
from limner.research.training.checkpoint import HISTORY

pytestmark = [
    pytest.mark.slow,
    pytest.mark.soak,
    pytest.mark.skipif(find_spec("ray") is None, reason="no Ray on this machine"),
]
FILE = Path(__file__).parents[3] / "configs" / "cmcm" / "cmcm.toml"
SMALL = {"data": "picturebook", "smoke": True, "overrides": ["data.vectors=random", "data.picture_px=32"]}
SCRIPT = """
import json, sys
import ray
from ray.train import ScalingConfig
from ray.train.torch import TorchTrainer

def work():
    import limner
    limner.train(file, to=to, **small)

file, to, small = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
ray.init(num_cpus=4, include_dashboard=False)
TorchTrainer(work, scaling_config=ScalingConfig(num_workers=2)).fit()
"""


def history(folder):
    return [json.loads(line) for line in (folder / HISTORY).read_text().splitlines()]


def test_its_processes_have_the_figures_of_one(tmp_path):
    environment = os.environ | {"RAY_USAGE_STATS_ENABLED": "0", "OMP_NUM_THREADS": "1"}
    words = [sys.executable, "-c", SCRIPT, str(FILE), str(tmp_path / "two"), json.dumps(SMALL)]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "world_rank=1" in done.stderr + done.stdout
    limner.train(FILE, to=tmp_path / "one", **SMALL)
    due, found = history(tmp_path / "one"), history(tmp_path / "two")
    assert len(due) == len(found) == 2
    for one, two in zip(due, found, strict=True):
        assert two["loss"] == pytest.approx(one["loss"], rel=3e-5)
        assert two["val"] == pytest.approx(one["val"], rel=3e-5)
