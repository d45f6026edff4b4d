"""The network of ``base``: one pass, whole, in parts and fused; files of what was trained, without code."""

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from limner.encoders.base_file import (
    BACKBONE_SHA256,
    BLOCKS,
    FEATURES,
    WIDTHS,
    BaseCard,
    BaseShape,
    TextSide,
    WordSide,
    read_card,
)
from limner.encoders.base_network import (
    BaseNet,
    LearnedWords,
    fused,
    load_base,
    published_backbone,
    save_base,
)
from limner.encoders.vocabulary import Vocabulary
from limner.errors import CheckpointError, ConfigError, MissingError, NumericsError

pytestmark = pytest.mark.slow

CARD = BaseCard(name="drawn", command="none", data=("nothing",), terms="any", figures={"R@1": 0.5})
SHAPE = {"width": 12, "looks": 8, "hidden": 6}


def both(net, pictures):
    """Joint rows and looks of pictures."""
    features = net.features(pictures)
    return net.joint(features), net.looks(features)


def drawn(**shape):
    """A network of small projections over the published backbone, the same every time."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        net = BaseNet(BaseShape(**{**SHAPE, **shape}), published_backbone())
        for part in (net.picture, net.sentence, net.foreign):
            if part.narrow is not None:
                torch.nn.init.normal_(part.narrow.weight)
        net.feature_mean.normal_()
        net.feature_deviation.uniform_(0.5, 1.5)
        for block in range(net.shape.changed_from, BLOCKS):
            for parameter in net.backbone._blocks[block].parameters():
                parameter.add_(torch.randn_like(parameter), alpha=0.01)
    return net.eval()


@pytest.fixture(scope="module")
def net():
    return drawn(changed_from=19)


@pytest.fixture(scope="module")
def pictures():
    generator = torch.Generator().manual_seed(1)
    return torch.randint(0, 256, (3, 260, 260, 3), dtype=torch.uint8, generator=generator)


@pytest.fixture(scope="module")
def kept(net, tmp_path_factory):
    path = tmp_path_factory.mktemp("base") / "drawn.safetensors"
    save_base(path, net, CARD)
    return path


def close(found, due, tolerance=1e-5):
    torch.testing.assert_close(found, due, atol=tolerance, rtol=0)


def test_rows_have_unit_length_and_a_picture_does_not_depend_on_its_batch(net, pictures):
    joint, looks = both(net, pictures)
    assert joint.shape == (3, 12)
    assert looks.shape == (3, 8)
    for rows in (joint, looks, net.sentence(torch.randn(2, 384)), net.foreign(torch.randn(2, 512))):
        close(rows.norm(dim=1), torch.ones(len(rows)))
    alone = both(net, pictures[1:2])
    close(alone[0], joint[1:2])
    close(alone[1], looks[1:2])


@pytest.mark.parametrize("block", [0, 16, BLOCKS, BLOCKS + 1])
def test_the_backbone_cut_anywhere_tells_the_same(net, pictures, block):
    maps, early = net.backbone_until(block, pictures)
    close(net.after(block, maps, early), net.features(pictures), 0)


def test_classes_are_those_of_the_published_classifier(pictures):
    net = drawn()
    features = net.features(pictures)
    assert features.shape == (3, FEATURES)
    due = net.backbone((pictures.permute(0, 3, 1, 2).float() - 127) / 128)
    close(net.backbone._fc(features[:, -WIDTHS[-1] :]), due, 1e-4)


def test_fused_gives_the_same_vectors_and_leaves_the_network_alone(net, pictures):
    before = both(net, pictures)
    quick = fused(net)
    for found, due in zip(both(quick, pictures), before, strict=True):
        close(found, due, 1e-4)
    assert not any(isinstance(part, torch.nn.BatchNorm2d) for part in quick.modules())
    assert any(isinstance(part, torch.nn.BatchNorm2d) for part in net.modules())


def test_training_keeps_the_statistics_of_the_backbone(pictures):
    net = drawn().train()
    before = net.backbone._bn1.running_mean.clone()
    net.features(pictures)
    assert torch.equal(net.backbone._bn1.running_mean, before)
    assert net.picture.training


@pytest.mark.parametrize(("side", "inputs"), [("sentence", 384), ("foreign", 512)])
def test_a_text_side_without_torch_is_that_of_the_network(kept, side, inputs):
    rows = torch.randn(5, inputs, generator=torch.Generator().manual_seed(4))
    due = getattr(load_base(kept), side)(rows)
    close(torch.from_numpy(TextSide(kept, side)(rows.numpy())), due, 2e-6)


def test_a_text_side_of_another_shape_is_refused(kept, tmp_path):
    with safe_open(kept, "pt") as file:
        metadata = file.metadata()
    state = load_file(kept)
    state["sentence.straight.bias"] = torch.zeros(3)
    save_file(state, tmp_path / "other.safetensors", metadata)
    with pytest.raises(CheckpointError, match="sentence: not the tensors of its shape"):
        TextSide(tmp_path / "other.safetensors", "sentence")


def test_a_file_gives_back_the_network_but_for_rounding(net, kept, pictures):
    again = load_base(kept)
    assert again.shape == net.shape
    for found, due in zip(both(again, pictures), both(net, pictures), strict=True):
        assert torch.cosine_similarity(found, due).min() > 0.999
    close(again.feature_mean, net.feature_mean, 0)
    untouched = load_base(kept).backbone._blocks[18].state_dict()
    for key, value in published_backbone()._blocks[18].state_dict().items():
        assert torch.equal(untouched[key], value)


def test_the_trained_blocks_come_back(net, kept):
    weight = load_base(kept).backbone._blocks[20]._expand_conv.weight
    published = published_backbone()._blocks[20]._expand_conv.weight
    due = net.backbone._blocks[20]._expand_conv.weight
    assert (weight - due).abs().max() < 0.01 * (published - due).abs().max()


def test_the_card_is_read_without_the_tensors(kept):
    assert read_card(kept) == CARD


def test_a_block_changed_without_saying_so_is_refused(tmp_path):
    net = drawn()
    net.backbone._blocks[3]._expand_conv.weight.add_(0.1)
    with pytest.raises(ConfigError, match=r"_blocks\.3\..* was changed"):
        save_base(tmp_path / "a.safetensors", net, CARD)
    assert not list(tmp_path.iterdir())


def test_a_parameter_that_is_not_finite_is_refused(tmp_path):
    net = drawn()
    net.sentence.straight.bias.data[0] = float("nan")
    with pytest.raises(NumericsError, match=r"sentence\.straight\.bias is not finite"):
        save_base(tmp_path / "a.safetensors", net, CARD)


def rewritten(path, kept, change):
    """A copy of a file with other tensors or metadata."""
    from safetensors import safe_open

    with safe_open(kept, "pt") as file:
        metadata = dict(file.metadata())
    tensors = load_file(kept)
    change(tensors, metadata)
    save_file(tensors, path, metadata=metadata)
    return path


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda _, m: m.clear(), "no file of the encoder base"),
        (
            lambda _, m: m.update({"limner-base": m["limner-base"].replace('"format":1', '"format":3')}),
            "format",
        ),
        (
            lambda _, m: m.update({"limner-base": m["limner-base"].replace(BACKBONE_SHA256, "0" * 64)}),
            "backbone",
        ),
        (lambda t, _: t.pop("picture.straight.weight"), r"picture\.straight\.weight"),
        (lambda t, _: t.pop("picture.straight.weight:scale"), "no scale per row"),
        (lambda t, _: t.pop("backbone._blocks.20._bn0.bias"), r"says were trained"),
        (lambda t, _: t.update({"backbone._blocks.2._bn0.bias": torch.zeros(144)}), "says were trained"),
        (lambda t, _: t.update({"backbone._blocks.20._bn0.bias": torch.zeros(3)}), "another shape"),
        (lambda t, _: t.update({"look.straight.bias": torch.full((8,), torch.inf)}), "not finite"),
    ],
)
def test_a_wrong_file_is_one_line(tmp_path, kept, change, message):
    path = rewritten(tmp_path / "wrong.safetensors", kept, change)
    with pytest.raises(CheckpointError, match=message) as caught:
        load_base(path)
    assert "\n" not in str(caught.value)


@pytest.fixture(scope="module")
def spoken(net, tmp_path_factory):
    path = tmp_path_factory.mktemp("base") / "spoken.safetensors"
    random = torch.Generator().manual_seed(5)
    vectors = torch.randn(3, net.shape.width, generator=random)
    words = LearnedWords(Vocabulary(("boat", "red", "dog")), vectors, torch.tensor([1.0, 2.0, 0.5]))
    save_base(path, net, CARD, words)
    return path, vectors


def test_words_add_their_vectors_by_rarity(net, spoken, pictures):
    path, vectors = spoken
    found = torch.from_numpy(WordSide(path)(["A Red boat, red", "", "none of these", "dog"]))
    due = torch.stack([(vectors[0] + 2 * vectors[1]) / 5**0.5, 0 * vectors[0], 0 * vectors[0], vectors[2]])
    close(found, due, 0.05)
    assert not found[1:3].any()
    for one, other in zip(both(load_base(path), pictures), both(net, pictures), strict=True):
        assert torch.cosine_similarity(one, other).min() > 0.999


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda _, m: m.pop("limner-words"), "expected tokeniser and words"),
        (lambda _, m: m.update({"limner-words": "{}"}), "expected tokeniser and words"),
        (lambda t, _: t.pop("words.rarity"), "a vector and a rarity for each"),
        (lambda t, _: t.update({"words.rarity": torch.zeros(4)}), "a vector and a rarity for each"),
        (lambda t, _: t.pop("words.vectors:scale"), "no scale per row"),
    ],
)
def test_wrong_words_are_one_line(tmp_path, spoken, change, message):
    path = rewritten(tmp_path / "wrong.safetensors", spoken[0], change)
    with pytest.raises(CheckpointError, match=message) as caught:
        WordSide(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_damaged_foreign_and_absent_files_are_one_line(tmp_path, kept, executable_payload):
    path = tmp_path / "x.safetensors"
    proof = tmp_path / "proof"
    for content in (b"", b"nonsense", kept.read_bytes()[:-100], executable_payload(proof)):
        path.write_bytes(content)
        with pytest.raises(CheckpointError, match="damaged"):
            load_base(path)
    with pytest.raises(MissingError, match="cannot be read"):
        load_base(tmp_path / "absent.safetensors")
    assert not proof.exists()
