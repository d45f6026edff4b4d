"""Routes by which a library is changed from its page: pictures brought and taken back, folders, words.

All of them are for this machine alone. No path from outside reaches the disk but that of a folder to list.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body, Query

from limner.errors import DataError, counted
from limner.server.problems import ProblemError
from limner.store.catalogue import Facets
from limner.store.known import IndexReport
from limner.store.words import Described, PictureWords
from limner.studio.bringing import Arrived, FolderList, UploadBatch, list_folder
from limner.studio.jobs import FolderJob
from limner.studio.routes import Identifier, Studio, checked
from limner.studio.schemas import BatchStarted, JobStarted

BATCHES = "/api/library/batches/"


def shelf_router(studio: Studio) -> APIRouter:
    """The routes over a studio."""
    routes = APIRouter(prefix="/api", tags=["library"])
    arrivals = studio.arrivals

    @routes.get("/library/facets")
    def facets() -> Facets:
        """What the pictures can be chosen by: folders, months, shapes; with the number of each."""
        return studio.shelf.facets()

    @routes.get("/folders")
    def folders(path: Annotated[str, Query(max_length=4096)] = "") -> FolderList:
        """The folders in a folder of this machine, the user's own unless one is named."""
        studio.local()
        return list_folder(path)

    @routes.get("/library/batches")
    def batches() -> list[UploadBatch]:
        """Pictures that were brought into the library, the latest first; each batch can be taken back."""
        return arrivals.listed()

    @routes.post("/library/batches", status_code=201)
    def begin() -> BatchStarted:
        """Begin to bring pictures."""
        studio.local()
        library = studio.engine.illustrator().library
        if library.store.shared:
            raise DataError(
                f"{library.place}: on object storage, where the studio keeps no pictures; put them into a"
                " folder or a bucket and add that"
            )
        return BatchStarted(batch=arrivals.begin())

    @routes.post("/library/batches/{batch}/files", status_code=201)
    def add(
        batch: str,
        name: Annotated[str, Query(min_length=1, max_length=2000)],
        data: Annotated[bytes, Body(media_type="application/octet-stream")],
    ) -> Arrived:
        """Bring one picture: its bytes, under the name of its file; one that is there already is not kept."""
        studio.local()
        return arrivals.add(batch, name, data, studio.engine.illustrator().catalogue)

    @routes.post("/library/batches/{batch}/finish", status_code=202)
    def finish(batch: str) -> JobStarted:
        """Read the pictures of a batch into the library."""
        studio.local()
        arrivals.place(batch)
        return JobStarted(job=studio.jobs.begin(FolderJob(arrivals.folder)).id)

    @routes.delete("/library/batches/{batch}", status_code=202)
    def take_back(batch: str) -> JobStarted:
        """Take the pictures of a batch out of the library again; their files go to its trash folder."""
        studio.local()
        arrivals.place(batch)

        def told(report: IndexReport) -> str:
            verb = "was" if report.deleted == 1 else "were"
            return f"{counted(report.deleted, 'file')} {verb} taken out; kept in {arrivals.trash}"

        job = FolderJob(arrivals.folder, forget=True, before=lambda: arrivals.discard(batch), told=told)
        return JobStarted(job=studio.jobs.begin(job).id)

    @routes.get("/pictures/{picture}/words")
    def words(picture: Identifier) -> PictureWords:
        """What is said about a picture, what its files say, and what a model says.

        The coordinates are told only where the studio is bound to this machine alone.
        """
        found = studio.shelf.words(checked(studio, picture).id)
        return found if studio.writable else found.model_copy(update={"coordinates": None})

    @routes.put("/pictures/{picture}/words")
    def write(picture: Identifier, words: Described) -> PictureWords:
        """Write about a picture, in place of what its files say; kept in the library alone."""
        studio.local()
        return _written(studio, picture, words)

    @routes.delete("/pictures/{picture}/words")
    def forget(picture: Identifier) -> PictureWords:
        """Discard your words and use what the files of a picture, and a model, say again."""
        studio.local()
        return _written(studio, picture, None)

    return routes


def _written(studio: Studio, picture: str, words: Described | None) -> PictureWords:
    if studio.jobs.running("folder"):
        raise ProblemError(409, "pictures are being read; wait for that to end, then write", kind="busy")
    return studio.shelf.write(checked(studio, picture).id, words)
