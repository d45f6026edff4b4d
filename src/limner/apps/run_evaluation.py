"""Measures a trained run on the rows it never saw, and writes the result file that tables and figures read.

The only place where test rows meet a model. It trains nothing and chooses nothing: refinement comes from the
run, which chose it on validation.
"""

import json
import subprocess
from pathlib import Path
from typing import Any, Literal

import numpy as np

from limner.errors import CheckpointError
from limner.evaluation.protocol import POOL_SIZE
from limner.evaluation.results import About, Refine, Result, measure, write_result


def evaluate_run(
    run: Path,
    *,
    part: Literal["val", "test"] = "test",
    weights: Path | None = None,
    device: str = "cpu",
    pool_size: int = POOL_SIZE,
) -> Result:
    """Measure a run and write its result file below it.

    Args:
        run: folder that `limner train` wrote.
        part: the rows to measure on.
        weights: of the backbone, where features must still be computed.
        device: torch device that computes.
        pool_size: pictures per drawn pool.
    Raises:
        MissingError, CheckpointError: nothing was trained there, or it does not load.
        DataError: the data set is not as it was.
    """
    from limner.apps.corpora import open_corpus
    from limner.apps.validation import vectors
    from limner.training import checkpoint
    from limner.training.corpus import corpus_of, rows_of
    from limner.training.loop import BEST
    from limner.training.systems import system

    _, state = checkpoint.load(run / BEST)
    try:
        name = str(state["config"]["config"]["system"])
    except (KeyError, TypeError) as error:
        raise CheckpointError(f"{run / BEST}: names no system; train it again") from error
    model, config = system(name).load(run, device)
    files = getattr(config, "trunk", "") == "finetune"
    data, pictures = open_corpus(config.data, files=files, weights=weights, device=device)
    corpus = corpus_of(data, pictures, config.data.relations)
    pairs = data.split(part)
    texts, images, columns = vectors(model, corpus, rows_of(pairs, pictures, data.relations))
    refine, settings = _refinement(run, model, texts, images)
    probabilities = {}
    if getattr(model, "relations", ()):
        found = model.relation_probabilities(texts, images[columns])
        probabilities = dict(zip(model.relations, found.T, strict=True))
    about = About(
        system=config.row or config.system,
        data=data.name,
        split=config.data.split,
        part=part,
        seed=config.loop.seed,
        preset=config.preset,
        commit=commit(),
        missing=len(data.missing),
        refinement=settings,
        config=config.model_dump(mode="json"),
    )
    result = measure(
        about,
        pairs,
        data.relations,
        scores=np.asarray(model.score(texts, images)),
        refine=refine,
        probabilities=probabilities,
        pool_size=pool_size,
    )
    write_result(result, run)
    return result


def commit() -> str:
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


def _refinement(
    run: Path,
    model: Any,  # noqa: ANN401
    texts: np.ndarray,
    images: np.ndarray,
) -> tuple[Refine | None, dict[str, float]]:
    """How the run's scores are refined, and with what settings; None for a model without relations."""
    from limner.apps.commands.train import REFINEMENT
    from limner.retrieval.refinement import Refinement, pair_logits, refine

    if not getattr(model, "relations", ()):
        return None, {}
    path = run / REFINEMENT
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        chosen = Refinement(float(stored["strength"]), float(stored["threshold"]), stored["form"])
    except FileNotFoundError:
        raise CheckpointError(f"{path}: not there; let 'limner train' run to its end") from None
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path}: not the settings of a refinement ({error}); train again") from error
    logits = pair_logits(model, texts, images)

    def refined(table: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        return refine(table, logits.take(rows, columns), chosen)

    return refined, {"strength": chosen.strength, "threshold": chosen.threshold}
