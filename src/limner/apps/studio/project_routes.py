"""Routes of projects: made, changed, undone, exported, moved to the trash.

A change names the revision it is meant for; another one meanwhile makes it a conflict. They keep nothing
themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Annotated, ParamSpec, TypeVar

from fastapi import APIRouter, Query
from fastapi.responses import Response

from limner.apps.studio.exports import ExportFormat, exported
from limner.apps.studio.history import Choice
from limner.apps.studio.projects import UnknownProjectError
from limner.apps.studio.schemas import CandidateList, EditRequest, ProjectRequest, RevisionRequest
from limner.apps.studio.services import Studio
from limner.apps.studio.views import Project, ProjectSummary
from limner.apps.studio.workshop import StaleError
from limner.apps.study.preferences import read_preferences
from limner.apps.web.problems import ProblemError

P = ParamSpec("P")
T = TypeVar("T")


def _refusing(act: Callable[P, T]) -> Callable[P, T]:
    """Tell an unknown project and a stale revision by statuses of their own."""

    @wraps(act)
    def done(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return act(*args, **kwargs)
        except UnknownProjectError as error:
            raise ProblemError(404, str(error), kind="unknown-project") from error
        except StaleError as error:
            raise ProblemError(409, str(error), kind="stale-revision", title="Stale revision") from error

    return done


def router(studio: Studio) -> APIRouter:
    """The routes over a studio."""
    routes = APIRouter(prefix="/api", tags=["projects"])
    workshop = studio.workshop

    @routes.get("/projects")
    def projects() -> list[ProjectSummary]:
        """All projects, the one changed last first."""
        return workshop.summaries()

    @routes.post("/projects", status_code=201)
    def create(request: ProjectRequest) -> Project:
        """Illustrate a text and keep it."""
        return workshop.create(
            request.text,
            format=request.format,
            by=request.by,
            title=request.title,
            options=request.options,
        )

    @routes.get("/projects/{project}")
    @_refusing
    def get(project: str) -> Project:
        """A project as it is."""
        return workshop.get(project)

    @routes.delete("/projects/{project}", status_code=204)
    @_refusing
    def remove(project: str) -> None:
        """Move a project to the trash folder; nothing is destroyed."""
        workshop.projects.remove(project)

    @routes.post("/projects/{project}/edits")
    @_refusing
    def edit(project: str, request: EditRequest) -> Project:
        """Change a project; the steps that are free are chosen for anew."""
        return workshop.edit(project, request.revision, request.edit)

    @routes.post("/projects/{project}/undo")
    @_refusing
    def undo(project: str, request: RevisionRequest) -> Project:
        """Take the last change back."""
        return workshop.undo(project, request.revision)

    @routes.post("/projects/{project}/redo")
    @_refusing
    def redo(project: str, request: RevisionRequest) -> Project:
        """Do again what was taken back last."""
        return workshop.redo(project, request.revision)

    @routes.get("/projects/{project}/steps/{step}/candidates")
    @_refusing
    def candidates(
        project: str,
        step: int,
        limit: Annotated[int, Query(ge=1, le=200)] = 40,
        relation: Annotated[str | None, Query(min_length=1, max_length=100)] = None,
    ) -> CandidateList:
        """Pictures for one step, the others staying as they are; best first."""
        return CandidateList(items=tuple(workshop.strip(project, step, limit, relation)))

    @routes.get("/projects/{project}/export", response_class=Response)
    @_refusing
    def export(project: str, format: ExportFormat = "html") -> Response:  # noqa: A002
        """The storyboard as a file, with alt text and credits; Markdown comes as a ZIP with its pictures."""
        found = workshop.get(project)
        made = exported(found.board, found.title, format)
        headers = {"content-disposition": made.disposition}
        if made.warnings:
            headers["limner-warnings"] = str(len(made.warnings))
        return Response(made.data, media_type=made.media_type, headers=headers)

    @routes.get("/projects/{project}/preferences")
    @_refusing
    def preferences(project: str) -> list[Choice]:
        """Replacements the user made here and did not take back; they stay on this machine."""
        return [one for one in workshop.projects.read(project).choices if not one.withdrawn]

    @routes.get("/preferences", response_class=Response)
    def every_preference(consent: Annotated[str, Query(max_length=10)] = "") -> Response:
        """Replacements of all projects as JSON lines, for a user who agrees to hand them on.

        Lines as of `limner study preferences`: query, context, preferred, rejected, time and library.
        """
        if consent != "yes":
            raise ProblemError(
                403, "your choices leave the studio only with your consent: add consent=yes", kind="consent"
            )
        if not workshop.projects.folder.is_dir():
            raise ProblemError(422, "there are no projects yet, so nothing was replaced", kind="malformed")
        found = read_preferences(workshop.projects.folder)
        lines = "".join(f"{one.model_dump_json()}\n" for one in found)
        headers = {"content-disposition": 'attachment; filename="preferences.jsonl"'}
        return Response(lines.encode("utf-8"), media_type="application/x-ndjson", headers=headers)

    return routes
