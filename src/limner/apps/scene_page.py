"""Chooses which pictures the page of scene graphs shows, and opens them.

Spread evenly over the collection, so that the page is a fair sample however large it is. It draws nothing.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from limner.apps.export.scenes import ShownScene, write_scenes
from limner.apps.scene_pictures import source_pictures
from limner.data.images import PictureError, decode, display, read_file
from limner.data.scene_graphs import each_graph
from limner.errors import DataError

_SIDE_PX = 400


def write_page(source: Path, graphs: Path, out: Path, most: int, found_by: str) -> None:
    """Write the page.

    Args:
        source: folder of pictures, or a library.
        graphs: of its pictures, JSON lines.
        out: the page; an existing one is replaced.
        most: pictures on it, ≥ 1.
        found_by: a sentence about where the graphs come from.
    Raises:
        DataError: a picture that has a graph cannot be opened any more.
    """
    count = sum(1 for _ in each_graph(graphs))
    shown = {place * count // most for place in range(most)} if count > most else set(range(count))
    files = {one.image: one.path for one in source_pictures(source)[0]}

    def chosen() -> Iterator[ShownScene]:
        for place, graph in enumerate(each_graph(graphs)):
            if place not in shown:
                continue
            path = files.get(graph.image)
            try:
                if path is None:
                    raise PictureError("no such picture")
                suffix = os.fsdecode(os.path.splitext(path)[1]).lower()  # noqa: PTH122
                rgb = decode(read_file(path).data, _SIDE_PX, suffix).rgb
            except PictureError as error:
                raise DataError(f"{graph.image}: {error}; run limner scenes again") from error
            # The id of a library's picture is a hash, which tells nobody anything.
            name = graph.image if "library.json" not in os.listdir(source) else display(path)  # noqa: PTH208
            yield ShownScene(rgb, graph, name)

    sample = f"{len(shown):,} of {count:,} pictures, spread evenly." if len(shown) < count else ""
    write_scenes(out, "Scene graphs", " ".join(part for part in (sample, found_by) if part), chosen())
