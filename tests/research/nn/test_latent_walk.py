"""Latents that move on: what a step depends on, and what is drawn in training."""

import pytest
import torch

from limner.research.nn.story import HIGH, LOW, LatentWalk


def walk():
    torch.manual_seed(0)
    return LatentWalk(6, hidden=5, latent=4, first_log_variance=-1.0)


def stories():
    return torch.randn(2, 3, 6), torch.tensor([[True, True, True], [True, True, False]])


def test_a_step_depends_on_earlier_steps_of_its_story_alone():
    built, (rows, real) = walk().eval(), stories()
    made = built(rows, real)
    changed = rows.clone()
    changed[0, 1] += 1
    other = built(changed, real)
    same = (made.latents == other.latents).all(dim=1)
    assert same.tolist() == [True, False, False, True, True]
    torch.testing.assert_close(made.earlier[[1, 2, 4]], made.latents[[0, 1, 3]])
    assert not made.earlier[[0, 3]].any()
    rows[1, 2] += 1  # where no step is
    torch.testing.assert_close(built(rows, real).latents, made.latents)


@pytest.mark.slow
def test_latents_are_drawn_in_training_alone_with_the_posteriors_variance():
    built, (rows, real) = walk(), stories()
    made = [built(rows, real) for _ in range(2000)]
    first = torch.stack([one.latents[0] for one in made])
    mean, spread = (part[0] for part in made[0].posterior)
    torch.testing.assert_close(first.mean(dim=0), mean, atol=0.1, rtol=0)
    torch.testing.assert_close(first.var(dim=0).log(), spread, atol=0.15, rtol=0)
    built.eval()
    assert torch.equal(built(rows, real).latents, built(rows, real).posterior[0])


def test_variances_stay_within_their_bounds():
    built, (rows, real) = walk().eval(), stories()
    for scale in (1e3, -1e3):
        with torch.no_grad():
            built.posterior.bias[4:], built.prior[2].bias[4:] = scale, scale
        made = built(rows, real)
        due = torch.full((5, 4), HIGH if scale > 0 else LOW)
        assert torch.equal(made.posterior[1], due)
        assert torch.equal(made.prior[1], due)
