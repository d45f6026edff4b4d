"""VRSS: generates a picture vector for each step of a story from a latent topic that evolves over the story.

Its two ablations leave out the latents ("VRSS-VAE": minus the VAE) or the context ("VRSS-GlobalCon").
Retrieval ranks by the cosine between a generated vector and a picture's features.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from pydantic import Field
from torch import Tensor, nn

from limner.config import Record
from limner.errors import ConfigError
from limner.research.losses.generative import Anchor, gaussian_kl, gaussian_nll, generated_hinge, half_square
from limner.research.losses.ranking import product
from limner.research.nn.story import (
    HIGH,
    LOW,
    ContextualSteps,
    LatentWalk,
    SentenceReader,
    StepEncoder,
    WordReader,
    perceptron,
)
from limner.research.nn.words import states
from limner.research.systems.base import Capabilities, ModelParts, System, evaluating
from limner.research.systems.picture_side import FixedFeatures
from limner.research.systems.text_side import StoryModel, TextModel, TextSide, TextTask, reading
from limner.research.training.corpus import Batch
from limner.research.training.settings import Preset, RunConfig, every_preset

_LOOP = {"optimiser": "adadelta", "lr": 1.0, "clip_norm": 5.0, "epochs": 50, "metric": "R@10"}


class VrssArchitecture(Record):
    """Sizes and parts of the model.

    Attributes:
        text: encoder of a step: "words" is a GRU over trained word vectors; "sentences" a trained layer over
            a frozen sentence encoder.
        word_width: dimension E of the word vectors.
        hidden: hidden size of every GRU, per direction.
        latent: dimension Z of the latent variables.
        mlp: hidden width of the networks of prior, posterior and decoder.
        dropout: dropout rate of word and step vectors.
        latents: whether there are latent variables; without them a GRU replaces them (VRSS-VAE).
        context: whether steps attend to the steps of their story; false gives VRSS-GlobalCon.
        variance: variance of the decoder: "fixed", or "learned" as in the paper's equations.
        centre: whether to subtract the training pictures' mean feature before vectors are compared.
        first_log_variance: initial log-variances of the posterior. The paper gives none; with 0, sampling
            noise hides the text signal.
    Source: VRSS 2020, Section 4; docs/methods/vrss.md §2, §5.
    """

    text: TextSide = "words"
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


class VrssConfig(RunConfig):
    """One run of VRSS, VRSS-VAE (``model.latents=false``) or VRSS-GlobalCon (``model.context=false``).

    The authors released no code, so the presets `release` and `paper` are the same: the paper, with our
    choices where it is unclear or cannot work as printed. The printed objective needs
    ``variant = "literal"``, ``model.variance = "learned"``, ``anchor = "gold_anchor"`` and ``kl_epochs = 0``.

    `sound` centres the features and uses Adam: with AdaDelta and a rate of 1.0, validation stayed near
    chance. It encodes steps with a frozen sentence encoder, because there are too few stories to learn
    language from. Its hinge is a mean, so ``beta = 200`` weighs about as much as the paper's sum over the
    wrong pictures of a batch with ``beta = 1.7``.

    Attributes:
        model: see `VrssArchitecture`.
        variant: "default" divides the KL by the number of latent dimensions and averages the hinge over wrong
            pictures; "literal" uses the sums. The reconstruction term depends on ``model.variance``: half the
            squared distance if "fixed", the negative log-density if "learned".
        margin: margin α of the hinge, cosine.
        beta: weight of the hinge.
        anchor: direction of the hinge, see `generated_hinge`.
        kl_epochs: epochs over which the weight of the KL grows from 0 to 1; with 0 it is 1 from the start.
        backbone: "frozen" features, or fixed colours of "drawings".
    Source: VRSS 2020, Eqs. 4 to 6; docs/methods/vrss.md §3, §5.
    """

    PRESETS: ClassVar[Mapping[Preset, Mapping[str, Any]]] = every_preset({"loop": _LOOP}) | {
        "sound": {
            "loop": {"optimiser": "adam", "lr": 1e-3, "betas": (0.9, 0.999)}
            | {"epochs": 30, "stop_after_stale": 8, "metric": "MRR"},
            "model": {"centre": True, "text": "sentences"},
            "beta": 200.0,
        },
        "laptop": {"data": {"backbone": "resnet50"}},
    }
    # settings in which the rows of the paper's table differ
    ROW: ClassVar[frozenset[str]] = frozenset({"model.latents", "model.context"})
    # squared distances, a scaled KL and a mean hinge, in both directions; a fixed variance, a posterior that
    # starts narrow, a KL that warms up, and rates that fall
    OURS: ClassVar[Mapping[str, Any]] = {
        "variant": "default",
        "anchor": "both",
        "model.variance": "fixed",
        "model.first_log_variance": -5.0,
        "kl_epochs": 10,
        "loop.schedule": "plateau",
    }
    SMOKE: ClassVar[Mapping[str, Any]] = {"model": {"word_width": 12, "hidden": 8, "latent": 6, "mlp": 16}}

    system: Literal["vrss"] = "vrss"
    model: VrssArchitecture = VrssArchitecture()
    variant: Literal["default", "literal"] = "default"
    margin: float = Field(default=0.2, gt=0)
    beta: float = Field(default=1.7, ge=0)
    anchor: Anchor = "both"
    kl_epochs: int = Field(default=10, ge=0)
    backbone: Literal["frozen", "drawings"] = "frozen"


class Generated(NamedTuple):
    """Outputs of the model for the S steps of B stories, in input order.

    Attributes:
        means: (S, F) generated picture vectors.
        log_variances: (S, F) of the decoder, or None if the variance is fixed.
        posterior, prior: (S, Z) mean and log-variance each, or None without latents.
        latents: (S, Z) sampled latents (posterior means in evaluation mode), or None without latents.
        attention: (B, T, T) attention weights, T the longest story; None without context.
    """

    means: Tensor
    log_variances: Tensor | None
    posterior: tuple[Tensor, Tensor] | None
    prior: tuple[Tensor, Tensor] | None
    latents: Tensor | None
    attention: Tensor | None

    def whole(self, joined: Callable[[Tensor], Tensor]) -> "Generated":
        """Outputs for the whole batch, gathered from all processes; latents stay local, attention is None."""
        means, log_variances, posterior, prior, latents, _ = self
        return Generated(
            joined(means),
            None if log_variances is None else joined(log_variances),
            None if posterior is None else (joined(posterior[0]), joined(posterior[1])),
            None if prior is None else (joined(prior[0]), joined(prior[1])),
            latents,
            None,
        )


class Vrss(TextModel, StoryModel, FixedFeatures):
    """The VRSS model: encodes a story's steps and generates a picture vector for each."""

    name = "vrss"

    def __init__(self, architecture: VrssArchitecture, parts: ModelParts) -> None:
        """Initialise the weights at random, from torch's generator.

        Raises:
            ConfigError: the variance is learned, but there are no latents.
            ShapeError: the word vectors have another shape.
        """
        super().__init__(architecture, parts)
        if architecture.variance == "learned" and not architecture.latents:
            raise ConfigError(
                "vrss: a learned variance requires latents; add --set model.variance=fixed or"
                " --set model.latents=true"
            )
        own = architecture
        reader: WordReader | SentenceReader
        if parts.sentences is not None:
            reader = SentenceReader(parts.sentences.dim, hidden=own.hidden, dropout=own.dropout)
        else:
            reader = WordReader(
                len(self.vocabulary),
                width=own.word_width,
                hidden=own.hidden,
                dropout=own.dropout,
                vectors=parts.vectors,
            )
        self.steps = StepEncoder(reader, hidden=own.hidden, context=own.context, dropout=own.dropout)
        inputs = self.steps.width * (2 if own.context else 1)
        spread = 2 if own.variance == "learned" else 1
        if own.latents:
            self.walk = LatentWalk(
                inputs, hidden=own.mlp, latent=own.latent, first_log_variance=own.first_log_variance
            )
            self.decoder = perceptron(2 * own.latent, own.mlp, spread * self.image_width)
        else:
            self.reader = nn.GRU(inputs, own.hidden, batch_first=True, bidirectional=True)
            self.decoder = perceptron(2 * own.hidden, own.mlp, self.image_width)

    def forward(self, texts: Tensor, lengths: Tensor, steps: Tensor) -> Generated:
        """Generate a picture vector for every step of B stories.

        Args:
            texts: (S, L) int64 words, or (S, W) sentence vectors, of all steps, the stories concatenated.
            lengths: (S,) int64 on the CPU, words of each step, in 1…L.
            steps: (B,) int64 on the CPU, steps of each story, with sum S.
        Raises:
            ShapeError: the sizes contradict each other.
        Source: VRSS 2020, Eqs. 1 to 3; docs/methods/vrss.md §2.1, §2.2.
        """
        read = self.steps(texts, lengths, steps)
        inputs = read.steps if read.context is None else torch.cat([read.steps, read.context], dim=2)
        if not self.architecture.latents:
            whole = states(self.reader, inputs, steps)
            return Generated(self.decoder(whole[read.real]), None, None, None, None, read.attention)
        return self._recur(inputs, read)

    def _recur(self, inputs: Tensor, read: ContextualSteps) -> Generated:
        """Decode each step from its own latent and the previous step's."""
        walked = self.walk(inputs, read.real)
        out = self.decoder(torch.cat([walked.earlier, walked.latents], dim=1))
        spread = None
        if self.architecture.variance == "learned":
            out, spread = out.chunk(2, dim=1)
            # lower than LOW, as the components of unit vectors in F dimensions have variances of about 1/F
            spread = spread.clamp(LOW - 4, HIGH)
        return Generated(out, spread, walked.posterior, walked.prior, walked.latents, read.attention)

    @property
    def dim(self) -> int:
        """F, dimension of the generated vectors and of the picture features."""
        return self.image_width

    def pictures(self, pictures: Tensor) -> Tensor:
        """(M, F) features, or input of `features` → (M, F) unit vectors, without gradient."""
        return nn.functional.normalize(self.described(pictures) - self.centre, dim=1)

    def together(self, stories: Sequence[Sequence[str]]) -> Tensor:
        """(S, F) unit vectors of all steps, from posterior means; with context, each uses its whole story."""
        return nn.functional.normalize(self(*self._read(stories)).means, dim=1)

    def story(self, texts: Sequence[str]) -> Generated:
        """Outputs for one story of at least one step, in evaluation mode."""
        with evaluating(self):
            outputs: Generated = self(*self._read([texts]))
        return outputs

    def _read(self, stories: Sequence[Sequence[str]]) -> tuple[Tensor, Tensor, Tensor]:
        counts = torch.tensor([len(story) for story in stories])
        return *self.numbers([text for story in stories for text in story]), counts


class VrssTask(TextTask[VrssConfig, Vrss]):
    """Training objective: reconstruction of picture vectors, KL of the latents, and a hinge."""

    stories = True

    def step(self, batch: Batch) -> Mapping[str, Tensor]:
        """Losses by name, means over steps; ``kl`` is unweighted, in nats per step."""
        config = self.config
        made = self.model(self.texts(batch), batch.lengths, batch.own_steps).whole(batch.all_gather)
        gold = batch.all_gather(self.model.pictures(batch.pictures))
        scores = product(nn.functional.normalize(made.means, dim=1), gold.t())
        over: Literal["mean", "sum"] = "sum" if config.variant == "literal" else "mean"
        hinge = generated_hinge(scores, config.margin, batch.neg, config.anchor, over).mean()
        cost = (
            half_square(gold, made.means)
            if made.log_variances is None
            else gaussian_nll(gold, made.means, made.log_variances)
        )
        found = {"reconstruction": cost.mean(), "hinge": hinge}
        total = found["reconstruction"] + config.beta * hinge
        if made.posterior is not None and made.prior is not None:
            divergence = gaussian_kl(*made.posterior, *made.prior)
            found["kl"] = divergence.mean()
            scale = 1.0 if config.variant == "literal" else 1 / config.model.latent
            grown = min(1.0, batch.epoch / config.kl_epochs) if config.kl_epochs else 1.0
            total = total + grown * scale * divergence.mean()
        return {"total": total} | found


class VrssSystem(System[VrssConfig, Vrss]):
    """Registration of VRSS and its ablations."""

    name = "vrss"
    settings = VrssConfig
    model = Vrss
    training = VrssTask

    def capabilities(self, config: VrssConfig) -> Capabilities:
        """Encodes whole stories: it generates a picture vector for each step."""
        can = Capabilities(
            stories=True,
            backbone=config.backbone,
            margin=config.margin,
        )
        return reading(config.model.text, can)


SYSTEM = VrssSystem()
