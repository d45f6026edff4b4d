"""Exports a run of the system limner as a file of the encoder `base`, which libraries use without torch."""

from pathlib import Path

from limner.arrays import TextEncoder
from limner.encoders.base_file import BaseCard
from limner.encoders.base_network import save_base
from limner.errors import ConfigError
from limner.research.systems.limner import SYSTEM
from limner.research.training import checkpoint
from limner.research.training.checkpoint import BEST


def export_base(run: Path, file: Path, sentences: TextEncoder | None = None) -> BaseCard:
    """Write the best weights of a run as a file of the encoder base.

    The file contains each text encoder without context, and word vectors learned with MiniLM; it cannot
    contain extra encoders.

    Args:
        run: run folder.
        file: a ``.safetensors`` file; replaced if it exists.
        sentences: text encoder it was trained with; None for the bundled one.
    Returns:
        The metadata of the file; its figures are the run's validation figures.
    Raises:
        MissingError: the folder has no trained run.
        CheckpointError: not a run of the system limner, or damaged.
        ConfigError: the run has extra encoders, or word vectors with both sentence encoders.
        NumericsError: a weight is not finite.
    """
    _, state = checkpoint.load(run / BEST)
    model, config = SYSTEM.load(run, sentences=sentences)
    if config.data.beside:
        raise ConfigError(
            f"{run}: reads further encoders, which a file of base has no place for; train one without"
            " data.beside"
        )
    sets = {
        name: f"{name} ({', '.join(entry.licences) if entry.licences else 'all licences'})"
        for name, entry in config.data.mixture.items()
    }
    name = config.row or "base"
    card = BaseCard(
        name=name,
        command=f"limner train configs/{name}.toml --to RUN",
        data=tuple(sets.values()) or (config.data.set,),
        terms=config.terms,
        figures={f"validation {key}": round(float(value), 4) for key, value in state["validation"].items()},
    )
    save_base(file, model.net, card, model.words_of_file(str(run)))
    return card
