"""Reads stories as JSON: limner's own form, a storyboard that contains a story, and a simple form.

The simple form is ``{"title": ..., "steps": ["words", {"text": ..., "title": ..., "image": ...}]}`` or just
the list; one lenient reader serves all three. Unknown keys are reported as left out, not refused.
"""

from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json

from limner.errors import DataError, counted
from limner.files import first_fault
from limner.records import Between, Part, PictureRef, Segmentation, Step
from limner.text.document import CREDITS, Direction, Document, LeftOut, check_count, resolve_picture

AnyPart = TypeVar("AnyPart", bound=Part)
_KNOWN = frozenset(
    {
        *CREDITS,
        "id",
        "story_id",
        "by",
        "direction",
        "split",
        "source",
        "steps",
        "pages",
        "between",
        "markdown",
    }
)
# Only the steps count: the source text and its line numbers may no longer match them.
_STEP_KEYS = frozenset({"text", "title", "image", "images", "pictures", "alt", "sha256", "parts", "lines"})


def read_json(text: str, where: str, base: Path | None) -> tuple[Document, dict[str, str]]:
    """A JSON story as a document of declared steps.

    Args:
        text: the decoded file.
        where: its name, for messages.
        base: folder that relative picture paths start from, or None.

    Returns:
        The document, and what only a story file states: any of `id`, `by`, `split`, `source`.

    Raises:
        DataError: it is not JSON, or not a story.
    """
    try:
        data = from_json(text)  # unlike json's parser, refuses lone surrogates, which a story cannot contain
    except ValueError as error:
        raise DataError(f"{where}: not JSON ({str(error)[:120]}); expected a story; correct it") from None
    notes: list[str] = []
    if isinstance(data, dict) and isinstance(data.get("story"), dict):
        notes.append(_storyboard_note(data))
        data = data["story"]  # its text, to be illustrated again
    if isinstance(data, list):
        data = {"steps": data}
    steps = (data.get("steps") or data.get("pages")) if isinstance(data, dict) else None
    if not isinstance(steps, list) or not steps:
        raise DataError(
            f'{where}: JSON without steps; expected {{"title": ..., "steps": ["...", ...]}}; add them'
        )
    check_count(len(steps), where)
    document = Document(notes=notes)
    for name in CREDITS:
        setattr(document, name, _string(data, name, where))
    direction = _choice(data, "direction", get_args(Direction), where)
    document.direction = "rtl" if direction == "rtl" else "ltr" if direction else None
    document.left_out += _unknown(data, _KNOWN)
    document.steps = tuple(
        _step(item, f"{where}: step {n}", base, document) for n, item in enumerate(steps, 1)
    )
    document.between = _parts(data, "between", Between, where)
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
    found = [step for step in steps if isinstance(step, dict)] if isinstance(steps, list) else []
    pins = sum(step.get("origin") == "pinned" or step.get("blank") == "asked for" for step in found)
    chosen = f" and its {counted(pins, 'pin')}" if pins else ""
    return (
        f"a storyboard: its text is illustrated again; its pictures{chosen} are kept only if --keep names the"
        " same file"
    )


def _step(item: object, where: str, base: Path | None, document: Document) -> Step:
    if isinstance(item, str):
        item = {"text": item}
    if not isinstance(item, dict):
        raise DataError(
            f"{where}: found {type(item).__name__}, expected words or an object with text; correct it"
        )
    words, title = _string(item, "text", where).strip(), _string(item, "title", where).strip()
    if not words and not title:
        raise DataError(f"{where}: has no words; expected text; add some or remove the step")
    document.left_out += _unknown(item, _STEP_KEYS, " of a step")
    found = _pictures(item, where, base, document)
    parts = _parts(item, "parts", Part, where)
    return Step(text=words or title, title=title if words else "", pictures=found, parts=parts)


def _parts(data: dict[str, Any], key: str, kind: type[AnyPart], where: str) -> tuple[AnyPart, ...]:
    """Parts of a text as limner writes them."""
    try:
        return TypeAdapter(tuple[kind, ...]).validate_python(data.get(key) or ())  # type: ignore[valid-type]
    except ValidationError as error:
        raise DataError(f"{where}: {key} {first_fault(error)}; correct or remove it") from None


def _unknown(data: dict[str, Any], known: frozenset[str], of: str = "") -> list[LeftOut]:
    return [LeftOut(f"unknown key {key[:40]!r}{of}") for key in sorted(data.keys() - known)]


def _pictures(
    item: dict[str, Any], where: str, base: Path | None, document: Document
) -> tuple[PictureRef, ...]:
    given: list[Any] = []
    for key in ("image", "images", "pictures"):
        value = item.get(key)
        given += value if isinstance(value, list) else [] if value is None else [value]
    found = []
    for picture in given:
        if isinstance(picture, str):
            alt, sha256 = _string(item, "alt", where), _string(item, "sha256", where) or None
            target = picture
        elif isinstance(picture, dict) and isinstance(picture.get("target"), str):
            try:
                reference = PictureRef.model_validate(picture)
            except ValidationError as error:
                raise DataError(f"{where}: picture {first_fault(error)}; correct it") from None
            alt, sha256, target = reference.alt, reference.sha256, reference.target
            if reference.path and (kept := resolve_picture(reference.path, Path("/"))).path:
                found.append(reference.model_copy(update={"path": kept.path}))
                continue
        else:
            raise DataError(
                f"{where}: picture {str(picture)[:60]!r} is not a path; expected a path or URL; correct it"
            )
        if target.startswith("data:"):
            document.left_out.append(LeftOut("picture inside the file (data: URI)", alt))
        elif target.strip():
            found.append(resolve_picture(target, base, alt, sha256))
    return tuple(found)


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
