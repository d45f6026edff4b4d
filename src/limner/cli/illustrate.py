"""``limner illustrate``: a text becomes an illustrated page.

It parses options and prints a summary; `limner.api.Library` does the work.
"""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from limner.cli.terminal import Flag, Many, emit_report, say
from limner.errors import ConfigError
from limner.export import check
from limner.export.targets import check_place
from limner.records import Segmentation


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
    device: str = "auto",
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
        The page then shows the relations between text and picture and where the model looked.
    relation
        A relation of the run, such as action, that the pictures should have; every step prefers them
        alike. action=5 counts it five times, action=-1 avoids it.
    metric
        Folder of a trained same-document metric, by which the pictures pull each other and pinned ones pull
        the rest; the library must have been indexed with it.
    device
        What computes for runs and clip: auto (a CUDA card where there is one), cpu, cuda, cuda:N or mps.
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
    from limner.api import Library
    from limner.text.read import read_story_report

    check(out)
    check_place(out, overwrite=overwrite)
    opened = Library.open(library, device=device)
    reading = read_story_report(text, by=by)
    for line in reading.summary():
        say(line)
    board = opened.illustrate(
        reading.story,
        pins=dict(_pin(word) for word in pin),
        bans=ban,
        decoder=decoder,
        min_probability=min_score,
        allow_repeats=allow_repeats or None,
        keep_given=not ignore_given,
        relation=relation,
        model=model,
        metric=metric,
        channels=channel,
        options=settings,
        overrides=set,
    )
    written = board.save(out, overwrite=overwrite)
    for line in (*board.notes, *(f"{out.name}: {line}" for line in written.warnings)):
        say(line)
    emit_report(board, [str(board), f"written: {written.path}"], as_json=json)


def _pin(word: str) -> tuple[int, str]:
    """``STEP=PICTURE`` as a step and what its picture is found by."""
    step, equals, name = word.partition("=")
    if not equals or not step.strip().isdigit() or int(step) < 1:
        raise ConfigError(f"--pin {word!r}: expected STEP=PICTURE with steps from 1, such as 3=cake.jpg")
    return int(step), name
