"""What is told of a storyboard adds up."""

import re

from hypothesis import given
from hypothesis import strategies as st

from limner.records import Board, BoardStep, Candidate, Picture, Step, Story

PICTURE = Picture(
    id="0" * 64,
    paths=("a.jpg",),
    width_px=1,
    height_px=1,
    format="JPEG",
    size_bytes=1,
    phash="0" * 16,
    group="0" * 64,
)
DECIDED = [
    *(("decoded", None, chance) for chance in (0.1, 0.3, 0.9, None)),
    ("pinned", None, None),
    ("given", None, None),
    *(("blank", why, None) for why in ("asked for", "no words", "nothing fits", "all used", "ruled out")),
]


def board_of(decided):
    steps = tuple(
        BoardStep(
            position=n,
            origin=origin,
            blank=why,
            probability=chance,
            chosen=None if origin == "blank" else Candidate(picture=PICTURE, score=0.0),
        )
        for n, (origin, why, chance) in enumerate(decided)
    )
    return Board(story=Story(id="s", steps=tuple(Step(text="a") for _ in steps)), steps=steps)


@given(st.lists(st.sampled_from(DECIDED), min_size=1, max_size=30))
def test_the_summary_of_a_storyboard_adds_up(decided):
    line = str(board_of(decided)).splitlines()[-1]
    whole, _, rest = line.partition(": ")
    counts, _, reasons = rest.partition(" left blank")
    assert int(whole.split()[0]) == len(decided)
    assert sum(map(int, re.findall(r"\d+", counts))) == len(decided)
    left = int(counts.split()[-1])
    named = [int(one) for one in re.findall(r"(\d+): ", reasons)]
    alone = reasons.startswith(": ")  # all for one reason
    assert (left if alone else sum(named)) == left
    assert alone == (len({why for origin, why, _ in decided if origin == "blank"}) == 1)
    weak = re.search(r"; (\d+) weak match", reasons)
    assert (int(weak[1]) if weak else 0) == sum(one[2] == 0.1 for one in decided)
