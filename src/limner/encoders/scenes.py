"""Detectors by name: finds the weights, loads them, and hands out a ready detector.

The one place that knows all detectors, as `catalogue` knows all encoders. It downloads nothing: missing
weights are an error that says what is looked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from limner.encoders.detections import DetectionRules, Detections, Detector, keep
from limner.encoders.weights import find, named_places, read_state
from limner.errors import ConfigError, MissingError, unknown

__all__ = ["DetectionRules", "Detections", "Detector", "detector", "detectors", "keep", "read_classes"]


def detectors() -> list[str]:
    """Names that `detector` takes; besides these, the name or path of an .onnx file."""
    from limner.encoders.faster_rcnn import ARCHITECTURES

    return list(ARCHITECTURES)


def detector(
    name: str,
    *,
    weights: Path | None = None,
    classes: Sequence[str] | None = None,
    device: str = "cpu",
) -> Detector:
    """A ready detector.

    Args:
        name: one of `detectors`, the path of an .onnx or .xml file, or its name in ``$LIMNER_WEIGHTS``.
        weights: of a Faster R-CNN: a file, or a folder to look in; for an ONNX name the folder it is in.
        classes: names of its classes in order; None takes COCO's 80.
        device: torch device that computes; ONNX files run on the CPU.
    Raises:
        ConfigError: unknown name.
        MissingError: no weights or no such file, or a package is missing.
        CheckpointError: the file is of another architecture.
    """
    from limner.encoders.faster_rcnn import ARCHITECTURES, FasterRCNN, coco_classes
    from limner.encoders.onnx_detector import SUFFIXES, OnnxDetector

    if Path(name).suffix.lower() in SUFFIXES:
        names = coco_classes() if classes is None else classes
        return OnnxDetector(_model_file(name, weights), names)
    if name not in ARCHITECTURES:
        raise ConfigError(
            unknown("detector", name, ARCHITECTURES) + f"; or the path of a file ({', '.join(SUFFIXES)})"
        )
    try:
        file = find(name, weights)
    except MissingError as error:
        raise MissingError(
            f"{str(error).partition(';')[0]}; get torchvision's published file of it and pass --weights FILE"
        ) from error
    return FasterRCNN(
        name, read_state(file), file.sha256, classes=classes, where=str(file.path), device=device
    )


def read_classes(path: Path) -> tuple[str, ...]:
    """Class names from a text file, one a line, in the order of the detector's outputs.

    Raises:
        MissingError: it cannot be read.
        ConfigError: not UTF-8, empty, or a name missing or twice.
    """
    try:
        names = tuple(line.strip() for line in path.read_text(encoding="utf-8").rstrip().splitlines())
    except OSError as error:
        raise MissingError(f"{path}: cannot be read ({error.strerror}); check the path") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8; expected class names, one a line") from error
    if not names or not all(names) or len(set(names)) != len(names):
        raise ConfigError(f"{path}: expected different class names, one a line, none of them empty")
    return names


def _model_file(name: str, folder: Path | None) -> Path:
    """A model file by its path, or by its name in the folders where weights are looked for."""
    given = Path(name).expanduser()
    if given.is_file():
        return given
    places = [folder] if folder is not None else named_places()
    for place in places:
        if (place / name).is_file():
            return place / name
        if place.is_file() and place.name == name:
            return place
    looked = ", ".join(str(place) for place in (given, *places))
    raise MissingError(f"no detector {name} (looked for {looked}); give the path of its file")
