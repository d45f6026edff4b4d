"""``limner verify`` finds a flipped bit in what limner stores, says what to do, and repairs what it can."""

import json
import shutil

import numpy as np
import pytest
import torch
from fakes import FakeImages, noise_picture
from PIL import Image

from limner.cli.main import run
from limner.datasets.features import ROWS, FeatureKey, extract
from limner.library.ingest import index
from limner.library.library import Library
from limner.training import checkpoint

KEY = FeatureKey(data="made-up", backbone="mean", weights_sha256="ab" * 32, transform="none")


def flip(path, number=-9):
    data = bytearray(path.read_bytes())
    data[number] ^= 4
    path.write_bytes(data)


def told(capsys, *words):
    status = run(["verify", *map(str, words), "--json"])
    return status, {one["path"]: one["state"] for one in json.loads(capsys.readouterr().out)}


@pytest.fixture
def library(tmp_path):
    (tmp_path / "pictures").mkdir()
    for number in range(4):
        noise_picture(number).save(tmp_path / "pictures" / f"{number}.png")
    index([tmp_path / "pictures"], tmp_path / "lib", image_encoders=[FakeImages()])
    Library.open(tmp_path / "lib").gallery(["visual"])
    return tmp_path / "lib"


def test_a_sound_library_is_told_so_and_its_cache_is_repaired(library, capsys):
    status, states = told(capsys, library)
    assert (status, set(states.values())) == (0, {"sound"})
    path = next((library / "cache").rglob("[!.]*.npy"))
    flip(path, 200)
    assert told(capsys, library)[1][str(path)] == "damaged"
    assert run(["verify", str(library)]) == 1
    assert "makes it again" in capsys.readouterr().out
    assert told(capsys, library, "--repair")[1][str(path)] == "repaired"
    assert told(capsys, library)[0] == 0


def test_damaged_vectors_are_taken_out_and_indexing_makes_them_again(library, tmp_path, capsys):
    due = np.array(Library.open(library).gallery(["visual"]).space("visual").matrix)
    for path in (library / "tables" / "vectors_visual.lance" / "data").iterdir():
        flip(path, 40)
    table = str(library / "tables" / "vectors_visual.lance")
    assert told(capsys, library)[1][table] == "damaged"
    assert told(capsys, library, "--repair")[1][table] == "repaired"
    index([tmp_path / "pictures"], library, image_encoders=[FakeImages()])
    assert np.array_equal(Library.open(library).gallery(["visual"]).space("visual").matrix, due)
    assert told(capsys, library)[0] == 0


def test_damaged_pictures_are_for_a_backup(library, capsys):
    for path in (library / "tables" / "pictures.lance" / "data").iterdir():
        flip(path, 40)
    assert told(capsys, library, "--repair")[0] == 1


def test_damaged_features_are_taken_out_and_extracted_again(tmp_path, capsys):
    paths = {}
    for number in range(4):
        paths[str(number)] = tmp_path / f"{number}.png"
        Image.new("RGB", (8, 8), (60 * number, 9, 0)).save(paths[str(number)])

    def extracted():
        return extract(
            tmp_path / "store",
            KEY,
            paths,
            prepare=lambda image: np.asarray(image, np.uint8),
            forward=lambda batch: batch.mean((1, 2), dtype=np.float32),
            side_px=8,
        )

    due = np.array(extracted().stored)
    assert told(capsys, tmp_path / "store")[0] == 0
    flip(tmp_path / "store" / KEY.folder / ROWS, 13)
    assert told(capsys, tmp_path / "store")[0] == 1
    assert set(told(capsys, tmp_path / "store", "--repair")[1].values()) == {"repaired"}
    assert np.array_equal(extracted().stored, due)
    assert told(capsys, tmp_path / "store")[0] == 0


def test_a_damaged_checkpoint_is_named(tmp_path, capsys):
    checkpoint.save(tmp_path / "best.safetensors", {"a": torch.ones(9)}, {"n": 1})
    assert told(capsys, tmp_path)[0] == 0
    flip(tmp_path / "best.safetensors")
    assert told(capsys, tmp_path) == (1, {str(tmp_path / "best.safetensors"): "damaged"})


def test_other_folders_are_refused(tmp_path, capsys):
    assert run(["verify", str(tmp_path)]) == 1
    assert "no library, feature store, run, project or study" in capsys.readouterr().err
    assert run(["verify"]) == 2
    shutil.rmtree(tmp_path)
