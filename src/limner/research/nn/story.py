"""Story encoders: vectors of single steps, and recurrent layers with attention over the steps of a story.

Stories of different lengths are padded; padding never affects a result.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from limner.arrays import expect
from limner.research.nn.words import in_stories, last_states, read_both_ways, states, word_embedding

LOW, HIGH = -6.0, 2.0  # range to which log-variances are clamped


class ContextualSteps(NamedTuple):
    """B stories of up to T steps, S in total.

    Attributes:
        steps: (B, T, W) vectors of single steps, zero on padding.
        context: (B, T, W) attention-weighted vectors of the story for each step; None without context.
        attention: (B, T, T) weights; rows sum to 1 over the story's steps; None without context.
        real: (B, T) bool, False on padding.
    """

    steps: Tensor
    context: Tensor | None
    attention: Tensor | None
    real: Tensor


class WordReader(nn.Module):
    """Encoder of single steps: a bidirectional GRU over trained word vectors."""

    def __init__(
        self, words: int, *, width: int, hidden: int, dropout: float, vectors: Tensor | None = None
    ) -> None:
        """Initialise the weights at random, from torch's generator.

        Args:
            words: V, size of the vocabulary with padding (0).
            width: E, dimension of word vectors.
            hidden: hidden size of the GRU, per direction; W is twice that.
            dropout: dropout rate in [0, 1) of word vectors, in training.
            vectors: (V, E) initial word vectors.
        Raises:
            ShapeError: the shape of `vectors` is not (V, E).
        """
        super().__init__()
        self.width = 2 * hidden
        self.embedding = word_embedding("steps", words, width, vectors)
        self.words = nn.GRU(width, hidden, batch_first=True, bidirectional=True)
        self.dropout = nn.Dropout(dropout)

    def forward(self, texts: Tensor, lengths: Tensor) -> Tensor:
        """(S, L) int64 word ids, with (S,) lengths in 1…L on the CPU → (S, W)."""
        return last_states(self.words, self.dropout(self.embedding(texts)), lengths)


class SentenceReader(nn.Module):
    """Encoder of single steps: one trained layer on a frozen encoder's sentence vector."""

    def __init__(self, width: int, *, hidden: int, dropout: float) -> None:
        """Initialise the weights at random, from torch's generator.

        Args:
            width: dimension of sentence vectors.
            hidden: half of W, as in `WordReader`.
            dropout: dropout rate in [0, 1) of the inputs, in training.
        """
        super().__init__()
        self.width = 2 * hidden
        self.layer = nn.Linear(width, self.width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, texts: Tensor, lengths: Tensor) -> Tensor:
        """(S, width) sentence vectors → (S, W); `lengths` is ignored."""
        projected: Tensor = torch.tanh(self.layer(self.dropout(texts)))
        return projected


class StepEncoder(nn.Module):
    """An encoder of single steps, then a bidirectional GRU over steps with bilinear attention to all steps.

    Source: VRSS 2020, Section 4; docs/methods/vrss.md §2.1. Departs: the context includes later steps, where
    Equation 4 says "before t".
    """

    def __init__(
        self, reader: WordReader | SentenceReader, *, hidden: int, context: bool, dropout: float
    ) -> None:
        """Initialise the weights at random, from torch's generator.

        Args:
            reader: encoder of single steps; its dimension W is that of all outputs.
            hidden: hidden size of the GRU over steps, per direction: W / 2.
            context: whether steps attend to their story.
            dropout: dropout rate in [0, 1) of step vectors, in training.
        """
        super().__init__()
        self.reader, self.width = reader, reader.width
        self.dropout = nn.Dropout(dropout)
        self.story = nn.GRU(self.width, hidden, batch_first=True, bidirectional=True) if context else None
        self.bilinear = nn.Linear(self.width, self.width, bias=False) if context else None

    def forward(self, texts: Tensor, lengths: Tensor, steps: Tensor) -> ContextualSteps:
        """Encode B stories.

        Args:
            texts: (S, …) input of the reader, the stories concatenated.
            lengths: (S,) int64 on the CPU, words per step.
            steps: (B,) int64 on the CPU, steps per story, at least 1, with sum S.
        Raises:
            ShapeError: the sizes contradict each other.
        """
        padded, real = in_stories("steps", self.dropout(self.reader(texts, lengths)), steps)  # (B, T, W)
        if self.story is None or self.bilinear is None:
            return ContextualSteps(padded, None, None, real)
        whole = states(self.story, padded, steps)  # (B, T, W)
        logits = self.bilinear(padded) @ whole.transpose(1, 2)  # (B, T, T)
        attention = logits.masked_fill(~real[:, None, :], -torch.inf).softmax(dim=2)
        attention = attention * real[:, :, None]
        return ContextualSteps(padded, attention @ whole, attention, real)


class Walked(NamedTuple):
    """Latents of S steps, the stories concatenated.

    Attributes:
        latents: (S, Z) samples from the posterior; in evaluation mode its means.
        earlier: (S, Z) latent of the previous step, 0 for the first step of a story.
        posterior, prior: mean and log-variance, (S, Z) each.
    """

    latents: Tensor
    earlier: Tensor
    posterior: tuple[Tensor, Tensor]
    prior: tuple[Tensor, Tensor]


class LatentWalk(nn.Module):
    """Sequential latent variables: the posterior of a step depends on the step and the previous latent.

    Source: VRSS 2020, Eqs. 1 to 3; docs/methods/vrss.md §2.2.
    """

    def __init__(self, width: int, *, hidden: int, latent: int, first_log_variance: float = 0.0) -> None:
        """Initialise the weights at random, from torch's generator.

        Args:
            width: W, dimension of step vectors.
            hidden: hidden size of the networks of prior and posterior.
            latent: Z, dimension of latents.
            first_log_variance: initial bias of the posterior's log-variance.
        """
        super().__init__()
        self.latent = latent
        self.from_inputs = nn.Linear(width, hidden)
        self.from_before = nn.Linear(latent, hidden, bias=False)
        self.posterior = nn.Linear(hidden, 2 * latent)
        nn.init.constant_(self.posterior.bias[latent:], first_log_variance)
        self.prior = perceptron(latent, hidden, 2 * latent)

    def forward(self, inputs: Tensor, real: Tensor) -> Walked:
        """Sample the latents of B stories, step by step; the prior is computed for all steps at once.

        Args:
            inputs: (B, T, W) step vectors.
            real: (B, T) bool, False on padding, with S True entries.
        """
        known = self.from_inputs(inputs)  # (B, T, hidden), independent of latents
        before = inputs.new_zeros(len(inputs), self.latent)
        parts: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []
        for place in range(inputs.shape[1]):
            mean, spread = self.posterior(torch.tanh(known[:, place] + self.from_before(before))).chunk(2, 1)
            spread = spread.clamp(LOW, HIGH)
            drawn = mean + (0.5 * spread).exp() * torch.randn_like(mean) if self.training else mean
            parts.append((mean, spread, before, drawn))
            before = drawn
        mean, spread, earlier, drawn = (
            torch.stack(list(part), dim=1)[real] for part in zip(*parts, strict=True)
        )
        prior, prior_spread = self.prior(earlier).chunk(2, dim=1)
        return Walked(drawn, earlier, (mean, spread), (prior, prior_spread.clamp(LOW, HIGH)))


def perceptron(width: int, hidden: int, out: int) -> nn.Sequential:
    """Two layers with a tanh between them."""
    return nn.Sequential(nn.Linear(width, hidden), nn.Tanh(), nn.Linear(hidden, out))


class RowNorm(nn.BatchNorm1d):
    """Batch normalisation that accepts a batch of one row.

    One row has no variance; it is normalised with the running statistics and does not update them.
    """

    def forward(self, rows: Tensor) -> Tensor:
        """(N, W) → (N, W)."""
        if self.training and len(rows) == 1:
            return nn.functional.batch_norm(
                rows,
                self.running_mean,
                self.running_var,
                self.weight,
                self.bias,
                training=False,
                eps=self.eps,
            )
        return super().forward(rows)


class PictureSequenceEncoder(nn.Module):
    """Projected features of single pictures, joined with the outputs of a two-layer Bi-LSTM over the story.

    Source: GLAC Net 2018; docs/methods/gsda.md §4.3.
    """

    def __init__(self, image_width: int, *, local: int, hidden: int, joined: int, dropout: float) -> None:
        """Initialise the weights at random, from torch's generator.

        Args:
            image_width: F, dimension of picture features.
            local: dimension of a single picture's projection.
            hidden: hidden size of the Bi-LSTM, per direction.
            joined: dimension of the result.
            dropout: dropout rate in [0, 1) between the layers of the Bi-LSTM and on the result, in training.
        """
        super().__init__()
        self.image_width, self.width = image_width, joined
        self.local = nn.Linear(image_width, local)
        self.local_norm = RowNorm(local)
        self.story = nn.LSTM(
            local, hidden, num_layers=2, batch_first=True, bidirectional=True, dropout=dropout
        )
        self.join = nn.Linear(local + 2 * hidden, joined)
        self.dropout = nn.Dropout(dropout)
        self.join_norm = RowNorm(joined)

    def forward(self, features: Tensor, steps: Tensor) -> Tensor:
        """Encode the pictures of B stories.

        Args:
            features: (S, F) picture features, the stories concatenated.
            steps: (B,) int64 on the CPU, pictures per story, at least 1, with sum S.
        Returns:
            (S, joined) vectors.
        Raises:
            ShapeError: the sizes contradict each other.
        """
        expect("captioner", features=(features, f"S {self.image_width}"))
        alone = self.local_norm(self.local(features))  # (S, local)
        around = read_both_ways(self.story, alone, steps)  # (S, 2·hidden)
        joined: Tensor = self.join_norm(self.dropout(self.join(torch.cat([alone, around], dim=1))))
        return joined
