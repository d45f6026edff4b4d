"""The files that limner ships: they are those whose figures the model card reports."""

import numpy as np
import pytest
import torch

from limner.encoders.base_encoder import shipped_file
from limner.encoders.base_network import load_base
from limner.encoders.catalogue import MULTILINGUAL, sentence_encoder

# SHA-256, and the first four numbers of a picture, its looks, an English and a German sentence
SHIPPED = {
    "base": (
        "41a162bf7526db8d983b833b3bce55e0675cf051b7ea3707a7ca9ecf6bd3550f",
        (-0.0214, 0.0584, -0.0453, 0.0168),
        (-0.0120, 0.0722, -0.0045, 0.0068),
        (-0.0555, 0.0194, -0.0174, -0.0051),
        (0.0116, 0.0108, 0.0059, -0.0326),
    ),
    "base-free": (
        "2abdd5edddbfab09ae04306b771f1683fe059980113d35d88883a2ed56bcba21",
        (-0.0032, -0.0475, 0.0156, 0.0263),
        (0.0013, 0.0212, -0.0510, 0.0317),
        (-0.0760, 0.0121, -0.0630, 0.0585),
        (-0.0235, -0.0438, -0.0565, -0.0383),
    ),
}


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_file_is_the_one_that_was_measured(name):
    file = shipped_file(name)
    sha256, picture, look, english, german = SHIPPED[name]
    assert file.sha256 == sha256
    assert file.path.stat().st_size <= 6_000_000
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
    for found, due in ((joint, picture), (looks, look), (told, english), (also, german)):
        np.testing.assert_allclose(found[0, :4].numpy(), due, atol=2e-3)
        assert float(found.norm()) == pytest.approx(1, abs=1e-5)
    card = (file.path.parent / "base.md").read_text(encoding="utf-8")
    assert sha256 in card
