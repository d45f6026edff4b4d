"""The web application of a study: consent, rating pages, pausing and resuming, withdrawal.

A rater is identified by a random secret in a cookie.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from secrets import compare_digest
from typing import Annotated
from urllib.parse import parse_qs

from fastapi import Depends, FastAPI, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException

from limner.errors import ConfigError, LimnerError, counted
from limner.research.study.assignment import AssignmentPlan
from limner.research.study.pages import Pages, RaterWording, of_another_page, read_answers
from limner.research.study.records import PICTURES, Answer, Notice, StudyFiles, read_study
from limner.research.study.recruitment import (
    NEW_RATERS,
    PARAMETERS,
    Newcomers,
    PanelError,
    Panelist,
    Recruitment,
    crowd_of,
    new_secret,
    public_id,
)
from limner.research.study.votes import HOLD_S, TakenError, Turn, VoteBase
from limner.server import problems
from limner.server.problems import ProblemError
from limner.server.security import is_loopback
from limner.server.serving import bind, serve

STATIC = Path(__file__).parent / "static"
YEAR_S = 365 * 24 * 3600
BODY_BYTES = 256 * 1024
MEDIA_TYPES = {"jpg": "image/jpeg", "png": "image/png", "webp": "image/webp"}
"""Suffix → media type; newer studies have JPEG only."""
KEPT = "private, max-age=31536000, immutable"
NOTES = {
    "gone": "Someone else answered that page in the meantime. Here is the next one.",
    "stands": "You already answered that page, and your first answer counts. Here is the next one.",
    "other": "That answer was for another page and was not saved. Please answer this page.",
}
BEGUN = "begun"
"""Marks the URL right after the cookie was set, to detect browsers that reject cookies."""
_SECRET = re.compile(r"[A-Za-z0-9_-]{24}")
Form = dict[str, list[str]]


@dataclass(frozen=True)
class Desk:
    """State shared by the routes.

    Attributes:
        votes: database of the votes.
        plan: assignment of pages.
        wording: wording of the study.
        pictures: folder of the pictures.
        invitation: token that new raters need; "" for none.
        hold_s: seconds for which an unanswered page stays reserved.
        recruitment: panel, completion codes and screening.
        checks: attention check → correct answer.
        newcomers: rate limit for new raters.
    """

    votes: VoteBase
    plan: AssignmentPlan
    wording: RaterWording
    pictures: Path
    invitation: str
    hold_s: float
    recruitment: Recruitment
    checks: Mapping[str, Answer]
    newcomers: Newcomers

    @classmethod
    def of(
        cls,
        files: StudyFiles,
        folder: Path,
        votes: VoteBase,
        *,
        limit: int | None = None,
        invitation: str = "",
        hold_s: float = HOLD_S,
        notice: Notice | None = None,
        recruitment: Recruitment,
        newcomers: Newcomers,
    ) -> Desk:
        """Collect the state for the study in a folder; see `serve_study`."""
        return cls(
            votes,
            AssignmentPlan.of(files, limit),
            RaterWording.of(files.study, notice, recruitment.panel_words),
            folder / PICTURES,
            invitation,
            hold_s,
            recruitment,
            files.key.checks,
            newcomers,
        )

    @property
    def cookie(self) -> str:
        """Name of the rater's cookie, different for each study on a machine."""
        return f"limner-study-{self.plan.study[:12]}"

    def rater(self, request: Request) -> str | None:
        """Public id of the rater who sent the request; None if no rater of this study did."""
        secret = request.cookies.get(self.cookie, "")
        rater = public_id(secret)
        return rater if _SECRET.fullmatch(secret) and self.votes.knows(rater) else None

    def known(self, request: Request) -> str:
        """Public id of the rater who sent the request.

        Raises:
            ProblemError: no rater of this study sent it.
        """
        rater = self.rater(request)
        if rater is None:
            raise ProblemError(401, "you have not started the study on this device; open its first page")
        return rater

    def screened(self, rater: str) -> bool:
        """Whether a rater is screened out for failed attention checks."""
        most = self.recruitment.screen_out
        if most is None:
            return False
        given = self.votes.answers(rater, self.checks)
        return sum(said != self.checks[item] for item, said in given.items()) >= most

    def panelist(self, parameters: Mapping[str, str]) -> Panelist | None:
        """The panel's ids in a URL; None for a preview.

        Raises:
            ProblemError: an id is missing or malformed.
        """
        try:
            return self.recruitment.came(parameters)
        except PanelError as error:
            raise ProblemError(400, str(error)) from None

    def link(self, request: Request) -> str:
        """The URL with which the rater who sent the request can return."""
        return f"{str(request.base_url).rstrip('/')}/resume/{request.cookies.get(self.cookie, '')}"

    def enter(self, request: Request, secret: str) -> Response:
        """Set the cookie and continue as the rater with this secret."""
        response = RedirectResponse(f"/rate?note={BEGUN}", 303)
        secure = request.url.scheme == "https"
        # Lax: a link in an email must lead back to the rater's own pages.
        response.set_cookie(
            self.cookie, secret, max_age=YEAR_S, httponly=True, samesite="lax", secure=secure, path="/"
        )
        return response


async def _form(request: Request) -> Form:
    """Parse a form as browsers send it."""
    try:
        body = (await request.body()).decode("utf-8")
        return parse_qs(body, keep_blank_values=True, max_num_fields=10_000)
    except ValueError:
        raise ProblemError(400, "the form cannot be read; go back and send it again") from None


def study_app(desk: Desk) -> FastAPI:
    """Build the application of one study.

    Args:
        desk: state of its routes.
    """
    app = FastAPI(title="limner study", openapi_url=None, docs_url=None, redoc_url=None)
    pages = Pages(desk.wording)
    _refuse(app, pages)
    _arrive(app, desk, pages)
    _answer(app, desk, pages)
    _leave(app, desk, pages)
    app.mount("/static", StaticFiles(directory=STATIC))
    return app


def _arrive(app: FastAPI, desk: Desk, pages: Pages) -> None:
    """Add the routes for consent and resuming."""
    panel = desk.recruitment.panel

    def asked(
        secret: str,
        invitation: str,
        panelist: Panelist | None = None,
        *,
        unticked: bool = False,
        wait_s: int = 0,
    ) -> str:
        most = desk.plan.room()
        most += desk.plan.checks_among(public_id(secret), most)
        hidden = {"rater": secret, "token": invitation}
        if panelist is not None:
            said = panelist.model_dump(include={"worker", "batch", "session"})
            hidden = {"token": invitation} | {PARAMETERS[panel][name]: value for name, value in said.items()}
        preview = bool(panel) and panelist is None
        return pages.render(
            "consent.html", hidden=hidden, pages=most, unticked=unticked, wait_s=wait_s, preview=preview
        )

    @app.get("/")
    def consent(request: Request, token: str = "") -> Response:
        if not panel or (request.query_params.keys() <= {"token"} and desk.rater(request)):
            if desk.rater(request) is not None:
                return RedirectResponse("/rate", 303)
            _invited(desk, token)
            return _page(asked(new_secret(), token))
        panelist = desk.panelist(request.query_params)
        secret = new_secret() if panelist is None else panelist.secret(desk.plan.study)
        if desk.votes.knows(public_id(secret)):
            return desk.enter(request, secret)
        _invited(desk, token)
        return _page(asked(secret, token, panelist))

    @app.post("/begin")
    def begin(request: Request, form: Annotated[Form, Depends(_form)]) -> Response:
        token, secret, panelist = _one(form, "token"), _one(form, "rater"), None
        _invited(desk, token)
        if panel:
            panelist = desk.panelist({name: _one(form, name) for name in form})
            secret = "" if panelist is None else panelist.secret(desk.plan.study)
        if not _SECRET.fullmatch(secret):
            raise ProblemError(400, "this form is not from this study; open its first page")
        if _one(form, "consent") != "yes":
            return _page(asked(secret, token, panelist, unticked=True), 422)
        rater, address = public_id(secret), request.client.host if request.client else ""
        if desk.votes.knows(rater):  # a double click
            return desk.enter(request, secret)
        wait_s = math.ceil(desk.newcomers.wait_s(address))
        if wait_s:
            refused = _page(asked(secret, token, panelist, wait_s=wait_s), 429)
            refused.headers["retry-after"] = str(wait_s)
            return refused
        try:
            desk.votes.join(secret, panelist)
        except TakenError:
            raise ProblemError(
                409, "you have already taken part in this study; you can do so only once"
            ) from None
        crowd = desk.newcomers.began(address, rater)
        if crowd is not None:
            desk.votes.mark(*crowd)
        return desk.enter(request, secret)

    @app.get("/resume/{secret}")
    def resume(request: Request, secret: str) -> Response:
        if not _SECRET.fullmatch(secret) or not desk.votes.knows(public_id(secret)):
            raise ProblemError(404, "no rater has this link; check that you copied the whole link")
        return desk.enter(request, secret)


def _answer(app: FastAPI, desk: Desk, pages: Pages) -> None:
    """Add the routes for rating and for pictures."""
    names = frozenset(
        candidate.picture
        for unit in desk.plan.units.values()
        for item in unit.items
        for candidate in item.candidates
        if candidate.picture
    )

    def shown(request: Request, turn: Turn, rater: str, note: str = "", form: Form | None = None) -> str:
        return pages.rating(
            turn,
            desk.plan,
            rater,
            link=desk.link(request),
            ending=desk.recruitment.done,
            note=note,
            form=form,
        )

    @app.get("/rate")
    def rate(request: Request, note: str = "") -> Response:
        rater = desk.rater(request)
        if rater is None and note == BEGUN:
            raise ProblemError(
                400,
                "this browser did not save the cookie that this study needs to recognise you;"
                " allow cookies for this site, or use another browser, and start again",
            )
        if rater is None:
            return RedirectResponse("/", 303)
        if note == BEGUN:
            return RedirectResponse("/rate", 303)
        if desk.screened(rater):
            return _page(pages.render("screened.html", rater=rater, ending=desk.recruitment.screened))
        turn = desk.votes.turn(rater, desk.plan, hold_s=desk.hold_s)
        return _page(shown(request, turn, rater, note=NOTES.get(note, "")))

    @app.post("/rate")
    def answer(request: Request, form: Annotated[Form, Depends(_form)]) -> Response:
        rater = desk.known(request)
        unit = desk.plan.units.get(_one(form, "unit"))
        if unit is None:
            raise ProblemError(400, "this study has no such page; reload it")
        if of_another_page(form, unit, desk.plan, rater):
            return RedirectResponse("/rate?note=other", 303)
        answers = read_answers(form, unit, desk.plan, rater, pairs=desk.wording.pairs)
        if answers is None:
            turn = desk.votes.turn(rater, desk.plan, hold_s=desk.hold_s)
            if turn.unit != unit:  # already answered, perhaps in another window
                return RedirectResponse("/rate", 303)
            return _page(shown(request, turn, rater, form=form), 422)
        outcome = desk.votes.vote(rater, unit, answers)
        if outcome == "stands":  # the same answer again is a double click
            before = desk.votes.answers(rater, [item for item, _, _ in answers])
            outcome = "stored" if before == {item: said for item, said, _ in answers} else outcome
        return RedirectResponse("/rate" if outcome == "stored" else f"/rate?note={outcome}", 303)

    @app.get("/pictures/{name}")
    def picture(request: Request, name: str) -> Response:
        desk.known(request)
        if name not in names:
            raise ProblemError(404, "this study has no such picture")
        # Always the whole file, without Range, Last-Modified or ETag: response headers must not differ
        # between the pictures of a study.
        content = (desk.pictures / name).read_bytes()
        kind = MEDIA_TYPES.get(name.rpartition(".")[2])
        return Response(content, media_type=kind, headers={"cache-control": KEPT})


def _leave(app: FastAPI, desk: Desk, pages: Pages) -> None:
    """Add the routes for pausing and withdrawing."""

    @app.get("/pause")
    def pause(request: Request) -> Response:
        rater = desk.known(request)
        return _page(pages.render("pause.html", link=desk.link(request), rater=rater))

    @app.get("/withdraw")
    def withdraw(request: Request) -> Response:
        rater = desk.known(request)
        if desk.votes.withdrew(rater):
            return _page(pages.render("withdrawn.html"))
        return _page(pages.render("withdraw.html", rater=rater))

    @app.post("/withdraw")
    def withdrawn(request: Request) -> Response:
        desk.votes.withdraw(desk.known(request), "rater")
        return RedirectResponse("/withdraw", 303)


def _refuse(app: FastAPI, pages: Pages) -> None:
    """Answer errors with a page for browsers and problem+json for other clients."""
    problems.install(app)
    plain = dict(app.exception_handlers)

    def as_page(request: Request, error: Exception) -> Response:
        answered: Response = plain[next(kind for kind in type(error).__mro__ if kind in plain)](
            request, error
        )
        if "text/html" not in request.headers.get("accept", ""):
            return answered
        detail = "An error occurred and was logged. Your answers so far are saved."
        if isinstance(error, ProblemError):
            detail = error.details.detail
        elif isinstance(error, HTTPException):
            detail = "This page does not exist."
        detail = detail[:1].upper() + detail[1:]
        page = pages.render("message.html", heading="Something went wrong", detail=detail)
        return _page(page, answered.status_code)

    for kind in (LimnerError, HTTPException):
        app.add_exception_handler(kind, as_page)


def _page(text: str, status: int = 200) -> Response:
    # Without any referrer, browsers do not send the Origin of a form either, which the guard needs.
    return HTMLResponse(text, status, {"referrer-policy": "same-origin"})


def _invited(desk: Desk, token: str) -> None:
    if desk.invitation and not compare_digest(token.encode(), desk.invitation.encode()):
        raise ProblemError(401, "this study is by invitation only; open the whole link that you were sent")


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
    proxies: Sequence[str] = (),
    limit: int | None,
    hold_s: float,
    notice: Notice | None,
    recruitment: Recruitment,
    new_raters: int = NEW_RATERS,
    note: Callable[[str], None],
    ready: Callable[[str], None],
) -> None:
    """Serve a study until Ctrl-C.

    Args:
        folder: folder of the study.
        votes: location of the votes, see `limner.research.study.votes.votes_url`.
        host: address to listen on.
        port: port to listen on; None for the default or, if that is taken, any free one.
        names: host names under which raters reach the server, in addition to `host`.
        proxies: see `serve`.
        limit: most pages per rater; None for all.
        hold_s: seconds for which an unanswered page stays reserved.
        notice: contact, purpose and retention, if none were registered.
        recruitment: panel, completion codes and screening.
        new_raters: new raters per minute from one network address, also the largest burst; 0 for no limit.
        note: receives status lines for the terminal.
        ready: receives the URL once the server answers.
    Raises:
        ConfigError: raters on other machines would see no notice, or a notice is given although one is
            registered.
        LimnerError: as `read_study`, `VoteBase` and `bind`.
    """
    files = read_study(folder)
    if notice and files.study.notice:
        raise ConfigError(f"{folder}: contact, purpose and retention are registered; leave the options out")
    if not (notice or files.study.notice) and (names or not is_loopback(host)):
        raise ConfigError(
            f"{folder}: raters on other machines must see contact, purpose and retention;"
            " add --contact, --purpose and --retention, here or to 'limner study create'"
        )
    with closing(VoteBase(folder, files.study, votes)) as base:
        bound = bind(host, port)
        desk = Desk.of(
            files,
            folder,
            base,
            limit=limit,
            invitation=bound.token or "",
            hold_s=hold_s,
            notice=notice,
            recruitment=recruitment,
            newcomers=Newcomers(new_raters, crowd=crowd_of(files.study.raters_per_item)),
        )
        note(
            f"{files.study.title}: {counted(len(desk.plan.names(check=False)), 'page')} and"
            f" {len(desk.plan.names(check=True))}"
            f" attention checks, {counted(desk.plan.raters, 'rater')} a page,"
            f" {counted(len(base.votes()), 'vote')} in {base.name}"
        )
        # in studies of earlier versions
        if len({(file.suffix, file.stat().st_size) for file in (folder / PICTURES).iterdir()}) > 1:
            note(
                "the picture files differ in format or size, which might tell raters which system chose them;"
                " studies made by this version of 'limner study create' do not have this flaw"
            )
        # Browsers send no strict cookie when raters follow a link from another site, so the study itself
        # checks the token, and only until a rater has begun.
        guard = replace(bound.guard("limner-study", names=names, need_token=False), body_bytes=BODY_BYTES)
        serve(study_app(desk), bound, guard, ready=lambda: ready(bound.url()), proxies=proxies)
