"""The contextual sentence encoder against loops, and what changes what."""

import pytest
import torch

from limner.errors import ShapeError
from limner.research.nn.contextual import ContextualEncoder
from limner.research.nn.words import states

STEPS = torch.tensor([3, 1, 2])
LENGTHS = torch.tensor([4, 2, 3, 5, 1, 2])


def encoder(context="others"):
    torch.manual_seed(0)
    return ContextualEncoder(20, width=5, hidden=4, keys=6, attention=7, context=context)


def inputs(seed=1):
    draw = torch.Generator().manual_seed(seed)
    words = torch.randint(2, 20, (6, 5), generator=draw)
    words[torch.arange(5)[None] >= LENGTHS[:, None]] = 0
    return words, LENGTHS, torch.randn(6, 6, generator=draw), STEPS


def alone(own, words, length, keys, place):
    """One sentence, word by word, by docs/methods/gsda.md §2."""
    states = own.bottom(own.embedding(words[:length])[None])[0][0]
    around = []
    for state in states:
        others = [key for other, key in enumerate(keys) if other != place]
        if not others:
            around.append(torch.cat([state, torch.zeros(6)]))
            continue
        logits = torch.stack(
            [own.judge(torch.tanh(own.of_word(state) + own.of_key(key)))[0] for key in others]
        )
        weights = logits.exp() / logits.exp().sum()
        around.append(torch.cat([state, sum(w * key for w, key in zip(weights, others, strict=True))]))
    return own.top(torch.stack(around)[None])[0][0].mean(dim=0)


def test_it_is_the_loop_over_words_and_sentences():
    own = encoder()
    words, lengths, keys, steps = inputs()
    found = own(words, lengths, keys, steps).vectors
    row = 0
    for count in steps.tolist():
        for place in range(count):
            due = alone(own, words[row], int(lengths[row]), keys[row - place : row - place + count], place)
            torch.testing.assert_close(found[row], due)
            row += 1


def test_attention_is_over_the_other_sentences_of_the_story():
    words, lengths, keys, steps = inputs()
    found = encoder()(words, lengths, keys, steps)
    assert found.attention.shape == (6, 5, 3)
    for row, (place, count) in enumerate([(0, 3), (1, 3), (2, 3), (0, 1), (0, 2), (1, 2)]):
        real = found.attention[row]
        assert not real[:, place].any()
        assert not real[:, count:].any()
        due = torch.full((5,), float(count > 1))
        torch.testing.assert_close(real.sum(dim=1), due)
    assert not found.context[3].any(), "a story of one sentence has no context"


def test_context_hears_other_sentences_and_no_padding():
    own = encoder()
    words, lengths, keys, steps = inputs()
    before = own(words, lengths, keys, steps).vectors
    changed = keys.clone()
    changed[2] += 1
    after = own(words, lengths, changed, steps).vectors
    assert ((before - after).abs().amax(dim=1) > 1e-6).tolist() == [True, True, False, False, False, False]
    wider = torch.nn.functional.pad(words, (0, 3))
    torch.testing.assert_close(own(wider, lengths, keys, steps).vectors, before)
    longer = torch.cat([words, words[:4]]), torch.cat([lengths, lengths[:4]]), torch.cat([keys, keys[:4]])
    found = own(*longer, torch.tensor([3, 1, 2, 4])).vectors[:6]
    torch.testing.assert_close(found, before)


def test_equation_two_as_printed_returns_the_state_itself():
    own = encoder("literal").double()
    words, lengths, keys, steps = inputs()
    found = own(words, lengths, keys.double(), steps)
    read = states(own.bottom, own.embedding(words), lengths)
    several = torch.tensor([True, True, True, False, True, True])
    torch.testing.assert_close(found.context[several], read[several], atol=1e-15, rtol=0)
    changed = own(words, lengths, keys.double() + torch.randn(6, 6).double(), steps).vectors
    torch.testing.assert_close(changed, found.vectors)


def test_the_control_reads_the_key_of_its_own_sentence_and_no_other():
    own = encoder("own")
    words, lengths, keys, steps = inputs()
    found = own(words, lengths, keys, steps)
    row = 0
    for count in steps.tolist():
        for place in range(count):
            read = own.bottom(own.embedding(words[row, : lengths[row]])[None])[0][0]
            joined = torch.cat([read, keys[row].expand(len(read), 6)], dim=1)
            torch.testing.assert_close(found.vectors[row], own.top(joined[None])[0][0].mean(dim=0))
            assert found.attention[row].tolist() == [[float(other == place) for other in range(3)]] * 5
            row += 1
    changed = keys.clone()
    changed[2] += 1
    after = own(words, lengths, changed, steps).vectors
    assert ((found.vectors - after).abs().amax(dim=1) > 1e-6).tolist() == [False, False, True] + [False] * 3
    sizes = [sum(weight.numel() for weight in one.parameters()) for one in (own, encoder())]
    assert sizes[0] == sizes[1]


def test_without_context_it_is_a_mean_over_words():
    own = encoder("none")
    words, lengths, keys, steps = inputs()
    found = own(words, lengths, keys, steps)
    assert found.context is None
    assert found.attention is None
    for row, length in enumerate(lengths.tolist()):
        due = own.bottom(own.embedding(words[row, :length])[None])[0][0].mean(dim=0)
        torch.testing.assert_close(found.vectors[row], due)


@pytest.mark.parametrize("context", ["others", "none"])
def test_gradients_reach_every_weight_and_no_key(context):
    own = encoder(context)
    words, lengths, keys, steps = inputs()
    own(words, lengths, keys, steps).vectors.square().sum().backward()
    for name, weight in own.named_parameters():
        assert bool(weight.grad.any()), name
    assert keys.grad is None


def test_sizes_that_do_not_fit_are_refused():
    words, lengths, keys, steps = inputs()
    with pytest.raises(ShapeError, match="keys has shape"):
        encoder()(words, lengths, keys[:5], steps)
    with pytest.raises(ShapeError, match="axis 6 is 5"):
        encoder()(words, lengths, keys[:, :5], steps)
    with pytest.raises(ShapeError, match="S in all"):
        encoder()(words, lengths, keys, torch.tensor([3, 3, 0]))
    with pytest.raises(ShapeError, match="vectors"):
        ContextualEncoder(20, width=5, hidden=4, keys=6, attention=7, vectors=torch.zeros(3, 5))
