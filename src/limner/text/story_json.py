"""Reads stories as JSON: limner's own form, a storyboard that contains a story, and a simple form.

The simple form is ``{"title": ..., "steps": ["words", {"text": ..., "title": ..., "image": ...}]}`` or just
the list; one lenient reader serves all three. Unknown keys are reported, not refused.
"""

from typing import Any, get_args

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json

from limner.errors import DataError, counted
from limner.files import first_fault, shown
from limner.records import Block, PictureRef, Segmentation, Step, Story, blocks_of_steps
from limner.text.blocks import CREDITS, Direction, Document, Find, check_count

_KNOWN = {*CREDITS, "id", "story_id", "by", "direction", "split", "source", "steps", "pages", "blocks"}
_STEP_KEYS = {"text", "title", "image", "images", "pictures", "alt", "sha256", "run"}
_BLOCKS: TypeAdapter[tuple[Block, ...]] = TypeAdapter(tuple[Block, ...])


def read_json(text: str, where: str, find: Find) -> tuple[Document, dict[str, str]]:
    """A JSON story as a document of declared steps.

    Args:
        text: the decoded file.
        where: its name, for messages.
        find: see `limner.text.picture_files.finder`.
    Returns:
        The document, and what only a story file states: any of `id`, `by`, `split`, `source`.
    Raises:
        DataError: it is not JSON, or not a story.
    """
    try:
        data = from_json(text)  # unlike json's parser, refuses lone surrogates, which a story cannot contain
    except ValueError as error:
        raise DataError(f"{where}: not JSON ({str(error)[:120]}); expected a story; correct it") from None
    document = Document()
    if isinstance(data, dict) and isinstance(data.get("story"), dict):
        document.notes.append(_storyboard_note(data))
        data = data["story"]  # its text, to be illustrated again
    if isinstance(data, list):
        data = {"steps": data}
    items = (data.get("steps") or data.get("pages")) if isinstance(data, dict) else None
    if not isinstance(items, list) or not items:
        raise DataError(
            f'{where}: JSON without steps; expected {{"title": ..., "steps": ["...", ...]}}; add them'
        )
    check_count(len(items), where)
    for name in CREDITS:
        setattr(document, name, _string(data, name, where))
    direction = _choice(data, "direction", get_args(Direction), where)
    document.direction = "rtl" if direction == "rtl" else "ltr" if direction else None
    document.declared, blocks = _with_blocks(data, items, where)
    document.blocks = [
        block.model_copy(
            update={"lines": None, "pictures": tuple(_looked_up(picture, find) for picture in block.pictures)}
        )
        for block in blocks
    ]
    # the source text may no longer match the steps
    unknown = data.keys() - _KNOWN - {"markdown"}
    unknown |= {key for item in items if isinstance(item, dict) for key in item.keys() - _STEP_KEYS}
    if unknown:
        named = ", ".join(map(repr, map(shown, sorted(unknown)[:5])))
        document.notes.append(f"left out: {counted(len(unknown), 'unknown key')} ({named})")
    stated = {
        "id": _string(data, "id", where) or _string(data, "story_id", where),
        "by": _choice(data, "by", get_args(Segmentation), where),
        "split": _choice(data, "split", ("train", "val", "test"), where),
        "source": _string(data, "source", where),
    }
    return document, {key: value for key, value in stated.items() if value}


def _storyboard_note(data: dict[str, Any]) -> str:
    """Note on what is ignored in a storyboard whose text is read."""
    steps = data.get("steps")
    items = [step for step in steps if isinstance(step, dict)] if isinstance(steps, list) else []
    pins = sum(step.get("origin") == "pinned" or step.get("blank") == "asked for" for step in items)
    chosen = f" and its {counted(pins, 'pin')}" if pins else ""
    return (
        f"a storyboard: its text is illustrated again; its pictures{chosen} are kept only if --keep names the"
        " same file"
    )


def _with_blocks(
    data: dict[str, Any], items: list[object], where: str
) -> tuple[tuple[Step, ...], tuple[Block, ...]]:
    """Steps with their runs, and the blocks that limner's own form states, or those of the steps."""
    steps = [_step(item, f"{where}: step {number}") for number, item in enumerate(items, 1)]
    if not data.get("blocks"):
        return blocks_of_steps(steps)
    try:
        blocks = _BLOCKS.validate_python(data["blocks"])
        return Story(id="story", steps=tuple(steps), blocks=blocks).steps, blocks
    except ValidationError as error:
        raise DataError(f"{where}: blocks {first_fault(error)}; correct or remove them") from None


def _step(item: object, where: str) -> Step:
    if isinstance(item, str):
        item = {"text": item}
    if not isinstance(item, dict):
        raise DataError(
            f"{where}: found {type(item).__name__}, expected words or an object with text; correct it"
        )
    words, title = _string(item, "text", where).strip(), _string(item, "title", where).strip()
    if not words and not title:
        raise DataError(f"{where}: has no words; expected text; add some or remove the step")
    try:
        step = {"text": words or title, "title": title if words else "", "run": item.get("run", (0, 0))}
        return Step.model_validate({**step, "pictures": _pictures(item, where)})
    except ValidationError as error:
        raise DataError(f"{where}: {first_fault(error)}; correct it") from None


def _pictures(item: dict[str, Any], where: str) -> list[dict[str, Any]]:
    """Pictures of a step, as written."""
    given: list[Any] = []
    for key in ("image", "images", "pictures"):
        value = item.get(key)
        given += value if isinstance(value, list) else [] if value is None else [value]
    more = {"alt": _string(item, "alt", where), "sha256": _string(item, "sha256", where) or None}
    pictures = [{"target": picture, **more} if isinstance(picture, str) else picture for picture in given]
    for picture in pictures:
        if not isinstance(picture, dict) or not isinstance(picture.get("target"), str):
            raise DataError(
                f"{where}: picture {str(picture)[:60]!r} is not a path; expected a path or URL; correct it"
            )
    return [picture for picture in pictures if str(picture["target"]).strip()]


def _looked_up(picture: PictureRef, find: Find) -> PictureRef:
    """A picture with its file, by its path or as the text names it."""
    file = find(picture.path or picture.target, picture.alt)
    if picture.path and file.path is None:
        file = find(picture.target, picture.alt)
    changes: dict[str, object] = {"path": file.path, "problem": file.problem, "data": file.data}
    changes |= {"target": file.target} if file.data else {}
    return picture.model_copy(update={**changes, "sha256": file.sha256 or picture.sha256})


def _string(data: dict[str, Any], key: str, where: str) -> str:
    value = data.get(key)
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    raise DataError(f"{where}: {key} is a {type(value).__name__}, expected words; correct it")


def _choice(data: dict[str, Any], key: str, choices: tuple[str, ...], where: str) -> str:
    value = _string(data, key, where)
    if value and value not in choices:
        raise DataError(
            f"{where}: {key} {value[:40]!r} is unknown; expected one of {', '.join(choices)}; correct it"
        )
    return value
