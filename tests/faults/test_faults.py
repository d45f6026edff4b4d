"""Writes that fail, kills and power cuts, at every moment of the real commands: nothing acknowledged is lost.

After each fault the command is run again, undisturbed, and leaves what it would have left at once.
"""

import errno
import shutil
import threading
import time
from itertools import cycle

import pytest

from faults import watching
from limner.library.library import Library

JOBS = ("index", "illustrate", "train", "study create", "edit", "vote")
every_job = pytest.mark.parametrize("job", JOBS, indirect=True)
# SQLite syncs by itself, unseen from here.
every_synced_job = pytest.mark.parametrize("job", JOBS[:-1], indirect=True)


@pytest.fixture
def place(tmp_path, job):
    """A folder in which the job begins anew: undisturbed at first, and again whenever it is called."""

    def begun():
        folder = tmp_path / "place"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        job.begin(folder)
        return folder

    return begun


def undisturbed(job, folder):
    """What the job changes, in order, and what it leaves."""
    with watching(folder) as disk:
        told = job.act(folder)
    assert told.done, told.line
    return disk.calls, job.left(folder)


@every_job
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO], ids=["full", "failing"])
def test_a_write_that_fails_is_one_line_and_loses_nothing(job, place, moments, number):
    calls, due = undisturbed(job, place())
    for moment in moments(len(calls), number):
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
def test_a_kill_at_any_moment_loses_nothing(job, place, moments):
    ends(job, place, moments, cut=False)


@every_synced_job
def test_a_power_cut_at_any_moment_loses_nothing(job, place, moments):
    ends(job, place, moments, cut=True)


def ends(job, place, moments, *, cut):
    calls, due = undisturbed(job, place())
    for moment in moments(len(calls), int(cut)):
        folder, told = place(), None
        with watching(folder, kill_at=moment) as disk:
            told = job.act(folder)
        where = f"before {calls[moment - 1]} ({moment} of {len(calls)})"
        assert told is None, where
        if cut:
            shutil.rmtree(folder)
            disk.after_power_cut(folder)
        job.check(folder)
        again = job.act(folder)
        assert again.done, f"{where}; then {again.line}"
        assert job.left(folder) == due, where


@every_synced_job
def test_what_was_acknowledged_outlives_a_power_cut(job, place):
    folder = place()
    with watching(folder) as disk:
        told = job.act(folder)
    assert told.done, told.line
    due = job.left(folder)
    shutil.rmtree(folder)
    disk.after_power_cut(folder)
    assert job.left(folder) == due


@every_synced_job
def test_a_clock_that_jumps_changes_nothing(job, place, monkeypatch):
    folder = place()
    job.act(folder)
    due = job.left(folder)
    folder = place()
    hours, true = cycle((0, -1, 24, -25)), time.time
    monkeypatch.setattr(time, "time", lambda: true() + 3600 * next(hours))
    told = job.act(folder)
    assert told.done, told.line
    assert job.left(folder) == due


@pytest.mark.parametrize("job", ["index"], indirect=True)
def test_a_second_index_is_told_in_one_line_and_the_first_loses_nothing(job, place):
    folder = place()
    assert job.act(folder).done
    due = job.left(folder)
    with Library.open(folder / "new" / "lib").writing():
        told = job.act(folder)
    assert "another process is indexing into it; wait for it to end" in told.line
    assert job.act(folder).done
    assert job.left(folder) == due


@pytest.mark.parametrize("job", ["edit"], indirect=True)
def test_of_two_studios_that_edit_at_once_one_is_told_that_it_was_late(job, place):
    folder, answers = place(), []
    found = job.current(folder)
    start = threading.Barrier(2)

    def edit(client, title):
        start.wait()
        body = {"revision": 1, "edit": {"kind": "retitle", "title": title}}
        answers.append((client.post(f"/api/projects/{found['id']}/edits", json=body), title))

    clients = [job.client(folder) for _ in range(2)]
    for client in clients:  # Routes are made at the first request, which two threads cannot do at once.
        assert client.get(f"/api/projects/{found['id']}").status_code == 200
    titles = zip(clients, ("One", "Two"), strict=True)
    studios = [threading.Thread(target=edit, args=both) for both in titles]
    for one in studios:
        one.start()
    for one in studios:
        one.join()
    (done, title), (late, _) = sorted(answers, key=lambda answer: answer[0].status_code)
    assert (done.status_code, late.status_code) == (200, 409), late.text
    assert late.json()["type"] == "urn:limner:stale-revision"
    after = job.current(folder)
    assert (after["revision"], after["title"]) == (2, title)
