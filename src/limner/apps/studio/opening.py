"""A text file opened in the studio: its project, made where there is none of the same text.

It reads the file and matches the pictures it shows with the library. It changes no project that is there.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from limner.apps.studio.edits import TextFormat
from limner.apps.studio.projects import digest
from limner.apps.studio.workshop import Workshop
from limner.data.encodings import decode_text
from limner.data.texts import MAX_BYTES, SUFFIXES, read_story
from limner.errors import DataError, MissingError

_FORMATS: dict[str, TextFormat] = {suffix: kind for suffix, kind in SUFFIXES.items() if kind != "json"}


def opened(file: Path, workshop: Workshop, say: Callable[[str], None]) -> str:
    """Id of the project of a text file.

    Args:
        file: Markdown, HTML or plain text, by its suffix.
        workshop: where it is looked for, and made.
        say: told what the person should know, a line each.
    Raises:
        LimnerError: as `limner.data.texts.read_story`; a JSON story, which the studio cannot edit as text.
    """
    kind = _FORMATS.get(file.suffix.lower())
    if kind is None:
        known = ", ".join(suffix for suffix in _FORMATS if suffix)
        raise DataError(f"{file}: the studio opens texts ({known}); use limner illustrate for others")
    try:
        data = file.read_bytes()[: MAX_BYTES + 1]
    except OSError as error:
        raise MissingError(f"{file}: {error.strerror}; expected a text file that can be read") from error
    text, note = decode_text(data, file.name, html=kind == "html")
    text = text.removeprefix("\ufeff")
    if note:
        say(f"{file.name}: {note}")
    projects = workshop.projects
    for project in projects.ids():
        if projects.read(project).state.text == digest(text.encode("utf-8")):
            return project
    given = {}
    story = read_story(file)
    if any(step.pictures for step in story.steps):
        shown = workshop.engine.illustrator().shown_by(story)
        given = shown.inside
        for line in shown.notes:
            say(f"{file.name}: {line}")
        for step in shown.outside:
            say(f"{file.name}: step {step + 1} shows a picture outside the library; one is chosen")
    return workshop.create(text, format=kind, given=given).id
