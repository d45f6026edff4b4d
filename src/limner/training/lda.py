"""Fitting of LDA over words and visual words: no gradients, so no loop; numbers of topics are tried in turn.

It measures nothing itself: the caller says how good a model is on validation. It never sees a test row.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, NoReturn

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field, field_validator, model_validator
from torch import Tensor

from limner.datasets.vocabulary import Vocabulary
from limner.errors import CheckpointError, ConfigError, DataError, ShapeError
from limner.models.lda import Lda, LdaArchitecture, local_vectors, word_counts, word_tokens
from limner.training import checkpoint
from limner.training.checkpoint import Position
from limner.training.corpus import Corpus
from limner.training.loop import BEST, HISTORY
from limner.training.prepared import read_saved, saved_with
from limner.training.settings import Preset, RunConfig

_BLOCK = 256
_PRESET: Mapping[str, Any] = {"loop": {"metric": "MRR"}, "data": {"min_count": 5}}


class LdaConfig(RunConfig):
    """One run of LDA; it is a rival without code, so all presets are the same.

    Of ``loop`` only ``metric`` and ``seed`` count, and of ``data`` neither ``max_length`` nor ``tokeniser``.

    Attributes:
        model: see `LdaArchitecture`.
        topics: every K to try; the best on validation stays.
        passes: over all documents, at most, per K.
        sample: local vectors that visual words are learned from, about.
        trunk: "stored" grid features, or cells of the pixels of "drawings".
    Source: Feng & Lapata 2010; docs/methods/vrss.md §8.
    """

    PRESETS: ClassVar[Mapping[Preset, Mapping[str, Any]]] = {
        "release": _PRESET,
        "paper": _PRESET,
        "sound": _PRESET,
    }

    system: Literal["lda"] = "lda"
    model: LdaArchitecture = LdaArchitecture()
    topics: tuple[int, ...] = (50, 100, 200, 500)
    passes: int = Field(default=20, ge=1)
    sample: int = Field(default=30_000, ge=2)
    trunk: Literal["stored", "drawings"] = "stored"

    @field_validator("topics")
    @classmethod
    def _some(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        if not value or min(value) < 1:
            raise ValueError(f"topics {list(value)}, expected one or more numbers of at least 1")
        return value

    @model_validator(mode="after")
    def _weak_priors(self) -> "LdaConfig":
        if self.model.alpha > min(self.topics):
            raise ValueError(
                f"model.alpha {self.model.alpha} over {min(self.topics)} topics is more than 1 each, which"
                " scikit-learn does not take; lower model.alpha or raise topics"
            )
        return self

    @property
    def layer(self) -> Literal["grid"]:
        """Which stored features it takes."""
        return "grid"

    def smoke(self) -> "LdaConfig":
        """See `RunConfig.smoke`."""
        small = super().smoke()
        return small.model_copy(
            update={
                "data": small.data.model_copy(update={"min_count": 1}),
                "model": self.model.model_copy(update={"components": 8, "visual_words": 12, "alpha": 1.0}),
                "topics": (3, 5),
                "passes": 2,
                "sample": 1000,
            }
        )


def fit(
    config: LdaConfig,
    corpus: Corpus,
    folder: Path,
    *,
    validate: Callable[[Lda], Mapping[str, float]],
    maximise: bool,
    report: Callable[[Mapping[str, Any]], object] = lambda entry: None,
) -> Position:
    """Learn visual words, then topics for every K, and keep the best model on validation in the folder.

    The same settings and data give the same bits on one machine; begun again, it starts anew.

    Args:
        config: settings.
        corpus: training and validation rows.
        folder: of the run; made if absent. Gets the weights and a line of history per K.
        validate: figures of a model on the validation rows.
        maximise: whether more of ``loop.metric`` is better.
        report: told every line of history.
    Returns:
        Where it ended; its epochs are the numbers of topics, in order.
    Raises:
        ShapeError: the stored features are no grids.
        DataError: too few words or local vectors.
        CheckpointError: the folder holds another run, or nothing can be written.
    """
    words = training_words(corpus.train.texts, config.data.min_count)
    parts = visual_words(config, corpus)
    unfitted = torch.ones(1, len(words) + len(parts["centres"]), dtype=torch.float64)
    seen = Lda(config.model, words, **parts, topics=unfitted)
    stored = corpus.backbone if config.trunk == "stored" else None
    saved = saved_with(config, Vocabulary(words), len(parts["mean"]), stored)
    _check_folder(folder, saved)
    documents = _documents(corpus, words, seen)
    position = Position()
    for count in config.topics:
        topics = torch.from_numpy(_topics(documents, count, config))
        model = Lda(config.model, words, **parts, topics=topics).eval()
        figures = dict(validate(model))
        value = figures[config.loop.metric]
        ahead = position.best is None or (value > position.best if maximise else value < position.best)
        if ahead:
            position.best, position.best_epoch = value, position.epoch
            about = {"config": saved, "epoch": position.epoch, "validation": figures}
            checkpoint.save(folder / BEST, model.state_dict(), about)
        position.history.append({"epoch": position.epoch, "topics": count, "val": figures})
        position.epoch, position.taken = position.epoch + 1, position.taken + config.passes
        lines = "".join(json.dumps(entry) + "\n" for entry in position.history)
        (folder / HISTORY).write_text(lines, encoding="utf-8")
        report(position.history[-1])
    return position


def training_words(texts: list[str], min_count: int) -> tuple[str, ...]:
    """Words that occur often enough, most frequent first.

    Args:
        texts: of the training split only.
        min_count: rarer words are left out.
    Raises:
        DataError: none is left.
    Source: Feng & Lapata 2010; docs/methods/vrss.md §8.
    """
    counts = Counter(token for text in texts for token in word_tokens(text))
    kept = sorted((-number, word) for word, number in counts.items() if number >= min_count)
    if not kept:
        raise DataError(
            f"lda: no word occurs {min_count} times in {len(texts)} training texts; lower data.min_count"
        )
    return tuple(word for _, word in kept)


def visual_words(config: LdaConfig, corpus: Corpus) -> dict[str, Tensor]:
    """Mean, axes and centres for local vectors, learned on a sample of the training pictures.

    Raises:
        ShapeError: the stored features are no grids.
        DataError: fewer different local vectors than visual words.
    Source: Feng & Lapata 2010; docs/methods/vrss.md §8. Departs: k-means on mini-batches, and on a sample.
    """
    from sklearn.cluster import MiniBatchKMeans
    from sklearn.decomposition import PCA
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped, unused-ignore]

    vectors = _sample(config, corpus)
    wanted, seed = config.model.visual_words, config.loop.seed
    different = len({row.tobytes() for row in vectors})
    if different < wanted:
        raise DataError(
            f"lda: {different} different local vectors for {wanted} visual words; lower model.visual_words or"
            " raise sample"
        )
    # Partial sums of several threads come together in any order, and so in other bits every time.
    with threadpool_limits(1):
        width = min(config.model.components, *vectors.shape)
        pca = PCA(width, svd_solver="randomized", random_state=seed).fit(vectors)
        projected = (vectors - pca.mean_) @ pca.components_.T
        means = MiniBatchKMeans(wanted, batch_size=4096, n_init=1, random_state=seed).fit(projected)
    parts = {"mean": pca.mean_, "axes": pca.components_, "centres": means.cluster_centers_}
    return {name: torch.from_numpy(np.array(part, np.float32)) for name, part in parts.items()}


def prepare(*args: object, **more: object) -> NoReturn:
    """Refuse: there is no task for the loop; `fit` does all.

    Raises:
        ConfigError: always.
    """
    del args, more
    raise ConfigError("lda: is fitted, not trained by gradients; use limner train, which calls its fit")


def load(path: Path, device: str = "cpu") -> tuple[Lda, LdaConfig]:
    """A fitted model in evaluation mode, and the settings it was fitted with.

    Args:
        path: folder of a run, or the file of its best weights.
        device: where pictures are looked at.
    Raises:
        MissingError: nothing was fitted there yet.
        CheckpointError: not a checkpoint of this system, or damaged.
    """
    saved = read_saved(path, LdaConfig, "lda")
    try:
        model = Lda(
            saved.config.model,
            saved.vocabulary.words,
            **{name: saved.tensors[name] for name in ("mean", "axes", "centres", "topics")},
        )
    except (KeyError, ShapeError) as error:
        raise CheckpointError(f"{saved.where}: damaged ({error}); fit it again with limner train") from error
    return saved.into(model, device), saved.config


def _sample(config: LdaConfig, corpus: Corpus) -> NDArray[np.float32]:
    """(n, F) all local vectors of training pictures drawn at random, as many as give the sample's size."""
    places = np.unique(corpus.train.places)
    order = np.random.default_rng([config.loop.seed, 1]).permutation(len(places))
    per_picture = _local(corpus, places[:1]).shape[1]
    chosen = np.sort(places[order[: max(1, -(-config.sample // per_picture))]])
    parts = [_local(corpus, chosen[start : start + _BLOCK]) for start in range(0, len(chosen), _BLOCK)]
    return np.concatenate(parts).reshape(-1, parts[0].shape[2])


def _local(corpus: Corpus, places: NDArray[np.int64]) -> NDArray[np.float32]:
    values = corpus.pictures.take(places)
    plain = values if values.dtype == np.uint8 else values.astype(np.float32)
    found: NDArray[np.float32] = local_vectors(torch.from_numpy(plain)).numpy()
    return found


def _documents(corpus: Corpus, words: tuple[str, ...], seen: Lda) -> Any:  # noqa: ANN401  (sparse)
    """(N, W + V) sparse counts, a row per training pair."""
    from scipy.sparse import csr_matrix, hstack, vstack

    places, which = np.unique(corpus.train.places, return_inverse=True)
    blocks = [
        csr_matrix(seen.visual_counts(corpus.pictures.take(places[start : start + _BLOCK])))
        for start in range(0, len(places), _BLOCK)
    ]
    visual = vstack(blocks, format="csr")[which]
    return hstack([word_counts(corpus.train.texts, words), visual], format="csr")


def _topics(documents: Any, count: int, config: LdaConfig) -> NDArray[np.float64]:  # noqa: ANN401
    """(K, W + V) pseudo-counts."""
    from sklearn.decomposition import LatentDirichletAllocation
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped, unused-ignore]

    model = LatentDirichletAllocation(
        count,
        doc_topic_prior=config.model.alpha / count,
        topic_word_prior=config.model.eta,
        learning_method="batch",
        max_iter=config.passes,
        random_state=config.loop.seed,
    )
    with threadpool_limits(1):
        model.fit(documents)
    found: NDArray[np.float64] = np.ascontiguousarray(model.components_, np.float64)
    return found


def _check_folder(folder: Path, saved: Mapping[str, Any]) -> None:
    """Make the folder; one that holds a run of other settings is refused."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / BEST).exists():
        return
    _, state = checkpoint.load(folder / BEST)
    if state.get("config") != json.loads(json.dumps(saved)):
        raise CheckpointError(f"{folder / BEST}: the run was begun with other settings; use another folder")
