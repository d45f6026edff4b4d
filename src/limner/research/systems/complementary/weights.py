"""Weights of training pairs from their neighbourhoods; all pairs are scored once per epoch.

The formulas are in `limner.research.losses.weighting`.
"""

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from limner.research.datasets.neighbours import PairScores
from limner.research.losses import weighting
from limner.research.systems.complementary.memory import IMAGE, TEXT, EpochMemory
from limner.research.systems.complementary.model import ComplementaryConfig
from limner.research.training.processes import all_reduce, gather_columns

SAMPLES = 1000
HEADS_NEAREST = 32  # neighbours compared head by head under kmode "max"
_CELLS, _FEWEST = 1 << 27, 16  # entries of vectors per block, and least number of entries of one vector
PREFIX, LOGGED = "weights.", "weights/"


class PairWeights:
    """Scores of all training pairs by measure and modality, and weights of batches."""

    def __init__(self, config: ComplementaryConfig, n: int, neighbours: NDArray[np.int32] | None) -> None:
        """Create the weights, without scores yet.

        Args:
            config: settings of a method with measures.
            n: number of training pairs.
            neighbours: (n, N) neighbours of each pair, padded with −1.
        """
        assert neighbours is not None  # noqa: S101  (given by `prepare`)
        self._config, self._n = config, n
        self._table = torch.from_numpy(np.ascontiguousarray(neighbours))
        self._matrix = weighting.neighbour_matrix(self._table)
        names = [f"{measure}/{side}" for measure in config.measures for side in (IMAGE, TEXT)]
        self._raw = {name: torch.zeros(n) for name in names}
        self._joined = torch.zeros(2, n)  # scores of pictures and texts in this epoch
        self._before = torch.zeros(2, n)  # scores in the previous epoch
        self._last = torch.zeros(n)
        self._epochs = torch.tensor([-1, -1])  # epoch of the scores, and first epoch with scores

    def score(self, memory: EpochMemory, epoch: int, device: torch.device) -> None:
        """Score all pairs for an epoch, on a device; does nothing without a memory, or if already done."""
        bank = memory.read()
        if bank is None or int(self._epochs[0]) == epoch:
            return
        own = self._config.weights
        for side, vectors in ((IMAGE, bank.images), (TEXT, bank.texts)):
            totals = {measure: torch.zeros(self._n, dtype=torch.float64) for measure in self._config.measures}
            # Products are sums over the entries of vectors, so blocks of entries can be processed in turn;
            # only the maximum of several products needs whole vectors.
            width = max(_FEWEST, _CELLS // max(self._n, 1))
            for part in gather_columns(vectors, bank.shares, width, whole=own.kmode == "max"):
                held = part.to(device)
                near = weighting.means(self._matrix, held)  # used by both measures
                for measure in self._config.measures:
                    totals[measure] += self._measure(measure, held, near, epoch).cpu()
            for measure, total in totals.items():
                self._raw[f"{measure}/{side}"] = torch.from_numpy(all_reduce(total.numpy(), device)).float()
        self._before = self._joined
        self._joined = torch.stack([self._combined(side) for side in (IMAGE, TEXT)])
        first = int(self._epochs[1])
        self._epochs = torch.tensor([epoch, epoch if first < 0 else first])

    def of(self, rows: Tensor) -> Tensor | None:
        """(B,) weights of a batch, without gradient; None until pairs are scored."""
        if int(self._epochs[0]) < 0:
            return None
        own = self._config.weights
        images, texts = self._joined[:, rows.cpu()]
        return weighting.batch_weights(
            images, texts, lam=own.lam, gamma=own.gamma, mode=own.mode, reading=own.reading, tau=own.tau
        ).to(rows.device, torch.float32)

    def note(self, rows: Tensor, alpha: Tensor) -> dict[str, Tensor]:
        """Record the weights of a batch.

        Returns:
            Values to log: the drift of the scores, once two epochs are scored; for combined-stats also mean
            and standard deviation of each measure's raw scores, whose product is the measure's factor.
        """
        self._last[rows.cpu()] = alpha.detach().float().cpu()
        logged: dict[str, Tensor] = {}
        if self._config.method == "combined-stats" and int(self._epochs[0]) >= 0:
            for measure, every in zip(self._config.measures, self._every(), strict=True):
                logged[f"{LOGGED}mean {measure}"] = every.mean()
                logged[f"{LOGGED}deviation {measure}"] = every.std(correction=0)
        if int(self._epochs[0]) > int(self._epochs[1]):
            found = [weighting.drift(self._before[side], self._joined[side]) for side in (0, 1)]
            logged[f"{LOGGED}drift"] = torch.tensor(float(np.mean([float(value) for value in found])))
        return logged

    def pair_scores(self, ids: tuple[str, ...]) -> PairScores | None:
        """Scores for figures and example pages; None until pairs are scored."""
        epoch = int(self._epochs[0])
        if epoch < 0:
            return None
        held = {name: values.numpy().astype(np.float32) for name, values in self._raw.items()}
        return PairScores(ids, held | {"weight": self._last.numpy().astype(np.float32)}, max(epoch - 1, 0))

    def state(self) -> dict[str, Tensor]:
        """State for a checkpoint."""
        held = {"joined": self._joined, "before": self._before, "last": self._last, "epochs": self._epochs}
        return {PREFIX + name: tensor.clone() for name, tensor in (held | self._raw).items()}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore from `state`."""
        own = {name.removeprefix(PREFIX): t.clone() for name, t in state.items() if name.startswith(PREFIX)}
        self._joined, self._before = own["joined"], own["before"]
        self._last, self._epochs = own["last"], own["epochs"]
        self._raw = {name: own[name] for name in self._raw}

    def _measure(self, measure: str, vectors: Tensor, near: Tensor, epoch: int) -> Tensor:
        """(n,) raw scores of one measure in one modality."""
        own, seed = self._config.weights, self._config.loop.seed * 1_000_003 + epoch
        if own.kmode == "max":
            few = weighting.fewer(self._table, HEADS_NEAREST, seed=seed)
            heads = vectors.reshape(len(vectors), self._config.model.heads, -1)
            return weighting.best_heads(few, heads, diverse=measure == "DIVERSITY", hops=own.hops)
        if measure == "DIVERSITY":
            return weighting.diversity(self._matrix, vectors, near=near)
        if own.estimator == "sampled1000":
            return weighting.sampled_discrepancy(self._matrix, vectors, samples=SAMPLES, seed=seed)
        return weighting.discrepancy(self._matrix, vectors, own=own.own, nn=own.nn, hops=own.hops, near=near)

    def _every(self) -> list[Tensor]:
        """(2n,) raw scores of each measure, for both modalities."""
        return [
            torch.cat([self._raw[f"{measure}/{side}"] for side in (IMAGE, TEXT)])
            for measure in self._config.measures
        ]

    def _combined(self, side: str) -> Tensor:
        """(n,) scores of a modality, from which weights are computed; standardised if "sound"."""
        config = self._config
        scores = [self._raw[f"{measure}/{side}"] for measure in config.measures]
        sound = config.weights.reading == "sound"
        if config.method == "combined-stats":
            found = weighting.combined_stats(*scores, *self._every(), sound=sound)
        elif config.method == "combined-val":
            div, dis = (weighting.z_scores(score) if sound else score for score in scores)
            found = config.weights.beta * div + config.weights.gamma_hat * dis
        else:
            (found,) = scores
        return weighting.z_scores(found) if sound else found


def shares(alpha: Tensor) -> dict[str, Tensor]:
    """Statistics of a batch's weights: ratio of largest to smallest, and entropy in nats."""
    ratio, entropy = weighting.spread(alpha.detach())
    return {f"{LOGGED}ratio": torch.as_tensor(ratio), f"{LOGGED}entropy": torch.as_tensor(entropy)}
