"""Routes that only ask: search, and storyboards that nobody keeps.

They turn records of limner into answers. They change nothing.
"""

from __future__ import annotations

from fastapi import APIRouter

from limner.apps.studio.asking import made
from limner.apps.studio.drafting import read_text
from limner.apps.studio.schemas import Found, IllustrateRequest, PictureItem, SearchAnswer, SearchRequest
from limner.apps.studio.services import Studio
from limner.data.storyboards import Storyboard
from limner.retrieval.storyboard import BoardOptions


def router(studio: Studio) -> APIRouter:
    """The routes over a studio."""
    routes = APIRouter(prefix="/api", tags=["search"])

    @routes.post("/search")
    def search(question: SearchRequest) -> SearchAnswer:
        """Find pictures by words, or more like a picture."""
        asked = studio.engine.illustrator()
        note = None
        if question.picture is not None:
            found = asked.like(question.picture, question.limit)
        else:
            found = asked.search(question.text or "", question.limit, question.relation)
            note = asked.language_note(question.text or "")
        return SearchAnswer(
            items=tuple(
                Found(
                    picture=PictureItem.of(one.picture),
                    score=one.score,
                    channels=one.channels,
                    matched=one.matched,
                )
                for one in found
            ),
            note=note or "",
        )

    @routes.post("/illustrate")
    def illustrate(request: IllustrateRequest) -> Storyboard:
        """Choose a picture for every step of a text; nothing is kept."""
        story = read_text(request.text, request.format, request.by).story
        return made(studio.engine.illustrator(), story, request.options or BoardOptions())

    return routes
