"""Fetching a published CLIP from a server in the layout of Hugging Face: a whole folder or none."""

import json
import shutil
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image, ImageDraw

import limner
from limner.cli.main import run
from limner.encoders import catalogue, downloads
from limner.encoders.clip_files import CARD, HINT, PUBLISHED, find_clip_folder, folder_of, read_clip
from limner.errors import CheckpointError, ConfigError, MissingError
from limner.files import sha256_of
from tiny_clip import publish

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("open_clip") is None, reason="needs the extra 'clip'"),
]
USUAL = PUBLISHED[0]


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    folder = tmp_path_factory.mktemp("repository")
    publish(folder / "plain")
    publish(folder / "masked", mask=True)
    return folder


@pytest.fixture
def server(repository, tmp_path, monkeypatch):
    """Serves files under their repositories, by way of a redirect; a person who has none of them yet."""
    files = {f"/{USUAL.image[0]}/resolve/main/{path}": repository / "plain" / path for path in NAMES}

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_):
            pass

        def do_GET(self):
            made.seen.append(self.path)
            if self.path in files:
                self.send_response(302)
                self.send_header("Location", f"/cdn{self.path}")
                self.end_headers()
                return
            path = files.get(self.path.removeprefix("/cdn"))
            content = path.read_bytes() if path else b""
            self.send_response(200 if path else 404)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content[: made.most])

    made = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.daemon_threads = True
    made.seen, made.files, made.most = [], files, None
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{made.server_port}/")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.delenv("LIMNER_WEIGHTS", raising=False)
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


NAMES = [path for _, path in (USUAL.image, USUAL.text, USUAL.tokenizer, USUAL.preprocessing)]


def left(tmp_path):
    return [path for path in (tmp_path / "data").rglob("*") if path.is_file()]


def test_one_command_brings_a_clip_that_works(server, capsys):
    assert run(["models", "get", "clip"]) == 0
    said = capsys.readouterr().err.splitlines()
    folder = folder_of(USUAL.architecture)
    assert said[0] == (
        f"clip:ViT-B-32-quickgelu@fp16: 305 MB from huggingface.co/{USUAL.image[0]}"
        f" (licence: {USUAL.licence}), into {folder}"
    )
    assert said[-2:] == [
        f"clip: {folder}",
        "New libraries use it. For an existing library: limner index --encoder clip:ViT-B-32-quickgelu",
    ]
    card = read_clip(folder).card
    assert sorted(path.name for path in folder.iterdir()) == [
        CARD,
        "image.onnx",
        "text.onnx",
        "tokenizer.json",
    ]
    assert card.sha256 == {
        name: sha256_of(folder / name) for name in ("image.onnx", "text.onnx", "tokenizer.json")
    }
    assert (card.side_px, card.mean, card.std) == (32, (0.5, 0.4, 0.3), (0.2, 0.3, 0.4))
    assert (card.resize, card.interpolation, card.dim, card.context) == ("shortest", "bicubic", 512, 77)
    encoder = catalogue.clip_encoder("clip:ViT-B-32-quickgelu")
    red, other, blue = encoder.encode_pixels(
        np.stack(
            [encoder.prepare(Image.new("RGB", (50, 40), colour)) for colour in ("red", "#fe0000", "blue")]
        )
    ).spaces["clip"]
    assert red @ other > 0.999
    assert red @ blue < 0.9
    assert encoder.encode_text(["a goat"]).shape == (1, 512)
    server.seen.clear()
    assert run(["models", "get", "clip:ViT-B-32-quickgelu"]) == 0  # it is there, and whole
    assert server.seen == []
    with pytest.raises(CheckpointError, match=r"remove the folder to replace it with .*Qdrant"):
        downloads.fetch_weights("clip:ViT-B-32-quickgelu@fp32")
    (folder / "text.onnx").write_bytes(b"")
    with pytest.raises(CheckpointError, match="damaged"):
        downloads.fetch_weights("clip")


def test_a_text_network_may_take_a_mask(server, repository, tmp_path):
    for path in NAMES:
        server.files[f"/{USUAL.image[0]}/resolve/main/{path}"] = repository / "masked" / path
    downloads.fetch_weights("clip", tmp_path / "here")
    encoder = catalogue.clip_encoder("clip:ViT-B-32-quickgelu", weights=tmp_path / "here")
    lone, both = encoder.encode_text(["goat", "goat kettle"])
    assert lone @ both < 0.99
    assert find_clip_folder("clip:ViT-B-32-quickgelu", tmp_path / "here").path == folder_of(
        USUAL.architecture, tmp_path / "here"
    )


@pytest.mark.parametrize("path", NAMES)
def test_what_does_not_come_whole_leaves_nothing(server, tmp_path, path):
    place = f"/{USUAL.image[0]}/resolve/main/{path}"
    content = server.files[place].read_bytes()
    server.files[place] = tmp_path / "bad"
    for bad in (b"", b"x" * 100, content[: len(content) // 2]):
        (tmp_path / "bad").write_bytes(bad)
        with pytest.raises(CheckpointError) as found:
            downloads.fetch_weights("clip")
        assert "\n" not in str(found.value)
        assert left(tmp_path) == []
    del server.files[place]
    with pytest.raises(MissingError, match="HTTP 404"):
        downloads.fetch_weights("clip")
    server.files[place], server.most = tmp_path / "bad", 20  # the connection ends early
    with pytest.raises(MissingError, match="connection failed"):
        downloads.fetch_weights("clip")
    assert left(tmp_path) == []


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({"resample": 0}, "0"),
        ({"size": {"height": 32, "width": 32}}, "scales to another size"),
        ({"size": {"shortest_edge": 48}}, "scales to another size"),
        ({"do_center_crop": False}, "cuts no square out"),
        ({"image_mean": [1, 2]}, "not enough values"),
    ],
)
def test_preprocessing_that_limner_does_not_do_is_refused(server, repository, tmp_path, said, reason):
    content = json.loads((repository / "plain" / "preprocessor_config.json").read_text())
    (tmp_path / "said").write_text(json.dumps({**content, **said}))
    server.files[f"/{USUAL.image[0]}/resolve/main/preprocessor_config.json"] = tmp_path / "said"
    with pytest.raises(CheckpointError, match=f"not the preprocessing of a CLIP .*{reason}"):
        downloads.fetch_weights("clip")


def test_a_folder_that_cannot_be_written_is_told(server, tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(MissingError, match="cannot be written"):
        downloads.fetch_weights("clip", tmp_path / "file")


def test_names_that_are_not_published(monkeypatch):
    with pytest.raises(ConfigError, match="unknown weights 'fp64'; did you mean"):
        downloads.offered("clip:ViT-B-32-quickgelu@fp64")
    with pytest.raises(ConfigError, match="unknown downloadable model 'clop'"):
        downloads.offered("clop")
    assert str(downloads.offered("clip:ViT-B-32-quickgelu@fp32")).startswith(
        "clip:ViT-B-32-quickgelu@fp32: 608 MB from huggingface.co/Qdrant/clip-ViT-B-32-vision and "
    )


def test_other_models_of_open_clip_are_fetched_and_exported(monkeypatch, tiny_clip, tmp_path, capsys):
    open_clip = pytest.importorskip("open_clip")
    asked, repository = [], "laion/CLIP-ViT-B-32-DataComp.XL-s13B-b90K"

    def info(name, *, files_metadata):
        files = {"README.md": 9, "open_clip_pytorch_model.bin": 7, "open_clip_model.safetensors": 605_143_316}
        siblings = [SimpleNamespace(rfilename=name, size=size) for name, size in files.items()]
        return SimpleNamespace(siblings=siblings, card_data={"license": "mit"})

    def download(settings):
        asked.append((settings["hf_hub"].rstrip("/"), capsys.readouterr().err))
        return tmp_path / "tensors"

    def export(name, weights, target):
        shutil.copytree(tiny_clip.folder, target)
        asked.append((name, weights))
        return target

    monkeypatch.setattr("huggingface_hub.model_info", info)
    monkeypatch.setattr(open_clip, "download_pretrained", download)
    monkeypatch.setattr("limner.encoders.clip_export.export_clip", export)
    assert run(["models", "get", "clip:ViT-B-32", "--to", str(tmp_path)]) == 0
    first = (
        f"clip:ViT-B-32@datacomp_xl_s13b_b90k: 605 MB from huggingface.co/{repository} (licence: mit),"
        f" into {tmp_path / 'clip-ViT-B-32'}\n"
    )
    assert asked == [(repository, first), ("clip:ViT-B-32", tmp_path / "tensors")]
    with pytest.raises(ConfigError, match="has several weights; name one: clip:MobileCLIP-B@"):
        downloads.fetch_weights("clip:MobileCLIP-B")
    with pytest.raises(ConfigError, match="unknown weights 'laion2b'"):
        downloads.fetch_weights("clip:ViT-B-32@laion2b")
    with pytest.raises(ConfigError, match="no weights of RN50 are published under its name"):
        downloads.fetch_weights("clip:RN50")
    monkeypatch.setattr(open_clip, "download_pretrained", lambda _: 1 / 0)
    with pytest.raises(MissingError, match=r"could not be fetched \(division by zero\)"):
        downloads.fetch_weights("clip:ViT-B-32")
    monkeypatch.setattr("huggingface_hub.model_info", lambda *_, **__: 1 / 0)
    monkeypatch.setattr(open_clip, "download_pretrained", lambda _: pytest.fail("downloaded unannounced"))
    assert run(["models", "get", "clip:ViT-B-32"]) == 1
    assert "could not be fetched" in capsys.readouterr().err


def test_a_tokenizer_of_its_own_is_fetched_with_the_weights(monkeypatch, tmp_path):
    open_clip = pytest.importorskip("open_clip")
    from limner.encoders.clip_export import fetch_clip

    asked = []
    monkeypatch.setattr(open_clip, "download_pretrained", lambda settings: asked.append(settings) or tmp_path)
    monkeypatch.setattr("huggingface_hub.hf_hub_download", lambda *words: asked.append(words))
    assert fetch_clip("ViT-B-16-SigLIP2") == tmp_path
    assert asked[0]["hf_hub"] == "timm/ViT-B-16-SigLIP2/"
    repository = "timm/ViT-B-16-SigLIP2"
    assert asked[1:] == [(repository, "tokenizer.json"), (repository, "tokenizer_config.json")]


def test_what_comes_from_torchvision_is_said_first(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(
        "limner.encoders.downloads.fetch_file", lambda address, folder, report: folder / "file"
    )
    assert run(["models", "get", "resnet50", "--to", str(tmp_path)]) == 0
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("resnet50: 103 MB from download.pytorch.org (licence: BSD 3-Clause")
    assert first.endswith(f"into {tmp_path}")
    assert str(tmp_path / "file") in second


@pytest.fixture
def pictures(tmp_path):
    folder = tmp_path / "pictures"
    folder.mkdir()
    for number, colour in enumerate(("red", "green", "blue", "yellow")):
        image = Image.new("RGB", (90, 60), colour)
        ImageDraw.Draw(image).ellipse((10 + 9 * number, 10, 60, 50), fill="white")
        image.save(folder / f"IMG_{number:04d}.png")
    (tmp_path / "text.md").write_text("A red plate.\n\n---\n\nA blue sky.\n")
    return folder


def test_once_fetched_it_takes_the_place_of_base_in_new_libraries(server, tmp_path, pictures, capsys):
    before, after = ["--library", str(tmp_path / "before")], ["--library", str(tmp_path / "after")]
    assert run(["index", str(pictures), *before]) == 0
    assert capsys.readouterr().err.count(HINT) == 1
    assert run(["index", str(pictures), *before]) == 0  # told once
    assert run(["models", "get", "clip"]) == 0
    assert run(["index", str(pictures), *after]) == 0
    assert run(["index", str(pictures), *before]) == 0
    assert HINT not in capsys.readouterr().err
    spaces = limner.Library(tmp_path / "after").store.settings.spaces
    assert spaces["clip"].encoder == "clip:ViT-B-32-quickgelu"
    assert not {"base", "looks"} & set(spaces)
    assert "clip" not in limner.Library(tmp_path / "before").store.settings.spaces  # it keeps to what it has
    assert run(["search", "a red plate", *after]) == 0
    assert "IMG_" in capsys.readouterr().out
    page = tmp_path / "page.json"
    text = str(tmp_path / "text.md")
    assert run(["illustrate", text, *after, "-o", str(page), "--show", "always"]) == 0
    board = json.loads(page.read_text())
    assert [set(step["chosen"]["channels"]) for step in board["steps"]] == [{"clip"}] * 2
    shutil.rmtree(tmp_path / "data")
    capsys.readouterr()
    assert run(["search", "a red plate", *after]) == 1
    assert "run 'limner models get clip:ViT-B-32-quickgelu'" in capsys.readouterr().err


def test_every_command_takes_a_folder_that_lies_nowhere_in_particular(tiny_clip, tmp_path, pictures, capsys):
    weights = ["--weights", f"{tiny_clip.name}={tiny_clip.folder}"]
    lib = ["--library", str(tmp_path / "lib")]
    assert run(["index", str(pictures), *lib, "--encoder", tiny_clip.name, *weights]) == 0
    for words in (
        ["search", "red"],
        ["illustrate", str(tmp_path / "text.md"), "-o", str(tmp_path / "a.json")],
    ):
        capsys.readouterr()
        assert run([*words, *lib]) == 1
        assert f"no weights of {tiny_clip.name}" in capsys.readouterr().err
        assert run([*words, *lib, *weights]) == 0, capsys.readouterr().err
    opened = limner.Library(tmp_path / "lib", weights=weights[1:])
    assert len(opened.search("red", 3)) == 3
    assert set(opened.add(pictures).encoded.values()) == {0}  # nothing is made anew


def test_pictures_with_and_without_words_are_chosen_by_both(tiny_clip, tmp_path, pictures, monkeypatch):
    """CLIP stands where base stood: beside captions, and alone where a picture has none."""
    monkeypatch.setenv("LIMNER_WEIGHTS", str(tiny_clip.folder))
    (pictures / "IMG_0000.txt").write_text("A red plate on a table.")
    library = limner.Library(tmp_path / "lib")
    library.add(pictures)
    assert {"captions", "clip"} <= set(library.store.settings.spaces)
    board = library.illustrate("A red plate on a table.\n\nWaves roll in.")
    said = {one.picture.path.rpartition("/")[2]: set(one.channels) for one in board.steps[0].runners_up}
    said |= {board.steps[0].chosen.picture.path.rpartition("/")[2]: set(board.steps[0].chosen.channels)}
    assert said.pop("IMG_0000.png") == {"captions", "clip"}
    assert said  # which of the others are told depends on the weights, which are drawn
    assert set(map(frozenset, said.values())) == {frozenset({"clip"})}
    assert board.steps[0].chosen.picture.path.endswith("IMG_0000.png")
