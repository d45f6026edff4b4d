"""The pairs a run had to leave out, for want of their pictures or lest it train on what it is tested on.

A note counts them by reason; only a list lets a person mend them. It reads no picture and leaves none out.
"""

import json
from collections.abc import Sequence
from pathlib import Path

from limner.data.presence import MissingPicture

LEFT_OUT = "left_out.jsonl"


def write_left_out(missing: Sequence[MissingPicture], run: Path) -> str:
    """Write the list, whole or not at all, or remove that of an earlier start when nothing is left out now.

    Args:
        missing: pairs left out, each with picture and reason.
        run: folder of the run; made if absent.
    Returns:
        A line for the person; "" when nothing was left out.
    """
    target = run / LEFT_OUT
    if not missing:
        target.unlink(missing_ok=True)
        return ""
    run.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.part")
    part.write_text("".join(json.dumps(one.model_dump()) + "\n" for one in missing), encoding="utf-8")
    part.replace(target)
    pictures = len({one.image for one in missing})
    return f"{target}: {len(missing):,} pairs of {pictures:,} pictures left out, each with its reason"
