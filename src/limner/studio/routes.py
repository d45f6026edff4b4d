"""Routes of the studio: the library, its pictures by id, added folders, projects, and search.

Requests name no path on the disk except that of a folder to add, and that only on this machine.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, TypeVar
from urllib.parse import quote

from fastapi import APIRouter, Body, Depends, Header, Query, Request
from fastapi import Path as Part
from fastapi.responses import JSONResponse, Response, StreamingResponse

from limner.errors import DataError
from limner.export import LAYOUTS, PAGED, Plan
from limner.export.wording import sentence
from limner.match.illustrate import BoardOptions
from limner.match.illustrator import Matches
from limner.progress import Progress
from limner.records import Arrangement, Board, Candidate, Picture, Problem, Segmentation
from limner.server.problems import ProblemError
from limner.store import Only, Order, Store
from limner.studio import schemas
from limner.studio.edits import MOST_NAMED, checked_length
from limner.studio.engine import Engine, illustrate_story
from limner.studio.jobs import Job, Jobs, Stoppable
from limner.studio.library_page import LibraryPage
from limner.studio.pictures import (
    MEDIA_TYPE,
    ExportFormat,
    Thumbnails,
    exported,
    original,
    previewed,
    side_for,
)
from limner.studio.preferences import read_preferences
from limner.studio.project_editor import ProjectEditor
from limner.studio.projects import Choice, Projects, Trashed
from limner.studio.schemas import Changes, DuplicateGroup, Page, PictureItem, Project, ProjectSummary
from limner.studio.uploads import Uploads
from limner.text.read import read_text

LEFT_OUT, DUPLICATES = 1000, 100
DOCUMENTS = "/api/documents"
EVENT_S = 0.25
_ID = re.compile(r"[0-9a-f]{64}")
_WAIT = re.compile(r"\bwait=(\d{1,3})\b")
Made = TypeVar("Made")
Identifier = Annotated[str, Part(description="SHA-256 of a picture, 64 hex digits")]
Offset = Annotated[int, Query(ge=0, le=10**9)]
Limit = Annotated[int, Query(ge=1, le=1000)]
ASYNC, WAIT_S, NOTES = "respond-async", 10.0, 20
Prefer = Annotated[str, Header(description=f"`{ASYNC}` starts a job and responds at once (RFC 7240)")]
LATER: dict[int | str, dict[str, Any]] = {
    202: {"model": schemas.JobStarted, "description": "The job that was started"}
}


async def visit(request: Request) -> AsyncIterator[Stoppable]:
    """Progress that stops the work when the client disconnects."""
    visit = Stoppable()

    async def watch() -> None:
        while not await request.is_disconnected():
            await asyncio.sleep(EVENT_S)
        visit.stop.set()

    watching = asyncio.create_task(watch())
    try:
        yield visit
    finally:
        watching.cancel()


Visit = Annotated[Stoppable, Depends(visit)]


class Studio:
    """What the routes use: a library, its projects, thumbnails, and jobs."""

    def __init__(
        self,
        engine: Engine,
        projects: Path,
        thumbnails: Path,
        *,
        writable: bool = True,
    ) -> None:
        """Set up a studio for a library.

        Args:
            engine: the library.
            projects: folder of the projects.
            thumbnails: folder of the thumbnail cache.
            writable: whether folders may be added: only if this machine alone can connect.
        """
        self.engine, self.writable = engine, writable
        self.editor = ProjectEditor(engine, Projects(projects))
        self.thumbnails = Thumbnails(thumbnails)
        self.jobs = Jobs(engine)
        self.uploads = Uploads(engine.folder)
        self.library_page = LibraryPage(engine, self.editor.projects)

    def local(self) -> None:
        """Refuse requests that only this machine may make.

        Raises:
            ProblemError: other machines can connect to the studio.
        """
        if not self.writable:
            raise ProblemError(
                403,
                "the library can be changed only if the studio listens on this machine alone (127.0.0.1)",
                kind="not-local",
            )


FRAMED = {
    "content-security-policy": (
        "default-src 'none'; img-src data:; style-src 'unsafe-inline'; frame-ancestors 'self'; sandbox"
    ),
    "x-frame-options": "SAMEORIGIN",
}
"""Headers of an exported page shown inside a studio page: nothing in it is run, and its own policy allows
only its style sheet.
"""


def library_router(studio: Studio) -> APIRouter:
    """Routes for the library and its pictures."""
    routes = APIRouter(prefix="/api", tags=["library"])

    @routes.get("/library")
    def library() -> schemas.LibraryInfo:
        """What the library contains, which files were skipped and why, and duplicates."""
        return _info(studio)

    @routes.get("/library/pictures")
    def pictures(
        only: Annotated[Only, Depends()],
        offset: Offset = 0,
        limit: Limit = 200,
        q: Annotated[str, Query(max_length=500)] = "",
        order: Order = "path",
    ) -> schemas.PicturePage:
        """A page of the list of pictures; `q` searches file names and captions."""
        total, found, months = studio.library_page.page(offset, limit, q, only, order)
        return schemas.PicturePage(total=total, items=tuple(map(PictureItem.of, found)), months=months)

    @routes.get("/library/left-out")
    def left_out(offset: Offset = 0, limit: Limit = 200) -> Page[Problem]:
        """A page of the list of skipped files, with the reasons."""
        every = studio.engine.store.skipped()
        return Page(total=len(every), items=tuple(every[offset : offset + limit]))

    @routes.get("/library/duplicates")
    def duplicates(offset: Offset = 0, limit: Limit = 100) -> Page[DuplicateGroup]:
        """A page of the list of duplicates and near-duplicates."""
        library = studio.engine.store
        return Page(total=library.counts().alike, items=_groups(library, offset, limit))

    @routes.get("/pictures/{picture}")
    def picture_record(picture: Identifier) -> PictureItem:
        """One picture."""
        return PictureItem.of(checked(studio, picture))

    @routes.get("/pictures/{picture}/thumbnail", response_class=Response)
    def thumbnail(
        picture: Identifier,
        side: Annotated[int, Query(ge=1, le=1600)] = 256,
        if_none_match: Annotated[str | None, Header()] = None,
    ) -> Response:
        """A thumbnail; its longer side is the requested size or the next larger one."""
        found, side = checked(studio, picture), side_for(side)
        headers = _cached(f'"{picture[:32]}-{side}"')
        if headers["etag"] in (if_none_match or ""):
            return Response(status_code=304, headers=headers)
        # what lies in a project is deleted with it
        in_project = studio.editor.projects.folder in Path(found.path).parents
        made = studio.thumbnails.make(found, side) if in_project else studio.thumbnails.get(found, side)
        return Response(made, media_type=MEDIA_TYPE, headers=headers)

    @routes.get("/pictures/{picture}/file", response_class=Response)
    def file(picture: Identifier, if_none_match: Annotated[str | None, Header()] = None) -> Response:
        """The picture's file; for formats that browsers do not show, a WebP copy."""
        found = checked(studio, picture)
        headers = _cached(f'"{picture}"')
        if headers["etag"] in (if_none_match or ""):
            return Response(status_code=304, headers=headers)
        sent = original(found)
        headers |= {
            "content-disposition": f'inline; filename="{sent.name}"',
            # The user's file is shown as a picture and never runs as a page.
            "content-security-policy": "default-src 'none'; sandbox",
        }
        return Response(sent.data, media_type=sent.media_type, headers=headers)

    @routes.post("/library/folders", status_code=202)
    def add_folder(folder: schemas.AddFolder) -> schemas.JobStarted:
        """Index a folder of this machine; the job reports its progress."""
        studio.local()
        return schemas.JobStarted(job=studio.jobs.add_folder(Path(folder.path), forget=folder.forget).id)

    @routes.get("/jobs")
    def jobs() -> list[schemas.JobStatus]:
        """All running jobs."""
        found = [*studio.jobs.running("folder"), *studio.jobs.running("project")]
        return [job.status for job in found]

    @routes.get("/jobs/{job}")
    def job_status(job: str) -> schemas.JobStatus:
        """Status of a job."""
        return studio.jobs.get(job).status

    @routes.post("/jobs/{job}/cancel")
    def cancel(job: str) -> schemas.JobStatus:
        """Cancel a job. Pictures already indexed stay; an unfinished storyboard is discarded."""
        found = studio.jobs.get(job)
        found.stop.set()
        return found.status

    @routes.get(
        "/jobs/{job}/events",
        response_class=StreamingResponse,
        responses={200: {"content": {"text/event-stream": {}}}},
    )
    async def events(job: str) -> StreamingResponse:
        """The status of a job, sent whenever it changes, until the job ends."""
        return StreamingResponse(_status_events(studio.jobs.get(job)), media_type="text/event-stream")

    return routes


def _done(
    jobs: Jobs,
    prefer: str,
    title: str,
    work: Callable[[Progress], Made],
    named: Callable[[Made], str],
    *,
    visit: Stoppable,
    queued: bool = True,
) -> Made | Response:
    """Result of some work, or the job in which it continues (RFC 7240).

    Args:
        jobs: jobs of the studio.
        prefer: the header: `respond-async` starts a job, and `wait` is the number of seconds to wait for its
            end.
        title: title of the text.
        work: does the work.
        named: gives the id of the project.
        visit: stops the work when the client disconnects; a job continues.
        queued: see `Jobs.illustrate`.
    """
    if ASYNC not in prefer:
        return work(visit)
    made: list[Made] = []

    def kept(progress: Progress) -> str:
        made.append(work(progress))
        return named(made[0])

    job = jobs.illustrate(title, kept, queued=queued)
    wait = _WAIT.search(prefer)
    if wait is not None and job.thread is not None:
        job.thread.join(min(float(wait[1]), WAIT_S))
        if job.error is not None:
            raise job.error
        if job.status.state == "done":
            return made[0]
    headers = {"location": f"/api/jobs/{job.id}", "preference-applied": ASYNC}
    return JSONResponse(schemas.JobStarted(job=job.id).model_dump(), 202, headers)


def _cached(tag: str) -> dict[str, str]:
    """Headers of responses that never change."""
    return {"etag": tag, "cache-control": "private, max-age=31536000, immutable"}


async def _status_events(job: Job) -> AsyncIterator[str]:
    last = None
    while True:
        status = job.status
        if status != last:
            last = status
            yield f"data: {status.model_dump_json()}\n\n"
        if status.state != "running":
            return
        await asyncio.sleep(EVENT_S)


def checked(studio: Studio, picture: str) -> Picture:
    """The record of a picture of the library, or of one that the text of a project shows.

    Raises:
        ProblemError: there is no such picture.
    """
    if not _ID.fullmatch(picture):
        raise ProblemError(404, "a picture is named by 64 hex digits, its SHA-256", kind="unknown-picture")
    try:
        return studio.engine.store.pictures([picture])[0]
    except DataError as error:
        shown = studio.editor.projects.picture(picture)
        if shown is not None:
            return shown
        raise ProblemError(404, str(error), kind="unknown-picture") from error


def _groups(library: Store, offset: int, limit: int) -> tuple[DuplicateGroup, ...]:
    return tuple(
        DuplicateGroup(group=group, pictures=tuple(map(PictureItem.of, pictures)))
        for group, pictures in library.duplicates(offset, limit)
    )


def _info(studio: Studio) -> schemas.LibraryInfo:
    asked, running = studio.engine.illustrator(), studio.jobs.running("folder")
    library, left_out = studio.engine.store, studio.engine.store.skipped()
    counts = library.counts()
    return schemas.LibraryInfo(
        name=asked.name,
        pictures=counts.pictures,
        files=counts.files,
        captioned=counts.captioned,
        indexed_at=datetime.fromtimestamp(counts.changed_s, UTC),
        sources=counts.sources,
        spaces=tuple(sorted(counts.spaces)),
        channels=asked.channel_names,
        calibrated=asked.calibrated,
        relations=asked.relations,
        left_out=tuple(left_out[:LEFT_OUT]),
        left_out_count=len(left_out),
        duplicates=_groups(library, 0, DUPLICATES),
        duplicate_groups=counts.alike,
        model=None if asked.model is None else asked.model.folder.resolve().name,
        metric=None if asked.metric is None else asked.metric.folder.resolve().name,
        writable=studio.writable,
        job=running[0].id if running else None,
        wording=schemas.Wording(
            channels=schemas.CHANNELS,
            relations={name: sentence(name) for name in asked.relations},
            layouts={suffix[1:]: layouts for suffix, layouts in LAYOUTS.items()},
            paged=tuple(suffix[1:] for suffix in PAGED),
        ),
    )


def project_router(studio: Studio) -> APIRouter:
    """Routes for projects."""
    routes = APIRouter(prefix="/api", tags=["projects"])
    editor = studio.editor

    @routes.get("/projects")
    def projects() -> list[ProjectSummary]:
        """All projects, the last changed first."""
        return editor.summaries()

    @routes.post("/projects", status_code=201, response_model=Project, responses=LATER)
    def create(request: schemas.ProjectRequest, visit: Visit, prefer: Prefer = "") -> Project | Response:
        """Create a project: illustrate a text and save the result.

        Responds when the project is done. A long text takes minutes: with `Prefer: respond-async` a job is
        started and returned at once, to be followed and cancelled; its final status gives the id of the
        project.
        """

        def work(progress: Progress) -> Project:
            return editor.create(
                request.text,
                format=request.format,
                by=request.by,
                title=request.title,
                options=request.options,
                progress=progress,
            )

        return _done(studio.jobs, prefer, request.title, work, lambda made: made.id, visit=visit)

    @routes.post(DOCUMENTS.removeprefix("/api"), status_code=201, response_model=Project, responses=LATER)
    def document(  # noqa: PLR0917
        name: Annotated[str, Query(min_length=1, max_length=2000)],
        data: Annotated[bytes, Body(media_type="application/octet-stream")],
        visit: Visit,
        by: Segmentation | None = None,
        title: Annotated[str, Query(max_length=500)] = "",
        named: Annotated[tuple[str, ...], Query(max_length=MOST_NAMED)] = (),
        order: Arrangement = "taken",
        fill: bool = False,
        prefer: Prefer = "",
    ) -> Project | Response:
        """Create a project of a file: a text, a Word document or a PDF; the last two become Markdown.

        Its pictures are stored with the project. `named`, `order` and `fill` are those of the storyboard
        options. `Prefer` as for other projects.
        """
        file = " ".join(re.split(r"[/\\]", name)[-1].split())[:200]

        def work(progress: Progress) -> Project:
            return editor.open(
                data,
                file,
                by=by,
                title=title,
                options=BoardOptions(named=named, order=order, fill=fill),
                progress=progress,
            )

        return _done(studio.jobs, prefer, title or file, work, lambda made: made.id, visit=visit)

    @routes.get("/projects/{project}")
    def get(project: str) -> Project:
        """The current state of a project."""
        return editor.get(project)

    @routes.delete("/projects/{project}", status_code=204)
    def remove(project: str) -> None:
        """Move a project to the trash folder; nothing is deleted."""
        editor.projects.remove(project)

    @routes.post("/projects/{project}/duplicate", status_code=201)
    def duplicate(project: str) -> Project:
        """Copy a project; the copy has a history of its own."""
        return editor.duplicate(project)

    @routes.get("/trash")
    def trash() -> list[Trashed]:
        """Projects in the trash, the last removed first."""
        return editor.projects.trashed()

    @routes.post("/trash/{item}/restore")
    def restore(item: str) -> Project:
        """Restore a project from the trash."""
        return editor.get(editor.projects.restore(item))

    @routes.post("/projects/{project}/edits", response_model=Changes, responses=LATER)
    def edit(
        project: str, request: schemas.EditRequest, visit: Visit, prefer: Prefer = ""
    ) -> Changes | Response:
        """Change a project; only the steps that the change affects are chosen again.

        Returns what differs from the named revision; `GET` returns the whole project. A change of an earlier
        revision is made if nothing that it affects has changed since. With `Prefer: respond-async, wait=1`, a
        change that takes longer than a second continues as a job.
        """
        editor.projects.check(project)

        def work(progress: Progress) -> Changes:
            now = editor.edit(project, request.revision, request.edit, key=request.key, progress=progress)
            return editor.changes(now, request.revision)

        return _done(studio.jobs, prefer, "", work, lambda _: project, visit=visit, queued=False)

    @routes.post("/projects/{project}/preview", response_model=schemas.Preview, responses=LATER)
    def preview(
        project: str, request: schemas.PreviewRequest, visit: Visit, prefer: Prefer = ""
    ) -> schemas.Preview | Response:
        """Preview what would change if all unlocked steps were chosen again; nothing is changed.

        `Prefer` as for edits; when the job is done, the same request gets the result at once.
        """
        editor.projects.check(project)

        def work(progress: Progress) -> schemas.Preview:
            return editor.preview(project, request.revision, request.options, progress=progress)

        return _done(studio.jobs, prefer, "", work, lambda _: project, visit=visit, queued=False)

    @routes.post("/projects/{project}/undo")
    def undo(project: str, request: schemas.ChangeRequest) -> Project:
        """Undo the last change."""
        return editor.undo(project, request.revision, request.key)

    @routes.post("/projects/{project}/redo")
    def redo(project: str, request: schemas.ChangeRequest) -> Project:
        """Redo the last undone change."""
        return editor.redo(project, request.revision, request.key)

    @routes.get("/projects/{project}/steps/{step}/candidates")
    def candidates(
        project: str,
        step: int,
        visit: Visit,
        limit: Annotated[int, Query(ge=1, le=200)] = 40,
        relation: Annotated[str | None, Query(min_length=1, max_length=100)] = None,
    ) -> schemas.Strip:
        """Candidates for one step with all other steps unchanged, best first."""
        return editor.strip(project, step, limit, relation, progress=visit)

    _add_exports(routes, editor)

    @routes.get("/projects/{project}/preferences")
    def preferences(project: str) -> list[Choice]:
        """Replacements made in this project and not undone; they stay on this machine."""
        return [one for one in editor.projects.read(project).choices if not one.withdrawn]

    @routes.get("/preferences", response_class=Response)
    def every_preference(consent: Annotated[str, Query(max_length=10)] = "") -> Response:
        """Replacements of all projects as JSON lines, if the user consents to export them.

        Format as of `limner study preferences`: query, context, preferred, rejected, time and library.
        """
        if consent != "yes":
            raise ProblemError(
                403, "your choices leave the studio only with your consent: add consent=yes", kind="consent"
            )
        if not editor.projects.folder.is_dir():
            raise ProblemError(422, "there are no projects yet, so nothing was replaced", kind="malformed")
        found = read_preferences(editor.projects.folder)
        lines = "".join(f"{one.model_dump_json()}\n" for one in found)
        headers = {"content-disposition": 'attachment; filename="preferences.jsonl"'}
        return Response(lines.encode("utf-8"), media_type="application/x-ndjson", headers=headers)

    return routes


def search_router(studio: Studio) -> APIRouter:
    """Routes for search and for storyboards that are not saved."""
    routes = APIRouter(prefix="/api", tags=["search"])

    @routes.post("/search")
    def search(question: schemas.SearchRequest) -> schemas.SearchAnswer:
        """Find pictures by words, or similar to a picture."""
        asked = studio.engine.illustrator()
        note = None
        only, without = question.only or Only(), question.without
        used = studio.library_page.used() if only.used is not None else frozenset()
        if question.occasion is not None:
            of_day = studio.engine.store.page(
                0, sys.maxsize, only=Only(occasion=question.occasion), order="oldest"
            )[1]
            others = [Candidate(picture=one, score=0.0) for one in of_day if one.id != question.occasion]
            found = Matches(others[: question.limit], searched=len(others))
        elif question.text is not None and question.text.strip():
            note = asked.query_note(question.text, 'the field "without":')
            found = asked.search(
                question.text,
                question.limit,
                question.relation,
                without=without,
                only=only,
                used=used,
                min_probability=question.min_probability,
            )
        else:
            shown = question.picture or asked.look_at(question.image or b"", "image")
            found = asked.like(
                shown, question.limit, added=question.added, without=without, only=only, used=used
            )
        return schemas.SearchAnswer(
            items=tuple(
                schemas.Found(
                    picture=PictureItem.of(one.picture),
                    score=one.score,
                    channels=one.channels,
                    probability=one.probability,
                    matched=one.matched,
                )
                for one in found
            ),
            note=note or "",
            searched=found.searched,
            below=found.below,
        )

    @routes.post("/illustrate")
    def illustrate(request: schemas.IllustrateRequest, visit: Visit) -> Board:
        """Choose a picture for every step of a text; nothing is saved."""
        story = checked_length(read_text(request.text, by=request.by, format=request.format).story)
        options = request.options or BoardOptions()
        return illustrate_story(studio.engine.illustrator(), story, options, progress=visit)

    return routes


def _add_exports(routes: APIRouter, editor: ProjectEditor) -> None:
    """Add the routes that export a storyboard."""

    @routes.get("/projects/{project}/export", response_class=Response)
    def export(
        project: str,
        plan: Annotated[Plan, Depends()],
        format: ExportFormat = "html",  # noqa: A002
    ) -> Response:
        """Export the storyboard as a file, with alt text and credits; Markdown is returned as a ZIP with its
        pictures.
        """
        found = editor.get(project)
        made = exported(found.board, found.title, format, plan)
        headers = {"content-disposition": made.disposition}
        if made.warnings:
            headers["limner-warnings"] = str(len(made.warnings))
            headers["limner-notes"] = quote("\n".join(made.warnings[:NOTES]))
        return Response(made.data, media_type=made.media_type, headers=headers)

    @routes.get("/projects/{project}/export/preview", response_class=Response)
    def export_preview(
        project: str,
        plan: Annotated[Plan, Depends()],
        format: ExportFormat = "html",  # noqa: A002
    ) -> Response:
        """Preview the beginning of an export inside a page of the studio; for PDF, the exact pages."""
        found = editor.get(project)
        made = previewed(found.board, found.title, format, plan)
        return Response(made.data, media_type=made.media_type, headers=FRAMED)
