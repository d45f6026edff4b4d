"""``limner measure``: trained runs on the rows they never saw.

It parses options and prints; `limner.apps.run_results` measures.
"""

import subprocess
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from limner.apps.terminal import emit, emit_json, say
from limner.errors import ConfigError


def measure(
    *runs: Path,
    part: Literal["test", "val"] = "test",
    weights: Path | None = None,
    device: str = "cpu",
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Measure trained runs and write their result files, which 'limner table' and 'limner figure' read.

    Ten pools, the same for every run, and the full set; plain and, where relations are predicted, refined as
    the run chose on validation.

    Example: limner measure runs/cmcm runs/cmca

    Parameters
    ----------
    runs
        Folders that 'limner train' wrote.
    part
        Rows to measure on.
    weights
        Weights of the backbone, where features must still be computed: a file, or a folder to look in.
    device
        torch device that computes.
    json
        Print JSON instead of text.
    """
    from limner.apps.run_results import evaluate_run
    from limner.evaluation.ranking import Metric
    from limner.evaluation.results import write_result

    if not runs:
        raise ConfigError("measure: no run given; example: limner measure runs/cmcm")
    rows = []
    for run in runs:
        result = evaluate_run(run, part=part, weights=weights, device=device, commit=_commit())
        write_result(result, run)
        full = result.full
        figures: dict[str, float] = {}
        if full is not None:
            for stage, ranks in (("plain", full.plain), ("refined", full.refined)):
                if ranks:
                    figures |= {
                        f"{stage} {m}": _figure(Metric.parse(m), ranks) for m in ("MedR", "R@1", "R@10")
                    }
        rows.append({"run": str(run), "system": result.about.system, "pairs": len(result.ids), **figures})
        say(f"{run}: measured {result.about.system} on {len(result.ids)} {part} pairs")
    if json:
        emit_json(rows)
        return
    for row in rows:
        shown = "  ".join(f"{name} {value:.3f}" for name, value in row.items() if isinstance(value, float))
        emit(f"{row['system']}\t{row['pairs']} pairs\t{shown}")


def _commit() -> str:
    """Short hash of the code's last commit; "" where the package does not run from a repository."""
    try:
        done = subprocess.run(
            ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"],
            capture_output=True,
            text=True,
            check=True,
            timeout=10,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


def _figure(metric: object, ranks: tuple[float, ...]) -> float:
    """A metric of ranks."""
    import numpy as np

    values = np.array(ranks)
    cut = getattr(metric, "k", 0)
    return float((values <= cut).mean() if cut else np.median(values))
