"""CLIP through open_clip, with a tiny model made on the spot."""

import json
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

import limner
from limner.cli.main import run
from limner.encoders import catalogue
from limner.encoders.clip import ClipEncoder, _published
from limner.errors import CheckpointError, ConfigError, DataError, MissingError, ShapeError
from limner.studio.engine import Engine

NAME = "limner-tiny"
CONFIG = {
    "embed_dim": 16,
    "vision_cfg": {"image_size": 32, "layers": 2, "width": 64, "patch_size": 16},
    "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 64, "heads": 1, "layers": 2},
}


@pytest.fixture(scope="module")
def open_clip(tmp_path_factory):
    module = pytest.importorskip("open_clip")
    file = tmp_path_factory.mktemp("config") / f"{NAME}.json"
    file.write_text(json.dumps(CONFIG))
    module.add_model_config(file)
    return module


@pytest.fixture(scope="module")
def model(open_clip):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return open_clip.create_model(NAME, pretrained=None, load_weights=False).eval()


@pytest.fixture(scope="module")
def encoder(model):
    return ClipEncoder(NAME, model.state_dict(), "0" * 64, precision="float32")


def test_texts_equal_open_clips_own(open_clip, model, encoder):
    texts = ["a goat on a boat", "Ünïcode 犬", "The kettle boils."]
    with torch.inference_mode():
        due = model.encode_text(open_clip.get_tokenizer(NAME)(texts), normalize=True).numpy()
    np.testing.assert_allclose(encoder.encode_text(texts), due, atol=1e-5)
    np.testing.assert_allclose(encoder.encode_text(texts[1:2])[0], due[1], atol=1e-5)


def test_pictures_equal_open_clips_own(open_clip, model, encoder):
    pixels = np.random.default_rng(0).integers(0, 256, (3, 32, 32, 3), dtype=np.uint8)
    mean, std = np.array(open_clip.OPENAI_DATASET_MEAN), np.array(open_clip.OPENAI_DATASET_STD)
    values = torch.from_numpy(((pixels / 255 - mean) / std).transpose(0, 3, 1, 2)).float()
    with torch.inference_mode():
        due = model.encode_image(values, normalize=True).numpy()
    found = encoder.encode_pixels(pixels)
    np.testing.assert_allclose(found.spaces["clip"], due, atol=1e-5)
    assert found.labels == []
    assert encoder.spaces == {"clip": encoder.dim} == {"clip": 16}


def test_long_texts_are_windowed_not_cut(encoder):
    start = "a goat on a boat " * 40
    first, second = encoder.encode_text([start, start + "kettles whistle while rain falls " * 40])
    assert abs(float(np.linalg.norm(second)) - 1) < 1e-5
    assert not np.allclose(first, second, atol=1e-4)
    words = ["goat"] * 38 + ["boat"] * 38  # 76 word pieces: one too many for one window
    halves = encoder.encode_text([" ".join(words[:38]), " ".join(words[38:])])
    due = halves.sum(axis=0)
    np.testing.assert_allclose(
        encoder.encode_text([" ".join(words)])[0], due / np.linalg.norm(due), atol=1e-5
    )


def test_refusals(model, encoder):
    with pytest.raises(DataError, match=r"text 1 of 1 .* has no words"):
        encoder.encode_text([" "])
    with pytest.raises(ShapeError, match=r"\(B, 32, 32, 3\)"):
        encoder.encode_pixels(np.zeros((1, 224, 224, 3), np.uint8))
    state = dict(model.state_dict())
    del state["text_projection"]
    with pytest.raises(CheckpointError, match=r'file: Missing key.* "text_projection"'):
        ClipEncoder(NAME, state, "0", where="file")
    with pytest.raises(ConfigError, match="unknown architecture 'limner-tini'; did you mean 'limner-tiny'"):
        ClipEncoder("limner-tini", state, "0")
    with pytest.raises(MissingError, match=r"needs tokenizer\.json and tokenizer_config\.json beside"):
        ClipEncoder("ViT-B-16-SigLIP", state, "0")
    with pytest.raises(ConfigError, match="comes from another library"):
        ClipEncoder("xlm-roberta-base-ViT-B-32", state, "0")


def test_half_precision_is_close(model, encoder):
    pixels = np.random.default_rng(1).integers(0, 256, (2, 32, 32, 3), dtype=np.uint8)
    half = ClipEncoder(NAME, model.state_dict(), "0" * 64)
    cosines = (half.encode_pixels(pixels).spaces["clip"] * encoder.encode_pixels(pixels).spaces["clip"]).sum(
        1
    )
    assert cosines.min() > 0.99
    assert half.fingerprint != encoder.fingerprint


def test_through_the_catalogue_from_a_file(model, encoder, tmp_path):
    torch.save(model.state_dict(), tmp_path / f"{NAME}.pth")
    made = catalogue.image_encoder(f"clip:{NAME}", weights=tmp_path, precision="float32")
    square = made.prepare(Image.new("RGB", (80, 40), (200, 10, 10)))
    np.testing.assert_array_equal(
        made.encode_pixels(square[None]).spaces["clip"], encoder.encode_pixels(square[None]).spaces["clip"]
    )
    words = catalogue.clip_encoder(f"clip:{NAME}", weights=tmp_path)
    np.testing.assert_allclose(words.encode_text(["a goat"]), encoder.encode_text(["a goat"]), atol=1e-6)


def test_without_the_extra_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "open_clip", None)
    with pytest.raises(MissingError, match=r"pip install 'limner\[clip\]'"):
        catalogue.text_encoder("clip:ViT-B-32")


SIGLIP = "limner-tiny-siglip"


@pytest.fixture(scope="module")
def siglip(tmp_path_factory):
    """A random model with the text side of SigLIP: its own tokenizer, no causal mask, a bias on logits."""
    module = pytest.importorskip("open_clip")
    from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers

    folder = tmp_path_factory.mktemp("siglip")
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))  # noqa: S106  (no password)
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    special = ["<pad>", "<eos>", "<unk>"]
    trainer = trainers.BpeTrainer(vocab_size=200, special_tokens=special)
    tokenizer.train_from_iterator(["a goat on a boat", "the kettle boils while rain falls"] * 3, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(single="$A <eos>", special_tokens=[("<eos>", 1)])
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "<pad>", "eos_token": "<eos>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    text = json.loads(json.dumps(module.get_model_config("ViT-B-16-SigLIP2")["text_cfg"]))
    text |= {"vocab_size": 200, "width": 32, "heads": 1, "layers": 2, "context_length": 16}
    text["hf_tokenizer_name"] = str(folder)
    config = {"embed_dim": 32, "init_logit_bias": -10, "custom_text": True, "text_cfg": text}
    config["vision_cfg"] = {"image_size": 32, "layers": 1, "width": 64, "patch_size": 16}
    (folder / f"{SIGLIP}.json").write_text(json.dumps(config))
    module.add_model_config(folder / f"{SIGLIP}.json")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = module.create_model(SIGLIP, pretrained=None, load_weights=False).eval()
    return model, folder


def test_a_tokenizer_of_its_own_is_used_as_open_clip_uses_it(siglip):
    open_clip = pytest.importorskip("open_clip")
    pytest.importorskip("transformers", reason="open_clip reads such tokenizers through transformers")
    model, folder = siglip
    encoder = ClipEncoder(SIGLIP, model.state_dict(), "0" * 64, precision="float32", tokenizer=folder)
    texts = ["A goat, on a boat!", "the KETTLE_boils", "rain"]
    with torch.inference_mode():
        due = model.encode_text(open_clip.get_tokenizer(SIGLIP)(texts), normalize=True).numpy()
    np.testing.assert_allclose(encoder.encode_text(texts), due, atol=1e-5)
    np.testing.assert_allclose(encoder.encode_text(texts[2:])[0], due[2], atol=1e-5)
    with pytest.raises(DataError, match="has no words"):
        encoder.encode_text(["..."])


def test_the_published_models_say_how_they_want_their_pictures():
    pytest.importorskip("open_clip")
    assert _published("ViT-B-16-SigLIP2") == {"mean": (0.5,) * 3, "std": (0.5,) * 3, "resize_mode": "squash"}
    assert _published("ViT-B-32")["resize_mode"] == "shortest"
    assert _published(NAME) == {}


def test_a_tokenizer_that_is_absent_or_damaged_is_one_line(siglip, tmp_path):
    model, folder = siglip
    with pytest.raises(MissingError, match=f"limner models get clip:{SIGLIP}"):
        ClipEncoder(SIGLIP, model.state_dict(), "0", tokenizer=tmp_path)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(CheckpointError, match="tokenizer damaged"):
        ClipEncoder(SIGLIP, model.state_dict(), "0", tokenizer=tmp_path)


def test_fetching_brings_weights_and_tokenizer_to_one_place(monkeypatch, tmp_path):
    open_clip = pytest.importorskip("open_clip")
    asked = []
    monkeypatch.setattr(open_clip, "download_pretrained", lambda settings: asked.append(settings) or tmp_path)
    monkeypatch.setattr("huggingface_hub.hf_hub_download", lambda *words: asked.append(words))
    assert catalogue.fetch_weights("clip:ViT-B-16-SigLIP2") == tmp_path
    assert asked[0]["hf_hub"] == "timm/ViT-B-16-SigLIP2/"
    repository = "timm/ViT-B-16-SigLIP2"
    assert asked[1:] == [(repository, "tokenizer.json"), (repository, "tokenizer_config.json")]
    with pytest.raises(ConfigError, match="has several weights; name one: clip:MobileCLIP-B@"):
        catalogue.fetch_weights("clip:MobileCLIP-B")
    with pytest.raises(ConfigError, match="unknown weights 'laion2b'"):
        catalogue.fetch_weights("clip:ViT-B-32@laion2b")

    with pytest.raises(ConfigError, match="no weights of RN50 are published under its name"):
        catalogue.fetch_weights("clip:RN50")

    def refuse(_):
        raise OSError("no route\nto host")

    monkeypatch.setattr(open_clip, "download_pretrained", refuse)
    with pytest.raises(MissingError, match=r"could not be fetched \(no route to host\)"):
        catalogue.fetch_weights("clip:ViT-B-16-SigLIP2")


def test_a_name_alone_takes_the_usual_weights_and_says_first_what_they_are(monkeypatch, tmp_path, capsys):
    open_clip = pytest.importorskip("open_clip")
    repository = "laion/CLIP-ViT-B-32-DataComp.XL-s13B-b90K"
    said = []

    def info(name, *, files_metadata):
        assert (name, files_metadata) == (repository, True)
        files = {"README.md": 9, "open_clip_pytorch_model.bin": 7, "open_clip_model.safetensors": 605_143_316}
        siblings = [SimpleNamespace(rfilename=name, size=size) for name, size in files.items()]
        return SimpleNamespace(siblings=siblings, card_data={"license": "mit"})

    def download(settings):
        said.append(capsys.readouterr().err)
        assert settings["hf_hub"].rstrip("/") == repository
        return tmp_path / "file"

    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.model_info", info)
    monkeypatch.setattr(open_clip, "download_pretrained", download)
    assert run(["models", "get", "clip:ViT-B-32"]) == 0
    assert said == [
        f"clip:ViT-B-32@datacomp_xl_s13b_b90k: 605 MB from huggingface.co/{repository} (licence: mit),"
        f" into {tmp_path}\n"
    ]
    assert str(tmp_path / "file") in capsys.readouterr().err
    monkeypatch.setattr("huggingface_hub.model_info", lambda *_, **__: 1 / 0)
    monkeypatch.setattr(open_clip, "download_pretrained", lambda _: pytest.fail("downloaded unannounced"))
    assert run(["models", "get", "clip:ViT-B-32"]) == 1
    assert "could not be fetched" in capsys.readouterr().err
    assert run(["models", "get", "clip:ViT-B-32", "--to", "here"]) == 2
    assert "leave --to out" in capsys.readouterr().err


def test_what_comes_from_torchvision_is_said_first(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("limner.transfer.fetch_file", lambda address, folder, report: folder / "file")
    assert run(["models", "get", "resnet50", "--to", str(tmp_path)]) == 0
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("resnet50: 103 MB from download.pytorch.org (licence: BSD 3-Clause")
    assert first.endswith(f"into {tmp_path}")
    assert str(tmp_path / "file") in second


@pytest.mark.slow
def test_every_command_that_compares_words_takes_the_weights_of_clip(model, tmp_path, capsys, monkeypatch):
    """Weights that lie nowhere in particular serve wherever a library of theirs is asked."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    file, name = tmp_path / "mine.safetensors", f"clip:{NAME}"
    save_file({key: value.contiguous() for key, value in model.state_dict().items()}, file)
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    for number in range(51):
        noise = np.random.default_rng(number).integers(0, 256, (40, 40, 3), dtype=np.uint8)
        Image.fromarray(noise).save(pictures / f"{number}.png")
        (pictures / f"{number}.txt").write_text(f"A surface with {number} dots.")
    (tmp_path / "a.txt").write_text("A red surface.")
    lib, weights = ["--library", str(tmp_path / "lib")], ["--weights", f"{name}={file}"]
    assert run(["index", str(pictures), *lib, "--encoder", name, *weights]) == 0
    commands = [
        ["search", "red", *lib],
        ["illustrate", str(tmp_path / "a.txt"), *lib, "-o", str(tmp_path / "a.json")],
    ]
    for words in commands:
        capsys.readouterr()
        assert run([*words]) == 1
        assert (
            f"no weights of {name}; run 'limner models get {name}' or pass --weights"
            in capsys.readouterr().err
        )
        assert run([*words, *weights]) == 0, capsys.readouterr().err
    opened = limner.Library(tmp_path / "lib", weights=[f"{name}={file}"])
    assert len(opened.search("red", 3)) == 3
    assert len(Engine(tmp_path / "lib", weights=(f"{name}={file}",)).illustrator().search("red", 3)) == 3
