"""Every system trains with half of the bits in its products, and its losses see whole scores."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from limner.devices import autocast
from limner.errors import ConfigError
from limner.research.losses.ranking import product
from limner.research.runs.run import Run
from limner.research.runs.train import train
from limner.research.training.checkpoint import HISTORY

CONFIGS = Path(__file__).parents[3] / "configs"
ROWS = (
    "cmcm/cmcm",
    "complementary/vse++",
    "complementary/combined-stats",
    "gsda/gsda",
    "vrss/vrss",
    "cnsi/cnsi",
    "dual/recurrent",
    "document/document",
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("row", "precision"), [("complementary/vse++", "float16"), *((row, "bfloat16") for row in ROWS)]
)
def test_a_system_trains_in_half_precision(tmp_path, row, precision):
    if row.startswith("gsda") and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        pytest.skip("an LSTM in bfloat16 needs a processor that multiplies in it")
    options = [f"loop.precision={precision}"]
    run = train(CONFIGS / f"{row}.toml", to=tmp_path, data="picturebook", overrides=options, smoke=True)
    lines = [json.loads(line) for line in (tmp_path / HISTORY).read_text().splitlines()]
    assert len(lines) == 2
    losses = [value for line in lines for value in line["loss"].values()]
    assert losses
    assert all(math.isfinite(value) for value in losses)
    assert all(tensor.dtype != getattr(torch, precision) for tensor in run.model.state_dict().values())
    assert any("loop.precision" in one for one in run.config.deviations())


@pytest.mark.slow
def test_a_run_measures_pixels_in_its_own_precision_or_another(tmp_path):
    made = train(
        CONFIGS / "complementary/vse++.toml",
        to=tmp_path,
        data="picturebook",
        overrides=["loop.precision=bfloat16"],
        smoke=True,
    )
    pixels = np.random.default_rng(0).integers(0, 255, (4, 64, 64, 3), dtype=np.uint8)
    own, whole = Run.open(tmp_path).model, Run.open(tmp_path, precision="float32").model
    np.testing.assert_array_equal(made.model.encode_image(pixels), own.encode_image(pixels))
    half, full = own.encode_image(pixels), whole.encode_image(pixels)
    assert half.dtype == np.float32
    assert not np.array_equal(half, full)
    np.testing.assert_allclose(half, full, atol=0.05)
    np.testing.assert_array_equal(own.encode_text(["a boat"]), whole.encode_text(["a boat"]))


def test_what_is_fitted_at_once_has_no_half_precision(tmp_path):
    with pytest.raises(ConfigError, match=r"lda is fitted at once.*leave loop\.precision out"):
        train(
            CONFIGS / "lda/lda.toml", to=tmp_path, data="picturebook", overrides=["loop.precision=bfloat16"]
        )


def test_scores_keep_all_bits_where_products_do_not():
    rows = torch.nn.functional.normalize(
        torch.randn(5, 64, generator=torch.Generator().manual_seed(0)), dim=1
    )
    whole = rows @ rows.t()
    with autocast("cpu", "bfloat16"):
        assert (rows @ rows.t()).dtype == torch.bfloat16
        assert torch.equal(product(rows, rows.t()), whole)
        assert product(rows.bfloat16(), rows.t()).dtype == torch.float32
    assert torch.equal(product(rows, rows.t()), whole)
    assert product(rows.double(), rows.double().t()).dtype == torch.float64
