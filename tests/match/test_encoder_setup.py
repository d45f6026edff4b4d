"""Defaults: what looks at the pictures where nobody says, and photographs without words that are found."""

import pytest
from PIL import Image, ImageDraw

from limner.cli.main import run
from limner.encoders.base_file import image_fingerprints, shipped_file
from limner.errors import CheckpointError, ConfigError, MissingError
from limner.match.encoder_setup import picture_encoders
from limner.match.illustrator import Illustrator
from limner.store import SpaceInfo
from limner.store.database import Database

pytestmark = pytest.mark.slow

PRECISIONS = [("float32", "float32", 0), ("", "float32", 0), ("bfloat16", "bfloat16", 1), ("", "bfloat16", 0)]
STAMPS = image_fingerprints(shipped_file("base"))


@pytest.fixture(autouse=True)
def empty_machine(tmp_path, monkeypatch):
    """No weights but those that pip installs."""
    for name in ("LIMNER_WEIGHTS", "HF_HUB_CACHE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("TORCH_HOME", "HF_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))


@pytest.fixture
def indexed(tmp_path):
    """Index drawn pictures whose names say nothing, by the command; the library."""
    (tmp_path / "pictures").mkdir()
    for number, (ground, colour) in enumerate([("skyblue", "yellow"), ("black", "white"), ("white", "red")]):
        image = Image.new("RGB", (320, 240), ground)
        ImageDraw.Draw(image).ellipse((110, 40, 210, 140), fill=colour)
        image.save(tmp_path / "pictures" / f"IMG_{number:04d}.png")

    def index(*words, code=0):
        library = tmp_path / "library"
        assert run(["index", str(tmp_path / "pictures"), "--library", str(library), *words]) == code
        return Database(library)

    return index


def test_photographs_without_a_word_are_found_and_illustrate_a_text(indexed, tmp_path, capsys):
    """Issue 13: after ``pip install``, search and illustrate refused a folder of uncaptioned photographs."""
    store = indexed()
    assert "no weights" not in "".join(capsys.readouterr())
    library, page = ["--library", str(store.folder)], tmp_path / "story.html"
    assert run(["search", "a red ball", *library]) == 0
    assert "IMG_0002" in capsys.readouterr().out.splitlines()[1]
    (tmp_path / "story.txt").write_text("A yellow sun.\n\nThe moon at night.\n\nA red ball.")
    assert run(["illustrate", str(tmp_path / "story.txt"), "-o", str(page), *library]) == 0
    assert (page.is_file(), Illustrator(store).channel_names) == (True, ("base",))


def test_indexing_again_gains_what_is_new_and_keeps_to_what_there_is(indexed, capsys):
    """Catching up without --precision encoded all pictures of a float32 library again, in bfloat16."""
    search = ["search", "a red ball", "--library", str(indexed("--encoder", "colour").folder)]
    assert run(search) == 1
    assert "run 'limner index' on it again" in capsys.readouterr().err
    for asked, stamp, again in PRECISIONS:
        spaces = indexed(*(["--precision", asked] if asked else [])).settings.spaces
        assert spaces.keys() >= {"colour", "base", "looks"}
        assert {spaces[name].fingerprint for name in ("base", "looks")} == {STAMPS[stamp]}
        assert ("computed again" in capsys.readouterr().err) == again
        assert run(search) == 0


def test_other_eyes_take_the_place_of_the_first_and_are_not_compared_with_them(indexed, capsys, monkeypatch):
    indexed()
    store = indexed("--encoder", "base-free")
    assert "base: made by base, now base-free; computed again" in capsys.readouterr().err
    assert "base-free" in {one.encoder for one in store.settings.spaces.values()}
    indexed("--encoder", "base-free", "--encoder", "base", code=2)
    assert "base-free and base both make the space 'base'; drop one" in capsys.readouterr().err
    changed = store.settings.spaces["base"].model_copy(update={"fingerprint": "0" * 64})
    settings = store.settings.model_copy(update={"spaces": store.settings.spaces | {"base": changed}})
    monkeypatch.setattr(Database, "settings", settings)
    with pytest.raises(CheckpointError, match="encoded by another version of base-free; index again"):
        _ = Illustrator(Database(store.folder)).channels


def test_auto_takes_what_a_library_has_and_what_weights_name(tiny_clip, tmp_path, monkeypatch):
    def chosen(*weights, **made):
        common = {"fingerprint": "0" * 64, "dim": 16}
        spaces = {space: SpaceInfo(encoder=name, **common) for space, name in made.items()}
        return [one.name for one in picture_encoders(["auto"], list(weights), made=spaces)]

    assert chosen() == ["base"]
    assert chosen(str(tiny_clip.folder)) == [tiny_clip.name]
    monkeypatch.setenv("LIMNER_WEIGHTS", str(tiny_clip.folder))
    assert chosen() == chosen(captions="minilm", visual="resnet50") == [tiny_clip.name]
    assert chosen(base="base", looks="base") == ["base"]
    assert chosen(clip=tiny_clip.name, base="base") == [tiny_clip.name, "base"]
    with pytest.raises(MissingError, match="limner models get resnet50"):
        chosen(str(tmp_path))
    with pytest.raises(MissingError, match="no weights of clip:RN50"):
        chosen(clip="clip:RN50")
    with pytest.raises(ConfigError, match="base comes with limner, without other files"):
        chosen("base=mine.safetensors")
    with pytest.raises(ConfigError, match="runs by OpenVINO, not by torch"):
        picture_encoders([tiny_clip.name], [], engine="torch")


@pytest.mark.parametrize("quick", ["bfloat16", "float32"])
def test_a_new_library_is_made_in_what_the_machine_is_quick_in(monkeypatch, quick):
    monkeypatch.setattr("limner.match.encoder_setup.usual_precision", lambda _: quick)
    for engine, due in (("torch", quick), ("auto", "bfloat16")):  # OpenVINO sees to it itself
        (eyes,) = picture_encoders(["base"], [], engine=engine)
        assert eyes.fingerprint == STAMPS[due]
