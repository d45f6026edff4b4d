"""``limner library``: where the library is and what it holds; backup, restoring and newer formats.

It prints; `limner.library.library`, `backup` and `migrate` do the work.
"""

from pathlib import Path

from cyclopts import App

from limner.cli.terminal import Flag, emit, emit_json, say
from limner.counts import counted
from limner.errors import LimnerError
from limner.locations import on_this_machine

library = App(
    name="library",
    help="Show where the library is and what it holds; back one up, restore it, bring it up to date.\n\n"
    "A command that names no --library takes $LIMNER_LIBRARY, else the library that a command used last, else"
    " the default library in your data folder; pictures are never read into the one used last.\n\n"
    "Example: limner library\n\nExample: limner library backup lib lib.zip",
)


@library.default
def show(*, library: Path | None = None, json: Flag = False) -> None:
    """Show where the library is and what it holds.

    Parameters
    ----------
    library
        Folder of the library, or its address on object storage; the one that other commands would take
        unless given.
    json
        Print it as JSON.
    """
    from limner.library.chosen import library_to_ask
    from limner.library.library import Library

    opened = Library.open(library_to_ask(library, say))
    holds = opened.summary()
    if json:
        emit_json({"library": opened.place, **holds.model_dump()})
        return
    gone = f", {counted(holds.skipped, 'file')} skipped" if holds.skipped else ""
    emit(f"library: {opened.place}")
    emit(f"pictures: {holds.pictures:,}, of which {holds.captioned:,} with words{gone}")
    for source in holds.sources:
        emit(f"indexed: {source}")
    for space, vectors in holds.vectors.items():
        emit(f"{space}: {counted(vectors, 'vector')} by {holds.spaces[space].encoder}")


@library.command
def backup(folder: Path, to: Path, /) -> None:
    """Write a library into one file: tables, words that you wrote, pictures brought in the studio, projects.

    The file appears whole or not at all, and is read back. A studio may run; while something is indexed it
    says so and stops. Pictures in folders of your own are not in it, nor are caches.

    Example: limner library backup lib ~/backups/lib.zip

    Parameters
    ----------
    folder
        Folder of the library.
    to
        The file, which is not there yet.
    """
    from limner.library.backup import backup as write_backup

    on_this_machine(folder, "copy it with the tools of the object store while nobody writes to it")
    made = write_backup(folder, to)
    emit(f"written and read back: {to} ({_held(len(made.files), made.size, made.projects)})")


@library.command
def restore(file: Path, folder: Path, /) -> None:
    """Make a library of a backup, in a new folder.

    Nothing that is there is written over. Where the folder is another one than the library had, its own
    pictures are named there.

    Example: limner library restore ~/backups/lib.zip lib

    Parameters
    ----------
    file
        As 'limner library backup' wrote it.
    folder
        Folder of the library to be made.
    """
    from limner.library.backup import restore as read_backup
    from limner.studio.projects import move_pictures

    on_this_machine(folder, "restore into a folder")
    made = read_backup(file, folder, move_projects=move_pictures)
    emit(f"restored: {folder} ({_held(len(made.files), made.size, made.projects)})")


@library.command
def migrate(folder: Path, /) -> None:
    """Bring a library that an earlier limner made to the format of this one.

    What it changes is first kept in a file in the library's folder, which you may delete afterwards. The
    projects are read, and those that this limner cannot read are named.

    Example: limner library migrate lib

    Parameters
    ----------
    folder
        Folder of the library.
    """
    from limner.library.backup import keep_changing
    from limner.library.migrate import upgrade
    from limner.library.store import FORMAT
    from limner.studio.projects import Projects

    on_this_machine(folder, f"libraries there are of format {FORMAT} already")
    kept = keep_changing(folder)
    before = upgrade(folder)
    if kept is None:
        emit(f"{folder}: of format {FORMAT} already")
    else:
        emit(f"{folder}: format {before} → {FORMAT}; what was changed is kept in {kept}")
    projects = Projects(folder / "projects")
    for one in sorted(projects.ids()):
        try:
            project = projects.read(one)
            projects.text(project), projects.board(project)
        except LimnerError as error:
            say(str(error))


def _held(files: int, size: int, projects: int) -> str:
    return f"{counted(files, 'file')}, {size / 1e6:,.1f} MB, {counted(projects, 'project')}"
