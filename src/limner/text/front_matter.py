"""What a Markdown text states at its top: YAML between lines of ``---``, TOML between ``+++``, or JSON."""

import json
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field

import yaml

from limner.errors import DataError

_MOST_LETTERS = 50_000
_KEY = re.compile(r"[A-Za-z_][\w-]*\s*(:(\s|$)|=)")
_MORE = re.compile(r"\s|[-#\[\]]")
"""A line among keys that is none itself: a value that goes on, an item, a comment or a table."""
_ENDS = {"---": ("---", "..."), "+++": ("+++",)}
"""Line that begins front matter → lines that end it."""
_KINDS = {"---": ("YAML", "title: ..."), "+++": ("TOML", "title = ...")}


@dataclass(frozen=True)
class FrontMatter:
    """What stands at the top of a text, before its words.

    Attributes:
        lines: how many lines of the text it takes; 0: there is none.
        stated: what it states.
        note: what is wrong with it, or "".
    """

    lines: int = 0
    stated: dict[object, object] = field(default_factory=dict)
    note: str = ""


def without_front(source: str, where: str) -> tuple[str, FrontMatter]:
    """A text with empty lines in place of its front matter, so that all others keep their numbers.

    Args:
        source: the text, with any line ends; those of the result are line feeds.
        where: its name, for messages.
    Raises:
        DataError: as `front_matter`.
    """
    text = re.sub(r"\r\n?", "\n", source.removeprefix("\ufeff"))
    front = front_matter(text, where)
    lines = text.split("\n")
    return "\n".join([""] * front.lines + lines[front.lines :]), front


def front_matter(text: str, where: str) -> FrontMatter:
    """The front matter of a text.

    Args:
        text: the text; with line feeds.
        where: its name, for messages.
    Raises:
        DataError: it is not what its first line says, or too long.
    """
    first, _, rest = text.partition("\n")
    mark, lines = first.rstrip(), rest.split("\n")
    if mark.startswith("{"):
        return _json(text)
    if mark not in _ENDS:
        return FrontMatter()
    end = next((index for index, line in enumerate(lines) if line.rstrip() in _ENDS[mark]), None)
    if end is None:
        return _unclosed(mark, lines, where)
    # A thematic break at the top of a story is not front matter: keys are.
    keys = [line for line in lines[:end] if line.strip() and not line.lstrip().startswith(("#", "["))]
    stated = "\n".join(lines[:end])
    if mark == "+++" and not keys:
        return FrontMatter(end + 2)
    if not keys or not _KEY.match(keys[0]):
        return FrontMatter()
    if len(stated) > _MOST_LETTERS:
        raise DataError(
            f"{where}: its front matter has more than {_MOST_LETTERS:,} letters; expected a few 'title: ...'"
            " lines; move the rest below it"
        )
    data = _data_of(mark, stated, where)
    return FrontMatter(end + 2, data) if isinstance(data, dict) else FrontMatter()


def _json(text: str) -> FrontMatter:
    """One object of JSON; a text may begin with a brace and be none."""
    try:
        data, end = json.JSONDecoder().raw_decode(text[:_MOST_LETTERS])
    except (ValueError, RecursionError):
        return FrontMatter()
    behind = text[end:].partition("\n")[0]
    if not isinstance(data, dict) or not data or behind.strip():
        return FrontMatter()
    return FrontMatter(text.count("\n", 0, end) + 1, dict(data))


def _unclosed(mark: str, lines: Sequence[str], where: str) -> FrontMatter:
    """Keys below a line that begins front matter, up to the first empty line, where nothing ends it."""
    count = next((index for index, line in enumerate(lines) if not line.strip()), len(lines))
    if not all(_KEY.match(line) or (index and _MORE.match(line)) for index, line in enumerate(lines[:count])):
        count = 0
    try:
        data = _data_of(mark, "\n".join(lines[:count])[:_MOST_LETTERS], where)
    except DataError:
        data = {}
    stated = data if isinstance(data, dict) else {}
    if mark == "---" and "title" not in stated:  # a break, and words below it
        return FrontMatter()
    note = f"front matter begins with {mark} and has no such line at its end: read up to the first empty line"
    return FrontMatter(count + 1, stated, note)


def _data_of(mark: str, stated: str, where: str) -> object:
    """What front matter says.

    Args:
        mark: the line that begins it.
        stated: what it holds.
        where: name of the text, for messages.
    Raises:
        DataError: it is not what its mark says.
    """
    kind, shown = _KINDS[mark]
    try:
        # BaseLoader: every value stays the words it is (`no` is not False), and no object is built.
        return yaml.load(stated, Loader=yaml.BaseLoader) if kind == "YAML" else tomllib.loads(stated)  # noqa: S506
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        line = " ".join(str(error).split())[:160]
        raise DataError(
            f"{where}: front matter is not {kind} ({line}); expected '{shown}' lines between two '{mark}' "
            "lines; mend or remove it"
        ) from None
