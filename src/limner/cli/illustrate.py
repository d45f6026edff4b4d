"""``limner illustrate``: turns texts into illustrated pages.

Parses options and prints summaries; `limner.library.Library` does the work.
"""

import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict, replace
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter, Token, validators

from limner.cli.index import check_report
from limner.cli.main import MORE, Flag, Many, emit, emit_json, say
from limner.errors import ConfigError, DataError, LimnerError, MissingError, unknown
from limner.export import SUFFIXES, Layout, PageSize, Plan, check, check_place
from limner.export.storyboard_json import load
from limner.language import ENGLISH
from limner.pictures.decode import names_pictures
from limner.progress import IndexProgress
from limner.records import Arrangement, Board, Segmentation, Show, Story
from limner.text.blocks import pictures_of
from limner.text.picture_files import OUTSIDE, InLibrary
from limner.text.read import MAX_DOCUMENT_BYTES, Format, Reading, read, read_bytes

if TYPE_CHECKING:
    from limner.library import Library

STANDARD = Path("-")
"""Standard input if given as a text; standard output after --out."""
WORDS_SHOWN = 100
"""Number of characters that --steps prints of a step."""


def _as_written(_kind: object, tokens: Sequence[Token]) -> str:
    """Name of a page size in lower case, as `limner.export.Plan` expects it."""
    return tokens[0].value.lower()


def illustrate(
    *texts: Path,
    library: Path | None = None,
    out: Annotated[Path | None, Parameter(name=["--out", "-o"])] = None,
    format: Annotated[str | None, MORE] = None,  # noqa: A002  (the option's name)
    steps: Flag = False,
    text_format: Annotated[Format | None, MORE] = None,
    by: Annotated[Segmentation | None, MORE] = None,
    also_steps: Annotated[Flag, MORE] = False,
    order: Arrangement | None = None,
    fill: Flag = False,
    cover: str | None = None,
    show: Show | None = None,
    pictures: str | None = None,
    pin: Many = (),
    ban: Many = (),
    keep: Path | None = None,
    again: str | None = None,
    channel: Annotated[Many, MORE] = (),
    model: Annotated[Path | None, MORE] = None,
    relation: Annotated[str | None, MORE] = None,
    metric: Annotated[Path | None, MORE] = None,
    weights: Annotated[Many, MORE] = (),
    device: Annotated[str, MORE] = "auto",
    min_probability: Annotated[
        float | None, MORE, Parameter(validator=validators.Number(gte=0, lt=1))
    ] = None,
    rewrite: Annotated[str | None, MORE] = None,
    endpoint: Annotated[str | None, MORE] = None,
    allow_remote: Annotated[Flag, MORE] = False,
    allow_repeats: Annotated[Flag, MORE] = False,
    ignore_given: Annotated[Flag, MORE] = False,
    settings: Annotated[Path | None, MORE] = None,
    set: Annotated[Many, MORE] = (),  # noqa: A002  (the option's name)
    layout: Layout | None = None,
    page_size: Annotated[PageSize | None, MORE, Parameter(converter=_as_written)] = None,
    with_reasons: Flag = False,
    overwrite: Flag = False,
    json: Annotated[Flag, MORE] = False,
) -> None:
    """Choose a picture for every step of a text and write the result; --help-all shows all options.

    Pictures named beside the text are indexed first, and no others are used; photographs lie along the steps
    in the order taken. Without any, the library is searched. If one of several texts fails, the others are
    still illustrated, and the exit status is 1.

    Example: limner illustrate recipe.md ~/Pictures/Cake -o recipe.html

    Example: limner illustrate recipe.md -o recipe.pdf --keep recipe.json --again 3,5

    Parameters
    ----------
    texts
        Markdown, HTML, plain text, JSON, Word (.docx) or PDF; - reads standard input. Also pictures, folders,
        or lists of paths of pictures (CSV, JSON Lines, Parquet).
    library
        Path or URL of the library. Default: $LIMNER_LIBRARY, else the default library if pictures are given,
        else the library used last.
    out
        File to write: .html, .pdf, .docx, .epub, .pptx, .md or .json. Use - for standard output, or a folder
        for several texts. Needed except with --steps.
    format
        Output format (html, pdf, docx, epub, pptx, md or json), if the extension of --out does not give it.
    steps
        Only print how the text is divided into steps; needs no pictures.
    text_format
        Format of the text, if its extension does not give it: markdown (the default for standard input),
        html, plain or json. Word documents and PDFs are recognised by their content.
    by
        Unit of the text that is one step. Default: explicit steps; if there are none, paragraphs.
    also_steps
        If the text marks places for pictures, illustrate its steps too.
    order
        Order of these photographs: taken (the default), name, or any if they have none.
    fill
        Search the rest of the library for steps to which none of them belongs.
    cover
        Picture that stands for the text; none leaves it out.
    show
        When to show a picture: cautious (if it probably fits), usual (the default) or always (at every step).
    pictures
        Number of pictures, or all. Default: all; of prose, one for about 200 words.
    pin
        STEP=PICTURE puts this picture at that step, counted from 1; STEP=none leaves it blank. Repeatable.
    ban
        Never use this picture. Repeatable.
    keep
        Earlier storyboard (.json). Steps with the same words keep their picture.
    again
        With --keep: steps to choose again, such as 3,5.
    channel
        Channel to use: captions, base, labels or clip. Repeatable. Default: all that the library has.
    model
        Folder of a trained run to use instead of all channels; the library must have been indexed with it.
        With --with-reasons, the page shows the relations between text and picture and the model's attention.
    relation
        Relation of the run, such as action, that the pictures of all steps should have. action=5 gives it
        five times the weight, action=-1 avoids it.
    metric
        Folder of a trained same-document metric, used to compare pictures with each other and with pinned
        ones; the library must have been indexed with it.
    weights
        Folder of CLIP's weights, or a folder of such folders; NAME=FOLDER names the model. Repeatable.
    device
        Device for trained runs: auto (a CUDA GPU if there is one), cpu, cuda, cuda:N or mps.
    min_probability
        Probability below which a step stays blank, from 0 (never blank) to 1. Use it instead of --show.
    rewrite
        Name of a language model that you run yourself. It describes a picture for each step in one sentence,
        with "a fox" instead of a name or "he". The sentence helps to find pictures and is never shown.
    endpoint
        With --rewrite: URL of the model's chat API, usually ending in /v1; see 'limner describe'.
    allow_remote
        Allow an --endpoint on another machine. Your text is sent there.
    allow_repeats
        Allow a picture, or a near-duplicate of it, to appear more than once.
    ignore_given
        Choose pictures also for steps whose text already shows one.
    settings
        TOML file with storyboard settings.
    set
        One storyboard option, such as candidates=500. Repeatable.
    layout
        Page layout. Default: chosen from the text.
    page_size
        Page size, for formats with pages. Default: A4; for slides, a wide screen.
    with_reasons
        Include the reasons for each choice; .json always does.
    overwrite
        Replace an existing file.
    json
        Print the storyboard as JSON too.
    """
    sources, by = (
        [one for one in texts if names_pictures(os.fsencode(one))],
        by or ("step" if also_steps else None),
    )
    texts = tuple(one for one in texts if one not in sources)
    _check_texts(texts, sources)
    if steps:
        _print_steps(texts, by, text_format, as_json=json)
        return
    if out is None:
        raise ConfigError("illustrate: --out is missing; name a file, as in -o recipe.html, or add --steps")
    again_steps = _again(again, keep, texts)
    earlier = None if keep is None else load(keep)
    targets = _targets(texts, out, format, overwrite=overwrite)
    plan = Plan(layout, page_size, with_reasons)
    for target in targets:
        _check(plan, check(target))
    if json and out == STANDARD:
        raise ConfigError("--json and --out - both write to standard output; leave one of the two out")
    pins, count, options = _pins(pin), _count(pictures), _options(settings, sources, shared=len(texts) > 1)
    rewriting = _rewriting(rewrite, endpoint, allow_remote=allow_remote)
    from limner.library import Library, in_library

    readings: dict[Path, Reading] = {}
    if sources:
        opened = Library(library, weights=weights, device=device, make=False)
        _read_pictures(
            opened,
            sources,
            model=model,
            metric=metric,
            language=ENGLISH
            if opened.exists and opened.store.settings.spaces
            else _language(texts, by, text_format, readings),
        )
    else:
        opened = Library.open(library, weights=weights, device=device, note=say)
    opened.mark_as_last_used()
    boards: list[Board] = []

    def one(text: Path, target: Path) -> None:
        reading = _read(text, by, text_format, in_library(opened.store), readings.get(text))
        for line in reading.summary():
            say(line)
        board = opened.illustrate(
            reading.story,
            pins=pins,
            bans=ban,
            show=show,
            min_probability=min_probability,
            count=count,
            allow_repeats=allow_repeats or None,
            order=order,
            fill=fill or None,
            cover=cover,
            keep_given=not ignore_given,
            keep=earlier,
            again=again_steps,
            rewrite=rewriting,
            relation=relation,
            model=model,
            metric=metric,
            channels=channel,
            options=options,
            overrides=set,
        )
        written = board.save(target, overwrite=overwrite, **asdict(plan))
        name = "standard output" if out == STANDARD else target.name
        for line in (*board.notes, *(f"{name}: {line}" for line in written.warnings)):
            say(line)
        boards.append(board)
        if out == STANDARD:
            say(str(board))
            sys.stdout.buffer.write(written.path.read_bytes())
            sys.stdout.buffer.flush()
        elif not json:
            emit(f"{board}\nwritten: {written.path}")

    if out == STANDARD:
        with tempfile.TemporaryDirectory(prefix="limner-") as folder:
            one(texts[0], Path(folder) / targets[0])
    else:
        _each(texts, targets, one)
    if json:
        emit_json(boards[0] if len(texts) == 1 else boards)
    if len(boards) < len(texts):
        raise DataError(
            f"{len(texts) - len(boards)} of {len(texts)} texts could not be illustrated, see above"
        )


def _options(settings: Path | None, sources: Sequence[Path], *, shared: bool) -> Path | dict[str, Any] | None:
    """Options of a file, with the pictures that are named beside the text."""
    if not sources:
        return settings
    from limner.config import read_toml
    from limner.library import named_paths

    options = {} if settings is None else read_toml(settings)
    return {**options, "named": named_paths(sources), "shared": shared}


def _check_texts(texts: Sequence[Path], sources: Sequence[Path]) -> None:
    """Check that the texts exist before pictures are read, which may take a long time.

    Raises:
        MissingError: a name without an extension does not exist and may be a mistyped folder, or none exists.
        ConfigError: there are only pictures.
    """
    if sources and not texts:
        raise ConfigError(
            f"illustrate: no text given; {sources[0]} is a picture, or holds or lists pictures; name a text"
            " first, as in limner illustrate recipe.md ~/Pictures -o recipe.html"
        )
    gone = [text for text in texts if text != STANDARD and not text.exists()]
    wrong = gone if sources and len(gone) == len(texts) else [text for text in gone if not text.suffix]
    if wrong:
        raise MissingError(f"{wrong[0]}: does not exist; expected a text, or a folder of pictures")


def _check_apart(text: Path, target: Path) -> None:
    """Refuse to overwrite the text itself.

    Raises:
        ConfigError: text and target are the same file.
    """
    if text != STANDARD and text.exists() and target.exists() and text.samefile(target):
        raise ConfigError(
            f"--out {target}: this is the text itself, which is never written to; name another file"
        )


def _read_pictures(
    library: "Library", sources: Sequence[Path], *, model: Path | None, metric: Path | None, language: str
) -> None:
    """Index new and changed pictures, and report on stderr.

    Raises:
        LimnerError: as `Library.add` and `check_report`.
    """
    folder = Path(library.place)
    is_new = not folder.exists()
    with IndexProgress() as progress:
        report = library.add(*sources, model=model, metric=metric, language=language, progress=progress)
    news = (
        report.new or report.changed or report.moved or report.deleted or report.missing or report.completed
    )
    for line in report.lines() if news else report.lines()[:1]:
        say(line)
    if is_new and not report.pictures and folder.is_dir():
        rmtree(folder)  # no picture was added to the library created for it
    check_report(report, library.place)


def _language(
    texts: Sequence[Path], by: Segmentation | None, kind: Format | None, readings: dict[Path, Reading]
) -> str:
    """Main language for a new library: English if one of the texts is English or none is a file.

    Args:
        texts: the texts.
        by: how they are divided.
        kind: their format.
        readings: receives what was read.
    Raises:
        LimnerError: the only text cannot be read.
    """
    from limner.match.languages import languages_of_story

    found: set[str] = set()
    for text in texts:
        # an error in one of several texts is reported when that text is illustrated
        with suppress(LimnerError) if len(texts) > 1 else nullcontext():
            if text != STANDARD:
                readings[text] = read(text, by=by, format=kind)
                found.add(languages_of_story(readings[text].story).main)
    return ENGLISH if ENGLISH in found else min(found, default=ENGLISH)


def _again(again: str | None, keep: Path | None, texts: Sequence[Path]) -> list[int]:
    """Parse the steps of ``--again 3,5``.

    Raises:
        ConfigError: a step is not a number from 1, --keep is missing, or several texts were given.
    """
    if keep is not None and len(texts) > 1:
        raise ConfigError(
            f"--keep: holds one storyboard, found {len(texts)} texts; illustrate them one by one"
        )
    if again is None:
        return []
    if keep is None:
        raise ConfigError("--again: names steps of an earlier storyboard; add --keep FILE.json")
    words = [word.strip() for word in again.split(",")]
    if not all(word.isdecimal() and int(word) for word in words):
        raise ConfigError(f"--again {again!r}: expected steps from 1, such as 3,5")
    return [int(word) for word in words]


def _count(word: str | None) -> int | Literal["all"] | None:
    """Parse ``--pictures 8`` or ``--pictures all``.

    Raises:
        ConfigError: it is something else.
    """
    if word is None:
        return None
    if word == "all":
        return "all"
    if not word.isdecimal() or not int(word):
        raise ConfigError(f"--pictures {word!r}: expected a number from 1, or all")
    return int(word)


def _check(plan: Plan, suffix: str) -> None:
    """Reject options that the format does not have.

    Raises:
        ConfigError: as `Plan.check`, or the option has no effect on a .json file.
    """
    plan.check(suffix)
    if plan.with_reasons and suffix == ".json":
        raise ConfigError("--with-reasons: .json holds the whole storyboard; leave --with-reasons out")


def _rewriting(
    model: str | None, endpoint: str | None, *, allow_remote: bool
) -> Callable[[Story], Sequence[str]] | None:
    """Function that asks a model to describe a picture for each step; None if no model is named.

    Raises:
        ConfigError: a model is named without an endpoint or the other way round, or as `Chat`.
    """
    if model is None and endpoint is None:
        return None
    if model is None or endpoint is None:
        raise ConfigError(
            "--rewrite and --endpoint go together; example: --rewrite qwen2.5:7b --endpoint"
            " http://127.0.0.1:11434/v1"
        )
    from limner.describe.chat import Chat
    from limner.describe.steps import rewritten

    chat = Chat(endpoint, model, allow_remote=allow_remote)

    def asked(story: Story) -> Sequence[str]:
        with IndexProgress() as progress:
            return rewritten(story, chat, progress)

    return asked


def _each(texts: Sequence[Path], targets: Sequence[Path], one: Callable[[Path, Path], None]) -> None:
    """Illustrate one text after the other; if one of several fails, report it and go on."""
    if len(texts) == 1:
        one(texts[0], targets[0])
        return
    for text, target in zip(texts, targets, strict=True):
        try:
            one(text, target)
        except (LimnerError, OSError) as error:
            say(f"limner: {text}: {error}")


def _targets(texts: Sequence[Path], out: Path, asked: str | None, *, overwrite: bool) -> list[Path]:
    """Output file of each text, checked before any work is done.

    Raises:
        ConfigError: no text is given, the format is unknown or impossible, or two texts have one file.
        LimnerError: as `check_place`.
    """
    if not texts:
        raise ConfigError(
            "illustrate: no text given; example: limner illustrate recipe.md ~/Pictures -o recipe.html"
        )
    suffix = f".{(asked or 'html').lower().removeprefix('.')}"
    if suffix not in SUFFIXES:
        raise ConfigError("--format: " + unknown("output format", asked, (one[1:] for one in SUFFIXES)))
    stems = ["text" if text == STANDARD else text.stem for text in texts]
    if out == STANDARD:
        if len(texts) > 1:
            raise ConfigError(f"--out -: holds one page, found {len(texts)} texts; name a folder")
        if suffix == ".md":
            raise ConfigError("--out -: md comes with a folder of pictures; name a file, or another --format")
        return [Path(f"{stems[0]}{suffix}")]
    if len(texts) == 1 and not out.is_dir():
        if asked and out.suffix and check(out) != suffix:
            raise ConfigError(f"--format {asked}: --out {out} has another format; leave one of the two out")
        target = out if out.suffix or not asked else out.with_name(f"{out.name}{suffix}")
        check(target)
        _check_apart(texts[0], target)
        check_place(target, overwrite=overwrite)
        return [target]
    twice = sorted({stem for stem in stems if stems.count(stem) > 1})
    if twice:
        raise ConfigError(f"--out {out}: several texts are called {twice[0]}; illustrate them one by one")
    if not out.is_dir():
        if out.exists() or out.suffix in SUFFIXES:
            raise ConfigError(f"--out {out}: expected a folder for {len(texts)} texts; name one")
        try:
            out.mkdir()
        except OSError as error:
            raise ConfigError(
                f"--out {out}: the folder cannot be made ({error.strerror}); name another place"
            ) from None
    targets = [out / f"{stem}{suffix}" for stem in stems]
    for text, target in zip(texts, targets, strict=True):
        _check_apart(text, target)
        check_place(target, overwrite=overwrite)
    return targets


def _read(
    text: Path,
    by: Segmentation | None,
    kind: Format | None,
    in_library: InLibrary = lambda path: None,
    before: Reading | None = None,
) -> Reading:
    """Read a text file, or standard input; once, unless pictures of a new library were missing before."""
    shown = () if before is None else pictures_of(before.story.blocks)
    if before is not None and all(picture.problem != OUTSIDE for picture in shown):
        return before
    if text != STANDARD:
        return read(text, by=by, format=kind, in_library=in_library)
    data = sys.stdin.buffer.read(MAX_DOCUMENT_BYTES + 1)
    reading = read_bytes(data, "standard input", by=by, format=kind or "markdown", in_library=in_library)
    return replace(reading, story=reading.story.model_copy(update={"id": "text"}))


def _print_steps(
    texts: Sequence[Path], by: Segmentation | None, kind: Format | None, *, as_json: bool
) -> None:
    """Print the steps of texts, and what stands around them."""
    if not texts:
        raise ConfigError("illustrate: no text given; example: limner illustrate recipe.md --steps")
    stories: list[Story] = []

    def one(text: Path, _: Path) -> None:
        reading = _read(text, by, kind)
        furniture = tuple(item for item in reading.left_out if item.reason == "page furniture")
        for line in replace(reading, left_out=furniture).summary():
            say(line)
        stories.append(reading.story)
        lines = [reading.story.title] if reading.story.title else []
        for number, step in enumerate(reading.story.steps, 1):
            title = f"[{step.title}] " if step.title else ""
            lines.append(f"{number}. {title}{_beginning(step.text)}")
        for item in (item for item in reading.left_out if item.reason != "page furniture"):
            words = [_beginning(item.text), *item.pictures]
            lines.append(f"{item.reason}: {', '.join(filter(None, words))}")
        if not as_json:
            emit("\n".join(lines))

    _each(texts, texts, one)
    if as_json and stories:
        emit_json(stories[0] if len(texts) == 1 else stories)
    if len(stories) < len(texts):
        raise DataError(f"{len(texts) - len(stories)} of {len(texts)} texts could not be read, see above")


def _beginning(text: str) -> str:
    """Beginning of a text on one line."""
    words = " ".join(text.split())
    return words if len(words) <= WORDS_SHOWN else f"{words[:WORDS_SHOWN].rstrip()} …"


def _pins(words: Sequence[str]) -> dict[int, str]:
    """Parse all ``--pin`` into pictures by step.

    Raises:
        ConfigError: as `_pin`, or a step has two pictures.
    """
    pins: dict[int, str] = {}
    for step, name in map(_pin, words):
        if pins.setdefault(step, name) != name:
            raise ConfigError(
                f"--pin: step {step} is given {pins[step]} and {name}; leave one of the two out"
            )
    return pins


def _pin(word: str) -> tuple[int, str]:
    """Parse ``STEP=PICTURE`` into the step, from 1, and the name of its picture."""
    step, equals, name = word.partition("=")
    if not equals or not step.strip().isdigit() or int(step) < 1:
        raise ConfigError(f"--pin {word!r}: expected STEP=PICTURE with steps from 1, such as 3=cake.jpg")
    return int(step), name
