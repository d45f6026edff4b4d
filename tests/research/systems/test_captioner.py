"""The captioner: its decoder against a loop word by word, what depends on what, and no padding."""

import math

import numpy as np
import pytest
import torch

from limner.encoders.vocabulary import Vocabulary
from limner.errors import ConfigError, DataError, ShapeError
from limner.research.losses.generative import sentence_losses, story_losses
from limner.research.systems.gsda.captioner import Captioner, CaptionerArchitecture

STORIES = [
    ["a red fox runs", "two bears", "the blue whale sings (in the deep sea)."],
    ["fox"],
    ["bears sing", "the fox runs home"],
]
TEXTS = [text for story in STORIES for text in story]
STEPS = torch.tensor([3, 1, 2])
VOCABULARY = Vocabulary.build(TEXTS)
SMALL = CaptionerArchitecture(local=8, hidden=8, joined=12, seen=8, state=10, word_width=6)


def model(seed=0, vocabulary=VOCABULARY, max_length=12, **changes):
    torch.manual_seed(seed)
    built = Captioner(SMALL.model_copy(update=changes), vocabulary, image_width=5, max_length=max_length)
    for norm in (built.pictures.local_norm, built.pictures.join_norm):
        norm.running_mean.uniform_(-1, 1)
        norm.running_var.uniform_(0.5, 2)
    return built


def pictures(seed=1, count=6):
    return torch.randn(count, 5, generator=torch.Generator().manual_seed(seed))


def run(built, features, stories):
    words, lengths = built.numbers([text for story in stories for text in story])
    return built(features, torch.tensor([len(story) for story in stories]), words, lengths)


def test_the_default_sizes_are_those_of_the_paper():
    with torch.device("meta"):
        built = Captioner(CaptionerArchitecture(), VOCABULARY, image_width=2048, max_length=20)
    shapes = {name: tuple(weight.shape) for name, weight in built.named_parameters()}
    assert shapes["pictures.local.weight"] == (1024, 2048)
    assert shapes["pictures.story.weight_ih_l0"] == (4 * 1024, 1024)
    assert shapes["pictures.story.weight_hh_l1_reverse"] == (4 * 1024, 1024)
    assert shapes["pictures.join.weight"] == (2048, 3072)
    assert shapes["tell.0.weight"] == (1024, 2048)
    assert shapes["embedding.weight"] == (len(VOCABULARY), 256)
    assert shapes["decoder.weight_ih_l0"] == (4 * 1024, 1024 + 256)
    assert shapes["decoder.weight_hh_l1"] == (4 * 1024, 1024)
    assert shapes["say.weight"] == (len(VOCABULARY), 1024)


def test_teacher_forcing_is_the_loop():
    """Word by word, the state carried from sentence to sentence and zero where a story begins."""
    built = model().eval()
    features = pictures()
    made = run(built, features, STORIES)
    seen = built.seen(features, STEPS)
    logs, targets, row = [], [], 0
    for story in STORIES:
        state = built.silence(1)
        for text in story:
            said = VOCABULARY.numbers(text)
            for before, after in zip([0, *said], [*said, 0], strict=True):
                expected, state = built.advance(seen[row : row + 1], torch.tensor([before]), state)
                logs.append(expected[0])
                targets.append(after)
            row += 1
    assert made.targets.tolist() == targets
    assert made.tokens.tolist() == [len(VOCABULARY.numbers(text)) + 1 for text in TEXTS]
    torch.testing.assert_close(made.logits.log_softmax(dim=1), torch.stack(logs))


def test_a_story_alone_is_as_in_company():
    """Padding has no influence."""
    built = model().eval()
    features = pictures()
    together = run(built, features, STORIES)
    parts = features.split(STEPS.tolist())
    alone = [run(built, part, [story]) for part, story in zip(parts, STORIES, strict=True)]
    torch.testing.assert_close(together.logits, torch.cat([one.logits for one in alone]))
    words, lengths = built.numbers(TEXTS)
    junk = torch.arange(words.shape[1]) >= lengths[:, None]
    wider = torch.cat([words.masked_fill(junk, 10**6), torch.full((6, 3), -7)], dim=1)
    torch.testing.assert_close(built(features, STEPS, wider, lengths).logits, together.logits)


def test_sentences_depend_on_earlier_ones_and_on_all_pictures_of_their_story():
    built = model().eval()
    features = pictures().requires_grad_()
    first = run(built, features, STORIES)
    changed = [["a blue fox runs", *STORIES[0][1:]], *STORIES[1:]]
    other = run(built, features, changed)
    moved = (first.logits != other.logits).any(dim=1).split(first.tokens.tolist())
    assert [bool(part.any()) for part in moved] == [True, True, True, False, False, False]
    # the start and "a" come before the word that differs
    assert moved[0].tolist() == [False, False, True, True, True]
    losses = sentence_losses(*first)
    grads = [torch.autograd.grad(loss, features, retain_graph=True)[0] for loss in losses]
    reached = [grad.abs().sum(dim=1).nonzero()[:, 0].tolist() for grad in grads]
    assert reached == [[0, 1, 2]] * 3 + [[3]] + [[4, 5]] * 2


@pytest.mark.slow
def test_what_is_passed_down_soft_pictures_is_the_slope():
    """In double precision the loss differentiates with respect to the features, as a retriever needs it."""
    built = model(dropout=0.0, word_dropout=0.0).double()
    words, lengths = built.numbers(TEXTS)
    features = pictures().double().requires_grad_()

    def cost(rows):
        return story_losses(sentence_losses(*built(rows, STEPS, words, lengths)), STEPS)

    for training in (True, False):
        built.train(training)
        for norm in (built.pictures.local_norm, built.pictures.join_norm):
            norm.momentum = 0.0
        assert torch.autograd.gradcheck(cost, features)


@pytest.mark.parametrize("story", [["fox"], ["fox", "two bears"]])
def test_one_story_trains(story):
    built = model()
    features = pictures(count=len(story)).requires_grad_()
    for _ in range(2):
        made = run(built, features, [story])
        sentence_losses(*made).sum().backward()
    for name, weight in [("features", features), *built.named_parameters()]:
        assert weight.grad is not None, name
        assert bool(weight.grad.isfinite().all()), name
    assert bool(features.grad.any())


def test_gradients_reach_every_weight():
    built = model()
    sentence_losses(*run(built, pictures(), STORIES)).sum().backward()
    for name, weight in built.named_parameters():
        assert bool(weight.grad.any()), name


@pytest.mark.slow
def test_the_captioner_learns_its_stories():
    built = model(dropout=0.0, word_dropout=0.0)
    features = pictures()
    optimiser = torch.optim.Adam(built.parameters(), lr=0.04)
    for _ in range(120):
        optimiser.zero_grad()
        sentence_losses(*run(built, features, STORIES)).sum().backward()
        optimiser.step()
    own = built.surprise([part.numpy() for part in features.split(STEPS.tolist())], STORIES)
    assert own.nats.sum() / own.tokens.sum() < 0.2
    swapped = [features[[2, 1, 0]].numpy(), features[3:4].numpy(), features[[5, 4]].numpy()]
    assert built.surprise(swapped, STORIES).nats.sum() > 2 * own.nats.sum()


def test_evaluation_draws_nothing_and_training_does():
    built = model()
    features = pictures()
    assert not torch.equal(run(built, features, STORIES).logits, run(built, features, STORIES).logits)
    built.eval()
    assert torch.equal(run(built, features, STORIES).logits, run(built, features, STORIES).logits)


def test_surprise_counts_words_and_ends_and_no_start():
    built = model().eval()
    with torch.no_grad():
        built.say.weight.zero_()
        built.say.bias.zero_()
    parts = [part.numpy() for part in pictures().split(STEPS.tolist())]
    stories = [["a green fox", "", "two bears"], *STORIES[1:]]
    found = built.surprise([parts[0], np.zeros((0, 5)), *parts[1:]], [stories[0], [], *stories[1:]])
    assert found.tokens.tolist() == [4, 2, 3, 2, 3, 5]
    assert found.unknown.tolist() == [1, 1, 0, 0, 0, 0]
    np.testing.assert_allclose(found.nats, found.tokens * math.log(len(VOCABULARY)), rtol=1e-6)
    assert built.surprise([], []).nats.shape == (0,)


def test_surprise_is_the_loss_in_batches_of_any_size(monkeypatch):
    built = model()
    parts = [part.numpy() for part in pictures().split(STEPS.tolist())]
    found = built.surprise(parts, STORIES)
    assert built.training
    built.eval()
    due = sentence_losses(*run(built, pictures(), STORIES)).detach().numpy()
    np.testing.assert_allclose(found.nats / found.tokens, due, rtol=1e-5)
    monkeypatch.setattr("limner.research.systems.gsda.captioner.AT_ONCE", 2)
    np.testing.assert_allclose(built.surprise(parts, STORIES).nats, found.nats, rtol=1e-5)
    with pytest.raises(ShapeError, match="differ in number"):
        built.surprise(parts[:2], STORIES[1:])


def test_a_sentence_that_is_cut_teaches_no_end():
    whole, cut = model().eval(), model(max_length=3).eval()
    words, lengths = cut.numbers(TEXTS)
    assert words.shape == (6, 4)
    assert lengths.tolist() == [4, 2, 4, 1, 2, 4]
    features = pictures()
    found = run(cut, features, STORIES)
    assert found.tokens.tolist() == [4, 3, 4, 2, 3, 4]
    ends = [part[-1] for part in found.targets.split(found.tokens.tolist())]
    assert [int(end) == 0 for end in ends] == [False, True, False, True, True, False]
    due = run(whole, features, STORIES)
    first = due.logits.split(due.tokens.tolist())[0][:4]
    torch.testing.assert_close(found.logits[:4], first)
    # the word after the last one read is expected and not read, so longer rows change nothing
    longer = cut(features, STEPS, *whole.numbers(TEXTS))
    torch.testing.assert_close(longer.logits, found.logits)
    assert torch.equal(longer.targets, found.targets)


def test_text_is_written_without_spaces_before_marks():
    built = model()
    said = built.text(VOCABULARY.numbers(TEXTS[2]))
    assert said == TEXTS[2]
    for number in (0, 1, len(VOCABULARY), -1):
        with pytest.raises(DataError, match="is not a word"):
            built.text([2, number])


def test_what_does_not_fit_is_said():
    built = model()
    words, lengths = built.numbers(TEXTS)
    features = pictures()
    for steps in ([3, 1], [3, 1, 3], [6, 0]):
        with pytest.raises(ShapeError, match=r"sum to|S in all"):
            built(features, torch.tensor(steps), words, lengths)
    for wrong in (lengths * 0, lengths + words.shape[1], lengths[:5]):
        with pytest.raises(ShapeError, match="lengths in 1…L"):
            built(features, STEPS, words, wrong)
    with pytest.raises(ShapeError, match="captioner: features has shape"):
        built(features[:, :4], STEPS, words, lengths)
    for number in (0, -1, len(VOCABULARY)):
        wrong = words.clone()
        wrong[0, 1] = number
        with pytest.raises(DataError, match="a number that is not a word"):
            built(features, STEPS, wrong, lengths)
    with pytest.raises(ConfigError, match="0 words"):
        model(vocabulary=Vocabulary(()))
    with pytest.raises(ConfigError, match="max_length 0"):
        model(max_length=0)
