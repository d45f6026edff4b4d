"""Tiny runs on drawn pictures: trained, measured and forgotten, to see that the whole way works.

Their figures mean nothing and are never stored. It makes no table itself.
"""

from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

from limner.evaluation.results import Result

_ROWS = {
    "Base": ("none", "none"),
    "CMCA": ("scaled", "none"),
    "CMCM-NoAttn": ("none", "linear"),
    "CMCM": ("scaled", "linear"),
}


def smoke_results() -> list[Result]:
    """Train, measure and forget one tiny run per row of the tables."""
    from limner.apps.commands.train import train
    from limner.apps.run_results import evaluate_run

    results = []
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
            results.append(evaluate_run(run))
    return results
