"""CLIPs of a few kilobytes with random weights, made on the spot: of open_clip, and as published in ONNX."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

NAME = "limner-tiny"
CONFIG = {
    "embed_dim": 16,
    "vision_cfg": {"image_size": 32, "layers": 2, "width": 64, "patch_size": 16},
    "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 64, "heads": 1, "layers": 2},
}


@pytest.fixture(scope="session")
def tiny_clip(tmp_path_factory):
    """A random model of open_clip: its name, the model, a file of its tensors, the folder exported of it."""
    open_clip = pytest.importorskip("open_clip")
    import torch
    from safetensors.torch import save_file

    from limner.encoders.clip_export import export_clip

    place = tmp_path_factory.mktemp("tiny-clip")
    (place / f"{NAME}.json").write_text(json.dumps(CONFIG))
    open_clip.add_model_config(place / f"{NAME}.json")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = open_clip.create_model(NAME, pretrained=None, load_weights=False).eval()
    weights = place / f"{NAME}.safetensors"
    save_file({key: value.contiguous() for key, value in model.state_dict().items()}, weights)
    folder = export_clip(f"clip:{NAME}", weights, place / "models" / f"clip-{NAME}")
    return SimpleNamespace(name=f"clip:{NAME}", model=model, weights=weights, folder=folder)


def varint(number: int) -> bytes:
    parts = bytearray()
    while number > 127:
        parts.append(number & 127 | 128)
        number >>= 7
    return bytes([*parts, number])


def field(number: int, value: int | str | bytes) -> bytes:
    """One field of a protocol buffer."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


_KINDS = {np.dtype(np.float32): 1, np.dtype(np.int64): 7}


def _tensor(name: str, values: np.ndarray) -> bytes:
    sizes = b"".join(field(1, size) for size in values.shape)
    return sizes + field(2, _KINDS[values.dtype]) + field(8, name) + field(9, values.tobytes())


def _value(name: str, kind: type, shape: list[int | str]) -> bytes:
    sizes = b"".join(field(1, field(2 if isinstance(size, str) else 1, size)) for size in shape)
    return field(1, name) + field(2, field(1, field(1, _KINDS[np.dtype(kind)]) + field(2, sizes)))


def _node(operator: str, inputs: list[str], output: str, **attributes: int | list[int]) -> bytes:
    made = b"".join(field(1, name) for name in inputs) + field(2, output) + field(4, operator)
    for name, value in attributes.items():
        several = isinstance(value, list)
        content = b"".join(field(8, one) for one in value) if several else field(3, value)
        made += field(5, field(1, name) + content + field(20, 7 if several else 2))
    return made


def _onnx(path: Path, nodes: list[bytes], constants: dict, inputs: list[bytes], output: bytes) -> None:
    graph = b"".join(field(1, one) for one in nodes) + field(2, "tiny")
    graph += b"".join(field(5, _tensor(name, values)) for name, values in constants.items())
    graph += b"".join(field(11, one) for one in inputs) + field(12, output)
    path.write_bytes(field(1, 8) + field(7, graph) + field(8, field(2, 13)))


def publish(folder: Path, *, side_px: int = 32, width: int = 512, mask: bool = False) -> None:
    """Write a CLIP in the layout of transformers.js, of mean colours and mean word pieces.

    Args:
        folder: to write to.
        side_px: of pictures.
        width: of vectors.
        mask: whether the text side takes an attention mask.
    """
    from limner.encoders.clip_export import clip_tokenizer

    rng = np.random.default_rng(0)
    (folder / "onnx").mkdir(parents=True)
    _onnx(
        folder / "onnx" / "vision_model_fp16.onnx",
        [
            _node("GlobalAveragePool", ["pixel_values"], "mean"),
            _node("Flatten", ["mean"], "flat", axis=1),
            _node("MatMul", ["flat", "map"], "image_embeds"),
        ],
        {"map": rng.standard_normal((3, width), dtype=np.float32)},
        [_value("pixel_values", np.float32, ["batch", 3, side_px, side_px])],
        _value("image_embeds", np.float32, ["batch", width]),
    )
    words = [
        _node("Mod", ["input_ids", "count"], "number"),
        _node("Gather", ["words", "number"], "pieces"),
    ]
    constants = {
        "count": np.array(97),
        "words": rng.standard_normal((97, width), dtype=np.float32),
        "last": np.array([2]),
    }
    inputs = [_value("input_ids", np.int64, ["batch", "pieces"])]
    if mask:
        inputs.append(_value("attention_mask", np.int64, ["batch", "pieces"]))
        words += [
            _node("Cast", ["attention_mask"], "real", to=1),
            _node("Unsqueeze", ["real", "last"], "column"),
            _node("Mul", ["pieces", "column"], "kept"),
        ]
    words.append(_node("ReduceMean", ["kept" if mask else "pieces"], "text_embeds", axes=[1], keepdims=0))
    output = _value("text_embeds", np.float32, ["batch", width])
    _onnx(folder / "onnx" / "text_model_fp16.onnx", words, constants, inputs, output)
    (folder / "tokenizer.json").write_text(clip_tokenizer("ViT-B-32"), encoding="utf-8")
    said = {
        **{"crop_size": {"height": side_px, "width": side_px}, "do_center_crop": True, "resample": 3},
        **{"size": {"shortest_edge": side_px}, "image_mean": [0.5, 0.4, 0.3], "image_std": [0.2, 0.3, 0.4]},
    }
    (folder / "preprocessor_config.json").write_text(json.dumps(said))
