"""Batches of pairs without labels: what they hold, in which order, and what is wrong beside what."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from corpora import corpus, made
from PIL import Image

from limner.config import build
from limner.encoders.pixels import DrawingNet, FromBytes
from limner.encoders.vocabulary import Vocabulary
from limner.errors import ConfigError
from limner.research.runs.fit import fit
from limner.research.runs.train import validation
from limner.research.systems.cmcm import SYSTEM, CmcmConfig
from limner.research.training import checkpoint
from limner.research.training.checkpoint import RESUME
from limner.research.training.corpus import TrainingBatches, corpus_of, open_corpus
from limner.research.training.framing import FileRows, framing_of
from limner.research.training.settings import DataConfig, RunConfig


def batches(rows, **data):
    settings = build(RunConfig, {"system": "made", "data": {"set": "pairs", "batch": 6, **data}}, "test")
    vocabulary = Vocabulary.build(rows.train.texts, "default", 1)
    return TrainingBatches(rows, vocabulary, settings, torch.device("cpu")), vocabulary


def test_a_batch_holds_what_its_pairs_say():
    rows = corpus(n=20)
    drawn, vocabulary = batches(rows)
    assert drawn.steps_per_epoch == 3
    seen = []
    for chosen, _ in drawn.order(2):
        batch = drawn.batch(chosen, epoch=2)
        seen += chosen.tolist()
        assert batch.rows.tolist() == chosen.tolist()
        for place, row in enumerate(chosen):
            pair = rows.train.pairs[row]
            assert batch.ids[place] == pair.id
            assert batch.words[place, : batch.lengths[place]].tolist() == vocabulary.numbers(pair.text)
            own = rows.pictures.take(rows.train.places[[row]])[0]
            np.testing.assert_array_equal(batch.pictures[place], own)
    assert len(set(seen)) == 18
    again = [chosen.tolist() for chosen, _ in batches(rows)[0].order(2)]
    assert again == [chosen.tolist() for chosen, _ in drawn.order(2)]
    assert again != [chosen.tolist() for chosen, _ in drawn.order(3)]


@pytest.mark.parametrize("mask", [True, False])
def test_copies_are_no_wrong_candidates(mask):
    rows = corpus(n=4, copies=3)
    drawn, _ = batches(rows, batch=12, mask_duplicates=mask)
    (chosen, _), *_ = drawn.order(0)
    batch = drawn.batch(chosen, epoch=0)
    number = [name.split("-")[1] for name in batch.ids]
    for i in range(12):
        for j in range(12):
            assert bool(batch.neg[i, j]) is (number[i] != number[j] if mask else i != j)
    usable = drawn.usable(batch.rows)
    for i, row in enumerate(chosen):
        for other, pair in enumerate(rows.train.pairs):
            assert bool(usable[i, other]) is (rows.train.pairs[row].text != pair.text)


def test_what_is_near_is_not_wrong_either():
    rows = corpus(n=12)
    drawn, _ = batches(rows, batch=8)
    (chosen, _), *_ = drawn.order(0)
    near = drawn.batch(np.roll(chosen, 1), epoch=0)
    batch = replace(drawn.batch(chosen, epoch=0), near=near)
    wrong = drawn.wrong_beside(batch)
    for i in range(8):
        for j in range(8):
            assert bool(wrong[i, j]) is (j not in (i, (i - 1) % 8))
    alone = drawn.batch(chosen, epoch=0)
    assert torch.equal(drawn.wrong_beside(alone), alone.neg)


def files(folder, n=12):
    """Made-up pairs whose pictures are files of noise, and what the system needs of a backbone."""
    rng = np.random.default_rng(0)
    data, _ = made(n=n)
    names = list(dict.fromkeys(pair.image_id for pair in data.pairs))
    for number, _ in enumerate(names):
        Image.fromarray(rng.integers(256, size=(40, 60, 3), dtype=np.uint8)).save(folder / f"{number}.png")
    return data, {name: folder / f"{number}.png" for number, name in enumerate(names)}


def parts_of(data, pictures, *, epoch, **settings):
    """Training row → the pixels a batch of an epoch holds of it."""
    rows = corpus_of(data, FileRows(pictures, framing_of(DataConfig(set="pairs", **settings))))
    drawn, _ = batches(rows, **settings)
    return {
        row: pixels
        for batch in drawn.batches(epoch)
        for row, pixels in zip(batch.rows.tolist(), batch.pictures.numpy(), strict=True)
    }


@pytest.mark.parametrize("how", ["random", "resized"])
def test_seed_epoch_and_row_say_what_is_seen_of_a_file(tmp_path, how):
    """Not the size of a batch, nor its place in the epoch, nor what was drawn before."""
    data, pictures = files(tmp_path)
    seen = {"crop": how, "flip": True, "picture_size": 32}
    first = parts_of(data, pictures, epoch=1, batch=4, **seen)
    again = parts_of(data, pictures, epoch=1, batch=6, **seen)
    assert len(first) == len(again) == 12
    for row, pixels in first.items():
        np.testing.assert_array_equal(pixels, again[row])
    other = parts_of(data, pictures, epoch=2, batch=4, **seen)
    assert sum(np.array_equal(pixels, other[row]) for row, pixels in first.items()) < 4
    whole = parts_of(data, pictures, epoch=1, batch=4, picture_size=32)
    later = parts_of(data, pictures, epoch=2, batch=4, picture_size=32)
    assert all(np.array_equal(pixels, later[row]) for row, pixels in whole.items())


def tuned(folder, data, pictures, report=lambda event: None):
    """A run of CMCM whose small backbone learns from random parts of files."""
    values = {"crop": "random", "flip": True, "picture_size": 32, "batch": 4, "vectors": "random"}
    model = {"dim": 8, "word_width": 6, "hidden": 4}
    settings = build(
        CmcmConfig,
        {
            "backbone": "finetune",
            "data": {"set": "pairs", **values},
            "model": model,
            "loop": {"epochs": 2, "metric": "MRR", "save_every_steps": 1},
        },
        "test",
    )
    rows = corpus_of(data, FileRows(pictures, framing_of(settings.data)))
    torch.manual_seed(3)
    _, finished = fit(
        SYSTEM,
        settings,
        rows,
        folder,
        validate=validation(rows, SYSTEM.capabilities(settings)),
        maximise=True,
        report=report,
        pretrained=(FromBytes(DrawingNet()), DrawingNet.width),
    )
    return finished


@pytest.mark.slow
@pytest.mark.parametrize("stop_after", [2, 3])
def test_a_backbone_that_is_trained_along_resumes_bit_for_bit(tmp_path, stop_after):
    data, pictures = files(tmp_path)
    assert tuned(tmp_path / "whole", data, pictures)
    assert not tuned(tmp_path / "cut", data, pictures, lambda event: event.position.taken == stop_after)
    torch.rand(5)
    assert tuned(tmp_path / "cut", data, pictures)
    (first, about), (second, again) = (checkpoint.load(tmp_path / name / RESUME) for name in ("whole", "cut"))
    assert about == again
    for name, tensor in first.items():
        assert torch.equal(tensor, second[name]), name


@pytest.mark.parametrize("wrong", [{"crop": "random"}, {"flip": True}, {"picture_size": 128}])
@pytest.mark.parametrize("data", [{"set": "picturebook"}, {"set": "pairs"}])
def test_stored_and_drawn_pictures_are_not_cropped_and_it_is_said(tmp_path, wrong, data):
    (tmp_path / "pairs.jsonl").write_text("")
    config = DataConfig(**data, **wrong, annotations=str(tmp_path / "pairs.jsonl"), split="released")
    with pytest.raises(ConfigError, match=r"--set backbone=finetune, not for (drawn|stored)"):
        open_corpus(config)
