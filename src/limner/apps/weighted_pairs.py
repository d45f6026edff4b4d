"""A page of the training pairs that weigh most and least (T&K, Figure 4).

It reads what a run left of its scores and makes weights of them as the run's settings say. It trains nothing.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from limner.apps.export.examples import Example, Group, write_examples
from limner.errors import DataError

NOTE = (
    "Training pairs in order of weight; of pairs with equal text and picture the first. The weight is what a"
    " pair would have if all training pairs were one batch, as a multiple of an even share; scores are mean"
    " cosines of its neighbourhood, before Γ."
)


def write_weighted_pairs(run: Path, to: Path, count: int) -> None:
    """Write the page of a run that weighed its pairs.

    Args:
        run: its folder.
        to: an .html file.
        count: pairs at either end, per measure.
    Raises:
        MissingError: the run left no scores.
        DataError: they are of other pairs than the data set holds now.
    """
    from limner.apps.run_pictures import open_pictures, open_run
    from limner.datasets.neighbours import read_pair_scores

    scores = read_pair_scores(run)
    _, config = open_run(run)
    texts, picture = open_pictures(run)
    absent = [name for name in scores.ids if name not in texts]
    if absent:
        raise DataError(
            f"{run}: its data set has no pair {absent[0]!r} any more ({len(absent)} of {len(scores.ids)});"
            " train the run again"
        )

    def groups() -> Iterator[Group]:
        for measure, sides in scores.measures().items():
            weights = shares(sides, config)
            order = _one_of_each(np.argsort(-weights, kind="stable"), scores.ids, texts, picture)
            for end, chosen in (("highest", order[:count]), ("lowest", order[::-1][:count])):
                found = [
                    Example(
                        picture(scores.ids[place]), texts[scores.ids[place]], _facts(weights, sides, place)
                    )
                    for place in chosen
                ]
                yield Group(f"{measure}: {end} weights", found)

    named = Path(config.data.annotations).name or config.data.set
    title = f"{config.row or config.system} on {named}: pairs that weigh most and least"
    write_examples(to, title, NOTE, groups())


def shares(sides: Mapping[str, NDArray[np.float32]], config: Any) -> NDArray[np.float32]:  # noqa: ANN401
    """(n,) weights of one measure as multiples of an even share, by the run's Γ, mode and reading.

    Args:
        sides: scores of "image" and "text".
        config: of the run.
    Source: SPEC 3.6; λ grows with n, so that the mean of a modality's weights is that of a batch.
    """
    import torch

    from limner.losses.weighting import batch_weights, z_scores

    own = config.weights
    parts = [torch.from_numpy(np.ascontiguousarray(sides[name], np.float32)) for name in ("image", "text")]
    if own.reading == "sound":
        parts = [z_scores(part) for part in parts]
    n = len(parts[0])
    weights = batch_weights(
        parts[0],
        parts[1],
        lam=own.lam * n / config.data.batch,
        gamma=own.gamma,
        mode=own.mode,
        reading=own.reading,
        tau=own.tau,
    )
    found: NDArray[np.float32] = (weights / weights.mean()).numpy()
    return found


def _one_of_each(
    order: NDArray[np.int64],
    ids: tuple[str, ...],
    texts: Mapping[str, str],
    picture: Any,  # noqa: ANN401
) -> list[int]:
    """Without pairs whose text and picture were there already."""
    known: set[tuple[str, str]] = set()
    kept = []
    for place in order.tolist():
        name = ids[place]
        same = (texts[name], picture.identity(name))
        if same not in known:
            known.add(same)
            kept.append(place)
    return kept


def _facts(
    weights: NDArray[np.float32], sides: Mapping[str, NDArray[np.float32]], place: int
) -> tuple[str, ...]:
    among = ", ".join(f"{side}s {values[place]:.3f}" for side, values in sides.items())
    return (f"weight × {weights[place]:.3g}", f"among {among}".replace("-", "−"))
