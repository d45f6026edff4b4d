"""A training from Python is shown stage by stage: pictures first, then the steps of each epoch."""

from limner.progress import Progress
from limner.research.api import _Training
from limner.research.runs.train import FeatureProgress, Note
from limner.research.training.checkpoint import Position
from limner.research.training.loop import Event


class Noted(Progress):
    """Keeps what it is told, without the words of the stages."""

    def __init__(self):
        self.told = []

    def stage(self, name, total):
        self.told.append(("stage", total))

    def advance(self, count):
        self.told.append(count)

    def note(self, line):
        self.told.append(line)


def test_every_stage_counts_from_its_own_begin():
    bar = Noted()
    shown = _Training(bar)
    shown(Note("begun"))
    for done in (4, 6):
        shown(FeatureProgress(done, 6))
    for epoch, step in ((0, 1), (0, 3), (1, 2)):
        shown(Event("step", Position(epoch=epoch, step=step), {}, 0.0, steps=3, epochs=2))
    shown(Event("epoch", Position(epoch=2), {"rsum": 2.5}, 0.0, epochs=2))
    expected = ["begun", ("stage", 6), 4, 2, ("stage", 3), 1, 2, ("stage", 3), 2]
    assert bar.told[:-1] == expected
    assert "rsum 2.500" in bar.told[-1]
