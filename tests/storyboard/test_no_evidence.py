"""A picture that no channel knows is shown only where the user's pins ask for its like."""

import numpy as np

from limner.library.channels import Channel, Evidence
from limner.library.gallery import Gallery, Space
from limner.records import Picture, Step, Story
from limner.storyboard.illustrate import BoardOptions, choose_pictures, step_texts

EVEN = Evidence(slope=1.0, z_slope=0.0, offset=0.0)
IDS = [f"{i:064x}" for i in range(4)]


class Flat:
    """Every text is the same vector."""

    name, fingerprint, dim = "flat", "0", 2

    def encode_text(self, texts):
        return np.tile(np.array([[1.0, 0.0]], np.float32), (len(texts), 1))


def pictures(ids):
    rest = {"width_px": 1, "height_px": 1, "format": "PNG", "size_bytes": 1, "phash": "0" * 16}
    return [Picture(id=one, paths=(f"/{one}.png",), group=one, **rest) for one in ids]


def gallery():
    words = Space(
        np.array([[1, 0], [0, 0], [0, 0], [0, 0]], np.float16), np.array([True, False, False, False])
    )
    looks = Space(np.tile(np.array([[1.0, 0.0]], np.float16), (4, 1)), np.ones(4, bool))
    return Gallery(IDS, IDS, {"captions": words, "visual": looks})


STORY = Story(id="s", steps=(Step(text="One.", title="Method"), Step(text="Two.", title="Method")))
CHANNELS = [Channel("captions", Flat(), "captions", EVEN)]


def test_steps_without_evidence_stay_blank():
    board = choose_pictures(STORY, gallery(), CHANNELS, pictures, BoardOptions(decoder="off"))
    chosen = [step.chosen.picture.id if step.chosen else None for step in board.steps]
    assert sorted(chosen, key=str) == [IDS[0], None]


def test_a_pin_lets_its_like_follow():
    board = choose_pictures(STORY, gallery(), CHANNELS, pictures, BoardOptions(pins={0: IDS[1]}))
    assert board.steps[0].chosen.picture.id == IDS[1]
    assert board.steps[1].chosen is not None
    assert board.settings["pins"] == f"1={IDS[1]}"


def test_a_heading_that_all_steps_share_is_not_searched():
    assert step_texts(STORY) == ["One.", "Two."]
    alone = STORY.model_copy(update={"steps": STORY.steps[:1]})
    assert step_texts(alone) == ["Method. One."]
