"""Stories and captions as pairs, with pictures that are there and those that are not."""

import hashlib
import json

import pytest
from PIL import Image

from limner.errors import DataError
from limner.research.datasets.pairs import Source
from limner.research.datasets.sets.captions import read_caption_pairs
from limner.research.datasets.sets.stories import read_story_pairs


def picture(folder, name, shade):
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    Image.new("RGB", (40, 40), (shade, 10, 200)).save(path)
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_pages_become_pairs_in_order(tmp_path):
    digests = [picture(tmp_path, f"images/{i}.png", 40 * i) for i in range(3)]
    row = {
        "story_id": "s",
        "author": "A. Uthor",
        "split": "val",
        "pages": [{"text": f"page {i}", "image": f"images/{i}.png"} for i in range(3)],
    }
    (tmp_path / "stories.jsonl").write_text(json.dumps(row) + "\n")
    data = read_story_pairs(Source(tmp_path))
    assert data.relations == ()
    assert [(p.text, p.seq, p.pos, p.split) for p in data.pairs] == [
        (f"page {i}", "s", i, "val") for i in range(3)
    ]
    assert [p.image_hash for p in data.pairs] == digests
    assert data.pairs[0].meta["author"] == "A. Uthor"
    (tmp_path / "images/1.png").write_bytes(b"broken")
    with pytest.raises(DataError, match="1 of 3 pairs lack their picture"):
        read_story_pairs(Source(tmp_path))
    rest = read_story_pairs(Source(tmp_path, missing="drop"))
    assert [p.pos for p in rest.pairs] == [0, 2]
    assert len(rest.missing) == 1


def test_the_first_caption_or_all(tmp_path):
    lines = []
    for i, split in enumerate(("train", "test")):
        picture(tmp_path, f"images/{i}.png", 90 * i)
        lines.append(
            {"file_name": f"images/{i}.png", "split": split, "captions": [f"first {i}", f"second {i}"]}
        )
    (tmp_path / "captions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert [p.text for p in read_caption_pairs(Source(tmp_path)).pairs] == ["first 0", "first 1"]
    every = read_caption_pairs(Source(tmp_path, every=True)).pairs
    assert [p.text for p in every] == ["first 0", "second 0", "first 1", "second 1"]
    assert every[0].image_id == every[1].image_id != every[2].image_id
    assert [p.split for p in every] == ["train", "train", "test", "test"]
    assert len({p.id for p in every}) == 4
