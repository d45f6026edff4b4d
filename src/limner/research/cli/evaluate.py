"""``limner evaluate``: how well a library's search finds pictures that were judged relevant."""

from collections.abc import Iterable
from pathlib import Path

from rich.table import Table

from limner.cli.main import Flag, Many, emit, emit_json, emit_table, say
from limner.errors import counted
from limner.library import Library
from limner.research.evaluation.judged import FIRST, evaluate_judged


def evaluate(
    *, qrels: Path, topics: Path, library: Path | None = None, channel: Many = (), json: Flag = False
) -> None:
    """Measure how well a library's search finds pictures that were judged relevant.

    Every topic is a query for the pictures judged relevant, among all pictures of the library. Intervals are
    95 % bootstrap intervals over topics.

    Example: limner evaluate --qrels mine/qrels.txt --topics mine/topics.tsv --library lib

    Parameters
    ----------
    qrels
        Relevance judgements in TREC format, with picture ids as documents, as written by 'limner study
        preferences' from your changes in the studio.
    topics
        Texts of the topics, one per line: id, tab, text.
    library
        Path or URL of the library. Default: $LIMNER_LIBRARY, else the one used last (see 'limner library').
    channel
        captions, base, labels or clip (repeatable). Default: all the library has.
    json
        Print all figures as JSON.
    """
    opened = Library.open(library, note=say)

    def search(text: str) -> Iterable[str]:
        return (hit.picture.id for hit in opened.search(text, k=FIRST, channels=channel))

    found = evaluate_judged(qrels, topics, opened.store.taken().numbers, search)
    if found.absent or found.silent:
        say(
            f"not in this library: {counted(found.absent, 'judged picture')};"
            f" left out, because no relevant picture is in it: {counted(len(found.silent), 'topic')}"
        )
    if json:
        emit_json(found)
        return
    cells = [
        [name, *(f"{100 * value:.1f}" for value in (one.value, one.low, one.high))]
        for name, one in found.metrics.items()
    ]
    emit_table(Table("measure", "%", "from", "to", title="95 % intervals over topics"), cells)
    emit(f"gallery {found.gallery}, topics {found.topics}; unjudged pictures count as not relevant")
