"""``limner studio`` that reads texts itself and loads networks late; other tests run it as it is."""

from limner.cli.main import main
from limner.text.read import parse_story_report
from limner.text.worker import READER


def read(text, *, progress=None, **how):
    """As `limner.text.worker.ReaderProcesses.read`; that both read the same is held by its tests."""
    return parse_story_report(text, **how)


if __name__ == "__main__":
    from limner.studio import app

    READER.read, app._warm = read, lambda engine: None
    main()
