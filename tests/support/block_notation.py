"""Blocks of a text in one line each, as tests state them."""

from collections.abc import Iterable

from limner.records import Block, PictureRef


def notation(blocks: Iterable[Block]) -> list[str]:
    """One line a block, with what its kind, depth, group and pictures are.

    ``# a`` heading, ``a`` paragraph, ``1. a`` and ``- a`` items, ``| a`` further paragraph of an item,
    ``{code}`` , ``a / b`` rows of a table, ``[x.jpg: caption]`` picture, ``---`` break; two spaces a depth,
    ``> `` quotation, ``(aside)``, ``g1`` group.
    """
    return [_line(block) for block in blocks]


def _line(block: Block) -> str:
    words = block.text.replace("\n", " ⏎ ")
    if block.kind == "heading":
        words = f"{'#' * block.level} {words}"
    elif block.kind == "item":
        words = f"{'-' if block.number is None else f'{block.number}.'} {words}"
    elif block.kind == "code":
        words = f"{{{words}}}"
    elif block.kind == "table":
        words = " / ".join(" | ".join(cell.text for cell in row) for row in block.rows)
    elif block.kind == "break":
        words = "---"
    if block.depth and block.kind != "item":
        words = f"| {words}"
    shown = "".join(map(_picture, block.pictures))
    line = " ".join(filter(None, ["  " * (block.depth - 1), words.strip(), shown]))
    before = [f"g{block.group}" if block.group else "", "(aside)" if block.role == "aside" else ""]
    return " ".join(filter(None, [*before, ">" if block.quoted else "", line]))


def _picture(picture: PictureRef) -> str:
    return f"[{picture.target}{f': {picture.caption}' if picture.caption else ''}]"


def marked(block: Block) -> list[tuple[str, str]]:
    """Marks of a block: the words and the kind, or the address of a link."""
    return [(block.text[mark.start : mark.end], mark.target or mark.kind) for mark in block.marks]
