"""``limner study serve``: shows a study to raters in a browser and keeps their votes.

It puts folder, database and server together; `limner.apps.study.app` answers.
"""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from limner.apps.terminal import emit, say
from limner.errors import ConfigError, MissingError

PORT = 8420
MISSING = "limner study serve: {} is not installed; pip install 'limner[studio,studies]'"


def serve(
    study: Path,
    *,
    votes: str | None = None,
    host: str = "127.0.0.1",
    port: int | None = None,
    name: Annotated[tuple[str, ...], Parameter(negative="", show_default=False)] = (),
    limit: int | None = None,
    hold_minutes: float = 20.0,
) -> None:
    """Show a study to raters in a browser and keep their votes.

    Raters open the printed address, agree, and answer page after page. They may stop and come back. Only
    this machine can open it unless --host names another address; the printed one then holds a token, and
    whoever is given it may take part. Ctrl-C ends it; nothing is lost, and it can be started again.

    Example: limner study serve preferences-study

    Parameters
    ----------
    study
        Folder that 'limner study create' made.
    votes
        Where votes are kept: a postgresql:// URL or an SQLite file; votes.sqlite in the folder unless given.
    host
        Address to listen on; 0.0.0.0 lets other machines in.
    port
        Port to listen on; 8420, or any that is free, unless given.
    name
        Name under which raters reach this server, such as that of a proxy before it (repeatable).
    limit
        Pages one rater is asked at most; all that are open unless given.
    hold_minutes
        How long a page is kept for a rater who does not answer.
    """
    if limit is not None and limit < 1:
        raise ConfigError(f"--limit {limit}: expected at least 1")
    if not 0 < hold_minutes < 10_000:
        raise ConfigError(f"--hold-minutes {hold_minutes:g}: expected more than 0, and less than a week")
    try:
        import fastapi  # noqa: F401
        import uvicorn  # noqa: F401
    except ModuleNotFoundError as error:
        raise MissingError(MISSING.format(error.name)) from None
    from limner.apps.study.app import BODY_BYTES, Desk, study_app
    from limner.apps.study.assignment import Plan, check_ids, units
    from limner.apps.study.database import VoteBase
    from limner.apps.study.pages import Wording
    from limner.apps.web.serving import bind
    from limner.apps.web.serving import serve as run
    from limner.data.study_files import PICTURES, read_study

    files = read_study(study)
    pages = units(files.items, check_ids(files.key))
    plan = Plan(files.study.sha256, pages, files.study.raters_per_item, limit)
    base = VoteBase.open(study, files.study, votes)
    try:
        bound = bind(host, port, PORT)
        desk = Desk(
            votes=base,
            plan=plan,
            wording=Wording.of(files.study),
            pictures=study / PICTURES,
            invitation=bound.token or "",
            hold_s=60 * hold_minutes,
        )
        say(
            f"{files.study.title}: {len(plan.names(check=False))} pages and {len(plan.names(check=True))}"
            f" attention checks, {plan.raters} raters a page, {len(base.votes())} votes in {base.name}"
        )
        # Raters come by links from elsewhere, with which browsers send no strict cookie: the study asks for
        # its token itself, and only until a rater has begun.
        guard = replace(bound.guard("limner-study", names=name, need_token=False), body_bytes=BODY_BYTES)
        run(study_app(desk), bound, guard, ready=lambda: _tell(bound.url()))
    finally:
        base.close()


def _tell(url: str) -> None:
    emit(f"study open at {url}")
    sys.stdout.flush()
