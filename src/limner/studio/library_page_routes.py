"""Routes that change the library from its page: uploads, folders and captions.

Only this machine may use them. Requests name no path on the disk except that of a folder to list.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body, Query

from limner.errors import DataError, counted
from limner.store import Described, Facets, PictureWords
from limner.store.index import IndexReport
from limner.studio.jobs import FolderJob
from limner.studio.routes import Identifier, Studio, checked
from limner.studio.schemas import BatchStarted, JobStarted
from limner.studio.uploads import FolderList, UploadBatch, UploadedFile, list_folder

BATCHES = "/api/library/batches/"


def library_page_router(studio: Studio) -> APIRouter:
    """Routes of the library page."""
    routes = APIRouter(prefix="/api", tags=["library"])
    uploads = studio.uploads

    @routes.get("/library/facets")
    def facets() -> Facets:
        """Folders, months and shapes by which pictures can be filtered, with the number of each."""
        return studio.library_page.facets()

    @routes.get("/folders")
    def folders(path: Annotated[str, Query(max_length=4096)] = "") -> FolderList:
        """Subfolders of a folder of this machine; by default of the user's home folder."""
        studio.local()
        return list_folder(path)

    @routes.get("/library/batches")
    def batches() -> list[UploadBatch]:
        """Uploads, latest first; each can be undone."""
        return uploads.listed(studio.engine.store)

    @routes.post("/library/batches", status_code=201)
    def begin() -> BatchStarted:
        """Start an upload."""
        studio.local()
        place = studio.engine.store.place
        if "://" in place:
            raise DataError(
                f"{place}: on object storage, where the studio keeps no pictures; put them into a"
                " folder or a bucket and add that"
            )
        return BatchStarted(batch=uploads.begin())

    @routes.post("/library/batches/{batch}/files", status_code=201)
    def add(
        batch: str,
        name: Annotated[str, Query(min_length=1, max_length=2000)],
        data: Annotated[bytes, Body(media_type="application/octet-stream")],
    ) -> UploadedFile:
        """Upload one picture: its content, under its file name; one that the library already has is
        listed in the upload but not stored again.
        """
        studio.local()
        return uploads.add(batch, name, data, studio.engine.store)

    @routes.post("/library/batches/{batch}/finish", status_code=202)
    def finish(batch: str) -> JobStarted:
        """Index the pictures of an upload."""
        studio.local()
        uploads.place(batch)
        return JobStarted(job=studio.jobs.begin(FolderJob(uploads.folder)).id)

    @routes.delete("/library/batches/{batch}", status_code=202)
    def take_back(batch: str) -> JobStarted:
        """Undo an upload: its pictures leave the library, and its files are moved to the trash folder."""
        studio.local()
        uploads.place(batch)

        def told(report: IndexReport) -> str:
            verb = "was" if report.deleted == 1 else "were"
            return f"{counted(report.deleted, 'file')} {verb} removed; moved to {uploads.trash}"

        job = FolderJob(uploads.folder, forget=True, before=lambda: uploads.discard(batch), told=told)
        return JobStarted(job=studio.jobs.begin(job).id)

    @routes.get("/pictures/{picture}/words")
    def words(picture: Identifier) -> PictureWords:
        """The captions of a picture in use, those of its files, and that of a model.

        Coordinates are included only if no other machine can connect to the studio.
        """
        found = studio.library_page.words(checked(studio, picture).id)
        return found if studio.writable else found.model_copy(update={"coordinates": None, "place": ""})

    @routes.put("/pictures/{picture}/words")
    def write(picture: Identifier, words: Described) -> PictureWords:
        """Write captions and keywords of a picture, which replace those of its files; stored only in the
        library.
        """
        studio.local()
        return _written(studio, picture, words)

    @routes.delete("/pictures/{picture}/words")
    def forget(picture: Identifier) -> PictureWords:
        """Discard your words and use those of the picture's files and of a model again."""
        studio.local()
        return _written(studio, picture, None)

    return routes


def _written(studio: Studio, picture: str, words: Described | None) -> PictureWords:
    return studio.library_page.write(checked(studio, picture).id, words)
