"""The picture side of systems that can train a trunk along: as a run starts, and as it is read back.

One place for all of them; vectors and grids differ in a word. It loads no pretrained weights itself.
"""

from typing import Literal

from torch import nn

from limner.errors import CheckpointError, ShapeError
from limner.models.trunks import drawing_grid, drawing_trunk, empty_backbone, empty_grid
from limner.training.corpus import Corpus

Trunk = Literal["stored", "drawings", "finetune"]
Layer = Literal["pooled", "grid"]
_FORM = {"pooled": (2, "vectors (F,)"), "grid": (3, "a grid (P, F)")}


def started(
    system: str, trunk: Trunk, layer: Layer, corpus: Corpus, backbone: tuple[nn.Module, int] | None
) -> tuple[nn.Module | None, int]:
    """What turns a batch of pictures into features (None where those are stored), and their width F.

    Args:
        system: for messages.
        trunk: stored features, a small net for drawings, or a backbone that trains along.
        layer: vectors, or grids of them.
        corpus: whose pictures are trained on.
        backbone: pretrained, taking bytes, and its width, for "finetune".
    Raises:
        CheckpointError: "finetune" without a backbone: it never starts from random weights.
        ShapeError: the stored features are of the other layer.
    """
    if trunk == "drawings":
        return drawing_trunk() if layer == "pooled" else drawing_grid()
    if trunk == "finetune":
        if backbone is None:
            raise CheckpointError(
                f"{system}: trunk 'finetune' needs pretrained weights of data.backbone; none were given"
            )
        module, width = backbone
        return module.requires_grad_(requires_grad=True), width
    shape = corpus.pictures.take(corpus.train.places[:1]).shape
    axes, form = _FORM[layer]
    if len(shape) != axes:
        raise ShapeError(f"{system}: features have shape {shape[1:]}, expected {form}")
    return None, int(shape[-1])


def rebuilt(trunk: Trunk, layer: Layer, backbone: str, width: int) -> tuple[nn.Module | None, int]:
    """The same with weights yet to come from a checkpoint.

    Args:
        trunk: as in `started`.
        layer: likewise.
        backbone: architecture of "finetune".
        width: F of stored features.
    """
    if trunk == "drawings":
        return drawing_trunk() if layer == "pooled" else drawing_grid()
    if trunk == "finetune":
        return empty_backbone(backbone) if layer == "pooled" else empty_grid(backbone)
    return None, width
