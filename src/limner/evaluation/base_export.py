"""From a run of the system base to the file that limner ships: what was trained, small, with a card.

It trains and measures nothing; the card's figures are those of validation, as the run recorded them.
"""

from pathlib import Path

from limner.arrays import TextEncoder
from limner.encoders.base import BaseCard, save_base
from limner.training import base, checkpoint
from limner.training.loop import BEST


def export_base(run: Path, file: Path, sentences: TextEncoder | None = None) -> BaseCard:
    """Write the best weights of a run as a file of the encoder base.

    Args:
        run: folder of the run.
        file: ends in ``.safetensors``; replaced if there.
        sentences: encoder of texts it was trained with; None for the one that needs no download.
    Returns:
        What the file says of itself.
    Raises:
        MissingError: nothing was trained there yet.
        CheckpointError: not a run of the system base, or damaged.
        NumericsError: a weight is not finite.
    """
    model, config = base.load(run, sentences=sentences)
    _, state = checkpoint.load(run / BEST)
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
    save_base(file, model.net, card)
    return card
