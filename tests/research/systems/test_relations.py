"""The coherence module: all pairs at once equal pair by pair, with every kind."""

import pytest
import torch

from limner.errors import ConfigError, ShapeError
from limner.research.systems.cmcm import CoherenceModule

KINDS = ["linear", "product", "mlp"]


def made(kind, dtype=torch.float64):
    torch.manual_seed(2)
    module = CoherenceModule(6, 3, kind, hidden=5).to(dtype)
    return module, torch.randn(4, 6, dtype=dtype), torch.randn(7, 6, dtype=dtype)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("dtype", "close"), [(torch.float64, 1e-9), (torch.float32, 1e-4)])
@torch.no_grad()
def test_all_pairs_equal_one_pair_at_a_time(kind, dtype, close):
    module, texts, images = made(kind, dtype)
    table = module.table(texts, images)
    assert table.shape == (4, 7, 3)
    for i in range(4):
        for j in range(7):
            pair = module(texts[i : i + 1], images[j : j + 1])[0]
            assert torch.allclose(table[i, j], pair, atol=close, rtol=0)


@torch.no_grad()
def test_one_pair_is_the_written_formula():
    module, texts, images = made("linear")
    joined = torch.cat([texts[0], images[2]])
    assert torch.allclose(module(texts[:1], images[2:3])[0], module.first.weight @ joined + module.first.bias)
    module, texts, images = made("product")
    joined = torch.cat([texts[0], images[2]])
    due = module.first.weight @ joined + module.first.bias + module.product @ (texts[0] * images[2])
    assert torch.allclose(module(texts[:1], images[2:3])[0], due)
    module, texts, images = made("mlp")
    joined = torch.cat([texts[0], images[2]])
    hidden = torch.relu(module.first.weight @ joined + module.first.bias)
    due = module.second.weight @ hidden + module.second.bias
    assert torch.allclose(module(texts[:1], images[2:3])[0], due)


@torch.no_grad()
def test_linear_logits_are_a_text_term_plus_a_picture_term():
    module, texts, images = made("linear")
    first, second = module.terms(texts, images)
    assert torch.allclose(first[:, None] + second, module.table(texts, images), atol=1e-12)
    # so every text orders the pictures alike, which the product can break
    orders = {tuple(row) for row in module.table(texts, images)[:, :, 0].argsort(dim=1).tolist()}
    assert len(orders) == 1
    module, texts, images = made("product")
    assert len({tuple(row) for row in module.table(texts, images)[:, :, 0].argsort(dim=1).tolist()}) > 1


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_reach_both_vectors(kind):
    module, texts, images = made(kind)
    texts.requires_grad_()
    images.requires_grad_()
    module(texts, images[:4]).sum().backward()
    assert texts.grad.abs().sum() > 0
    assert images.grad[:4].abs().sum() > 0


def test_what_does_not_fit_is_refused():
    module, texts, images = made("product")
    with pytest.raises(ConfigError, match="use its table"):
        module.terms(texts, images)
    with pytest.raises(ShapeError):
        module(texts, images)
    with pytest.raises(ShapeError):
        module.table(texts, images[:, :5])
