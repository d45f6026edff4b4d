"""``limner models``: what pretrained weights are at hand, and fetching more.

Fetching happens only here and only when asked. It runs no encoder.
"""

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from limner.apps.terminal import emit_json, emit_table, say
from limner.encoders.catalogue import TORCHVISION, official_url, weight_file
from limner.errors import ConfigError, MissingError, unknown

models = App(name="models", help="List, fetch and check pretrained weights.\n\nExample: limner models list")


@models.command(name="list")
def list_weights(*, json: Annotated[bool, Parameter(negative="", show_default=False)] = False) -> None:
    """List the picture encoders and where their weights are.

    Example: limner models list

    Parameters
    ----------
    json
        Print JSON instead of a table.
    """
    rows: list[dict[str, str | None]] = []
    for name in TORCHVISION:
        try:
            file = weight_file(name)
            rows.append({"name": name, "file": str(file.path), "found_in": file.origin})
        except MissingError:
            rows.append({"name": name, "file": None, "found_in": None})
    if json:
        emit_json(rows)
        return
    from rich.table import Table

    table = Table("encoder", "weights", "found in")
    emit_table(table, [[str(r["name"]), r["file"] or "not at hand", r["found_in"] or "–"] for r in rows])


@models.command
def get(name: str, *, to: Path | None = None) -> None:
    """Download the published weights of a picture encoder.

    Example: limner models get resnet50

    Parameters
    ----------
    name
        Encoder, see 'limner models list'.
    to
        Folder to put the file in; the torch hub cache unless given.
    """
    if name not in TORCHVISION:
        raise ConfigError(unknown("encoder", name, TORCHVISION))
    from limner.apps.progress import BytesProgress
    from limner.encoders.downloads import fetch
    from limner.encoders.weights import hub_folder

    with BytesProgress(name) as progress:
        path = fetch(official_url(name), to or hub_folder(), progress=progress)
    say(f"{name}: {path}")
