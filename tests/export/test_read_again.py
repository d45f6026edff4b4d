"""What an export holds, read again, is the same steps in the same words."""

from pathlib import Path

import pytest

from limner.export import export
from limner.records import Board, BoardStep, Candidate
from limner.text.read import parse_story_report, read_story_report

RECIPE = """# Onion soup

My grandmother made it every winter.

## Ingredients

- 6 onions
- 1 l stock

## Method

1. Chop the onions on a board:
   - peel them
   - cut them in half
     1. lengthwise
     2. across
2. Melt the butter.
3. Pour in the stock and cook it
   for half an hour.

   Taste it.
4. Serve the soup in a bowl.

Enjoy!
"""
STORY = """# The fox and the kite

For Ana

A fox walked through the snow. It was cold and still.

It met a child with a kite, who laughed at the wind.

In the garden the roses were in bloom.
"""
GUIDE = """# How to bake bread

Bread needs time.

## Prepare the dough

Mix flour and water.

### Rest

Leave it under a cloth.

```
time = 60
    warm
```

## Bake it

- on a hot stone
- with steam

Wait.
"""
STEPS = """# Mending a bicycle

## Step 1: Turn it over

Put it on its saddle, with a blanket below it so that nothing is scratched.

## Step 2: Mend the tube

Find the hole under water, where bubbles rise from it.
"""


def told(steps) -> list[tuple[str, str]]:
    return [
        ("".join(filter(str.isalnum, one.title)), "".join(filter(str.isalnum, one.text))) for one in steps
    ]


@pytest.mark.parametrize("text", [RECIPE, STORY, GUIDE, STEPS], ids=["recipe", "story", "guide", "steps"])
@pytest.mark.parametrize("suffix", [".docx", ".pdf", ".html", ".md"])
def test_an_export_is_read_as_the_steps_that_went_in(text, suffix, pictures, tmp_path: Path) -> None:
    story = parse_story_report(text, format="markdown").story.model_copy(update={"markdown": ""})
    names = ["turned", "wide", "odd", "tall", "cmyk"]
    steps = [
        BoardStep(
            position=place,
            chosen=Candidate(picture=pictures[names[place]], score=1.0, channels={}),
            origin="decoded",
        )
        for place in range(len(story.steps))
    ]
    export(Board(story=story, steps=tuple(steps)), tmp_path / f"out{suffix}")
    again = read_story_report(tmp_path / f"out{suffix}").story
    assert told(again.steps) == told(story.steps)
    assert again.title == story.title
    if suffix == ".docx":
        assert [len(step.pictures) for step in again.steps] == [1] * len(steps)
        code = [part.text for step in again.steps for part in step.parts if part.kind == "code"]
        assert code == (["time = 60\n    warm"] if text == GUIDE else [])
