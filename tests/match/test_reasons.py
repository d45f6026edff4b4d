"""Why a step shows what it shows, in a sentence that its reader can check."""

import re

import numpy as np
import pytest
from boards import Records, TableEncoder, chosen_board, numbers, picture, picture_id, shown, space, story_of

from limner.match.cast import cast_of
from limner.match.illustrate import BoardOptions
from limner.store.search import COSINE, Channel
from limner.store.vectors import Gallery

NIGHT = ("Finn the fox walked home.", "Then Finn saw a kite.", "He fell asleep.")
CAPTIONS = {"home": "A fox at its den", "kite": "A red kite and a fox", "sleep": "A fox with closed eyes"}
RECORDS = [picture(name, caption=caption) for name, caption in {**CAPTIONS, "bus": "A bus"}.items()]
BUSES = [picture(name, caption="A fast bus") for name in ("home", "kite", "sleep", "bus")]
LABELS = [picture("kite", labels=[("kite", 0.6), ("asleep", 0.01)])]
FOX, KITE = "it shows the fox that the text is about", "Caption word “kite” matches; "
LOOKS = "it looks like the pictures that you fixed"
PULL = {"calibration": numbers(pin={"weight": 3.0, "floor": 0.1, "looks": 5.0}, none=8.0)}
OCR = "the text in the picture means nearly the same"


def board_of(calibration=None, records=RECORDS, channels=("captions",), lead=1.0, writing=None, **options):
    """Each step is on an axis with one picture, which is so much nearer to it than the others.

    The last two pictures look alike. `writing` is the cosine of the text in a picture with its step.
    """
    axes = dict(zip(map(cast_of(NIGHT).spelled, NIGHT), np.eye(5), strict=False))
    spaces = {name: space(np.full((4, 5), 0.3) + lead * np.eye(4, 5)) for name in channels}
    if writing is not None:
        spaces["ocr"] = space(writing * np.eye(4, 5) + np.sqrt(1 - writing**2) * np.eye(5)[4])
    asked = [Channel(name, TableEncoder(axes), name, COSINE) for name in spaces]
    spaces["looks"] = space([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0], [0.1, 1.0]])
    gallery = Gallery([one.id for one in records], [one.group for one in records], spaces)
    options = BoardOptions(show="always", **options)
    return chosen_board(
        story_of(NIGHT), gallery, asked, Records(records), options, calibration=calibration or numbers()
    )


@pytest.mark.parametrize(
    ("case", "step", "said", "unsaid"),
    [
        ({}, 1, KITE + FOX, "“fox”"),  # a name is read as its kind, and no reader has written that word
        ({}, 2, FOX, "word"),
        ({"records": BUSES}, 1, "", "it shows the"),
        (
            {"records": [RECORDS[0], *LABELS, *RECORDS[2:]], "channels": ["labels"]},
            1,
            "Label word “kite”",
            "FOX",
        ),
        ({"records": [RECORDS[1], RECORDS[0], *LABELS, RECORDS[3]], "channels": ["labels"]}, 2, "", "asleep"),
        ({"channels": ["base"]}, 1, "", "word"),  # pixels found it: that a caption has the word too is chance
        ({"writing": 0.9}, 1, KITE + OCR, ""),
        ({"writing": 0.3}, 1, KITE, OCR),
        ({"calibration": numbers(chance={"one": 3.0})}, 1, "", "fit"),
        ({"calibration": numbers(chance={"one": -0.7})}, 1, "it may fit", "probably"),
        ({"calibration": numbers(chance={"one": -4.0})}, 1, "it probably does not fit", "may"),
        ({"lead": 0.0}, 0, "another picture fits as well", ""),
        (PULL, 2, "", LOOKS),
        ({**PULL, "pins": {0: picture_id("bus")}}, 0, "You fixed this picture here.", LOOKS),
        ({**PULL, "pins": {0: picture_id("bus")}}, 1, "", LOOKS),
        ({**PULL, "pins": {0: picture_id("bus")}}, 2, LOOKS, ""),
    ],
)
def test_a_reason_says_what_is_so_and_nothing_else(case, step, said, unsaid):
    board = board_of(**case)
    assert shown(board)[1:] == ["kite", "sleep"] or case.get("channels") or not case.get("lead", 1)
    reason = board.steps[step].reason
    assert said in reason
    assert not unsaid or unsaid not in reason
    assert reason.endswith(".")
    assert not re.search(r"decod|log-odds|evidence|threshold|\b(nan|inf|nats?)\b", reason, re.IGNORECASE)
    matched = board.steps[step].chosen.matched
    assert (matched == ("kite",)) == ("word “kite”" in reason)
