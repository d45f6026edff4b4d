"""Torchvision backbones from files: exactly the file's parameters, both formats, both precisions."""

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file
from torchvision import models

from limner.encoders.framing import checked
from limner.encoders.pixels import ConSE, PixelEncoder, build, food_parameters, normalised, transform_of
from limner.encoders.weight_files import WeightFile, read_state
from limner.errors import CheckpointError, ConfigError, DataError, NumericsError, ShapeError

NAME = "shufflenet_v2_x0_5"
CLASSES = ("goat", "boat", "kettle", "tree", "river", "spoon", "drum")


class Words:
    """A text encoder with one fixed vector per text."""

    name, fingerprint, dim = "words", "w", 8

    def encode_text(self, texts):
        rows = np.stack([np.random.default_rng(sum(map(ord, text))).normal(size=8) for text in texts])
        return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


@pytest.fixture(scope="module")
def model():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        made = models.get_model(NAME, weights=None, num_classes=len(CLASSES)).eval()
        for module in made.modules():
            if isinstance(module, torch.nn.BatchNorm2d):
                module.running_mean.normal_(0, 0.1)
                module.running_var.uniform_(0.5, 1.5)
    return made


@pytest.fixture(scope="module")
def state(model):
    return {key: value.contiguous() for key, value in model.state_dict().items()}


@pytest.fixture(scope="module")
def pictures():
    return np.random.default_rng(1).integers(0, 256, (5, 224, 224, 3), dtype=np.uint8)


def encoder(state, **options):
    options.setdefault("conse", ConSE(CLASSES, Words()))
    return PixelEncoder(NAME, build(NAME, state, "file"), options.pop("sha256", "0" * 64), **options)


def test_features_and_labels_are_those_of_the_whole_model(model, state, pictures):
    """Against torchvision's model run whole, with its documented normalisation written out."""
    mean, std = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
    pixels = torch.from_numpy(((pictures / 255.0 - mean) / std).transpose(0, 3, 1, 2)).float()
    seen = []
    hook = model.fc.register_forward_pre_hook(lambda _, arguments: seen.append(arguments[0]))
    with torch.inference_mode():
        probabilities = torch.softmax(model(pixels), dim=1).numpy()
    hook.remove()
    found = encoder(state, precision="float32").encode_pixels(pictures)
    due = seen[0].numpy() / np.linalg.norm(seen[0].numpy(), axis=1, keepdims=True)
    np.testing.assert_allclose(found.spaces["visual"], due, atol=1e-5)
    for row, labels in zip(probabilities, found.labels, strict=True):
        order = np.argsort(-row)[:5]
        assert [name for name, _ in labels] == [CLASSES[index] for index in order]
        np.testing.assert_allclose([share for _, share in labels], row[order], rtol=1e-4)


def test_pooled_features_are_the_vectors_before_they_get_unit_length(state, pictures):
    one = encoder(state, precision="float32")
    features = one.features(pictures)
    lengths = np.linalg.norm(features, axis=1, keepdims=True)
    assert np.abs(lengths - 1).min() > 0.1
    np.testing.assert_allclose(features / lengths, one.encode_pixels(pictures).spaces["visual"], atol=1e-6)
    with pytest.raises(ShapeError, match="expected uint8"):
        one.features(pictures[:, :100])
    assert transform_of("float32") == "squash 224 float32"


@pytest.mark.slow
def test_a_grid_has_every_place_of_the_last_map(pictures):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        whole = models.resnet18(weights=None, num_classes=3).state_dict()
    one = PixelEncoder("resnet18", build("resnet18", whole, "file"), "0" * 64, precision="float32")
    found = one.grid(pictures)
    assert found.shape == (5, 49, 512)
    np.testing.assert_allclose(found.mean(axis=1), one.features(pictures), rtol=1e-4, atol=1e-4)
    with pytest.raises(ShapeError, match="expected uint8"):
        one.grid(pictures[:, :100])


@pytest.mark.slow
def test_both_formats_and_half_precision_files_load(state, pictures, tmp_path):
    save_file(state, tmp_path / "a.safetensors")
    torch.save(state, tmp_path / "a.pth")
    half = {key: value.half() if value.is_floating_point() else value for key, value in state.items()}
    save_file(half, tmp_path / "half.safetensors")
    due = encoder(state, precision="float32").encode_pixels(pictures).spaces["visual"]
    for file, close in (("a.safetensors", 0), ("a.pth", 0), ("half.safetensors", 5e-3)):
        read = read_state(WeightFile(tmp_path / file))
        found = encoder(read, precision="float32").encode_pixels(pictures).spaces["visual"]
        np.testing.assert_allclose(found, due, atol=close)


def test_counters_of_batch_norm_may_be_absent(state, pictures):
    bare = {key: value for key, value in state.items() if not key.endswith("num_batches_tracked")}
    assert len(bare) < len(state)
    np.testing.assert_array_equal(
        encoder(bare).encode_pixels(pictures).spaces["visual"],
        encoder(state).encode_pixels(pictures).spaces["visual"],
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s.pop("conv1.0.weight"), r'file: Missing key.* "conv1\.0\.weight"'),
        (lambda s: s.update(stray=torch.ones(1)), 'Unexpected key.* "stray"'),
        (lambda s: s.update({"conv5.1.bias": torch.ones(3)}), r"size mismatch for conv5\.1\.bias: .*\[3\]"),
        (lambda s: s.pop("fc.bias"), r'Missing key.* "fc\.bias"'),
        (lambda s: s.update({"fc.weight": torch.ones(7, 9)}), r"size mismatch for fc\.weight: .*\[7, 9\]"),
    ],
)
def test_keys_are_strict(state, change, message):
    changed = dict(state)
    change(changed)
    with pytest.raises(CheckpointError, match=message):
        build(NAME, changed, "file")


def test_weights_of_another_architecture_name_a_few_keys(state):
    with pytest.raises(
        CheckpointError, match=r"Missing key.*\[\.\.\.\]; the file is of another architecture"
    ):
        build("resnet18", state, "file")


def test_a_file_without_classifier_gives_features_only(state, pictures):
    bare = {key: value for key, value in state.items() if not key.startswith("fc.")}
    backbone = PixelEncoder(NAME, build(NAME, bare, "file"), "0", precision="float32")
    found = backbone.encode_pixels(pictures)
    assert backbone.spaces == {"visual": 1024}
    assert (set(found.spaces), found.labels) == ({"visual"}, [])
    whole = encoder(state, precision="float32").encode_pixels(pictures)
    np.testing.assert_array_equal(found.spaces["visual"], whole.spaces["visual"])


def test_bfloat16_is_close_to_float32_and_another_fingerprint(state, pictures):
    exact, fast = encoder(state, precision="float32"), encoder(state, precision="bfloat16")
    first, second = exact.encode_pixels(pictures), fast.encode_pixels(pictures)
    for space in ("visual", "labels"):
        assert (first.spaces[space] * second.spaces[space]).sum(axis=1).min() > 0.995
    assert not np.array_equal(first.spaces["visual"], second.spaces["visual"])
    assert exact.fingerprint != fast.fingerprint


def test_a_row_depends_on_its_picture_alone(state, pictures):
    exact = encoder(state, precision="float32")
    together = exact.encode_pixels(pictures)
    alone = exact.encode_pixels(pictures[3:4])
    for space, rows in together.spaces.items():
        assert rows.shape == (5, exact.spaces[space])
        np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
        np.testing.assert_allclose(alone.spaces[space][0], rows[3], atol=1e-5)
    np.testing.assert_array_equal(exact.encode_pixels(pictures).spaces["visual"], together.spaces["visual"])


@pytest.mark.slow
def test_fingerprint_follows_every_setting(state):
    options = (
        {},
        {"sha256": "1"},
        {"precision": "float32"},
        {"conse": None},
        {"conse": ConSE(CLASSES[::-1], Words())},
    )
    prints = [encoder(state, **option).fingerprint for option in options]
    assert len(set(prints)) == len(options)
    assert encoder(state).fingerprint == prints[0]


def test_prepare_gives_the_square_whatever_the_picture(state):
    whole = encoder(state)
    for size in ((1, 1), (900, 3), (224, 224), (640, 480)):
        square = whole.prepare(Image.new("RGB", size, (10, 200, 30)))
        assert (square.shape, square.dtype) == ((224, 224, 3), np.uint8)
        assert (square == (10, 200, 30)).all()
    with pytest.raises(DataError, match="mode L, expected RGB"):
        whole.prepare(Image.new("L", (9, 9)))


@pytest.mark.parametrize(
    "batch",
    [np.zeros((224, 224, 3), np.uint8), np.zeros((1, 3, 224, 224), np.uint8), np.zeros((1, 224, 224, 3))],
)
def test_another_shape_or_type_is_refused(batch):
    with pytest.raises(ShapeError, match="expected uint8"):
        checked("x", batch)


def test_normalised_is_channels_last_without_copying_planes():
    values = normalised(torch.full((2, 4, 6, 3), 255, dtype=torch.uint8))
    assert values.shape == (2, 3, 4, 6)
    assert values.is_contiguous(memory_format=torch.channels_last)
    np.testing.assert_allclose(
        values[0, :, 0, 0], [(1 - 0.485) / 0.229, (1 - 0.456) / 0.224, (1 - 0.406) / 0.225], rtol=1e-5
    )


def test_overflow_is_told_not_stored(state, pictures):
    loud = {key: value * 1e30 if key.startswith("conv5.0") else value for key, value in state.items()}
    loud["conv5.1.weight"] = loud["conv5.1.weight"] * 1e30
    with pytest.raises(NumericsError, match="not finite"):
        encoder(loud, precision="float32").encode_pixels(pictures[:1])


def test_unknown_names(state):
    with pytest.raises(ConfigError, match="did you mean 'resnet50'"):
        build("resnet500", state, "file")
    with pytest.raises(ConfigError, match="no linear last layer"):
        build("squeezenet1_1", state, "file")


class Payload:
    """Pickles into a call; its effect would be a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


def test_a_file_that_would_run_code_is_refused(tmp_path, executable_payload):
    writers = (
        lambda proof, path: torch.save({"weight": Payload(proof)}, path),
        lambda proof, path: path.write_bytes(executable_payload(proof)),
    )
    for number, write in enumerate(writers):
        path, proof = tmp_path / f"{number}.pth", tmp_path / f"proof{number}"
        write(proof, path)
        with pytest.raises(CheckpointError, match="refused"):
            read_state(WeightFile(path))
        assert not proof.exists()


def test_building_leaves_the_random_state_alone(state):
    torch.manual_seed(3)
    due = torch.rand(2)
    torch.manual_seed(3)
    build(NAME, state, "file")
    torch.testing.assert_close(torch.rand(2), due)


def test_both_published_forms_of_the_food_network_have_the_names_of_torchvision():
    plain = {"conv1.weight": 1, "layer1.0.conv1.weight": 2}
    assert food_parameters(plain) == plain
    of_recipes = {"visionMLP.module.0.weight": 1, "visionMLP.module.4.0.conv1.weight": 2, "recipe.bias": 3}
    assert food_parameters(of_recipes) == plain
