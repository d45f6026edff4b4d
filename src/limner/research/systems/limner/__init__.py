"""limner's own model, the encoder base among its rows: what trains it, and how a run is read back."""

from pathlib import Path

from limner.encoders.base_file import BLOCKS
from limner.encoders.catalogue import MULTILINGUAL, sentence_encoder
from limner.encoders.text_cache import StoredTexts
from limner.errors import CheckpointError
from limner.research.scenes.beside import TRAITS
from limner.research.systems.base import Capabilities, Parts, Reads, System
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
        both: frozenset[Reads] = frozenset({"sentences", "multilingual"})
        return Capabilities(
            stories=True,
            reads=both | {"words"} if config.model.words else both,
            no_library="is read by a library as a file of base; write that with limner models export, or use"
            " limner measure for the run itself",
            layer="described" if config.model.changed_from > BLOCKS else "blocks",
            mirrored=config.mirrored,
        )

    def build(self, config: LimnerConfig, parts: Parts) -> Limner:
        """The model, whose looks read traits where the rows hold them."""
        return Limner(config.model, parts, traits=TRAITS in config.data.beside)

    def gather(self, config: LimnerConfig, corpus: Corpus, parts: Parts) -> None:
        """Both encoders, with the vectors of a former run; what the stored rows are of; what must be kept."""
        if corpus.backbone is not None:
            parts.about[STORED] = corpus.backbone
        assert parts.sentences is not None and parts.multilingual is not None  # noqa: S101, PT018  (declared)
        folder = Path(config.data.features)
        parts.sentences = StoredTexts(parts.sentences, folder)
        parts.multilingual = StoredTexts(parts.multilingual, folder)
        parts.about[KEY] = parts.multilingual.fingerprint

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


SYSTEM = LimnerSystem()
