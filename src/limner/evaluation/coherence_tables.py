"""The result tables of CMCM, built from result files: retrieval, retrieval per relation, predicted relations.

It chooses the results of one data set and split, and the table they become. It trains and scores nothing.
"""

from collections.abc import Sequence

from limner.errors import ConfigError, unknown
from limner.evaluation.coherence_relations import per_relation, precisions
from limner.evaluation.coherence_retrieval import retrieval
from limner.evaluation.coherence_scene import Scene, reference
from limner.evaluation.results import Result
from limner.evaluation.tables import Table
from limner.evaluation.uncertainty import RESAMPLES

TABLES = ("cmcm-4", "cmcm-5", "cmcm-7", "cmcm-8")
SPLITS = ("grouped", "released")


def build(
    name: str, results: Sequence[Result], *, data: str | None = None, resamples: int = RESAMPLES
) -> list[Table]:
    """One published table: per split, and for retrieval per kind of pool.

    Args:
        name: one of `TABLES`.
        results: as `results.read_results` gives them; other data sets and validation are left aside.
        data: data set; None takes that of the published table (Clue for cmcm-7).
        resamples: of every interval and comparison.
    Raises:
        ConfigError: no such table.
        DataError: two systems were evaluated on different pairs.
    """
    if name not in TABLES:
        raise ConfigError(unknown("table", name, TABLES))
    tables: list[Table] = []
    published = reference()[name].get("data", "clue")
    known = ("clue", "cite++") if name == "cmcm-7" else (published,)
    chosen = data or published
    for split in SPLITS:
        own = [
            r for r in results if r.about.part == "test" and (r.about.data, r.about.split) == (chosen, split)
        ]
        if not own and chosen != published:
            continue  # nothing published and nothing measured
        scene = Scene.of(name, f"{chosen}, {split} split", own, resamples, published=chosen in known)
        if name == "cmcm-7":
            tables.append(per_relation(scene))
        elif name == "cmcm-8":
            tables.append(precisions(scene))
        else:
            if not own or any(result.drawn for result in own):  # a small set has no pools to draw
                tables.append(retrieval(scene, full=False))
            tables.append(retrieval(scene, full=True))
    return tables
