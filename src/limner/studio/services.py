"""What the routes of a studio work with, put together once.

Routes stay thin and tests can build a studio without a server. It does nothing by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from limner.studio.engine import Engine
from limner.studio.jobs import Jobs
from limner.studio.pictures import Thumbnails
from limner.studio.projects import Projects
from limner.studio.workshop import Workshop


@dataclass(frozen=True)
class Studio:
    """What the routes work with.

    Attributes:
        engine: the library.
        workshop: the projects.
        thumbnails: small copies of pictures.
        jobs: indexing that is under way.
        writable: whether folders may be added: only where this machine alone can ask.
    """

    engine: Engine
    workshop: Workshop
    thumbnails: Thumbnails
    jobs: Jobs
    writable: bool

    @classmethod
    def of(
        cls,
        engine: Engine,
        projects: Path,
        thumbnails: Path,
        *,
        weights: tuple[str, ...] = (),
        writable: bool = True,
    ) -> Studio:
        """A studio over a library.

        Args:
            engine: the library.
            projects: folder of the projects.
            thumbnails: folder of the cache.
            weights: as of ``limner index --weights``, for folders that are added.
            writable: whether folders may be added.
        """
        return cls(
            engine,
            Workshop(engine, Projects(projects)),
            Thumbnails(thumbnails),
            Jobs(engine, weights),
            writable,
        )
