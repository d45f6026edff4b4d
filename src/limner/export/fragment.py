"""HTML of a storyboard or search result for a notebook: thumbnails, texts and reasons."""

from collections.abc import Iterable, Sequence
from html import escape

from limner.errors import DataError
from limner.export.leaf import ShownPicture, leaves
from limner.export.wording import picture_alt
from limner.pictures.thumbnails import shrink
from limner.records import Board, Candidate, chance_in_words

AREA_PX = 60_000
LETTERS = 400
_ROW = "display:flex;gap:1em;align-items:flex-start;margin:0 0 1em"
_FRAME = "flex:none;width:240px;text-align:center"


def board_fragment(board: Board, notes: Iterable[str] = ()) -> str:
    """HTML of all steps, with their cropped pictures and the reason for the first.

    Args:
        board: the storyboard.
        notes: lines to put below it.
    """
    rows = []
    for leaf in leaves(board):
        text = leaf.text.text
        words = text if len(text) <= LETTERS else f"{text[:LETTERS].rsplit(' ', 1)[0]} …"
        title = f"<b>{escape(leaf.text.title)}</b><br>" if leaf.text.title else ""
        said = "<br>".join(map(escape, leaf.why.lines()))
        body = f"{leaf.position}. {title}{escape(words)}<details><summary>why</summary>{said}</details>"
        rows.append(_row(leaf.pictures, leaf.where, body))
    title = f"<h3>{escape(board.story.title)}</h3>" if board.story.title else ""
    return "\n".join([title, *rows, *_lines(notes)])


def hits_fragment(hits: Sequence[Candidate], notes: Iterable[str] = ()) -> str:
    """HTML of a search result, best first, with the probability that each fits and the reasons.

    Args:
        hits: the pictures.
        notes: lines to put below them.
    """
    rows = []
    for n, hit in enumerate(hits, 1):
        where = f"picture {n}"
        found = ShownPicture(hit.picture, picture_alt(hit.picture, where), "")
        chance = "" if hit.probability is None else f" <b>{chance_in_words(hit.probability)}</b>"
        rows.append(_row([found], where, f"{n}.{chance}<br>{escape(hit.why)}"))
    return "\n".join([*rows, *_lines(notes)])


def _row(shown: Sequence[ShownPicture], where: str, body: str) -> str:
    """HTML of thumbnails with file names, or the reason why there are none, next to a text."""
    figures = "".join(f"<div>{_figure(one, where)}</div>" for one in shown) or "<i>blank</i>"
    return f'<div style="{_ROW}"><div style="{_FRAME}">{figures}</div><div>{body}</div></div>'


def _figure(shown: ShownPicture, where: str) -> str:
    try:
        copy = shrink(shown.picture, where, area_px=AREA_PX, quality=76, crop=shown.crop)
    except DataError as error:
        return f"<i>{escape(str(error))}</i>"
    image = f'<img src="{copy.uri}" alt="{escape(shown.alt)}" style="max-width:100%">'
    return f"{image}<br><small>{escape(shown.picture.path)}</small>"


def _lines(notes: Iterable[str]) -> list[str]:
    return [f"<p><small>{escape(note)}</small></p>" for note in notes]
