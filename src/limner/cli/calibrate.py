"""``limner calibrate``: the calibration of a channel, fitted on the user's own captioned pictures.

It parses options and prints; `limner.evaluation.fitting` fits.
"""

from pathlib import Path

from limner.cli.terminal import Many, emit
from limner.errors import DataError
from limner.evaluation.fitting import FITTED, fit_channel
from limner.library.home import CALIBRATION_FILE
from limner.library.library import Library
from limner.storyboard import calibration
from limner.storyboard.calibration import OwnCalibration, read_own, write_own


def calibrate(*, library: Path, channel: Many = (), weights: Many = ()) -> None:
    """Fit how much a channel's likeness says, on the library's own captioned pictures.

    The fit is kept in the library, as calibration.json, and used from then on; delete the file to
    go back to the calibration that comes with limner.

    Example: limner calibrate --library lib --channel clip

    Parameters
    ----------
    library
        Folder or address of the library; at least 50 of its pictures must have a caption.
    channel
        clip, base or labels (repeatable); all that the library has unless given.
    weights
        NAME=FILE, or a folder to look in, for the words' side of clip (repeatable).
    """
    opened = Library.open(library)
    names = channel or tuple(name for name in FITTED if name in opened.settings.spaces)
    if not names:
        raise DataError(f"{opened.place}: no channel that looks at pixels; run 'limner index' on it again")
    found = {name: fit_channel(opened, name, calibration.load(), weights) for name in names}
    write_own(opened, OwnCalibration(channels={**read_own(opened).channels, **found}))
    for name, one in found.items():
        emit(
            f"{name}: fitted on {one.pairs:,} captioned pictures; Cllr on held-out halves"
            f" {one.cost:.3f} bits, before {one.cost_before:.3f} (1 is knowing nothing)"
        )
    emit(f"written: {opened.home.where(CALIBRATION_FILE)}")
