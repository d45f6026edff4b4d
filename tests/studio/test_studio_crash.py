"""Nothing that was answered is lost, wherever the server dies."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

import pytest

from limner import files
from limner.studio.edits import Fix, Retext, Retitle
from limner.studio.project_editor import ProjectEditor
from limner.studio.projects import Projects


class DiedError(BaseException):
    """The process is gone: nothing that catches errors sees it."""


def dying_after(calls, monkeypatch):
    """Let the program die in the middle of its n-th write: before the file is named, or right after."""
    count = {"left": calls}
    replace = os.replace
    fsync = os.fsync

    def tick():
        count["left"] -= 1
        if count["left"] == 0:
            raise DiedError

    def dying_fsync(handle):
        tick()
        fsync(handle)

    def dying_replace(source, target, **options):
        tick()
        replace(source, target, **options)
        tick()

    monkeypatch.setattr(files.os, "fsync", dying_fsync)
    monkeypatch.setattr(files.Path, "replace", dying_replace)


@pytest.mark.parametrize(
    "edit", [Fix(kind="blank", step=1), Retext(kind="retext", text="New words.")], ids=str
)
def test_dying_at_any_moment_of_an_edit_leaves_the_old_or_the_new(editor, text, edit, drawn_engine):
    made = editor.create(text, format="markdown")
    died = 0
    for moment in range(1, 40):
        with pytest.MonkeyPatch.context() as patch:
            dying_after(moment, patch)
            try:
                after = editor.edit(made.id, made.revision, edit)
            except DiedError:
                after = None
        again = ProjectEditor(drawn_engine, Projects(editor.projects.folder))
        found = again.get(made.id)
        if after is not None:
            assert found == after
            break
        died += 1
        assert found.revision in (made.revision, made.revision + 1)
        if found.revision == made.revision:
            assert found == made
        else:
            made = again.undo(found.id, found.revision)
        assert again.summaries()[0].id == made.id
    assert died >= 4


def test_a_project_that_was_never_whole_is_no_project(editor, text, monkeypatch):
    dying_after(3, monkeypatch)
    with pytest.raises(DiedError):
        editor.create(text, format="markdown")
    monkeypatch.undo()
    assert editor.summaries() == []
    made = editor.create(text, format="markdown")
    assert [one.id for one in editor.summaries()] == [made.id]


@pytest.mark.skipif(os.name == "nt", reason="folders are synced on Unix alone")
def test_a_new_project_is_in_its_folder_when_it_is_answered(editor, text, monkeypatch):
    """What was written in a folder is lost in a power cut with the folder's own name."""
    synced, folder = [], editor.projects.folder
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append(os.fstat(handle).st_ino))
    made = editor.create(text, format="markdown")
    assert synced[-1] == folder.stat().st_ino
    assert (folder / made.id).stat().st_ino in synced[:-1]


@pytest.mark.slow
def test_the_lock_is_shared_by_processes(editor, text):
    made = editor.create(text, format="markdown")
    lock = editor.projects.folder / made.id / "lock"
    code = (
        "import sys, time\nfrom pathlib import Path\nfrom limner.files import locked\n"
        "with locked(Path(sys.argv[1])):\n    print('held', flush=True)\n    time.sleep(1)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(lock)], stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"held\n"
        changed = editor.edit(made.id, 1, Retitle(kind="retitle", title="After"))
        assert other.poll() is not None or other.wait(0.5) == 0
    assert changed.title == "After"


class Server:
    """``limner studio`` in a process of its own."""

    def __init__(self, library, projects):
        command = [sys.executable, "-c", "from limner.cli.main import main; main()"]
        command += ["studio", "--library", str(library), "--projects", str(projects), "--no-browser"]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            [*command, "--port", "0"], stdout=subprocess.PIPE, text=True, env=environment
        )
        line = self.process.stdout.readline()
        assert line.startswith("limner studio: http://127.0.0.1:"), line
        self.url, _, self.token = line.split()[-1].partition("/?token=")

    def ask(self, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(  # noqa: S310
            self.url + path,
            data,
            {"content-type": "application/json", "authorization": f"Bearer {self.token}"},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
            return json.load(answer)

    def end(self, number):
        self.process.send_signal(number)
        self.process.stdout.close()
        return self.process.wait(60)


@pytest.mark.slow
def test_killing_the_server_in_the_middle_of_edits_loses_nothing(drawn_library, tmp_path, text):
    server = Server(drawn_library, tmp_path / "projects")
    answered = [server.ask("/api/projects", {"text": text, "format": "markdown"})]

    def work():
        for number in range(10_000):
            now = answered[-1]
            edit = {"kind": ("blank", "unlock", "lock")[number % 3], "step": number % 4}
            try:
                body = {"revision": now["revision"], "edit": edit}
                answered.append(server.ask(f"/api/projects/{now['id']}/edits", body))
            except (OSError, urllib.error.URLError, ValueError):
                return

    worker = threading.Thread(target=work)
    worker.start()
    until = time.monotonic() + 60
    while len(answered) < 6 and time.monotonic() < until:
        time.sleep(0.01)
    assert server.end(signal.SIGKILL) == -signal.SIGKILL
    worker.join()
    assert len(answered) >= 4
    project = answered[-1]
    server = Server(drawn_library, tmp_path / "projects")
    found = server.ask(f"/api/projects/{project['id']}")
    # What was answered is there; one more edit may have reached the disk before its answer left.
    assert found["revision"] - project["revision"] in (0, 1)
    if found["revision"] == project["revision"]:
        same = found.keys() & project.keys() - {"steps", "text"}
        assert {name: found[name] for name in same} == {name: project[name] for name in same}
        for step in project["steps"]:
            assert found["board"]["steps"][step["position"]] == step["board"]
    undone = server.ask(f"/api/projects/{project['id']}/undo", {"revision": found["revision"]})
    assert undone["can_redo"]
    assert server.end(signal.SIGINT) == 0
