"""What selects a model while it trains: how well it ranks the validation pictures, plainly.

The same measure for every system that encodes texts and pictures. It sees validation rows only and refines
nothing; refinement is chosen once, afterwards.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from limner.evaluation.labels import average_precision
from limner.evaluation.protocol import draw
from limner.evaluation.ranking import Metric, rank

if TYPE_CHECKING:
    from limner.retrieval.refinement import Refinement
    from limner.similarity import FloatArray
    from limner.training.corpus import Corpus, Rows
    from limner.training.pictures import PictureRows

METRICS = ("MedR", "R@1", "R@5", "R@10", "MRR")
MAP = "mAP"
_BLOCK = 512


def validation(corpus: "Corpus") -> Callable[[Any], Mapping[str, float]]:
    """Figures of a model on the validation rows, against all their pictures.

    MedR, R@1, R@5, R@10 (fractions) and MRR; where relations are predicted also mAP, the mean average
    precision over the relations that occur.

    Args:
        corpus: its `val` is looked at, nothing else.
    Returns:
        model → name → figure.
    """
    rows = corpus.val

    def measure(model: Any) -> dict[str, float]:  # noqa: ANN401  (any system)
        texts, images, columns = vectors(model, corpus.pictures, rows)
        ranking = rank(model.score(texts, images), columns[:, None].tolist())
        found = {name: Metric.parse(name)(ranking) for name in METRICS}
        if getattr(model, "relations", ()):
            probabilities = model.relation_probabilities(texts, images[columns])
            known = [c for c in range(rows.labels.shape[1]) if rows.labels[:, c].any()]
            values = [
                average_precision(probabilities[:, c], rows.labels[:, c].astype(np.int64)) for c in known
            ]
            if values:
                found[MAP] = float(np.mean(values))
        return found

    return measure


def vectors(
    model: Any,  # noqa: ANN401
    pictures: "PictureRows",
    rows: "Rows",
) -> tuple["FloatArray", "FloatArray", "np.ndarray[tuple[int], np.dtype[np.int64]]"]:
    """Texts and different pictures of some rows in the joint space.

    Returns:
        (N, D) texts, (M, D) pictures in order of first appearance, (N,) the column of each text's picture.
    """
    columns, _ = draw([pair.image_id for pair in rows.pairs], "full")
    first = np.unique(columns, return_index=True)[1]
    places = rows.places[first]
    images = [
        model.encode_image(pictures.take(places[start : start + _BLOCK]))
        for start in range(0, len(places), _BLOCK)
    ]
    return model.encode_text(rows.texts), np.concatenate(images), columns


def maximise(metric: str) -> bool:
    """Whether more of a figure is better.

    Raises:
        ConfigError: no such metric.
    """
    return metric == MAP or Metric.parse(metric).higher_is_better


def chosen_refinement(model: Any, corpus: "Corpus", form: Any = "multiply") -> "Refinement":  # noqa: ANN401
    """The refinement that ranks best on the validation rows.

    Args:
        model: predicts relations.
        corpus: its `val` is looked at, nothing else.
        form: see `limner.retrieval.refinement.Refinement`.
    """
    from limner.retrieval.refinement import choose, pair_logits

    texts, images, columns = vectors(model, corpus.pictures, corpus.val)
    right = columns[:, None].tolist()
    return choose(
        model.score(texts, images),
        pair_logits(model, texts, images),
        lambda table: rank(table, right).ranks(),
        form=form,
    )
