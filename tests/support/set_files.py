"""Pictures and lines of JSON for data sets that tests write."""

import json

from PIL import Image


def pictures(folder, names):
    for n, name in enumerate(names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (40, 40), (20 * n, 10, 90)).save(folder / name)


def lines(path, rows):
    path.write_text("\n".join(map(json.dumps, rows)))
    return path
