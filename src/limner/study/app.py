"""The study as a web application: consent, pages to answer one after the other, a way to come back.

A rater is a random secret in a cookie; nothing else is asked, and only what there is to judge is shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from secrets import compare_digest
from typing import Annotated
from urllib.parse import parse_qs

from fastapi import Depends, FastAPI, Request
from fastapi.responses import FileResponse, HTMLResponse, RedirectResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException

from limner.errors import LimnerError
from limner.study.assignment import Plan, units
from limner.study.pages import Pages, Wording, read_answers
from limner.study.records import PICTURES, read_study
from limner.study.votes import HOLD_S, VoteBase, new_secret, public_id
from limner.web import security as problems
from limner.web.security import ProblemError
from limner.web.serving import bind, serve

STATIC = Path(__file__).parent / "static"
YEAR_S = 365 * 24 * 3600
BODY_BYTES = 256 * 1024
GONE = "Somebody else has answered that page meanwhile. Here is the next one."
_SECRET = re.compile(r"[A-Za-z0-9_-]{24}")
Form = dict[str, list[str]]


@dataclass(frozen=True)
class Desk:
    """What the routes work with.

    Attributes:
        votes: the database.
        plan: how pages are dealt.
        wording: of the study.
        pictures: folder of the pictures.
        invitation: token that whoever begins must bring; "" asks for none.
        hold_s: seconds a page is kept for a rater who does not answer.
    """

    votes: VoteBase
    plan: Plan
    wording: Wording
    pictures: Path
    invitation: str = ""
    hold_s: float = HOLD_S

    @property
    def cookie(self) -> str:
        """Name of the rater's cookie: studies on one machine do not disturb each other."""
        return f"limner-study-{self.plan.study[:12]}"

    def rater(self, request: Request) -> str | None:
        """Public id of the rater who asks, if they take part."""
        secret = request.cookies.get(self.cookie, "")
        rater = public_id(secret)
        return rater if _SECRET.fullmatch(secret) and self.votes.knows(rater) else None

    def known(self, request: Request) -> str:
        """Public id of the rater who asks.

        Raises:
            ProblemError: it is nobody who takes part.
        """
        rater = self.rater(request)
        if rater is None:
            raise ProblemError(401, "you have not begun, or on another device: begin on the first page")
        return rater

    def link(self, request: Request) -> str:
        """The address by which the rater who asks comes back."""
        return f"{str(request.base_url).rstrip('/')}/resume/{request.cookies.get(self.cookie, '')}"

    def enter(self, request: Request, secret: str) -> Response:
        """Go on as the rater with this secret."""
        response = RedirectResponse("/rate", 303)
        secure = request.url.scheme == "https"
        # Lax: a link in a message must lead back to the rater's own pages.
        response.set_cookie(
            self.cookie, secret, max_age=YEAR_S, httponly=True, samesite="lax", secure=secure, path="/"
        )
        return response


async def _form(request: Request) -> Form:
    """Fields of a form as browsers send it."""
    try:
        body = (await request.body()).decode("utf-8")
        return parse_qs(body, keep_blank_values=True, max_num_fields=10_000)
    except ValueError:
        raise ProblemError(400, "the form cannot be read; go back and send it again") from None


def study_app(desk: Desk) -> FastAPI:
    """The application of one study.

    Args:
        desk: what its routes work with.
    """
    app = FastAPI(title="limner study", openapi_url=None, docs_url=None, redoc_url=None)
    pages = Pages(desk.wording)
    _refuse(app, pages)
    names = frozenset(
        one.picture for unit in desk.plan.units.values() for item in unit.items for one in item.candidates
    )

    def asked(secret: str, invitation: str, *, unticked: bool = False) -> str:
        most = desk.plan.room()
        values = {"secret": secret, "invitation": invitation, "pages": most, "unticked": unticked}
        return pages.render("consent.html", **values)

    @app.get("/")
    def consent(request: Request, token: str = "") -> Response:
        if desk.rater(request) is not None:
            return RedirectResponse("/rate", 303)
        _invited(desk, token)
        return _page(asked(new_secret(), token))

    @app.post("/begin")
    def begin(request: Request, form: Annotated[Form, Depends(_form)]) -> Response:
        token, secret = _one(form, "token"), _one(form, "rater")
        _invited(desk, token)
        if not _SECRET.fullmatch(secret):
            raise ProblemError(400, "this form was not made here; begin on the first page")
        if _one(form, "consent") != "yes":
            return _page(asked(secret, token, unticked=True), 422)
        desk.votes.join(secret)
        return desk.enter(request, secret)

    @app.get("/resume/{secret}")
    def resume(request: Request, secret: str) -> Response:
        if not _SECRET.fullmatch(secret) or not desk.votes.knows(public_id(secret)):
            raise ProblemError(404, "nobody takes part by this link; copy the whole of it")
        return desk.enter(request, secret)

    @app.get("/rate")
    def rate(request: Request, gone: int = 0) -> Response:
        rater = desk.rater(request)
        if rater is None:
            return RedirectResponse("/", 303)
        turn = desk.votes.turn(rater, desk.plan, hold_s=desk.hold_s)
        page = pages.rating(turn, desk.plan, rater, link=desk.link(request), note=GONE if gone else "")
        return _page(page)

    @app.post("/rate")
    def answer(request: Request, form: Annotated[Form, Depends(_form)]) -> Response:
        rater = desk.known(request)
        unit = desk.plan.units.get(_one(form, "unit"))
        if unit is None:
            raise ProblemError(400, "this study has no such page; reload it")
        found = read_answers(form, unit, desk.plan, rater, pairs=desk.wording.pairs)
        if found is None:
            turn = desk.votes.turn(rater, desk.plan, hold_s=desk.hold_s)
            if turn.unit != unit:  # answered already, in another window perhaps
                return RedirectResponse("/rate", 303)
            page = pages.rating(turn, desk.plan, rater, link=desk.link(request), form=form)
            return _page(page, 422)
        gone = desk.votes.vote(rater, unit, found) == "gone"
        return RedirectResponse("/rate?gone=1" if gone else "/rate", 303)

    @app.get("/pause")
    def pause(request: Request) -> Response:
        desk.known(request)
        return _page(pages.render("pause.html", link=desk.link(request)))

    @app.get("/pictures/{name}")
    def picture(request: Request, name: str) -> Response:
        desk.known(request)
        if name not in names:
            raise ProblemError(404, "this study has no such picture")
        return FileResponse(
            desk.pictures / name, headers={"cache-control": "private, max-age=31536000, immutable"}
        )

    app.mount("/static", StaticFiles(directory=STATIC))
    return app


def _refuse(app: FastAPI, pages: Pages) -> None:
    """Answer errors with a page where a browser shows it, with problem+json elsewhere."""
    problems.install(app)
    plain = dict(app.exception_handlers)

    def as_page(request: Request, error: Exception) -> Response:
        answered: Response = plain[next(kind for kind in type(error).__mro__ if kind in plain)](
            request, error
        )
        if "text/html" not in request.headers.get("accept", ""):
            return answered
        detail = "Something went wrong here; it has been noted. What you have answered so far is stored."
        if isinstance(error, ProblemError):
            detail = error.details.detail
        elif isinstance(error, HTTPException):
            detail = "There is nothing at this address."
        detail = detail[:1].upper() + detail[1:]
        page = pages.render("message.html", heading="This did not work", detail=detail)
        return _page(page, answered.status_code)

    for kind in (LimnerError, HTTPException):
        app.add_exception_handler(kind, as_page)


def _page(text: str, status: int = 200) -> Response:
    # Without any referrer, browsers do not tell the origin of a form either, and the guard wants to know it.
    return HTMLResponse(text, status, {"referrer-policy": "same-origin"})


def _invited(desk: Desk, token: str) -> None:
    if desk.invitation and not compare_digest(token.encode(), desk.invitation.encode()):
        raise ProblemError(401, "this study is by invitation; open the whole address that you were sent")


def _one(form: Form, name: str) -> str:
    values = form.get(name, [])
    return values[0] if len(values) == 1 else ""


def serve_study(
    folder: Path,
    *,
    votes: str | None,
    host: str,
    port: int | None,
    names: Sequence[str],
    limit: int | None,
    hold_s: float,
    note: Callable[[str], None],
    ready: Callable[[str], None],
) -> None:
    """Serve a study until Ctrl-C.

    Args:
        folder: of the study.
        votes: where they are kept, see `limner.study.connection.votes_url`.
        host: address to listen on.
        port: to listen on; None for the usual one, or any that is free.
        names: under which raters reach the server, beside its address.
        limit: pages one rater is asked at most; None for all.
        hold_s: seconds a page is kept for a rater who does not answer.
        note: receives one line on how far the study is.
        ready: receives the address once the server answers.
    Raises:
        LimnerError: as `read_study`, `VoteBase` and `bind`.
    """
    files = read_study(folder)
    plan = Plan(files.study.sha256, units(files.items, files.key.checks), files.study.raters_per_item, limit)
    with closing(VoteBase(folder, files.study, votes)) as base:
        bound = bind(host, port)
        note(
            f"{files.study.title}: {len(plan.names(check=False))} pages and {len(plan.names(check=True))}"
            f" attention checks, {plan.raters} raters a page, {len(base.votes())} votes in {base.name}"
        )
        desk = Desk(base, plan, Wording.of(files.study), folder / PICTURES, bound.token or "", hold_s)
        # Raters come by links from elsewhere, with which browsers send no strict cookie: the study asks for
        # its token itself, and only until a rater has begun.
        guard = replace(bound.guard("limner-study", names=names, need_token=False), body_bytes=BODY_BYTES)
        serve(study_app(desk), bound, guard, ready=lambda: ready(bound.url()))
