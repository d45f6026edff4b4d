"""``limner calibrate``: a fit on captioned pictures replaces the shipped numbers while it counts."""

import json

import numpy as np
import pytest
from PIL import Image

from limner.cli.main import run
from limner.errors import DataError
from limner.evaluation.fitting import fit_channel
from limner.library.library import Library
from limner.storyboard import calibration
from limner.storyboard.illustrator import Illustrator

COLOURS = {
    "red": (220, 20, 30),
    "green": (20, 160, 40),
    "blue": (30, 60, 220),
    "yellow": (240, 220, 40),
    "white": (245, 245, 245),
    "black": (10, 10, 10),
    "pink": (250, 150, 190),
    "brown": (110, 70, 30),
}
PLACES = ("left", "right", "top", "bottom", "middle", "corner", "edge")


def drawn(folder, count):
    """Captioned squares of colour."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for number in range(count):
        name = list(COLOURS)[number % len(COLOURS)]
        pixels = np.clip(np.array(COLOURS[name]) + rng.normal(0, 12, (64, 64, 3)), 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"IMG_{number:04d}.png")
        words = f"a plain {name} wall, seen from the {PLACES[number % len(PLACES)]}"
        (folder / f"IMG_{number:04d}.txt").write_text(words, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("calibrate")
    pictures = drawn(folder / "pictures", 56)
    assert run(["index", str(pictures), "--library", str(folder / "lib"), "--encoder", "base"]) == 0
    return folder / "lib"


def base_channel(folder):
    (found,) = (one for one in Illustrator(Library.open(folder)).channels if one.name == "base")
    return found


@pytest.mark.slow
def test_a_fit_counts_until_the_vectors_change_or_the_file_goes(library, capsys):
    shipped = calibration.load().channels["base"]
    assert base_channel(library).evidence == shipped
    assert run(["calibrate", "--library", str(library)]) == 0
    said = capsys.readouterr().out
    assert "base: fitted on 56 captioned pictures" in said
    held = json.loads((library / "calibration.json").read_text(encoding="utf-8"))["channels"]
    assert held.keys() == {"base"}
    found = base_channel(library)
    assert found.evidence.model_dump() == pytest.approx(held["base"]["evidence"])
    assert found.evidence != shipped
    assert held["base"]["cost"] < 1

    held["base"]["fingerprint"] = "0" * 64
    (library / "calibration.json").write_text(json.dumps({"channels": held}), encoding="utf-8")
    assert base_channel(library).evidence == shipped
    (note,) = Illustrator(Library.open(library)).notes
    assert "channel base: the calibration of this library was fitted on other vectors" in note

    (library / "calibration.json").write_text("{", encoding="utf-8")
    with pytest.raises(DataError, match=r"calibration\.json: damaged; delete it"):
        base_channel(library)
    (library / "calibration.json").unlink()
    assert base_channel(library).evidence == shipped


@pytest.mark.slow
def test_what_cannot_be_fitted_is_one_line(library, tmp_path, capsys):
    assert run(["calibrate", "--library", str(library), "--channel", "captions"]) == 2
    assert "unknown channel to fit 'captions'" in capsys.readouterr().err
    assert run(["calibrate", "--library", str(library), "--channel", "clip"]) == 1
    assert "no vectors for channel 'clip'" in capsys.readouterr().err
    few = tmp_path / "lib"
    pictures = drawn(tmp_path / "few", 9)
    assert run(["index", str(pictures), "--library", str(few), "--encoder", "base"]) == 0
    assert run(["calibrate", "--library", str(few)]) == 1
    assert "channel base reads captions of 9 pictures, expected at least 50" in capsys.readouterr().err
    assert not (few / "calibration.json").exists()


@pytest.mark.slow
def test_captions_that_say_nothing_of_the_pictures_are_refused(library, monkeypatch):
    class Noise:
        name, fingerprint, dim = "noise", "n", 512

        def encode_text(self, texts):
            rows = np.random.default_rng(7).normal(size=(len(texts), 512)).astype(np.float32)
            return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    opened = Library.open(library)
    monkeypatch.setattr("limner.storyboard.equipment.text_encoder", lambda *_, **__: Noise())
    with pytest.raises(DataError, match="say nothing of each other"):
        fit_channel(opened, "base", calibration.load())
