"""Pictures of a story read both ways: against a loop, alone as in company, and a story of one picture."""

import pytest
import torch

from limner.errors import ShapeError
from limner.research.nn.story import PictureSequenceEncoder, RowNorm

STEPS = torch.tensor([3, 1, 2])


def encoder(seed=0):
    torch.manual_seed(seed)
    built = PictureSequenceEncoder(5, local=4, hidden=3, joined=6, dropout=0.5)
    for norm in (built.local_norm, built.join_norm):  # statistics that are not those of a new one
        norm.running_mean.uniform_(-1, 1)
        norm.running_var.uniform_(0.5, 2)
    return built


def pictures(count=6, seed=1):
    return torch.randn(count, 5, generator=torch.Generator().manual_seed(seed))


def test_a_story_is_the_same_alone_and_in_company():
    built = encoder().eval()
    rows = pictures()
    together = built(rows, STEPS)
    alone = [built(part, torch.tensor([len(part)])) for part in rows.split(STEPS.tolist())]
    assert together.shape == (6, 6)
    torch.testing.assert_close(together, torch.cat(alone))


def test_a_picture_hears_its_story_both_ways_and_no_other():
    built = encoder().eval()
    rows = pictures().requires_grad_()
    for row, heard in ((0, [0, 1, 2]), (1, [0, 1, 2]), (3, [3]), (5, [4, 5])):
        grad = torch.autograd.grad(built(rows, STEPS)[row].sum(), rows)[0]
        assert grad.abs().sum(dim=1).nonzero()[:, 0].tolist() == heard


def test_what_is_joined_is_local_and_global():
    built = encoder().eval()
    rows = pictures(2)
    alone = built.local_norm(built.local(rows))
    glob = built.story(alone[None])[0][0]
    due = built.join_norm(torch.cat([alone, glob], dim=1) @ built.join.weight.t() + built.join.bias)
    torch.testing.assert_close(built(rows, torch.tensor([2])), due)


def test_one_row_is_normalised_by_what_was_seen_before():
    norm = RowNorm(3)
    norm.running_mean.copy_(torch.tensor([1.0, 2, 3]))
    norm.running_var.fill_(4 - norm.eps)
    row = torch.tensor([[1.0, 4, 7]], requires_grad=True)
    found = norm(row)
    torch.testing.assert_close(found, torch.tensor([[0.0, 1, 2]]))
    found.sum().backward()
    torch.testing.assert_close(row.grad, torch.full((1, 3), 0.5))
    assert norm.running_mean.tolist() == [1, 2, 3]
    assert int(norm.num_batches_tracked) == 0
    two = norm(torch.tensor([[0.0, 0, 0], [2, 2, 2]]))
    torch.testing.assert_close(two, torch.tensor([[-1.0] * 3, [1.0] * 3]), atol=1e-4, rtol=0)


@pytest.mark.parametrize("steps", [[1], [2], [1, 1]])
def test_small_batches_train(steps):
    built = encoder()
    built(pictures(sum(steps)), torch.tensor(steps)).square().sum().backward()
    assert bool(built.join.weight.grad.isfinite().all())


def test_other_features_are_refused():
    for wrong in (torch.zeros(6, 4), torch.zeros(6)):
        with pytest.raises(ShapeError, match="captioner: features has shape"):
            encoder()(wrong, STEPS)
