"""Runs `limner` commands one after the other, each in a process forked from one with large packages loaded.

    python golden_server.py FOLDER < lines of JSON

A line is a list of words; for each, the exit status is printed as a line. What the command wrote is then
in the files out and err of FOLDER, in which all commands run. It knows of limner no more than its name.
"""

import json
import os
import runpy
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path

# Packages that commands need and that start no thread: loaded once, which saves seconds each time.
LOADED = (
    "torch",
    "torch.export",
    "torchvision",
    "scipy.optimize",
    "scipy.stats",
    "scipy.sparse",
    "scipy.spatial",
)
LOADED += (
    "pandas",
    "pyarrow.dataset",
    "lance_namespace",
    "lxml.etree",
    "markdown_it",
    "httpcore",
    "rich.console",
)
LOADED += (
    "sklearn.cluster",
    "matplotlib.figure",
    "tokenizers",
    "cyclopts",
    "jinja2",
    "fpdf",
    "pptx",
    "trafilatura",
)


def limner(words: list[str], folder: Path) -> None:
    """Become the command."""
    for number, name in enumerate(("out", "err"), start=1):
        os.dup2(os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    sys.argv[1:] = words
    try:
        runpy.run_module("limner", run_name="__main__", alter_sys=True)
    except SystemExit as left:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(left.code or 0)  # to take torch down again costs seconds


def main() -> None:
    """Answer until the input ends."""
    folder = Path(sys.argv[1])
    os.chdir(folder)
    for name in LOADED:
        with suppress(ImportError):
            import_module(name)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            limner(json.loads(line), folder.parent)
            return
        sys.stdout.write(f"{os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
