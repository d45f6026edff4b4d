"""Generated sentences: greedy against a loop, the state carried on."""

import pytest
import torch

from limner.encoders.vocabulary import Vocabulary
from limner.errors import ShapeError
from limner.research.systems.gsda.captioner import (
    Captioner,
    CaptionerArchitecture,
    generate,
    generate_numbers,
)

pytestmark = pytest.mark.slow

VOCABULARY = Vocabulary(("fox", "bear", "."))
STEPS = torch.tensor([2, 1, 3])
LONGEST = 3
SMALL = CaptionerArchitecture(local=8, hidden=8, joined=12, seen=8, state=10, word_width=6)


def model(seed=0, spread=1.0, end=0.0):
    torch.manual_seed(seed)
    built = Captioner(SMALL, VOCABULARY, image_width=5, max_length=LONGEST)
    with torch.no_grad():
        for name, weight in built.named_parameters():
            if "norm" not in name:
                weight.copy_(torch.randn_like(weight) * spread)
        built.say.bias[0] += end
    return built.eval()


def pictures(seed=1, count=6):
    return torch.randn(count, 5, generator=torch.Generator().manual_seed(seed))


@torch.no_grad()
def after(built, seen, state, words):
    """The state after the last word of a sentence."""
    for before in [0, *words]:
        _, state = built.advance(seen, torch.tensor([before]), state)
    return state


@torch.no_grad()
def told_by_loop(built, features, steps, choose):
    """Stories one by one, each sentence as `choose` finds it, the state carried on."""
    seen = built.seen(features, steps)
    stories, row = [], 0
    for count in steps.tolist():
        state, story = built.silence(1), []
        for _ in range(count):
            words = choose(built, seen[row : row + 1], state)
            state = after(built, seen[row : row + 1], state, words)
            story.append(words)
            row += 1
        stories.append(story)
    return stories


@torch.no_grad()
def likeliest_words(built, seen, state):
    words = []
    while len(words) < LONGEST:
        logs, state = built.advance(seen, torch.tensor([words[-1] if words else 0]), state)
        chances = {number: float(logs[0, number]) for number in (0, 2, 3, 4)}
        if not words:
            del chances[0]
        best = max(chances, key=chances.get)
        if best == 0:
            break
        words.append(best)
    return words


@pytest.mark.parametrize("seed", range(6))
def test_greedy_is_the_loop(seed):
    built = model(seed)
    features = pictures(seed)
    found = generate_numbers(built, features, STEPS)
    assert found == told_by_loop(built, features, STEPS, likeliest_words)
    assert [len(story) for story in found] == STEPS.tolist()


def test_a_story_is_told_alone_as_in_company():
    for seed in range(4):
        built = model(seed)
        features = pictures(seed)
        parts = features.split(STEPS.tolist())
        alone = [generate_numbers(built, part, torch.tensor([len(part)]))[0] for part in parts]
        assert generate_numbers(built, features, STEPS) == alone


def test_a_sentence_that_never_ends_is_ended():
    built = model(end=-50.0)
    for story in generate_numbers(built, pictures(), STEPS):
        for sentence in story:
            assert len(sentence) == LONGEST


def test_a_sentence_has_a_word_and_no_unknown_one():
    built = model(end=50.0)
    with torch.no_grad():
        built.say.bias[1] += 40
    for story in generate_numbers(built, pictures(), STEPS):
        for sentence in story:
            assert len(sentence) == 1
            assert sentence[0] >= 2


def test_told_stories_are_texts_in_their_order(monkeypatch):
    built = model().train()
    features = pictures()
    parts = [part.numpy() for part in features.split(STEPS.tolist())]
    found = generate(built, [parts[0], parts[0][:0], *parts[1:]])
    assert built.training
    due = generate_numbers(built, features, STEPS)
    texts = [[built.text(sentence) for sentence in story] for story in due]
    assert found == [texts[0], [], *texts[1:]]
    monkeypatch.setattr("limner.research.systems.gsda.captioner.AT_ONCE", 1)
    assert generate(built, parts) == texts
    assert generate(built, []) == []


def test_features_that_do_not_fit_are_refused():
    with pytest.raises(ShapeError):
        generate_numbers(model(), pictures()[:5], STEPS)
    with pytest.raises(ShapeError):
        generate_numbers(model(), pictures()[:, :4], STEPS)
