"""``limner illustrate``: a text becomes an illustrated page.

It parses options and prints a summary; `limner.apps.illustrator` does the work.
"""

from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from limner.apps.export import check, export
from limner.apps.export.targets import check_place
from limner.apps.illustrator import Illustrator
from limner.apps.terminal import emit, emit_json, say
from limner.config import read_toml
from limner.data.records import Segmentation
from limner.data.storyboards import Storyboard
from limner.data.texts import read_story_report

Many = Annotated[tuple[str, ...], Parameter(negative="", show_default=False)]
Flag = Annotated[bool, Parameter(negative="", show_default=False)]


def illustrate(
    text: Path,
    *,
    library: Path,
    out: Annotated[Path, Parameter(name=["--out", "-o"])],
    by: Segmentation | None = None,
    decoder: Literal["off", "greedy", "beam", "chain", "anchor"] | None = None,
    pin: Many = (),
    ban: Many = (),
    channel: Many = (),
    model: Path | None = None,
    relation: str | None = None,
    metric: Path | None = None,
    min_score: float | None = None,
    allow_repeats: Flag = False,
    ignore_given: Flag = False,
    settings: Path | None = None,
    set: Many = (),  # noqa: A002  (the option's name)
    overwrite: Flag = False,
    json: Flag = False,
) -> None:
    """Choose a picture for every step of a text and write the result.

    The suffix of --out says what is written: .html (one page), .md (with copies of the pictures),
    .json, .pptx or .pdf.

    Example: limner illustrate recipe.md --library lib -o recipe.html

    Parameters
    ----------
    text
        Markdown, HTML, plain text or JSON.
    library
        Folder of the library.
    out
        File to write.
    by
        What one step is; explicit steps, else paragraphs, unless given.
    decoder
        How the pictures are made to agree: anchor (all share one world; the default), chain
        (neighbours agree), beam, greedy, or off.
    pin
        STEP=PICTURE fixes a picture, steps from 1; STEP=none keeps the step blank (repeatable).
    ban
        A picture not to use (repeatable).
    channel
        captions, base, labels or clip (repeatable); all the library has unless given.
    model
        Folder of a trained run, in place of all channels; the library must have been indexed with it.
        The page then tells the relations between text and picture and where the model looked.
    relation
        A relation of the run, such as action, that the pictures should have; every step prefers them
        alike. action=5 counts it five times, action=-1 avoids it.
    metric
        Folder of a trained same-document metric, by which the pictures pull each other and pinned ones pull
        the rest; the library must have been indexed with it.
    min_score
        Leave a step blank where no picture fits with this probability, 0 to 1;
        a calibrated value unless given; 0 never leaves one blank.
    allow_repeats
        Let a picture, or one nearly the same, appear twice.
    ignore_given
        Choose anew where the text already shows a picture.
    settings
        TOML file with options of the storyboard.
    set
        One option of the storyboard, such as pair_weight=0.5 (repeatable).
    overwrite
        Replace a file that is there.
    json
        Print the storyboard as JSON as well.
    """
    check(out)
    check_place(out, overwrite=overwrite)
    reading = read_story_report(text, by=by)
    for line in reading.summary():
        say(f"{text.name}: {line}")
    opened = Illustrator.open(library, model=model, metric=metric, channels=channel)
    values: dict[str, Any] = read_toml(settings) if settings else {}
    given_now = {"decoder": decoder, "min_probability": min_score, "allow_repeats": allow_repeats or None}
    values |= {name: value for name, value in given_now.items() if value is not None}
    where = str(settings) if settings else "options"
    options = opened.options(values, set, pins=pin, bans=ban, where=where)
    shown = None if ignore_given else opened.shown_by(reading.story)
    for line in shown.notes if shown else ():
        say(f"{text.name}: {line}")
    board = opened.board(reading.story, options, shown=shown, relations=relation)
    for note in (*opened.notes, opened.language_note(reading.story)):
        if note:
            say(note)
    if "gap" in board.settings:
        say(f"{text.name}: the choice is proven to be within {board.settings['gap']} nats of the best one")
    written = export(board, out, overwrite=overwrite)
    for line in written.warnings:
        say(f"{out.name}: {line}")
    if json:
        emit_json(board)
        return
    for line in summary(board):
        emit(line)
    emit(f"written: {written.path}")


def summary(board: Storyboard) -> list[str]:
    """One line per step: number, picture or blank, and how it came to be."""
    lines = []
    for step in board.steps:
        name = step.chosen.picture.path if step.chosen else "blank"
        lines.append(f"{step.position + 1:3d}  {step.origin:8s} {name}")
    blanks = board.blanks()
    why = ", ".join(f"{count} {reason}" for reason, count in blanks.items())
    count = f"{len(board.steps)} step{'s' if len(board.steps) != 1 else ''}"
    left = f"{sum(blanks.values())} left blank" + (f" ({why})" if why else "")
    lines.append(f"{count}, {left}; decoder {board.decoder}")
    return lines
