"""Faster R-CNN with random weights on tiny pictures: the plumbing, and torchvision's own output."""

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file
from torchvision.models import detection

from limner.errors import CheckpointError, ConfigError, DataError, MissingError
from limner.research.scenes.faster_rcnn import FasterRCNN, coco_classes
from limner.research.scenes.folder import detector, read_classes

pytestmark = pytest.mark.slow

NAME = "fasterrcnn_mobilenet_v3_large_320_fpn"
CLASSES = ("dog", "cat", "cup")


@pytest.fixture(scope="module")
def random_model():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return getattr(detection, NAME)(
            weights=None,
            weights_backbone=None,
            num_classes=4,
            box_score_thresh=0.0,
        ).eval()


@pytest.fixture(scope="module")
def picture():
    return Image.fromarray(np.random.default_rng(0).integers(0, 255, (48, 64, 3), dtype=np.uint8))


@pytest.fixture(scope="module")
def finder(random_model):
    return FasterRCNN(NAME, random_model.state_dict(), "ab" * 32, classes=CLASSES)


def test_boxes_are_torchvisions_as_fractions(finder, random_model, picture):
    (found,) = finder.detect([picture])
    with torch.inference_mode():
        (own,) = random_model([torch.from_numpy(np.array(picture)).permute(2, 0, 1).float() / 255])
    sure = own["scores"] > 0.05
    assert len(found) == int(sure.sum()) > 0
    np.testing.assert_allclose(
        found.boxes * [64, 48, 64, 48], own["boxes"][sure].numpy(), rtol=1e-4, atol=1e-4
    )
    assert found.labels == tuple(CLASSES[number - 1] for number in own["labels"][sure].tolist())
    np.testing.assert_allclose(found.scores, own["scores"][sure].numpy(), rtol=1e-5)


def test_weights_come_from_a_file_and_names_from_another(random_model, tmp_path):
    state = {key: value.contiguous() for key, value in random_model.state_dict().items()}
    save_file(state, tmp_path / f"{NAME}.safetensors")
    (tmp_path / "names.txt").write_text("dog\ncat\ncup\n")
    names = read_classes(tmp_path / "names.txt")
    made = detector(NAME, weights=tmp_path, classes=names)
    assert (made.name, made.side_px) == (NAME, 320)
    with pytest.raises(CheckpointError, match="3 classes, but 90 names given"):
        detector(NAME, weights=tmp_path)
    with pytest.raises(CheckpointError, match="3 classes, but 2 names"):
        detector(NAME, weights=tmp_path, classes=["dog", "cat"])
    with pytest.raises(MissingError, match="pass --weights FILE"):
        detector(NAME, weights=tmp_path / "none")


def test_weights_of_another_architecture_are_refused(random_model):
    with pytest.raises(CheckpointError, match="another architecture"):
        FasterRCNN("fasterrcnn_resnet50_fpn", random_model.state_dict(), "ab", classes=CLASSES)
    with pytest.raises(CheckpointError, match="expected weights of a Faster R-CNN"):
        FasterRCNN(NAME, {}, "ab", classes=CLASSES)
    with pytest.raises(ConfigError, match="did you mean"):
        detector("fasterrcnn_resnet50")


def test_frozen_batch_norm_adds_nothing_where_torchvision_adds_nothing():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        own = detection.fasterrcnn_resnet50_fpn(weights=None, weights_backbone=None, num_classes=4)
    state = {key: value for key, value in own.state_dict().items() if "num_batches" not in key}
    frozen = FasterRCNN("fasterrcnn_resnet50_fpn", state, "ab", classes=CLASSES)
    trained = FasterRCNN("fasterrcnn_resnet50_fpn", own.state_dict(), "ab", classes=CLASSES)
    assert frozen._model.backbone.body.bn1.eps == 0
    assert trained._model.backbone.body.bn1.eps > 0


def test_coco_has_eighty_names_in_ninety_one_numbers():
    assert len(coco_classes()) == 80
    assert coco_classes()[:4] == ("person", "bicycle", "car", "motorcycle")
    assert len(coco_classes(gaps=True)) == 91


@pytest.mark.parametrize("content", [b"", b"\n", b"dog\n\ncat\n", b"dog\ndog\n", b"\xff"])
def test_a_wrong_list_of_names_is_refused(tmp_path, content):
    (tmp_path / "names.txt").write_bytes(content)
    with pytest.raises((ConfigError, DataError), match=r"names\.txt"):
        read_classes(tmp_path / "names.txt")
    with pytest.raises(MissingError):
        read_classes(tmp_path / "none")


def test_a_batch_finds_what_single_pictures_show(finder):
    """Sizes that share a frame, sizes that do not, and one that a larger frame would change."""
    random = np.random.default_rng(1)
    sizes = [(64, 48), (48, 64), (60, 47), (64, 48), (90, 40)]
    pictures = [
        Image.fromarray(random.integers(0, 255, (height, width, 3), dtype=np.uint8))
        for width, height in sizes
    ]
    together = finder.detect(pictures)
    assert len(together) == len(pictures)
    for own, picture in zip(together, pictures, strict=True):
        (alone,) = finder.detect([picture])
        assert own.labels == alone.labels
        assert len(own) > 0
        np.testing.assert_allclose(own.boxes, alone.boxes, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(own.scores, alone.scores, rtol=1e-4, atol=1e-6)
    assert finder.detect([]) == []


def test_pictures_of_one_frame_go_through_the_network_together(finder, picture, monkeypatch):
    seen = []
    backbone = finder._model.backbone.forward
    monkeypatch.setattr(
        finder._model.backbone, "forward", lambda batch: seen.append(len(batch)) or backbone(batch)
    )
    finder.detect([picture, picture.rotate(90, expand=True), picture])
    assert sorted(seen) == [1, 2]
