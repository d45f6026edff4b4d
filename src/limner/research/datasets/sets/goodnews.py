"""GoodNews: captions of news pictures, several per article.

The pairs of an article form a sequence, so that a grouped split keeps them together; the public scripts do
not. The file is streamed, because it also contains the full text of the articles, which is not used.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NotRequired

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from limner.errors import RESEARCH, DataError, installed
from limner.files import first_fault, shown
from limner.research.datasets.folders import refuse_pickle
from limner.research.datasets.missing import pair_set
from limner.research.datasets.pairs import DataSet, Pair, PairSet, Source, register

FILE_NAMES = ("captioning_dataset.json", "article_caption.json", "article+caption.json")


class _Article(TypedDict):
    images: dict[str, str | None]
    headline: NotRequired[object]
    article_url: NotRequired[str | None]


_FORM = TypeAdapter(_Article)
_MAX_DEPTH = 50


def read_goodnews(
    source: Source,
) -> PairSet:
    """Read the captions of GoodNews.

    Args:
        source: the file, or a folder that contains it (or has it in a subfolder); pictures are named
            ``<article>_<number>.jpg``.
    Returns:
        One pair per captioned picture, without a split; `seq` is the article. `notes` counts empty captions.
    Raises:
        MissingError: the file does not exist.
        DataError: the file is not JSON, an article has another form or is repeated, or too many pictures are
            missing.
    Source: docs/methods/data.md §2.6.
    """
    file = source.file(*FILE_NAMES)
    refuse_pickle(file)
    pairs: list[Pair] = []
    seen: set[str] = set()
    empty = 0
    for name, article in _articles(file):
        if name in seen:
            raise DataError(f"{file}: article {shown(name)!r} appears twice; use the file as released")
        seen.add(name)
        headline = article.get("headline")
        main = headline.get("main") if isinstance(headline, dict) else headline
        main = main if isinstance(main, str) else None
        for number, caption in article["images"].items():
            if not caption or not caption.strip():
                empty += 1
                continue
            pairs.append(
                Pair(
                    id=f"goodnews-{name}_{number}",
                    text=caption,
                    image=f"{name}_{number}.jpg",
                    seq=name,
                    pos=int(number) if number.isdecimal() else None,
                    # not `url`, which would identify the picture
                    meta={"headline": main, "article_url": article.get("article_url")},
                )
            )
    if not seen:
        raise DataError(f"{file}: no article; expected one JSON object, article → images, headline …")
    return pair_set("goodnews", pairs, source, counted={"pictures without a caption left out": empty})


def _articles(file: Path) -> Iterator[tuple[str, _Article]]:
    """Yield (id, article), with one article in memory at a time."""
    with installed("ijson", RESEARCH):
        import ijson  # type: ignore[import-untyped, unused-ignore]

    name = ""
    with file.open("rb") as stream:
        try:
            events = ijson.parse(_shallow(ijson.basic_parse(stream, use_float=True), file))
            for name, value in ijson.kvitems(events, ""):
                yield name, _FORM.validate_python(value)
        except ValidationError as error:
            raise DataError(
                f"{file}: article {shown(name)!r}: {first_fault(error, 'the article')}; see GoodNews in"
                " docs/data.md"
            ) from error
        except (ijson.JSONError, UnicodeDecodeError) as error:
            reason = " ".join(str(error).split())
            raise DataError(
                f"{file}: after article {shown(name)!r}: not JSON ({reason}); is the file complete?"
            ) from error


def _shallow(events: Iterator[tuple[str, object]], file: Path) -> Iterator[tuple[str, object]]:
    """Pass events on, but reject deep nesting, whose path names would exhaust memory."""
    depth = 0
    for event in events:
        depth += event[0].startswith("start_") - event[0].startswith("end_")
        if depth > _MAX_DEPTH:
            raise DataError(f"{file}: nested deeper than {_MAX_DEPTH}; expected articles; is it GoodNews?")
        yield event


register(
    DataSet("goodnews", "captions of news pictures", read_goodnews, sequence="article", folder="goodnews")
)
