"""Networks in OpenVINO's own form: what torch makes of pictures, out of files that are checked."""

import shutil

import numpy as np
import pytest
from PIL import Image

from limner.cli.main import run
from limner.encoders.base_encoder import BaseImageEncoder
from limner.encoders.base_file import read_header, shipped_file
from limner.encoders.base_network import picture_rows
from limner.encoders.catalogue import SHIPPED
from limner.encoders.openvino import NETWORK, TENSORS, read_network
from limner.encoders.weight_files import WeightFile
from limner.errors import CheckpointError, ConfigError, MissingError
from limner.files import sha256_of

SQUARES = np.random.default_rng(1).integers(0, 256, (3, 260, 260, 3), dtype=np.uint8)


def cosines(file, found, due):
    """Smallest cosine of each of the two spaces in rows that hold them side by side."""
    width = read_header(file.path).shape.width
    parts = [
        (a / np.linalg.norm(a, axis=1, keepdims=True), b / np.linalg.norm(b, axis=1, keepdims=True))
        for a, b in ((found[:, :width], due[:, :width]), (found[:, width:], due[:, width:]))
    ]
    return [float((a * b).sum(axis=1).min()) for a, b in parts]


@pytest.mark.slow
@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_network_makes_what_torch_makes(name):
    file = shipped_file(name)
    found = read_network(file.path.with_suffix(NETWORK), file.sha256, "float32")(SQUARES)
    due = picture_rows(file.path, "float32", "cpu")(SQUARES)
    assert min(cosines(file, found, due)) > 0.9999


@pytest.mark.shared
@pytest.mark.slow
@pytest.mark.parametrize("name", SHIPPED)
def test_photographs_have_torch_s_vectors(shared_data, name):
    file = shipped_file(name)
    folder = shared_data / "flickr8k" / "images"
    prepare = BaseImageEncoder(name, file).prepare
    photographs = np.stack(
        [prepare(Image.open(path).convert("RGB")) for path in sorted(folder.iterdir())[:6]]
    )
    due = picture_rows(file.path, "float32", "cpu")(photographs)
    half = picture_rows(file.path, "bfloat16", "cpu")(photographs)
    found = [
        cosines(file, read_network(file.path.with_suffix(NETWORK), file.sha256, precision)(photographs), due)
        for precision in ("float32", "bfloat16")
    ]
    assert min(found[0]) > 0.9999
    # Products of half the bits take as much from a vector here as they do in torch.
    for here, torch_s in zip(found[1], cosines(file, half, due), strict=True):
        assert 1 - here < 1.5 * (1 - torch_s)


@pytest.mark.parametrize("name", SHIPPED)
def test_the_card_names_the_hashes_of_the_files(name):
    network = shipped_file(name).path.with_suffix(NETWORK)
    card = (network.parent / "base.md").read_text(encoding="utf-8")
    for path in (network, network.with_suffix(TENSORS)):
        assert sha256_of(path) in card


@pytest.fixture
def copied(tmp_path):
    """The shipped files of base-free, to be spoilt."""
    file = shipped_file("base-free")
    for path in (file.path, *(file.path.with_suffix(end) for end in (NETWORK, TENSORS))):
        shutil.copy(path, tmp_path)
    return WeightFile(tmp_path / file.path.name)


def test_a_damaged_or_foreign_network_is_refused_in_one_line(copied):
    network = copied.path.with_suffix(NETWORK)
    tensors = network.with_suffix(TENSORS)
    with pytest.raises(CheckpointError, match=r"made of the weights .*'limner models export'"):
        read_network(network, "0" * 64, "float32")
    whole = tensors.read_bytes()
    tensors.write_bytes(whole[:5000] + bytes([whole[5000] ^ 1]) + whole[5001:])
    with pytest.raises(CheckpointError, match=r"base-free\.bin: damaged"):
        read_network(network, copied.sha256, "float32")
    tensors.write_bytes(whole[:5000])
    with pytest.raises(CheckpointError, match="damaged"):
        read_network(network, copied.sha256, "float32")
    network.write_text("<net>")
    with pytest.raises(CheckpointError, match=r"base-free\.xml: damaged"):
        read_network(network, copied.sha256, "float32")
    tensors.unlink()
    with pytest.raises(MissingError, match=r"base-free\.bin: cannot be read"):
        read_network(network, copied.sha256, "float32")


@pytest.mark.slow
def test_export_writes_the_network_of_weights_again(copied, capsys):
    network = copied.path.with_suffix(NETWORK)
    due = read_network(network, copied.sha256, "float32")(SQUARES)
    network.unlink()
    network.with_suffix(TENSORS).unlink()
    assert run(["models", "export", str(copied.path)]) == 0
    assert "base-free.bin: the image encoder, 12,3" in capsys.readouterr().err
    np.testing.assert_allclose(read_network(network, copied.sha256, "float32")(SQUARES), due, atol=1e-6)


def test_export_says_which_files_it_writes(copied):
    from limner.cli.models import export

    with pytest.raises(ConfigError, match="leave --output out"):
        export(copied.path, output=copied.path)
    with pytest.raises(ConfigError, match=r"with -o NAME\.safetensors"):
        export(copied.path.parent)
