"""Told sentences: greedy against a loop, beams against every sentence there is, the state carried on."""

import itertools
import math

import pytest
import torch

from limner.datasets.vocabulary import Vocabulary
from limner.errors import ConfigError, ShapeError
from limner.models.captioner import Captioner, CaptionerArchitecture
from limner.models.telling import Sentence, tell, tell_sentences

pytestmark = pytest.mark.slow

VOCABULARY = Vocabulary(("fox", "bear", "."))
STEPS = torch.tensor([2, 1, 3])
LONGEST = 3


def model(seed=0, spread=1.0, end=0.0):
    torch.manual_seed(seed)
    built = Captioner(CaptionerArchitecture().smoke(), VOCABULARY, image_width=5, max_length=LONGEST)
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


def best_of_all(penalty):
    def choose(built, heard, state):
        every = [
            words for length in range(1, LONGEST + 1) for words in itertools.product((2, 3, 4), repeat=length)
        ]
        assert len(every) == 3 + 9 + 27
        return max(
            every, key=lambda words: score(built, heard, state, words)[0] / (len(words) + 1) ** penalty
        )

    return choose


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


@pytest.mark.parametrize("penalty", [0.0, 1.0])
@pytest.mark.parametrize("seed", range(4))
def test_a_beam_of_one_is_greedy(seed, penalty):
    """The beam itself is called: `tell_sentences` hands one beginning to greedy."""
    from limner.models.telling import beam, greedy

    built = model(seed)
    with torch.no_grad():
        heard = built.heard(pictures(seed), STEPS)
        state = torch.randn(built.silence(6).shape, generator=torch.Generator().manual_seed(seed))
        one, after = greedy(built, heard, state, max_length=LONGEST)
        other, same_after = beam(built, heard, state, max_length=LONGEST, width=1, penalty=penalty)
    same([one], [other])
    torch.testing.assert_close(after, same_after)


@pytest.mark.parametrize("penalty", [0.0, 0.7, 2.0])
@pytest.mark.parametrize("seed", range(4))
def test_a_beam_that_is_wide_enough_finds_the_best_of_all(seed, penalty):
    built = model(seed)
    features = pictures(seed)
    found = tell_sentences(built, features, STEPS, beams=60, length_penalty=penalty)
    same(found, told_by_loop(built, features, STEPS, best_of_all(penalty)))


def test_the_best_of_all_is_at_least_as_likely_as_greedy_and_sometimes_likelier():
    gains = []
    for seed in range(12):
        built = model(seed)
        features = pictures(seed)
        first = [story[0].log_probability for story in tell_sentences(built, features, STEPS)]
        for width in (2, 60):
            found = tell_sentences(built, features, STEPS, beams=width)
            gains += [story[0].log_probability - one for story, one in zip(found, first, strict=True)]
            if width == 60:
                assert min(gains[-3:]) > -1e-4
    assert max(gains) > 0.01


def test_a_length_penalty_makes_sentences_longer():
    lengths = []
    for penalty in (0.0, 3.0):
        told = [
            tell_sentences(model(seed, 0.3), pictures(seed), STEPS, beams=60, length_penalty=penalty)
            for seed in range(4)
        ]
        lengths.append(sum(len(one.words) for stories in told for story in stories for one in story))
    assert lengths[0] < lengths[1]


@pytest.mark.parametrize("beams", [1, 3])
def test_a_story_is_told_alone_as_in_company(beams):
    for seed in range(4):
        built = model(seed)
        features = pictures(seed)
        parts = features.split(STEPS.tolist())
        alone = [tell_sentences(built, part, torch.tensor([len(part)]), beams=beams)[0] for part in parts]
        same(tell_sentences(built, features, STEPS, beams=beams), alone)


@pytest.mark.parametrize("beams", [1, 3])
def test_a_sentence_that_never_ends_is_ended_and_its_end_is_paid_for(beams):
    built = model(end=-50.0)
    for story in tell_sentences(built, pictures(), STEPS, beams=beams):
        for sentence in story:
            assert len(sentence.words) == LONGEST
            assert sentence.log_probability < -20
    assert all(
        len(sentence.words) == 5
        for story in tell_sentences(built, pictures(), STEPS, beams=beams, max_length=5)
        for sentence in story
    )


@pytest.mark.parametrize("beams", [1, 3])
def test_a_sentence_has_a_word_and_no_unknown_one(beams):
    built = model(end=50.0)
    with torch.no_grad():
        built.say.bias[1] += 40
    for story in tell_sentences(built, pictures(), STEPS, beams=beams):
        for sentence in story:
            assert len(sentence.words) == 1
            assert sentence.words[0] >= 2


def test_told_stories_are_texts_in_their_order(monkeypatch):
    built = model().train()
    features = pictures()
    parts = [part.numpy() for part in features.split(STEPS.tolist())]
    found = tell(built, [parts[0], parts[0][:0], *parts[1:]], beams=2)
    assert built.training
    due = tell_sentences(built, features, STEPS, beams=2)
    texts = [[built.text(sentence.words) for sentence in story] for story in due]
    assert found == [texts[0], [], *texts[1:]]
    monkeypatch.setattr("limner.models.telling.TELL_STORIES", 1)
    assert tell(built, parts, beams=2) == texts
    assert tell(built, []) == []
    assert all(len(text.split()) <= 1 for story in tell(built, parts, max_length=1) for text in story)


@pytest.mark.parametrize(
    "setting",
    [{"beams": 0}, {"max_length": 0}, {"length_penalty": -0.1}, {"length_penalty": math.nan}],
)
def test_settings_out_of_range_are_refused(setting):
    with pytest.raises(ConfigError, match="tell"):
        tell_sentences(model(), pictures(), STEPS, **setting)


def test_features_that_do_not_fit_are_refused():
    with pytest.raises(ShapeError):
        tell_sentences(model(), pictures()[:5], STEPS)
    with pytest.raises(ShapeError):
        tell_sentences(model(), pictures()[:, :4], STEPS)
