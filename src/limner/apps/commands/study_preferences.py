"""``limner study preferences``: hands on what was replaced in the studio, if its user agrees.

It asks for the consent and prints; `limner.apps.study.preferences` reads and writes.
"""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from limner.apps.terminal import emit
from limner.errors import ConfigError


def preferences(
    *,
    library: Path,
    to: Path,
    projects: Path | None = None,
    consent: Annotated[bool, Parameter(negative="", show_default=False)] = False,
) -> None:
    """Write what you replaced in the studio as preferences, topics and relevance judgements.

    In the folder --to: preferences.jsonl (query, context, preferred and rejected picture, time, library),
    topics.tsv (query id and text) and qrels.txt (TREC format, which 'limner evaluate --qrels' reads). They
    hold words of your texts and ids of your pictures, no picture and no path. Nothing is sent anywhere.

    Example: limner study preferences --library lib --consent --to my-preferences

    Parameters
    ----------
    library
        Folder of the library.
    to
        Folder to write into; made if it is not there.
    projects
        Folder of the studio's projects; 'projects' in the library unless given.
    consent
        You agree that these files hold words of your texts; without it nothing is written.
    """
    from limner.apps.study.preferences import read_preferences, write_preferences

    if not consent:
        raise ConfigError(
            "study preferences: the files would hold words of your texts and what you chose for them;"
            " add --consent if you agree"
        )
    found = read_preferences(projects or library / "projects")
    written = write_preferences(found, to)
    emit(f"{len(found)} preferences, {written.topics} topics, {written.judgements} judgements: {to}")
