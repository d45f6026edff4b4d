"""Data sets in the folders in which they are distributed, and what a first audit says of mistakes."""

import shutil
import zipfile

import pytest
import released

from limner.errors import DataError, LimnerError, MissingError
from limner.research.cli.data import data as command
from limner.research.datasets import read_source
from limner.research.datasets.pairs import SourceConfig, data_sets


def read(name, folder, **more):
    return read_source(SourceConfig(set=name, annotations=str(folder), **more))


MAKERS = {
    "coco": released.coco,
    "goodnews": released.goodnews,
    "politics": released.politics,
    "conceptual": released.conceptual,
    "cite": released.cite,
    "cite++": released.cite_plus,
    "clue": released.clue,
    "vist": released.vist,
    "recipeqa": released.recipeqa,
}


@pytest.fixture(scope="module")
def sets(tmp_path_factory):
    """Every set in a folder of its name, untouched by the tests."""
    folder = tmp_path_factory.mktemp("sets")
    for name, make in MAKERS.items():
        make(folder / name)
    return folder


@pytest.fixture
def audit(capsys):
    """What an audit prints, or refuses with."""

    def run(name, place, *more):
        words = ["audit", name, "--annotations", str(place), "--draws", "0", *map(str, more)]
        try:
            command(words, exit_on_error=False, print_error=False, result_action="return_value")
        except LimnerError as error:
            return f"{type(error).__name__}: {error}"
        return capsys.readouterr().out

    return run


def test_vist_is_read_from_the_folders_of_its_archives(sets):
    found = read("vist", sets / "vist")
    assert [pair.split for pair in found.pairs] == ["train"] * 80 + ["val"] * 10 + ["test"] * 10
    assert found.missing == ()
    assert found.pairs[83].image == str((sets / "vist/images/val/10083.png").resolve())


def test_recipeqa_is_read_from_the_folders_of_its_archives(sets):
    found = read("recipeqa", sets / "recipeqa")
    assert [pair.split for pair in found.pairs] == ["train"] * 30 + ["val"] * 3 + ["test"] * 3
    assert all(pair.image_hash for pair in found.pairs)


@pytest.mark.parametrize("pictures", ["images", "images-qa/train/images-qa"])
def test_cite_plus_is_read_under_its_released_names(tmp_path, pictures):
    found = read("cite++", released.cite_plus(tmp_path, 4, pictures))
    assert [(pair.split, pair.seq) for pair in found.pairs[3:5]] == [("train", "soup-3"), ("test", "soup-4")]
    assert found.missing == ()


@pytest.mark.parametrize("year", [2014, 2017])
@pytest.mark.parametrize("karpathy", [True, False])
def test_coco_is_read_from_the_folders_of_its_archives(tmp_path, year, karpathy):
    """Karpathy's file names the pictures of 2014; those of 2017 are the same under their numbers alone."""
    found = read("coco", released.coco(tmp_path, 10, year, karpathy))
    assert len(found.pairs) == 10
    assert all(pair.image_hash for pair in found.pairs)
    assert {pair.split for pair in found.pairs} == ({"train", "val", "test"} if karpathy else {""})
    (tmp_path / f"val{year}").rename(tmp_path / "elsewhere")
    again = read("coco", tmp_path)
    assert [pair.image_hash for pair in again.pairs] == [pair.image_hash for pair in found.pairs]


@pytest.mark.parametrize("name", ["goodnews", "politics", "clue"])
def test_other_sets_are_read_from_their_folder(sets, name):
    found = read(name, sets / name)
    assert found.missing == ()
    assert all(pair.image_hash for pair in found.pairs)


@pytest.mark.parametrize("name", sorted(MAKERS))
def test_the_first_audit_says_whether_the_pictures_are_there(sets, audit, name):
    """Without --pictures none is opened, and only two sets come without theirs."""
    shown = audit(name, sets / name)
    if name in ("cite", "conceptual"):
        assert f"note: {name}: no pictures at {sets / name / 'images'} or " in shown
        assert f"nor any in {sets / name} or below (found " in shown
        assert ("'limner data fetch conceptual' downloads them" in shown) is (name == "conceptual")
    else:
        assert "picture files exist in" in shown
        assert "they were not opened" in shown
    assert shown.count("\nnote: ") == {"clue": 2, "recipeqa": 3}.get(name, 1)


def test_fetched_pictures_of_conceptual_captions_are_found_and_the_dead_counted(tmp_path, audit):
    released.conceptual(tmp_path)
    released.fetched(tmp_path / "images")
    shown = audit("conceptual", tmp_path)
    assert f"2 of 20 pictures are not in {tmp_path / 'images'} or below, first '0.jpg'; found 18 pic" in shown
    assert "2 of 20 pairs lack their picture" in audit(
        "conceptual", tmp_path, "--pictures", tmp_path / "images"
    )
    assert len(read("conceptual", tmp_path, missing="drop").pairs) == 18


def test_addresses_of_conceptual_captions_are_fetched_under_the_names_that_its_reader_looks_for(tmp_path):
    file = released.conceptual(tmp_path, 3) / "Train_GCC-training.tsv"
    with file.open("a") as stream:
        stream.write("Another caption of the first.\thttp://pictures.example/0.jpg\n")
    wanted = data_sets()["conceptual"].wanted
    assert (
        wanted(tmp_path) == wanted(file) == {f"http://pictures.example/{n}.jpg": f"{n}.jpg" for n in range(3)}
    )


# set, folder below all sets that is named by mistake, and what must be said
LEVELS = [
    (
        "vist",
        "vist/images",
        "no train.story-in-sequence.json in it or below",
        "is in {}/vist/sis: give that",
    ),
    ("vist", "vist/sis", "no pictures at {}/vist/sis/images or", "found 3 files (test.story"),
    (
        "vist",
        "vist/dii",
        "no train.story-in-sequence.json",
        "train.description-in-isolation.json may be of ano",
    ),
    (
        "coco",
        "coco/train2014",
        "no dataset_coco.json or captions_train2014.json",
        "found 16 pictures (COCO_tr",
    ),
    ("coco", "coco/train2014", "no dataset_coco.json", "dataset_coco.json is in {}/coco: give that folder"),
    ("coco", "coco/annotations", "no pictures at", "{}/coco/train2014 next to it holds pictures"),
    ("clue", "clue/images", "no conceptual_train_dis.csv", "is in {}/clue: give that folder"),
    ("goodnews", "goodnews/resized", "no captioning_dataset.json", "is in {}/goodnews: give that folder"),
    ("recipeqa", "recipeqa/images", "no train.json or new_train.json", "found 3 folders (test, train, val)"),
    (
        "cite",
        "clue",
        "no data.csv in it or below",
        "found 1 folder (images), 3 files (conceptual_test_dis.csv",
    ),
    (
        "coco",
        "nowhere",
        "coco: {}/nowhere: found no such folder",
        "{} holds 9 folders (cite, cite++, clue, coco",
    ),
    ("clue", "coco/dataset_coco.json", "no conceptual_train_dis.csv", "is a file, not a folder"),
    (
        "coco",
        "coco/annotations/instances_train2014.json",
        "images.0.cocoid: Field req",
        "or captions_train2014",
    ),
    (
        "vist",
        "vist/dii/val.description-in-isolation.json",
        "no story with five positions",
        "story-in-sequence",
    ),
]


@pytest.mark.parametrize("mistake", LEVELS, ids=lambda one: f"{one[0]} in {one[1]}")
def test_a_wrong_folder_or_file_is_answered_with_the_right_one(sets, audit, mistake):
    name, place, cause, hint = mistake
    shown = audit(name, sets / place)
    assert cause.format(sets) in shown
    assert hint.format(sets) in shown


@pytest.mark.slow
def test_archives_that_are_still_packed_are_named(tmp_path, sets, audit):
    with zipfile.ZipFile(tmp_path / "annotations_trainval2014.zip", "w") as file:
        file.write(sets / "coco/annotations/captions_train2014.json", "annotations/captions_train2014.json")
    (tmp_path / "train2014.zip").write_bytes(b"PK")
    assert "annotations_trainval2014.zip is still packed: unpack and run" in audit("coco", tmp_path)
    shutil.copytree(sets / "coco/annotations", tmp_path / "annotations")
    (tmp_path / "annotations_trainval2014.zip").unlink()
    assert "nor any in" in (shown := audit("coco", tmp_path))
    assert "train2014.zip is still packed: unpack and run again" in shown
    shutil.copytree(sets / "coco/val2014", tmp_path / "val2014")
    shown = audit("coco", tmp_path)
    assert "16 of 20 pictures are not in" in shown
    assert "train2014.zip is still packed" in shown
    assert "an archive; unpack it and give the file" in audit("conceptual", tmp_path / "train2014.zip")


def test_an_empty_folder_of_pictures_points_to_the_archives_beside_it(tmp_path, sets, audit):
    shutil.copytree(sets / "vist/sis", tmp_path / "sis")
    (tmp_path / "images").mkdir()
    (tmp_path / "train_split.0.tar.gz").touch()
    (tmp_path / "train_split.1.tar.gz").touch()
    shown = audit("vist", tmp_path, "--pictures", tmp_path / "images")
    assert "100 of 100 pairs lack their picture" in shown
    assert "found nothing in it; train_split.0.tar.gz and 1 more are still packed" in shown


@pytest.mark.slow
def test_one_split_alone_is_said(tmp_path, sets, audit):
    shutil.copytree(sets / "vist/sis", tmp_path / "sis")
    shutil.copytree(sets / "vist/images/val", tmp_path / "images/val")
    by_split = "by split: train 80 of 80, val 0 of 10, test 10 of 10; found 1 folder (val), 10 pictures"
    assert by_split in audit("vist", tmp_path)
    assert by_split in audit("vist", tmp_path, "--pictures", tmp_path / "images")
    for split in ("val", "test"):
        (tmp_path / "sis" / f"{split}.story-in-sequence.json").unlink()
    shown = audit("vist", tmp_path)
    assert "note: vist: splits read of 3 (train): 1" in shown
    assert "\nreleased" not in shown  # there is nothing to measure leaks on
    (tmp_path / "recipeqa").mkdir()
    shutil.copy(sets / "recipeqa/train.json", tmp_path / "recipeqa/train.json")
    assert "note: recipeqa: splits read of 3 (train): 1" in audit("recipeqa", tmp_path / "recipeqa")
    (tmp_path / "coco").mkdir()
    shutil.copy(sets / "coco/annotations/captions_train2014.json", tmp_path / "coco")
    assert "note: coco: halves read of 2 (captions_train2014.json): 1" in audit("coco", tmp_path / "coco")


def test_a_pickle_in_place_of_politics_is_named(tmp_path, audit):
    (tmp_path / "db.pickle").write_bytes(b"\x80\x04.")
    shown = audit("politics", tmp_path)
    assert "no politics.json or politics.jsonl in it or below" in shown
    assert "db.pickle is a pickle, which is never loaded: see docs/data.md for how to convert it" in shown


def test_the_validation_file_of_conceptual_captions_is_not_taken_for_the_set(tmp_path, audit):
    (tmp_path / "Validation_GCC-1.1.0-Validation.tsv").write_text("a\tb\n")
    assert "no Train_GCC-training.tsv or" in (shown := audit("conceptual", tmp_path))
    assert "found 1 file (Validation_GCC-1.1.0-Validation.tsv)" in shown


def test_what_was_looked_for_is_said_in_training_too(tmp_path, sets):
    with pytest.raises(MissingError, match=r"no train\.story-in-sequence\.json in it or below"):
        read("vist", tmp_path, pictures=str(tmp_path))
    with pytest.raises(
        MissingError, match=r"no pictures at .*images or .*images-qa, nor any in .*set data\.pic"
    ):
        read("vist", sets / "vist/sis")
    (tmp_path / "empty").mkdir()
    with pytest.raises(
        DataError,
        match=r"100 of 100 .* no such file \(looked among 0 files in .*empty and below\); found nothing",
    ):
        read("vist", sets / "vist", pictures=str(tmp_path / "empty"))
    shutil.copytree(sets / "vist", tmp_path / "vist")
    (tmp_path / "vist" / "copy").mkdir()
    (tmp_path / "vist" / "copy" / "val.story-in-sequence.json").write_text("{}")
    with pytest.raises(DataError, match=r"both .*copy/val.*json and .*sis/val.*json; give the folder of one"):
        read("vist", tmp_path / "vist")


def test_the_same_picture_may_lie_twice_but_not_two_under_one_name(tmp_path):
    released.vist(tmp_path, 3)
    released.picture(tmp_path / "images" / "again" / "10000.jpg", 0)
    assert len(read("vist", tmp_path).pairs) == 15
    released.picture(tmp_path / "images" / "again" / "10000.jpg", 200)
    found = read("vist", tmp_path, missing="drop")
    assert found.missing[0].reason == "2 different files of that name"
    assert {pair.seq for pair in found.pairs} == {"1", "2"}


def test_a_link_back_up_is_followed_once(tmp_path):
    released.vist(tmp_path, 3)
    (tmp_path / "images" / "loop").symlink_to(tmp_path / "images")
    assert len(read("vist", tmp_path).pairs) == 15
