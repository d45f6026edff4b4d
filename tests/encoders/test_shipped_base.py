"""The files that limner ships: they are those whose figures the model card reports."""

import numpy as np
import pytest
import torch

from limner.encoders.base_file import BaseTextEncoder, shipped_file
from limner.encoders.base_network import load_base
from limner.encoders.catalogue import MULTILINGUAL, sentence_encoder

# SHA-256, and the first four numbers of a picture, its looks, an English sentence by MiniLM alone and as a
# library reads it, and a German sentence
SHIPPED = {
    "base": (
        "fbfd42c29b419c0f0b7454075fde62361f75b9e0295ca978e6021656f3032cbc",
        (-0.0646, 0.0371, -0.0354, 0.0387),
        (0.0047, 0.0546, -0.0248, 0.0339),
        (-0.0680, 0.0485, -0.0189, 0.0307),
        (-0.0665, 0.0410, -0.0012, -0.0006),
        (0.0119, 0.0210, -0.0178, 0.0013),
    ),
    "base-free": (
        "2abdd5edddbfab09ae04306b771f1683fe059980113d35d88883a2ed56bcba21",
        (-0.0032, -0.0475, 0.0156, 0.0263),
        (0.0013, 0.0212, -0.0510, 0.0317),
        (-0.0760, 0.0121, -0.0630, 0.0585),
        (-0.0760, 0.0121, -0.0630, 0.0585),
        (-0.0235, -0.0438, -0.0565, -0.0383),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_file_is_the_one_that_was_measured(name):
    file = shipped_file(name)
    sha256, picture, look, english, whole, german = SHIPPED[name]
    assert file.sha256 == sha256
    assert file.path.stat().st_size <= 10_000_000
    net = load_base(file.path)
    rows, columns = np.mgrid[:260, :260]
    pixels = np.stack([columns % 64 * 4, rows % 64 * 4, (rows + columns) % 128 * 2], axis=2).astype(np.uint8)
    with torch.no_grad():
        features = net.features(torch.from_numpy(pixels[None]))
        joint, looks = net.joint(features), net.looks(features)
        told = net.sentence(torch.from_numpy(sentence_encoder().encode_text(["a dog runs on the beach"])))
        also = net.foreign(
            torch.from_numpy(sentence_encoder(MULTILINGUAL).encode_text(["ein Hund rennt am Strand"]))
        )
    read = torch.from_numpy(
        BaseTextEncoder(name, file, sentence_encoder()).encode_text(["a dog runs on the beach"])
    )
    for found, due in ((joint, picture), (looks, look), (told, english), (read, whole), (also, german)):
        np.testing.assert_allclose(found[0, :4].numpy(), due, atol=2e-3)
        assert float(found.norm()) == pytest.approx(1, abs=1e-5)
    card = (file.path.parent / "base.md").read_text(encoding="utf-8")
    assert sha256 in card
