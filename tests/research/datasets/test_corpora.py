"""Every set that lies in files is reached by its name in the settings."""

import json
import os
import shutil

import pytest
from PIL import Image
from set_files import lines, pictures

from limner.errors import ConfigError, DataError, MissingError
from limner.research.datasets import folders, read_source
from limner.research.training.corpus import open_corpus
from limner.research.training.settings import DataConfig

TEXTS = [f"a text of more than eight words that is number {n}" for n in range(12)]


def make(name, folder):
    """Twelve pairs in the form of a set; returns what `annotations` names."""
    if name == "coco":
        pictures(folder / "images", [f"{n}.jpg" for n in range(12)])
        value = {
            "images": [{"id": n, "file_name": f"{n}.jpg"} for n in range(12)],
            "annotations": [{"image_id": n, "caption": text} for n, text in enumerate(TEXTS)],
        }
        (folder / "captions_train2014.json").write_text(json.dumps(value))
        return folder
    if name == "goodnews":
        pictures(folder / "images", [f"a{n}_0.jpg" for n in range(12)])
        value = {f"a{n}": {"images": {"0": text}} for n, text in enumerate(TEXTS)}
        (folder / "captioning_dataset.json").write_text(json.dumps(value))
        return folder
    if name == "politics":
        pictures(folder / "images", [f"{n}.jpg" for n in range(12)])
        items = [
            {"local_path": f"{n}.jpg", "content_text": text + " x" * 300} for n, text in enumerate(TEXTS)
        ]
        (folder / "politics.json").write_text(json.dumps({"left": {"taxes": items}}))
        return folder / "politics.json"
    if name == "conceptual":
        pictures(folder / "images", [f"{n}.jpg" for n in range(12)])
        (folder / "c.tsv").write_text("".join(f"{text}\thttp://x/{n}\n" for n, text in enumerate(TEXTS)))
        return folder / "c.tsv"
    pictures(folder, [f"images/{n}.jpg" for n in range(12)])
    if name == "folder":
        rows = [{"file_name": f"images/{n}.jpg", "text": text} for n, text in enumerate(TEXTS)]
        lines(folder / "metadata.jsonl", rows)
    elif name == "captions":
        rows = [{"file_name": f"images/{n}.jpg", "captions": [text]} for n, text in enumerate(TEXTS)]
        lines(folder / "captions.jsonl", rows)
    elif name == "stories":
        rows = [
            {
                "story_id": f"s{n}",
                "source": f"site {n // 2}",
                "pages": [{"text": text, "image": f"images/{n}.jpg"}],
            }
            for n, text in enumerate(TEXTS)
        ]
        lines(folder / "stories.jsonl", rows)
    else:
        rows = [{"id": str(n), "text": text, "image": f"images/{n}.jpg"} for n, text in enumerate(TEXTS)]
        return lines(folder / "mine.jsonl", rows)
    return folder


SETS = ("coco", "goodnews", "politics", "conceptual", "folder", "captions", "stories", "pairs")


@pytest.mark.parametrize("name", SETS)
@pytest.mark.slow
def test_a_set_is_read_split_and_its_missing_pictures_listed(name, tmp_path):
    config = DataConfig(set=name, annotations=str(make(name, tmp_path)), features=str(tmp_path))
    data, _ = open_corpus(config, files=True)
    assert len(data.pairs) == 12
    assert all(pair.group and len(pair.image_hash) == 64 for pair in data.pairs)
    assert {pair.split for pair in data.pairs} == {"train", "val", "test"}
    next(iter(sorted((tmp_path / "images").iterdir()))).unlink()
    with pytest.raises(DataError, match="1 of 12 pairs lack their picture"):
        open_corpus(config, files=True)
    rest = read_source(config.model_copy(update={"missing": "drop"}))
    assert (len(rest.pairs), len(rest.missing)) == (11, 1)
    assert any("1 pair left out: no such file" in note for note in rest.notes)


def test_of_named_paths_the_folder_of_the_picture_alone_is_looked_through(tmp_path, monkeypatch):
    config = DataConfig(set="pairs", annotations=str(make("pairs", tmp_path)), features=str(tmp_path))
    (tmp_path / "images/3.jpg").unlink()
    looked, walked = [], os.walk
    monkeypatch.setattr(
        folders.os, "walk", lambda root, **how: looked.append(str(root)) or walked(root, **how)
    )
    with pytest.raises(DataError, match=r"first 'images/3\.jpg': .*found 11 pictures \(0\.jpg, …\)"):
        read_source(config)
    assert set(looked) == {str(tmp_path / "images")}


def test_a_folder_that_is_gone_when_its_turn_comes_is_passed_over(tmp_path):
    for name in ("a", "b", "c"):
        pictures(tmp_path / name, ["0.jpg"])
    found = []
    for folder, names in folders.walk(tmp_path):
        found.append((folder.name, names))
        if folder == tmp_path:
            shutil.rmtree(tmp_path / "b")
    assert found[1:] == [("a", ["0.jpg"]), ("c", ["0.jpg"])]


def test_sources_stay_whole_on_request(tmp_path):
    config = DataConfig(
        set="stories", annotations=str(make("stories", tmp_path)), by_source=True, features=str(tmp_path)
    )
    data, _ = open_corpus(config, files=True)
    sides = {(pair.meta["source"], pair.split) for pair in data.pairs}
    assert len(sides) == 6
    assert {pair.split for pair in data.pairs} == {"train", "val", "test"}
    assert [pair.seq for pair in data.pairs] == [f"s{n}" for n in range(12)]
    with pytest.raises(ConfigError, match="by_source"):
        open_corpus(config.model_copy(update={"split": "random"}), files=True)
    with pytest.raises(ConfigError, match="fixed shares"):
        open_corpus(config.model_copy(update={"val_share": 0.2}), files=True)
    few = [
        {"story_id": str(n), "source": "one", "pages": [{"text": "x", "image": "images/1.jpg"}]}
        for n in range(12)
    ]
    lines(tmp_path / "stories.jsonl", few)
    with pytest.raises(DataError, match="1 group for"):
        open_corpus(config, files=True)


def test_a_set_without_a_place_says_what_to_set(tmp_path, monkeypatch):
    monkeypatch.delenv("LIMNER_DATA", raising=False)
    for name in SETS:
        with pytest.raises(ConfigError, match="annotations"):
            read_source(DataConfig(set=name))
    with pytest.raises(
        MissingError, match=r"no dataset_coco\.json or .* in it or below \(found nothing in it"
    ):
        read_source(DataConfig(set="coco", annotations=str(tmp_path)))
    with pytest.raises(ConfigError, match="generated, not read"):
        read_source(DataConfig(set="picturebook"))


def test_a_mixture_reads_each_set_below_the_folder_of_data(tmp_path, monkeypatch):
    monkeypatch.setenv("LIMNER_DATA", str(tmp_path))
    for number, name in enumerate(("one", "two")):
        folder = tmp_path / "data" / name
        (folder / "images").mkdir(parents=True)
        rows = []
        for story in range(12):
            Image.new("RGB", (8, 8), (story * 20, number * 200, 7)).save(folder / "images" / f"{story}.png")
            page = {"text": f"{name} tells {story}", "image": f"images/{story}.png"}
            licence = "MIT" if story % 2 else "GPL-3.0"
            rows.append({"story_id": f"s{story}", "license": licence, "pages": [page]})
        lines(folder / "stories.jsonl", rows)
    entries = {"one": {"set": "stories"}, "two": {"set": "stories", "licences": ["MIT"]}}
    config = DataConfig.model_validate({"set": "mixture", "mixture": entries, "features": str(tmp_path)})
    data, _ = open_corpus(config, files=True)
    assert data.name == "one+two"
    assert sum(pair.id.startswith("one:") for pair in data.pairs) == 12
    assert {pair.meta["license"] for pair in data.pairs if pair.id.startswith("two:")} == {"MIT"}
    assert all(pair.group.partition(":")[0] == pair.id.partition(":")[0] for pair in data.pairs)
    monkeypatch.delenv("LIMNER_DATA")
    with pytest.raises(ConfigError, match=r"data\.mixture\.one: no folder given"):
        open_corpus(config, files=True)
    with pytest.raises(ConfigError, match="has no sets"):
        open_corpus(DataConfig(set="mixture"), files=True)
