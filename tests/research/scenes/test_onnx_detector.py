"""Detectors from files: models made up on the spot whose boxes are known, and files that are none."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from limner.errors import CheckpointError, ConfigError, MissingError
from limner.research.scenes.detections import keep
from limner.research.scenes.folder import detector
from limner.research.scenes.onnx import CUDA, OnnxDetector, letterboxed, squashed

openvino = pytest.importorskip("openvino", reason="OpenVINO is not installed")


def made_up(folder, outputs, shape=(1, 3, 32, 32), name="made_up"):
    """A model that answers every picture with constants; it must use its input, so it adds 0 × its mean."""
    from openvino import opset13 as ops

    pixels = ops.parameter(list(shape), np.float32, name="images")
    nothing = ops.multiply(ops.reduce_mean(pixels, np.arange(len(shape)), keep_dims=False), np.float32(0))
    results = [ops.result(ops.add(ops.constant(value), nothing)) for value in outputs]
    openvino.save_model(
        openvino.Model(results, [pixels], name), folder / f"{name}.xml", compress_to_fp16=False
    )
    return folder / f"{name}.xml"


def yolox_output():
    output = np.zeros((1, 21, 7), np.float32)
    output[0, 5] = [0.5, 0.5, 0, 0, 1, 0.75, 0.5]  # stride 8, second cell of the second row: 8 to 16
    return output


def test_boxes_are_fractions_of_the_picture_and_not_of_the_square(tmp_path):
    finder = OnnxDetector(made_up(tmp_path, [yolox_output()]), ["dog", "cat"])
    wide, square = finder.detect([Image.new("RGB", size) for size in ((64, 32), (20, 20))])
    assert wide.labels == square.labels == ("dog",)
    assert wide.scores.tolist() == [0.75]
    # the wide picture takes the upper half of the square
    np.testing.assert_allclose(wide.boxes, [[0.25, 0.5, 0.5, 1.0]], rtol=1e-6)
    np.testing.assert_allclose(square.boxes, [[0.25, 0.25, 0.5, 0.5]], rtol=1e-6)
    assert (finder.side_px, finder.name) == (32, "made_up")


def test_a_picodet_model_is_told_by_its_outputs(tmp_path):
    counts = (16, 4, 1, 1)
    scores = [np.zeros((1, count, 2), np.float32) for count in counts]
    sides = [np.zeros((1, count, 8), np.float32) for count in counts]  # two bins, evenly: half a stride
    scores[0][0, 5, 1] = 0.5
    finder = OnnxDetector(made_up(tmp_path, [*scores, *sides]), ["dog", "cat"])
    (found,) = finder.detect([Image.new("RGB", (64, 32))])
    assert found.labels == ("cat",)
    np.testing.assert_allclose(found.boxes, [[0.25, 0.25, 0.5, 0.5]], rtol=1e-6)


def test_what_is_wrong_with_a_file_is_one_line(tmp_path, executable_payload):
    path = made_up(tmp_path, [yolox_output()])
    with pytest.raises(CheckpointError, match="has 2 classes, but 80 names"):
        detector(str(path))
    with pytest.raises(CheckpointError, match="expected \\(1, 3, side, side\\)"):
        OnnxDetector(made_up(tmp_path, [yolox_output()], shape=(1, 3, 32, 64), name="wide"), ["dog", "cat"])
    with pytest.raises(CheckpointError, match="expected YOLOX"):
        OnnxDetector(made_up(tmp_path, [yolox_output()[:, :9]], name="short"), ["dog", "cat"])
    with pytest.raises(MissingError, match="no detector"):
        detector(str(tmp_path / "none.onnx"))
    for content in (b"", b"rubbish", executable_payload(tmp_path / "ran")):
        (tmp_path / "bad.onnx").write_bytes(content)
        with pytest.raises(CheckpointError, match="no detector of fixed size") as error:
            detector(str(tmp_path / "bad.onnx"))
        assert "\n" not in str(error.value)
    assert not (tmp_path / "ran").exists()


def test_fingerprints_change_with_the_names_and_the_file(tmp_path):
    path = made_up(tmp_path, [yolox_output()])
    first = OnnxDetector(path, ["dog", "cat"])
    assert first.fingerprint == OnnxDetector(path, ["dog", "cat"]).fingerprint
    assert first.fingerprint != OnnxDetector(path, ["cat", "dog"]).fingerprint
    other = OnnxDetector(made_up(tmp_path, [yolox_output() / 2], name="other"), ["dog", "cat"])
    assert first.fingerprint != other.fingerprint


def test_a_file_is_found_by_its_name_where_weights_lie(tmp_path, monkeypatch):
    made_up(tmp_path, [yolox_output()])
    monkeypatch.setenv("LIMNER_WEIGHTS", str(tmp_path))
    assert detector("made_up.xml", classes=["dog", "cat"]).name == "made_up"
    with pytest.raises(ConfigError, match="did you mean 'fasterrcnn_resnet50_fpn'"):
        detector("fasterrcnn_resnet50")


def test_pixels_go_in_as_the_families_were_trained():
    image = Image.new("RGB", (4, 2), (10, 20, 30))
    pixels, size = letterboxed(image, 8)
    assert size == (8, 4)
    assert pixels[:, 0, 0].tolist() == [30, 20, 10]
    assert (pixels[:, 4:] == 114).all()
    np.testing.assert_allclose(
        squashed(image, 8)[:, 7, 7],
        (np.array([10, 20, 30]) / 255 - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225],
        rtol=1e-5,
    )


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.parametrize("name", ["yolox_nano", "picodet_s_416_coco"])
def test_a_real_detector_sees_the_people_and_the_dog(shared_data, name):
    weights = shared_data.parent / "weights" / f"{name}.onnx"
    if not weights.is_file():
        pytest.skip(f"no {weights}")
    folder = shared_data / "flickr8k" / "images"
    finder = detector(str(weights))
    with Image.open(folder / "1007129816_e794419615.jpg") as one:
        (man,) = finder.detect([one.convert("RGB")])
    kept = keep(man)
    assert kept.labels[0] == "person"
    assert kept.boxes[0][2] - kept.boxes[0][0] > 0.4


def reading(folder):
    """A YOLOX model that is as sure of its one thing as a picture is bright."""
    from openvino import opset13 as ops

    pixels = ops.parameter([1, 3, 32, 32], np.float32, name="images")
    bright = ops.divide(ops.reduce_mean(pixels, np.arange(4), keep_dims=False), np.float32(255))
    there = np.zeros((1, 21, 7), np.float32)
    there[0, 5, 4] = 1
    result = ops.add(ops.constant(yolox_output() - there), ops.multiply(ops.constant(there), bright))
    openvino.save_model(
        openvino.Model([ops.result(result)], [pixels], "reading"),
        folder / "reading.xml",
        compress_to_fp16=False,
    )
    return folder / "reading.xml"


@pytest.mark.parametrize("count", [0, 1, 9])
def test_a_batch_finds_what_single_pictures_show(tmp_path, count):
    finder = OnnxDetector(reading(tmp_path), ["dog", "cat"])
    pictures = [Image.new("RGB", (32, 20 + place), (25 * place + 30,) * 3) for place in range(count)]
    together = finder.detect(pictures)
    assert len(together) == count
    for own, picture in zip(together, pictures, strict=True):
        (alone,) = finder.detect([picture])
        assert own.labels == alone.labels == ("dog",)
        np.testing.assert_array_equal(own.boxes, alone.boxes)
        np.testing.assert_array_equal(own.scores, alone.scores)
    scores = [float(found.scores[0]) for found in together]
    assert scores == sorted(scores)
    assert len(set(scores)) == count


class Session:
    """What ONNX Runtime would be on a card: sees one thing, as sure as a picture is bright."""

    asked, batches, axis = [], [], "batch"

    def __init__(self, path, providers):
        self.asked.append(providers)

    def get_inputs(self):
        return [SimpleNamespace(name="images", shape=[self.axis, 3, 32, 32])]

    def run(self, names, given):
        pixels = given["images"]
        self.batches.append(len(pixels))
        found = np.repeat(yolox_output(), len(pixels), axis=0)
        found[:, 5, 4] = pixels.mean(axis=(1, 2, 3)) / 255
        return [found]


@pytest.mark.parametrize(("axis", "batches"), [("batch", [1, 3]), (1, [1, 1, 1, 1])])
def test_a_card_is_asked_for_and_takes_a_batch_at_once_where_the_file_does(
    tmp_path, monkeypatch, axis, batches
):
    monkeypatch.setattr(Session, "axis", axis)
    monkeypatch.setattr(Session, "asked", asked := [])
    monkeypatch.setattr(Session, "batches", ran := [])
    runtime = SimpleNamespace(
        InferenceSession=Session, get_available_providers=lambda: [CUDA], __version__="1.20"
    )
    monkeypatch.setitem(sys.modules, "onnxruntime", runtime)
    (tmp_path / "made_up.onnx").write_bytes(b"read by the runtime alone")
    finder = OnnxDetector(tmp_path / "made_up.onnx", ["dog", "cat"], "cuda:1")
    found = finder.detect([Image.new("RGB", (32, 32), (value,) * 3) for value in (51, 102, 255)])
    assert asked == [[(CUDA, {"device_id": 1})]]
    assert ran == batches
    np.testing.assert_allclose([float(one.scores[0]) for one in found], [0.15, 0.3, 0.75], rtol=1e-5)
    runtime.get_available_providers = lambda: ["CPUExecutionProvider"]
    with pytest.raises(MissingError, match=r"does not support CUDA \(it has CPUExecutionProvider\)"):
        OnnxDetector(tmp_path / "made_up.onnx", ["dog", "cat"], "cuda")


def test_other_devices_and_other_files_on_a_card_are_refused(tmp_path):
    path = made_up(tmp_path, [yolox_output()])
    with pytest.raises(ConfigError, match=r"\.onnx file and a CUDA GPU; use --device cpu"):
        OnnxDetector(path, ["dog", "cat"], "cuda")
    (tmp_path / "made_up.onnx").write_bytes(b"")
    with pytest.raises(ConfigError, match="cannot be run on mps"):
        OnnxDetector(tmp_path / "made_up.onnx", ["dog", "cat"], "mps")
