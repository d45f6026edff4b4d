"""CMCM in training: what batches hold, what it learns and must not, and that it comes back as it was."""

import dataclasses
import json
from functools import partial

import numpy as np
import pytest
import torch
from corpora import RELATIONS, SPLITS, corpus, made

from limner.checksums import rows_checksum
from limner.config import build
from limner.errors import CheckpointError, ConfigError, DataError
from limner.research.datasets.features import FeatureKey, Features
from limner.research.evaluation.refinement import STRENGTHS, THRESHOLDS, Refinement, read_refinement
from limner.research.losses.ranking import batch_hard, max_hinge
from limner.research.runs import fit
from limner.research.runs.run import vectors
from limner.research.runs.train import chosen_refinement, maximise, replaced_by_smoke, train, validation
from limner.research.systems.cmcm import SYSTEM, CmcmConfig, class_weights, indifference_loss, relation_loss
from limner.research.training import checkpoint
from limner.research.training.checkpoint import BEST
from limner.research.training.corpus import corpus_of
from limner.research.training.loop import Loop

pytestmark = pytest.mark.slow

prepare, load = partial(fit.prepare, SYSTEM), SYSTEM.load

VALUES = {
    "system": "cmcm",
    "backbone": "frozen",
    "data": {"set": "pairs", "vectors": "random", "batch": 32},
    "model": {"dim": 32, "word_width": 16, "hidden": 16},
    "loop": {"epochs": 30, "lr": 3e-3, "metric": "MRR", "plateau_patience": 50},
}


def config(*overrides, **values):
    return build(CmcmConfig, VALUES | values, "test", overrides)


CAN = SYSTEM.capabilities(config())


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Small products gain nothing from more; the count is put back for the tests that follow."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def fit(settings, rows, folder):
    prepared = prepare(settings, rows)
    position = Loop(
        prepared.task,
        settings.loop,
        folder,
        validate=validation(rows, SYSTEM.capabilities(settings)),
        maximise=maximise(settings.loop.metric),
        saved_with=prepared.saved_with,
    ).fit()
    return prepared, position.history[position.best_epoch]["val"]


@pytest.mark.parametrize(
    "overrides",
    [
        ("model.relations=none", "model.pooling=none"),  # Base
        (),  # CMCM
        ("preset=paper",),
        ("preset=sound",),
    ],
)
def test_learns_a_synthetic_corpus_by_heart(tmp_path, overrides):
    _, best = fit(config(*overrides), corpus(), tmp_path)
    assert best["R@1"] == 1
    if "model.relations=none" not in overrides:
        assert best["mAP"] > 0.8  # half of the pairs have either relation


def test_shuffled_pairs_fall_to_chance(tmp_path):
    # Trained on true pairs, asked about pictures dealt anew: 64 pictures, so 1/64 is chance.
    settings, rows = config("loop.epochs=8"), corpus()
    fit(settings, rows, tmp_path)
    model, _ = load(tmp_path)
    dealt = validation(corpus(shuffled=True), CAN)(model)
    assert dealt["R@1"] <= 5 / 64
    assert dealt["MedR"] > 16
    assert validation(rows, CAN)(model)["R@1"] > 0.5


def test_saved_and_loaded_scores_are_identical(tmp_path):
    rows = corpus()
    prepared, best = fit(config("loop.epochs=2"), rows, tmp_path)
    again, settings = load(tmp_path)
    assert settings == config("loop.epochs=2")
    assert not again.training
    assert again.relations == RELATIONS
    first, second = (
        vectors(model, rows.pictures, rows.val, CAN) for model in (again, load(tmp_path / BEST)[0])
    )
    np.testing.assert_array_equal(again.score(*first[:2]), again.score(*second[:2]))
    assert validation(rows, CAN)(again) == best
    # the last epoch was the best here or not; its weights, loaded over, give the task's own scores
    tensors, _ = checkpoint.load(tmp_path / BEST)
    checkpoint.load_into(prepared.task.model, tensors, "best")
    own = vectors(prepared.task.model, rows.pictures, rows.val, CAN)
    np.testing.assert_array_equal(own[0], first[0])
    np.testing.assert_array_equal(own[1], first[1])
    assert prepared.task.model.fingerprint == again.fingerprint


def test_no_test_row_reaches_batches_words_or_weights():
    data, pictures = made(n=40)
    hidden = {pair.text for pair in data.split("test")}
    places = set(pictures.places([pair.image_id for pair in data.split("test")]).tolist())
    taken = []

    class Watched:
        backbone = drawn = None

        def places(self, ids):
            return pictures.places(ids)

        def take(self, rows):
            taken.extend(rows.tolist())
            return pictures.take(rows)

    rows = corpus_of(data, Watched())
    prepared = prepare(config("data.batch=8"), rows)
    model, task = prepared.task.model, prepared.task
    validation(rows, CAN)(model)
    ids = {name for epoch in range(3) for batch in task.batches(epoch) for name in batch.ids}
    assert {name.split("-")[0] for name in ids} == {"train"}
    assert len(ids) == 40
    assert not places & set(taken)
    assert len(set(taken)) == 40
    assert not any(word.startswith("secret") for word in model.vocabulary.words)
    assert not hidden & {pair.text for part in (rows.train, rows.val) for pair in part.pairs}
    assert "secret" not in json.dumps(prepared.saved_with)


def test_batches_are_a_function_of_seed_and_epoch():
    rows = corpus(n=50)
    task = prepare(config("data.batch=16"), rows).task
    same = prepare(config("data.batch=16"), rows).task
    assert task.steps_per_epoch == 3

    def order(one, epoch):
        return [batch.ids for batch in one.batches(epoch)]

    assert order(task, 2) == order(same, 2)
    assert order(task, 2) != order(task, 3)
    assert order(task, 2) != order(prepare(config("data.batch=16", "loop.seed=1"), rows).task, 2)
    for batch in task.batches(0):
        assert len(set(batch.ids)) == 16
        assert task.describe(batch) == ", ".join(batch.ids)
    first, second = (next(iter(one.batches(1))) for one in (task, same))
    assert torch.equal(first.words, second.words)
    assert torch.equal(first.pictures, second.pictures)


def test_a_batch_holds_what_its_pairs_say():
    rows = corpus(n=20)
    task = prepare(config("data.batch=6"), rows).task
    by_id = {pair.id: (pair, place) for pair, place in zip(rows.train.pairs, rows.train.places, strict=True)}
    for batch in task.batches(0):
        for row, name in enumerate(batch.ids):
            pair, place = by_id[name]
            assert rows.train.labels[batch.rows[row]].tolist() == [
                pair.labels[relation] for relation in RELATIONS
            ]
            numbers = task.model.vocabulary.numbers(pair.text)
            assert batch.words[row, : batch.lengths[row]].tolist() == numbers
            np.testing.assert_array_equal(batch.pictures[row], rows.pictures.take(np.array([place]))[0])


@pytest.mark.parametrize("mask", [True, False])
def test_copies_of_a_pair_are_no_wrong_candidates(mask):
    rows = corpus(n=6, copies=4)
    task = prepare(config("data.batch=24", f"data.mask_duplicates={str(mask).lower()}"), rows).task
    (batch,) = task.batches(0)
    number = [name.split("-")[1] for name in batch.ids]
    for i in range(24):
        for j in range(24):
            assert bool(batch.neg[i, j]) is (number[i] != number[j] if mask else i != j)


@pytest.mark.parametrize("preset", ["release", "paper", "sound"])
def test_the_losses_are_those_of_the_preset(preset):
    rows = corpus(n=16)
    settings = config(f"preset={preset}", "data.batch=16")
    task = prepare(settings, rows).task
    (batch,) = task.batches(0)
    found = task.step(batch)
    out = task.model(batch.words, batch.lengths, batch.pictures)
    labels = torch.from_numpy(rows.train.labels)
    if preset == "paper":
        ranking = max_hinge(out.texts @ out.images.t(), 0.3, batch.neg)
        form = "paper"
    else:
        ranking = batch_hard(out.texts, out.images, 0.3, batch.neg)
        form = "release"
    relations = relation_loss(out.logits, labels[batch.rows], class_weights(labels, form), form)
    total = ranking + 0.1 * relations
    if preset == "sound":
        table = task.model.coherence.table(out.texts, out.images)
        total = total + 0.1 * indifference_loss(table, batch.neg)
        assert task.model.coherence.kind == "product"
    assert found["ranking"].item() == pytest.approx(ranking.item(), rel=1e-5)
    assert found["relations"].item() == pytest.approx(relations.item(), rel=1e-5)
    assert found["total"].item() == pytest.approx(total.item(), rel=1e-5)
    found["total"].backward()
    # the relation loss reaches both encoders, it is not cut off
    assert task.model.words.embedding.weight.grad.abs().sum() > 0
    assert task.model.image_head.project.weight.grad.abs().sum() > 0


def test_presets_are_defaults_that_a_file_overrides_and_a_run_names():
    assert config().loop.betas == (0.5, 0.999)
    paper = config("preset=paper")
    assert paper.loop.betas == (0.9, 0.999)
    assert paper.loss.relation_form == "paper"
    mixed = config("preset=paper", "loss.margin=0.2", "loss.relation_form=release")
    assert mixed.loss.ranking == "max_hinge"
    assert {"loss.margin=0.2", "loss.relation_form=release"} <= set(mixed.deviations())
    assert not any(line.startswith("loss.ranking") for line in mixed.deviations())
    plain = build(CmcmConfig, {"data": {"set": "clue"}, "preset": "sound"}, "test")
    assert plain.deviations() == []
    with pytest.raises(ConfigError, match=r"did you mean 'loss\.margin'"):
        config("loss.margn=0.2")
    with pytest.raises(ConfigError, match="preset"):
        config("preset=papper")


def test_relations_of_weight_zero_are_not_predicted():
    """Untrained, they would refine rankings at random; λ = 0 is a point of Figure 8."""
    read = config("loss.relation_weight=0.0")
    assert SYSTEM.capabilities(read).refinement is None
    assert prepare(read, corpus(n=8)).task.model.coherence is None


def test_a_smoke_run_is_small_and_says_so():
    config = build(CmcmConfig, {"data": {"set": "clue"}, "loop": {"epochs": 30}}, "test")
    small = config.smoke()
    told = replaced_by_smoke(config, small, ["loop.epochs=30", "loop.lr=1"])
    assert told == ["--smoke replaces --set loop.epochs=30 with 2"]
    assert (small.data.batch, small.loop.epochs, small.model.dim) == (8, 2, 16)
    assert "model.dim=16" in small.deviations()


def test_relations_are_chosen_by_name_and_word_vectors_learned_from_training():
    data, pictures = made(n=30)
    rows = corpus_of(data, pictures, ["late"])
    assert rows.train.labels.shape == (30, 1)
    settings = config("data.vectors=cbow", "data.vector_epochs=2")
    model = prepare(settings, rows).task.model
    assert model.relations == ("late",)
    other = prepare(config(), rows).task.model
    assert not torch.equal(model.words.embedding.weight, other.words.embedding.weight)
    with pytest.raises(ConfigError, match="did you mean 'late'"):
        corpus_of(data, pictures, ["lat"])
    with pytest.raises(DataError, match="'seen-0' has no row"):
        corpus_of(data, type(pictures)(["other"], np.zeros((1, 24), np.float32)))


def test_word_vectors_start_from_a_file(tmp_path):
    rows, file = corpus(n=8), tmp_path / "glove.txt"
    known = rows.train.texts[0].split()[0]
    file.write_text(f"{known} {' '.join('5' for _ in range(16))}\n")
    settings = config("data.vectors=glove", f"data.glove={file}")
    model = prepare(settings, rows).task.model
    number = model.vocabulary.numbers(known)[0]
    assert model.words.embedding.weight[number].tolist() == [5.0] * 16
    assert model.words.embedding.weight.requires_grad
    assert "data.vectors=glove" in settings.deviations()
    assert not any("data.glove" in one for one in settings.deviations())  # where a file lies changes nothing
    assert settings.smoke().data.vectors == "random"


def refined(can, **changed):
    return dataclasses.replace(can, refinement=dataclasses.replace(can.refinement, **changed))


def test_refinement_is_chosen_on_validation(tmp_path):
    rows = corpus()
    settings = config("loop.epochs=3")
    fit(settings, rows, tmp_path)
    model, _ = load(tmp_path)
    chosen = chosen_refinement(model, rows, CAN)
    assert chosen.form == "multiply"
    assert 0 <= chosen.strength <= 0.2
    assert chosen_refinement(model, rows, refined(CAN, form="add")).form == "add"


@pytest.mark.parametrize("form", ["multiply", "add"])
def test_a_stated_refinement_is_taken_and_nothing_is_chosen(form):
    """The published λ and T, whatever the validation rows say; one alone leaves the other to them."""
    rows = corpus(n=20)
    model = prepare(config(), rows).task.model
    stated = config(f"refinement={form}", "refinement_strength=0.13", "refinement_threshold=0.1")
    can = SYSTEM.capabilities(stated)
    assert chosen_refinement(model, None, can) == Refinement(0.13, 0.1, form)  # looks at no rows
    some = chosen_refinement(model, rows, refined(can, threshold=None))
    assert (some.strength, some.form) == (0.13, form)
    assert some.threshold in THRESHOLDS
    other = chosen_refinement(model, rows, refined(can, strength=None))
    assert other.threshold == 0.1
    assert other.strength in STRENGTHS
    assert SYSTEM.capabilities(config()).refinement.strength is None
    for wrong in ("refinement_strength=-0.1", "refinement_threshold=inf"):
        with pytest.raises(ConfigError, match=wrong.partition("=")[0]):
            config(wrong)


def test_a_run_says_where_its_refinement_comes_from(tmp_path):
    settings = {"system": "cmcm", "data": {"set": "picturebook", "vectors": "random"}, "backbone": "drawings"}
    read, told = build(CmcmConfig, settings | {"refinement_strength": 0.12}, "test"), []
    run = train(read, to=tmp_path, smoke=True, progress=lambda news: told.append(str(news)))
    (line,) = [line for line in told if "refinement: " in line]
    found = read_refinement(run.folder)
    assert found.strength == 0.12
    assert f"strength 0.12 as stated, threshold {found.threshold:g} chosen on validation" in line


def test_what_is_no_checkpoint_of_cmcm_is_refused(tmp_path):
    checkpoint.save(tmp_path / BEST, {"a": torch.ones(2)}, {"config": {"system": "other"}})
    with pytest.raises(CheckpointError, match="not a checkpoint of cmcm"):
        load(tmp_path)
    (tmp_path / BEST).write_bytes(b"junk")
    with pytest.raises(CheckpointError, match="nothing was loaded"):
        load(tmp_path)


def test_a_backbone_is_never_trained_from_random_weights():
    with pytest.raises(CheckpointError, match="needs pretrained weights"):
        prepare(config("backbone=finetune"), corpus(n=8))


def test_a_run_on_stored_features_says_what_made_them():
    data, pictures = made(n=16)
    made_by = FeatureKey(
        data="made", backbone="resnet50", weights_sha256="a" * 64, transform="squash 224 bfloat16"
    )
    ids = tuple(dict.fromkeys(pair.image_id for pair in data.pairs))
    half = pictures.take(pictures.places(ids)).astype(np.float16)
    sums = np.array([rows_checksum(row) for row in half], np.uint64)
    stored = Features(made_by, ids, half, sums)
    saved = prepare(config(), corpus_of(data, stored)).saved_with
    assert saved["backbone"] == {
        "backbone": "resnet50",
        "weights_sha256": "a" * 64,
        "transform": "squash 224 bfloat16",
    }
    assert "backbone" not in prepare(config(), corpus_of(data, pictures)).saved_with


def test_every_split_is_named():
    data, _ = made(n=4)
    assert {pair.split for pair in data.pairs} == set(SPLITS)
