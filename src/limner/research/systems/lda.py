"""LDA over words and visual words: topics shared by a text and its picture.

Visual words are the cluster centres nearest to a picture's local vectors. A picture's score is the
probability of its visual words under the topics inferred from a text. The number of topics is chosen on
validation.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field, field_validator, model_validator
from scipy.sparse import csr_matrix, hstack, vstack
from scipy.special import psi
from sklearn.cluster import MiniBatchKMeans
from sklearn.decomposition import PCA, LatentDirichletAllocation
from sklearn.feature_extraction.text import CountVectorizer
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped, unused-ignore]
from torch import Tensor, nn

from limner.arrays import FloatArray, expect
from limner.config import Record, differences
from limner.encoders.vocabulary import Vocabulary
from limner.errors import CheckpointError, DataError, ShapeError, counted
from limner.research.systems.base import (
    NO_COSINE,
    Capabilities,
    Model,
    ModelParts,
    System,
    evaluating,
    to_tensor,
)
from limner.research.training import checkpoint
from limner.research.training.checkpoint import BEST, HISTORY, Position
from limner.research.training.corpus import Corpus
from limner.research.training.loop import Event
from limner.research.training.settings import RunConfig, every_preset

CELLS = 8
CELL_PX = 4
_BLOCK = 64  # pictures per block when projecting local vectors
_BATCH = 256


class LdaArchitecture(Record):
    """Priors of LDA, and sizes of the visual vocabulary.

    Attributes:
        components: maximum number of PCA components of local vectors, limited by their dimension.
        visual_words: number of cluster centres.
        alpha: sum of the symmetric prior over topics; each of K has alpha / K.
        eta: symmetric prior over words of a topic.
    Source: Feng & Lapata 2010; docs/methods/vrss.md §8.
    """

    components: int = Field(default=128, ge=1)
    visual_words: int = Field(default=750, ge=2)
    alpha: float = Field(default=50.0, gt=0)
    eta: float = Field(default=0.1, gt=0, le=1)


class LdaConfig(RunConfig):
    """Settings of LDA; there is no published code, so all presets are equal.

    Of ``loop``, only ``metric`` and ``seed`` are used; of ``data``, the settings of batches and word vectors,
    ``tokeniser`` and ``max_length`` are not.

    Attributes:
        model: see `LdaArchitecture`.
        topics: values of K to try; the best on validation is kept.
        passes: maximum number of passes over all documents, per K.
        sample: approximate number of local vectors for learning visual words.
        backbone: "frozen" grid features, or cells of the pixels of "drawings".
    Source: Feng & Lapata 2010; docs/methods/vrss.md §8.
    """

    PRESETS = every_preset({"loop": {"metric": "MRR"}, "data": {"min_count": 5}}) | {
        "laptop": {"data": {"backbone": "resnet50"}}
    }
    SMOKE: ClassVar[Mapping[str, Any]] = {
        "data": {"min_count": 1},
        "model": {"components": 8, "visual_words": 12, "alpha": 1.0},
        "topics": (3, 5),
        "passes": 2,
        "sample": 1000,
    }

    system: Literal["lda"] = "lda"
    model: LdaArchitecture = LdaArchitecture()
    topics: tuple[int, ...] = (50, 100, 200, 500)
    passes: int = Field(default=20, ge=1)
    sample: int = Field(default=30_000, ge=2)
    backbone: Literal["frozen", "drawings"] = "frozen"

    @field_validator("topics")
    @classmethod
    def _some(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        if not value or min(value) < 1:
            raise ValueError(f"topics {list(value)}: expected one or more numbers of at least 1")
        return value

    @model_validator(mode="after")
    def _weak_priors(self) -> "LdaConfig":
        if self.model.alpha > min(self.topics):
            raise ValueError(
                f"model.alpha {self.model.alpha} over {min(self.topics)} topics gives each more than 1, which"
                " scikit-learn does not accept; lower model.alpha or raise topics"
            )
        return self


class Lda(Model):
    """A fitted LDA model that scores texts and pictures."""

    name = "lda"
    mean: Tensor
    axes: Tensor
    centres: Tensor
    topics: Tensor

    def __init__(self, architecture: LdaArchitecture, parts: ModelParts) -> None:
        """Wrap a fitted model.

        Args:
            architecture: priors and sizes.
            parts: W words of the texts, and as tensors ``mean`` (F,) of local vectors, ``axes`` (C, F) of
                their PCA, ``centres`` (V, C), the visual words, and ``topics`` (K, W + V) float64, > 0,
                pseudo-counts of words and visual words under each topic.
        Raises:
            ShapeError: parts do not fit each other.
        """
        super().__init__(architecture, parts)
        self.words = self.vocabulary.words
        held = {name: parts.tensors[name] for name in ("mean", "axes", "centres", "topics")}
        mean, axes, centres, topics = held.values()
        expect("lda", mean=(mean, "F"), axes=(axes, "C F"), centres=(centres, "V C"))
        expect("lda", topics=(topics, f"K {len(self.words) + len(centres)}"))
        for name, part in held.items():
            self.register_buffer(name, part)

    @property
    def dim(self) -> int:
        """K, dimension of a text's vector; a picture's vector has one entry per visual word."""
        return len(self.topics)

    def identity(self) -> tuple[object, ...]:
        """The words, in addition to weights and settings."""
        return (self.words,)

    def encode_text(self, texts: Sequence[str]) -> FloatArray:
        """Texts → (N, K) float32 topic proportions, inferred from their words alone; rows sum to 1."""
        if not texts:
            return np.zeros((0, self.dim), np.float32)
        topics = self.topics.cpu().numpy().astype(np.float64)
        model = LatentDirichletAllocation(self.dim)
        model.components_ = topics
        model.exp_dirichlet_component_ = np.exp(psi(topics) - psi(topics.sum(axis=1))[:, None])
        model.doc_topic_prior_ = self.architecture.alpha / self.dim
        model.n_features_in_ = topics.shape[1]
        counts = word_counts(texts, self.words)
        unseen = csr_matrix((len(texts), len(self.centres)), dtype=counts.dtype)
        found: FloatArray = model.transform(hstack([counts, unseen], format="csr")).astype(np.float32)
        return found

    def encode_image(self, pictures: np.ndarray) -> FloatArray:
        """(M, P, F) local vectors, or pixels of drawings → (M, V) float32 frequencies of visual words.

        Rows sum to 1.
        """
        counts = self.visual_counts(pictures)
        shares: FloatArray = (counts / counts.sum(axis=1, keepdims=True)).astype(np.float32)
        return shares

    def score(self, texts: FloatArray, images: FloatArray) -> FloatArray:
        """(N, K) and (M, V) → (N, M): mean of ln Σ_k θ_k φ_k(w) over a picture's visual words.

        Source: Feng & Lapata 2010; docs/methods/vrss.md §8.
        """
        expect("lda.score", texts=(texts, "N K"), images=(images, "M V"))
        topics = self.topics.cpu().numpy().astype(np.float64)
        visual = topics[:, len(self.words) :] / topics.sum(axis=1, keepdims=True)
        logarithms = np.log(texts.astype(np.float64) @ visual)
        found: FloatArray = (logarithms @ images.T.astype(np.float64)).astype(np.float32)
        return found

    def products(self, texts: Tensor, images: Tensor) -> Tensor:
        """See `Model.products`."""
        return torch.from_numpy(self.score(texts.cpu().numpy(), images.cpu().numpy())).to(texts.device)

    def visual_counts(self, pictures: np.ndarray) -> NDArray[np.int64]:
        """(M, P, F) local vectors, or pixels of drawings → (M, V) counts of visual words.

        Raises:
            ShapeError: vectors of another width.
        """
        count = len(self.centres)
        found = np.zeros((len(pictures), count), np.int64)
        with evaluating(self):
            squares = self.centres.square().sum(dim=1)
            for start in range(0, len(pictures), _BLOCK):
                vectors = local_vectors(to_tensor(pictures[start : start + _BLOCK], self.device))
                if vectors.shape[2] != len(self.mean):
                    due = len(self.mean)
                    raise ShapeError(f"lda: local vectors of width {vectors.shape[2]}, expected {due}")
                projected = (vectors - self.mean) @ self.axes.t()  # (m, P, C)
                nearest = (squares - 2 * projected @ self.centres.t()).argmin(dim=2).cpu().numpy()
                for row, own in enumerate(nearest, start):
                    found[row] = np.bincount(own, minlength=count)
        return found


def local_vectors(pictures: Tensor) -> Tensor:
    """Local vectors: (M, P, F) grid features unchanged; (M, H, W, 3) pixels as 8 × 8 cells, (M, 64, 48).

    Drawings are scaled to 32 × 32 pixels, so a cell has 4 × 4 pixels of three colours in [−1, 1].

    Raises:
        ShapeError: the input is neither.
    """
    if pictures.dtype == torch.uint8 and pictures.ndim == 4 and pictures.shape[3] == 3:
        scaled = pictures.permute(0, 3, 1, 2).float() / 127.5 - 1
        small = nn.functional.adaptive_avg_pool2d(scaled, CELLS * CELL_PX)
        return nn.functional.unfold(small, CELL_PX, stride=CELL_PX).transpose(1, 2)
    if pictures.dtype != torch.uint8 and pictures.ndim == 3:
        return pictures
    raise ShapeError(
        f"lda: pictures are {pictures.dtype} {tuple(pictures.shape)}, expected grid features (M, P, F) or"
        " uint8 (M, H, W, 3)"
    )


def word_tokens(text: str) -> list[str]:
    """Words of at least two letters or digits, lower-cased, without English stop words."""
    found: list[str] = CountVectorizer(stop_words="english").build_analyzer()(text)
    return found


def word_counts(texts: Sequence[str], words: Sequence[str]) -> Any:  # noqa: ANN401  (a sparse matrix)
    """(N, W) sparse counts of the words in each text."""
    return CountVectorizer(stop_words="english", vocabulary=list(words)).transform(texts)


class LdaSystem(System[LdaConfig, Lda]):
    """Registration of LDA, and its fitting."""

    name = "lda"
    settings = LdaConfig
    model = Lda

    def capabilities(self, config: LdaConfig) -> Capabilities:
        """Ranks pictures by their probability given a single text; fitted without gradients."""
        return Capabilities(no_library=NO_COSINE, backbone=config.backbone, layer="grid", gradients=False)

    def build(self, config: LdaConfig, parts: ModelParts) -> Lda:
        """Build the model from the contents of a file.

        Raises:
            CheckpointError: a part is missing or inconsistent.
        """
        try:
            return super().build(config, parts)
        except (KeyError, ShapeError) as error:
            raise CheckpointError(
                f"{parts.where}: damaged ({error}); fit it again with limner train"
            ) from error

    def fit(
        self,
        config: LdaConfig,
        corpus: Corpus,
        folder: Path,
        *,
        validate: Callable[[Lda], Mapping[str, float]],
        maximise: bool,
        report: Callable[[Event], object],
    ) -> tuple[Position, bool]:
        """Learn visual words, then topics for each K; store the model that is best on validation.

        Reproducible bit for bit on one machine; an interrupted fit starts over.

        Args:
            config: settings.
            corpus: training and validation rows.
            folder: folder of the run; created if missing. Gets the weights and a line of history per K.
            validate: returns a model's figures on the validation rows.
            maximise: whether a higher value of ``loop.metric`` is better.
            report: called after each K, as after an epoch; it returns True to stop.
        Returns:
            The final position, with one epoch per K, in order; and whether every K was tried.
        Raises:
            ShapeError: the stored features are not grids.
            DataError: too few words or local vectors.
            CheckpointError: the folder has a run with other settings, or a file cannot be written.
        """
        words = training_words(corpus.train.texts, config.data.min_count)
        tensors = visual_words(config, corpus)
        parts = ModelParts(Vocabulary(words), len(tensors["mean"]), tensors=tensors)
        tensors["topics"] = torch.ones(1, len(words) + len(tensors["centres"]), dtype=torch.float64)
        saved = self.saved_with(config, corpus, parts.vocabulary, parts.image_width)
        _check_folder(folder, saved)
        documents = _documents(corpus, words, Lda(config.model, parts))
        position = Position()
        for count in config.topics:
            tensors["topics"] = torch.from_numpy(_topics(documents, count, config))
            model = Lda(config.model, parts).eval()
            figures = dict(validate(model))
            value = figures[config.loop.metric]
            ahead = position.best is None or (value > position.best if maximise else value < position.best)
            if ahead:
                position.best, position.best_epoch = value, position.epoch
                about = {"config": saved, "epoch": position.epoch, "validation": figures}
                checkpoint.save(folder / BEST, model.state_dict(), about)
            entry = {"epoch": position.epoch, "topics": count, "val": figures, "val_pairs": len(corpus.val)}
            position.history.append(entry)
            position.epoch, position.taken = position.epoch + 1, position.taken + config.passes
            checkpoint.write_history(folder / HISTORY, position.history)
            if (
                report(
                    Event(
                        "epoch", position, figures, 0.0, config.passes, len(config.topics), config.loop.metric
                    )
                )
                is True
            ):
                break
        return position, position.epoch == len(config.topics)


SYSTEM = LdaSystem()


def training_words(texts: list[str], min_count: int) -> tuple[str, ...]:
    """Words that occur at least `min_count` times, most frequent first.

    Args:
        texts: texts of the training split only.
        min_count: minimum number of occurrences.
    Raises:
        DataError: there is no such word.
    Source: Feng & Lapata 2010; docs/methods/vrss.md §8.
    """
    counts = Counter(token for text in texts for token in word_tokens(text))
    kept = sorted((-number, word) for word, number in counts.items() if number >= min_count)
    if not kept:
        raise DataError(
            f"lda: no word occurs {min_count} times in {counted(len(texts), 'training text')};"
            " lower data.min_count"
        )
    return tuple(word for _, word in kept)


def visual_words(config: LdaConfig, corpus: Corpus) -> dict[str, Tensor]:
    """Learn mean, PCA axes and cluster centres of local vectors, on a sample of the training pictures.

    Raises:
        ShapeError: the stored features are not grids.
        DataError: there are fewer distinct local vectors than visual words.
    Source: Feng & Lapata 2010; docs/methods/vrss.md §8. Departs: k-means uses mini-batches of a sample.
    """
    vectors = _sample(config, corpus)
    wanted, seed = config.model.visual_words, config.loop.seed
    different = len({row.tobytes() for row in vectors})
    if different < wanted:
        raise DataError(
            f"lda: {counted(different, 'different local vector')} for"
            f" {counted(wanted, 'visual word')}; lower model.visual_words or"
            " raise sample"
        )
    # one thread, because the order of partial sums of several threads varies, and with it the last bits
    with threadpool_limits(1):
        width = min(config.model.components, *vectors.shape)
        pca = PCA(width, svd_solver="randomized", random_state=seed).fit(vectors)
        projected = (vectors - pca.mean_) @ pca.components_.T
        means = MiniBatchKMeans(wanted, batch_size=4096, n_init=1, random_state=seed).fit(projected)
    parts = {"mean": pca.mean_, "axes": pca.components_, "centres": means.cluster_centers_}
    return {name: torch.from_numpy(np.array(part, np.float32)) for name, part in parts.items()}


def _sample(config: LdaConfig, corpus: Corpus) -> NDArray[np.float32]:
    """(n, F) local vectors of random training pictures, about `sample` in total."""
    places = np.unique(corpus.train.places)
    order = np.random.default_rng([config.loop.seed, 1]).permutation(len(places))
    per_picture = _local(corpus, places[:1]).shape[1]
    chosen = np.sort(places[order[: max(1, -(-config.sample // per_picture))]])
    parts = [_local(corpus, chosen[start : start + _BATCH]) for start in range(0, len(chosen), _BATCH)]
    return np.concatenate(parts).reshape(-1, parts[0].shape[2])


def _local(corpus: Corpus, places: NDArray[np.int64]) -> NDArray[np.float32]:
    values = corpus.pictures.take(places)
    plain = values if values.dtype == np.uint8 else values.astype(np.float32)
    found: NDArray[np.float32] = local_vectors(torch.from_numpy(plain)).numpy()
    return found


def _documents(corpus: Corpus, words: tuple[str, ...], seen: Lda) -> Any:  # noqa: ANN401  (sparse)
    """(N, W + V) sparse counts of words and visual words, a row per training pair."""
    places, which = np.unique(corpus.train.places, return_inverse=True)
    blocks = [
        csr_matrix(seen.visual_counts(corpus.pictures.take(places[start : start + _BATCH])))
        for start in range(0, len(places), _BATCH)
    ]
    visual = vstack(blocks, format="csr")[which]
    return hstack([word_counts(corpus.train.texts, words), visual], format="csr")


def _topics(documents: Any, count: int, config: LdaConfig) -> NDArray[np.float64]:  # noqa: ANN401
    """Fit LDA; returns (K, W + V) pseudo-counts."""
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
    """Create the folder; raise if it already has a run with other settings."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / BEST).exists():
        return
    _, state = checkpoint.load(folder / BEST)
    if changed := differences(state.get("config", {}), json.loads(json.dumps(saved))):
        raise CheckpointError(
            f"{folder / BEST}: the run was started with other settings ({changed}); use another folder"
        )
