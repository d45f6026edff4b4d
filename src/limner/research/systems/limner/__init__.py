"""limner's own model, the encoder base among its rows: what trains it, and how a run is read back."""

from pathlib import Path

from limner.encoders.base_file import BLOCKS
from limner.encoders.catalogue import MULTILINGUAL, sentence_encoder
from limner.encoders.text_cache import StoredTexts
from limner.errors import CheckpointError
from limner.research.scenes.beside import TRAITS
from limner.research.systems.base import Capabilities, Parts, System
from limner.research.systems.limner.model import STORED, Limner, LimnerArchitecture
from limner.research.systems.limner.task import LimnerConfig, LimnerTask
from limner.research.training.corpus import Corpus

__all__ = ["SYSTEM", "Limner", "LimnerArchitecture", "LimnerConfig", "LimnerSystem", "LimnerTask"]

KEY = "multilingual"
"""Of the second encoder's fingerprint, beside the weights of a run."""


class LimnerSystem(System[LimnerConfig, Limner]):
    """What it declares."""

    name = "limner"
    settings = LimnerConfig
    model = Limner
    training = LimnerTask

    def capabilities(self, config: LimnerConfig) -> Capabilities:
        """Reads stories through two encoders of sentences; a library takes the exported sides."""
        return Capabilities(
            stories=True,
            words=config.model.words,
            sentences=True,
            multilingual=True,
            keeps_sentences=True,
            layer="described" if config.model.changed_from > BLOCKS else "blocks",
            mirrored=config.mirrored,
            exported=True,
        )

    def gather(self, config: LimnerConfig, corpus: Corpus, parts: Parts) -> None:
        """Both encoders, with the vectors of a former run; what the stored rows are of; what must be kept."""
        if corpus.backbone is not None:
            parts.about[STORED] = corpus.backbone
        assert parts.sentences is not None and parts.multilingual is not None  # noqa: S101, PT018  (declared)
        folder = Path(config.data.features)
        parts.sentences = StoredTexts(parts.sentences, folder)
        parts.multilingual = StoredTexts(parts.multilingual, folder)
        parts.about[KEY] = parts.multilingual.fingerprint
        parts.extra = TRAITS in config.data.beside

    def recall(self, config: LimnerConfig, parts: Parts) -> None:
        """The second encoder, if it is the one of training.

        Raises:
            CheckpointError: another version of it is installed.
        """
        found = sentence_encoder(MULTILINGUAL)
        if parts.about.get(KEY) != found.fingerprint:
            raise CheckpointError(
                f"{parts.where}: trained on vectors of another {found.name} encoder; install"
                " that version of it, or train again"
            )
        parts.multilingual = found
        parts.extra = TRAITS in config.data.beside


SYSTEM = LimnerSystem()
