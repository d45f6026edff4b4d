"""A storyboard or found pictures as a piece of HTML, for a notebook: small copies, texts and reasons."""

from collections.abc import Iterable, Sequence
from html import escape

from limner.errors import DataError
from limner.export.wording import explain, picture_alt
from limner.pictures.thumbnails import shrink
from limner.records import Candidate, Picture, Storyboard

AREA_PX = 60_000
LETTERS = 400
_ROW = "display:flex;gap:1em;align-items:flex-start;margin:0 0 1em"
_FRAME = "flex:none;width:240px;text-align:center"


def board_fragment(board: Storyboard, notes: Iterable[str] = ()) -> str:
    """All steps, each with its picture and why it was chosen.

    Args:
        board: the storyboard.
        notes: lines to put below it.
    """
    rows = []
    for step in board.steps:
        text = board.story.steps[step.position]
        words = text.text if len(text.text) <= LETTERS else f"{text.text[:LETTERS].rsplit(' ', 1)[0]} …"
        title = f"<b>{escape(text.title)}</b><br>" if text.title else ""
        said = "<br>".join(escape(line) for line in explain(step).lines())
        body = f"{step.position + 1}. {title}{escape(words)}<details><summary>why</summary>{said}</details>"
        rows.append(_row(step.picture, f"step {step.position + 1}", body))
    title = f"<h3>{escape(board.story.title)}</h3>" if board.story.title else ""
    return "\n".join([title, *rows, *_lines(notes)])


def hits_fragment(hits: Sequence[Candidate], notes: Iterable[str] = ()) -> str:
    """Found pictures, best first, with the strength of each match and its parts.

    Args:
        hits: what was found.
        notes: lines to put below them.
    """
    rows = [
        _row(hit.picture, f"picture {n}", f"{n}. <b>{hit.strength:+.2f}</b><br>{escape(hit.why)}")
        for n, hit in enumerate(hits, 1)
    ]
    return "\n".join([*rows, *_lines(notes)])


def _row(picture: Picture | None, where: str, body: str) -> str:
    return f'<div style="{_ROW}"><div style="{_FRAME}">{_shown(picture, where)}</div><div>{body}</div></div>'


def _shown(picture: Picture | None, where: str) -> str:
    """A small copy and the name of its file, or why there is none."""
    if picture is None:
        return "<i>blank</i>"
    try:
        copy = shrink(picture, where, area_px=AREA_PX, quality=76)
    except DataError as error:
        return f"<i>{escape(str(error))}</i>"
    alt = escape(picture_alt(picture, where), quote=True)
    return (
        f'<img src="{copy.uri}" alt="{alt}" style="max-width:100%"><br><small>{escape(picture.path)}</small>'
    )


def _lines(notes: Iterable[str]) -> list[str]:
    return [f"<p><small>{escape(note)}</small></p>" for note in notes]
