"""Tiny runs on generated pictures that test the whole pipeline; their figures are meaningless."""

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
    """Train and measure one tiny run per row of a table, without storing it.

    Args:
        choices: numbers of options, see `limner.research.runs.run.Run.evaluate`.
        table: name of the table in ``smoke.toml``.
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
