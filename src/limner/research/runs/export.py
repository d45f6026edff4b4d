"""A run of limner becomes a file of the encoder `base`, which a library reads without torch."""

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

    The file holds each text side by itself, without the context, and the words that were learned beside
    MiniLM alone; it has no place for further encoders.

    Args:
        run: folder of the run.
        file: ends in ``.safetensors``; replaced if there.
        sentences: encoder of texts it was trained with; None for the one that needs no download.
    Returns:
        What the file says of itself; its figures are those of validation, as the run recorded them.
    Raises:
        MissingError: nothing was trained there yet.
        CheckpointError: not a run of the system limner, or damaged.
        ConfigError: the run reads further encoders, or words beside both sentence encoders.
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
