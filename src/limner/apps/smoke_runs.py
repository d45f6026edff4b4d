"""Tiny runs on drawn pictures: trained, measured and forgotten, to see that the whole way works.

Their figures mean nothing and are never stored. It makes no table itself.
"""

from collections.abc import Sequence
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

from limner.apps.run_results import Measured
from limner.evaluation.results import Result

_ROWS = {
    "Base": ("none", "none"),
    "CMCA": ("scaled", "none"),
    "CMCM-NoAttn": ("none", "linear"),
    "CMCM": ("scaled", "linear"),
}


def smoke_results() -> list[Result]:
    """Ranks and predicted relations of tiny runs; see `smoke_measured`."""
    return [measured.result for measured in smoke_measured()]


def smoke_measured(choices: Sequence[int] = ()) -> list[Measured]:
    """Train, measure and forget one tiny run per row of the tables.

    Args:
        choices: options of c-way questions, see `limner.apps.run_results.measure_run`.
    """
    from limner.apps.commands.train import train
    from limner.apps.run_results import measure_run

    found = []
    with TemporaryDirectory(prefix="limner-smoke-") as folder:
        for row, (pooling, relations) in _ROWS.items():
            config = Path(folder) / f"{row}.toml"
            config.write_text(
                f'system = "cmcm"\nrow = "{row}"\ntrunk = "drawings"\n'
                '[data]\nset = "picturebook"\n'
                f'[model]\npooling = "{pooling}"\nrelations = "{relations}"\n'
                '[loop]\nmetric = "MRR"\n',
                encoding="utf-8",
            )
            run = Path(folder) / row
            with redirect_stdout(StringIO()):
                train(config, to=run, smoke=True)
            found.append(measure_run(run, choices=choices, distractors=Path(folder) / "choices"))
    return found
