"""``limner studio`` in which each text is held, half of its first portion read, until its job is to stop."""

from limner.cli.main import main
from limner.studio.jobs import Stoppable

advance = Stoppable.advance


def held(job: Stoppable, count: int) -> None:
    """Count half, and go no further; looks at whether to go on, which count nothing, pass."""
    advance(job, count // 2)
    if count:
        job.stop.wait()


if __name__ == "__main__":
    Stoppable.advance = held
    main()
