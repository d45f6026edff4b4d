"""Pictures decoded while the batch before is learned: the same batches, few at once, no thread left."""

import threading
import time

import numpy as np
import pytest
import torch
from PIL import Image
from tasks import PlainTask
from torch import nn

from limner.errors import DataError
from limner.research.datasets.pairs import Pair
from limner.research.systems.vse import VseConfig
from limner.research.training import checkpoint
from limner.research.training.checkpoint import RESUME
from limner.research.training.corpus import AHEAD, ArrayRows, Corpus, TrainingBatches, rows_of
from limner.research.training.framing import FileRows, TrainingFraming
from limner.research.training.loop import Loop
from limner.research.training.settings import LoopConfig

COUNT, SIZE, FRAMING = 24, 2, TrainingFraming(32, "random", flip=True)


def corpus_in(folder, *, broken=None):
    """Pairs of a text and a picture file."""
    files, random = {}, np.random.default_rng(0)
    for place in range(COUNT):
        path = folder / f"{place}.png"
        Image.fromarray(random.integers(0, 255, (40, 60, 3), dtype=np.uint8)).save(path)
        files[f"{place:064x}"] = path
    if broken is not None:
        files[f"{broken:064x}"].write_bytes(b"no picture")
    pairs = [
        Pair(id=str(place), text=f"text {place}", image=str(path), image_hash=name)
        for place, (name, path) in enumerate(files.items())
    ]
    rows = FileRows(files, FRAMING)
    return Corpus("files", (), rows_of(pairs, rows, ()), rows_of(pairs[:2], rows, ()), rows)


def batches_of(corpus):
    config = VseConfig.model_validate({"system": "vse", "data": {"set": "captions", "batch": SIZE}})
    return TrainingBatches(corpus, None, config, torch.device("cpu"))


def decoding():
    return [one for one in threading.enumerate() if one.name.startswith("limner-ahead")]


def soon(condition):
    for _ in range(200):
        if condition():
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("epoch", [0, 3])
def test_batches_are_those_made_one_after_the_other(tmp_path, epoch):
    made = batches_of(corpus_in(tmp_path))
    found = list(made.batches(epoch))
    due = [made.batch(chosen, epoch=epoch) for chosen, _ in made.order(epoch)]
    assert len(found) == len(due) == COUNT // SIZE
    for one, other in zip(found, due, strict=True):
        assert one.ids == other.ids
        assert torch.equal(one.pictures, other.pictures)
        assert torch.equal(one.neg, other.neg)
    assert decoding() == []


def test_few_batches_are_made_before_they_are_taken(tmp_path, monkeypatch):
    made, begun = batches_of(corpus_in(tmp_path)), []
    plain = made.batch
    monkeypatch.setattr(made, "batch", lambda *words, **more: begun.append(0) or plain(*words, **more))
    drawn = made.batches(0)
    next(drawn)
    assert soon(lambda: len(begun) == AHEAD)  # it works ahead ...
    time.sleep(0.1)
    assert len(begun) == AHEAD  # ... and no further
    drawn.close()
    assert decoding() == []


class Learner(PlainTask):
    """Learns nothing from pictures of files."""

    def __init__(self, batches, error=None):
        torch.manual_seed(0)
        self.model, self._batches, self.error, self.taken = nn.Linear(1, 1), batches, error, 0

    @property
    def steps_per_epoch(self):
        return self._batches.steps_per_epoch

    def batches(self, epoch):
        return self._batches.batches(epoch)

    def step(self, batch):
        self.taken += 1
        if self.error is not None and self.taken == 3:
            raise self.error
        return {"total": self.model(batch.pictures.float().mean().reshape(1, 1) / 255).sum()}


def loop(folder, task, report=lambda event: None):
    config = LoopConfig(epochs=2, metric="x")
    return Loop(task, config, folder, validate=lambda model: {"x": 0.0}, maximise=True, report=report)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ValueError("wrong")])
def test_an_error_and_ctrl_c_leave_no_thread(tmp_path, error):
    task = Learner(batches_of(corpus_in(tmp_path)), error)
    with pytest.raises(type(error)) as caught:
        loop(tmp_path / "run", task).fit()
    assert decoding() == []
    assert caught.value is error


@pytest.mark.slow
def test_a_stop_leaves_no_thread_and_goes_on_as_if_there_had_been_none(tmp_path):
    corpus = corpus_in(tmp_path)
    task = Learner(batches_of(corpus))
    loop(tmp_path / "whole", Learner(batches_of(corpus))).fit()
    loop(tmp_path / "cut", task, lambda event: event.position.taken == 5).fit()
    assert decoding() == []
    loop(tmp_path / "cut", task).fit()
    cut, whole = (checkpoint.load(tmp_path / name / RESUME)[1]["position"] for name in ("cut", "whole"))
    assert cut == whole
    assert decoding() == []


def test_a_broken_file_is_named_where_its_batch_would_come(tmp_path):
    made = batches_of(corpus_in(tmp_path, broken=7))
    place = next(step for step, (chosen, _) in enumerate(made.order(0)) if 7 in chosen)
    met = []
    with pytest.raises(DataError, match=r"7\.png"):
        met.extend(batch.ids for batch in made.batches(0))
    assert len(met) == place
    assert decoding() == []


def test_arrays_need_no_thread(tmp_path):
    corpus = corpus_in(tmp_path)
    rows = ArrayRows([f"{place:064x}" for place in range(COUNT)], np.zeros((COUNT, 4), np.float32))
    drawn = batches_of(Corpus("arrays", (), corpus.train, corpus.val, rows)).batches(0)
    next(drawn)
    assert decoding() == []
