"""The shipped calibration: how cosines become nats, how strongly pictures pull, when to abstain.

Fitted once on held-out data by `benchmarks/calibrate.py` and packaged as `calibration.json`, so that
untrained use gives evidence and not bare cosines. It reads; it fits nothing.
"""

from collections.abc import Collection, Iterable
from functools import cache
from importlib import resources
from typing import Literal

from pydantic import ValidationError

from limner.data.records import Record
from limner.errors import ConfigError, DataError, unknown
from limner.retrieval.channels import Channel, Evidence
from limner.retrieval.coherence import Coherence
from limner.retrieval.suitability import Suitability
from limner.similarity import TextEncoder

FILE_NAME = "calibration.json"
STRENGTH = ("captions", "clip", "base", "labels")
"""Channels by how much they tell, the strongest first."""


class Pull(Record):
    """How much two pictures of one space say for each other.

    Attributes:
        evidence: cosine → log P(same story) / P(different stories); the standardised part is the
            mean of both pictures' standard scores.
        weights: channel → decoder → factor on the evidence, where that channel is the strongest that
            takes part. The weaker the texts' evidence, the more easily a step falls for a
            neighbour's world, and the smaller the factor.
    """

    evidence: Evidence
    weights: dict[str, dict[str, float]]

    def weight(self, decoder: str, channels: Iterable[str]) -> float:
        """Factor for one decoder.

        Args:
            decoder: its name.
            channels: those that take part.
        Raises:
            ConfigError: no weight was chosen for it.
        """
        names = {"captions" if name == "multilingual" else name for name in channels}
        strongest = next((name for name in STRENGTH if name in names), STRENGTH[-1])
        chosen = self.weights[strongest]
        if decoder not in chosen:
            raise ConfigError("calibration: " + unknown("decoder", decoder, chosen))
        return chosen[decoder]


class Calibration(Record):
    """All calibrated numbers of untrained use.

    Attributes:
        schema_version: of this form.
        channels: channel → evidence of its cosines.
        context: channel → `Channel.context`.
        beside: channel → `Channel.beside`.
        pulls: gallery space that compares pictures → pull.
        coherence: the same space → how much context and agreement count; ``*`` for every other space, and
            where pictures are not compared.
        suitability: channels joined by ``+`` in alphabetical order → when a library holds nothing
            fitting; ``*`` for every other set of channels.
        provenance: what each number was fitted on, and how it did on data it had not seen.
    """

    schema_version: Literal[1] = 1
    channels: dict[str, Evidence]
    context: dict[str, float]
    beside: dict[str, float]
    pulls: dict[str, Pull]
    coherence: dict[str, Coherence]
    suitability: dict[str, Suitability]
    provenance: dict[str, str]

    def evidence(self, channel: str) -> Evidence:
        """How a channel's cosine becomes nats.

        Raises:
            ConfigError: the channel has no calibration.
        """
        if channel not in self.channels:
            raise ConfigError("calibration: " + unknown("channel", channel, self.channels))
        return self.channels[channel]

    def channel(
        self, name: str, encoder: TextEncoder, space: str, reads: frozenset[str] | None = None
    ) -> Channel:
        """A channel with its calibration.

        Args:
            name: of the channel.
            encoder: of texts.
            space: of the gallery.
            reads: as in `Channel`.
        Raises:
            ConfigError: the channel has none.
        """
        evidence = self.evidence(name)
        return Channel(
            name, encoder, space, evidence, self.context.get(name, 0.0), self.beside.get(name, 1.0), reads
        )

    def pull(self, space: str) -> Pull:
        """How pictures of a space pull each other.

        Raises:
            ConfigError: the space has no calibration.
        """
        if space not in self.pulls:
            raise ConfigError("calibration: " + unknown("space of pictures", space, self.pulls))
        return self.pulls[space]

    def coherent(self, space: str) -> Coherence:
        """How much context and agreement count where a space compares pictures."""
        return self.coherence.get(space, self.coherence["*"])

    def suitable(self, channels: Collection[str]) -> Suitability:
        """When to leave a step blank, for the channels that take part.

        Raises:
            ConfigError: a channel has no calibration, or none takes part.
        """
        # The two judge different pictures, by the same kind of evidence.
        names = sorted(set(channels) - ({"multilingual"} if "captions" in channels else set()))
        if not names:
            raise ConfigError("calibration: no channel takes part; suitability needs at least one")
        for name in names:
            self.evidence(name)
        fitted = self.suitability.get("+".join(names))
        if fitted is None:  # what holds of English captions beside others comes nearest for all captions
            alike = sorted("captions" if name == "multilingual" else name for name in names)
            fitted = self.suitability.get("+".join(alike), self.suitability["*"])
        return fitted


@cache
def load() -> Calibration:
    """The calibration that comes with the package.

    Raises:
        DataError: the packaged file is damaged; install limner again.
    """
    text = resources.files("limner.retrieval").joinpath(FILE_NAME).read_text(encoding="utf-8")
    return parse(text)


def parse(text: str) -> Calibration:
    """A calibration from its JSON text.

    Raises:
        DataError: it is not one, in one line.
    """
    try:
        found = Calibration.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"]) or "the file"
        raise DataError(
            f"{FILE_NAME}: {key}: {first['msg']}; make it with benchmarks/calibrate.py"
        ) from error
    for name, table in (("suitability", found.suitability), ("coherence", found.coherence)):
        if "*" not in table:
            raise DataError(f"{FILE_NAME}: {name}: no entry '*'; make it with benchmarks/calibrate.py")
    return found
