"""The text tower: padding never counts, a row alone equals a row of many, attention is what it says."""

import math

import pytest
import torch

from limner.errors import ShapeError
from limner.research.nn import words
from limner.research.nn.words import AdditiveAttention, WordEncoder

POOLINGS = ["none", "additive", "scaled"]


def encoder(pooling="scaled", **more):
    torch.manual_seed(3)
    settings = {"width": 6, "hidden": 5, "pooling": pooling} | more
    built = WordEncoder(20, 7, **settings)
    for _ in range(3):  # let batch norm have seen something
        built.train()(torch.randint(2, 20, (9, 4)), torch.full((9,), 4))
    return built.eval()


def batch():
    ids = torch.tensor([[2, 3, 4, 5, 6], [7, 8, 0, 0, 0], [9, 2, 2, 0, 0], [5, 0, 0, 0, 0]])
    return ids, torch.tensor([5, 2, 3, 1])


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("bidirectional", [True, False])
def test_padding_content_and_length_never_change_the_output(pooling, bidirectional):
    built, (ids, lengths) = encoder(pooling, bidirectional=bidirectional), batch()
    first = built(ids, lengths)
    other = ids.clone()
    for row, length in enumerate(lengths):
        other[row, length:] = 17
    again = built(other, lengths)
    assert torch.equal(first.vectors, again.vectors)
    longer = built(torch.nn.functional.pad(ids, (0, 3), value=11), lengths)
    assert torch.allclose(first.vectors, longer.vectors, atol=1e-6)
    if pooling != "none":
        assert torch.equal(first.attention, again.attention)
        assert torch.allclose(longer.attention[:, :5], first.attention, atol=1e-6)
        assert (longer.attention[:, 5:] == 0).all()


@pytest.mark.parametrize("pooling", POOLINGS)
def test_a_row_alone_equals_the_row_among_many(pooling):
    built, (ids, lengths) = encoder(pooling), batch()
    many = built(ids, lengths)
    for row, length in enumerate(lengths):
        alone = built(ids[row : row + 1, :length], lengths[row : row + 1])
        assert torch.allclose(alone.vectors[0], many.vectors[row], atol=1e-6)
        assert alone.vectors.norm().item() == pytest.approx(1, abs=1e-5)


def test_attention_sums_to_one_over_the_real_words_only():
    ids, lengths = batch()
    weights = encoder()(ids, lengths).attention
    assert torch.allclose(weights.sum(1), torch.ones(4))
    for row, length in enumerate(lengths):
        assert (weights[row, :length] > 0).all()
        assert (weights[row, length:] == 0).all()
    assert weights[3, 0] == 1
    assert encoder("none")(ids, lengths).attention is None


@pytest.mark.parametrize("scaled", [True, False])
@torch.no_grad()
def test_attention_equals_loops(scaled):
    torch.manual_seed(1)
    attention = AdditiveAttention(4, scaled=scaled).double()
    states = torch.randn(2, 3, 4, dtype=torch.float64)
    pooled, weights = attention(states, torch.tensor([[True, True, False], [True, True, True]]))
    for row, length in ((0, 2), (1, 3)):
        energies = []
        for k in range(length):
            u = torch.tanh(attention.transform.weight @ states[row, k] + attention.transform.bias)
            energies.append(float(attention.question @ u) / (2.0 if scaled else 1.0))
        exps = [math.exp(e) for e in energies]
        due = [e / sum(exps) for e in exps]
        assert weights[row, :length].tolist() == pytest.approx(due)
        expected = sum(a * states[row, k] for k, a in enumerate(due))  # of the states, not of u
        assert torch.allclose(pooled[row], expected)


def test_without_attention_the_final_states_of_both_directions_are_joined():
    built, (ids, lengths) = encoder("none"), batch()
    row = 2
    states, _ = built.lstm(built.embedding(ids[row : row + 1, : lengths[row]]))
    joined = torch.cat([states[0, -1, :5], states[0, 0, 5:]])
    due = torch.nn.functional.normalize(built.project(built.norm(joined[None])), dim=1)
    assert torch.allclose(built(ids, lengths).vectors[row], due[0], atol=1e-6)


def test_word_vectors_start_the_embedding_and_padding_stays_zero():
    vectors = torch.randn(20, 6)
    built = WordEncoder(20, 7, vectors=vectors, width=6, hidden=5)
    assert torch.equal(built.embedding.weight[1:], vectors[1:])
    assert (built.embedding.weight[0] == 0).all()
    built(*batch()).vectors.sum().backward()
    assert (built.embedding.weight.grad[0] == 0).all()
    assert built.embedding.weight.grad[2].abs().sum() > 0


def test_sizes_are_those_of_the_specification():
    built = WordEncoder(10, 1024)
    count = {name: sum(p.numel() for p in part.parameters()) for name, part in built.named_children()}
    assert count["lstm"] == 1_444_800
    assert count["attention"] == 361_200
    assert count["norm"] == 1_200
    assert count["project"] == 615_424


def test_what_does_not_fit_is_refused():
    ids, lengths = batch()
    with pytest.raises(ShapeError, match="word vectors"):
        WordEncoder(20, 7, width=6, vectors=torch.zeros(19, 6))
    built = encoder()
    for wrong in (torch.tensor([6, 2, 3, 1]), torch.tensor([5, 2, 0, 1])):
        with pytest.raises(ShapeError, match="outside 1…5"):
            built(ids, wrong)
    with pytest.raises(ShapeError, match="axis B"):
        built(ids, lengths[:3])
    with pytest.raises(ShapeError, match="at least 2 for batch norm"):
        built.train()(ids[:1], lengths[:1])


def test_lengths_may_stay_on_the_cpu_where_words_are_on_a_card(monkeypatch):
    # "meta" stands in for a card: torch refuses to join it with the CPU as well. Unpacking needs values.
    joined = torch.empty(2, 3, 6, device="meta")
    monkeypatch.setattr(words, "pad_packed_sequence", lambda states, **how: (joined, None))
    built = WordEncoder(10, 4, width=5, hidden=3).to("meta")
    found = built(torch.ones(2, 3, dtype=torch.int64, device="meta"), torch.tensor([3, 2]))
    assert found.vectors.device.type == found.attention.device.type == "meta"
