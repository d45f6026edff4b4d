"""Writes that fail, kills and power cuts, at every moment of the real commands: nothing acknowledged is lost.

After each fault the command is run again, undisturbed, and leaves what it would have left at once.
"""

import errno
import random
import re
import shutil
import threading
import time
from itertools import chain, cycle, product

import pytest

from faults import watching

pytestmark = pytest.mark.slow

every_job = pytest.mark.parametrize(
    "job", ["index", "illustrate", "train", "study create", "edit", "vote"], indirect=True
)
NUMBERS = errno.ENOSPC, errno.EIO
# Where something begins to count, or to outlive a power cut.
COMMITS = "fsync", "lance", "rename", "replace", "safetensors", "sqlite sync"
REMOVALS = "rmdir", "unlink"  # which no full disk refuses


@pytest.fixture
def place(request, tmp_path_factory, job):
    """A folder in which the job begins anew, whenever it is called; always the same, which it may name."""
    folder = tmp_path_factory.getbasetemp() / "place"
    prepared = folder.with_name(f"prepared {request.node.callspec.params['job']}")
    if not prepared.exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        job.begin(folder)
        folder.rename(prepared)

    def begun():
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(prepared, folder)
        job.acknowledged.clear()
        return folder

    return begun


_UNDISTURBED = {}


@pytest.fixture
def undisturbed(request, job, place):
    """What the job changes, in order, and what it leaves."""
    name = request.node.callspec.params["job"]
    if name not in _UNDISTURBED:
        folder = place()
        with watching(folder) as disk:
            told = job.act(folder)
        assert told.done, told.line
        _UNDISTURBED[name] = disk.calls, job.left(folder)
    return _UNDISTURBED[name]


@pytest.fixture(params=["some", pytest.param("every", marks=pytest.mark.soak)])
def moments(request, undisturbed):
    """Moments of the job, from 1: one of each kind of change, or in the long tests all.

    Each comes with one of some numbers, or in the long tests with all.
    """

    def draw(counts, numbers=(0,)):
        kinds = {}
        for moment, call in enumerate(undisturbed[0], 1):
            kind = re.match(r"(lance|sqlite) \w+|\w+", call)[0]
            if counts(kind):
                kinds.setdefault(kind, []).append(moment)
        chance = random.Random(len(undisturbed[0]))
        if every:
            return product(chain.from_iterable(kinds.values()), numbers)
        return zip(map(chance.choice, kinds.values()), cycle(numbers))

    every = request.param == "every"
    return draw


@every_job
def test_a_write_that_fails_is_one_line_and_loses_nothing(job, place, undisturbed, moments):
    calls, due = undisturbed
    for moment, number in moments(lambda kind: kind not in REMOVALS, NUMBERS):
        folder = place()
        with watching(folder, fail_at=moment, number=number) as disk:
            told = job.act(folder)
        where = f"{calls[moment - 1]} ({moment} of {len(calls)}): {told.line}"
        assert len(disk.calls) >= moment, where
        job.check(folder)
        if told.done:
            assert job.left(folder) == due, where
        else:
            assert "No space left" in told.line or "Input/output error" in told.line, where
        again = job.act(folder)
        assert again.done, f"{where}; then {again.line}"
        assert job.left(folder) == due, where


@every_job
def test_a_kill_or_a_power_cut_at_any_moment_loses_nothing(job, place, undisturbed, moments):
    calls, due = undisturbed
    for moment, _ in moments(lambda kind: kind.startswith(COMMITS)):
        folder = place()
        with watching(folder, kill_at=moment) as disk:
            job.act(folder)
        assert disk.dead, f"{moment} of {len(calls)}"
        cut = folder.with_name("after the power cut")
        disk.after_power_cut(cut)
        job.check(folder)
        job.check(cut)
        for end in ("a kill", "a power cut"):
            where = f"{end} before {calls[moment - 1]} ({moment} of {len(calls)})"
            again = job.act(folder)
            assert again.done, f"{where}; then {again.line}"
            assert job.left(folder) == due, where
            if end == "a kill":
                shutil.rmtree(folder)
                cut.rename(folder)


@every_job
def test_what_was_acknowledged_outlives_a_power_cut(job, place, undisturbed):
    folder = place()
    cut = folder.with_name("after the power cut")
    with watching(folder) as disk:
        told = job.act(folder, lambda: disk.after_power_cut(cut))
    assert told.done, told.line
    shutil.rmtree(folder)
    cut.rename(folder)
    assert job.left(folder) == undisturbed[1]


@every_job
def test_a_clock_that_jumps_changes_nothing(job, place, undisturbed, monkeypatch):
    folder, (_, due) = place(), undisturbed
    hours, true = cycle((0, -1, 24, -25)), time.time
    monkeypatch.setattr(time, "time", lambda: true() + 3600 * next(hours))
    told = job.act(folder)
    assert told.done, told.line
    assert job.left(folder) == due


@pytest.mark.parametrize("job", ["edit"], indirect=True)
def test_of_two_studios_that_edit_at_once_one_is_told_that_it_was_late(job, place):
    folder, answers = place(), []
    found, _ = job.current(folder)
    start = threading.Barrier(2)

    def edit(client, title):
        start.wait()
        body = {"revision": 1, "edit": {"kind": "retitle", "title": title}}
        answers.append((client.post(f"/api/projects/{found.id}/edits", json=body), title))

    clients = [job.client(folder) for _ in range(2)]
    for client in clients:  # Routes are made at the first request, which two threads cannot do at once.
        assert client.get(f"/api/projects/{found.id}").status_code == 200
    titles = zip(clients, ("One", "Two"), strict=True)
    studios = [threading.Thread(target=edit, args=both) for both in titles]
    for one in studios:
        one.start()
    for one in studios:
        one.join()
    (done, title), (late, _) = sorted(answers, key=lambda answer: answer[0].status_code)
    assert (done.status_code, late.status_code) == (200, 409), late.text
    assert late.json()["type"] == "urn:limner:stale-revision"
    after, _ = job.current(folder)
    assert (after.revision, after.state.title) == (2, title)
