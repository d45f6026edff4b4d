"""Markdown as people write it: front matter, CommonMark with tables, and extensions of GitHub, Obsidian, MDX
and others.

Each extension is a rule of markdown-it. Every element carries its source lines in an attribute that
`limner.text.html_blocks` reads.
"""

import json
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import chain, pairwise

import yaml
from markdown_it import MarkdownIt
from markdown_it.common.utils import normalizeReference
from markdown_it.renderer import RendererHTML
from markdown_it.rules_block import StateBlock
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict
from mdit_py_plugins.admon import admon_plugin
from mdit_py_plugins.container import container_plugin
from mdit_py_plugins.footnote import footnote_plugin

from limner.errors import DataError
from limner.text.document import ASIDE, LINES
from limner.text.html_blocks import MAX_ELEMENTS

_MOST_LETTERS = 50_000
_KEY = re.compile(r"[A-Za-z_][\w-]*\s*(:(\s|$)|=)")
_MORE = re.compile(r"\s|[-#\[\]]")
"""A line of front matter that is not a key: the rest of a value, a list item, a comment or a table."""
_ENDS = {"---": ("---", "..."), "+++": ("+++",)}
"""Lines that end front matter, by the line that begins it."""
_KINDS = {"---": ("YAML", "title: ..."), "+++": ("TOML", "title = ...")}


@dataclass(frozen=True)
class FrontMatter:
    """The block of metadata at the top of a text.

    Attributes:
        lines: number of lines of the text that it takes; 0 if there is none.
        stated: its content.
        note: problem with it, or "".
    """

    lines: int = 0
    stated: dict[object, object] = field(default_factory=dict)
    note: str = ""


def without_front(source: str, where: str) -> tuple[str, FrontMatter]:
    """Replace the front matter of a text by empty lines, so that all other lines keep their numbers.

    Args:
        source: the text, with any line ends; those of the result are line feeds.
        where: its name, for messages.
    Raises:
        DataError: see `front_matter`.
    """
    text = re.sub(r"\r\n?", "\n", source.removeprefix("\ufeff"))
    front = front_matter(text, where)
    lines = text.split("\n")
    return "\n".join([""] * front.lines + lines[front.lines :]), front


def front_matter(text: str, where: str) -> FrontMatter:
    """Read the front matter of a text.

    Args:
        text: the text, with line feeds.
        where: its name, for messages.
    Raises:
        DataError: it is not in the format that its first line indicates, or it is too long.
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
    # A thematic break at the top of a story is not front matter, which has keys.
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
    """Read one JSON object; a text may also begin with a brace without being JSON."""
    try:
        data, end = json.JSONDecoder().raw_decode(text[:_MOST_LETTERS])
    except (ValueError, RecursionError):
        return FrontMatter()
    behind = text[end:].partition("\n")[0]
    if not isinstance(data, dict) or not data or behind.strip():
        return FrontMatter()
    return FrontMatter(text.count("\n", 0, end) + 1, dict(data))


def _unclosed(mark: str, lines: Sequence[str], where: str) -> FrontMatter:
    """Keys of front matter that has no closing line, up to the first empty line."""
    count = next((index for index, line in enumerate(lines) if not line.strip()), len(lines))
    if not all(_KEY.match(line) or (index and _MORE.match(line)) for index, line in enumerate(lines[:count])):
        count = 0
    try:
        data = _data_of(mark, "\n".join(lines[:count])[:_MOST_LETTERS], where)
    except DataError:
        data = {}
    stated = data if isinstance(data, dict) else {}
    if mark == "---" and "title" not in stated:  # not front matter but a thematic break with text below it
        return FrontMatter()
    note = f"front matter begins with {mark} but has no closing line: read up to the first empty line"
    return FrontMatter(count + 1, stated, note)


def _data_of(mark: str, stated: str, where: str) -> object:
    """Parse front matter.

    Args:
        mark: the line that begins it.
        stated: its content.
        where: name of the text, for messages.
    Raises:
        DataError: it is not in the format that `mark` indicates.
    """
    kind, shown = _KINDS[mark]
    try:
        # BaseLoader: every value remains text (`no` is not False), and no object is created.
        return yaml.load(stated, Loader=yaml.BaseLoader) if kind == "YAML" else tomllib.loads(stated)  # noqa: S506
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        line = " ".join(str(error).split())[:160]
        raise DataError(
            f"{where}: front matter is not {kind} ({line}); expected '{shown}' lines between two '{mark}' "
            "lines; correct or remove it"
        ) from None


# Deeper than any real text, and below the limit of the HTML parser; markdown-it skips text nested deeper than
# its limit.
MAX_NESTING = 60
# Each of these may begin or end emphasis, or begin a link whose end the parser must look for.
_MOST = {"signs of emphasis": ("*_~", 100_000), "opening brackets": ("[", 20_000)}
_PARAGRAPHS = 5
"""Number of paragraphs that may reach each maximum."""
_MAX_LINES, _MAX_REPEATED = 80_000, 2_000_000
# Indentation and markers before the words of a line, and the list markers among them.
_BEFORE = re.compile(r"^[ \t>*+\-.)\d]++", re.MULTILINE)
_ITEM = re.compile(r"(?:[-+*]|\d[.)])(?=[ \t])")
TAB = "tab"
"""Name of its tokens in the parser."""
CODE = "code"
"""Key in the parser's environment for page code that was left out."""

_WIKI = re.compile(r"(!?)\[\[([^\[\]|\n]++)(?:\|([^\[\]\n]*+))?\]\](?![(\[])")
_PICTURE_NAME = re.compile(r"\.(?:avif|bmp|gif|heic|jpe?g|png|svg|tiff?|webp)\Z", re.IGNORECASE)
_SIZE = re.compile(r"\d+(?:x\d+)?\Z")
_CALLOUT = re.compile(r"\[!([\w -]+)\][+-]?[ \t]*")
_CONTAINER = "container"
# ``::: tip``, ``:::tip[Title]``, ``::: {.callout-tip title="Title"}``; other containers only group their
# content.
_CONTAINED = re.compile(
    r"[ \t]*\{?\.?(?:callout-)?"
    r"(note|tip|hint|info|important|success|warning|caution|danger|error|seealso)\b\}?"
    r"(?:[ \t]*\{?title=)?[ \t]*(.*?)[ \t]*\}?\Z",
    re.IGNORECASE,
)
_TITLE = re.compile(
    r"[ \t]*\{?[.\w-]+\}?[ \t]*(?:\{?title=\"(?P<stated>[^\"]*+)\".*|(?P<plain>[^={}]*+)(?:\{[^{}]*+\})?)\Z"
)
"""What other containers are called: ``::: details Title``, ``:::{tab-item} Title``."""
_FIGURE = re.compile(r"[ \t]*\{(?:figure|image)\}")
_OPTIONS = re.compile(r"(?::[\w-]+:[^\n]*+(?:\n|\Z))+")
_SHOWN = re.compile(
    r":::image\s[^\n]*?\bsource=\"(?P<target>[^\"]+)\"(?:[^\n]*?\balt-text=\"(?P<alt>[^\"]*)\")?"
)
_CLOSED = re.compile(r":::[^\n]*:::\Z")
_TAB = re.compile(r"===[!+]?[ \t]+\"([^\"]*+)\"[ \t]*")
_FORMULA = re.compile(r"\$\$|\\\[|\\begin\{([A-Za-z]+\*?)\}")
_FORMULA_END = r"[ \t]*(?:\([^()]*+\)|\{[^{}]*+\})?[ \t]*\Z"
MAX_FORMULA_LINES = 200
_SHORTCODE = r"\{\{[<%][^{}]*+(?<=[>%])\}\}|\{%[^{}]*+(?<=%)\}"
_CODE_LINE = re.compile(rf"[ \t]*(?:(?:{_SHORTCODE})[ \t]*)++|[ \t]*\{{:[^{{}}]*+\}}[ \t]*")
"""A line of shortcodes, or of kramdown's attributes."""
_LITERAL = re.compile(r"\{(?:%-?|\{[<%])\s*(highlight|comment|mermaid|raw_code|codeblock)\b")
"""Shortcodes whose content is not Markdown."""
_CONTENTS = re.compile(r"\[\[?_?toc_?\]\]?\Z", re.IGNORECASE)
_ABBREVIATION = re.compile(r"\*\[([^\[\]\n]+)\]:[ \t]*")
_ATTRIBUTES = re.compile(r"\{(?:[:#.][^{}\n]*|[\w-]+=[^{}\n]*)\}")
"""Attributes that pandoc and kramdown write after a picture or a link."""
_TASK = re.compile(r"\[([ xX])\](?=\s)")
_ANCHOR = re.compile(r"(?<=\S)[ \t]++\{[#.:][^{}]*+\}\Z")
_MODULE = re.compile(
    r"import\s+(?:[\"']|[^\n]{1,500}?\sfrom\s+[\"'])|import\s+\{"
    r"|export\s+(?:default|const|let|var|function|async|class)\s|export\s+[{*]"
)
_BLOCK_NAME = re.compile(r"[ \t]\^[\w-]{4,}\Z")
_ASIDE = re.compile(r"%%.*%%\Z|!\[\[[^\[\]\n]+\]\]\Z", re.DOTALL)
"""Obsidian's comments, and its embedded notes."""
_EXPRESSION = re.compile(r"\{(?:\{.*\}|%.*%|/\*.*\*/|[#:.][^}]*|[\w.]+)\}\Z", re.DOTALL)
_VALUE = re.compile(r"\s[\w-]+=\{[^{}]*+(?:\{[^{}]*+\}[^{}]*+)*+\}")
_COMPONENT = re.compile(
    r"<(/?)([A-Z]\w*[a-z]\w*(?:\.\w+)*+)"
    r"((?:[^<>{}\"'\w.](?:[^<>{}\"']|\"[^\"]*+\"|'[^']*+'|\{[^{}]*+(?:\{[^{}]*+\}[^{}]*+)*+\})*+)?)>"
)


def parsed(body: str, where: str) -> tuple[list[Token], str, list[str]]:
    """Parse Markdown without front matter: its tokens, its HTML, and the page code that was left out.

    Args:
        body: the text, with line feeds.
        where: its name, for messages.
    Raises:
        DataError: lists or quotes are nested too deeply, or there are too many lines, items, emphasis marks
            or brackets.
    """
    _check(body, where)
    made, env = parser(), dict[str, object]()
    tokens = made.parse(body, env)
    if any(token.level >= MAX_NESTING - 2 for token in tokens):
        raise DataError(
            f"{where}: Markdown nested deeper than {MAX_NESTING // 2} lists or quotes; expected a readable "
            "text; flatten it"
        )
    # a link that is defined once and used often is repeated in the HTML
    inner = chain.from_iterable(token.children or () for token in tokens)
    stated = sum(len(str(value)) for token in inner for value in token.attrs.values())
    if stated > len(body) + _MAX_REPEATED:
        raise DataError(
            f"{where}: repeats the URLs of its links, {_MAX_REPEATED:,} characters in all;"
            " expected a readable text; read it as plain text"
        )
    code = env.get(CODE)
    return tokens, made.renderer.render(tokens, made.options, env), code if isinstance(code, list) else []


def _check(body: str, where: str) -> None:
    """Reject texts for which the parser would take very long."""
    if body.count("\n") - body.count("\n\n") > _MAX_LINES:
        raise DataError(
            f"{where}: has more than {_MAX_LINES:,} lines of Markdown; expected a readable text; split it"
        )
    paragraphs = re.split(r"\n[ \t]*+\n", body)
    for name, (signs, most) in _MOST.items():
        counts = [sum(map(part.count, signs)) for part in paragraphs]
        if max(counts) > most or sum(counts) > most * _PARAGRAPHS:
            raise DataError(
                f"{where}: has more than {most:,} {name} in one paragraph, or {most * _PARAGRAPHS:,} in"
                " all; expected a readable text; read it as plain text"
            )
    if sum(len(_ITEM.findall(line[0])) for line in _BEFORE.finditer(body)) > MAX_ELEMENTS:
        raise DataError(
            f"{where}: has more than {MAX_ELEMENTS:,} list items; expected a readable text; split it"
        )


def parser() -> MarkdownIt:
    """Create a parser whose tokens render as HTML for `limner.text.html_blocks`.

    The attribute `ASIDE` marks an element outside the running text and gives its kind. `LINES` gives the
    first source line, from 0, of an element or of the HTML after it, and the line after its last.
    """
    made = MarkdownIt("commonmark", {"maxNesting": MAX_NESTING}).enable(["table", "strikethrough"])
    # No link is followed, and a picture's URL must stay exactly as written.
    made.validateLink = lambda url: True  # type: ignore[method-assign]
    made.normalizeLink = lambda url: url  # type: ignore[method-assign]
    made.use(footnote_plugin, inline=False, move_to_end=False)
    made.use(container_plugin, _CONTAINER, validate=lambda info, _: not info.rstrip().endswith(":::"))
    made.use(admon_plugin)
    made.block.ruler.before("fence", "formula", _formula)
    made.block.ruler.before("fence", "tab", _tab, {"alt": ["paragraph", "reference", "blockquote", "list"]})
    made.inline.ruler.before("link", "wiki", _wiki)
    made.core.ruler.after("block", "dialects", _dialects)
    made.core.ruler.push("components", _components)
    made.add_render_rule("footnote_ref", _footnote_mark)
    made.add_render_rule("footnote_reference_open", _footnote_open)
    made.add_render_rule("footnote_reference_close", lambda *_: "</aside>\n")
    made.add_render_rule("html_block", _html)
    made.add_render_rule("formula", _formula_html)
    return made


def _wiki(state: StateInline, silent: bool) -> bool:
    """``[[page]]`` and ``[[page|words]]`` are links, ``![[a.jpg]]`` is a picture, ``![[note]]`` a link."""
    found = _WIKI.match(state.src, state.pos)
    if found is None or normalizeReference(found[2]) in state.env.get("references", {}):
        return False
    if not silent:
        target, words = found[2].strip(), (found[3] or "").strip()
        if found[1] and _PICTURE_NAME.search(target):
            alt = "|".join(part for part in words.split("|") if not _SIZE.match(part))
            image = state.push("image", "img", 0)
            image.attrs = {"src": target, "alt": ""}
            image.content = alt
            image.children = [Token("text", "", 0, content=alt)]
        else:
            state.push("link_open", "a", 1).attrs = {"href": target}
            state.push("text", "", 0).content = words or target
            state.push("link_close", "a", -1)
    state.pos = found.end()
    return True


def _formula(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    r"""``$$ … $$``, ``\[ … \]`` and environments of TeX, alone between other blocks."""
    text = state.src[state.bMarks[start] + state.tShift[start] : state.eMarks[start]]
    opened = _FORMULA.match(text)
    if opened is None or state.is_code_block(start):
        return False
    closing = {"$$": "$$", "\\[": "\\]"}.get(opened[0], f"\\end{{{opened[1]}}}")
    ends = re.compile(re.escape(closing) + _FORMULA_END)
    for place in range(start, min(end, start + MAX_FORMULA_LINES)):
        if state.sCount[place] < state.blkIndent and not state.isEmpty(place):
            return False
        line = state.src[state.bMarks[place] : state.eMarks[place]]
        begin = state.tShift[place] + opened.end() if place == start else 0
        if ends.search(line, begin):
            break
    else:
        return False
    if not silent:
        token = state.push("formula", "pre", 0)
        token.content = state.getLines(start, place + 1, state.sCount[start], False)
        token.map = [start, place + 1]
    state.line = place + 1
    return True


def _tab(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """``=== "Title"`` with indented content, which MkDocs shows as a tab."""
    line = state.src[state.bMarks[start] + state.tShift[start] : state.eMarks[start]]
    found = _TAB.fullmatch(line)
    if found is None or state.is_code_block(start):
        return False
    if silent:
        return True
    indent, stop = state.sCount[start] + 4, start + 1
    while stop < end and (state.isEmpty(stop) or state.sCount[stop] >= indent):
        stop += 1
    outer = state.blkIndent, state.lineMax, state.parentType
    state.blkIndent, state.lineMax, state.parentType = indent, stop, TAB
    state.push(f"{TAB}_open", "div", 1).map = [start, stop]
    state.push("paragraph_open", "p", 1).attrs = {ASIDE: "title of a tab", LINES: f"{start}-{start + 1}"}
    title = state.push("inline", "", 0)
    title.content, title.children = found[1], []
    state.push("paragraph_close", "p", -1)
    state.md.block.tokenize(state, start + 1, stop)
    state.push(f"{TAB}_close", "div", -1)
    state.blkIndent, state.lineMax, state.parentType = outer
    state.line = stop
    return True


def _dialects(state: StateCore) -> None:
    """Mark callouts, tasks and footnotes, and remove page code, before inline text is parsed."""
    tokens = state.tokens
    for token in tokens:
        if token.map is not None and token.nesting >= 0:
            token.attrSet(LINES, f"{token.map[0]}-{token.map[1]}")
    for first, inline in pairwise(tokens):
        if first.type == "heading_open":
            inline.content = _ANCHOR.sub("", inline.content)
        elif first.type == "paragraph_open":
            inline.content = _BLOCK_NAME.sub("", _without_code_lines(inline.content, state.env))
            if _ABBREVIATION.match(inline.content):
                first.attrSet(ASIDE, "abbreviation")
                inline.content = re.sub(rf"(?m)^{_ABBREVIATION.pattern}", r"\\[\1\\] ", inline.content)
    for first, inline in zip(tokens, tokens[2:], strict=False):
        if inline.type != "inline":
            continue
        if first.type == "blockquote_open" and (found := _CALLOUT.match(inline.content)):
            first.attrSet(ASIDE, "callout")
            inline.content = f"**{found[1].capitalize()}:** {inline.content[found.end() :]}"
        elif first.type == "list_item_open" and (found := _TASK.match(inline.content)):
            first.attrSet(ASIDE, "task list")
            inline.content = ("☐" if found[1] == " " else "☑") + inline.content[found.end() :]
        elif first.type == "footnote_reference_open":
            label = re.sub(r"([^\w\s])", r"\\\1", first.meta["label"])
            inline.content = f"\\[{label}\\] {inline.content}"
    _take_options(state)
    lines = state.src.split("\n")
    state.tokens = list(chain.from_iterable(_titled(token, lines) for token in _without_code(state)))


def _take_options(state: StateCore) -> None:
    """Options of a directive of MyST are code; the words below a figure are its caption."""
    for place, container in enumerate(state.tokens[:-2]):
        first, inline = state.tokens[place + 1 : place + 3]
        if container.type != f"container_{_CONTAINER}_open" or first.type != "paragraph_open":
            continue
        if container.info.lstrip().startswith("{") and (found := _OPTIONS.match(inline.content)):
            inline.content = inline.content[found.end() :]
            state.env.setdefault(CODE, []).append(found[0].rstrip())
            if not inline.content:
                first = state.tokens[place + 4]
        if _FIGURE.match(container.info) and container.map is not None:
            first.attrs |= {"class": "caption", LINES: f"{container.map[0]}-{container.map[1]}"}


def _without_code_lines(words: str, env: EnvType) -> str:
    """A paragraph without its lines of shortcodes and attributes."""
    lines = words.split("\n")
    code = [line for line in lines if _CODE_LINE.fullmatch(line)]
    if not code or _LITERAL.match(words):
        return words
    env.setdefault(CODE, []).append(words if any("{:toc" in line for line in code) else "\n".join(code))
    if any("{:toc" in line for line in code):  # a table of contents replaces its item
        return ""
    return "\n".join(line for line in lines if not _CODE_LINE.fullmatch(line))


def _titled(token: Token, lines: Sequence[str]) -> list[Token]:
    """Convert the beginning of a container into that of a callout with its title; keep other tokens."""
    if token.type == "admonition_open":
        token.attrSet(ASIDE, "callout")
    if token.type != f"container_{_CONTAINER}_open":
        return [token]
    if (found := _CONTAINED.match(token.info)) is None:
        return [token, *_named(token)]
    end = token.map[1] if token.map is not None else len(lines)
    # a container without an end extends to the end of the text
    if any(":::" in line for line in lines[end : end + 1]):
        token.attrSet(ASIDE, "callout")
    title = found[2].strip("[]\"' ") or found[1].capitalize()
    words = Token("inline", "", 0, content=f"**{title}**", children=[], level=token.level + 2)
    return [token, Token("paragraph_open", "p", 1), words, Token("paragraph_close", "p", -1)]


def _named(token: Token) -> list[Token]:
    """The title of a container that only groups, or the picture that it shows."""
    found = _TITLE.match(token.info)
    title = ((found["stated"] or found["plain"] or "") if found else "").strip("[]\"' ")
    if not any(map(str.isalpha, title)):
        return []
    shown = _FIGURE.match(token.info)
    first = Token("paragraph_open", "p", 1, attrs={} if shown else {ASIDE: "title of a container"})
    if token.map is not None:
        first.attrs[LINES] = f"{token.map[0]}-{token.map[1] if shown else token.map[0] + 1}"
    content = f"![](<{title}>)" if shown else title
    words = Token("inline", "", 0, content=content, children=[], level=token.level + 2)
    return [first, words, Token("paragraph_close", "p", -1)]


def _without_code(state: StateCore) -> list[Token]:
    """All tokens except modules, expressions and components on their own lines."""
    kept: list[Token] = []
    lines = state.src.split("\n")
    end, dropped = 0, False
    for token, after in pairwise([*state.tokens, Token("", "", 0)]):
        if token.level == 0 and token.nesting >= 0:
            if token.type == "paragraph_open" and token.map is not None and token.map[0] >= end:
                is_empty = not after.content  # it was counted when its lines were removed
                end = token.map[1] if is_empty else max(end, _code_end(lines, token.map, after))
                if token.map[0] < end and not is_empty:
                    state.env.setdefault(CODE, []).append("\n".join(lines[token.map[0] : end]))
            dropped = token.map is not None and token.map[0] < end
        if not dropped:
            kept.append(token)
    return kept


def _code_end(lines: Sequence[str], place: Sequence[int], inline: Token) -> int:
    """The line after a paragraph of page code, with what belongs to it; 0 if it is not page code."""
    words = inline.content.strip()
    if _MODULE.match(words):
        return _module_end(lines, *place)
    if literal := _LITERAL.match(words):
        closed = re.compile(rf"\{{(?:%-?\s*end|\{{[<%]\s*/\s*){literal[1]}\b")
        return next((n + 1 for n in range(place[0], len(lines)) if closed.search(lines[n])), place[1])
    if _CLOSED.match(words):
        if (image := _SHOWN.match(words)) is None:
            return place[1]
        alt = re.sub(r"([\[\]])", r"\\\1", image["alt"] or "")
        inline.content = f"![{alt}](<{image['target']}>)"
        return 0
    bare = _COMPONENT.sub("", words).strip() if words.startswith("<") else words
    shown = _WIKI.fullmatch(words)
    pictured = shown is not None and _PICTURE_NAME.search(shown[2].strip())
    if (
        not bare
        or _EXPRESSION.match(words)
        or _CONTENTS.match(words)
        or (_ASIDE.match(words) and not pictured)
    ):
        return place[1]
    if bare != words:
        inline.content = bare
    return 0


def _module_end(lines: Sequence[str], start: int, end: int) -> int:
    """The line after a module: the end of its paragraph, or of its last open bracket."""
    depth = 0
    for place in range(start, len(lines)):
        depth += sum(map(lines[place].count, "{[(")) - sum(map(lines[place].count, "}])"))
        if place + 1 >= end and depth <= 0:
            return place + 1
    return end


def _components(state: StateCore) -> None:
    """Remove components, which HTML lacks, but keep their content; picture components become <img>."""
    for token in state.tokens:
        if token.type == "html_block":
            token.content = _COMPONENT.sub(lambda found: _plain(found, "<br>"), token.content)
        for before, inner in pairwise([Token("", "", 0), *(token.children or ())]):
            if inner.type == "text" and before.type in ("image", "link_close"):
                inner.content = (
                    inner.content[found.end() :]
                    if (found := _ATTRIBUTES.match(inner.content))
                    else inner.content
                )
            elif inner.type == "html_inline":
                inner.content = _COMPONENT.sub(lambda found: _plain(found, ""), inner.content)


def _plain(found: re.Match[str], instead: str) -> str:
    closing, name, attributes = found.groups()
    attributes = _VALUE.sub("", attributes)
    is_picture = name.casefold() in ("img", "image") and not closing and "src=" in attributes
    return f"<img{attributes}>" if is_picture else instead


def _footnote_mark(
    _renderer: RendererHTML, tokens: Sequence[Token], idx: int, _options: OptionsDict, _env: EnvType
) -> str:
    return f"<sup>[{escape(tokens[idx].meta['label'])}]</sup>"


def _footnote_open(
    _renderer: RendererHTML, _tokens: Sequence[Token], _idx: int, _options: OptionsDict, _env: EnvType
) -> str:
    return f'<aside {ASIDE}="footnote">'


def _formula_html(
    _renderer: RendererHTML, tokens: Sequence[Token], idx: int, _options: OptionsDict, _env: EnvType
) -> str:
    token = tokens[idx]
    return f'<pre {ASIDE}="formula" {LINES}="{token.attrGet(LINES)}">{escape(token.content)}</pre>\n'


def _html(
    _renderer: RendererHTML, tokens: Sequence[Token], idx: int, _options: OptionsDict, _env: EnvType
) -> str:
    token = tokens[idx]
    return f'<meta {LINES}="{token.attrGet(LINES)}">{token.content}'
