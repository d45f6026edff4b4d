"""Texts read in a process of its own: the same stories and errors, and an end to what would not end."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from limner.errors import ConfigError, DataError, LimnerError
from limner.progress import Progress
from limner.text import worker
from limner.text.read import parse_story_report
from limner.text.worker import ReaderProcesses

pytestmark = pytest.mark.slow

# A reader that some words make hang, die, need more memory than there is, or stumble.
MOODY = """
import os, signal
from limner.text import worker

read = worker.parse_story_report


def moody(text, **how):
    while "for ever" in text:
        pass
    if "die" in text:
        os.kill(os.getpid(), signal.SIGKILL)
    if "much" in text:
        bytearray(1 << 50)
    if "stumble" in text:
        raise IndexError("on two\\nlines")
    return read(text, **how)


worker.parse_story_report = moody
worker.main()
"""
PAGE = """<html lang=en><head><title>Bread</title><script type="application/ld+json">
{"@type": "Recipe", "name": "Bread", "author": {"name": "A"}, "recipeIngredient": ["flour"],
 "recipeInstructions": [{"@type": "HowToStep", "text": "Mix.", "image": "a.jpg"}, "Bake."]}</script></head>
<body><nav>Home</nav><main><h1>Bread</h1><p>It <b>is</b> <a href="x">old</a>.</p><ol><li>Mix.<li>Bake.</ol>
<table><tr><th>a<td>b</table><p hidden>no</p><img src="data:x"></main></body></html>"""
NOTED = """---
title: A day
licence: mine
mood: calm
---
# A day

Some *words* before.

## 1. Up ![the sun](sun.png)

- one
    1. two

> quoted `code`

## 2. Down

| a | b |
|---|---|
| c | d |
"""
TEXTS = {
    "page": (PAGE, "html", None),
    "markdown": (NOTED, "markdown", None),
    "plain": ("A title\n\nGeh. Warte! \U0001f98a\n\n第一步\u2028x\n", "plain", "paragraph"),
    "json": (
        '{"id": "a", "split": "val", "odd": 1, "steps": ["one", {"text": "two", "image": "x.png"}]}',
        "json",
        None,
    ),
}


@pytest.fixture(scope="module")
def reader():
    """One that keeps a process ready for the next test."""
    made = ReaderProcesses()
    yield made
    made.close()


@pytest.fixture
def moody(monkeypatch):
    """A reader whose processes are moody."""
    monkeypatch.setattr(worker, "_COMMAND", (sys.executable, "-P", "-c", MOODY))
    reader = ReaderProcesses(deadline_s=20.0, at_once=1)
    yield reader
    reader.close()


@pytest.fixture
def started(moody, monkeypatch):
    """All processes that the reader starts."""
    found, start = [], ReaderProcesses._started
    monkeypatch.setattr(ReaderProcesses, "_started", lambda self: found.append(start(self)) or found[-1])
    return found


class GivenUp(Progress):
    """Raises once it is asked."""

    def advance(self, count):
        assert count == 0
        raise InterruptedError("nobody waits")


@pytest.mark.parametrize("name", TEXTS)
def test_a_story_is_the_same_through_the_process_and_without(reader, name):
    text, kind, by = TEXTS[name]
    assert reader.read(text, format=kind, by=by) == parse_story_report(text, format=kind, by=by)


@pytest.mark.parametrize(
    ("text", "kind"), [("half \ud800 a letter", "plain"), ("a", "pdf")], ids=["data", "settings"]
)
def test_errors_are_the_same_too(reader, text, kind):
    told = []
    for read in (reader.read, parse_story_report):
        with pytest.raises((DataError, ConfigError)) as caught:
            read(text, format=kind)
        told.append((type(caught.value), str(caught.value)))
    assert told[0] == told[1]


def test_what_would_not_end_is_ended_in_one_line(moody, started):
    moody.deadline_s = 0.3
    with pytest.raises(DataError, match=r"^text: not read within 0.3 seconds; expected .*; .*split it$"):
        moody.read("for ever")
    assert [one.returncode for one in started] == [-signal.SIGKILL]


def test_a_reading_that_nobody_waits_for_is_ended(moody, started):
    with pytest.raises(InterruptedError):
        moody.read("for ever", progress=GivenUp())
    assert [one.returncode for one in started] == [-signal.SIGKILL]


def test_a_reader_that_breaks_is_one_line_and_the_next_text_is_read(moody):
    for text, kind, told in (
        ("die", DataError, r"^text: its reader ended \(SIGKILL\); expected .* 4 GB of memory; split it$"),
        ("much", DataError, r"^text: its reader ended \(out of memory\); "),
        ("stumble", LimnerError, r"^text: IndexError while it was read: on two lines$"),
    ):
        with pytest.raises(kind, match=told) as caught:
            moody.read(text)
        assert type(caught.value) is kind
    assert moody.read("A fox.").story.steps[0].text == "A fox."


@pytest.mark.skipif(sys.platform != "linux", reason="this system bounds no memory")
def test_a_text_that_needs_too_much_memory_is_one_line():
    reader = ReaderProcesses(memory_bytes=320 * 2**20)
    with pytest.raises(DataError) as caught:
        reader.read("<p>a " * 600_000, format="html")
    reader.close()
    assert "\n" not in str(caught.value)


def test_every_text_has_a_process_and_the_next_one_waits(moody, started):
    moody.read("A fox.")
    moody.read("A hare.")
    assert [one.returncode is None for one in started] == [False, False, True]
    moody.close()
    assert started[2].returncode == -signal.SIGKILL


def test_one_that_died_while_it_waited_is_replaced(moody, started):
    moody.read("A fox.")
    started[1].kill()
    started[1].wait()
    assert moody.read("A hare.").story.steps[0].text == "A hare."


def test_who_waits_for_a_turn_can_give_up(moody):
    reads, go = threading.Event(), threading.Event()

    class Busy(Progress):
        def advance(self, count):
            reads.set()
            if go.is_set():
                raise InterruptedError

    def busy():
        with pytest.raises(InterruptedError):
            moody.read("for ever", progress=Busy())

    thread = threading.Thread(target=busy)
    thread.start()
    reads.wait(20)
    with pytest.raises(InterruptedError):
        moody.read("A fox.", progress=GivenUp())
    go.set()
    thread.join(20)
    assert not thread.is_alive()


def test_a_reader_whose_server_was_killed_ends_with_its_deadline():
    command = [sys.executable, "-P", "-c", MOODY, "0.2", str(2**32)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ) as process:
        process.stdin.write(b'{"text": "for ever", "format": "plain", "by": null}')
        process.stdin.close()
        assert process.stdout.readline() == b""
        assert process.wait(20) == 1


def test_a_process_whose_server_was_killed_says_nothing():
    process = subprocess.Popen(
        [*worker._COMMAND, "60", str(worker.MEMORY_BYTES)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    process.stdout.close()
    _, told = process.communicate(b'{"text": "Mix. Bake.", "format": "plain", "by": null}\n', timeout=60)
    assert (process.returncode, told) == (0, b"")


def test_a_text_larger_than_a_pipe_is_read_by_a_process_that_starts_slowly(monkeypatch):
    slow = "import time; time.sleep(1); from limner.text import worker; worker.main()"
    monkeypatch.setattr(worker, "_COMMAND", (sys.executable, "-P", "-c", slow))
    reader = ReaderProcesses()
    text = "A fox. " * 100_000
    assert reader.read(text).story.steps[0].text == text.strip()
    reader.close()
