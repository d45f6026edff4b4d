"""``limner models``: lists encoders with their weights, and downloads weights.

Weights are downloaded only here and only on request. No encoder is run.
"""

from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Group, Parameter
from rich.table import Table

from limner.cli.main import Flag, emit_json, emit_table, say
from limner.encoders.base_file import read_card
from limner.encoders.catalogue import SHIPPED
from limner.encoders.clip_files import CARD, read_clip
from limner.encoders.downloads import EXPORTS, available, fetch_weights, offered
from limner.encoders.openvino import TENSORS
from limner.encoders.weight_files import CLIP
from limner.errors import ConfigError, installed
from limner.progress import BytesProgress

WEIGHTS = ".safetensors"

models = App(
    name="models",
    help="List and download encoders.\n\nExample: limner models list",
    group_parameters=Group("Options", sort_key=0),
)


@models.command(name="list")
def list_weights(*, json: Flag = False) -> None:
    """List the image encoders, where their weights are, and the terms of those that come with limner.

    Example: limner models list

    Parameters
    ----------
    json
        Print JSON instead of a table.
    """
    rows: list[dict[str, Any]] = []
    cells = []
    for one in available():
        file, origin = (str(one.file.path), one.file.origin) if one.file else (None, None)
        card = _card(one.file.path) if one.name in SHIPPED and one.file else {}
        rows.append({"name": one.name, "file": file, "found_in": origin, "missing": one.missing, **card})
        shown = file or ("not found" if one.missing else "needs none")
        if card:
            figures = ", ".join(f"{name} {value:g}" for name, value in card["figures"].items())
            shown = f"{card['megabytes']} MB; {card['terms']}; {figures}"
        cells.append([one.name, shown, origin or "–"])
    if json:
        emit_json(rows)
    else:
        emit_table(Table("encoder", "weights", "found in"), cells)


@models.command
def export(
    run: Path,
    *,
    output: Annotated[Path | None, Parameter(name=("--output", "-o"))] = None,
    weights: Path | None = None,
) -> None:
    """Export a trained run of the encoder base, or a CLIP model of open_clip, to run without torch.

    For base, the weights are one small file; next to it the image encoder is written as a network: its layers
    (.xml) and their tensors in half precision (.bin). For a CLIP model, both networks, the tokenizer and a
    card are written to a folder where limner finds them; this needs the extra 'clip'.

    Example: limner models export runs/base -o base.safetensors

    Example: limner models export base.safetensors

    Example: limner models export clip:ViT-B-32 --weights open_clip_model.safetensors

    Parameters
    ----------
    run
        Folder of the run, see 'limner train'; or a file of such weights, to write only the network next to
        it; or clip:ARCHITECTURE, with open_clip's name.
    output
        For a run: file of its weights, ending in .safetensors; existing files are replaced. For a CLIP model:
        its folder, which must not exist.
    weights
        For a CLIP model: open_clip's file of its tensors, or a folder to look in. Default: $LIMNER_WEIGHTS,
        and the caches of torch hub and Hugging Face.
    """
    if str(run).startswith(CLIP):
        with installed("open_clip", EXPORTS):
            from limner.encoders.clip_export import export_clip
        say(f"{run}: {export_clip(str(run), weights, output)}")
        return
    if weights is not None:
        raise ConfigError(f"export: --weights is for a clip:ARCHITECTURE; {run} needs none")
    from limner.encoders.base_network import export_network

    weights = run
    if run.suffix != WEIGHTS:
        from limner.encoders.trained import export_run

        if output is None or output.suffix != WEIGHTS:
            raise ConfigError(f"export: name the file to write with -o NAME{WEIGHTS}")
        card = export_run(run, output)
        weights = output
        say(f"{output}: {card.name}, {output.stat().st_size:,} bytes")
    elif output is not None:
        raise ConfigError(f"export: the network of {run} is written next to it; leave --output out")
    network = export_network(weights)
    tensors = network.with_suffix(TENSORS)
    say(f"{network}, {tensors.name}: the image encoder, {tensors.stat().st_size:,} bytes")


@models.command
def get(name: str, *, to: Path | None = None) -> None:
    """Download the published weights of an image encoder.

    Size, origin and licence are printed first.

    Example: limner models get clip

    Example: limner models get resnet50

    Parameters
    ----------
    name
        Name of the encoder: clip, which new libraries then use instead of base; another one of 'limner models
        list'; or a detector for 'limner scenes', such as fasterrcnn_resnet50_fpn_v2. Other CLIP models of
        open_clip, such as clip:ViT-B-16-SigLIP2, need the extra 'clip'. clip:NAME@TAG names weights other
        than the default ones.
    to
        Folder for the file or folder. Default: the folder where limner looks for weights.
    """
    offer = offered(name, to)
    say(str(offer))
    with BytesProgress(name) as progress:
        path = fetch_weights(offer.name, to, progress=progress)
    say(f"{name}: {path}")
    if (path / CARD).is_file():
        encoder = read_clip(path).name
        say(f"New libraries use it. For an existing library: limner index --encoder {encoder}")


def _card(path: Path) -> dict[str, Any]:
    """Metadata of a shipped file, with its size."""
    return {"megabytes": round(path.stat().st_size / 1e6, 1), **read_card(path).model_dump(exclude={"name"})}
