"""Illustrated stories and captioned pictures as pairs, for systems that learn from one text with one picture.

No relations are known of them. It makes no split and changes no text.
"""

from dataclasses import replace
from pathlib import Path

from limner.data.captions import CaptionSet
from limner.data.coherence import PairSet
from limner.data.pairs import Pair
from limner.data.presence import MAX_MISSING, MissingPolicy, keep_present
from limner.data.stories import StorySet


def story_pairs(
    stories: StorySet, *, missing: MissingPolicy = "abort", max_missing: float = MAX_MISSING
) -> PairSet:
    """The pages of stories, each with its picture.

    Args:
        stories: as read; a page's first picture counts.
        missing: what to do about pictures that are not there or do not open.
        max_missing: share of pairs in [0, 1] that "abort" lets pass.
    Raises:
        DataError: too many pictures are missing.
    """
    pairs = tuple(
        Pair(
            id=f"{story.id}-{number}",
            text=step.text,
            image=step.pictures[0].target,
            split=story.split,
            seq=story.id,
            pos=number,
            meta={"author": story.author, "source": story.source},
        )
        for story in stories.stories
        for number, step in enumerate(story.steps)
        if step.pictures
    )
    return _present(stories.folder, pairs, missing, max_missing)


def caption_pairs(
    captions: CaptionSet,
    *,
    every: bool = False,
    missing: MissingPolicy = "abort",
    max_missing: float = MAX_MISSING,
) -> PairSet:
    """Captions with their pictures.

    Args:
        captions: as read.
        every: all captions of a picture, or the first alone.
        missing: as in `story_pairs`.
        max_missing: as in `story_pairs`.
    Raises:
        DataError: too many pictures are missing.
    """
    pairs = tuple(
        Pair(id=f"{picture.name}-{number}", text=text, image=picture.name, split=picture.split)
        for picture in captions.pictures
        for number, text in enumerate(picture.captions if every else picture.captions[:1])
    )
    return _present(captions.folder, pairs, missing, max_missing)


def _present(folder: Path, pairs: tuple[Pair, ...], missing: MissingPolicy, share: float) -> PairSet:
    """The pairs whose pictures open; those whose text repeats with the same picture stay."""
    files = {pair.image: pair.image for pair in pairs}
    data = PairSet(folder.name, (), pairs)
    kept, absent = keep_present(folder.name, pairs, files, folder, missing=missing, max_missing=share)
    return replace(data, pairs=kept, missing=absent)
