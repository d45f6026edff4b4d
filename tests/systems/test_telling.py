"""Generated sentences: greedy against a loop, the state carried on."""

import pytest
import torch

from limner.datasets.vocabulary import Vocabulary
from limner.errors import ShapeError
from limner.systems.gsda.captioner import Captioner, CaptionerArchitecture, Sentence, tell, tell_sentences

pytestmark = pytest.mark.slow

VOCABULARY = Vocabulary(("fox", "bear", "."))
STEPS = torch.tensor([2, 1, 3])
LONGEST = 3
SMALL = CaptionerArchitecture(local=8, hidden=8, joined=12, told=8, state=10, word_width=6)


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
def score(built, heard, state, words):
    """Log-probability of one sentence, its end included, and the state after its last word."""
    total = 0.0
    for before, after in zip([0, *words], [*words, 0], strict=True):
        logs, state = built.advance(heard, torch.tensor([before]), state)
        total += float(logs[0, after])
    return total, state


@torch.no_grad()
def told_by_loop(built, features, steps, choose):
    """Stories one by one, each sentence as `choose` finds it, the state carried on."""
    heard = built.heard(features, steps)
    stories, row = [], 0
    for count in steps.tolist():
        state, story = built.silence(1), []
        for _ in range(count):
            words = choose(built, heard[row : row + 1], state)
            total, state = score(built, heard[row : row + 1], state, words)
            story.append(Sentence(words, total))
            row += 1
        stories.append(story)
    return stories


@torch.no_grad()
def likeliest_words(built, heard, state):
    words = []
    while len(words) < LONGEST:
        logs, state = built.advance(heard, torch.tensor([words[-1] if words else 0]), state)
        chances = {number: float(logs[0, number]) for number in (0, 2, 3, 4)}
        if not words:
            del chances[0]
        best = max(chances, key=chances.get)
        if best == 0:
            break
        words.append(best)
    return tuple(words)


def same(found, due):
    assert [[one.words for one in story] for story in found] == [
        [one.words for one in story] for story in due
    ]
    for story, other in zip(found, due, strict=True):
        for one, two in zip(story, other, strict=True):
            assert one.log_probability == pytest.approx(two.log_probability, abs=1e-4)


@pytest.mark.parametrize("seed", range(6))
def test_greedy_is_the_loop(seed):
    built = model(seed)
    features = pictures(seed)
    found = tell_sentences(built, features, STEPS)
    same(found, told_by_loop(built, features, STEPS, likeliest_words))
    assert [len(story) for story in found] == STEPS.tolist()


def test_a_story_is_told_alone_as_in_company():
    for seed in range(4):
        built = model(seed)
        features = pictures(seed)
        parts = features.split(STEPS.tolist())
        alone = [tell_sentences(built, part, torch.tensor([len(part)]))[0] for part in parts]
        same(tell_sentences(built, features, STEPS), alone)


def test_a_sentence_that_never_ends_is_ended_and_its_end_is_paid_for():
    built = model(end=-50.0)
    for story in tell_sentences(built, pictures(), STEPS):
        for sentence in story:
            assert len(sentence.words) == LONGEST
            assert sentence.log_probability < -20


def test_a_sentence_has_a_word_and_no_unknown_one():
    built = model(end=50.0)
    with torch.no_grad():
        built.say.bias[1] += 40
    for story in tell_sentences(built, pictures(), STEPS):
        for sentence in story:
            assert len(sentence.words) == 1
            assert sentence.words[0] >= 2


def test_told_stories_are_texts_in_their_order(monkeypatch):
    built = model().train()
    features = pictures()
    parts = [part.numpy() for part in features.split(STEPS.tolist())]
    found = tell(built, [parts[0], parts[0][:0], *parts[1:]])
    assert built.training
    due = tell_sentences(built, features, STEPS)
    texts = [[built.text(sentence.words) for sentence in story] for story in due]
    assert found == [texts[0], [], *texts[1:]]
    monkeypatch.setattr("limner.systems.gsda.captioner.AT_ONCE", 1)
    assert tell(built, parts) == texts
    assert tell(built, []) == []


def test_features_that_do_not_fit_are_refused():
    with pytest.raises(ShapeError):
        tell_sentences(model(), pictures()[:5], STEPS)
    with pytest.raises(ShapeError):
        tell_sentences(model(), pictures()[:, :4], STEPS)
