"""The encoder base in training: its short way through the last blocks, learning, going on, shipped files."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from base_corpus import ENGLISH, FOREIGN, PICTURES, coloured, corpus, published_rows
from made_up_sets import made_up_sets
from PIL import Image

from limner.config import build
from limner.encoders.base_blocks import FIRST, MAPS, ROW, features_of, open_blocks
from limner.encoders.base_file import BACKBONE, BLOCKS, FEATURES, WIDTHS, BaseShape, read_header
from limner.encoders.base_network import BaseNet, load_base, published_backbone
from limner.encoders.vocabulary import Vocabulary
from limner.errors import ConfigError, ShapeError
from limner.research.runs.export import export_base
from limner.research.runs.fit import prepare
from limner.research.runs.run import Run
from limner.research.runs.train import maximise, read_config, validation
from limner.research.systems import limner
from limner.research.systems.base import ModelParts, system
from limner.research.training.corpus import corpus_of, open_corpus
from limner.research.training.loop import Loop
from limner.research.training.settings import DataConfig

pytestmark = pytest.mark.slow

CONFIGS = Path(__file__).parents[3] / "configs"


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Small products gain nothing from more; the count is put back for the tests that follow."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def net():
    torch.manual_seed(0)
    return BaseNet(BaseShape(changed_from=FIRST), published_backbone()).eval()


@pytest.fixture(scope="module")
def rows():
    """(M, R) of all pictures, by the backbone as published."""
    return published_rows()


def settings(tmp_path, **more):
    values = {
        "system": "limner",
        "data": {"set": "pairs", "batch": 12, "features": str(tmp_path / "features")},
        "model": {"width": 32, "looks": 8, "dropout": 0.2, "changed_from": FIRST}
        | {"reads": "minilm", "context": "none"},
        "joined_weight": 0.0,
        "heads_epochs": 6,
        "loop": {"epochs": 8, "lr": 3e-3, "restarts": [6], "rates": {"net.backbone": 1e-4}},
    }
    return build(limner.LimnerConfig, values | more, "test")


def loop_of(config, rows, folder, report=lambda event: None):
    own = system(config.system)
    prepared = prepare(own, config, rows, sentences=ENGLISH, multilingual=FOREIGN)
    return Loop(
        prepared.task,
        config.loop,
        folder,
        validate=validation(rows, own.capabilities(config)),
        maximise=maximise(config.loop.metric),
        report=report,
        saved_with=prepared.saved_with,
    )


def test_the_short_way_gives_what_the_whole_network_gives(net, rows):
    pixels = torch.from_numpy(np.stack([coloured(number) for number in range(4)]))
    with torch.no_grad():
        maps, told = net.backbone_until(FIRST, pixels)
        whole = net.after(FIRST, maps, told)
        stored = torch.cat([maps.permute(0, 2, 3, 1).flatten(1), whole], dim=1)
        short = features_of(net, stored, torch.float32)
        half = features_of(net, torch.from_numpy(rows[:4]))
    torch.testing.assert_close(short, whole, rtol=1e-3, atol=1e-4)
    assert float(torch.nn.functional.cosine_similarity(half, whole).min()) > 0.999
    assert rows.shape == (PICTURES, ROW)
    kept = torch.from_numpy(rows[:4, MAPS:])  # of bfloat16 from the pixels on
    assert float(torch.nn.functional.cosine_similarity(kept, whole).min()) > 0.99


def test_its_gradients_are_those_of_the_whole_network(net):
    open_blocks(net, 20)
    stored = torch.randn(2, ROW, generator=torch.Generator().manual_seed(0))
    maps = stored[:, :MAPS].view(2, 9, 9, 208).permute(0, 3, 1, 2)
    opened = {name: one for name, one in net.backbone.named_parameters() if one.requires_grad}
    assert {name.split(".")[0] for name in opened} == {"_blocks", "_conv_head", "_bn1"}
    assert all(name.split(".")[1] == "20" for name in opened if name.startswith("_blocks"))
    told = features_of(net, stored, torch.float32)
    whole = net.after(FIRST, maps, stored[:, MAPS : MAPS + told.shape[1] - 2400])
    for one, other in zip(
        torch.autograd.grad(told[:, -2400:].square().mean(), list(opened.values())),
        torch.autograd.grad(whole[:, -2400:].square().mean(), list(opened.values())),
        strict=True,
    ):
        torch.testing.assert_close(one, other, rtol=1e-2, atol=1e-5)
    open_blocks(net, 22)
    assert not any(one.requires_grad for one in net.backbone.parameters())


def test_it_learns_goes_on_bit_for_bit_and_becomes_a_file(tmp_path, rows, monkeypatch):
    monkeypatch.setattr(limner, "sentence_encoder", lambda name: FOREIGN)
    data, config = corpus(rows), settings(tmp_path)
    whole = loop_of(config, data, tmp_path / "whole").fit()
    assert whole.history[-1]["val"]["MRR"] > 2 * whole.history[0]["val"]["MRR"] or (
        whole.history[-1]["val"]["MRR"] > 0.8
    )
    stopped = loop_of(config, data, tmp_path / "parts", lambda event: event.position.taken == 13)
    stopped.fit()
    assert not stopped.finished
    again = loop_of(config, data, tmp_path / "parts").fit()
    assert again.history == whole.history
    model, read = limner.SYSTEM.load(tmp_path / "whole", sentences=ENGLISH)
    assert read == config
    card = export_base(tmp_path / "whole", tmp_path / "made.safetensors", ENGLISH)
    assert card.figures["validation MRR"] == pytest.approx(whole.best, abs=1e-4)
    shipped = load_base(tmp_path / "made.safetensors")
    with torch.no_grad():
        joint = shipped.joint(features_of(shipped, torch.from_numpy(rows[:6]))).numpy()
    assert float((joint * model.encode_image(rows[:6])).sum(axis=1).min()) > 0.999


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_the_last_blocks_multiply_as_those_that_were_stored(tmp_path, rows, precision):
    key = {"backbone": "b", "weights_sha256": "", "transform": f"squash 260 bicubic {precision}; traits 1"}
    data = corpus(rows)
    parts = ModelParts(Vocabulary(()), ROW, sentences=ENGLISH, multilingual=FOREIGN)
    stored = SimpleNamespace(backbone=key)
    limner.SYSTEM.prepare_parts(settings(tmp_path), stored, parts)
    assert parts.about["backbone"] == key
    model = limner.SYSTEM.build(settings(tmp_path), parts)
    assert model.blocks_in == getattr(torch, precision)
    assert (
        prepare(
            limner.SYSTEM, settings(tmp_path), data, sentences=ENGLISH, multilingual=FOREIGN
        ).task.model.blocks_in
        == torch.bfloat16
    )  # rows of no store


def mixed(tmp_path, **more):
    """Settings of a mixture of the sets "one" and "two", which the groups of the pairs name."""
    sets = {"one": {"set": "stories"}, "two": {"set": "stories"}}
    place = str(tmp_path / "features")
    return settings(
        tmp_path, data={"set": "mixture", "mixture": sets, "batch": 12, "features": place}, **more
    )


def test_the_same_seed_gives_the_same_batches_and_no_picture_twice_in_one(tmp_path, rows):
    config, data = mixed(tmp_path), corpus(rows)
    first, second = (
        prepare(limner.SYSTEM, config, data, sentences=ENGLISH, multilingual=FOREIGN).task for _ in range(2)
    )
    for epoch in (0, 7):
        for one, other in zip(first.batches(epoch), second.batches(epoch), strict=True):
            assert one.ids == other.ids
            assert torch.equal(one.rows, other.rows)
            assert len(torch.unique(one.owners)) == len(one.rows)
            sets = {"one" if int(name.split("-")[1]) < PICTURES // 2 else "two" for name in one.ids}
            assert len(sets) == 1
            own = torch.zeros_like(one.neg).scatter_(1, one.owners[:, None], value=True)
            assert not bool((one.neg & own).any())


def test_groups_of_a_single_set_share_batches(tmp_path, rows):
    task = prepare(
        limner.SYSTEM, settings(tmp_path), corpus(rows), sentences=ENGLISH, multilingual=FOREIGN
    ).task
    assert [len(batch.rows) for batch in task.batches(0)] == [PICTURES // 2] * 2
    assert any(
        len({int(name.split("-")[1]) < PICTURES // 2 for name in batch.ids}) == 2 for batch in task.batches(0)
    )


def test_the_names_of_classes_take_part(tmp_path, rows):
    config, data = settings(tmp_path, class_weight=1.0), corpus(rows)
    task = prepare(limner.SYSTEM, config, data, sentences=ENGLISH, multilingual=FOREIGN).task
    losses = {name: float(one.detach()) for name, one in task.step(next(iter(task.batches(0)))).items()}
    assert losses["classes"] > 0
    assert losses["total"] == pytest.approx(sum(losses.values()) - losses["total"], rel=1e-5)


def test_what_does_not_fit_is_said(tmp_path, rows):
    with pytest.raises(ConfigError, match="no sentence encoder"):
        prepare(limner.SYSTEM, settings(tmp_path), corpus(rows), sentences=ENGLISH)
    model = limner.Limner(
        limner.LimnerArchitecture(width=8),
        ModelParts(Vocabulary(()), 1, sentences=ENGLISH, multilingual=FOREIGN),
    )
    with pytest.raises(ShapeError, match="expected"):
        model.features_of(torch.zeros(2, 3))


def test_no_library_is_indexed_with_a_run_itself(tmp_path, monkeypatch):
    model = limner.Limner(
        limner.LimnerArchitecture(width=8),
        ModelParts(Vocabulary(()), 1, sentences=ENGLISH, multilingual=FOREIGN),
    )
    config = settings(tmp_path)
    opened = Run(tmp_path, model, config, limner.SYSTEM.capabilities(config))
    monkeypatch.setattr(Run, "open", lambda folder, device: opened)
    with pytest.raises(ConfigError, match="limner models export"):
        Run.for_library(tmp_path)


@pytest.mark.parametrize("name", [pytest.param("base", marks=pytest.mark.soak), "base-free"])
def test_the_shipped_settings_train_on_any_folders(tmp_path, monkeypatch, name):
    """Made-up folders of every set of the mixture, laid out as the settings expect them."""
    monkeypatch.setenv("LIMNER_DATA", str(tmp_path))
    config = read_config(CONFIGS / f"{name}.toml", [f"data.features={tmp_path / 'features'}"])
    made_up_sets(tmp_path, config)
    small = config.smoke()
    own = system(small.system)
    data, pictures = open_corpus(small.data, layer=own.capabilities(small).layer, mirrored=True)
    assert any("left out by licence" in note for note in data.notes) is (name == "base-free")
    position = loop_of(small, corpus_of(data, pictures), tmp_path / "run").fit()
    assert position.epoch == 2
    monkeypatch.setattr(limner, "sentence_encoder", lambda name: FOREIGN)
    assert export_base(tmp_path / "run", tmp_path / "x.safetensors", ENGLISH).terms == config.terms
    assert read_header(tmp_path / "x.safetensors").format == (2 if name == "base" else 1)


@pytest.mark.parametrize("layer", ["blocks", "described", "pooled", "stages"])
def test_pictures_whose_blocks_stay_as_published_are_stored_without_maps(tmp_path, layer, rows):
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    for number in range(4):
        Image.fromarray(coloured(number)).save(pictures / f"{number}.png")
        (pictures / f"{number}.txt").write_text(f"picture {number}", encoding="utf-8")
    values = {"set": "folder", "annotations": str(pictures), "features": str(tmp_path / "features")}
    values["backbone"] = BACKBONE  # of which other systems read vectors
    data, stored = open_corpus(
        build(DataConfig, values, "test"), layer=layer, mirrored=True, precision="bfloat16"
    )
    found = stored.take(stored.places([pair.image_id for pair in data.pairs]))
    due = rows[:4, {"blocks": 0, "pooled": ROW - WIDTHS[-1]}.get(layer, MAPS) :]
    assert found.shape == due.shape
    order, last = [int(Path(pair.image).stem) for pair in data.pairs], -min(FEATURES, due.shape[1])
    np.testing.assert_allclose(found[:, last:], due[order][:, last:], rtol=0.02, atol=0.02)
    frozen = settings(tmp_path, model={"changed_from": BLOCKS + 1})
    assert limner.SYSTEM.capabilities(frozen).layer == "described"
    assert limner.SYSTEM.capabilities(settings(tmp_path)).layer == "blocks"
    words = [limner.SYSTEM.capabilities(one).backbone_words(BACKBONE) for one in (frozen, settings(tmp_path))]
    assert words == [f"{BACKBONE} frozen", f"{BACKBONE}, last blocks trained"]
