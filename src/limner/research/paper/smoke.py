"""Tiny runs on drawn pictures: trained, measured and forgotten, to see that the whole way works.

Their figures mean nothing and are never stored. It makes no table itself.
"""

import tomllib
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from limner.research.runs.measure import Measured

SHARED = {
    "backbone": "drawings",
    "data": {"set": "picturebook", "split": "grouped", "vectors": "random"},
    "loop": {"metric": "MRR"},
}
STORIES = ("vrss-1", "gsda-1")


def smoke_measured(choices: Sequence[int] = (), table: str = "cmcm") -> "list[Measured]":
    """Train, measure and forget one tiny run per row of a table.

    Args:
        choices: options of c-way questions, see `limner.research.runs.run.Run.evaluate`.
        table: as in ``smoke.toml``.
    """
    from limner.config import build
    from limner.research.runs.measure import SequenceMeter
    from limner.research.runs.train import train
    from limner.research.systems.base import system

    rows: dict[str, dict[str, Any]] = tomllib.loads(
        (files("limner.research.paper") / "smoke.toml").read_text("utf-8")
    )[table]
    stories = SequenceMeter() if table in STORIES else None
    found = []
    with TemporaryDirectory(prefix="limner-smoke-") as folder:
        for number, (row, settings) in enumerate(rows.items()):
            config = build(system(settings["system"]).settings, {**SHARED, "row": row, **settings}, row)
            run = train(config, to=Path(folder) / str(number), smoke=True)
            found.append(run.evaluate(choices=choices, distractors=Path(folder) / "choices", stories=stories))
    return found
