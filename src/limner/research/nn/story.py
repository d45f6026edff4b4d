"""Steps of a story as vectors: each step read alone, then steps read both ways with attention to all of them.

Ragged stories are packed, so that no step of padding is computed. It scores nothing and knows no picture.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from limner.arrays import expect
from limner.research.nn.words import in_stories, last_states, read_both_ways, states, word_embedding

LOW, HIGH = -6.0, 2.0  # log-variances are clamped to it


class EncodedSteps(NamedTuple):
    """B stories of up to T steps, S in all.

    Attributes:
        steps: (B, T, W) of the words of each step, zeros where a story is over.
        context: (B, T, W) of the whole story as each step attends to it; None without context.
        attention: (B, T, T) step by step, rows sum to 1 over the story's steps; None without context.
        real: (B, T) bool, where there is a step.
    """

    steps: Tensor
    context: Tensor | None
    attention: Tensor | None
    real: Tensor


class WordReader(nn.Module):
    """The words of a step, read both ways from trained word vectors."""

    def __init__(
        self, words: int, *, width: int, hidden: int, dropout: float, vectors: Tensor | None = None
    ) -> None:
        """Initialise the weights at random, from torch's generator.

        Args:
            words: V, padding (0) among them.
            width: E of a word vector.
            hidden: hidden size of the GRU, per direction; W is twice that.
            dropout: in [0, 1), on word vectors in training.
            vectors: (V, E) to start from.
        Raises:
            ShapeError: the vectors do not fit.
        """
        super().__init__()
        self.width = 2 * hidden
        self.embedding = word_embedding("steps", words, width, vectors)
        self.words = nn.GRU(width, hidden, batch_first=True, bidirectional=True)
        self.dropout = nn.Dropout(dropout)

    def forward(self, texts: Tensor, lengths: Tensor) -> Tensor:
        """(S, L) int64 word numbers of (S,) lengths in 1…L, on the CPU → (S, W)."""
        return last_states(self.words, self.dropout(self.embedding(texts)), lengths)


class SentenceReader(nn.Module):
    """A frozen encoder's vector of a step, through one trained layer."""

    def __init__(self, width: int, *, hidden: int, dropout: float) -> None:
        """Initialise the weights at random, from torch's generator.

        Args:
            width: width of a sentence vector.
            hidden: half of W, so that both readers are sized by the same setting.
            dropout: in [0, 1), on entries of the vectors in training.
        """
        super().__init__()
        self.width = 2 * hidden
        self.layer = nn.Linear(width, self.width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, texts: Tensor, lengths: Tensor) -> Tensor:
        """(S, width) sentence vectors → (S, W); lengths do not matter here."""
        found: Tensor = torch.tanh(self.layer(self.dropout(texts)))
        return found


class StepEncoder(nn.Module):
    """A reader of single steps, and above it a GRU over steps with bilinear attention of every step to all.

    Source: VRSS 2020, Section 4; docs/methods/vrss.md §2.1. The context sees later steps too: Equation 4's
    "before t" is loose.
    """

    def __init__(
        self, reader: WordReader | SentenceReader, *, hidden: int, context: bool, dropout: float
    ) -> None:
        """Initialise the weights at random, from torch's generator.

        Args:
            reader: reader of single steps; its W is that of everything here.
            hidden: hidden size of the GRU over steps, per direction: half of W.
            context: whether steps attend to their story.
            dropout: in [0, 1), on step vectors in training.
        """
        super().__init__()
        self.reader, self.width = reader, reader.width
        self.dropout = nn.Dropout(dropout)
        self.story = nn.GRU(self.width, hidden, batch_first=True, bidirectional=True) if context else None
        self.bilinear = nn.Linear(self.width, self.width, bias=False) if context else None

    def forward(self, texts: Tensor, lengths: Tensor, steps: Tensor) -> EncodedSteps:
        """Encode B stories.

        Args:
            texts: (S, …) as the reader takes them, the steps of all stories one after the other.
            lengths: (S,) int64 on the CPU, words of each.
            steps: (B,) int64 on the CPU, at least 1, with sum S.
        Raises:
            ShapeError: the sizes contradict each other.
        """
        padded, real = in_stories("steps", self.dropout(self.reader(texts, lengths)), steps)  # (B, T, W)
        if self.story is None or self.bilinear is None:
            return EncodedSteps(padded, None, None, real)
        whole = states(self.story, padded, steps)  # (B, T, W)
        logits = self.bilinear(padded) @ whole.transpose(1, 2)  # (B, T, T)
        attention = logits.masked_fill(~real[:, None, :], -torch.inf).softmax(dim=2)
        attention = attention * real[:, :, None]
        return EncodedSteps(padded, attention @ whole, attention, real)


class Walked(NamedTuple):
    """The latents of S steps, those of all stories one after the other.

    Attributes:
        latents: (S, Z) drawn, or in evaluation the posterior means.
        earlier: (S, Z) of the step before, 0 for the first of a story.
        posterior, prior: (S, Z) mean and log-variance each.
    """

    latents: Tensor
    earlier: Tensor
    posterior: tuple[Tensor, Tensor]
    prior: tuple[Tensor, Tensor]


class LatentWalk(nn.Module):
    """Latents that move on from step to step: each is drawn from its step and from the latent before.

    Source: VRSS 2020, Eqs. 1 to 3; docs/methods/vrss.md §2.2.
    """

    def __init__(self, width: int, *, hidden: int, latent: int, first_log_variance: float = 0.0) -> None:
        """Initialise the weights at random, from torch's generator.

        Args:
            width: W of a step.
            hidden: hidden size of the networks of prior and posterior.
            latent: Z.
            first_log_variance: where the posterior's log-variances begin.
        """
        super().__init__()
        self.latent = latent
        self.from_inputs = nn.Linear(width, hidden)
        self.from_before = nn.Linear(latent, hidden, bias=False)
        self.posterior = nn.Linear(hidden, 2 * latent)
        nn.init.constant_(self.posterior.bias[latent:], first_log_variance)
        self.prior = perceptron(latent, hidden, 2 * latent)

    def forward(self, inputs: Tensor, real: Tensor) -> Walked:
        """Walk through B stories at once; prior and whatever decodes then see all steps.

        Args:
            inputs: (B, T, W) of their steps.
            real: (B, T) bool, where there is a step; S in all.
        """
        known = self.from_inputs(inputs)  # (B, T, hidden), which no latent changes
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
    """Batch normalisation that also takes a batch of one row.

    One row has no variance, so a story of one picture, trained on alone, is normalised by the running
    statistics and does not move them.
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
    """Features of single pictures joined with a two-layer Bi-LSTM's outputs over their story.

    Source: GLAC Net 2018; docs/methods/gsda.md §4.3.
    """

    def __init__(self, image_width: int, *, local: int, hidden: int, joined: int, dropout: float) -> None:
        """Initialise the weights at random, from torch's generator.

        Args:
            image_width: F of the picture features.
            local: width of what a picture says alone.
            hidden: hidden size of the Bi-LSTM, per direction.
            joined: width of the result.
            dropout: in [0, 1), between the layers of the Bi-LSTM and on the result, in training.
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
            features: (S, F) the pictures of all stories one after the other.
            steps: (B,) int64 on the CPU, at least 1, with sum S.
        Returns:
            (S, joined).
        Raises:
            ShapeError: the sizes contradict each other.
        """
        expect("captioner", features=(features, f"S {self.image_width}"))
        alone = self.local_norm(self.local(features))  # (S, local)
        around = read_both_ways(self.story, alone, steps)  # (S, 2·hidden)
        joined: Tensor = self.join_norm(self.dropout(self.join(torch.cat([alone, around], dim=1))))
        return joined
