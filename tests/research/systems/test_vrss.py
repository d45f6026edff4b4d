"""VRSS: the recurrence against a loop over stories, padding without influence, and what depends on what."""

import numpy as np
import pytest
import torch

from limner.encoders.vocabulary import Vocabulary
from limner.errors import ConfigError, ShapeError
from limner.research.systems.base import Capabilities, ModelParts, drawing_backbone
from limner.research.systems.vrss import Vrss, VrssArchitecture

STORIES = [
    ["a red fox runs", "two bears", "the blue whale sings in the deep sea"],
    ["fox"],
    ["bears sing", "the fox runs home"],
]
VOCABULARY = Vocabulary.build([text for story in STORIES for text in story])
SMALL = VrssArchitecture(word_width=6, hidden=4, latent=3, mlp=7)
VARIANTS = {
    "vrss": {},
    "vae": {"latents": False},
    "globalcon": {"context": False},
    "literal": {"variance": "learned"},
    "sentences": {"text": "sentences"},
}


class Initials:
    """Sentence vectors that count first letters: enough to tell texts apart."""

    name, fingerprint, dim = "initials", "one", 26

    def encode_text(self, texts):
        found = np.zeros((len(texts), 26), np.float32)
        for row, text in enumerate(texts):
            for word in text.split():
                found[row, ord(word[0]) - ord("a")] += 1
        return found


def model(seed=0, **changes):
    torch.manual_seed(seed)
    own = VrssArchitecture.model_validate(SMALL.model_dump() | changes)
    encoder = Initials() if own.text == "sentences" else None
    return Vrss(own, ModelParts(VOCABULARY, 10, max_length=6, sentences=encoder))


def run(built, stories):
    texts = [text for story in stories for text in story]
    words, lengths = VOCABULARY.batch(texts, 6)
    counts = torch.tensor([len(story) for story in stories])
    if built.sentence_encoder is not None:
        words = built.sentence_encoder.encode_text(texts)
    return built(torch.from_numpy(words), torch.from_numpy(lengths), counts)


@pytest.mark.parametrize("name", VARIANTS)
def test_a_story_does_not_depend_on_its_company(name):
    """Padded steps change nothing."""
    built = model(**VARIANTS[name]).eval()
    together = run(built, STORIES)
    alone = torch.cat([run(built, [story]).means for story in STORIES])
    torch.testing.assert_close(together.means, alone, atol=1e-6, rtol=1e-5)
    assert together.means.shape == (6, 10)
    one = np.concatenate(built.encode_stories(STORIES))
    np.testing.assert_allclose(np.linalg.norm(one, axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(
        one, torch.nn.functional.normalize(together.means, dim=1).detach().numpy(), atol=1e-6
    )
    assert [len(part) for part in built.encode_stories([STORIES[0], [], STORIES[1]])] == [3, 0, 1]


def test_the_recurrence_is_the_loop():
    """docs/methods/vrss.md §2.2 story by story and step by step, by the posterior's means."""
    built = model().eval()
    made, walk = run(built, STORIES), built.walk
    row = 0
    for story in STORIES:
        words, lengths = VOCABULARY.batch(story, 6)
        read = built.steps(torch.from_numpy(words), torch.from_numpy(lengths), torch.tensor([len(story)]))
        before = torch.zeros(1, 3)
        for step in range(len(story)):
            inputs = torch.cat([read.steps[:, step], read.context[:, step]], dim=1)
            hidden = torch.tanh(walk.from_inputs(inputs) + walk.from_before(before))
            mean, spread = walk.posterior(hidden).chunk(2, dim=1)
            prior_mean, prior_spread = walk.prior(before).chunk(2, dim=1)
            torch.testing.assert_close(made.posterior[0][row], mean[0])
            torch.testing.assert_close(made.posterior[1][row], spread[0].clamp(-6, 2))
            torch.testing.assert_close(made.prior[0][row], prior_mean[0])
            torch.testing.assert_close(made.prior[1][row], prior_spread[0].clamp(-6, 2))
            out = built.decoder(torch.cat([before, mean], dim=1))
            torch.testing.assert_close(made.means[row], out[0])
            before = mean
            row += 1
    assert row == 6


def test_attention_is_over_the_steps_of_the_story():
    built = model().eval()
    attention = run(built, STORIES).attention
    assert attention.shape == (3, 3, 3)
    torch.testing.assert_close(attention[0].sum(dim=1), torch.ones(3))
    torch.testing.assert_close(attention[2].sum(dim=1), torch.tensor([1.0, 1.0, 0.0]))
    assert not attention[1, :, 1:].any()
    assert attention[1, 0, 0] == 1


@pytest.mark.parametrize(("name", "hears"), [("vrss", True), ("vae", True), ("globalcon", False)])
def test_a_step_hears_later_ones_only_with_context(name, hears):
    built = model(**VARIANTS[name])
    first = built.encode_stories([STORIES[0]])[0][0]
    other = built.encode_stories([[*STORIES[0][:2], "fox fox fox"]])[0][0]
    assert bool(np.abs(first - other).max() > 1e-6) is hears


def test_earlier_steps_reach_later_ones_through_the_latents():
    built = model(context=False)
    last = built.encode_stories([STORIES[0]])[0][2]
    other = built.encode_stories([["bears bears", *STORIES[0][1:]]])[0][2]
    assert np.abs(last - other).max() > 1e-6


def test_evaluation_draws_nothing_and_training_does():
    built = model()
    np.testing.assert_array_equal(built.encode_stories(STORIES)[0], built.encode_stories(STORIES)[0])
    built.train()
    assert not torch.equal(run(built, STORIES).means, run(built, STORIES).means)
    assert built.training


@pytest.mark.parametrize("name", VARIANTS)
def test_gradients_reach_every_weight(name):
    built = model(**VARIANTS[name])
    made = run(built, STORIES)
    total = made.means.square().sum()
    for part in (made.log_variances, *(made.posterior or ()), *(made.prior or ())):
        total = total if part is None else total + part.square().sum()
    total.backward()
    for key, weight in built.named_parameters():
        assert bool(weight.grad.any()), key


def test_latents_begin_with_little_noise():
    for first in (-5.0, 0.0):
        made = run(model(first_log_variance=first).eval(), STORIES)
        assert float(made.posterior[1].detach().mean()) == pytest.approx(first, abs=0.5)


def test_pictures_are_constants_of_unit_length():
    built = model(centre=True)
    built.centre.copy_(torch.arange(10.0))
    features = np.random.default_rng(0).standard_normal((4, 10)).astype(np.float32)
    found = built.encode_image(features)
    due = features - np.arange(10)
    np.testing.assert_allclose(found, due / np.linalg.norm(due, axis=1, keepdims=True), atol=1e-6)
    assert not built.pictures(torch.from_numpy(features)).requires_grad
    assert built.fingerprint != model(centre=True).fingerprint


def test_drawn_pictures_are_described_by_their_colours():
    features, width = drawing_backbone(Capabilities())
    pictures = np.zeros((2, 32, 32, 3), np.uint8)
    pictures[1, :8, :8] = 255
    found = features(torch.from_numpy(pictures))
    assert found.shape == (2, width) == (2, 48)
    assert found[0].tolist() == [-1.0] * 48
    assert sorted(set(found[1].tolist())) == [-1, 1]
    assert int((found[1] == 1).sum()) == 3
    with pytest.raises(ShapeError):
        features(torch.zeros(2, 3))


def test_sentences_are_heard_through_one_layer():
    built = model(text="sentences").eval()
    made = built.steps.reader(torch.eye(26)[:2], torch.ones(2))
    layer = built.steps.reader.layer
    due = torch.tanh(layer.weight.t()[:2] + layer.bias)
    torch.testing.assert_close(made, due)
    assert built.fingerprint != model(text="sentences", seed=1).fingerprint


def test_what_does_not_fit_is_said():
    with pytest.raises(ConfigError, match="variance"):
        model(latents=False, variance="learned")
    with pytest.raises(ShapeError, match=r"expected \(B, 10\)"):
        model().encode_image(np.zeros((2, 9), np.float32))
    words, lengths = (torch.from_numpy(part) for part in VOCABULARY.batch(["fox", "bears"], 6))
    for counts in ([3], [2, 0], [1]):
        with pytest.raises(ShapeError, match="S in all"):
            model()(words, lengths, torch.tensor(counts))
