"""Stories are encoded some at a time, in their order, whatever is empty among them."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from limner.encoders.vocabulary import Vocabulary
from limner.research.systems import base, text_side

STORIES = st.lists(st.lists(st.text("abc", max_size=4), max_size=3), max_size=9)


class Lengths(text_side.StoryModel):
    """Says of a text how long it is, and how many stories it was given together with."""

    dim = 2

    def __init__(self):
        super().__init__(None, base.ModelParts(Vocabulary(()), 0))
        self.calls = []

    def together(self, stories):
        assert not self.training
        assert not torch.is_grad_enabled()
        assert all(stories)
        self.calls.append(len(stories))
        return torch.tensor([[len(text), len(story)] for story in stories for text in story])


@given(STORIES, st.integers(1, 4))
def test_every_story_gets_its_own_rows(stories, at_once):
    model, before = Lengths(), text_side.ENCODE_STORIES
    text_side.ENCODE_STORIES = at_once
    try:
        found = model.encode_stories(stories)
    finally:
        text_side.ENCODE_STORIES = before
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
    assert model.encode_text(["a", "", "abc"]).tolist() == [[1, 1], [0, 1], [3, 1]]
    assert model.encode_text([]).shape == (0, 2)
