"""Stories are encoded some at a time, in their order, whatever is empty among them."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from limner.models.story_encoding import encode_alone, encode_stories

STORIES = st.lists(st.lists(st.text("abc", max_size=4), max_size=3), max_size=9)


class Lengths(nn.Module):
    """Says of a text how long it is, and how many stories it was given together with."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def encode(self, stories):
        assert not self.training
        assert not torch.is_grad_enabled()
        assert all(stories)
        self.calls.append(len(stories))
        return torch.tensor([[len(text), len(story)] for story in stories for text in story])


@given(STORIES, st.integers(1, 4))
def test_every_story_gets_its_own_rows(stories, at_once):
    model = Lengths()
    found = encode_stories(model, stories, model.encode, 2, at_once)
    assert [part.tolist() for part in found] == [
        [[len(text), len(story)] for text in story] for story in stories
    ]
    assert all(part.shape == (len(story), 2) for part, story in zip(found, stories, strict=True))
    assert all(part.dtype == np.float32 for part in found)
    assert sum(model.calls) == sum(1 for story in stories if story)
    assert max(model.calls, default=0) <= at_once
    assert model.training


def test_texts_alone_are_stories_of_one_step():
    model = Lengths()

    def encode(stories):
        return encode_stories(model, stories, model.encode, 2)

    assert encode_alone(encode, ["a", "", "abc"], 2).tolist() == [[1, 1], [0, 1], [3, 1]]
    assert encode_alone(encode, [], 2).shape == (0, 2)
