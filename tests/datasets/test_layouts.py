"""Data sets in the folders in which they are distributed: annotations and pictures below the folder named."""

import csv
import json

import pytest
from PIL import Image

from limner.datasets import read_source
from limner.datasets.base import SourceConfig
from limner.datasets.sets.cite import QUESTIONS
from limner.errors import DataError, MissingError


def picture(path, colour=0):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (40, 30), (colour, 90, 30)).save(path)


def read(name, folder, **more):
    return read_source(SourceConfig(set=name, annotations=str(folder), **more))


def vist(folder, annotations="sis", pictures="images"):
    for number, split in enumerate(("train", "val", "test")):
        sentences = [
            [
                {
                    "story_id": str(number),
                    "worker_arranged_photo_order": place,
                    "original_text": f"Sentence {place} of story {number}.",
                    "photo_flickr_id": f"{number}{place}",
                    "album_id": "7",
                }
            ]
            for place in range(5)
        ]
        file = folder / annotations / f"{split}.story-in-sequence.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({"annotations": sentences}))
        for place in range(5):
            suffix = "png" if place == 3 else "jpg"
            picture(folder / pictures / split / f"{number}{place}.{suffix}", 10 * place + number)


def test_vist_is_read_from_the_folders_of_its_archives(tmp_path):
    vist(tmp_path)
    found = read("vist", tmp_path)
    assert [pair.split for pair in found.pairs] == ["train"] * 5 + ["val"] * 5 + ["test"] * 5
    assert found.missing == ()
    assert found.pairs[8].image == str((tmp_path / "images/val/13.png").resolve())


def test_recipeqa_is_read_from_the_folders_of_its_archives(tmp_path):
    steps = [
        {"title": "", "body": "Mix the flour with the sugar in a large bowl.", "images": ["bread_0_0.jpg"]},
        {"title": "", "body": "Bake the bread in the hot oven for an hour.", "images": ["bread_1_0.jpg"]},
    ]
    for split in ("train", "val", "test"):
        own = json.loads(json.dumps(steps).replace("bread", f"bread-{split}"))
        (tmp_path / f"{split}.json").write_text(json.dumps({"data": [{"recipe_id": split, "context": own}]}))
        for step in range(2):
            picture(tmp_path / "images" / split / "images-qa" / f"bread-{split}_{step}_0.jpg", 40 * step)
    found = read("recipeqa", tmp_path)
    assert [pair.split for pair in found.pairs] == ["train"] * 2 + ["val"] * 2 + ["test"] * 2
    assert all(pair.image_hash for pair in found.pairs)


@pytest.mark.parametrize(
    "names", [("q2-8_{}_dis_11-08.csv", "images-qa/train/images-qa"), ("{}.csv", "images")]
)
def test_cite_plus_is_read_under_its_released_names(tmp_path, names):
    for split in ("train", "test"):
        with (tmp_path / names[0].format(split)).open("w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["", "stim_txt", "qimg", *(f"{one}_resp" for one in QUESTIONS)])
            rows.writerow([0, "Stir the soup.", f"soup-{split}_1_0.jpg", *["True"] * 7])
        picture(tmp_path / names[1] / f"soup-{split}_1_0.jpg")
    found = read("cite++", tmp_path)
    assert [(pair.split, pair.seq) for pair in found.pairs] == [
        ("train", "soup-train"),
        ("test", "soup-test"),
    ]
    assert found.missing == ()


def test_what_was_looked_for_is_said(tmp_path):
    with pytest.raises(MissingError, match=r"no train\.story-in-sequence\.json in it or below"):
        read("vist", tmp_path, pictures=str(tmp_path))
    vist(tmp_path)
    with pytest.raises(MissingError, match=r"no pictures at .*images or .*images-qa; set data\.pictures"):
        read("vist", tmp_path / "sis")
    (tmp_path / "empty").mkdir()
    with pytest.raises(
        DataError, match=r"15 of 15 .* no such file \(looked among 0 files in .*empty and below\)"
    ):
        read("vist", tmp_path, pictures=str(tmp_path / "empty"))
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "val.story-in-sequence.json").write_text("{}")
    with pytest.raises(DataError, match=r"both .*copy/val.*json and .*sis/val.*json; give the folder of one"):
        read("vist", tmp_path)


def test_the_same_picture_may_lie_twice_but_not_two_under_one_name(tmp_path):
    vist(tmp_path)
    picture(tmp_path / "images" / "again" / "00.jpg", 0)
    assert len(read("vist", tmp_path).pairs) == 15
    picture(tmp_path / "images" / "again" / "00.jpg", 200)
    found = read("vist", tmp_path, missing="drop")
    assert found.missing[0].reason == "2 different files of that name"
    assert {pair.split for pair in found.pairs} == {"val", "test"}


def test_a_link_back_up_is_followed_once(tmp_path):
    vist(tmp_path)
    (tmp_path / "images" / "loop").symlink_to(tmp_path / "images")
    assert len(read("vist", tmp_path).pairs) == 15
