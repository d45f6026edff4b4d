"""Illustrated stories and captioned pictures as pairs, for systems that learn from one text with one picture.

No relations are known of them. A split by source is made on request; no text is changed.
"""

from dataclasses import replace

from limner.data.captions import CaptionSet
from limner.data.coherence import PairSet, split_pairs
from limner.data.pairs import Pair
from limner.data.presence import MAX_MISSING, MissingPolicy
from limner.data.reading import with_pictures
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
            meta={"author": story.author, "source": story.source, "license": story.license},
        )
        for story in stories.stories
        for number, step in enumerate(story.steps)
        if step.pictures
    )
    left = len(stories.wordless)
    notes = (f"{stories.folder.name}: {left} pages without words left out",) if left else ()
    data = PairSet(stories.folder.name, (), pairs, notes=notes)
    return with_pictures(data, stories.folder, missing=missing, max_missing=max_missing)


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
    data = PairSet(captions.folder.name, (), pairs)
    return with_pictures(data, captions.folder, missing=missing, max_missing=max_missing)


def split_by_source(data: PairSet, seed: int = 0) -> PairSet:
    """The set with a grouped split that parts no source either: no book, site or author is on two sides.

    Args:
        data: as `story_pairs` gives it; a pair without a source stays with its story alone.
        seed: of the order in which groups are dealt.
    Raises:
        DataError: too few sources for three splits.
    """
    whole = [pair.model_copy(update={"seq": str(pair.meta.get("source") or pair.seq)}) for pair in data.pairs]
    parted = split_pairs(replace(data, pairs=tuple(whole)), "grouped", seed).pairs
    pairs = tuple(
        pair.model_copy(update={"group": one.group, "split": one.split})
        for pair, one in zip(data.pairs, parted, strict=True)
    )
    return replace(data, pairs=pairs)
