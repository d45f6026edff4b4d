"""CLIP from a folder: as open_clip prepares and computes, with tiny models made on the spot."""

import json
import shutil
import sys
from importlib.util import find_spec

import numpy as np
import pytest
import torch
from PIL import Image

from limner.cli.main import run
from limner.encoders import catalogue
from limner.encoders.clip import ClipEncoder, Pieces
from limner.encoders.clip_export import _published, clip_tokenizer, earlier_fingerprint, export_clip
from limner.encoders.clip_fetch import make_clip
from limner.encoders.clip_files import CARD, ClipCard, read_clip
from limner.encoders.framing import frame
from limner.encoders.weight_files import WeightFile
from limner.errors import CheckpointError, ConfigError, DataError, MissingError, ShapeError
from tiny_clip import NAME

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("open_clip") is None, reason="needs the extra 'clip'"),
]

HARD = [
    *("a goat on a boat", "The kettle boils.", "don’t STOP’s it’ll THEY'RE 'tis", "naïve café ﬁne"),
    *(
        "🐈‍⬛ 👩🏽‍🚀 emoji ☃",
        "&amp;amp; &lt;b&gt; AT&amp;T &#8364;",
        "Ｆｕｌｌ　ｗｉｄｔｈ",
        "über straße ÅNGSTRÖM İstanbul",
    ),
    *(
        "犬と猫 です",
        "рыжий кот",
        "हिन्दी पाठ ไทย",
        "x" * 300,
        "word " * 200,
        "12345 3.14 ½ ² ⅷ 𝟘",
        "a_b-c__d (e)",
    ),
    *(
        "\x1b[31mred\x1b[0m",
        "cafÃ© â€œquotesâ€\x9d",
        "\u200bzero\u200d width\ufeff",
        "'ſ \u0345 a\u0301\u0327",
    ),
    *("\xa0nbsp\u3000wide\u2028line", "ǅ ß ẞ ŉ", "a\tb\nc", "…—“”‚", "#tag @name http://a.b/c?d=e"),
]
"""Texts that are easily cut into other pieces."""


@pytest.fixture(scope="module")
def open_clip():
    """Imported by those who need it: it takes seconds, and others collect this file too."""
    return pytest.importorskip("open_clip")


@pytest.fixture(scope="module")
def own_tokenizer(open_clip, tiny_clip):
    """That of open_clip, which takes half a second to make."""
    return open_clip.get_tokenizer(NAME)


@pytest.fixture(scope="module")
def model(tiny_clip):
    return tiny_clip.model


@pytest.fixture(scope="module")
def encoder(tiny_clip):
    return ClipEncoder(read_clip(tiny_clip.folder), precision="float32")


def pictures():
    """Of many shapes, in noise, where the smallest shift shows."""
    rng = np.random.default_rng(0)
    shapes = [(32, 32), (31, 33), (33, 31), (70, 111), (500, 32), (32, 500), (97, 64), (20, 9), (1, 1)]
    return [Image.fromarray(rng.integers(0, 256, (*shape, 3), dtype=np.uint8)) for shape in shapes]


def test_hard_texts_are_cut_as_open_clip_cuts_them(own_tokenizer, encoder):
    for text in HARD:
        pieces = encoder._pieces(text)
        assert pieces == own_tokenizer.encode(text), text
        if len(pieces) <= 75:
            np.testing.assert_array_equal(encoder.framed([pieces]), own_tokenizer([text]).numpy())


def test_the_tokenizer_of_published_folders_cuts_them_alike(own_tokenizer):
    """In the form that transformers writes, as it lies beside published networks."""
    transformers = pytest.importorskip("transformers")
    own = own_tokenizer
    numbers = dict(own.encoder)
    numbers["<|startoftext|>"], numbers["<|endoftext|>"] = own.sot_token_id, own.eot_token_id
    del numbers["<start_of_text>"], numbers["<end_of_text>"]
    made = transformers.CLIPTokenizerFast(vocab=numbers, merges=list(own.bpe_ranks))
    pieces = Pieces(made.backend_tokenizer.to_str(), "lower")
    assert (pieces.first, pieces.last) == ([own.sot_token_id], [own.eot_token_id])
    texts = [text for text in HARD if "\u0345" not in text]  # there alone the patterns differ
    assert [pieces(text) for text in texts] == [own.encode(text) for text in texts]
    assert pieces("<|endoftext|>") == own.encode("<|endoftext|>")  # its letters, not the end


def test_texts_have_the_vectors_of_open_clip(own_tokenizer, model, encoder):
    texts = [text for text in HARD if len(encoder._pieces(text)) <= 75]
    with torch.inference_mode():
        due = model.encode_text(own_tokenizer(texts), normalize=True).numpy()
    found = encoder.encode_text(texts)
    assert (found * due).sum(axis=1).min() > 0.9999
    np.testing.assert_allclose(encoder.encode_text(texts[1:2])[0], found[1], atol=1e-5)


def test_pictures_are_prepared_as_by_open_clip_to_the_last_bit(open_clip, encoder):
    transform = open_clip.image_transform(32, is_train=False)
    for picture in pictures():
        found = encoder.normalised(encoder.prepare(picture)[None])[0]
        np.testing.assert_array_equal(found, transform(picture).numpy(), str(picture.size))


def test_squeezed_and_bilinear_pictures_are_too(open_clip, tiny_clip, encoder):
    other = {"resize": "squash", "interpolation": "bilinear", "mean": (0.5,) * 3, "std": (0.5,) * 3}
    folder = read_clip(tiny_clip.folder)
    encoder = ClipEncoder(type(folder)(folder.path, folder.card.model_copy(update=other)))
    transform = open_clip.image_transform(
        32, is_train=False, mean=(0.5,) * 3, std=(0.5,) * 3, resize_mode="squash", interpolation="bilinear"
    )
    for picture in pictures():
        found = encoder.normalised(encoder.prepare(picture)[None])[0]
        np.testing.assert_array_equal(found, transform(picture).numpy())


def test_a_strip_does_not_fill_the_memory(encoder):
    strip = Image.new("RGB", (60_000, 1), "red")
    assert encoder.prepare(strip).shape == (32, 32, 3)


def test_pictures_have_the_vectors_of_open_clip(open_clip, model, encoder):
    transform = open_clip.image_transform(32, is_train=False)
    with torch.inference_mode():
        due = model.encode_image(torch.stack([transform(one) for one in pictures()]), normalize=True).numpy()
    found = encoder.encode_pixels(np.stack([encoder.prepare(one) for one in pictures()]))
    assert (found.spaces["clip"] * due).sum(axis=1).min() > 0.9999
    assert found.labels == []
    assert encoder.spaces == {"clip": encoder.dim} == {"clip": 16}
    assert encoder.encode_pixels(np.zeros((0, 32, 32, 3), np.uint8)).spaces["clip"].shape == (0, 16)


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


def test_half_precision_is_close(tiny_clip, encoder):
    pixels = np.random.default_rng(1).integers(0, 256, (2, 32, 32, 3), dtype=np.uint8)
    half = ClipEncoder(read_clip(tiny_clip.folder))
    both = half.encode_pixels(pixels).spaces["clip"] * encoder.encode_pixels(pixels).spaces["clip"]
    assert both.sum(axis=1).min() > 0.99
    assert half.fingerprint != encoder.fingerprint
    assert {half.fingerprint, encoder.fingerprint} < half.accepted == encoder.accepted


def test_refusals(encoder, tmp_path):
    with pytest.raises(DataError, match=r"text 1 of 1 .* has no words"):
        encoder.encode_text([" "])
    with pytest.raises(ShapeError, match=r"\(B, 32, 32, 3\)"):
        encoder.encode_pixels(np.zeros((1, 224, 224, 3), np.uint8))
    with pytest.raises(DataError, match="expected RGB"):
        encoder.prepare(Image.new("L", (9, 9)))
    with pytest.raises(
        MissingError, match=r"no weights of clip:ViT-B-16-quickgelu .* get clip:ViT-B-16-quick"
    ):
        catalogue.clip_encoder("clip:ViT-B-16-quickgelu", weights=tmp_path)
    with pytest.raises(MissingError, match="run 'limner models export clip:RN50'"):
        catalogue.clip_encoder("clip:RN50")
    (tmp_path / "a.safetensors").write_bytes(b"")
    with pytest.raises(
        MissingError, match=r"is a file of tensors; write a folder from it by 'limner models exp"
    ):
        catalogue.clip_encoder("clip:RN50", weights=tmp_path / "a.safetensors")
    with pytest.raises(ConfigError, match="computes on the CPU, not on cuda"):
        catalogue.image_encoder("clip:RN50", device="cuda")


@pytest.mark.parametrize("name", ["image.bin", "image.xml", "text.bin", "text.xml", "tokenizer.json", CARD])
def test_a_damaged_or_absent_file_is_one_line(tiny_clip, tmp_path, name):
    folder = tmp_path / "clip"

    def use():
        encoder = ClipEncoder(read_clip(folder))
        encoder.encode_text(["a goat"])
        encoder.encode_pixels(np.zeros((1, 32, 32, 3), np.uint8))

    shutil.copytree(tiny_clip.folder, folder)
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[:40] + bytes([content[40] ^ 1]) + content[41:-1])
    with pytest.raises(CheckpointError, match="damaged") as found:
        use()
    assert "\n" not in str(found.value)
    (folder / name).unlink()
    with pytest.raises(MissingError, match="cannot be read"):
        use()


def test_a_folder_of_folders_is_searched_and_what_is_there_is_listed(
    tiny_clip, encoder, monkeypatch, capsys, tmp_path
):
    made = catalogue.image_encoder(tiny_clip.name, weights=tiny_clip.folder.parent, precision="float32")
    square = made.prepare(Image.new("RGB", (80, 40), (200, 10, 10)))
    np.testing.assert_array_equal(
        made.encode_pixels(square[None]).spaces["clip"], encoder.encode_pixels(square[None]).spaces["clip"]
    )
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert catalogue.clip_models() == []
    monkeypatch.setenv("LIMNER_WEIGHTS", str(tiny_clip.folder.parent))
    assert catalogue.clip_models() == [tiny_clip.name]
    assert catalogue.text_encoder(tiny_clip.name).dim == 16
    assert run(["models", "list", "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows[tiny_clip.name]["file"] == str(tiny_clip.folder / "image.xml")
    assert "limner models get" in rows["clip:ViT-B-32-quickgelu"]["missing"]


def test_what_looks_at_a_library_unless_somebody_says(tiny_clip, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert catalogue.usual_encoders() == ["base"]
    place = tmp_path / "limner" / "models"
    shutil.copytree(tiny_clip.folder, place / "a")
    assert catalogue.usual_encoders() == [tiny_clip.name]
    assert catalogue.usual_encoders(language="de") == ["base"]  # which CLIP does not read
    assert catalogue.usual_encoders([tiny_clip.name], "de") == [tiny_clip.name]
    assert catalogue.usual_encoders(["resnet50", "minilm"]) == [tiny_clip.name]
    assert catalogue.usual_encoders(["base", "minilm", "base"]) == ["base"]
    assert catalogue.usual_encoders(["base", "clip:x"]) == ["base", "clip:x"]
    shutil.copytree(tiny_clip.folder, place / "b")
    card = json.loads((place / "b" / CARD).read_text())
    (place / "b" / CARD).write_text(json.dumps({**card, "architecture": "ViT-B-16-quickgelu"}))
    assert catalogue.usual_encoders() == ["clip:ViT-B-16-quickgelu"]  # of those that are published


def test_pictures_that_torch_encoded_are_kept_and_continued(tiny_clip):
    """A library of the same weights, whose pictures were framed in another way."""
    sha256 = WeightFile(tiny_clip.weights).sha256
    made = earlier_fingerprint(NAME, sha256, "float32", "crop")
    folder = read_clip(tiny_clip.folder)
    encoder = ClipEncoder(folder, made=made)
    assert encoder.fingerprint == made
    assert made in ClipEncoder(folder).accepted
    picture = pictures()[3]
    np.testing.assert_array_equal(encoder.prepare(picture), frame(picture, 32, "crop"))
    assert encoder.side_px == 37
    for other in ("0" * 64, ""):
        assert ClipEncoder(folder, made=other).fingerprint == ClipEncoder(folder).fingerprint
    anew = ClipEncoder(folder, precision="bfloat16", made=made)  # asked for: made anew
    assert anew.fingerprint == ClipEncoder(folder).fingerprint
    assert earlier_fingerprint(NAME, "0" * 64, "float32", "crop") not in encoder.accepted


def test_without_the_extra_one_line_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "open_clip", None)
    assert run(["models", "export", "clip:RN50"]) == 1
    assert capsys.readouterr().err.endswith("pip install 'limner[clip]'\n")


def test_exports_that_cannot_be(tiny_clip, tmp_path, capsys):
    assert (
        run(["models", "export", tiny_clip.name, "--weights", str(tiny_clip.weights), "-o", str(tmp_path)])
        == 2
    )
    assert "already exists" in capsys.readouterr().err
    assert run(["models", "export", "a.safetensors", "--weights", "b"]) == 2
    assert "is for a clip:ARCHITECTURE" in capsys.readouterr().err
    target = tmp_path / "made"
    with pytest.raises(ConfigError, match="unknown architecture 'limner-tini'; did you mean 'limner-tiny'"):
        export_clip("clip:limner-tini", tiny_clip.weights, target)
    with pytest.raises(ConfigError, match="comes from another library"):
        export_clip("clip:xlm-roberta-base-ViT-B-32", tiny_clip.weights, target)
    with pytest.raises(MissingError, match=r"needs tokenizer\.json and tokenizer_config\.json beside"):
        export_clip("clip:ViT-B-16-SigLIP", tiny_clip.weights, target)
    with pytest.raises(CheckpointError, match=r"size mismatch|Missing key|Unexpected key"):
        export_clip("clip:ViT-B-32", tiny_clip.weights, target)
    assert not list(tmp_path.iterdir())


def test_what_is_no_clip_is_not_put_in_its_place(tiny_clip, tmp_path):
    """Networks that make vectors of another width, as an upstream change might."""

    def bring(draft) -> ClipCard:
        for name in read_clip(tiny_clip.folder).card.sha256:
            shutil.copy(tiny_clip.folder / name, draft / name)
        return read_clip(tiny_clip.folder).card.model_copy(update={"dim": 512})

    with pytest.raises(
        CheckpointError, match=r"no CLIP that limner can use .*made \(1, 16\) .* expected \(B, 512\)"
    ):
        make_clip(tmp_path / "clip", bring)
    assert not list(tmp_path.iterdir())


SIGLIP = "limner-tiny-siglip"


@pytest.fixture(scope="module")
def siglip(open_clip, tmp_path_factory):
    """A random model with the text side of SigLIP: its own tokenizer, no causal mask, a bias on logits."""
    from safetensors.torch import save_file
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
    text = json.loads(json.dumps(open_clip.get_model_config("ViT-B-16-SigLIP2")["text_cfg"]))
    text |= {"vocab_size": 200, "width": 32, "heads": 1, "layers": 2, "context_length": 16}
    text["hf_tokenizer_name"] = str(folder)
    config = {"embed_dim": 32, "init_logit_bias": -10, "custom_text": True, "text_cfg": text}
    config["vision_cfg"] = {"image_size": 32, "layers": 1, "width": 64, "patch_size": 16}
    (folder / f"{SIGLIP}.json").write_text(json.dumps(config))
    open_clip.add_model_config(folder / f"{SIGLIP}.json")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = open_clip.create_model(SIGLIP, pretrained=None, load_weights=False).eval()
    weights = folder / f"{SIGLIP}.safetensors"
    save_file({key: value.contiguous() for key, value in model.state_dict().items()}, weights)
    return model, weights


def test_a_tokenizer_of_its_own_is_used_as_open_clip_uses_it(open_clip, siglip, tmp_path):
    pytest.importorskip("transformers", reason="open_clip reads such tokenizers through transformers")
    model, weights = siglip
    encoder = ClipEncoder(read_clip(export_clip(f"clip:{SIGLIP}", weights, tmp_path / "clip")))
    texts = ["A goat, on a boat!", "the KETTLE_boils", "rain"]
    tokens = open_clip.get_tokenizer(SIGLIP)(texts)
    np.testing.assert_array_equal(encoder.framed([encoder._pieces(text) for text in texts]), tokens.numpy())
    with torch.inference_mode():
        due = model.encode_text(tokens, normalize=True).numpy()
    assert (encoder.encode_text(texts) * due).sum(axis=1).min() > 0.9999
    with pytest.raises(DataError, match="has no words"):
        encoder.encode_text(["..."])


def test_a_tokenizer_that_is_absent_or_damaged_is_one_line(siglip, tmp_path):
    weights = tmp_path / "weights" / "a.safetensors"
    weights.parent.mkdir()
    shutil.copy(siglip[1], weights)
    with pytest.raises(MissingError, match=f"limner models get clip:{SIGLIP}"):
        export_clip(f"clip:{SIGLIP}", weights, tmp_path / "clip")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(siglip[1].with_name(name), weights.with_name(name))
    weights.with_name("tokenizer.json").write_text("{")
    with pytest.raises(CheckpointError, match="tokenizer damaged"):
        export_clip(f"clip:{SIGLIP}", weights, tmp_path / "clip")


def test_the_published_models_say_how_they_want_their_pictures():
    assert _published("ViT-B-16-SigLIP2") == {"mean": (0.5,) * 3, "std": (0.5,) * 3, "resize_mode": "squash"}
    assert _published("ViT-B-32")["resize_mode"] == "shortest"
    assert _published(NAME) == {}


def test_a_tokenizer_is_written_the_same_each_time():
    assert clip_tokenizer("ViT-B-32") == clip_tokenizer(NAME)
