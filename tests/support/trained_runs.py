"""Tiny trained runs, a folder of drawings, and the library that was made of it.

A plugin of the whole suite: it imports nothing heavy before a fixture is asked for.
"""

import hashlib
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

CONFIG = Path(__file__).parents[2] / "configs" / "cmcm" / "cmcm.toml"
SMALL = ("data.vectors=random", "data.picture_px=32")


def trained(folder: Path, *settings: str, config: Path = CONFIG, data="picturebook", **options) -> Path:
    """A run of seconds, on one thread, with torch's thread count as it was before."""
    import torch

    from limner.research.cli.train import train

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with redirect_stdout(StringIO()):
            train(config, to=folder, data=data, set_=(*SMALL, *settings), smoke=True, **options)
    finally:
        torch.set_num_threads(before)
    return folder


@pytest.fixture(scope="session")
def train_tiny():
    """`trained`, for test files: several folders have a conftest, so none can be imported."""
    return trained


@pytest.fixture(scope="session")
def drawings_run(tmp_path_factory) -> Path:
    """CMCM with linear relations, on drawings."""
    return trained(tmp_path_factory.mktemp("runs") / "linear")


@pytest.fixture(scope="session")
def product_run(tmp_path_factory) -> Path:
    """The same with relations that are not linear, and without attention."""
    folder = tmp_path_factory.mktemp("runs") / "product"
    return trained(folder, "model.relations=product", "model.pooling=none")


@pytest.fixture(scope="session")
def book(tmp_path_factory) -> Path:
    """Drawings of one story with captions, in a folder."""
    from limner.research.worlds import PictureBook
    from limner.research.worlds.book_files import write

    folder = tmp_path_factory.mktemp("book")
    write(folder, PictureBook(3).stories(1, pages=(6, 6)), size_px=64, captions="metadata", distractors=2)
    return folder


@pytest.fixture(scope="session")
def library(tmp_path_factory, book, drawings_run) -> Path:
    """The drawings, indexed with `drawings_run`."""
    from limner.cli.index import index

    folder = tmp_path_factory.mktemp("libraries") / "lib"
    with redirect_stdout(StringIO()):
        index(book, library=folder, encoder=("colour",), model=drawings_run)
    return folder


@pytest.fixture(scope="session")
def backbone_weights(tmp_path_factory) -> Path:
    """A folder with a small backbone's random weights."""
    import torch
    from safetensors.torch import save_file
    from torchvision import models

    folder = tmp_path_factory.mktemp("weights")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        model = models.resnet18(weights=None, num_classes=3)
    save_file(
        {key: value.contiguous() for key, value in model.state_dict().items()},
        folder / "resnet18.safetensors",
    )
    return folder


@pytest.fixture(scope="session")
def photographs(tmp_path_factory) -> Path:
    """Twelve small pictures."""
    import numpy as np
    from PIL import Image

    folder = tmp_path_factory.mktemp("photographs")
    rng = np.random.default_rng(0)
    for number in range(12):
        pixels = rng.integers(0, 255, (6, 8, 3), dtype=np.uint8)
        Image.fromarray(pixels).resize((96, 72)).save(folder / f"IMG_{number:04}.png")
    return folder


@pytest.fixture(scope="session")
def stored_run(tmp_path_factory, photographs, backbone_weights) -> Path:
    """CMCM on stored features of the photographs."""
    from limner.research.datasets.pairs import Pair

    folder = tmp_path_factory.mktemp("stored")
    lines = []
    for number, path in enumerate(sorted(photographs.iterdir())):
        pair = Pair(
            id=str(number),
            text=f"picture {number} of a {'bright' if number % 2 else 'dark'} day",
            image=str(path),
            image_hash=hashlib.sha256(path.read_bytes()).hexdigest(),
            group=str(number),
            split="train" if number < 8 else "val",
            labels={"bright": number % 2},
        )
        lines.append(pair.model_dump_json())
    (folder / "pairs.jsonl").write_text("\n".join(lines) + "\n")
    (folder / "run.toml").write_text(
        'system = "cmcm"\nbackbone = "frozen"\n'
        '[data]\nset = "pairs"\nbackbone = "resnet18"\n[loop]\nmetric = "MRR"\n'
    )
    return trained(
        folder / "run",
        f"data.annotations={folder / 'pairs.jsonl'}",
        f"data.features={folder / 'features'}",
        config=folder / "run.toml",
        data="",
        weights=backbone_weights,
    )
