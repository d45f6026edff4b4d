"""``limner models``: which pretrained weights are installed, and downloading more.

Fetching happens only here and only when asked. It runs no encoder.
"""

from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter
from rich.table import Table

from limner.cli.main import Flag, emit_json, emit_table, say
from limner.encoders.catalogue import EXPORTS, SHIPPED, available, fetch_weights, offered
from limner.encoders.clip_files import CARD, CLIP, read_clip
from limner.encoders.openvino import TENSORS
from limner.errors import ConfigError, installed
from limner.progress import BytesProgress

WEIGHTS = ".safetensors"

models = App(name="models", help="List and fetch pretrained weights.\n\nExample: limner models list")


@models.command(name="list")
def list_weights(*, json: Flag = False) -> None:
    """List the picture encoders and where their weights are; of those that come with limner, their terms.

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
    """Write a trained run of the encoder base, or a CLIP of open_clip, as limner runs it without torch.

    Of base the weights are one small file. Beside it the picture side is written again as a network: its
    layers (.xml) and their tensors in half precision (.bin). Of a CLIP both networks, its tokenizer and a
    card are written into a folder where limner finds it; that needs the extra 'clip'.

    Example: limner models export runs/base -o base.safetensors

    Example: limner models export base.safetensors

    Example: limner models export clip:ViT-B-32 --weights open_clip_model.safetensors

    Parameters
    ----------
    run
        Folder of the run, see 'limner train'; or a file of such weights, beside which the network alone is
        written; or clip:ARCHITECTURE, as open_clip names it.
    output
        The file of a run's weights, which ends in .safetensors; files that are there are replaced. The folder
        of a CLIP, which must not be there.
    weights
        Of a CLIP: open_clip's file of its tensors, or a folder to look in. Default: $LIMNER_WEIGHTS, and
        the caches of torch hub and Hugging Face.
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
            raise ConfigError(f"export: name the file to write by -o NAME{WEIGHTS}")
        card = export_run(run, output)
        weights = output
        say(f"{output}: {card.name}, {output.stat().st_size:,} bytes")
    elif output is not None:
        raise ConfigError(f"export: the network of {run} is written beside it; leave --output out")
    network = export_network(weights)
    tensors = network.with_suffix(TENSORS)
    say(f"{network}, {tensors.name}: the picture side, {tensors.stat().st_size:,} bytes")


@models.command
def get(name: str, *, to: Path | None = None) -> None:
    """Download the published weights of a picture encoder.

    What will be downloaded is said first: size, origin and licence.

    Example: limner models get clip

    Example: limner models get resnet50

    Parameters
    ----------
    name
        clip, which new libraries then take in place of base; another encoder, see 'limner models list'; or a
        detector of 'limner scenes', such as fasterrcnn_resnet50_fpn_v2. Other CLIPs of open_clip, such as
        clip:ViT-B-16-SigLIP2, need the extra 'clip'. clip:NAME@TAG names other weights than the usual ones.
    to
        Folder to put the file or folder in. Default: where limner looks for weights.
    """
    offer = offered(name, to)
    say(str(offer))
    with BytesProgress(name) as progress:
        path = fetch_weights(offer.name, to, progress=progress)
    say(f"{name}: {path}")
    if (path / CARD).is_file():
        encoder = read_clip(path).name
        say(f"New libraries take it; one that is there by: limner index --encoder {encoder}")


def _card(path: Path) -> dict[str, Any]:
    """What a shipped file says of itself, and its size."""
    from limner.encoders.base_file import read_card

    return {"megabytes": round(path.stat().st_size / 1e6, 1), **read_card(path).model_dump(exclude={"name"})}
