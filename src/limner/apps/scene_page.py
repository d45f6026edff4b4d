"""Chooses which pictures the page of scene graphs shows, and opens them.

Spread evenly over the collection, so that the page is a fair sample however large it is. It draws nothing.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from limner.apps.export.scenes import ShownScene, write_scenes
from limner.data.images import PictureError, decode, display, read_file
from limner.data.scene_graphs import each_graph
from limner.errors import DataError

_SIDE_PX = 400


def write_page(graphs: Path, files: Mapping[str, bytes], out: Path, most: int, found_by: str) -> None:
    """Write the page.

    Args:
        graphs: JSON lines.
        files: id of each graph's picture → its file.
        out: the page; an existing one is replaced.
        most: pictures on it, ≥ 1.
        found_by: a sentence about where the graphs come from.
    Raises:
        DataError: a picture that has a graph cannot be opened any more.
    """
    count = sum(1 for _ in each_graph(graphs))
    shown = {place * count // most for place in range(most)} if count > most else set(range(count))
    # Names below what all have in common tell pictures apart; whole paths would fill the page.
    above = os.path.commonpath([os.path.dirname(path) for path in files.values()]) if files else b""  # noqa: PTH120

    def chosen() -> Iterator[ShownScene]:
        for place, graph in enumerate(each_graph(graphs)):
            if place not in shown:
                continue
            path = files[graph.image]
            try:
                suffix = os.fsdecode(os.path.splitext(path)[1]).lower()  # noqa: PTH122
                rgb = decode(read_file(path).data, _SIDE_PX, suffix).rgb
            except PictureError as error:
                raise DataError(f"{display(path)}: {error}; run limner scenes again") from error
            yield ShownScene(rgb, graph, display(os.path.relpath(path, above)))

    sample = f"{len(shown):,} of {count:,} pictures, spread evenly." if len(shown) < count else ""
    write_scenes(out, "Scene graphs", " ".join(part for part in (sample, found_by) if part), chosen())
