"""Folders of every set of a mixture, laid out as its settings expect them, of coloured pictures."""

import json

from base_corpus import coloured
from PIL import Image


def made_up_sets(place, config):
    """Write ``PLACE/data/NAME`` for every set of ``config.data.mixture``: 8 documents of two pages each."""
    number = 0
    for part, entry in config.data.mixture.items():
        folder = place / "data" / part
        (folder / "images").mkdir(parents=True)
        lines = []
        for document in range(8):
            pages = []
            for _ in range(2):
                number += 1
                Image.fromarray(coloured(number)[::4, ::4]).save(folder / "images" / f"{number}.png")
                pages.append({"text": f"{part} words{number} here", "image": f"images/{number}.png"})
            split = ("train", "train", "val", "test")[document % 4]
            if entry.set == "captions":
                lines += [
                    {"file_name": one["image"], "split": split, "captions": [one["text"], one["text"] + "!"]}
                    for one in pages
                ]
            else:
                told = {"story_id": f"{part}{document}", "source": f"source{document}", "pages": pages}
                told["license"] = (entry.licences or ("CC-BY-NC",))[0] if document % 5 else "GPL-3.0"
                lines.append(told | ({"split": split} if entry.split == "released" else {}))
        file = "captions.jsonl" if entry.set == "captions" else "stories.jsonl"
        (folder / file).write_text("".join(json.dumps(one) + "\n" for one in lines))
