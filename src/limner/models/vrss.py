"""VRSS: a story's steps become generated picture vectors, each depending on a latent topic that moves on.

With its two ablations: no latent (VRSS-VAE) and no context (VRSS-GlobalCon). Retrieval is the cosine between
a generated vector and a picture's features. It holds no loss.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

from limner.arrays import FloatArray, TextEncoder, scores
from limner.config import Config
from limner.encoders.colour import CellColours
from limner.errors import ConfigError, ShapeError
from limner.models.encoding import (
    Evaluating,
    Tokens,
    encode_pictures,
    fingerprint,
    settings_fingerprint,
    to_tensor,
)
from limner.models.story_encoding import encode_alone, encode_stories
from limner.nn.story import EncodedSteps, SentenceReader, StepEncoder, WordReader
from limner.nn.words import states

LOW, HIGH = -6.0, 2.0  # log-variances are clamped to it


class VrssArchitecture(Config):
    """Sizes and parts of the model.

    Attributes:
        text: what reads a step: a GRU over its trained "words", or a frozen encoder of "sentences".
        word_width: E.
        hidden: of every GRU, per direction.
        latent: Z.
        mlp: hidden width of the networks of prior, posterior and decoder.
        dropout: on word and step vectors.
        latents: whether there are latent variables; without them a GRU decodes (VRSS-VAE).
        context: whether steps attend to their story (not for VRSS-GlobalCon).
        variance: of the decoder, "fixed" or "learned" (literal).
        centre: subtract the training pictures' mean feature before vectors are compared.
        first_log_variance: where the posterior's log-variances begin; the paper does not say, and at 0 the
            noise of the latents drowns what the texts say.
    Source: VRSS 2020, Section 4; docs/methods/vrss.md §2, §5.
    """

    text: Literal["words", "sentences"] = "words"
    word_width: int = Field(default=500, ge=1)
    hidden: int = Field(default=500, ge=1)
    latent: int = Field(default=500, ge=1)
    mlp: int = Field(default=1000, ge=1)
    dropout: float = Field(default=0.3, ge=0, lt=1)
    latents: bool = True
    context: bool = True
    variance: Literal["fixed", "learned"] = "fixed"
    centre: bool = False
    first_log_variance: float = Field(default=-5.0, ge=LOW, le=HIGH)


class Generated(NamedTuple):
    """What the model says about S steps of B stories, in the order they were given.

    Attributes:
        means: (S, F) generated picture vectors.
        log_variances: (S, F), or None where the variance is fixed.
        posterior, prior: (S, Z) mean and log-variance each, or None without latents.
        latents: (S, Z) the latents drawn (posterior means in evaluation), or None.
        attention: (B, T, T), or None without context.
    """

    means: Tensor
    log_variances: Tensor | None
    posterior: tuple[Tensor, Tensor] | None
    prior: tuple[Tensor, Tensor] | None
    latents: Tensor | None
    attention: Tensor | None


class Vrss(nn.Module):
    """The whole system; retrieval and evaluation call `encode_stories`, `encode_image` and `score`."""

    name = "vrss"
    centre: Tensor

    def __init__(
        self,
        architecture: VrssArchitecture,
        vocabulary: Tokens,
        *,
        image_width: int,
        max_length: int,
        vectors: Tensor | None = None,
        features: nn.Module | None = None,
        sentences: TextEncoder | None = None,
    ) -> None:
        """Draw the weights from torch's generator.

        Args:
            architecture: sizes and parts.
            vocabulary: of the training texts.
            image_width: F of the picture features.
            max_length: words of a step that count.
            vectors: (V, E) to start from.
            features: bytes of pictures → (B, F), fixed; None where features are stored.
            sentences: frozen encoder of whole steps, where the architecture asks for one.
        Raises:
            ConfigError: a learned variance without latents has no meaning here; or no encoder was given.
        """
        super().__init__()
        if architecture.variance == "learned" and not architecture.latents:
            raise ConfigError("vrss: variance 'learned' goes with latents; set model.variance='fixed'")
        own = architecture
        if (own.text == "sentences") != (sentences is not None):
            raise ConfigError(
                f"vrss: text = {own.text!r}, and an encoder of sentences goes with 'sentences' alone"
            )
        self.architecture, self.vocabulary, self.max_length = own, vocabulary, max_length
        self.sentences = sentences
        self.image_width = image_width
        self.features = features
        self.register_buffer("centre", torch.zeros(image_width))
        reader: WordReader | SentenceReader
        if sentences is not None:
            reader = SentenceReader(sentences.dim, hidden=own.hidden, dropout=own.dropout)
        else:
            words, width = len(vocabulary), own.word_width
            reader = WordReader(words, width=width, hidden=own.hidden, dropout=own.dropout, vectors=vectors)
        self.steps = StepEncoder(reader, hidden=own.hidden, context=own.context, dropout=own.dropout)
        heard = self.steps.width * (2 if own.context else 1)
        spread = 2 if own.variance == "learned" else 1
        if own.latents:
            self.from_heard = nn.Linear(heard, own.mlp)
            self.from_before = nn.Linear(own.latent, own.mlp, bias=False)
            self.posterior = nn.Linear(own.mlp, 2 * own.latent)
            nn.init.constant_(self.posterior.bias[own.latent :], own.first_log_variance)
            self.prior = _mlp(own.latent, own.mlp, 2 * own.latent)
            self.decoder = _mlp(2 * own.latent, own.mlp, spread * image_width)
        else:
            self.reader = nn.GRU(heard, own.hidden, batch_first=True, bidirectional=True)
            self.decoder = _mlp(2 * own.hidden, own.mlp, image_width)

    def forward(self, texts: Tensor, lengths: Tensor, steps: Tensor) -> Generated:
        """Generate a picture vector for every step of B stories.

        Args:
            texts: the steps of all stories one after the other: (S, L) int64 words, or (S, ·) vectors.
            lengths: (S,) int64 on the CPU, in 1…L.
            steps: (B,) int64 on the CPU, with sum S.
        Raises:
            ShapeError: sizes do not fit.
        Source: VRSS 2020, Eqs. 1 to 3; docs/methods/vrss.md §2.1, §2.2.
        """
        read = self.steps(texts, lengths, steps)
        heard = read.steps if read.context is None else torch.cat([read.steps, read.context], dim=2)
        if not self.architecture.latents:
            whole = states(self.reader, heard, steps)
            return Generated(self.decoder(whole[read.real]), None, None, None, None, read.attention)
        return self._recur(heard, read)

    def _recur(self, heard: Tensor, read: EncodedSteps) -> Generated:
        """The latents one step after the other, all stories at once; prior and decoder then see all steps."""
        own = self.architecture
        known = self.from_heard(heard)  # (B, T, mlp), which no latent changes
        before = heard.new_zeros(len(heard), own.latent)
        parts: list[tuple[Tensor, Tensor, Tensor]] = []
        for place in range(heard.shape[1]):
            mean, log_variance = self.posterior(torch.tanh(known[:, place] + self.from_before(before))).chunk(
                2, dim=1
            )
            log_variance = log_variance.clamp(LOW, HIGH)
            drawn = mean
            if self.training:
                drawn = mean + (0.5 * log_variance).exp() * torch.randn_like(mean)
            parts.append((mean, log_variance, drawn))
            before = drawn
        means, log_variances, latents = (
            torch.stack(list(part), dim=1) for part in zip(*parts, strict=True)
        )  # (B, T, Z) each
        earlier = torch.cat([latents.new_zeros(len(latents), 1, own.latent), latents[:, :-1]], dim=1)
        real = read.real
        prior_mean, prior_log_variance = self.prior(earlier[real]).chunk(2, dim=1)
        out = self.decoder(torch.cat([earlier[real], latents[real]], dim=1))
        spread = None
        if own.variance == "learned":
            out, spread = out.chunk(2, dim=1)
            spread = spread.clamp(LOW - 4, HIGH)  # unit vectors of F dimensions have variances of about 1/F
        return Generated(
            out,
            spread,
            (means[real], log_variances[real]),
            (prior_mean, prior_log_variance.clamp(LOW, HIGH)),
            latents[real],
            read.attention,
        )

    def described(self, pictures: Tensor) -> Tensor:
        """Features as they are, or those of drawn pictures' bytes: (M, F)."""
        found: Tensor = pictures if self.features is None else self.features(pictures)
        return found

    def gold(self, pictures: Tensor) -> Tensor:
        """(M, F) features, or what `features` takes → (M, F) unit rows, constants.

        Raises:
            ShapeError: features of another width.
        """
        with torch.no_grad():
            found = self.described(pictures)
            if found.ndim != 2 or found.shape[1] != self.image_width:
                due = self.image_width
                raise ShapeError(
                    f"vrss: picture features have shape {tuple(found.shape)}, expected (B, {due})"
                )
            return nn.functional.normalize(found - self.centre, dim=1)

    @property
    def dim(self) -> int:
        """F: generated vectors live where the features do."""
        return self.image_width

    @property
    def device(self) -> torch.device:
        """Where the weights lie."""
        return self.centre.device

    @property
    def fingerprint(self) -> str:
        """Hash of settings, words and weights: equal fingerprints give equal vectors."""
        if self.sentences is not None:
            return settings_fingerprint(self, self.architecture, self.sentences.fingerprint)
        return fingerprint(self, self.architecture, self.vocabulary, self.max_length)

    def encode_stories(self, stories: Sequence[Sequence[str]]) -> list[FloatArray]:
        """Stories → per story (T, F) float32 unit rows, by posterior means; a story hears all its steps."""
        return encode_stories(self, stories, self._told, self.dim)

    def encode_text(self, texts: Sequence[str]) -> FloatArray:
        """Texts → (N, F) unit rows, each heard as a story of one step."""
        return encode_alone(self.encode_stories, texts, self.dim)

    def encode_image(self, pictures: np.ndarray) -> FloatArray:
        """(M, F) features, or bytes where they are drawn → (M, F) float32 unit rows."""
        return encode_pictures(self, pictures, self.gold, (self.dim,), self.device)

    def score(self, texts: FloatArray, images: FloatArray) -> FloatArray:
        """(N, F) and (M, F) unit rows → (N, M) cosines."""
        return scores(texts, images)

    def story(self, texts: Sequence[str]) -> Generated:
        """Everything said about one story of at least one step, in evaluation mode."""
        with Evaluating(self):
            made = self(*self._numbers([texts]))
        found: Generated = made
        return found

    def _told(self, stories: Sequence[Sequence[str]]) -> Tensor:
        return nn.functional.normalize(self(*self._numbers(stories)).means, dim=1)

    def _numbers(self, stories: Sequence[Sequence[str]]) -> tuple[Tensor, Tensor, Tensor]:
        texts = [text for story in stories for text in story]
        counts = torch.tensor([len(story) for story in stories])
        if self.sentences is not None:
            vectors = to_tensor(self.sentences.encode_text(texts), self.device)
            return vectors, torch.ones(len(texts), dtype=torch.int64), counts
        ids, lengths = self.vocabulary.batch(texts, self.max_length)
        return torch.from_numpy(ids).to(self.device), torch.from_numpy(lengths), counts


def drawn_features() -> tuple[nn.Module, int]:
    """Fixed features of drawn pictures' bytes, and their width: constants, as those of a frozen backbone."""
    return CellColours(), CellColours.width


def _mlp(width: int, hidden: int, out: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width, hidden), nn.Tanh(), nn.Linear(hidden, out))
