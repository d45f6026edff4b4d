"""``limner sweep``: settings chosen on validation, by training every setting of a grid.

This module parses options, shows progress and writes; `limner.research.paper.sweeps` trains.
"""

import json as form
from itertools import count
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from pydantic_core import to_jsonable_python

from limner.cli.main import emit_report, say
from limner.research.cli.train import Watch
from limner.research.paper.table import render


def sweep(
    config: Path,
    *,
    over: Annotated[tuple[str, ...], Parameter(negative="")],
    to: Path,
    data: str = "",
    seed: Annotated[tuple[int, ...], Parameter(negative="")] = (0,),
    set_: Annotated[tuple[str, ...], Parameter(name="--set", negative="")] = (),
    metric: str | None = None,
    smoke: Annotated[bool, Parameter(negative="")] = False,
    weights: Path | None = None,
    device: str = "auto",
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Train every setting of a grid and choose the best on validation; run it again to resume after an
    interruption.

    Writes sweep.md, sweep.json and sweep.png next to the runs. The test split is never used.

    Example: limner sweep configs/cmcm/cmcm.toml --data clue --over loss.margin=0.1,0.2 --to sweep

    Parameters
    ----------
    config
        Settings file (TOML).
    over
        Setting to vary, key=value,value (repeatable; all combinations are trained). Keys that vary together
        are written key,key=value:value,value:value.
    to
        Folder of the sweep, with one run per setting and seed.
    data
        Data set: NAME of configs/data/NAME.toml, whose settings are added, a name listed by
        'limner data sets', or another such TOML file.
    seed
        Training seed (repeatable); settings are compared by their means over all seeds.
    set_
        key=value that replaces a setting of every run (repeatable).
    metric
        Validation figure to choose by. Default: loop.metric.
    smoke
        Shrink everything to runs of a few seconds, as a test.
    weights
        Weights of the backbone: a file, or a folder to look in.
    device
        Device: auto (a CUDA GPU if there is one), cpu, cuda, cuda:N or mps.
    json
        Print JSON instead of a table.
    """
    from limner.research.paper.plots import sweep_picture, write
    from limner.research.paper.sweeps import Axis, best, grid, sweep_table
    from limner.research.paper.sweeps import sweep as run_all
    from limner.research.runs.train import maximise, read_config

    combinations = grid([Axis.parse(text) for text in over])
    read = read_config(config, set_, data)
    metric = metric or (read.smoke() if smoke else read).loop.metric
    more_is_better = maximise(metric)
    total = len(combinations) * len(seed)
    numbers = count(1)

    def report(name: str, done: bool) -> None:
        say(f"{next(numbers)}/{total} {name}{': already done' if done else ''}")

    points = list(
        run_all(
            config, combinations, seed, to,
            data=data, overrides=set_, smoke=smoke, weights=weights, device=device, metric=metric,
            report=report, progress=Watch,
        )
    )  # fmt: skip
    chosen = best(points, metric, maximise=more_is_better)
    title = f"Sweep of {config.name} on validation"
    table = render([sweep_table(points, metric, maximise=more_is_better, title=title)])
    found = {"metric": metric, "best": dict(chosen), "points": to_jsonable_python(points)}
    (to / "sweep.md").write_text(table, encoding="utf-8")
    (to / "sweep.json").write_text(form.dumps(found, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    write(to / "sweep.png", sweep_picture, points, metric)
    best_words = " ".join(f"--set {key}={value}" for key, value in chosen.items())
    emit_report(found, [table, f"best: {best_words}"], as_json=json)
