"""HTML of a storyboard or search result for a notebook: thumbnails, texts and reasons."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from html import escape

from limner.errors import DataError
from limner.export import Plan
from limner.export.outline import Outline
from limner.pictures.thumbnails import Copy, shrink
from limner.records import Board, Candidate, chance_in_words

AREA_PX = 60_000
LETTERS = 400
_ROW = "display:flex;gap:1em;align-items:flex-start;margin:0 0 1em"
_FRAME = "flex:none;width:240px;text-align:center"
_IMAGE = '<img src="{}" alt="{}" style="max-width:100%"><br><small>{}</small>'


def board_fragment(board: Board, notes: Iterable[str] = ()) -> str:
    """HTML of all steps, with their cropped pictures and the reason for each choice.

    Args:
        board: the storyboard.
        notes: lines to put below it.
    """
    outline = Outline(board, Plan("book"), ".html")
    rows = [f"<h3>{escape(board.story.title)}</h3>"] if board.story.title else []
    for panel in outline.panels:
        text = panel.text
        words = text if len(text) <= LETTERS else f"{text[:LETTERS].rsplit(' ', 1)[0]} …"
        title = f"<b>{escape(panel.title)}</b><br>" if panel.title else ""
        why = f"<details><summary>why</summary>{'<br>'.join(map(escape, panel.why))}</details>"
        figures = [_figure(figure.copy, figure.alt, figure.path) for figure in panel.figures]
        rows.append(_row(figures, f"{panel.position}. {title}{escape(words)}{why}"))
    return "\n".join([*rows, *_lines([*outline.warnings, *notes])])


def hits_fragment(hits: Sequence[Candidate], notes: Iterable[str] = ()) -> str:
    """HTML of a search result, best first, with the probability that each fits and the reasons.

    Args:
        hits: the pictures.
        notes: lines to put below them.
    """
    rows = []
    for n, hit in enumerate(hits, 1):
        chance = "" if hit.probability is None else f" <b>{chance_in_words(hit.probability)}</b>"
        copy = partial(shrink, hit.picture, f"picture {n}")
        figure = _figure(copy, hit.picture.alt, hit.picture.path)
        rows.append(_row([figure], f"{n}.{chance}<br>{escape(hit.why)}"))
    return "\n".join([*rows, *_lines(notes)])


def _row(figures: Sequence[str], body: str) -> str:
    """HTML of thumbnails next to a text."""
    shown = "".join(f"<div>{figure}</div>" for figure in figures) or "<i>blank</i>"
    return f'<div style="{_ROW}"><div style="{_FRAME}">{shown}</div><div>{body}</div></div>'


def _figure(copy: Callable[..., Copy], alt: str, name: str) -> str:
    """HTML of a thumbnail with the name of its file, or the reason why there is none."""
    try:
        made = copy(area_px=AREA_PX, quality=76)
    except DataError as error:
        return f"<i>{escape(str(error))}</i>"
    return _IMAGE.format(made.uri, escape(alt), escape(name))


def _lines(notes: Iterable[str]) -> list[str]:
    return [f"<p><small>{escape(note)}</small></p>" for note in notes]
